"""queend message: messages as they are stored: listed, searched, shown. Takes none."""
from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Optional

import typer

from .ack import address
from .client import PAGE, Server, ServerError
from .options import Limit, MessageId, OfQueue, Partition, Queue
from .output import Format, Output, Progress, age, dump, facts, many, one, show
from .remote import remote, tell
from .resources import EVER, found
from .terminal import say

message = typer.Typer(no_args_is_help=True, help="Messages as they are stored: list, search, show. Takes none.")
From = Annotated[Optional[str], typer.Option("--from", metavar="TIME", help="Stored at or after this time.")]
To = Annotated[Optional[str], typer.Option("--to", metavar="TIME", help="Stored at or before this time.")]
COLUMNS: dict[str, Any] = {"stored": lambda row: age(row["createdAt"]), "partition": "partition", "offset": "offset",
                           "status": "status"}


class Status(StrEnum):
    pending = "pending"
    processing = "processing"
    completed = "completed"
    dead_letter = "dead_letter"


def addressed(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "address": f"{row['partitionId']}/{row['transactionId']}"}


@message.command("list")
@remote
def message_list(
    server: Server, queue: OfQueue = None, partition: Partition = None,
    status: Annotated[Optional[Status], typer.Option(help="Only those that stand so.")] = None,
    from_: From = None, to: To = None, limit: Limit = 100, output: Output = Format.table,
) -> None:
    """Messages without their payloads, newest first."""
    if queue is not None:
        found(server, queue, limit=1)
    rows = server.listed("/api/v1/messages", "messages", limit, queue=queue, partition=partition, status=status, to=to,
                         from_=from_ or EVER)
    show(map(addressed, rows), {**({} if queue else {"queue": "queue"}), **COLUMNS, "id": "address"}, output, "address",
         "no messages")


@message.command()
@remote
def search(
    server: Server, queue: Queue,
    text: Annotated[str, typer.Argument(help="What the payload says, as its JSON is written; capitals count.")],
    partition: Partition = None, from_: From = None, to: To = None, limit: Limit = 100,
    most: Annotated[int, typer.Option("--most", min=1, metavar="MESSAGES", help="Look at about so many.")] = 1_000_000,
    after: Annotated[Optional[str], typer.Option(metavar="PLACE", help="Go on where an earlier search ended.")] = None,
    output: Output = Format.table,
) -> None:
    """Messages whose payload has a text in it, newest first. Says where to go on if it ends before the oldest."""
    found(server, queue, limit=1)
    looked = Looked()

    def rows() -> Iterator[dict[str, Any]]:
        count = 0
        place = after
        with Progress("searching", None, "messages") as progress:
            try:
                while True:
                    answer = server.get("/api/v1/messages/search", queue=queue, text=text, partition=partition,
                                        from_=from_, to=to, limit=min(PAGE, limit - count), after=place)
                    place = answer["next"]
                    looked.add(answer)
                    progress.add(answer["searched"])
                    progress.now(f"searching, back to {(answer['searchedBackTo'] or '')[:19].replace('T', ' ')}")
                    yield from map(addressed, answer["messages"])
                    count += len(answer["messages"])
                    if place is None or count >= limit or looked.searched >= most:
                        return
            except (KeyboardInterrupt, ServerError) as end:      # what was found is printed all the same
                if not looked.searched:
                    raise
                looked.end = end

    show(rows(), {**COLUMNS, "id": "address", "text": "excerpt"}, output, "address")
    looked.say()
    if looked.end:
        raise looked.end


class Looked:
    """What a search has looked at."""

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
        ended = f", back to {self.back}; --after {self.place} goes on" if self.place else ", all there are"
        say(f"{self.found or 'none'} found; searched {many(self.searched, 'message', '{:,}'.format)}{ended}",
                   err=True)
        if self.unreadable:
            tell(f"{many(self.unreadable, 'message')} could not be read: the server lacks their key")


@message.command("show")
@remote
def message_show(server: Server, id_: MessageId, output: Output = Format.table) -> None:
    """A message with its payload, and of a dead letter the error."""
    row = server.get("/api/v1/messages/{}/{}", *address(id_))

    def lines() -> None:
        facts([("queue", row["queue"]), ("partition", row["partition"]), ("offset", row.get("offset")),
               ("stored", f"{row['createdAt']}, {age(row['createdAt'])} ago"), ("status", row["status"]),
               ("error", row.get("errorMessage")), ("retries", row.get("retryCount")),
               ("producer", row.get("producerSub")), ("trace", row.get("traceId"))])
        say(*dump(row["payload"], 2).split("\n"))

    one({**row, "name": id_}, output, lines)
