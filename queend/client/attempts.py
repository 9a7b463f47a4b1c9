"""When a request is sent again: a policy without clock, randomness or I/O of its own."""
from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from .call import BUSY, Call, Reply
from .errors import Unavailable


@dataclass(frozen=True)
class Backoff:
    """Pauses that grow: `initial * multiplier ** failures` seconds, at most `max`, of which up to the share `jitter` is
    taken away at random."""

    initial: float = 0.1
    multiplier: float = 2.0
    max: float = 5.0
    jitter: float = 0.5

    def pause(self, failures: int, chance: float) -> float:
        """Returns the pause after so many failures before this one. chance: a random number from 0 to 1."""
        grown = self.initial * self.multiplier ** min(failures, 64)
        return min(self.max, grown) * (1.0 - self.jitter * chance)


class Attempts:
    """The attempts of one request. deadline: seconds for all of them together, from `now` on; timeout: seconds for
    each, beyond the patience of the call."""

    def __init__(self, call: Call, now: float, deadline: float, timeout: float, backoff: Backoff,
                 chance: Callable[[], float] = random.random):
        self.call, self.backoff, self.chance, self.timeout = call, backoff, chance, timeout
        self.end = now + deadline + call.patience
        self.failures = 0
        self.may_be_done = False

    def seconds(self, now: float) -> float:
        """Returns how long the next attempt may wait for its answer."""
        return max(0.001, min(self.timeout + self.call.patience, self.end - now))

    def failed(self, now: float, error: Exception, sent: bool) -> float:
        """Returns the pause before the next attempt, after one without an answer. sent: the request may have reached
        the server. Raises Unavailable if there is no next attempt."""
        self.may_be_done |= sent
        return self._pause(now, f"no answer from the server: {error or type(error).__name__}", 0.0, error)

    def answered(self, now: float, reply: Reply) -> float | None:
        """Returns the pause before the next attempt, or None if the answer is the last. Raises Unavailable if there
        should be another attempt and no time is left."""
        if reply.status not in BUSY:
            return None
        self.may_be_done |= not reply.untouched(self.call.doubt)
        return self._pause(now, reply.refusal[0], reply.retry_after, None)

    def _pause(self, now: float, text: str, asked: float, cause: Exception | None) -> float:
        pause = self.backoff.pause(self.failures, self.chance())
        if asked:       # not sooner than the server asked for, and not all clients at the same moment
            pause = asked + pause
        self.failures += 1
        if now + pause >= self.end or self.may_be_done and not self.call.repeat:
            raise Unavailable(text, may_be_done=self.may_be_done, retry_after=asked) from cause
        return pause
