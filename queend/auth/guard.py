"""Guards the routes of the control plane, and verifies the tokens of requests that the core holds."""
from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from .. import log
from ..services.peers import has_notices
from ..settings.model import Settings
from .levels import PUBLIC, READ, UNKNOWN, queues_of, route_of
from .permits import allows
from .refused import NO_ROLE, Refused, lacking
from .token import Grant, Verifier

FAILED = Refused(500, "Internal server error")


def bearer_of(headers: list[tuple[bytes, bytes]]) -> bytes | None:
    """Returns the token: what follows `Bearer `, or the whole value of the first Authorization; None without one.
    Follows bearer_of of the core."""
    value = next((value for name, value in headers if name == b"authorization"), None)
    if value is not None and value[:6].lower() == b"bearer" and value[6:7] in (b"", b" "):
        return value[6:].lstrip(b" ")
    return value


class Guard:
    """Serves `app` behind its levels. Requires `open` and `close` on the running loop."""

    def __init__(self, settings: Settings, core: Any, app: Any, is_file: Callable[[str], bool],
                 cut: Callable[[], None]):
        """is_file: returns whether a path may be a file of a web application, which needs no token; cut: ends the
        requests that wait in the control plane on behalf of tokens verified before."""
        self.core, self.app, self.is_file, self.cut = core, app, is_file, cut
        self.skips = settings.open_paths()
        self.vouched = bool(settings.queen_sync_secret)
        self.verifier = Verifier(settings, self._end)
        self.held: dict[bytes, list[int]] = {}       # bearer token → requests of the core that wait for it
        self.tasks: set[asyncio.Task] = set()

    def open(self) -> None:
        self.verifier.open()

    async def close(self) -> None:
        await self.verifier.close()      # ends the fetch that these tasks wait for
        if self.tasks:
            await asyncio.wait(self.tasks)

    async def change(self, settings: Settings) -> None:
        """Takes over new keys, issuer and roles. Every token verified before is verified again."""
        before = self.verifier
        self.verifier = Verifier(settings, self._end, before)
        self.verifier.open()
        self._end()
        await before.close()      # requests that wait for its keys go on with the new ones (_verify)

    def refresh(self) -> None:
        """Fetches the key set again, without waiting for it. A key that is no longer in it ends all grants."""
        self.verifier.refresh()

    def _end(self) -> None:
        """Ends all grants: every token is verified again, those of streams and parked pops within a second."""
        self.core.grants_clear()
        self.cut()

    async def _verify(self, bearer: bytes) -> Grant:
        while True:
            verifier = self.verifier
            try:
                grant = await verifier.verify(bearer)
            except Refused:
                if verifier is self.verifier:
                    raise
            if verifier is self.verifier:      # else the keys have changed meanwhile
                return grant

    # -- routes of the control plane ---------------------------------------------------------------------------------

    async def __call__(self, scope: dict, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            event = await receive()      # requests arrive whole

            async def again() -> dict:
                nonlocal event
                given, event = event, {"type": "http.disconnect"}
                return given

            try:
                await self._admit(scope, event.get("body", b""))
            except Refused as refused:
                status, headers, body = refused.answer()
                await send({"type": "http.response.start", "status": status, "headers": headers})
                await send({"type": "http.response.body", "body": body})
                return
            receive = again
        await self.app(scope, receive, send)

    async def _admit(self, scope: dict, body: bytes) -> None:
        path = scope["raw_path"].partition(b"?")[0].decode("latin-1")
        route, parameters = route_of(scope["method"], path)
        if scope["method"] == "OPTIONS" or self._skips(path):
            return
        bearer = bearer_of(scope["headers"])
        # packets of other daemons carry their own proof of origin; the route checks it (control/routes/notify)
        if bearer is None and path == "/internal/api/notify" and self.vouched and has_notices(scope["headers"]):
            return
        if route.level == PUBLIC and (path != "/health" or bearer is None):
            scope["state"]["brief"] = True
            return
        # a web application is served to anyone, without its data
        if route is UNKNOWN and scope["method"] == "GET" and self.is_file(path):
            return
        if bearer is None:
            raise Refused(401, "Authentication required")
        if not bearer:
            raise Refused(401, "Empty token")
        grant = await self._verify(bearer)
        epoch = self.core.grants_epoch()
        if path == "/health":
            scope["state"]["brief"] = grant.level < READ
        if grant.level < route.level:
            raise Refused(403, "Insufficient permissions" if grant.level else NO_ROLE)
        if grant.rules is not None:
            group = unquote(parameters["group"], errors="replace") if "group" in parameters else None
            for queue in queues_of(route, parameters, scope["query_string"], body):
                if not allows(grant.rules, queue, route.verb, group):
                    raise Refused(403, lacking(route.verb, queue, group))
        scope["state"]["grant"] = grant
        scope["state"]["epoch"] = epoch

    def _skips(self, path: str) -> bool:
        return any(path == skip or (len(skip) > 1 and skip.endswith("/") and path.startswith(skip))
                   for skip in self.skips)

    # -- requests the core holds -------------------------------------------------------------------------------------

    def hold(self, request: int, bearer: bytes) -> None:
        """Verifies the token and lets the request go on, or answers it. Verifies a token once, however many requests
        wait for it."""
        waiting = self.held.setdefault(bearer, [])
        waiting.append(request)
        if len(waiting) == 1:
            task = asyncio.create_task(self._release(bearer))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _release(self, bearer: bytes) -> None:
        refused = None
        try:
            self._grant(bearer, await self._verify(bearer))
        except Refused as error:
            refused = error
        except Exception as error:  # the clients need an answer in any case
            log.line("error", "token_not_verified", type(error).__name__)
            refused = FAILED
        for request in self.held.pop(bearer):
            if refused:
                self.core.bridge_reply(request, *refused.answer())
            else:
                self.core.bridge_resume(request)

    def _grant(self, bearer: bytes, grant: Grant) -> None:
        self.core.grant(bearer, grant.level, grant.expires_us, grant.subject.encode(), grant.rules)
