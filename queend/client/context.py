"""What a handler gets beside its message."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from .message import DEFAULT, Message, Push
from .outcome import InvalidPayload
from .settle import Verdict


class Context:
    """Collects what a handler stores. `lost`: the lease has ended, so the message goes to another consumer, and what
    the handler does from now on counts for nothing here; `stopping`: the worker is being stopped. Handlers in threads
    look at both; coroutines are cancelled."""

    def __init__(self, stopping: Callable[[], bool] = lambda: False) -> None:
        self.pushes: list[Push] = []
        self.lost = False
        self.returned = True        # False while and after a call inside middleware that did not return
        self._stopping = stopping

    @property
    def stopping(self) -> bool:
        return self._stopping()

    @property
    def kept(self) -> list[Push]:
        """The pushes that the acknowledgment stores: none if the handler failed and a middleware caught that."""
        return self.pushes if self.returned else []

    def push(self, queue: str, data: Any, *, partition: str = DEFAULT, id: str | None = None,
             delay: float | None = None, at: datetime | None = None, traceparent: str | None = None,
             headers: Mapping[str, str] | None = None) -> None:
        """Stores a message in the transaction that acknowledges the handler's. If its partition holds `id` already, the
        message is left out. Raises ValueError or TypeError at once for what cannot be stored."""
        push = Push(queue, data, partition, id, delay, at, traceparent, headers=headers)
        push.checked()
        self.pushes.append(push)


class BatchContext(Context):
    """The context of a handler of batches, which may say what becomes of single messages. All others are completed."""

    def __init__(self, messages: Sequence[Message], stopping: Callable[[], bool] = lambda: False) -> None:
        super().__init__(stopping)
        self.causes: dict[int, Exception] = {}      # of verdicts, by the identity of the message, for on_dead
        self._messages = {message.message_id: message for message in messages}
        self._verdicts: dict[str, Verdict] = {}

    def fail(self, message: Message, error: str) -> None:
        """Counts a failure of a message and has it delivered again, or makes it a dead letter. Raises
        ValueError for a message of another batch."""
        self._decide(Verdict(message, "failed", error))

    def later(self, message: Message, seconds: float = 0.0) -> None:
        """Has a message delivered again after so many seconds, without counting a failure. Raises ValueError for a
        message of another batch, or seconds below 0."""
        self._decide(Verdict(message, "retry", delay=seconds))

    def dead(self, message: Message, error: str) -> None:
        """Makes a message a dead letter with this error. Raises ValueError for a message of another batch."""
        self._decide(Verdict(message, "dlq", error))

    def unfit(self, message: Message, error: InvalidPayload) -> None:
        """Makes a message of which no payload can be made a dead letter, also if the handler raises."""
        self.dead(message, str(error))
        self.causes[id(message)] = error

    @property
    def completed(self) -> list[Message]:
        """The messages for which nothing else was said."""
        return [message for known, message in self._messages.items() if known not in self._verdicts]

    @property
    def verdicts(self) -> list[Verdict]:
        """What was said, in the order of the messages."""
        return [self._verdicts[known] for known in self._messages if known in self._verdicts]

    def _decide(self, verdict: Verdict) -> None:
        known = verdict.message.message_id
        if known not in self._messages:
            raise ValueError(f"message {verdict.message.id!r} is not of this batch")
        verdict.item()      # raises for a delay that is not possible
        self._verdicts[known] = replace(verdict, message=self._messages[known])
