"""A client of queend: `from queend.client import Client` or `AsyncClient` (docs/client.md).

It imports httpx and the standard library alone."""
from .aio import AsyncClient, AsyncTransaction
from .attempts import Backoff
from .errors import (
    BadAnswer,
    Forbidden,
    LeaseLost,
    NotSettled,
    NotStored,
    QueendError,
    Refused,
    TransactionRefused,
    Unauthorized,
    Unavailable,
)
from .message import Message, Origin, Push, Scheduled, Stored
from .settle import Settled, Verdict
from .sync import Client, Transaction
from .token import File

__all__ = [
    "AsyncClient", "AsyncTransaction", "Backoff", "BadAnswer", "Client", "File", "Forbidden", "LeaseLost", "Message",
    "NotSettled", "NotStored", "Origin", "Push", "QueendError", "Refused", "Scheduled", "Settled", "Stored",
    "Transaction", "TransactionRefused", "Unauthorized", "Unavailable", "Verdict",
]
