"""The client for asyncio, with the methods of Client."""
from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, TypeVar, Unpack

import httpx

from . import admin
from . import push as pushing
from . import settle as settling
from .admin import Group, Position, QueueOptions
from .attempts import Backoff
from .call import Call, Reply, Steps, advanced, encoded
from .fetch import Reading
from .link import TLS, Servers, Settings, URLs, reply, was_sent
from .message import DEFAULT, Message, Push, Record, Scheduled, Stored, seconds
from .pool import async_http
from .pop import Start, pop
from .settle import Messages, Settled, Verdict, verdicts
from .stream import SILENT, AsyncStream, opening
from .token import AsyncToken, awaited_text_of
from .transaction import Operations

Result = TypeVar("Result")


class AsyncClient:
    """A client of the server at `url`, or of one of several. token: a text, a File, or a function, also a coroutine
    function, that is called for each request.

    Times are in seconds. Methods raise Unauthorized, Forbidden, NotFound or another Refused if the server refuses the
    request, Unavailable if there is no answer until the deadline, and BadAnswer if the answer is not one of queend. The
    arguments are those of Settings."""

    def __init__(self, url: URLs = "http://127.0.0.1:6632", *, token: AsyncToken = None, deadline: float = 30.0,
                 timeout: float = 10.0, connections: int = 100, backoff: Backoff = Backoff(), tls: TLS = True):
        self.settings = Settings(url, deadline, timeout, connections, backoff, tls)
        self._servers = Servers(self.settings.urls)
        self._token = token
        self._http = async_http(self.settings)

    @property
    def server(self) -> str:
        """The URL that requests go to."""
        return self._servers.url

    async def close(self) -> None:
        """Closes all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        await self.close()

    async def push(self, queue: str, data: Any, *, partition: str = DEFAULT, id: str | None = None,
             delay: float | None = None, at: datetime | None = None, traceparent: str | None = None,
             headers: Mapping[str, str] | None = None) -> Stored:
        """Stores a message. The arguments are those of Push: delay in seconds, at with a time zone. After a lost answer
        it is sent again with the same id. Raises NotStored if the queue is full, and ValueError or TypeError for what
        cannot be stored."""
        one = Push(queue, data, partition, id, delay, at, traceparent, headers=headers)
        return await self.perform(pushing.push(one))

    async def push_many(self, pushes: Iterable[Push]) -> list[Stored]:
        """Stores messages with one request. Returns one result each, in order. After a lost answer it is sent again
        with the same ids. Raises NotStored if the server stored only some of them, and ValueError or TypeError for what
        cannot be stored."""
        return await self.perform(pushing.push_many(pushes))

    async def schedule(self, queue: str, data: Any, *, id: str, delay: float | None = None, at: datetime | None = None,
                 partition: str | None = None) -> Scheduled:
        """Stores a message that waits for `delay` seconds or until `at`, by default in a partition of its own, named
        `id`. Returns its names, for `cancel`. Raises what `push` raises."""
        place = id if partition is None else partition
        return await self.perform(pushing.scheduled(Push(queue, data, place, id, delay, at)))

    async def cancel(self, message: Scheduled) -> bool:
        """Deletes a message, whether it was delivered or not. Returns whether the server had it; after a lost answer
        False may also mean that the first attempt deleted it."""
        return await self.perform(pushing.cancel(message))

    async def pop(self, queue: str, *, group: str | None = None, partition: str | None = None, batch: int | None = None,
            partitions: int | None = None, wait: float = 0.0, lease: float | None = None, auto_ack: bool = False,
            start: Start = None, conflation: bool = False) -> list[Message]:
        """Takes up to `batch` messages of up to `partitions` partitions, under one lease. wait: seconds that the server
        waits for messages, from 0 to 115; lease: seconds, rounded up to whole ones, by default the queue's `leaseTime`;
        auto_ack: messages are consumed with the delivery; start: where a new group begins; conflation: a new group gets
        only the newest message of each partition, and warns (RuntimeWarning) if the group began without. Returns an
        empty list if there are none. After a lost answer it is sent again, unless auto_ack is set: then Unavailable
        with `may_be_done` is raised. Raises ValueError for times that are not possible, and for conflation without a
        group or with auto_ack."""
        return await self.perform(pop(queue, group=group, partition=partition, batch=batch, partitions=partitions,
                                   wait=wait, lease=lease, auto_ack=auto_ack, start=start, conflation=conflation))

    def fetch(self, queue: str, *, partition: str | None = None, offset: int | None = None,
              since: datetime | None = None, limit: int | None = None) -> AsyncIterator[Record]:
        """Reads stored messages of a queue, or of one partition, without a consumer group: nothing is delivered, and no
        cursor moves. Begins at the oldest stored message, at `offset` (of `partition`), or with the first messages
        stored at or after `since`. Ends after `limit` messages, or with the last one that was stored when the read
        began. Messages of a partition come in order. Options that delay or expire messages hide none; those that
        retention or a deletion removed are left out, and their offsets are missing. An answer of the server has up to
        1 MiB of payload. Raises ValueError for arguments that do not fit together; while it is read, NotFound without
        such a queue, and Refused for an offset behind the end of the partition (`code` is `OFFSET_OUT_OF_RANGE`)."""
        return self._fetched(Reading(queue, partition, offset, since, limit))

    def stream(self, queue: str, *, group: str | None = None, partition: str | None = None, credit: int | None = None,
               batch: int | None = None, partitions: int | None = None, lease: float | None = None,
               auto_ack: bool = False, release: bool = False, heartbeat: float = 15.0, start: Start = None,
               conflation: bool = False) -> AsyncStream:
        """Opens a stream of messages, for `async with`. credit: messages that may be out without an acknowledgment;
        lease: seconds, as for `pop`; release: the leases end with the stream; heartbeat: seconds between signs of life
        of a silent stream; lease and heartbeat are rounded up to whole seconds; conflation: as for `pop`, but the
        stream is refused if the group began without. A stream that breaks is opened again. While it is read, it raises
        Unavailable if that fails until the deadline, Refused if the server refuses it, and BadAnswer for events that
        are not of queend."""
        call = opening(queue, group=group, partition=partition, credit=credit, batch=batch, partitions=partitions,
                       lease=lease, auto_ack=auto_ack, release=release, heartbeat=heartbeat, start=start,
                       conflation=conflation)
        return AsyncStream(lambda: self._opened(call, SILENT * seconds(heartbeat)), self.settings.deadline)

    async def ack(self, messages: Messages) -> None:
        """Completes messages. Raises LeaseLost if some are delivered again instead, and NotSettled if some were
        acknowledged before; the others are completed."""
        await self.settle(verdicts(messages, "completed"))

    async def fail(self, messages: Messages, error: str | None = None, *, delay: float | None = None) -> list[Settled]:
        """Has messages delivered again, after `delay` seconds, and counts a failure. Without retries left they become
        dead letters with this error. Raises LeaseLost or NotSettled if some were refused; the others count."""
        return await self.settle(verdicts(messages, "failed", error, delay))

    async def retry(self, messages: Messages, *, delay: float | None = None) -> list[Settled]:
        """Has messages delivered again, after `delay` seconds, without counting a failure. Raises LeaseLost or
        NotSettled if some were refused; the others count."""
        return await self.settle(verdicts(messages, "retry", delay=delay))

    async def dead(self, messages: Messages, error: str | None = None) -> list[Settled]:
        """Makes messages dead letters. error: why, stored with them. Raises LeaseLost or NotSettled if some were
        refused; the others count."""
        return await self.settle(verdicts(messages, "dlq", error))

    async def settle(self, wanted: Sequence[Verdict]) -> list[Settled]:
        """Hands in verdicts of any kind, with one request for each consumer group. Returns one result each, in order.
        Raises LeaseLost or NotSettled if some were refused; the others count."""
        return await self.perform(settling.settle(wanted))

    async def extend(self, message: Message, seconds: float) -> datetime:
        """Makes the lease of a message, and of all that were delivered with it, end `seconds` from now, rounded up to
        whole ones, unless it ends later anyway. Returns its end. Raises LeaseLost if it has ended."""
        return await self.perform(settling.extend(message, seconds))

    def transaction(self, *, skip_duplicates: bool = False) -> AsyncTransaction:
        """Returns a transaction for `async with`, whose block collects what to do. It takes effect at the end of the
        block, or raises TransactionRefused; after an exception in the block it does nothing. skip_duplicates: a push
        whose id its partition holds already is left out, instead of refusing the transaction."""
        return AsyncTransaction(self, skip_duplicates)

    async def depth(self, queue: str, group: str | None = None) -> int:
        """Returns how many messages a group has not consumed; those on lease count. QUEUE_MODE names the consumers
        without a group. Without `group`, counts in each partition for the group that is furthest behind. A group that
        does not exist has all messages to consume. With more than 10 000 partitions the number may be some seconds old.
        Raises NotFound if there is no such queue."""
        return await self.perform(admin.depth(queue, group))

    async def groups(self, queue: str) -> list[Group]:
        """Returns the consumer groups of a queue with their lag, by name. An unknown queue has none."""
        return await self.perform(admin.groups(queue))

    async def seek(self, queue: str, group: str, to: Position, *, partition: str | None = None) -> int:
        """Moves the cursors of a group, in one partition or in all: to an offset, past the messages stored at or before
        a moment, to the `beginning` or to the `end`. Messages from there on are delivered, earlier ones are not. Leases
        of the group in these partitions end. Returns the number of partitions; of one partition, 0 if the cursor was
        already there. Raises NotFound if there is no such queue, group or partition, ValueError for another position,
        and Unavailable with `may_be_done` if the answer is lost."""
        return await self.perform(admin.seek(queue, group, to, partition))

    async def pause(self, queue: str, group: str | None = None) -> bool:
        """Pauses delivery from a queue, or to one group of it. Pushes, acknowledgments and leases go on. Returns
        whether that changed anything. Raises NotFound if there is no such queue or group."""
        return await self.perform(admin.switch("pause", queue, group))

    async def resume(self, queue: str, group: str | None = None) -> bool:
        """Resumes delivery from a queue, or to one group of it. A group is delivered to only if neither it nor its
        queue is paused. Returns whether that changed anything. Raises NotFound if there is no such queue or group."""
        return await self.perform(admin.switch("resume", queue, group))

    async def delete_group(self, queue: str, group: str) -> bool:
        """Deletes a group of a queue with its cursors; if consumers name it again, it begins as a new one. Returns
        whether it existed. Raises Unavailable with `may_be_done` if the answer is lost. Needs an admin token."""
        return await self.perform(admin.delete_group(queue, group))

    async def configure(self, queue: str, *, namespace: str | None = None, task: str | None = None,
                        replace: bool = False, **options: Unpack[QueueOptions]) -> QueueOptions:
        """Sets options of a queue, and creates it if it does not exist. Options that are not named keep their values;
        with `replace` they are reset to their defaults. Returns the options of the queue; those that Queen MQ lacks
        only if they were set. Raises TypeError for an unknown option, and Refused for a value that is not allowed."""
        return await self.perform(admin.configure(queue, namespace, task, replace, options))

    async def delete_queue(self, queue: str) -> bool:
        """Deletes a queue with its messages, groups and dead letters. Returns whether it existed. Raises Unavailable
        with `may_be_done` if the answer is lost. Needs an admin token."""
        return await self.perform(admin.delete_queue(queue))

    async def call(self, method: str, path: str, *, query: Mapping[str, str | int | bool | None] | None = None,
             body: Any = None) -> Any:
        """Requests any other route. Returns its JSON, or None for an answer without a body. Only GET is repeated after
        a lost answer; for another method Unavailable with `may_be_done` is raised. Raises NotFound for 404, and
        BadAnswer for what is no JSON."""
        sent = None if body is None else encoded(body)
        reply = await self._send(Call(method, path, query or {}, sent, method == "GET"))
        return reply.checked().json if reply.body else None

    async def perform(self, steps: Steps[Result]) -> Result:
        """Carries out an operation."""
        try:
            call = next(steps)
            while True:
                call = advanced(steps, call, (await self._send(call)).checked(call.accept))
        except StopIteration as end:
            result: Result = end.value
            return result

    async def _fetched(self, reading: Reading) -> AsyncIterator[Record]:
        """Yields the messages of a read."""
        while not reading.ended:
            for record in await self.perform(reading.page()):
                yield record

    async def _send(self, call: Call) -> Reply:
        """Sends a request, again if need be, and returns its answer."""
        attempts = self.settings.attempts(call, time.monotonic())
        renewed = False
        while True:
            url, token = self._servers.url, await awaited_text_of(self._token, attempts.may_be_done)
            request = self.settings.request(self._http, url, call, token, attempts.seconds(time.monotonic()))
            pause: float | None
            status: int | None = None
            try:
                answer = reply(await self._http.send(request), attempts.may_be_done)
            except httpx.RequestError as error:
                pause = attempts.failed(time.monotonic(), error, was_sent(error))
            else:
                if answer.status == 401 and not renewed and token != await awaited_text_of(self._token,
                                                                                           attempts.may_be_done):
                    renewed = True      # it was replaced on the way
                    continue
                pause = attempts.answered(time.monotonic(), answer)
                if pause is None:
                    return answer
                status = answer.status
            self._servers.failed(url, status)
            await asyncio.sleep(pause)

    @asynccontextmanager
    async def _opened(self, call: Call, quiet: float) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Opens a stream and gives its pieces. quiet: seconds after which a silent one is broken."""
        attempts = self.settings.attempts(call, time.monotonic())
        while True:
            url, token = self._servers.url, await awaited_text_of(self._token)
            request = self.settings.request(self._http, url, call, token, self.settings.timeout, quiet)
            try:
                answer = await self._http.send(request, stream=True)
            except httpx.RequestError as error:
                self._servers.failed(url)
                await asyncio.sleep(attempts.failed(time.monotonic(), error, was_sent(error)))
                continue
            try:
                if answer.status_code == 200:
                    yield answer.aiter_bytes()
                    return
                await answer.aread()
            finally:
                await answer.aclose()
            found = reply(answer, False)
            pause = attempts.answered(time.monotonic(), found)
            if pause is None:
                found.checked()
                return
            self._servers.failed(url, found.status)
            await asyncio.sleep(pause)


class AsyncTransaction(Operations):
    """A transaction of an AsyncClient."""

    def __init__(self, client: AsyncClient, skip_duplicates: bool):
        super().__init__(skip_duplicates)
        self._client = client

    async def __aenter__(self) -> AsyncTransaction:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        if kind is None:
            await self._client.perform(self.commit())
