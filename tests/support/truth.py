"""Figures counted by hand: every message of every queue, from the tables alone, without a function of the product."""
from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import psycopg

EXTRAS, TIMES, DUE = 0x10, 0x11, 3
QUEUE_MODE = "__QUEUE_MODE__"

# Reads the moment and, as an array of rows each: the log, deleted messages, messages for one group, floors, cursors,
# dead letters, queues, groups, partitions. One statement has one snapshot.
TABLES = """SELECT json_build_array(
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    (SELECT COALESCE(json_agg(json_build_array(partition_id, base, n, created_at, encode(meta, 'hex'))
                              ORDER BY partition_id, base), '[]') FROM queend.log),
    (SELECT COALESCE(json_agg(json_build_array(partition_id, record_offset)
                              ORDER BY partition_id, record_offset), '[]') FROM queend.holes),
    (SELECT COALESCE(json_agg(json_build_array(partition_id, first_offset, last_offset, group_name)
                              ORDER BY partition_id, first_offset, last_offset), '[]') FROM queend.addressed),
    (SELECT COALESCE(json_agg(json_build_array(partition_id, floor) ORDER BY partition_id), '[]') FROM queend.floors),
    (SELECT COALESCE(json_agg(json_build_array(partition_id, group_id, committed, beyond::text, lease_until, lease_end,
                                               consumed_at) ORDER BY partition_id, group_id), '[]')
       FROM queend.cursors),
    (SELECT COALESCE(json_agg(json_build_array(d.queue_id, d.partition_id, d.at) ORDER BY d.queue_id, d.partition_id),
                     '[]')
       FROM (SELECT queue_id, partition_id, json_agg(record_offset ORDER BY id) AS at
               FROM queend.dead_letters GROUP BY 1, 2) AS d),
    (SELECT COALESCE(json_agg(json_build_array(id, name, namespace, task, delayed_processing) ORDER BY id), '[]')
       FROM queend.queues),
    (SELECT COALESCE(json_agg(json_build_array(id, queue_id, name, start_at) ORDER BY id), '[]')
       FROM queend.consumer_groups),
    (SELECT COALESCE(json_agg(json_build_array(id, queue_id, name) ORDER BY id), '[]') FROM queend.partitions))"""


@dataclass
class Group:
    """What one group has still to do in one partition, by offset."""

    to_do: frozenset[int]
    leased: frozenset[int]
    next: int | None       # first offset not consumed; None: there is no cursor
    cursor: bool
    held: bool             # a lease is live
    waits: int | None      # the moment from which its first message could be delivered


@dataclass
class Partition:
    """One partition and its groups, by name."""

    name: str
    floor: int
    head: int
    newest: int            # moment of the newest record, 0: none is stored
    latest: int            # moment of the newest message that was not deleted, 0: there is none
    stored: frozenset[int]
    groups: dict[str, Group]
    unread: int | None     # as `waits`, in a queue without groups
    until: int             # expiry of the first live lease, 0: none
    dead: int
    buried: frozenset[int]      # offsets of its dead letters

    @cached_property
    def total(self) -> int:
        return len(self.stored)

    @cached_property
    def pending(self) -> int:
        return max((len(one.to_do - one.leased) for one in self.groups.values()), default=len(self.stored))

    @cached_property
    def processing(self) -> int:
        return max((len(one.leased) for one in self.groups.values()), default=0)

    @cached_property
    def behind(self) -> int:
        """What the group that is furthest behind has to consume, on lease or not."""
        return max((len(one.to_do) for one in self.groups.values()), default=len(self.stored))

    @cached_property
    def overlap(self) -> int:
        """Messages that are in the figures of both, pending and processing, for different groups."""
        return self.pending + self.processing - self.behind

    @cached_property
    def completed(self) -> int:
        return max((len(self.stored) - len(one.to_do) for one in self.groups.values()), default=0)

    @cached_property
    def states(self) -> dict[int, tuple[str, int, int]]:
        """Of each message its status in lists, the number of named groups that have consumed it, and of all of them.
        The group of the queue mode decides the status where the queue has one."""
        named = [one for name, one in self.groups.items() if name != QUEUE_MODE]
        deciding = [self.groups[QUEUE_MODE]] if QUEUE_MODE in self.groups else named

        def status(at: int) -> str:
            left = [one for one in deciding if at in one.to_do]
            if at in self.buried:
                return "dead_letter"
            if deciding and not left:
                return "completed"
            return "processing" if any(at in one.leased for one in left) else "pending"
        return {at: (status(at), sum(at not in one.to_do for one in named), len(named)) for at in self.stored}


@dataclass
class Queue:
    """One queue; groups: by name, whether it ever consumed something."""

    id: int
    name: str
    namespace: str
    task: str
    dead: int
    groups: dict[str, bool]
    partitions: dict[str, Partition]

    def sum(self, name: str) -> int:
        return sum(getattr(one, name) for one in self.partitions.values())

    @cached_property
    def stored(self) -> int:
        return self.sum("total")

    def of(self, group: str) -> dict[str, Group]:
        return {name: one.groups[group] for name, one in self.partitions.items()}

    @cached_property
    def waits(self) -> int | None:
        return first([one.unread for one in self.partitions.values()]
                     + [one.waits for part in self.partitions.values() for one in part.groups.values()])


class Truth:
    """Everything, at one moment by the database's clock (now, in µs). Two are equal if the tables were, and the same
    leases were live."""

    def __init__(self, tables: list[Any]):
        self.now, logs, holes, addressed, floors, cursors, dead, queues, groups, partitions = tables
        self.read = (tables[1:], [lease > self.now for _, _, _, _, lease, _, _ in cursors])
        log, gone, meant, at = (defaultdict(list) for _ in range(4))
        for part, *row in logs:
            log[part].append(tuple(row))
        for part, offset in holes:
            gone[part].append(offset)
        for part, *run in addressed:
            meant[part].append(tuple(run))
        for part, group, *cursor, until, end, consumed in cursors:
            at[part, group] = (*cursor, until if until > self.now else 0, end, consumed > 0)
        of, letters = defaultdict(list), {part: tuple(offsets) for _, part, offsets in dead}
        for number, queue, name, start in groups:
            of[queue].append((number, name, start))
        floor, self.queues, self.numbers = dict(floors), {}, {}
        delays = {}
        for number, name, namespace, task, delayed in queues:
            letters_of = sum(len(offsets) for queue, _, offsets in dead if queue == number)
            self.queues[name] = Queue(number, name, namespace, task, letters_of, {}, {})
            delays[number] = name, delayed * 1_000_000
        for number, queue, name in partitions:
            there, delay = delays[queue]
            mine = tuple((group, start, at.get((number, of_group), None)) for of_group, group, start in of[queue])
            self.queues[there].partitions[name] = partition(
                name, tuple(log[number]), floor.get(number, 0), frozenset(gone[number]), tuple(meant[number]), delay,
                mine, letters.get(number, ()))
            self.numbers[number] = there, name
        self.group_numbers = {number: (delays[queue][0], name) for number, queue, name, _ in groups}
        # cursors of a deleted partition are removed in the background
        consumed = {group for (part, group), cursor in at.items() if cursor[-1] and part in self.numbers}
        for number, (queue, name) in self.group_numbers.items():
            self.queues[queue].groups[name] = number in consumed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Truth) and self.read == other.read

    @cached_property
    def groups(self) -> dict[tuple[str, str], dict[str, Group]]:
        """By queue and name; of each group its partitions."""
        return {(queue.name, name): queue.of(name) for queue in self.queues.values() for name in queue.groups}

    @cached_property
    def lag(self) -> dict[tuple[str, str], int]:
        return {key: sum(len(one.to_do) for one in parts.values()) for key, parts in self.groups.items()}

    @cached_property
    def lagging(self) -> dict[tuple[str, str], int]:
        """Partitions with messages to consume."""
        return {key: sum(bool(one.to_do) for one in parts.values()) for key, parts in self.groups.items()}

    @cached_property
    def leased(self) -> dict[tuple[str, str], int]:
        return {key: sum(len(one.leased) for one in parts.values()) for key, parts in self.groups.items()}

    @cached_property
    def members(self) -> dict[tuple[str, str], int]:
        return {key: sum(one.cursor for one in parts.values()) for key, parts in self.groups.items()}

    @cached_property
    def waits(self) -> dict[tuple[str, str], int | None]:
        return {key: first([one.waits for one in parts.values()]) for key, parts in self.groups.items()}

    def sum(self, name: str) -> int:
        return sum(one.sum(name) for one in self.queues.values())


def first(moments: list[int | None]) -> int | None:
    return min((one for one in moments if one is not None), default=None)


def counted(database: psycopg.Connection) -> Truth:
    """Counts everything, from one snapshot."""
    return Truth(database.execute(TABLES).fetchone()[0])


@functools.lru_cache(maxsize=4096)
def partition(name: str, log: tuple, floor: int, holes: frozenset[int], meant: tuple, delay: int, groups: tuple,
              dead: tuple[int, ...]) -> Partition:
    """Counts one partition. log: its rows; meant: runs of offsets that are for one group; groups: name, start, cursor
    (None: there is none); dead: offsets of its dead letters."""
    stored, due, head = {}, {}, floor
    for base, n, at, meta in log:
        moments, dues = unpacked(n, at, bytes.fromhex(meta))
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

    found, leases = {}, []
    for group, start, cursor in groups:
        committed, beyond, until, end, _ = cursor or (None, None, 0, -1, False)
        if cursor:
            runs = runs_of(beyond)
            done = {one for one in stored if one <= committed or any(low <= one < high for low, high in runs)}
        else:
            done = {one for one in stored if start is not None and stored[one] < start}
        other = {one for low, high, whose in meant if whose != group for one in range(low, high + 1)}
        to_do = set(stored) - done - other
        found[group] = Group(frozenset(to_do), frozenset(one for one in to_do if until and one <= end),
                             max(committed + 1, floor) if cursor else None, cursor is not None, until > 0, waits(to_do))
        leases += [until] if until else []
    rows = [at for base, n, at, _ in log if base >= floor]
    latest = stored[max(stored)] if stored else 0
    return Partition(name, floor, head, max(rows, default=0), latest, frozenset(stored), found,
                     None if groups else waits(set(stored)), min(leases, default=0), len(dead), frozenset(dead))


def runs_of(text: str | None) -> list[tuple[int, int]]:
    """Reads a multirange of int8 as the database writes it: {[1,3),[5,6)}."""
    bounds = (text or "{}").strip("{}").replace("[", "").replace(")", "").split(",")
    numbers = [int(one) for one in bounds if one]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


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
    """Names each member that was told otherwise than it was counted. A range or a frozenset has what may be told."""
    for key in sorted(told.keys() | truth.keys(), key=str):
        have, want = told.get(key, "nothing"), truth.get(key, "nothing")
        if have != want and not (isinstance(want, range | frozenset) and have in want):
            yield f"{what}, {key}: told {have!r}, counted {want!r}"
