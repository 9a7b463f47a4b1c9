"""A client of queend: `from queend.client import Client`, `AsyncClient`, or `App` for workers (docs/client.md).

It imports httpx and the standard library alone."""
from .admin import Group, Position, QueueOptions
from .aio import AsyncClient, AsyncTransaction
from .attempts import Backoff
from .context import BatchContext, Context
from .errors import (
    BadAnswer,
    Forbidden,
    LeaseLost,
    NotFound,
    NotSettled,
    NotStored,
    QueendError,
    Refused,
    TransactionRefused,
    Unauthorized,
    Unavailable,
)
from .handlers import CallNext
from .message import QUEUE_MODE, Message, Origin, Push, Record, Scheduled, Stored
from .outcome import Dead, InvalidPayload, Later, Skip
from .payload import TypedMessage
from .settle import Settled, Verdict
from .sync import Client, Transaction
from .token import File
from .worker import App, Worker

__all__ = [
    "App", "AsyncClient", "AsyncTransaction", "Backoff", "BadAnswer", "BatchContext", "CallNext", "Client",
    "Context", "Dead", "File", "Forbidden", "Group", "InvalidPayload", "Later", "LeaseLost", "Message", "NotFound",
    "NotSettled", "NotStored", "Origin", "Position", "Push", "QUEUE_MODE", "QueendError", "QueueOptions", "Record",
    "Refused", "Scheduled", "Settled", "Skip", "Stored", "Transaction", "TransactionRefused", "TypedMessage",
    "Unauthorized", "Unavailable", "Verdict", "Worker",
]
