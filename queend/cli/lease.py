"""queend lease: live leases listed, extended, released."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Optional

import typer

from ..plural import many
from .client import Server, ServerError
from .options import DryRun, OfQueue, Yes
from .output import Format, Output, age, show, span
from .remote import FORBIDDEN, NOT_FOUND, REFUSED, USAGE, Foreign, Stop, remote, seconds, sure, tell
from .resources import found, known
from .server_clock import now
from .server_names import groups, queues
from .terminal import say
from .watch import watched

lease = typer.Typer(no_args_is_help=True, help="Manage leases: list, extend, release.")
PAGE, LISTED_MOST = 1000, 10_000      # leases of one request; leases that can be listed
LONGEST_S = 31_536_000
Ids = Annotated[list[str], typer.Argument(metavar="[PARTITION_ID/]LEASE_ID", help="Leases, as `queend lease list "
                                          "-o names` prints them; without the partition: as messages name them.")]
Group = Annotated[Optional[str], typer.Option("--group", "-g", help="Only leases of this consumer group.",
                                              autocompletion=groups)]
OnlyQueue = Annotated[Optional[str], typer.Option("--queue", help="Only leases in this queue.", autocompletion=queues)]


class Sort(StrEnum):
    expires = "expires"
    idle = "idle"


def leases(server: Server, limit: int = LISTED_MOST, **query: Any) -> Iterator[dict[str, Any]]:
    """Yields live leases, each with its `address`. Says at the end if there were more than the server examines."""
    left, whole = limit, True
    for page in server.pages("/api/v1/leases", limit=min(PAGE, limit), **query):
        whole = whole and page["complete"]
        for row in page["leases"][:left]:
            yield {**row, "address": f"{row['partitionId']}/{row['leaseId']}"}
        left -= len(page["leases"])
        if left <= 0:
            break
    if not whole:
        tell("there are more leases; only the 10 000 partitions whose lease ends first were examined")


@lease.command("list")
@remote
@watched
def lease_list(
    server: Server, queue: OfQueue = None, group: Group = None,
    sort: Annotated[Sort, typer.Option(help="First the leases that end first, or those without an acknowledgment for "
                                            "longest.")] = Sort.expires,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=LISTED_MOST, help="Maximum number of "
                                       "results.")] = 100,
    output: Output = Format.table,
) -> None:
    """List live leases, one line per partition and group: which messages consumers have, since when and until when."""
    rows = _checked(leases(server, limit, queue=queue, consumerGroup=group, sort=sort.value), server, queue, group)
    show(rows, {"group": "consumerGroup", "queue": "queue", "partition": "partition", "messages": "messages",
                "idle": lambda row: age(row["lastActivityAt"]), "ends in": _left, "deliveries": "deliveries",
                "expired": lambda row: row["leasesLapsed"] or "", "lease": "address"}, output, "address", "no leases",
         spare=("lease", *(("queue",) if queue else ()), *(("group",) if group else ()), "deliveries", "expired",
                "messages", "idle", *(() if group else ("group",)), *(() if queue else ("queue",))))


def _checked(rows: Iterable[dict[str, Any]], server: Server, queue: str | None,
             group: str | None) -> Iterator[dict[str, Any]]:
    """Yields rows. If there are none, refuses a queue and a group that do not exist, as far as the token may know."""
    count = 0
    for row in rows:
        count += 1
        yield row
    if count:
        return
    try:
        if queue is not None:
            found(server, queue, limit=1)
        known(server, queue, group=group)
    except ServerError as error:
        if error.status != FORBIDDEN:
            raise


def _left(row: dict[str, Any]) -> str:
    return span(max(0.0, (datetime.fromisoformat(row["expiresAt"]) - now()).total_seconds()))


@lease.command()
@remote
def extend(
    server: Server, ids: Ids,
    for_: Annotated[str, typer.Option("--for", metavar="DURATION", help="Least time until the lease ends, in whole "
                    "seconds.")] = "60s",
) -> None:
    """Extend leases, each in every partition that it has. A lease is never shortened."""
    length = seconds(for_, "--for", 1, LONGEST_S)
    if length != int(length):
        raise Stop(f"--for {for_} is not a number of whole seconds", USAGE)
    for id_ in [_split(id_)[1] for id_ in ids]:
        done = server.post("/api/v1/lease/{}/extend", id_, body={"seconds": int(length)})
        if not done["success"]:
            raise Stop(f"there is no live lease {id_}", NOT_FOUND)
        say(f"extended {id_}: it ends at {done['expiresAt']}"
            + ("" if done["renewed"] == 1 else f", or later, in {many(done['renewed'], 'partition')}"))


@lease.command()
@remote
def release(server: Server, ids: Ids, group: Group = None, queue: OnlyQueue = None, yes: Yes = False,
            dry_run: DryRun = False) -> None:
    """Release leases, so that their messages can be delivered to other consumers at once. No failure is counted. A
    consumer that still works has its acknowledgments refused."""
    rows = _wanted(ids, leases(server, queue=queue, consumerGroup=group))
    messages = many(sum(row["messages"] for row in rows), "message")
    if dry_run:
        for row in rows:
            say(f"would release {_told(row)}")
        return
    sure(f"Release {many(len(rows), 'lease')} with {messages} at {server.url}?", yes)
    lost = 0
    for row in rows:
        answer = server.post("/api/v1/ack", body={"windowId": f"{row['partitionId']}:{row['leaseId']}",
                                                  "consumerGroup": row["consumerGroup"], "status": "retry"})
        if not isinstance(answer, list) or len(answer) != 1:
            raise Foreign(server.url)
        if answer[0].get("success"):
            say(f"released {_told(row)}")
        else:
            lost += 1
            tell(f"{row['address']} has ended meanwhile; nothing was released")
    if lost:
        raise typer.Exit(REFUSED)


def _split(id_: str) -> tuple[str, str]:
    """Returns the partition's id, empty if there is none, and the id of the lease."""
    partition, slash, name = id_.rpartition("/")
    if not name or slash and not partition:
        raise Stop(f"invalid lease id {id_!r}: expected PARTITION_ID/LEASE_ID, as `queend lease list -o names` prints "
                   "it, or LEASE_ID", USAGE)
    return partition, name


def _wanted(ids: list[str], rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the leases with these ids, each once, in the order of the ids. Raises Stop if one of them is missing."""
    named = [_split(id_) for id_ in ids]
    wanted = {name for _, name in named}
    live = [row for row in rows if row["leaseId"] in wanted]
    chosen: dict[str, dict[str, Any]] = {}
    for id_, (partition, name) in zip(ids, named, strict=True):
        some = [row for row in live if row["leaseId"] == name and partition in ("", row["partitionId"])]
        if not some:
            raise Stop(f"there is no live lease {id_}", NOT_FOUND)
        chosen.update({row["address"]: row for row in some})
    return list(chosen.values())


def _told(row: dict[str, Any]) -> str:
    return (f"{row['address']}: {many(row['messages'], 'message')} of {row['consumerGroup']} in {row['partition']} of "
            f"{row['queue']}")
