"""queend dlq: dead letters listed, counted by error, shown, sent back, sent back with another payload, deleted."""
from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any, Optional

import typer

from ..plural import many
from .ack import address
from .client import Server, ServerError
from .message import addressed, message_show
from .options import DryRun, Limit, MessageId, OfQueue, Partition, Yes
from .output import Format, Output, Progress, age, dump, show
from .remote import NOT_FOUND, USAGE, Stop, remote, sure, tell
from .resources import LONG_S, checked, found, known
from .server_names import queues
from .terminal import say
from .watch import watched

dlq = typer.Typer(no_args_is_help=True, help="Manage dead letters: list, errors, show, redrive, edit, purge.")
MOST = 10_000      # dead letters redriven by one request
Queue = Annotated[str, typer.Argument(help="Queue of the dead letters.", autocompletion=queues)]
Group = Annotated[Optional[str], typer.Option("--group", "-g", help="Only dead letters of this consumer group.")]
From = Annotated[Optional[str], typer.Option("--from", metavar="TIME", help="Only dead letters that failed at or after "
                 "this time.")]
Error = Annotated[Optional[str], typer.Option("--error", metavar="TEXT",
                                             help="Only dead letters whose error contains this text.")]
To = Annotated[Optional[str], typer.Option("--to", metavar="TIME", help="Only dead letters that failed at or before "
               "this time.")]


def filters(group: str | None, partition: str | None, from_: str | None, to: str | None,
            error: str | None = None) -> dict[str, Any]:
    given = {"consumerGroup": group, "partition": partition, "from": from_, "to": to, "error": error}
    return {name: value for name, value in given.items() if value is not None}


def letters(server: Server, limit: int | None, **query: Any) -> Iterator[dict[str, Any]]:
    """Yields dead letters, newest failure first."""
    return server.listed("/api/v1/dlq", "messages", limit, **query)


def counted(server: Server, **query: Any) -> int:
    return int((server.get("/api/v1/dlq", limit=1, **query) or {}).get("total", 0))


def shown(count: int) -> str:
    return many(count, "dead letter") + (" or more" if count >= 100_000 else "")


@dlq.command("list")
@remote
@watched
def dlq_list(
    server: Server, queue: OfQueue = None, group: Group = None, partition: Partition = None, from_: From = None,
    to: To = None, error: Error = None, limit: Limit = 100, output: Output = Format.table,
) -> None:
    """List dead letters, newest failure first."""
    if queue is not None:
        found(server, queue, limit=1)
    rows = letters(server, limit, **filters(group, partition, from_, to, error), queue=queue)
    rows = checked(rows, server, queue, partition, group)
    show(map(addressed, rows), {"failed": lambda row: age(row["failedAt"]), "queue": "queue", "partition": "partition",
                "group": "consumerGroup", "retries": "retryCount", "error": lambda row: row["errorMessage"] or "",
                "id": "address"}, output, "address", "no dead letters",
         spare=(*(("queue",) if queue else ()), "retries", "partition", "group", "id"))


@dlq.command()
@remote
@watched
def errors(
    server: Server, queue: OfQueue = None, group: Group = None, partition: Partition = None, from_: From = None,
    to: To = None, error: Error = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of results.")] = 100,
    output: Output = Format.table,
) -> None:
    """Count dead letters by queue, group and error, the largest count first. Examines the newest 10 000 that match."""
    if queue is not None:
        found(server, queue, limit=1)
    answer = server.get("/api/v1/dlq/errors", queue=queue, limit=limit, **filters(group, partition, from_, to, error))
    rows = checked(answer["groups"], server, queue, partition, group)
    if output is Format.names:
        rows = ({"name": row["errorMessage"] or ""} for row in rows)
    show(rows, {"count": "count", "queue": "queue", "group": "consumerGroup",
                "error": lambda row: row["errorMessage"] or "", "first": lambda row: age(row["firstFailedAt"]),
                "last": lambda row: age(row["lastFailedAt"])}, output, none="no dead letters",
         spare=(*(("queue",) if queue else ()), "first", *(("group",) if group else ()), "last", "group", "queue"))
    if not answer["complete"]:
        tell(f"only the newest {many(answer['examined'], 'dead letter')} were examined")


dlq.command("show", help="Show a dead letter with its error and its payload.")(message_show)


@dlq.command()
@remote
def redrive(
    server: Server, queue: Queue, group: Group = None, partition: Partition = None, from_: From = None, to: To = None,
    error: Error = None,
    limit: Annotated[Optional[int], typer.Option("--limit", "-n", min=1, help="Redrive only this many of the newest "
                     "dead letters. Above 10 000, the newest 10 000 go first. Default: all.")] = None,
    to_queue: Annotated[Optional[str], typer.Option(help="Push to this queue instead; all its consumer groups get the "
                        "messages.")] = None,
    to_partition: Annotated[Optional[str], typer.Option(help="Push to this partition instead.")] = None,
    yes: Yes = False, dry_run: DryRun = False,
) -> None:
    """Push dead letters to their queue again, in the order in which they failed."""
    found(server, queue, limit=1)
    wanted = filters(group, partition, from_, to, error)
    now = server.get("/api/v1/dlq", limit=1, queue=queue, **wanted) or {}
    total = int(now.get("total", 0))
    if not total:
        known(server, queue, partition, group)
    count = total if limit is None else min(total, limit)
    where = f"queue {to_queue or queue!r}"
    if dry_run:
        say(f"would redrive {shown(count)} of {queue} to {where}")
        return
    if not count:
        say("0 redriven")
        return
    sure(f"Redrive {shown(count)} of {queue!r} to {where} at {server.url}?", yes)
    body = {"queue": queue, **wanted, **({"targetQueue": to_queue} if to_queue else {}),
            **({"targetPartition": to_partition} if to_partition else {})}
    if limit is None:
        # Messages that fail again meanwhile stay. The list cuts microseconds off.
        body = {"to": now["messages"][0]["failedAt"].replace("Z", "999Z"), **body, "oldest": True}
    done = 0
    with Progress("redriving", count, "dead letters") as progress:
        while limit is None or done < limit:
            step = MOST if limit is None else min(MOST, limit - done)
            try:
                answer = server.post("/api/v1/dlq/redrive", body={**body, "limit": step}, within=LONG_S)
            except ServerError as error:
                done += error.body.get("redriven", 0) if isinstance(error.body, dict) else 0
                error.text += f" ({done} redriven)" if done else ""
                raise
            done += answer["redriven"]
            progress.add(answer["redriven"])
            if not answer["left"] or not answer["redriven"]:
                break
    if limit is None and answer["left"]:
        raise Stop(f"{done} redriven; other clients redrive the same dead letters: run this again for the rest")
    say(f"{done} redriven")


@dlq.command()
@remote
def edit(
    server: Server, id_: MessageId,
    payload: Annotated[str, typer.Argument(help="New payload as JSON; - reads standard input.")],
    group: Group = None,
) -> None:
    """Redrive a dead letter with a new payload."""
    text = sys.stdin.read() if payload == "-" else payload
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Stop(f"the payload is not valid JSON: {error}", USAGE) from None
    row = server.get("/api/v1/messages/{}/{}", *address(id_))
    wanted = filters(group, row["partition"], None, None)
    places = [dump({"partitionId": one["partitionId"], "offset": one["offset"], "consumerGroup": one["consumerGroup"]})
              for one in letters(server, None, queue=row["queue"], **wanted)
              if one["transactionId"] == row["transactionId"]]
    if not places:
        raise Stop(f"{id_} is not a dead letter" + (f" of the group {group!r}" if group else ""), NOT_FOUND)
    named = ",".join(f'{place[:-1]},"payload":{text}}}' for place in places)      # as written: numbers stay as they are
    answer = server.post("/api/v1/dlq/redrive", within=LONG_S,
                         body=f'{{"queue":{json.dumps(row["queue"])},"messages":[{named}]}}'.encode())
    say(f"{answer['redriven']} redriven")


@dlq.command()
@remote
def purge(server: Server, queue: Queue, group: Group = None, partition: Partition = None, from_: From = None,
          to: To = None, error: Error = None, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Delete dead letters permanently."""
    found(server, queue, limit=1)
    wanted = filters(group, partition, from_, to, error)
    count = counted(server, queue=queue, **wanted)
    if not count:
        known(server, queue, partition, group)
    if dry_run:
        say(f"would delete {shown(count)} of {queue}")
        return
    sure(f"Delete {shown(count)} of {queue!r} at {server.url}?", yes)
    answer = server.delete("/api/v1/dlq", queue=queue, within=LONG_S, **wanted)
    say(f"{answer['deleted']} deleted")
