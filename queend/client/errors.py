"""What the client raises."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .message import Message, Stored

NOT_FOUND = 404     # HTTP status

class QueendError(Exception):
    """Base of all errors of this package that a server or a network causes. Wrong arguments are ValueError or
    TypeError, before any request."""


class Refused(QueendError):
    """The server refused a request and did nothing of it. status: HTTP status; error: the server's sentence; code: its
    word for programs, or an empty text."""

    def __init__(self, error: str, status: int = 200, code: str = ""):
        super().__init__(error)
        self.error, self.status, self.code = error, status, code


class Unauthorized(Refused):
    """The server does not accept the token, or requires one (401)."""


class Forbidden(Refused):
    """The token lacks a right (403). `error` names the verb and the queue."""


class NotFound(Refused):
    """There is no such queue, partition, group or message (404)."""


class NotStored(Refused):
    """Some items of a push were refused, for example because a queue is full (`code` is `queue_full`). The others are
    stored. stored: one result for each item, in their order; those with `error` were refused."""

    def __init__(self, error: str, code: str, stored: Sequence[Stored]):
        super().__init__(error, code=code)
        self.stored = list(stored)


class NotSettled(Refused):
    """Some acknowledgments were refused. The others of the request count. messages: those whose acknowledgment was
    refused."""

    def __init__(self, error: str, messages: Sequence[Message]):
        super().__init__(error)
        self.messages = list(messages)


class LeaseLost(NotSettled):
    """The lease of a message has ended, so that the message is delivered again, to this consumer or to another one."""


class TransactionRefused(Refused):
    """Nothing of a transaction was done. reason: `rejected_ack`, `duplicate`, `duplicate_of_deleted`, `bad_request` or
    `queue_full`; index: the place of the operation at fault, or None."""

    def __init__(self, error: str, reason: str, index: int | None):
        super().__init__(error, code=reason)
        self.reason, self.index = reason, index


class Unavailable(QueendError):
    """There was no answer, or 503, 429 or the like, until the deadline. may_be_done: an attempt may have taken effect;
    retry_after: seconds that the server asked to wait, 0 if it said nothing."""

    def __init__(self, error: str, *, may_be_done: bool = False, retry_after: float = 0.0):
        super().__init__(error)
        self.error, self.may_be_done, self.retry_after = error, may_be_done, retry_after


class NoToken(Unavailable):
    """The source of the token has none now, so that no request was sent."""


class BadAnswer(QueendError):
    """The answer is not one of queend, for example a page of a proxy."""
