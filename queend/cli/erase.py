"""queend erase: overwrites the stored messages of a queue that a filter selects."""
from __future__ import annotations

import json
from collections import Counter
from typing import Annotated, Any, Optional

import typer

from ..plural import many
from .client import Server
from .options import DryRun, Partition, Queue, Yes
from .output import Progress
from .remote import USAGE, Stop, remote, sure, tell
from .resources import LONG_S, found
from .terminal import say

KINDS = {"messages": "message", "deadLetters": "dead letter", "traces": "trace", "outbox": "outbox message"}
PLURALS = {"outbox": "outbox messages"}


@remote
def erase(
    server: Server, queue: Queue, partition: Partition = None,
    id_: Annotated[Optional[list[str]], typer.Option("--id", metavar="TRANSACTION_ID", help="Only messages with this "
                   "transactionId, and their redriven copies; may be repeated."
                                                     )] = None,
    text: Annotated[Optional[str], typer.Option(help="Only messages whose JSON payload contains this text; "
                                                     "case-sensitive.")] = None,
    where: Annotated[Optional[str], typer.Option(metavar="PATH=VALUE", help="Only messages whose payload has this "
                     "value at a JSON pointer: /customer/email=eve@example.org.")] = None,
    yes: Yes = False, dry_run: DryRun = False,
) -> None:
    """Overwrite messages permanently, consumed and deleted ones included, with their dead letters and traces."""
    wanted: dict[str, Any] = {"partition": partition, "transactionIds": id_ or None, "text": text, **placed(where)}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    if not wanted:
        raise Stop("no filter given", USAGE, "select messages with --partition, --id, --text or --where")
    found(server, queue, limit=1)
    if dry_run or not yes:
        count = through(server, queue, {**wanted, "dryRun": True}, "counting")
        if dry_run:
            say(f"would erase {told(count)}")
            left(count)
            return
        sure(f"Erase {told(count)} of {queue!r} at {server.url}?", yes)
    count = through(server, queue, wanted, "erasing")
    say(f"erased {told(count)}")
    left(count)


def placed(where: str | None) -> dict[str, Any]:
    """Returns path and value of PATH=VALUE; a value that is not JSON is a text."""
    if where is None:
        return {}
    path, equals, text = where.partition("=")
    if not equals or not path.startswith("/"):
        raise Stop(f"invalid filter {where!r}: expected /PATH=VALUE", USAGE)
    try:
        return {"path": path, "value": json.loads(text)}
    except ValueError:
        return {"path": path, "value": text}


def through(server: Server, queue: str, wanted: dict[str, Any], verb: str) -> Counter[str]:
    """Returns the summed counts of all requests, from the first place to the last."""
    count: Counter[str] = Counter()
    place: str | None = None
    with Progress(verb, None, "messages") as progress:
        while True:
            answer = server.post("/api/v1/queues/{}/erase", queue, within=LONG_S,
                                 body={**wanted, **({"after": place} if place else {})})
            done = answer["found"] if wanted.get("dryRun") else {**answer, "messages": answer["erased"]}
            count.update({name: done[name] for name in KINDS})
            count["unreadable"] += answer["unreadable"]
            count["buffered"] = answer["buffered"]
            progress.add(answer["searched"])
            place = answer["next"]
            if place is None:
                return count


def told(count: Counter[str]) -> str:
    kinds = [f"{count[kind]:,} {PLURALS.get(kind, name + 's') if count[kind] != 1 else name}"
             for kind, name in KINDS.items() if count[kind] or kind == "messages"]
    return ", ".join(kinds)


def left(count: Counter[str]) -> None:
    """Prints which messages were not searched."""
    if count["unreadable"]:
        tell(f"{many(count['unreadable'], 'message')} could not be decrypted: the server lacks the key")
    if count["buffered"]:
        tell(f"{many(count['buffered'], 'message')} in the server's failover buffer "
             f"{'is' if count['buffered'] == 1 else 'are'} not in the log yet and not erased",
             "erase again when they are stored (see `queend status`)")
