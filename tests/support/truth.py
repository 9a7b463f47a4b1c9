"""Figures counted by hand: every message of every queue, from the tables alone, without a function of the product."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import psycopg

LATER = 1 << 62      # a moment no test comes to
EXTRAS, TIMES, DUE = 0x10, 0x11, 3


@dataclass
class Group:
    """What one group has still to do in one partition, by offset."""

    to_do: set[int]
    leased: set[int]
    cursor: bool
    held: bool             # a lease is live
    waits: int | None      # the moment from which its first message could be delivered


@dataclass
class Partition:
    name: str
    head: int
    stored: set[int]
    groups: dict[str, Group] = field(default_factory=dict)
    unread: int | None = None      # as `waits`, in a queue without groups

    @property
    def pending(self) -> int:
        return max((len(one.to_do - one.leased) for one in self.groups.values()), default=len(self.stored))

    @property
    def processing(self) -> int:
        return max((len(one.leased) for one in self.groups.values()), default=0)

    @property
    def completed(self) -> int:
        return max((len(self.stored) - len(one.to_do) for one in self.groups.values()), default=0)


@dataclass
class Queue:
    name: str
    namespace: str
    dead: int
    groups: dict[str, dict] = field(default_factory=dict)
    partitions: dict[str, Partition] = field(default_factory=dict)

    def sum(self, name: str) -> int:
        return sum(getattr(one, name) for one in self.partitions.values())

    @property
    def stored(self) -> int:
        return sum(len(one.stored) for one in self.partitions.values())

    def of(self, group: str) -> dict[str, Group]:
        return {name: one.groups[group] for name, one in self.partitions.items()}

    @property
    def waits(self) -> int | None:
        return first([one.unread for one in self.partitions.values()]
                     + [one.waits for part in self.partitions.values() for one in part.groups.values()])


def first(moments: list[int | None]) -> int | None:
    return min((one for one in moments if one is not None), default=None)


def counted(database: psycopg.Connection) -> tuple[dict[str, Queue], int]:
    """Returns the queues by name, and the moment of the count by the database's clock (µs). The count is of one
    moment: all tables are read in one snapshot."""
    with database.transaction():
        database.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        now = int(database.execute("SELECT extract(epoch FROM clock_timestamp()) * 1000000").fetchone()[0])
        log, holes, meant = defaultdict(list), defaultdict(set), defaultdict(list)
        for part, base, n, at, meta in database.execute(
                "SELECT partition_id, base, n, created_at, meta FROM queend.log ORDER BY base"):
            log[part].append((base, n, at, meta))
        for part, offset in database.execute("SELECT partition_id, record_offset FROM queend.holes"):
            holes[part].add(offset)
        for part, low, high, name in database.execute(
                "SELECT partition_id, first_offset, last_offset, group_name FROM queend.addressed"):
            meant[part].append((range(low, high + 1), name))
        floors = dict(database.execute("SELECT partition_id, floor FROM queend.floors").fetchall())
        cursors = {(part, group): rest for part, group, *rest in database.execute(
            "SELECT partition_id, group_id, committed, beyond, lease_until, lease_end FROM queend.cursors")}
        dead = dict(database.execute("SELECT queue_id, count(*) FROM queend.dead_letters GROUP BY 1").fetchall())
        queues = {id: (Queue(name, namespace, dead.get(id, 0)), delayed * 1_000_000)
                  for id, name, namespace, delayed in database.execute(
                      "SELECT id, name, namespace, delayed_processing FROM queend.queues")}
        groups = defaultdict(list)
        for id, queue, name, start, consumed in database.execute(
                "SELECT g.id, g.queue_id, g.name, g.start_at, EXISTS (SELECT FROM queend.cursors c JOIN"
                " queend.partitions p ON p.id = c.partition_id WHERE c.group_id = g.id AND c.consumed_at > 0)"
                "  FROM queend.consumer_groups g"):
            if queue in queues:
                groups[queue].append((id, name, start))
                queues[queue][0].groups[name] = {"consumed": consumed}
        for id, queue, name in database.execute("SELECT id, queue_id, name FROM queend.partitions"):
            if queue in queues:
                there, delay = queues[queue]
                there.partitions[name] = partition(name, log[id], floors.get(id, 0), holes[id], meant[id], delay,
                                                   [(group, start, cursors.get((id, number)))
                                                    for number, group, start in groups[queue]], now)
    return {there.name: there for there, _ in queues.values()}, now


def partition(name: str, log: list, floor: int, holes: set[int], meant: list, delay: int, groups: list,
              now: int) -> Partition:
    stored, due, head = {}, {}, floor
    for base, n, at, meta in log:
        moments, dues = unpacked(n, at, meta)
        for i in range(n):
            if base + i >= floor and base + i not in holes:
                stored[base + i], due[base + i] = moments[i], dues.get(i, 0)
        head = max(head, base + n)

    def waits(to_do: set[int]) -> int | None:
        """A message could be delivered when it was stored, its delay was over, and it and those before it were due."""
        if not to_do:
            return None
        low = min(to_do)
        return max(stored[low] + delay, *(due[one] for one in stored if one <= low))
    found = Partition(name, head, set(stored))
    for group, start, cursor in groups:
        committed, beyond, until, end = cursor or (None, None, 0, -1)
        done = ({one for one in stored if one <= committed or beyond and any(
            one >= run.lower and one < run.upper for run in beyond)} if cursor
            else {one for one in stored if start is not None and stored[one] < start})
        other = {one for run, whose in meant if whose != group for one in run}
        to_do = set(stored) - done - other
        found.groups[group] = Group(to_do, {one for one in to_do if until > now and one <= end}, cursor is not None,
                                    until > now, waits(to_do))
    if not groups:
        found.unread = waits(set(stored))
    return found


def unpacked(n: int, at: int, meta: bytes) -> tuple[list[int], dict[int, int]]:
    """Returns when each record of a row was stored, and the delivery moments of those that have one."""
    moments, dues, place = [at] * n, {}, 1
    if not meta:
        return moments, dues
    if meta[0] == TIMES:
        size, place = varint(meta, 1)
        end, back = place + size, []
        while place < end:
            number, place = varint(meta, place)
            back.append(number)
        moment = at - 2 * back[0]
        moments = [moment := moment + one for one in back]
    else:
        assert meta[0] == EXTRAS, meta[0]
    while place < len(meta):
        record, place = varint(meta, place)
        flags = meta[place]
        place += 1 + 16 * (flags & 1)
        for bit in range(1, 8):
            if flags & 1 << bit:
                size, place = varint(meta, place)
                if bit == DUE:
                    dues[record] = int.from_bytes(meta[place:place + size], "big")
                place += size
    return moments, dues


def varint(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (data[place] & 127) << shift
        shift += 7
        place += 1
        if data[place - 1] < 128:
            return number, place


def differences(told: dict, truth: dict, what: str) -> Iterator[str]:
    """Names each member that was told otherwise than it was counted. A pair of numbers is a range."""
    for key in sorted(told.keys() | truth.keys(), key=str):
        have, want = told.get(key, "nothing"), truth.get(key, "nothing")
        if have != want and not (isinstance(want, range) and have in want):
            yield f"{what}, {key}: told {have!r}, counted {want!r}"
