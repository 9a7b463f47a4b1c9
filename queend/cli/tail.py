"""queend tail: prints messages as they are stored, oldest first, by offset: consumers are not disturbed."""
from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from .client import Server
from .options import Partition, Payload, Queue
from .output import Format, Output, dump
from .remote import Stop, remote, tell
from .resources import EVER, found, known
from .terminal import clean

ENTRIES = 500            # partitions of one request
LOOK_S = 0.3             # between two looks for new messages


@remote
def tail(
    server: Server, queue: Queue, partition: Partition = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=1000, help="Begin with this many of the newest "
                     "messages.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new messages until Ctrl-C.")] = False,
    payload: Payload = False, output: Output = Format.table,
) -> None:
    """Print messages as they are stored, oldest first, without consuming them."""
    found(server, queue, limit=1)
    reader = Reader(server, queue, partition)
    since = reader.begin() if follow else None
    count = 0
    for some in reader.newest(lines):
        printed(some, output, payload)
        count += len(some)
    if not count:
        try:
            known(server, queue, partition)
        except Stop as unknown:
            if not follow:
                raise
            tell(f"{unknown.text}: waiting until it exists")
    while since is not None:
        news, since = reader.since(since)
        for some in news:
            printed(some, output, payload)
        time.sleep(LOOK_S)


def printed(records: list[dict[str, Any]], output: Format, payload: bool) -> None:
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    for one in records:
        if payload:
            text = dump(one["payload"])
        elif output is Format.names:
            text = clean(one["transactionId"])
        elif output.for_people:
            head = f"{one['ts'][:23].replace('T', ' ')}  {clean(one['partition'])}#{one['offset']}"
            text = f"{typer.style(head, dim=True) if colour else head}  {clean(dump(one['payload']))}"
        else:
            text = dump(one)
        sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Reader:
    """Reads a queue by offsets. following: the next offset of each partition that was read; ids: of the partitions,
    since another one may get the name of one that was deleted."""

    def __init__(self, server: Server, queue: str, partition: str | None):
        self.server, self.queue, self.partition = server, queue, partition
        self.following: dict[str, int] = {}
        self.ids: dict[str, str] = {}
        self.start = ""

    def begin(self) -> str:
        """Returns the server's moment from which on every stored message will be shown."""
        self.start = self._changed(None, None, 1)[1]
        return self.start

    def newest(self, count: int) -> Iterator[list[dict[str, Any]]]:
        if not count:
            return
        answer = self.server.get("/api/v1/messages", queue=self.queue, partition=self.partition, from_=EVER,
                                 limit=count) or {}
        wanted = [(one["partition"], one["offset"], one["offset"] + 1) for one in answer.get("messages", [])]
        records = [one for some in self.read(wanted) for one in some]
        yield sorted(records, key=lambda one: (one["ts"], one["offset"]))

    def since(self, moment: str) -> tuple[Iterator[list[dict[str, Any]]], str]:
        """Returns what was stored since a moment and was not read yet, and the next moment."""
        heads: dict[str, int] = {}
        next_moment, after = "", None
        while True:
            some, safe, after = self._changed(moment, after, 1000)
            for one in some:
                heads[one["name"]] = one["lastOffset"] + 1
                if self.ids.setdefault(one["name"], one["id"]) != one["id"]:
                    self.ids[one["name"]] = one["id"]
                    self.following.pop(one["name"], None)
            next_moment = min(next_moment or safe, safe)
            if after is None:
                break
        heads = {name: head for name, head in heads.items()
                 if self.partition in (None, name) and self.following.get(name, -1) < head}
        self._place([name for name in heads if name not in self.following])
        wanted = [(name, self.following[name], head) for name, head in heads.items() if self.following[name] < head]
        return self.read(wanted), next_moment

    def read(self, wanted: list[tuple[str, int, int]]) -> Iterator[list[dict[str, Any]]]:
        """Yields records of (partition, first, end), one call's worth at a time."""
        waiting = wanted[::-1]
        while waiting:
            asked = [waiting.pop() for _ in range(min(ENTRIES, len(waiting)))]
            answer = self.server.post("/api/v1/fetch", body={"entries": [
                {"queue": self.queue, "partition": name, "offset": first, "end": end} for name, first, end in asked]})
            records: list[dict[str, Any]] = []
            for (name, first, end), entry in zip(asked, answer["entries"], strict=True):
                records += ({"queue": self.queue, "partition": name, **one} for one in entry.get("records", []))
                reached = entry["records"][-1]["offset"] + 1 if entry.get("records") else None
                reached = entry.get("nextOffset", reached)      # behind erased records; other servers do not send it
                if entry.get("error") == "OFFSET_OUT_OF_RANGE" and (entry.get("logStartOffset") or 0) > first:
                    reached = entry["logStartOffset"]
                elif entry.get("error"):        # above the head: another partition has the name since the last look
                    if entry["error"] == "UNREADABLE":
                        tell(f"queue {self.queue}, partition {name}: messages {reached or first} to {end - 1} are left "
                             "out, because the server cannot read one of them")
                    reached = end
                if reached is None:      # no room in this answer
                    reached = first
                self.following[name] = max(self.following.get(name, 0), reached)
                if reached < end:
                    waiting.append((name, reached, end))
            yield sorted(records, key=lambda one: one["ts"])

    def _changed(self, since: str | None, after: Any, limit: int) -> tuple[list[dict[str, Any]], str, Any]:
        entry = {"queue": self.queue, "limit": limit, **({"since": since} if since else {}),
                 **({"after": after} if after else {})}
        answer = self.server.post("/api/v1/partitions/changed", body={"entries": [entry]})
        one = answer["entries"][0]
        return one.get("partitions") or [], answer["safeTime"], one.get("next")

    def _place(self, names: list[str]) -> None:
        """Sets where partitions begin that were not read before: at the first record stored since the start."""
        for at in range(0, len(names), ENTRIES):
            answer = self.server.post("/api/v1/fetch/offsets", body={"entries": [
                {"queue": self.queue, "partition": name, "timestamp": self.start} for name in names[at:at + ENTRIES]]})
            for name, entry in zip(names[at:at + ENTRIES], answer["entries"], strict=True):
                place = entry.get("offset")
                self.following[name] = entry.get("highWatermark") or 0 if place is None else place
