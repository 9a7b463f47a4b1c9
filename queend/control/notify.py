"""POST /internal/api/notify: somebody stored messages past this daemon; who waits for them looks now."""
from __future__ import annotations

from fastapi import Request

from ..auth.levels import ADMIN
from .answer import Json, Refusal, body_object
from .route import Routes
from .words import TEXT, body, record, whole

router = Routes("system")


@router.declare("POST /internal/api/notify", ADMIN, whole(status={"const": "ok"}), where="body.queue",
                body=body(record(["queue"], queue=TEXT, partition=TEXT)),
                example={"queue": "orders", "partition": "customer-7"})
async def notify(request: Request) -> Json:
    """Wakes the pops that are parked on a queue: its partitions are looked at afresh, the one that is named among
    them."""
    wanted = await body_object(request)
    queue, partition = wanted.get("queue"), wanted.get("partition")
    if not isinstance(queue, str) or not queue or "\0" in queue:
        raise Refusal(400, "queue is required", "invalid_request")
    if partition is not None and not isinstance(partition, str):
        raise Refusal(400, "partition must be text", "invalid_request")
    request.app.state.control.core.notify(queue)
    return Json({"status": "ok"})
