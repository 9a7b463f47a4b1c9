"""queend message: messages as they are stored: listed, searched, shown, deleted, sent back, moved to the dead letters.
Takes none for a consumer."""
from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Optional

import typer

from ..wording import many
from .ack import address
from .client import PAGE, Server, ServerError
from .options import DryRun, Group, Limit, MessageId, MessageIds, OfQueue, Partition, Yes
from .output import Format, Output, Progress, age, dump, facts, one, show
from .remote import NOT_FOUND, USAGE, Stop, remote, sure, tell
from .resources import EVER, checked, found, known, queues_of
from .server_names import queues
from .terminal import say
from .watch import watched

message = typer.Typer(no_args_is_help=True, help="Manage stored messages: list, search, show, delete, retry, dlq.")
From = Annotated[Optional[str], typer.Option("--from", metavar="TIME", help="Only messages stored at or after this "
                 "time.")]
To = Annotated[Optional[str], typer.Option("--to", metavar="TIME", help="Only messages stored at or before this time.")]
NAMED = 100      # most queues that a search names
COLUMNS: dict[str, Any] = {"stored": lambda row: age(row["createdAt"]), "partition": "partition", "offset": "offset",
                           "status": "status"}
SPARE = ("stored", "status", "id")      # what a narrow terminal leaves out


class Status(StrEnum):
    pending = "pending"
    processing = "processing"
    completed = "completed"
    dead_letter = "dead_letter"


def addressed(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "address": f"{row['partitionId']}/{row['transactionId']}"}


@message.command("list")
@remote
@watched
def message_list(
    server: Server, queue: OfQueue = None, partition: Partition = None,
    status: Annotated[Optional[Status], typer.Option(help="Only messages with this status.")] = None,
    from_: From = None, to: To = None, limit: Limit = 100, output: Output = Format.table,
) -> None:
    """List messages without their payloads, newest first."""
    if queue is not None:
        found(server, queue, limit=1)
    rows = server.listed("/api/v1/messages", "messages", limit, queue=queue, partition=partition, status=status, to=to,
                         from_=from_ or EVER)
    rows = checked(rows, server, queue, partition)
    show(map(addressed, rows), {**({} if queue else {"queue": "queue"}), **COLUMNS, "id": "address"}, output, "address",
         "no messages", SPARE)


@message.command()
@remote
@watched
def search(
    server: Server,
    queue: Annotated[str, typer.Argument(help="Queue name, or a pattern for several: order*; * searches all.",
                                         autocompletion=queues)],
    text: Annotated[str, typer.Argument(help="Text to find in the JSON payload; case-sensitive.")],
    partition: Partition = None, from_: From = None, to: To = None, limit: Limit = 100,
    most: Annotated[int, typer.Option("--most", min=1, metavar="MESSAGES", help="Search about this many "
                    "messages.")] = 1_000_000,
    after: Annotated[Optional[str], typer.Option(metavar="PLACE", help="Continue a search from the position that an "
                     "earlier one printed.")] = None,
    output: Output = Format.table,
) -> None:
    """Search payloads for a text, newest message first, one queue after another. If the search stops before the oldest
    message, it prints the position for --after."""
    several = "*" in queue
    named = matching(server, queue) if several else [queue]
    if not several:
        found(server, queue, limit=1)
    looked = Looked()

    def rows() -> Iterator[dict[str, Any]]:
        count = 0
        place = after
        with Progress("searching", None, "messages") as progress:
            try:
                while True:
                    answer = server.get("/api/v1/messages/search", queue=named, text=text, partition=partition,
                                        from_=from_, to=to, limit=min(PAGE, limit - count), after=place)
                    place = answer["next"]
                    looked.add(answer)
                    progress.add(answer["searched"])
                    progress.now(f"searching, back to {(answer['searchedBackTo'] or '')[:19].replace('T', ' ')}")
                    yield from map(addressed, answer["messages"])
                    count += len(answer["messages"])
                    if place is None or count >= limit or looked.searched >= most:
                        if not looked.searched and not several:
                            known(server, queue, partition)
                        return
            except (KeyboardInterrupt, ServerError) as end:      # matches found so far are printed all the same
                if not looked.searched:
                    raise
                looked.end = end

    show(rows(), {**({"queue": "queue"} if several else {}), **COLUMNS, "id": "address", "text": "excerpt"}, output,
         "address", spare=SPARE)
    looked.say()
    if looked.end:
        raise looked.end


def matching(server: Server, pattern: str) -> list[str]:
    """Returns the queues that match a pattern; an empty list for `*`, which stands for all that the token may read."""
    if not pattern.strip("*"):
        return []
    names = [row["name"] for row in queues_of(server) if fnmatch.fnmatchcase(row["name"], pattern)]
    if not names:
        raise Stop(f"no queue matches {pattern!r}", NOT_FOUND)
    if len(names) > NAMED:
        raise Stop(f"{pattern!r} matches {len(names)} queues; the limit of a search is {NAMED}", USAGE,
                   "use a narrower pattern, or * for all queues")
    return names


class Looked:
    """The part that a search has covered."""

    def __init__(self) -> None:
        self.searched = self.unreadable = self.found = 0
        self.back = ""
        self.place: str | None = None
        self.end: BaseException | None = None      # what ended it early

    def add(self, answer: dict[str, Any]) -> None:
        self.searched += answer["searched"]
        self.unreadable += answer["unreadable"]
        self.found += len(answer["messages"])
        self.back, self.place = answer["searchedBackTo"] or "", answer["next"]

    def say(self) -> None:
        ended = (f", back to {self.back}; continue with --after {self.place}" if self.place
                 else ", the search is complete")
        say(f"{self.found or 'none'} found; searched {many(self.searched, 'message', '{:,}'.format)}{ended}",
                   err=True)
        if self.unreadable:
            tell(f"{many(self.unreadable, 'message')} could not be decrypted: the server lacks the key")


@message.command("show")
@remote
@watched
def message_show(server: Server, id_: MessageId, output: Output = Format.table) -> None:
    """Show a message with its payload; for a dead letter also the error."""
    row = server.get("/api/v1/messages/{}/{}", *address(id_))

    def lines() -> None:
        facts([("queue", row["queue"]), ("partition", row["partition"]), ("offset", row.get("offset")),
               ("stored", f"{row['createdAt']}, {age(row['createdAt'])} ago"), ("status", row["status"]),
               ("error", row.get("errorMessage")), ("retries", row.get("retryCount")),
               ("producer", row.get("producerSub")), ("trace", row.get("traceId")),
               ("headers", dump(row["headers"]) if "headers" in row else None)])
        say(*dump(row["payload"], 2).split("\n"))

    one({**row, "name": id_}, output, lines)


@message.command("delete")
@remote
def message_delete(server: Server, ids: MessageIds, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Delete messages with their dead letters and traces. Their payloads are overwritten."""
    places = [address(id_) for id_ in ids]
    if dry_run:
        for id_, place in zip(ids, places, strict=True):
            server.get("/api/v1/messages/{}/{}", *place)
            say(f"would delete {id_}")
        return
    sure(f"Delete {many(len(ids), 'message')} at {server.url}?", yes)
    for id_, place in zip(ids, places, strict=True):
        if not server.delete("/api/v1/messages/{}/{}", *place)["success"]:
            raise Stop(f"there is no message {id_}", NOT_FOUND)
        say(f"deleted {id_}")


@message.command()
@remote
def retry(server: Server, ids: MessageIds) -> None:
    """Redrive dead letters by message id."""
    for id_ in ids:
        done = _changed(server, id_, "retry", f"{id_} is not a dead letter")
        say(f"redrove {id_} as {done['newTransactionId']}")


@message.command()
@remote
def dlq(server: Server, ids: MessageIds, group: Group = None,
        error: Annotated[Optional[str], typer.Option(help="Reason; stored with the dead letter.")] = None) -> None:
    """Move messages to the dead letters of a group. No group receives them any more."""
    body = {**({"consumerGroup": group} if group else {}), **({"error": error} if error else {})}
    for id_ in ids:
        try:
            done = _changed(server, id_, "dlq", f"there is no message {id_}", body)
        except ServerError as refused:
            if refused.status == NOT_FOUND and refused.text == "Consumer group not found":
                raise Stop(f"the queue of {id_} has no group {group!r}", NOT_FOUND) from None
            raise
        say(f"moved {id_}" if done["moved"] else f"{id_} was already a dead letter")


def _changed(server: Server, id_: str, verb: str, none: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Returns the answer to a change of one message. none: the text if there is no such message."""
    try:
        return server.post("/api/v1/messages/{}/{}/{}", *address(id_), verb, body=body or None)
    except ServerError as refused:
        if refused.status == NOT_FOUND and refused.text == "Message not found":
            raise Stop(none, NOT_FOUND) from None
        raise
