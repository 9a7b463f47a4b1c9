"""Connects the core to an ASGI application.

The core signals an eventfd when requests wait; each becomes a task that runs the application once and hands the answer
over as a whole. Requests arrive complete, so `receive` never waits.

A connection has one task at a time. Its answers leave in the order of its requests anyway, and pages of others wait for
one request of each connection, not for all that it has pipelined. The connections of an address have AT_ONCE tasks at a
time that may need the database, and as many for all else (probes, metrics, files). The rest of them waits, in order.
What waited is not begun if its client has left meanwhile.
"""
from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Any

from .. import log
from .fair_semaphore import SHARE, Share

FAILED = (500, [(b"content-type", b"application/json")], b'{"error":"Internal server error","code":"internal"}')
STOPPED = (503, [(b"content-type", b"application/json")],
           b'{"error":"The server is shutting down","code":"unavailable"}')
AT_ONCE = 64             # tasks of a share
GONE: tuple[int, list[Any], bytes] = (503, [], b"")    # ends a request whose client has left: nobody reads it
LARGE_BYTES = 131_072    # a larger body is large: parsed, it takes up to six times its size
LARGE_AT_ONCE = 1 << 20  # bytes of large bodies in tasks; one body alone may be larger


def share_of(request: tuple) -> Share:
    """Returns the client's address, and whether the request may need the database. The address is an IPv4 address, or
    the /64 of an IPv6 address, as in the core."""
    path, address = request[2], request[6].rpartition(":")[0]
    if address.startswith("["):
        number = ipaddress.IPv6Address(address[1:-1].partition("%")[0])
        address = str(number.ipv4_mapped or int(number) >> 64)
    return address, path.startswith((b"/api/", b"/streams/"))


class Bridge:
    """Serves `app` with the requests of `core` on the running loop between `open` and `close`. hold: takes requests
    that only wait for the verification of their token, with the token."""

    def __init__(self, core: Any, app: Any, server: tuple[str, int], hold: Callable[[int, bytes], None] | None = None):
        self.core = core
        self.app = app
        self.server = server
        self.hold = hold
        self.tasks: set[asyncio.Task] = set()
        self.behind: dict[str, deque[tuple]] = {}      # by connection with a request in hand: its further requests
        self.running: Counter[Share] = Counter()       # tasks
        self.waiting: dict[Share, deque[tuple]] = {}   # requests that wait for the end of a task
        self.large: Counter[str] = Counter()           # by address: bytes of large bodies in tasks
        self.heavy: dict[str, deque[tuple]] = {}       # by address, in turns: requests that wait for room

    def open(self) -> None:
        self.fd = self.core.bridge_fileno()
        asyncio.get_running_loop().add_reader(self.fd, self._take)

    async def close(self) -> None:
        """Takes no more requests and ends the running ones: the core has given them the grace period."""
        asyncio.get_running_loop().remove_reader(self.fd)
        for requests in (*self.behind.values(), *self.waiting.values(), *self.heavy.values()):
            while requests:
                self.core.bridge_reply(requests.popleft()[0], *STOPPED)
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)

    def _take(self) -> None:
        for request in self.core.bridge_take():  # empties the eventfd too
            if not request[1]:
                assert self.hold
                self.hold(request[0], request[5])
                continue
            if request[6] in self.behind:
                self.behind[request[6]].append(request)
            else:
                self.behind[request[6]] = deque()
                self._begin(request)

    def _begin(self, request: tuple) -> None:
        """Begins a request, or lets it wait if its share has AT_ONCE tasks."""
        share = share_of(request)
        if self.running[share] >= AT_ONCE:
            self.waiting.setdefault(share, deque()).append(request)
            return
        self.running[share] += 1
        if len(request[5]) <= LARGE_BYTES:
            self._start(share, request)
        elif share[0] not in self.heavy and self._has_room(share[0], len(request[5])):
            self.large[share[0]] += len(request[5])
            self._start(share, request)
        else:
            self.heavy.setdefault(share[0], deque()).append(request)

    def _has_room(self, address: str, size: int) -> bool:
        """Returns whether a large body may be parsed beside the others. At the bound, an address still has one body, or
        half of the bound, until all addresses have twice the bound."""
        used, own = self.large.total(), self.large[address]
        return not used or used + size <= LARGE_AT_ONCE or (
            (not own or own + size <= LARGE_AT_ONCE // 2) and used + size <= 2 * LARGE_AT_ONCE)

    def _start(self, share: Share, request: tuple) -> None:
        task = asyncio.create_task(self._answer(share, *request))
        self.tasks.add(task)
        task.add_done_callback(partial(self._end, share, request[6], len(request[5])))

    def _end(self, share: Share, client: str, size: int, task: asyncio.Task) -> None:
        """Begins what waited for the end of a task: a request of its share, the next one of its connection, and
        requests with large bodies, one of each address in turn."""
        self.tasks.discard(task)
        if size > LARGE_BYTES:
            self.large[share[0]] -= size
            if not self.large[share[0]]:
                del self.large[share[0]]
            self._start_heavy()
        self.running[share] -= 1
        if not self.running[share]:
            del self.running[share]
        if waiting := self.waiting.get(share):
            self._begin(waiting.popleft())
            if not waiting:
                del self.waiting[share]
        if behind := self.behind[client]:
            self._begin(behind.popleft())
        else:
            del self.behind[client]

    def _start_heavy(self) -> None:
        """Starts waiting requests with large bodies while there is room, one of each address in turn."""
        started = True
        while started:
            started = False
            for address in list(self.heavy):
                requests = self.heavy[address]
                if requests and self._has_room(address, size := len(requests[0][5])):
                    started = True
                    request = requests.popleft()
                    del self.heavy[address]
                    if requests:
                        self.heavy[address] = requests     # behind the other addresses
                    self.large[address] += size
                    self._start(share_of(request), request)

    async def _answer(self, share: Share, token: int, method: str, path: bytes, query: bytes,
                      headers: list[tuple[bytes, bytes]], body: bytes, client: str) -> None:
        if not self.core.bridge_wanted(token):
            self.core.bridge_reply(token, *GONE)
            return
        scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1",
                 "scheme": "http", "method": method, "path": path.decode("latin-1"), "raw_path": path,
                 "query_string": query, "root_path": "", "headers": [(name.lower(), value) for name, value in headers],
                 "client": (client, 0), "server": self.server, "state": {}}
        inbox = [{"type": "http.request", "body": body, "more_body": False}]
        answer: dict[str, Any] = {"status": 0, "headers": [], "body": b""}

        async def receive() -> dict:
            return inbox.pop() if inbox else {"type": "http.disconnect"}

        async def send(event: dict) -> None:
            if event["type"] == "http.response.start":
                answer["status"], answer["headers"] = event["status"], list(event.get("headers", ()))
            else:
                body = event.get("body", b"")     # often the only part, and then not copied
                answer["body"] = answer["body"] + body if answer["body"] and body else answer["body"] or body

        SHARE.set(share)
        try:
            await self.app(scope, receive, send)
            reply = (answer["status"], answer["headers"], answer["body"])
            if not answer["status"]:
                raise RuntimeError("the application sent no answer")
        except asyncio.CancelledError:
            reply = STOPPED
        except Exception as error:  # the client needs an answer in any case
            log.line("error", "request_failed", repr(error), method=method, path=scope["path"])
            reply = FAILED
        self.core.bridge_reply(token, *reply)
