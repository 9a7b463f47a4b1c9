"""queend group: consumer groups listed with their lag, shown, moved, paused, resumed, deleted."""
from __future__ import annotations

from typing import Annotated, Optional

import typer

from ..wording import group_name, many
from .client import Server
from .options import DryRun, Yes
from .output import Format, Output, age, show, span
from .queue import switched
from .remote import USAGE, Stop, remote, sure, tell
from .resources import EVER, LONG_S, PARTITIONS, found, groups_of, no_group, partition_of
from .server_names import groups, queues
from .terminal import say
from .watch import watched

group = typer.Typer(no_args_is_help=True, help="Manage consumer groups: list with lag, show, seek, pause, resume, "
                                               "delete.")
Group = Annotated[str, typer.Argument(help="Consumer group; __QUEUE_MODE__ names the consumers without a group.",
                                          autocompletion=groups)]
OfQueue = Annotated[Optional[str], typer.Option("--queue", help="Only this queue.", autocompletion=queues)]


def _own(queue: str | None) -> tuple[str, ...]:
    """Returns the heading of the column that says nothing new where one queue was asked for."""
    return () if queue is None else ("queue",)


@group.command("list")
@remote
@watched
def group_list(server: Server, queue: OfQueue = None,
               lagging: Annotated[bool, typer.Option("--lagging", help="Only groups with lag.")] = False,
               output: Output = Format.table) -> None:
    """List consumer groups with their lag, one line per queue."""
    if queue is not None:
        found(server, queue, limit=1)
    show((row for row in groups_of(server, queue) if not lagging or row["totalLag"]),
         {"group": lambda row: group_name(row["name"]), "queue": "queueName", "lag": "totalLag",
          "partitions behind": "partitionsWithLag", "partitions": "members",
          "by": lambda row: span(row["maxTimeLag"]) if row["totalLag"] else "",
          "state": lambda row: row["state"] if not row.get("paused") else "Paused" + (
              " with its queue" if row.get("pausedBy") == "queue" else ""),
          "begins": lambda row: row.get("subscriptionMode") or "",
          "delivers": lambda row: "newest" if row.get("conflation") else ""}, output,
         none="no group has lag" if lagging else "no groups",
         spare=(*_own(queue), "delivers", "begins", "partitions", "partitions behind", "state", "by"))


@group.command("show")
@remote
@watched
def group_show(server: Server, name: Group, queue: OfQueue = None,
               limit: Annotated[int, typer.Option(min=1, help="Maximum number of partitions per queue to show.")] = 500,
               output: Output = Format.table) -> None:
    """Show a group's cursor in each partition, highest lag first."""
    answer = server.get("/api/v1/consumer-groups/{}", name, limit=limit) or {}
    rows = [{"queue": of, **row, **({"conflation": True} if one.get("conflation") else {})}
            for of, one in answer.items() if queue in (None, of) for row in one["partitions"]]
    if not rows and not any(True for _ in groups_of(server, queue, name)):
        raise no_group(name, queue)
    for of, one in answer.items():
        if queue in (None, of) and len(one["partitions"]) >= limit:
            tell(f"only the first {many(limit, 'partition')} of {of!r} are shown; use --limit to show more")
    rows.sort(key=lambda row: -row["offsetLag"])
    show(rows, {"queue": "queue", "partition": "partition", "next": "offset", "head": "head", "lag": "offsetLag",
                "oldest": lambda row: span(row["timeLagSeconds"]) if row["offsetLag"] else "",
                "leased": lambda row: "yes" if row["leaseActive"] else "",
                "consumed": lambda row: age(row["lastConsumedAt"]),
                "blocked": lambda row: f"{age(row['standsSince'])}, {many(row['leasesLapsed'], 'lease')} expired"
                if row.get("standsSince") else "",
                "delivers": lambda row: "newest" if row.get("conflation") else ""}, output, "partition",
         f"{name} has not consumed any message",
         spare=(*_own(queue), "delivers", "head", "next", "consumed", "leased", "oldest", "blocked"))


@group.command()
@remote
def seek(
    server: Server,
    name: Group,
    queue: Annotated[str, typer.Argument(help="Queue that the group consumes.", autocompletion=queues)],
    partition: Annotated[Optional[str], typer.Option("--partition", "-p", help="Only this partition.")] = None,
    beginning: Annotated[bool, typer.Option("--beginning", help="Move to the oldest message.")] = False,
    end: Annotated[bool, typer.Option("--end", help="Move past the newest message.")] = False,
    to: Annotated[Optional[str], typer.Option(metavar="TIME", help="Move past the messages stored at or before this "
                  "time (ISO 8601).")] = None,
    offset: Annotated[Optional[int], typer.Option(min=0, help="Move to this offset.")] = None,
    yes: Yes = False, dry_run: DryRun = False,
) -> None:
    """Move a group's cursors. Moving forward skips messages; moving back delivers them again."""
    if sum((beginning, end, to is not None, offset is not None)) != 1:
        raise Stop("exactly one of --beginning, --end, --to and --offset is required", USAGE)
    found(server, queue, limit=1)
    row = next(groups_of(server, queue, name), None)
    if row is None:
        raise no_group(name, queue)
    if partition is None:
        where = f"all partitions of {queue!r}"
        behind = row["totalLag"]
    else:
        where = f"{partition!r} of {queue!r}"
        partition_of(server, queue, partition)
        behind = _behind(server, name, queue, partition)
    now = "" if behind is None else f"{many(behind, 'message')} behind"
    place = "the oldest message" if beginning else "the end" if end else to or f"offset {offset}"
    if dry_run:
        say(f"would move {name!r} to {place} in {where}" + (f", now {now}" if now else ""))
        return
    sure(f"Move {name!r} to {place} in {where}?" + (f" The group is {now}." if now else ""), yes)
    body = {"toEnd": True} if end else {"offset": offset} if offset is not None else {
        "timestamp": EVER if beginning else to}
    if partition is None:
        done = server.post("/api/v1/consumer-groups/{}/queues/{}/seek", name, queue, body=body, within=LONG_S)
        say(f"moved {many(done['partitionsUpdated'], 'cursor')}")
    else:
        done = server.post("/api/v1/consumer-groups/{}/queues/{}/partitions/{}/seek", name, queue, partition, body=body)
        say("moved" if done["updated"] else "already at this position")


def _behind(server: Server, name: str, queue: str, partition: str) -> int | None:
    """Returns the number of messages of a partition that a group has to consume. None if the group has more partitions
    than the server shows."""
    rows = server.get("/api/v1/consumer-groups/{}", name, limit=PARTITIONS).get(queue, {}).get("partitions", [])
    for row in rows:
        if row["partition"] == partition:
            return int(row["offsetLag"])
    return 0 if len(rows) < PARTITIONS else None


@group.command()
@remote
def pause(server: Server, name: Group, queue: OfQueue = None) -> None:
    """Pause delivery to a group, in one of its queues or in all of them. Other groups are not affected."""
    switch(server, name, queue, "pause")


@group.command()
@remote
def resume(server: Server, name: Group, queue: OfQueue = None) -> None:
    """Resume delivery to a paused group."""
    switch(server, name, queue, "resume")


def switch(server: Server, name: str, queue: str | None, verb: str) -> None:
    queues = [queue] if queue is not None else [row["queueName"] for row in groups_of(server, name=name)]
    if not queues:
        raise no_group(name)
    for of in queues:
        switched(server, verb, f"{name} of {of}", f"group {name!r} of {of!r}",
                 "/api/v1/consumer-groups/{}/queues/{}/{}", name, of)


@group.command()
@remote
def delete(
    server: Server, name: Group, queue: OfQueue = None,
    keep_subscription: Annotated[bool, typer.Option("--keep-subscription", help="Keep the start position: if the group "
                                 "is used again, it begins where it was created to begin.")] = False,
    yes: Yes = False, dry_run: DryRun = False,
) -> None:
    """Delete a group with its cursors. If it is used again, it starts as a new group."""
    rows = list(groups_of(server, queue, name))
    if not rows:
        raise no_group(name, queue)
    for row in rows:
        say(f"{'would delete ' if dry_run else ''}{name} of {row['queueName']}: "
                   f"{many(row['members'], 'partition')}, "
                   f"{many(row['totalLag'], 'message')} behind", err=not dry_run)
    if dry_run:
        return
    sure(f"Delete the group {name!r} at {server.url}?", yes)
    query = {"deleteMetadata": False} if keep_subscription else {}
    if queue is None:
        done = server.delete("/api/v1/consumer-groups/{}", name, within=LONG_S, **query)
    else:
        done = server.delete("/api/v1/consumer-groups/{}/queues/{}", name, queue, within=LONG_S, **query)
    say(f"deleted {name}: {many(done.get('deletedPartitions', 0), 'partition')}")
