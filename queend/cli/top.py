"""queend top: prints the queues with the most traffic or backlog, again and again."""
from __future__ import annotations

import fnmatch
import sys
from enum import StrEnum
from shutil import get_terminal_size
from typing import Annotated, Any, Optional

import typer

from ..duration import span
from .client import Server, ServerError
from .output import Format, Output, short, show
from .remote import USAGE, Stop, remote
from .resources import groups_of, head_of
from .traffic import of, traffic_of
from .watch import again, pause_of

QUEUES = 1000      # queues of which the figures are read: those with the largest backlog
ROWS = 20          # rows where there is no terminal
FRAME = 7          # rows of a terminal around those of the table


class Sort(StrEnum):
    traffic = "traffic"
    push = "push"
    pop = "pop"
    ack = "ack"
    backlog = "backlog"
    lag = "lag"
    dead = "dead"
    pops = "pops"
    name = "name"


KEYS = {Sort.push: "pushPerSecond", Sort.pop: "popPerSecond", Sort.ack: "ackPerSecond", Sort.backlog: "pending",
        Sort.lag: "maxTimeLag", Sort.dead: "deadLetters", Sort.pops: "waitingPops"}
COLUMNS: dict[str, Any] = {
    "queue": "name", "push/s": lambda row: short(row["pushPerSecond"]), "pop/s": lambda row: short(row["popPerSecond"]),
    "ack/s": lambda row: short(row["ackPerSecond"]), "backlog": lambda row: short(row["pending"]),
    "in flight": lambda row: short(row["processing"]), "lag": lambda row: span(row["maxTimeLag"]),
    "dead letters": lambda row: short(row["deadLetters"]), "waiting pops": lambda row: short(row["waitingPops"]),
    "": lambda row: "paused" if row["paused"] else ""}
SPARE = ("in flight", "waiting pops", "dead letters", "ack/s", "lag", "pop/s")


@remote
def top(
    server: Server,
    pattern: Annotated[Optional[str], typer.Argument(help="Only queues whose name matches this pattern: "
                       "order*.")] = None,
    sort: Annotated[Sort, typer.Option(help="Figure that comes first when it is largest; name: by name.")]
        = Sort.traffic,
    limit: Annotated[Optional[int], typer.Option("--limit", "-n", min=1, help="Maximum number of queues. Default: as "
                     "many as the terminal has rows, else 20.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the figures once and exit.")] = False,
    interval: Annotated[Optional[str], typer.Option("--interval", metavar="DURATION", help="Pause between two "
                        "results. Default: 2s.")] = None,
    output: Output = Format.table,
) -> None:
    """Show the busiest queues, redrawn every two seconds until Ctrl-C: rates of one to two minutes, backlog, age of the
    oldest message that a group has to consume, dead letters, pops that wait."""
    def draw() -> None:
        room = get_terminal_size().lines - FRAME if sys.stdout.isatty() and not once else ROWS
        rows = busiest(server, pattern, sort, limit or max(room, 1))
        show(rows, COLUMNS, output, none="no queues" if pattern is None else "no matching queues", spare=SPARE)

    if once and interval is not None:
        raise Stop("--interval and --once cannot be combined", USAGE)
    if once:
        draw()
    else:
        again(draw, pause_of(interval), output)


def busiest(server: Server, pattern: str | None, sort: Sort, limit: int) -> list[dict[str, Any]]:
    """Returns the first queues in this order, at most `limit`."""
    heads = {row["name"]: row for row in (server.get("/api/v1/resources/queues", sort="pending", limit=QUEUES)
                                          or {}).get("queues", [])}
    traffic, lags = traffic_of(server), _lags(server)
    rows = []
    for name in {**heads, **(traffic or {})}:
        if pattern is None or fnmatch.fnmatchcase(name, pattern):
            head, rate = heads.get(name, {}), of(traffic, name)
            messages = head.get("messages", {})
            rows.append({"name": name, "pushPerSecond": rate.push, "popPerSecond": rate.pop, "ackPerSecond": rate.ack,
                         "pending": messages.get("pending"), "processing": messages.get("processing"),
                         "maxTimeLag": lags.get(name), "deadLetters": head.get("deadLetters"),
                         "waitingPops": rate.parked, "paused": bool(head.get("paused"))})
    rows.sort(key=lambda row: _place(row, sort))
    found = []
    for row in rows[:limit]:
        if row["name"] not in heads:      # busy, but with less backlog than the QUEUES queues that were listed
            one = head_of(server, row["name"])
            if one is None:      # deleted meanwhile
                continue
            row |= {"pending": one["totals"]["pending"], "processing": one["totals"]["processing"],
                    "deadLetters": one["totals"]["deadLetter"], "paused": bool(one.get("paused"))}
        found.append(row)
    return found


def _place(row: dict[str, Any], sort: Sort) -> tuple[Any, ...]:
    flow = sum(row[KEYS[one]] or 0 for one in (Sort.push, Sort.pop, Sort.ack))
    first = () if sort is Sort.name else (-flow if sort is Sort.traffic else -(row[KEYS[sort]] or 0),
                                          -flow, -(row["pending"] or 0))
    return (*first, row["name"])


def _lags(server: Server) -> dict[str, int]:
    """Returns for each queue with lag the age of the oldest message that is due, in seconds, of the group that is
    furthest behind. Returns an empty dict if the token may not list the groups."""
    lags: dict[str, int] = {}
    try:
        for row in groups_of(server):
            if row["totalLag"]:
                lags[row["queueName"]] = max(lags.get(row["queueName"], 0), row["maxTimeLag"])
    except ServerError as error:
        if error.code not in (403, 404):
            raise
    return lags
