"""The engine of workers: takes messages, keeps their leases, and hands jobs to handlers, in an event loop of its own
that no handler can stop."""
from __future__ import annotations

import asyncio
import itertools
import logging
import random
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .aio import AsyncClient
from .attempts import Backoff
from .errors import NoToken, QueendError, Refused, Unavailable
from .handlers import Handlers
from .job import Job
from .lease import Lease
from .message import Message

if TYPE_CHECKING:
    from .worker import Worker

PAUSES = Backoff(initial=0.5, max=30.0)     # after requests for messages that failed
log = logging.getLogger("queend.worker")


class Engine:
    """Feeds one worker. stop: set when no more messages are to be taken."""

    def __init__(self, worker: Worker, client: AsyncClient, handlers: Handlers, stop: asyncio.Event):
        self.worker, self._client, self._handlers, self._stop = worker, client, handlers, stop
        self.jobs: dict[asyncio.Task[None], Job] = {}
        self.cuts = 0       # jobs whose handler was not waited for
        self._room = asyncio.Event()

    async def run(self) -> None:
        """Takes messages until the stop, and waits for the jobs. Raises Refused if the first request is refused. Other
        failures are logged and tried again: as errors, unless the server is away."""
        failures, answered = 0, False
        while not self._stop.is_set():
            free = self.worker.concurrency - len(self.jobs)
            if free <= 0:
                self._room.clear()
                await self._room.wait()
                continue
            sent = time.monotonic()
            try:
                messages = await self._pop(free)
            except QueendError as error:
                if isinstance(error, Refused) and not answered:
                    raise
                pause = PAUSES.pause(failures, random.random())
                if isinstance(error, Unavailable):
                    pause = max(pause, error.retry_after)
                failures += 1
                away = isinstance(error, Unavailable) and not isinstance(error, NoToken)
                log.log(logging.WARNING if away else logging.ERROR, "worker %s: %s; next attempt in %.1f s",
                        self.worker.name, error, pause)
                await self._stopped_within(pause)
                continue
            failures, answered = 0, True
            if messages:
                self._begin(messages, sent)
        while self.jobs:
            await asyncio.wait(self.jobs)

    def cut(self) -> None:
        """Stops waiting for handlers."""
        for job in self.jobs.values():
            job.cut()

    async def _pop(self, free: int) -> list[Message]:
        worker = self.worker
        batch, partitions = (max(free, worker.prefetch), free) if worker.batch is None else (
            worker.batch, worker.partitions)
        return await self._client.pop(worker.queue, group=worker.group, batch=batch, partitions=partitions,
                                      wait=worker.poll, lease=worker.lease, start=worker.start,
                                      conflation=worker.conflation)

    def _begin(self, messages: Sequence[Message], sent: float) -> None:
        """Begins jobs for what one request brought. Their lease is extended until the last of them ends."""
        jobs = [Job(self.worker, self._client, self._handlers, part, self._stop.is_set)
                for part in self._parts(messages)]
        left = len(jobs)

        def lost() -> None:
            for job in jobs:
                job.lose()

        lease = Lease(self._client, messages[0], self.worker.lease, sent, lost)

        def ended(task: asyncio.Task[None]) -> None:
            nonlocal left
            left -= 1
            if not left:
                lease.close()
            self.cuts += self.jobs.pop(task).was_cut
            self._room.set()
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("worker %s: a job failed", self.worker.name, exc_info=error)

        for job in jobs:
            task = asyncio.create_task(job.run(lease))
            self.jobs[task] = job
            task.add_done_callback(ended)

    def _parts(self, messages: Sequence[Message]) -> Iterator[list[Message]]:
        """Yields what is handled one after another: a partition's messages, or all of a batch."""
        if self.worker.batch is not None:
            yield list(messages)
            return
        for _, part in itertools.groupby(messages, key=lambda message: message.partition_id):
            yield list(part)

    async def _stopped_within(self, seconds: float) -> None:
        """Waits for the stop, at most so long."""
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except asyncio.TimeoutError:
            pass
