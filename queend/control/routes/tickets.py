"""Tickets for streams of messages. A page cannot set a header of an EventSource or a WebSocket. So a client with a
token asks for a ticket and names it in the query of the stream: once, within seconds, at the same path
(core/auth/grants)."""
from __future__ import annotations

import secrets
import time

from fastapi import Request

from ...auth.levels import POP, WRITE
from ...auth.permits import allows_some
from ...auth.refused import lacking
from ..http.answer import Json, PathName, Refusal
from ..http.route import Routes
from ..http.schema import INTEGER, TEXT, whole

router = Routes("messages")
SECONDS = 5
TICKET = whole(ticket=TEXT, path=TEXT, expiresInSeconds=INTEGER)
END = "/ticket"


def minted(request: Request, queue: str) -> Json:
    ticket = secrets.token_urlsafe(32)
    path: bytes = request.scope["raw_path"].partition(b"?")[0].removesuffix(END.encode())
    grant = getattr(request.state, "grant", None)
    if grant is not None:
        if not allows_some(grant.rules, queue, POP):      # the stream names the group that it pops for
            raise Refusal(403, lacking(POP, queue), "forbidden")
        core = request.app.state.control.core
        if request.state.epoch != core.grants_epoch():
            raise Refusal(503, "Keys or settings of tokens changed during the request; try "
                               "again", "busy", {"Retry-After": "1"})
        if not core.ticket(
                ticket.encode(), path, int((time.time() + SECONDS) * 1e6), grant.level, grant.expires_us,
                grant.subject.encode(), grant.rules):
            raise Refusal(503, "Too many tickets are unused; try again", "busy", {"Retry-After": "1"})
    return Json({"ticket": ticket, "path": f"{path.decode('latin-1')}?ticket={ticket}", "expiresInSeconds": SECONDS},
                201, {"Cache-Control": "no-store"})


@router.declare("POST /api/v1/stream/{queue}/ticket", WRITE, TICKET, where="itself", own=True, status_code=201)
async def ticket_queue(request: Request, queue: PathName) -> Json:
    """Creates a ticket for one stream of the queue, for web pages, which cannot send a token with a stream. Request
    `path` from this daemon once, within `expiresInSeconds`. Without tokens every stream is open, and no ticket is
    needed."""
    return minted(request, queue)


@router.declare("POST /api/v1/stream/{queue}/partition/{partition}/ticket", WRITE, TICKET, where="itself", own=True,
                status_code=201)
async def ticket_partition(request: Request, queue: PathName, partition: PathName) -> Json:
    """Creates a ticket for one stream of a partition."""
    return minted(request, queue)
