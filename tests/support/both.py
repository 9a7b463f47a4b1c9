"""Both clients behind the methods of the one that waits, so that a test says everything once."""
from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from queend.client import AsyncClient, Client, Message, Record, Transaction

from .proxy import CUT, Proxy


class Waiting:
    """An AsyncClient whose loop runs in a thread, with the methods of Client."""

    def __init__(self, *arguments: Any, **more: Any):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        try:
            self.inner = self.wait(self._made(*arguments, **more))
        except BaseException:
            self._stop()
            raise

    async def _made(self, *arguments: Any, **more: Any) -> AsyncClient:
        return AsyncClient(*arguments, **more)

    def wait(self, awaitable: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(awaitable, self.loop).result()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)
        return lambda *arguments, **more: self.wait(method(*arguments, **more))

    @property
    def server(self) -> str:
        return self.inner.server

    def close(self) -> None:
        self.wait(self.inner.close())
        self._stop()

    def _stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    @contextmanager
    def transaction(self, **more: Any) -> Iterator[Transaction]:
        one = self.inner.transaction(**more)
        yield self.wait(one.__aenter__())
        self.wait(one.__aexit__(None, None, None))

    def fetch(self, *arguments: Any, **more: Any) -> Iterator[Record]:
        records = self.inner.fetch(*arguments, **more)

        def each() -> Iterator[Record]:
            while True:
                try:
                    yield self.wait(anext(records))
                except StopAsyncIteration:
                    return

        return each()

    @contextmanager
    def stream(self, *arguments: Any, **more: Any) -> Iterator[Iterator[Message]]:
        stream = self.inner.stream(*arguments, **more)
        messages = self.wait(stream.__aenter__())

        def each() -> Iterator[Message]:
            while True:
                yield self.wait(messages.__anext__())

        try:
            yield each()
        finally:
            self.wait(stream.__aexit__(None, None, None))


KINDS = {"sync": Client, "async": Waiting}


class Lossy(Proxy):
    """A network between client and daemon that loses requests, or their answers, on demand. lost: how many."""

    def __init__(self, target: int):
        self.path, self.left, self.answers, self.lost = b"", 0, False, 0
        self.doomed: set[Any] = set()
        super().__init__(target)
        self.rule = self._rule

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def lose(self, path: str, answers: bool, times: int = 1) -> None:
        """Loses the next requests whose line begins so, or their answers."""
        self.path, self.answers, self.left = path.encode(), answers, times

    def _rule(self, to_server: bool, data: bytes) -> list[Any]:
        if to_server and self.left and data.startswith(self.path):
            self.left -= 1
            self.lost += 1
            if not self.answers:
                return [CUT]
            self.doomed.add(self.speaks)
        if not to_server and self.speaks in self.doomed:
            self.doomed.discard(self.speaks)
            return [CUT]
        return [data]
