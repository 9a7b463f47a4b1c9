"""A job: messages that a worker handles one after another, or as one batch, and what becomes of them."""
from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .aio import AsyncClient
from .context import BatchContext, Context
from .errors import LeaseLost, NotSettled, QueendError, Refused, TransactionRefused, Unavailable
from .handlers import Handlers
from .lease import Lease
from .message import Message, Push
from .outcome import Dead, Later, Skip, described
from .settle import Settled, Verdict, settle
from .transaction import Operations

if TYPE_CHECKING:
    from .worker import Worker

FULL = 5.0      # s: pause of a message whose pushes found their queue full
PAUSE = 0.5     # s: least pause after a request that was unavailable until its deadline
log = logging.getLogger("queend.worker")


class Job:
    """Handles messages of one lease. stopping: whether the rest is to be given back instead of handled."""

    def __init__(self, worker: Worker, client: AsyncClient, handlers: Handlers, messages: Sequence[Message],
                 stopping: Callable[[], bool]):
        self.worker, self.messages = worker, list(messages)
        self._client, self._handlers, self._stopping = client, handlers, stopping
        self._lease: Lease | None = None
        self._handling: asyncio.Future[None] | None = None
        self._context: Context | None = None
        self._lost = False
        self.was_cut = False      # a handler was not waited for

    async def run(self, lease: Lease) -> None:
        """Handles all messages until one has to be delivered again, or the lease is lost."""
        self._lease = lease
        if self.worker.batch is not None:
            if self._stopping():
                await self._give_back(self.messages)
            else:
                try:
                    await self._batch()
                except Exception as error:
                    await self._failed(self.messages, error)
            return
        for place, message in enumerate(self.messages):
            if self._lost:
                return
            if self._stopping():
                await self._give_back(self.messages[place:])
                return
            try:
                if not await self._single(message):
                    return
            except Exception as error:
                await self._failed([message], error)
                return

    def lose(self) -> None:
        """Tells the handler that its messages go to another consumer."""
        self._lost = True
        if self._context is not None:
            self._context.lost = True
        if self._handling is not None:
            log.warning("worker %s: the lease of queue %s has ended", self.worker.name, self.worker.queue)
            self._handling.cancel()

    def cut(self) -> None:
        """Stops waiting for the handler."""
        if self._handling is not None:
            self.was_cut = True
            self._handling.cancel()

    async def _single(self, message: Message) -> bool:
        """Handles a message. Returns whether the next one of its partition may follow."""
        context = Context(self._stopping)
        error = await self._handle(message, context)
        if self._lost:
            return False
        if self.was_cut:
            await self._give_back([message])
            return False
        if error is None or isinstance(error, Skip):
            return await self._complete([message], context.kept if error is None else [])
        return await self._settle([self._verdict(message, error)], {id(message): error})

    async def _batch(self) -> None:
        """Handles all messages with one call."""
        context = BatchContext(self.messages, self._stopping)
        error = await self._handle(self.messages, context)
        if self._lost:
            return
        if self.was_cut:
            await self._give_back(self.messages)
        elif error is None or isinstance(error, Skip):
            await self._complete(context.completed, context.kept if error is None else [])
            await self._settle(context.verdicts, context.causes)
        else:
            causes = {id(message): error for message in self.messages} | context.causes
            await self._settle([self._verdict(message, causes[id(message)]) for message in self.messages], causes)

    async def _handle(self, argument: Any, context: Context) -> Exception | None:
        """Calls the handler inside the middleware. Returns what that raised."""
        self._context = context
        self._handling = self._handlers.handle(self.worker.handler, argument, context)
        try:
            await self._handling
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():      # the run has ended without this job
                raise
            return None if self._lost or self.was_cut else RuntimeError("the handler was cancelled")
        except Exception as error:
            return error
        finally:
            self._handling = None
        return None

    def _verdict(self, message: Message, error: Exception) -> Verdict:
        """Returns what an exception means for a message."""
        if isinstance(error, Later):
            return Verdict(message, "retry", delay=error.seconds)
        if isinstance(error, Dead):
            return Verdict(message, "dlq", str(error) or "dead")
        if isinstance(error, self.worker.dead):
            return Verdict(message, "dlq", described(error))
        log.error("worker %s: message %s of queue %s, attempt %d", self.worker.name, message.id, message.queue,
                  message.attempt, exc_info=error)
        backoff = self.worker.backoff
        delay = None if backoff is None else backoff.pause(message.attempt - 1, random.random())
        return Verdict(message, "failed", described(error), delay)

    async def _complete(self, messages: Sequence[Message], pushes: Sequence[Push]) -> bool:
        """Completes messages, with the pushes of their handler in one transaction. Returns whether that succeeded and
        the lease goes on. What the server cannot store is a failure of the messages."""
        if not pushes:
            return await self._settle([Verdict(message) for message in messages], {})
        operations = Operations(skip_duplicates=True)
        operations.ack(messages)
        if not messages:        # all of a batch have other verdicts: no acknowledgment names the lease
            operations.require(self.messages[0])
        for push in pushes:
            operations.add(push)
        while self._waits():
            try:
                await self._client.perform(operations.commit())
                return True
            except Unavailable as error:
                operations.doubted |= error.may_be_done
                await self._unavailable(error)
            except TransactionRefused as error:
                if error.reason == "rejected_ack":
                    log.warning("worker %s: nothing of message %s counts, it is delivered again: %s", self.worker.name,
                                messages[0].id if messages else "-", error)
                elif error.reason == "queue_full":
                    await self._settle([Verdict(message, "retry", delay=FULL) for message in messages], {})
                else:
                    await self._refused(messages, error)
                return False
            except Refused as error:
                await self._refused(messages, error)
                return False
        return False

    async def _refused(self, messages: Sequence[Message], error: Refused) -> None:
        await self._settle([self._verdict(message, error) for message in messages],
                           {id(message): error for message in messages})

    async def _failed(self, messages: Sequence[Message], error: Exception) -> None:
        """Counts a failure of messages whose verdict could not be made or handed in, for example because of an infinite
        delay. error: the reason."""
        log.error("worker %s: a job of queue %s failed", self.worker.name, self.worker.queue, exc_info=error)
        await self._settle([Verdict(message, "failed", described(error)) for message in messages],
                           {id(message): error for message in messages})

    async def _give_back(self, messages: Sequence[Message]) -> None:
        """Has messages delivered again at once, to others."""
        await self._settle([Verdict(message, "retry") for message in messages], {})

    async def _settle(self, verdicts: Sequence[Verdict], causes: dict[int, Exception]) -> bool:
        """Hands in verdicts, and calls on_dead for messages that became dead letters. causes: what the handler raised,
        by the identity of the message. Returns whether the verdicts count and the lease goes on."""
        doubted = False
        while verdicts and self._waits():
            try:
                settled = await self._client.perform(settle(verdicts, doubted))
            except Unavailable as error:
                doubted |= error.may_be_done
                await self._unavailable(error)
                continue
            except (LeaseLost, NotSettled) as error:
                log.warning("worker %s: %s", self.worker.name, error)
                return False
            except QueendError as error:
                log.error("worker %s: %s", self.worker.name, error)
                return False
            for one in settled:
                if one.dead:
                    await self._died(one, causes.get(id(one.verdict.message)))
            return not any(one.released for one in settled)
        return not verdicts

    async def _unavailable(self, error: Unavailable) -> None:
        """Pauses before the next attempt, not shorter than the server asked for."""
        log.warning("worker %s: %s", self.worker.name, error)
        if self._lease is not None:
            await self._lease.pause(max(PAUSE, error.retry_after))

    def _waits(self) -> bool:
        """Whether an unanswered request is worth another attempt: the messages are still those of this process."""
        return self._lease is not None and self._lease.live and not self._lost

    async def _died(self, settled: Settled, cause: Exception | None) -> None:
        """Calls on_dead, and stores what it pushes."""
        message, hook = settled.verdict.message, self.worker.on_dead
        log.error("worker %s: message %s of queue %s is a dead letter", self.worker.name, message.id, message.queue)
        if hook is None:
            return
        context = Context(self._stopping)
        try:
            await self._handlers.call(hook, (message, cause or Dead(settled.verdict.error or "")), context)
            await self._client.push_many(context.pushes)
        except Exception:
            log.exception("worker %s: on_dead of message %s", self.worker.name, message.id)
