"""queend ack: acknowledges messages: completed, failed, to be retried, or into the dead letters."""
from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated, Any, Optional

import orjson
import typer

from ..wording import many
from .client import Server
from .lines import Bad, payloads
from .options import Group
from .pop import acknowledge
from .remote import USAGE, Stop, remote, seconds
from .terminal import say

BATCH = 1000


class Status(StrEnum):
    completed = "completed"
    failed = "failed"
    retry = "retry"
    dlq = "dlq"


def address(word: str) -> tuple[str, str]:
    """Splits PARTITION_ID/TRANSACTION_ID, as lists print it, into its two ids."""
    partition, slash, transaction = word.partition("/")
    if not slash or not partition or not transaction:
        raise Stop(f"invalid message id {word!r}: expected PARTITION_ID/TRANSACTION_ID, as `queend pop -o names` "
                   "prints it", USAGE)
    return partition, transaction


@remote
def ack(
    server: Server,
    ids: Annotated[Optional[list[str]], typer.Argument(metavar="PARTITION_ID/TRANSACTION_ID", help="Messages to "
                   "acknowledge. Default: read lines from standard input, as `queend pop -o ndjson` prints "
                   "them.")] = None,
    lease: Annotated[Optional[str], typer.Option(help="Lease id of the messages.")] = None,
    group: Group = None,
    status: Annotated[Status, typer.Option(help="Result of processing.")] = Status.completed,
    error: Annotated[Optional[str], typer.Option(help="Reason of the failure; stored with the dead letter.")] = None,
    delay: Annotated[Optional[str], typer.Option(metavar="DURATION", help="Minimum delay before a failed message is "
                     "delivered again.")] = None,
) -> None:
    """Acknowledge messages: as completed or failed, for another delivery (retry), or as dead letters (dlq)."""
    more: dict[str, Any] = {"error": error} if error is not None else {}
    if delay is not None:
        more["delayMs"] = round(seconds(delay, "--delay") * 1000)
    count = 0

    def send(messages: list[dict[str, Any]]) -> None:
        nonlocal count
        by_group: dict[str | None, list[dict[str, Any]]] = {}
        for one in messages:
            by_group.setdefault(group or one.get("consumerGroup"), []).append(one)
        for name, some in by_group.items():
            acknowledge(server, some, name, status.value, **more)
            count += len(some)

    if ids:
        send([{"partitionId": partition, "transactionId": transaction, "leaseId": lease}
              for partition, transaction in map(address, ids)])
    else:
        gathered: list[dict[str, Any]] = []
        try:
            for line in payloads([], True, False):
                one = orjson.loads(line.text)
                if not isinstance(one, dict) or not {"partitionId", "transactionId"} <= set(one):
                    raise Bad(f"{line.where} is not a message: partitionId or transactionId is missing")
                gathered.append(one)
                if len(gathered) == BATCH:
                    send(gathered)
                    gathered = []
        except Bad as fault:
            raise Stop(f"{fault}; {many(count, 'message')} before it {'was' if count == 1 else 'were'} acknowledged",
                       1) from None
        if gathered:
            send(gathered)
    say(f"{count} {status.value}")
    sys.stdout.flush()
