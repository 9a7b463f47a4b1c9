"""Ranges of offsets dealt to tasks: many small partitions into few tasks; large ones are cut on request."""
from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import accumulate, pairwise, repeat
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from .compat import InputPartition
from .link import Link
from .marks import assigned, check_numbers, queues_of, table_of
from .wanted import Edge, SourceSettings

# Weight of a task while no partition is cut: a record weighs 1. Each task costs Spark's Python worker about 50 ms.
WEIGHT = 1_000_000
ENTRY = 10            # additional weight of a partition


class DataLost(RuntimeError):
    """Records that should be read are gone."""


class Range(NamedTuple):
    """Records of a partition from `start` on, before `end`. The number names one incarnation of the partition: a later
    one of the same name has another number (0: any partition of the name)."""

    queue: str
    partition: str
    start: int
    end: int
    number: int = 0


Place = tuple[str, str, int, int, int]    # a range as it travels: millions are made and sent, so it is a plain tuple


class Task(InputPartition):
    """The ranges that one task reads."""

    def __init__(self, places: list[Place]):
        super().__init__(places)

    @property
    def ranges(self) -> list[Range]:
        return [Range(*one) for one in self.value or []]


def tasks_of(ranges: list[Place], settings: SourceSettings, partitions: int = 0) -> list[InputPartition]:
    """Deals ranges to tasks in their order. Cuts a partition only if it has more than maxRecordsPerPartition records,
    or if there are fewer partitions than minPartitions: its records are in order only within a task.
    `partitions` is the number of partitions of a stream: those without new records count too, so that the order does
    not depend on how many have some."""
    total = sum(end - start for _, _, start, end, _ in ranges)
    if not total:
        return []
    most = settings.rows or total
    least = max(settings.tasks or 1,
                -(-total // most) if settings.rows else -(-(total + ENTRY * len(ranges)) // WEIGHT))
    size = min(most, max(1, total // least)) if max(len(ranges), partitions) < (settings.tasks or 0) else most
    if size < total:
        ranges = [piece for one in ranges for piece in _pieces(one, size)]
    tasks: list[InputPartition] = []
    sums = array("q", accumulate((end - start for _, _, start, end, _ in ranges), initial=0))
    at = 0
    while at < len(ranges):
        # A range that would be more outside than inside begins the next task. Each task still to be made needs a range.
        before, room = sums[at], total / max(1, least - len(tasks))
        middle = bisect_right(range(len(ranges)), 2 * room, at, key=lambda n: sums[n] + sums[n + 1] - 2 * before)
        full = bisect_right(sums, before + most) - 1
        behind = max(at + 1, min(middle, full, len(ranges) - least + len(tasks) + 1))
        tasks.append(Task(ranges[at:behind]))
        total -= sums[behind] - before
        at = behind
    return tasks


def _pieces(one: Place, size: int) -> list[Place]:
    """Cuts a range into as few pieces of about the same length as hold `size` records at most."""
    queue, partition, start, end, number = one
    pieces = -(-(end - start) // size)
    edges = [start + (end - start) * n // pieces for n in range(pieces + 1)]
    return [(queue, partition, *edge, number) for edge in pairwise(edges)]


class Bounds:
    """Bounds that filters set for a batch."""

    def __init__(self) -> None:
        self.first, self.behind = 0, 2**62           # offsets
        self.since: str | None = None                # times, ISO 8601
        self.until: str | None = None
        self.queues: set[str] | None = None
        self.partitions: set[str] | None = None


def batch_ranges(link: Link, settings: SourceSettings, bounds: Bounds) -> list[Place]:
    """Returns the ranges of a batch. Computes with vectors: 10^6 partitions are one pass."""
    ranges: list[Place] = []
    for queue in queues_of(link, settings):
        if bounds.queues is not None and queue not in bounds.queues:
            continue
        table = table_of(link, queue)
        check_numbers(table, settings, queue)
        table = assigned(table, settings, queue)
        floor, head, names = table.column("logStartOffset"), table.column("highWatermark"), table.column("name")
        start = edge_offsets(link, settings.start, queue, settings, table)
        end = edge_offsets(link, settings.end, queue, settings, table)
        check(settings, queue, table, start, end)
        start, end = pc.max_element_wise(start, floor, bounds.first), pc.min_element_wise(end, head, bounds.behind)
        if bounds.since:
            start = pc.max_element_wise(start, _at(link, queue, bounds.since, settings, table))
        if bounds.until:
            end = pc.min_element_wise(end, _at(link, queue, bounds.until, settings, table))
        some = pc.less(start, end)
        if bounds.partitions is not None:
            some = pc.and_(some, pc.is_in(names, pa.array(sorted(bounds.partitions), pa.string())))
        ranges += zip(repeat(queue), names.filter(some).to_pylist(), _list(start.filter(some)),
                      _list(end.filter(some)), table.column("number").filter(some).to_pylist())
    return ranges


def _list(column: pa.ChunkedArray) -> list[int]:
    """Returns offsets, which are never null, as to_pylist does, without an object for each: in a tenth of its time."""
    return [one for chunk in column.chunks if len(chunk) for one in
            memoryview(chunk.buffers()[1]).cast("q")[chunk.offset:chunk.offset + len(chunk)].tolist()]


def edge_offsets(link: Link, edge: Edge, queue: str, settings: SourceSettings, table: pa.Table) -> pa.ChunkedArray:
    """Returns the offset of an edge in each partition of the table."""
    floor, head = table.column("logStartOffset"), table.column("highWatermark")
    if edge.time is not None:
        return _at(link, queue, edge.time, settings, table, edge)
    places = floor if edge.word == "earliest" else head
    if edge.times is not None:
        wanted = edge.times.get(queue, {})
        for moment in sorted(set(wanted.values())):
            names = pa.array([name for name, one in wanted.items() if one == moment], pa.string())
            those = pc.is_in(table.column("name"), names)
            at = _at(link, queue, moment, settings, table, edge, table.column("name").filter(those).to_pylist())
            places = pc.if_else(those, at, places)
    elif edge.places is not None:
        wanted = edge.places.get(queue, {})
        index = pc.index_in(table.column("name"), pa.array(list(wanted), pa.string()))
        given = pc.take(pa.array(list(wanted.values()), pa.int64()), index)
        given = pc.if_else(pc.equal(given, -2), floor, pc.if_else(pc.equal(given, -1), head, given))
        places = pc.coalesce(given, places)
    return places


def _at(link: Link, queue: str, at: str | int, settings: SourceSettings, table: pa.Table, edge: Edge | None = None,
        names: list[str] | None = None) -> pa.ChunkedArray:
    """Returns the offset at a time for each partition of the table, joined by the partition's number: between two
    answers partitions come and go. A partition that is gone from the second answer stands at its head. edge, names:
    as `Edge.check_time` checks them."""
    found = assigned(table_of(link, queue, at), settings, queue)
    if edge is not None and edge.strict:
        later = found.filter(pc.less(found.column("offset"), found.column("highWatermark"))).column("name")
        edge.check_time(queue, int(at), (later if names else later[:1]).to_pylist(), names)
    wanted = table.column("number").cast(pa.int64())
    place = pc.index_in(wanted, found.column("number").cast(pa.int64()).combine_chunks())
    return pc.coalesce(pc.take(found.column("offset").combine_chunks(), place.combine_chunks()),
                       table.column("highWatermark"))


def check(settings: SourceSettings, queue: str, table: pa.Table, start: pa.ChunkedArray, end: pa.ChunkedArray) -> None:
    """Raises DataLost if requested offsets do not exist. Checks nothing if failOnDataLoss is false."""
    if not settings.strict:
        return
    for places, what in ((start, "starting"), (end, "ending")):
        wrong = pc.or_(pc.less(places, table.column("logStartOffset")) if what == "starting" else pc.less(places, 0),
                       pc.greater(places, table.column("highWatermark")))
        if pc.any(wrong).as_py():
            at = pc.index(wrong.combine_chunks(), pa.scalar(True)).as_py()
            floor, head = (table.column(name)[at].as_py() for name in ("logStartOffset", "highWatermark"))
            raise DataLost(f"queue {queue!r}, partition {table.column('name')[at].as_py()!r}: the {what} offset "
                           f"{places[at].as_py()} is not there, the log has {floor} to {head}; with "
                           "failOnDataLoss=false what is there is read")
