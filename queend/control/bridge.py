"""Connects the core to an ASGI application.

The core signals an eventfd when requests wait; each becomes a task that runs the application once and hands the answer
over as a whole. Requests arrive complete, so `receive` never waits.

A connection has one task at a time. Its answers leave in the order of its requests anyway, and pages of others wait for
one request of each connection, not for all that it has pipelined.
"""
from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from .. import log

FAILED = (500, [(b"content-type", b"application/json")], b'{"error":"Internal server error","code":"internal"}')
STOPPED = (503, [(b"content-type", b"application/json")],
           b'{"error":"The server is shutting down","code":"unavailable"}')


class Bridge:
    """Serves `app` with the requests of `core` on the running loop between `open` and `close`. hold: takes requests
    that only wait for the verification of their token, with the token."""

    def __init__(self, core: Any, app: Any, server: tuple[str, int], hold: Callable[[int, bytes], None] | None = None):
        self.core = core
        self.app = app
        self.server = server
        self.hold = hold
        self.tasks: set[asyncio.Task] = set()
        self.behind: dict[str, deque[tuple]] = {}      # by connection that has a task: its further requests

    def open(self) -> None:
        self.fd = self.core.bridge_fileno()
        asyncio.get_running_loop().add_reader(self.fd, self._take)

    async def close(self) -> None:
        """Takes no more requests and ends the running ones: the core has given them the grace period."""
        asyncio.get_running_loop().remove_reader(self.fd)
        for behind in self.behind.values():
            while behind:
                self.core.bridge_reply(behind.popleft()[0], *STOPPED)
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
        task = asyncio.create_task(self._answer(*request))
        self.tasks.add(task)
        task.add_done_callback(partial(self._end, request[6]))

    def _end(self, client: str, task: asyncio.Task) -> None:
        """Begins the next request of a connection whose task has ended."""
        self.tasks.discard(task)
        if behind := self.behind[client]:
            self._begin(behind.popleft())
        else:
            del self.behind[client]

    async def _answer(self, token: int, method: str, path: bytes, query: bytes, headers: list[tuple[bytes, bytes]],
                      body: bytes, client: str) -> None:
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
                answer["body"] += event.get("body", b"")

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
