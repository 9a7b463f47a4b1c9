"""What a test gets: a client, names of its own, workers that run meanwhile."""
from __future__ import annotations

import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from ..client import App, Client

LOOK = 0.02     # s: between two looks at a queue


class Queues:
    """A client of the daemon at `url`, for one test. prefix: what the names of its queues begin with."""

    def __init__(self, url: str, test: str):
        self.url = url
        self.prefix = re.sub(r"[^\w.-]", "-", test)[:150] + "."
        self.client = Client(url)

    def __enter__(self) -> Queues:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def name(self, queue: str) -> str:
        """Returns the name of a queue that no other test uses."""
        return self.prefix + queue

    def delete(self, *queues: str) -> None:
        """Deletes queues with everything in them, for programs whose queues have fixed names."""
        for queue in queues:
            self.client.delete_queue(queue)

    @contextmanager
    def running(self, app: App, *workers: str) -> Generator[None, None, None]:
        """Runs workers of an app against this daemon while the block runs, whatever server the app names."""
        with app.running(*workers, url=self.url):
            yield

    def pending(self, queue: str, group: str | None = None) -> int:
        """Returns how many messages a group has not consumed; those on lease count."""
        return self.client.depth(queue, group)

    def await_empty(self, queue: str, group: str | None = None, seconds: float = 10.0) -> None:
        """Waits until a group has consumed all messages of a queue. Raises TimeoutError after so many seconds."""
        end = time.monotonic() + seconds
        while left := self.pending(queue, group):
            if time.monotonic() > end:
                raise TimeoutError(f"messages of {queue} that are not consumed after {seconds} s: {left}")
            time.sleep(LOOK)

    def dead(self, queue: str, group: str | None = None) -> list[dict[str, Any]]:
        """Returns the dead letters of a queue, the latest failure first."""
        answer = self.client.call("GET", "/api/v1/dlq", query={"queue": queue, "consumerGroup": group, "limit": 1000})
        return list(answer["messages"])
