"""queend timer: timers listed, shown, scheduled, cancelled."""
from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Optional

import typer

from .client import Server
from .options import DryRun, Limit, Queue, Yes
from .output import Format, Output, age, dump, facts, one, show, span
from .remote import NOT_FOUND, REFUSED, USAGE, Stop, remote, seconds, sure, tell
from .server_clock import now
from .terminal import say
from .watch import watched

timer = typer.Typer(no_args_is_help=True, help="Manage timers: list, show, schedule, cancel.")
PAGE = 1000
LONGEST_S = 31_622_400
Key = Annotated[str, typer.Argument(help="Key of the timer.")]
Keys = Annotated[list[str], typer.Argument(metavar="KEY...", help="Keys of timers.")]


def timers(server: Server, queue: str, limit: int, prefix: str | None) -> Iterator[dict[str, Any]]:
    """Yields timers of a queue by their keys, `limit` at most."""
    after: str | None = None
    while limit > 0:
        page = server.get("/api/v1/timers/{}", queue, limit=min(PAGE, limit), prefix=prefix, after=after)
        yield from page["rows"]
        limit -= len(page["rows"])
        after = page["nextAfter"]
        if not page["truncated"]:
            return


@timer.command("list")
@remote
@watched
def timer_list(
    server: Server, queue: Queue,
    prefix: Annotated[Optional[str], typer.Option(help="Only timers whose keys begin so.")] = None,
    limit: Limit = 100, output: Output = Format.table,
) -> None:
    """List the timers of a queue by their keys, with the time until each is due."""
    show(timers(server, queue, limit, prefix),
         {"key": "timerKey", "due in": _left, "partition": "partition", "transaction id": "txn",
          "attempts": lambda row: row["attempts"] or "", "error": lambda row: row["lastError"] or ""},
         output, "timerKey", "no timers", spare=("transaction id", "partition", "error", "attempts"))


@timer.command("show")
@remote
@watched
def timer_show(server: Server, queue: Queue, key: Key, output: Output = Format.table) -> None:
    """Show a timer and its payload."""
    row = server.get("/api/v1/timers/{}/{}", queue, key)
    if not row["found"]:
        raise Stop(f"there is no timer {key} in {queue}", NOT_FOUND, "perhaps it has fired")
    payload = base64.b64decode(row["payload"])

    def lines() -> None:
        facts([("queue", row["queue"]), ("partition", row["partition"]), ("key", row["timerKey"]),
               ("due", row["deliverAt"]), ("due in", _left(row)), ("transaction id", row["txn"]),
               ("producer", row["producerSub"]), ("scheduled", f"{age(row['updatedAt'])} ago"),
               ("failed attempts", row["attempts"] or None), ("error", row["lastError"])])
        say(dump(json.loads(payload), 2))
    one(row, output, lines, "timerKey")


def _left(row: dict[str, Any]) -> str:
    return span(max(0.0, (datetime.fromisoformat(row["deliverAt"]) - now()).total_seconds()))


@timer.command()
@remote
def schedule(
    server: Server, queue: Queue, key: Key,
    payload: Annotated[str, typer.Argument(help="Payload of the message, as JSON.")],
    delay: Annotated[str, typer.Option(metavar="DURATION", help="Time until the message is delivered.")],
    partition: Annotated[str, typer.Option("--partition", "-p", help="Partition of the message.")] = "Default",
    transaction_id: Annotated[Optional[str], typer.Option(help="Transaction id of the message.")] = None,
) -> None:
    """Schedule a message, or replace the timer with this key."""
    length = seconds(delay, "--delay", 0, LONGEST_S)
    try:
        json.loads(payload)
    except ValueError:
        raise Stop(f"the payload is not JSON: {payload}", USAGE, "quote a text twice: '\"text\"'") from None
    operation = {"op": "schedule", "queue": queue, "timerKey": key, "delayMs": round(length * 1000),
                 "payload": base64.b64encode(payload.encode(errors="surrogateescape")).decode(),
                 "partition": partition, **({} if transaction_id is None else {"txn": transaction_id})}
    (done,) = server.post("/api/v1/timers", body={"operations": [operation]})["results"]
    say(f"{done['status']} {key}: it is due at {done['deliverAt']}, with the transaction id {done['txn']}")


@timer.command()
@remote
def cancel(server: Server, queue: Queue, keys: Keys, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Cancel timers."""
    if dry_run:
        for key in keys:
            if server.get("/api/v1/timers/{}/{}", queue, key)["found"]:
                say(f"would cancel {key}")
        return
    sure(f"Cancel {len(keys)} timer{'s' * (len(keys) > 1)} of {queue} at {server.url}?", yes)
    lost = 0
    for key in keys:
        done = server.delete("/api/v1/timers/{}/{}", queue, key)
        if done["ok"]:
            say(f"cancelled {key}")
        else:
            lost += 1
            tell(f"{key} is being delivered" if done["status"] == "too_late" else
                 f"there is no timer {key} in {queue}; perhaps it has fired")
    if lost:
        raise typer.Exit(REFUSED if len(keys) > 1 else NOT_FOUND)
