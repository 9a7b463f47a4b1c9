"""/api/v1/migration: copies this database into another one, for the dashboard."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from fastapi import Request

from ...auth.levels import ADMIN
from ...services.copy_target import Address, Crowded
from ...services.transfer import EXCLUDABLE, Occupied, Transfer, TransferError
from ..http.answer import Json, Refusal
from ..http.body import body_object
from ..http.route import Routes
from ..http.schema import FLAG, INTEGER, NUMBER, TEXT, array, body, record, whole
from ..http.schemas import DONE

router = Routes("migration")
TARGET = {"host": "new.example", "port": "5433", "database": "moved", "user": "mover", "password": "secret"}

CONNECTION = {"host": TEXT, "port": TEXT, "database": TEXT, "user": TEXT, "password": TEXT, "ssl": FLAG,
              "sslRejectUnauthorized": FLAG}
ADDRESS = record(["host", "database", "user"], **CONNECTION)
START = record(["host", "database", "user"], **CONNECTION, schema=TEXT, overwrite=FLAG,
               excludeTableData={"type": "array", "items": TEXT})
PORTS = 65_535


def address(request: Request, given: dict[str, Any], missing: str) -> Address:
    """Returns the target's address. Refusal: 400 for missing values or those of another type, 403 for a target that the
    operator has not listed."""
    texts: dict[str, Any] = {name: given.get(name) for name in ("host", "database", "user")}
    if not all(texts.values()):
        raise Refusal(400, missing, "invalid_request")
    texts |= {"port": given.get("port") or "5432", "password": given.get("password") or ""}
    for name, value in texts.items():
        if not isinstance(value, str) or "\0" in value:
            raise Refusal(400, f"{name} must be a string", "invalid_request")
    if not (texts["port"].isascii() and texts["port"].isdigit() and 0 < int(texts["port"]) <= PORTS):
        raise Refusal(400, "port must be a number from 1 to 65535, as a string", "invalid_request")
    for name in ("ssl", "sslRejectUnauthorized"):
        if given.get(name) not in (None, True, False):
            raise Refusal(400, f"{name} must be true or false", "invalid_request")
    targets = request.app.state.control.settings.migration_targets()
    if not targets:
        raise Refusal(403, "Copying to another database is disabled: QUEEND_MIGRATION_TARGETS lists no target",
                      "migration_off", success=False)
    target = Address(**texts, ssl=bool(given.get("ssl")), verify=given.get("sslRejectUnauthorized") is not False)
    if not target.among(targets):
        raise Refusal(403, "The target is not listed in QUEEND_MIGRATION_TARGETS", "target_not_listed", success=False)
    return target


def transfer(request: Request) -> Transfer:
    return request.app.state.control.transfer


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Turns errors of a transfer into answers."""
    try:
        yield
    except Occupied as error:
        raise Refusal(409, str(error), "target_not_empty") from None
    except TransferError as error:
        raise Refusal(400, str(error), "connection_failed", success=False) from None
    except Crowded:
        raise Refusal(503, "Another connection test is running", "busy", {"retry-after": "1"}) from None


@router.declare("POST /api/v1/migration/test-connection", ADMIN, whole(success=FLAG, message=TEXT), body=body(ADDRESS),
                example=TARGET)
async def migration_test(request: Request) -> Json:
    """Tests the connection to a database."""
    target = address(request, await body_object(request), "host, database, and user are required")
    with told():
        reached = await transfer(request).answers(target)
    return Json({"success": reached, "message": "Connection successful" if reached else "Connection failed"})


@router.declare("POST /api/v1/migration/start", ADMIN, whole(status={"const": "started"}, message=TEXT),
                status_code=202, body=body(START), example={**TARGET, "excludeTableData": ["messages"]})
async def migration_start(request: Request) -> Json:
    """Creates the schemas `queend` and `queen` in the target and copies everything. 409 if another copy runs, or if a
    schema of the target is not empty. To confirm, repeat the request with `overwrite`, which drops these schemas."""
    given = await body_object(request)
    target = address(request, given, "target host, database, and user are required")
    if given.get("schema") not in (None, "", "queen"):
        raise Refusal(400, "schema must be queen", "invalid_request")
    without = given.get("excludeTableData") or []
    if not isinstance(without, list) or not all(isinstance(name, str) for name in without):
        raise Refusal(400, "excludeTableData must be a list of table names", "invalid_request")
    if transfer(request).running:
        raise Refusal(409, "Migration already in progress", "migration_running")
    if given.get("overwrite") not in (None, True, False):
        raise Refusal(400, "overwrite must be true or false", "invalid_request")
    with told():
        await transfer(request).start(target, [name for name in without if name in EXCLUDABLE],
                                      given.get("overwrite") is True)
    return Json({"status": "started", "message": "Migration started; see /api/v1/migration/status"}, 202)


@router.declare("GET /api/v1/migration/status", ADMIN,
                whole("error", "restoreOutput", status={"enum": ["idle", "dumping", "restoring", "complete", "error"]},
                      currentStep=TEXT, elapsedSeconds=NUMBER, error=TEXT, restoreOutput=TEXT))
async def migration_status(request: Request) -> Json:
    """Returns the state of the copy: idle, dumping (the target is being prepared), restoring (data is being copied),
    complete or error."""
    return Json(transfer(request).status())


@router.declare("POST /api/v1/migration/validate", ADMIN, whole(
    success=DONE, allMatch=FLAG, tables=array(whole(table=TEXT, sourceCount=INTEGER, targetCount=INTEGER, match=FLAG))),
                body=body(ADDRESS), example=TARGET)
async def migration_validate(request: Request) -> Json:
    """Compares row counts of source and target. Rows that were left out, or were added since, cause differences."""
    target = address(request, await body_object(request), "target host, database, and user are required")
    with told():
        tables = await transfer(request).compare(target)
    return Json({"success": True, "allMatch": all(one["match"] for one in tables), "tables": tables})


@router.declare("POST /api/v1/migration/reset", ADMIN, whole(status={"const": "idle"}, message=TEXT))
async def migration_reset(request: Request) -> Json:
    """Clears the result of the last copy. 409 while one runs."""
    if transfer(request).running:
        raise Refusal(409, "Cannot reset while migration is in progress", "migration_running")
    transfer(request).reset()
    return Json({"status": "idle", "message": "Migration state reset"})
