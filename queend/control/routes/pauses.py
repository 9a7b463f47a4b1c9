"""Pause and resume of a queue, or of one of its groups: pops find nothing, and long polls wait; pushes, acknowledgments
and leases go on. The state is in the database (sql/function/paused.sql): every daemon obeys it, and it survives
restarts."""
from __future__ import annotations

from fastapi import Request

from ...auth.levels import WRITE
from ..database import rows
from ..http.answer import Json, PathName, not_found
from ..http.route import Routes
from ..http.schema import FLAG, TEXT, whole
from .groups import tell

router = Routes("queues")
PAUSE = "SELECT queend.pause(%s, %s, %s)"
OF_QUEUE = whole(queue=TEXT, paused=FLAG, changed=FLAG)
OF_GROUP = whole(queue=TEXT, consumerGroup=TEXT, paused=FLAG, changed=FLAG)


async def switch(request: Request, queue: str, group: str | None, paused: bool) -> Json:
    """Pauses or resumes. `changed` is false if no change was needed. Refuses an unknown queue or group."""
    ((outcome,),) = await rows(request, PAUSE, queue, group, paused)
    if outcome == "no_queue":
        raise not_found("Queue")
    if outcome == "no_group":
        raise not_found("Consumer group")
    if outcome == "changed":
        await tell(request, queue, moved=False)
    return Json({"queue": queue, **({} if group is None else {"consumerGroup": group}), "paused": paused,
                 "changed": outcome == "changed"})


@router.declare("POST /api/v1/queues/{queue}/pause", WRITE, OF_QUEUE, own=True, exact=True)
async def queue_pause(request: Request, queue: PathName) -> Json:
    """Pauses a queue: pops return no messages, whatever their group, and parked pops keep waiting. Pushes still
    work."""
    return await switch(request, queue, None, True)


@router.declare("POST /api/v1/queues/{queue}/resume", WRITE, OF_QUEUE, own=True, exact=True)
async def queue_resume(request: Request, queue: PathName) -> Json:
    """Resumes delivery from a queue, except for groups that are paused themselves."""
    return await switch(request, queue, None, False)


@router.declare("POST /api/v1/consumer-groups/{group}/queues/{queue}/pause", WRITE, OF_GROUP, own=True, tag="groups",
                exact=True)
async def group_pause(request: Request, group: PathName, queue: PathName) -> Json:
    """Pauses a group in a queue: its pops return no messages, and parked pops keep waiting. Other groups are not
    affected."""
    return await switch(request, queue, group, True)


@router.declare("POST /api/v1/consumer-groups/{group}/queues/{queue}/resume", WRITE, OF_GROUP, own=True, tag="groups",
                exact=True)
async def group_resume(request: Request, group: PathName, queue: PathName) -> Json:
    """Resumes delivery to a group, unless the queue is paused."""
    return await switch(request, queue, group, False)
