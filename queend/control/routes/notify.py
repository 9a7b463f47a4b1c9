"""POST /internal/api/notify: another program stored messages past this daemon, so parked pops look now. Other daemons
send their packets here if there is no UDP between them (docs/peers.md)."""
from __future__ import annotations

from typing import Any

from fastapi import Request

from ..._core import peers_heard
from ...auth.levels import ADMIN
from ...services.peers import has_notices
from ..http.answer import Json, Refusal
from ..http.body import body_object
from ..http.route import Routes
from ..http.schema import TEXT, body, record, whole

router = Routes("system")
HEAD = 108      # bytes of a packet's head, whose bytes 2 and 3 give the length of the rest


@router.declare("POST /internal/api/notify", ADMIN, whole(status={"const": "ok"}), where="body.queue",
                body=body(record(["queue"], queue=TEXT, partition=TEXT)),
                example={"queue": "orders", "partition": "customer-7"})
async def notify(request: Request) -> Json:
    """Wakes pops that are parked on a queue and reloads its partitions, among them the named one. Other daemons of the
    database are notified as well. With the media type `application/x-queend-notices`: packets of another daemon
    (docs/peers.md), authorised by QUEEN_SYNC_SECRET."""
    if has_notices(request.scope["headers"]):
        return _packets(request.app.state.control, await request.body())
    wanted = await body_object(request)
    queue, partition = wanted.get("queue"), wanted.get("partition")
    if not isinstance(queue, str) or not queue or "\0" in queue:
        raise Refusal(400, "queue is required", "invalid_request")
    if partition is not None and not isinstance(partition, str):
        raise Refusal(400, "partition must be text", "invalid_request")
    request.app.state.control.core.notify(queue)
    return Json({"status": "ok"})


def _packets(control: Any, body: bytes) -> Json:
    if not control.peers.on:
        raise Refusal(409, "This daemon has no peers (QUEEN_UDP_PEERS, QUEEN_PEERS)", "no_peers")
    while body:
        size = HEAD + int.from_bytes(body[2:4], "big")
        if not peers_heard(body[:size]):
            raise Refusal(403, "The packet is not from a daemon with the same QUEEN_SYNC_SECRET", "forged_notice")
        body = body[size:]
    return Json({"status": "ok"})
