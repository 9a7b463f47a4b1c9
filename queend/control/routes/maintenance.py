"""GET and POST /api/v1/system/maintenance and …/maintenance/pop, GET /api/v1/status/buffers."""
from __future__ import annotations

import time
from typing import Any

from fastapi import Request

from ...auth.levels import ADMIN, READ
from ..http.answer import Json, Refusal
from ..http.body import body_object
from ..http.route import Routes
from ..http.schema import FLAG, INTEGER, NUMBER, TEXT, body, record, whole
from ..http.schemas import integers
from .health import FATAL

router = Routes("system")

NONE = {"pending": 0, "bytes": 0, "oldest": 0.0, "failed": 0, "healthy": False, "away": False}
SWITCH = body(record(["enabled"], enabled=FLAG))
POP_SWITCH = whole(popMaintenanceMode=FLAG, message=TEXT)


async def switch(request: Request, which: str) -> bool:
    """Switches as the body says, and returns that value."""
    control = request.app.state.control
    enabled = (await body_object(request)).get("enabled")
    if not isinstance(enabled, bool):
        raise Refusal(400, "enabled (boolean) is required", "enabled_required")
    if which == "push" and enabled and control.core.buffer() is None:
        raise Refusal(400, "This daemon has no failover buffer (QUEEND_BUFFER_BYTES is 0)", "no_buffer")
    await control.maintenance.switch(which, enabled)
    return enabled


def database_answers(control: Any, buffer: dict[str, Any]) -> bool:
    """Returns whether any worker has a connection: the others follow it."""
    return not FATAL.intersection(control.core.database()["doubts"]) and not buffer["away"]


@router.declare("GET /api/v1/system/maintenance", ADMIN, whole(
    maintenanceMode=FLAG, popMaintenanceMode=FLAG, bufferedMessages=INTEGER, bufferHealthy=FLAG,
    bufferStats=whole(**integers("pendingCount", "failedCount"), dbHealthy=FLAG, failedFiles=whole(
        **integers("count", "totalBytes", "failoverCount", "qos0Count"), totalMB=NUMBER))))
async def maintenance(request: Request) -> Json:
    """Returns both maintenance modes and the failover buffer of this daemon."""
    control = request.app.state.control
    buffer, on = control.core.buffer() or NONE, control.maintenance.on
    return Json({"maintenanceMode": on["push"], "popMaintenanceMode": on["pop"], "bufferedMessages": buffer["pending"],
                 "bufferHealthy": buffer["healthy"], "bufferStats": {
                     "pendingCount": buffer["pending"], "failedCount": buffer["failed"],
                     "dbHealthy": database_answers(control, buffer), "failedFiles": {
                         "count": int(buffer["failed"] > 0), "totalBytes": 0, "totalMB": 0.0,
                         "failoverCount": buffer["failed"], "qos0Count": 0}}})


@router.declare("POST /api/v1/system/maintenance", ADMIN,
                whole(maintenanceMode=FLAG, bufferedMessages=INTEGER, bufferHealthy=FLAG, message=TEXT), body=SWITCH,
                example={"enabled": False})
async def set_maintenance(request: Request) -> Json:
    """Switches push maintenance. While it is on, every daemon stores pushes in its failover buffer, and no buffer is
    drained. `bufferedMessages`: the number of buffered messages at the switch."""
    buffer = request.app.state.control.core.buffer() or NONE
    enabled = await switch(request, "push")
    return Json({"maintenanceMode": enabled, "bufferedMessages": buffer["pending"], "bufferHealthy": buffer["healthy"],
                 "message": "Maintenance mode is on: pushes are buffered" if enabled else "Maintenance mode is off: "
                 "buffered messages are drained"})


@router.declare("GET /api/v1/system/maintenance/pop", ADMIN, POP_SWITCH)
async def pop_maintenance(request: Request) -> Json:
    """Returns whether pop maintenance is on."""
    return _pop(request.app.state.control.maintenance.on["pop"])


@router.declare("POST /api/v1/system/maintenance/pop", ADMIN, POP_SWITCH, body=SWITCH, example={"enabled": False})
async def set_pop_maintenance(request: Request) -> Json:
    """Switches pop maintenance. While it is on, pops of every daemon return no messages; parked pops keep waiting."""
    return _pop(await switch(request, "pop"))


def _pop(on: bool) -> Json:
    return Json({"popMaintenanceMode": on, "message": "Pop maintenance is on: pops find nothing" if on
                 else "Pop maintenance is off"})


@router.declare("GET /api/v1/status/buffers", READ,
                whole("note", **integers("pending", "failed", "worker", "bytes", "otherDatabases"), dbHealthy=FLAG,
                      oldestAgeSeconds=NUMBER, note=TEXT), tag="status")
async def buffers(request: Request) -> Json:
    """Returns the state of this daemon's failover buffer."""
    control = request.app.state.control
    buffer = control.core.buffer()
    shown = buffer or NONE
    return Json({"pending": shown["pending"], "failed": shown["failed"], "dbHealthy": database_answers(control, shown),
                 "worker": 0, "bytes": shown["bytes"],
                 "oldestAgeSeconds": round(max(0.0, time.time() - shown["oldest"]), 3) if shown["pending"] else 0.0,
                 "otherDatabases": len(control.folder.foreign),
                 **({} if buffer else {"note": "This daemon has no failover buffer"})})
