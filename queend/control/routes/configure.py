"""POST /api/v1/configure: create a queue, or change options of one."""
from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import orjson
import psycopg
from fastapi import Request
from psycopg.types.json import Jsonb

from ...auth.levels import WRITE
from ..http.answer import Json, Refusal
from ..http.body import body_object
from ..http.route import Routes
from ..http.schema import FLAG, ID, NAME, TEXT, body, like, record, whole
from ..options import OPTIONS, SWITCH, BadOption, checked
from .groups import tell

router = Routes("queues")
MODES = ("merge", "replace")
OPTIONS_SHAPE = whole(*(option.name for option in OPTIONS if option.own),
                      **{option.name: option.shape() for option in OPTIONS})
MADE = {"configured": True, "queueId": "797a957c-35c2-82ab-9eb6-1136a4b4fea3",
        "partitionId": "6adeecbc-e3c4-8e66-800e-544443089915", "queue": "orders", "namespace": "shop",
        "task": "billing", "options": {**{option.name: option.default for option in OPTIONS if not option.own},
                                       "leaseTime": 60, "retryLimit": 5}}
BODY = record(["queue"], queue={**NAME, "minLength": 1}, namespace=TEXT, task=TEXT, mode={"enum": list(MODES)},
              dryRun=FLAG, options={"type": "object", "properties": {
                  **{option.name: option.schema() for option in OPTIONS}, SWITCH: {"enum": ["on", "off"]}}})


@router.declare("POST /api/v1/configure", WRITE, like(
    whole("queueId", "partitionId", configured=FLAG, queueId=ID, partitionId=ID, queue=TEXT, namespace=TEXT, task=TEXT,
          options=OPTIONS_SHAPE), MADE), where="body.queue", body=body(BODY), example={
        "queue": "orders", "namespace": "shop", "task": "billing", "options": {"leaseTime": 60, "retryLimit": 5}})
async def configure(request: Request) -> Json:
    """Configures a queue, and creates it if it does not exist. Options that are not named keep their values; with
    `mode` `replace` they are reset to their defaults. With `dryRun` nothing is changed: the answer has what would be
    in force, `configured` false, and no ids."""
    body = await body_object(request)
    queue = body.get("queue")
    if not isinstance(queue, str) or not queue:
        raise Refusal(400, "queue is required", "queue_required")
    for field in ("queue", "namespace", "task"):
        _check_name(field, body.get(field))
    mode = body.get("mode")
    if mode not in (None, *MODES):
        raise Refusal(400, "mode must be merge or replace", "invalid_mode", success=False)
    dry_run = body.get("dryRun", False)
    if not isinstance(dry_run, bool):
        raise Refusal(400, "dryRun must be a boolean", "invalid_dry_run", success=False)
    control = request.app.state.control
    try:
        options = checked(body.get("options"))
    except BadOption as error:
        raise _bad(str(error)) from None
    options["mode"] = mode or ("reset" if control.settings.queend_configure_replaces else "merge")
    async with control.pool.connection() as connection, (
            connection.transaction(force_rollback=True) if dry_run else nullcontext()):
        try:
            row = await (await connection.execute("SELECT queend.configure(%s, %s, %s, %s)", (
                queue, _text(body.get("namespace")), _text(body.get("task")), Jsonb(options, orjson.dumps)))).fetchone()
        # an option with a form of its own, checked by the SQL function that stores it
        except psycopg.errors.InvalidParameterValue as error:
            raise _bad(f"options.{error.diag.message_primary}") from None
    if dry_run:
        return Json({name: value for name, value in row[0].items() if name not in ("queueId", "partitionId")}
                    | {"configured": False})
    await tell(request, queue, moved=False)
    return Json(row[0])


def _bad(error: str) -> Refusal:
    return Refusal(400, error, "invalid_option", success=False)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _check_name(field: str, value: Any) -> None:
    if isinstance(value, str) and (len(value.encode()) > 255 or "\0" in value):
        raise Refusal(400, f"{field} must have at most 255 bytes and no NUL", "invalid_name")
