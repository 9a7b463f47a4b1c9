"""Heads and floors of the partitions to read: all of them once, then those written since the last look."""
from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .link import ARROW, Link, Refused
from .settings import OptionError
from .wanted import SourceSettings

PAGE, QUEUES = 100_000, 1000     # partitions, queues of one answer
FIRST_PAGE = 10_000              # partitions of the answer that all others are planned by
NUMBER_MOST = 2**31 - 1          # of a partition
NEVER = "9999-01-01T00:00:00Z"


class NoQueue(RuntimeError):
    """A queue that does not exist."""

    def __init__(self, queue: str, url: str):
        super().__init__(f'there is no queue {queue!r} at {url}: check its name and the option "url"; its first '
                         "message creates a queue")


class Mark:
    """A partition as the daemon described it."""

    __slots__ = ("floor", "head", "name", "replaced")

    def __init__(self, name: str, head: int, floor: int):
        self.name, self.head, self.floor = name, head, floor
        self.replaced = False    # deleted and created again: another partition has the name


def queues_of(link: Link, settings: SourceSettings) -> tuple[str, ...]:
    """Returns the named queues, or all current queues whose names match the pattern."""
    if settings.pattern is None:
        return settings.queues
    pattern, names, behind = re.compile(settings.pattern), set(), 0
    while True:
        page = link.get(f"/api/v1/resources/queues?limit={QUEUES}&offset={behind}")["queues"]
        names |= {one["name"] for one in page if pattern.fullmatch(one["name"])}
        if len(page) < QUEUES:
            return tuple(sorted(names))
        behind += QUEUES


def table_of(link: Link, queue: str, at: str | int | None = None) -> pa.Table:
    """Returns number, name, highWatermark, logStartOffset of all partitions in order of creation; with at (ms, or ISO
    8601) also offset."""
    return Pages(link, queue, at).table()


class Pages:
    """Reads all partitions of a queue, in pages, several at a time. A page begins behind a number. Where the next one
    will begin is known only from its answer, so starts are guessed: the numbers of a queue's partitions mostly rise by
    the same step. Wrong guesses cost time only: what two pages have is taken once, and gaps are read afterwards."""

    def __init__(self, link: Link, queue: str, at: str | int | None):
        self.link, self.queue, self.at = link, queue, at
        self._lock = threading.Lock()
        self._next, self._step, self._over = 0, 0, False
        self._found: list[tuple[int, pa.Table]] = []    # the number behind which each page begins, and the page

    def table(self) -> pa.Table:
        first = self._page(self.link, 0, FIRST_PAGE)
        if first.num_rows < FIRST_PAGE:
            return first
        numbers = first.column("number")
        self._next = numbers[-1].as_py()
        self._step = (self._next - numbers[0].as_py()) * PAGE // FIRST_PAGE
        self._found.append((0, first))
        self.link.abreast(self._walk)
        return pa.concat_tables(self._joined())

    def _walk(self, link: Link) -> None:
        """Reads page after page, until one is not full: nothing is behind it."""
        while True:
            with self._lock:
                if self._over:
                    return
                behind = min(self._next, NUMBER_MOST)
                self._next += self._step
            page = self._page(link, behind, PAGE)
            with self._lock:
                self._found.append((behind, page))
                if page.num_rows < PAGE:
                    self._over = True
                else:
                    last = page.column("number")[-1].as_py()
                    self._next, self._step = max(self._next, last), last - behind

    def _joined(self) -> Iterator[pa.Table]:
        """Yields each partition once, in the order of the numbers."""
        reached = 0
        for behind, page in sorted(self._found, key=itemgetter(0)):
            while reached < behind:
                gap = self._page(self.link, reached, min(PAGE, behind - reached))
                found = gap.filter(pc.less_equal(gap.column("number"), behind))
                yield found
                reached = found.column("number")[-1].as_py() if 0 < found.num_rows == gap.num_rows else behind
            page = page.filter(pc.greater(page.column("number"), reached))
            if page.num_rows:
                yield page
                reached = page.column("number")[-1].as_py()

    def _page(self, link: Link, behind: int, limit: int) -> pa.Table:
        asked = {"queue": self.queue, "behind": behind, "limit": limit}
        try:
            answer = link.ask("/api/v1/offsets", asked if self.at is None else {**asked, "at": self.at}, ARROW)
        except Refused as refused:
            if refused.status == 404:
                raise NoQueue(self.queue, refused.url) from None
            raise
        return pa.ipc.open_stream(answer).read_all()


def assigned(table: pa.Table, settings: SourceSettings, queue: str) -> pa.Table:
    """Keeps the partitions that `assign` names."""
    if settings.assigned is None:
        return table
    return table.filter(pc.is_in(table.column("name"), pa.array(settings.assigned[queue], pa.string())))


def check_numbers(table: pa.Table, settings: SourceSettings, queue: str) -> None:
    """Refuses options that name a partition by a number that is not a partition's name, as queries for Kafka do."""
    wanted: dict[str, Any] = {"assign": settings.assigned}
    for side, edge in (("starting", settings.start), ("ending", settings.end)):
        wanted |= {f"{side}Offsets": edge.places, f"{side}OffsetsByTimestamp": edge.times}
    names = None
    for option, given in wanted.items():
        for name in (given or {}).get(queue, ()):
            if name.isdecimal():
                names = names or set(table.column("name").to_pylist())
                if name not in names:
                    raise OptionError(f'option "{option}" names partition "{name}", which queue {queue!r} does not '
                                      'have: partitions have names, like "customer-7" or "Default"')


class Marks:
    """The queues and partitions that a stream knows, with their numbers. A queue that was deleted and created again has
    another number, and so have its partitions."""

    def __init__(self, link: Link, settings: SourceSettings):
        self.link, self.settings = link, settings
        self.known: dict[str, dict[int, Mark]] = {}
        self.numbers: dict[str, int] = {}
        self._since: dict[str, str] = {}
        self._checked: set[str] = set()

    def refresh(self) -> None:
        """Reads queues that newly match the pattern as a whole, and of the others what was written since the last look.
        Forgets deleted queues."""
        there = queues_of(self.link, self.settings)
        for queue in there:
            try:
                if queue not in self._since or not self._look(queue):
                    self._read(queue)
            except NoQueue:
                self._forget(queue)
        for queue in set(self.known) - set(there):
            self._forget(queue)

    def safe_time(self, queue: str) -> str:
        """Returns the database's time of the last look, at most the start of the oldest push in flight (ISO 8601)."""
        return self._since[queue]

    def _forget(self, queue: str) -> None:
        for kept in (self.known, self.numbers, self._since):
            kept.pop(queue, None)

    def _read(self, queue: str) -> None:
        """Reads all partitions of a queue."""
        said = self._changed(queue, NEVER)    # first, so that writes in between are seen again
        table = table_of(self.link, queue)
        if queue not in self._checked:
            check_numbers(table, self.settings, queue)
            self._checked.add(queue)
        table = assigned(table, self.settings, queue)
        columns = [table.column(name).to_pylist() for name in ("number", "name", "highWatermark", "logStartOffset")]
        self.known[queue] = {number: Mark(*rest) for number, *rest in zip(*columns, strict=True)}
        self.numbers[queue] = said["entries"][0]["queueNumber"]
        self._since[queue] = said["safeTime"]

    def _changed(self, queue: str, since: str, after: str | None = None) -> dict[str, Any]:
        entry = {"queue": queue, "since": since, "numbers": True, **({"after": after} if after else {})}
        said = self.link.json("/api/v1/partitions/changed", {"entries": [entry]})
        if said["entries"][0].get("error"):
            raise NoQueue(queue, self.link.url)
        return said

    def _look(self, queue: str) -> bool:
        """Reads what was written since the last look. Returns False if all partitions must be read: the queue was
        created again, or the database's clock was set back, so that a search by time misses writes."""
        known, safe, after = self.known[queue], None, None
        names = None if self.settings.assigned is None else set(self.settings.assigned[queue])
        while True:
            said = self._changed(queue, self._since[queue], after)
            (entry,) = said["entries"]
            if entry["queueNumber"] != self.numbers[queue]:
                return False
            new = {one["name"] for one in entry["partitions"] if one["number"] not in known}
            if new:
                for mark in known.values():
                    mark.replaced = mark.replaced or mark.name in new
            for one in entry["partitions"]:
                if names is None or one["name"] in names:
                    known[one["number"]] = Mark(one["name"], one["lastOffset"] + 1, one["logStart"])
            safe = min(safe or said["safeTime"], said["safeTime"])
            after = entry["next"]
            if not after:
                break
        if safe < self._since[queue]:
            return False
        self._since[queue] = safe
        return True
