"""Reads queues as frames: by offset, without a lease and without a group."""
from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from .compat import (
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from .link import Link
from .marks import Marks, NoQueue
from .plain import plain
from .plan import Bounds, DataLost, Place, Range, batch_ranges, check, edge_offsets, tasks_of
from .position import Position, metrics, numbers_of, packed, same, summed, unpacked
from .records import Columns, Records
from .wanted import SourceSettings

GOLDEN = (5 ** 0.5 - 1) / 2
EVERY = 2**62    # records: more than there are


@plain("partitions", "read")
class BatchReader(DataSourceReader):
    """Implements `spark.read.format("queend")`. The range read is fixed when the query is planned."""

    def __init__(self, settings: SourceSettings, schema: StructType):
        self.settings, self.columns, self.bounds = settings, Columns(schema, settings.format), Bounds()

    def partitions(self) -> list[InputPartition]:
        with Link(self.settings.link) as link:
            return tasks_of(batch_ranges(link, self.settings, self.bounds), self.settings)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        places = partition.value if partition else None    # no partition at all: None, in 4.0 even instead of one
        return iter(Records(self.settings, self.columns, [Range(*one) for one in places or []]))


class FilteredReader(BatchReader):
    """Adds filters to BatchReader if Spark passes them (spark.sql.python.filterPushdown.enabled): offsets and times
    bound the range."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for one in filters:
            name = one.attribute[0] if len(getattr(one, "attribute", ())) == 1 else None
            if name in ("topic", "partition"):
                self._names(name, one)
            elif name == "offset":
                self._offsets(one)
            elif name == "timestamp":
                self._times(one)
            yield one    # Spark filters again: the range may be wider than the filter, never narrower

    def _names(self, name: str, one: Filter) -> None:
        values = {one.value} if isinstance(one, EqualTo) else set(one.value) if isinstance(one, In) else None
        if values is None:
            return
        values.discard(None)     # no name is null
        before = self.bounds.queues if name == "topic" else self.bounds.partitions
        values = values if before is None else values & before
        if name == "topic":
            self.bounds.queues = values
        else:
            self.bounds.partitions = values

    def _offsets(self, one: Filter) -> None:
        value: Any = getattr(one, "value", None)
        if isinstance(one, (EqualTo, GreaterThanOrEqual)):
            self.bounds.first = max(self.bounds.first, value)
        if isinstance(one, GreaterThan):
            self.bounds.first = max(self.bounds.first, value + 1)
        if isinstance(one, LessThan):
            self.bounds.behind = min(self.bounds.behind, value)
        if isinstance(one, (EqualTo, LessThanOrEqual)):
            self.bounds.behind = min(self.bounds.behind, value + 1)

    def _times(self, one: Filter) -> None:
        value: Any = getattr(one, "value", None)
        if not isinstance(value, datetime) or value.tzinfo is None:
            return
        if isinstance(one, (EqualTo, GreaterThan, GreaterThanOrEqual)):
            self.bounds.since = max(self.bounds.since or "", _iso(value))
        if isinstance(one, LessThan):
            self.bounds.until = min(self.bounds.until or "~", _iso(value))
        if isinstance(one, (EqualTo, LessThanOrEqual)):
            self.bounds.until = min(self.bounds.until or "~", _iso(value + timedelta(microseconds=1)))


def _iso(value: datetime) -> str:
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@plain("initialOffset", "prepareForTriggerAvailableNow", "latestOffset", "reportLatestOffset", "partitions", "read",
       "commit")
class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Implements `spark.readStream.format("queend")`. Lives on the driver as long as the query."""

    def __init__(self, settings: SourceSettings, schema: StructType):
        self.settings, self.columns = settings, Columns(schema, settings.format)
        self._link: Link | None = None
        self._marks: Marks | None = None
        self._frozen: Position | None = None
        self._committed: Position = {}    # what the group was told
        self._phase = random.random()
        self._fired: float | None = None    # monotonic time of the last micro-batch; None: none since the start
        self._seen: tuple[Position, Position, Position] | None = None    # begin, end and heads of the last trigger

    def __getstate__(self) -> dict[str, Any]:
        # tasks need none of these
        return {**self.__dict__, "_link": None, "_marks": None, "_frozen": None, "_committed": {}, "_seen": None}

    @property
    def marks(self) -> Marks:
        if self._marks is None:
            self._link = Link(self.settings.link)
            self._marks = Marks(self._link, self.settings)
            self._marks.refresh()
        return self._marks

    # -- where to begin and how far to go ------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        marks = self.marks
        for queue in self.settings.queues:
            if queue not in marks.known:
                raise NoQueue(queue, marks.link.url)
        position: Position = {}
        for queue, known in marks.known.items():
            table = pa.table({"number": pa.array(list(known), pa.int32()),
                              "name": pa.array([one.name for one in known.values()], pa.string()),
                              "highWatermark": pa.array([one.head for one in known.values()], pa.int64()),
                              "logStartOffset": pa.array([one.floor for one in known.values()], pa.int64())})
            start = self.settings.start
            places = edge_offsets(marks.link, start, queue, self.settings, table)
            if start.time is None and start.times is None:    # times are looked up later than the heads
                check(self.settings, queue, table, places, places)
                places = pc.min_element_wise(pc.max_element_wise(places, table.column("logStartOffset")),
                                             table.column("highWatermark"))
            position[queue] = dict(zip(known, places.to_pylist(), strict=True))
        return self._packed(position)

    def _packed(self, position: Position) -> dict[str, Any]:
        return packed(position, self.marks.numbers, self.settings.assigned is not None)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns a limit also for minOffsetsPerTrigger alone: where Spark wants all records, it asks without one."""
        limited = self.settings.most or self.settings.least
        return ReadMaxRows(self.settings.most or EVERY) if limited else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._frozen = self._heads()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        heads = self._frozen or self._heads()
        begin = self._still_there(start)
        heads = self._not_behind(begin, heads)
        end = first = heads
        if isinstance(limit, ReadMaxRows):
            first = {queue: {number: self._begin(begin, queue, number) for number in known}
                     for queue, known in heads.items()}
            total = sum(sum(known.values()) - sum(first[queue].values()) for queue, known in heads.items())
            if self._waits(total):
                end = begin
            elif total > limit.max_rows:
                end = self._share(first, heads, total, limit.max_rows)
        self._seen = first, end, heads
        found = self._packed(end)
        return start if same(start, found) else found    # Spark compares texts: one of another version would be news

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Returns what Spark shows as `latestOffset` of a stream's progress: the heads, and how many records are behind
        the micro-batch that was planned last."""
        if self._seen is None:
            return None
        first, end, heads = self._seen
        unread = {queue: [] if end is heads else
                  [head - end.get(queue, {}).get(number, first[queue][number]) for number, head in known.items()]
                  for queue, known in heads.items()}
        return {"read": {queue: {**said, "behind": sum(unread[queue])} for queue, said in summed(heads).items()},
                **metrics(one for counts in unread.values() for one in counts)}

    def _waits(self, total: int) -> bool:
        """Returns whether a micro-batch of this many records waits for minOffsetsPerTrigger. The first one after a
        start never waits, as with Kafka's source. availableNow has no minimum."""
        least, now = self.settings.least, time.monotonic()
        if least is None or self._frozen is not None:
            return False
        if self._fired is not None and total < least and now - self._fired < self.settings.delay:
            return True
        self._fired = now
        return False

    def _still_there(self, start: dict[str, Any]) -> Position:
        """Returns the stream's position without deleted queues: one that was created again is read from its start.
        Raises DataLost for them with failOnDataLoss."""
        marks, begin, numbers = self.marks, unpacked(start), numbers_of(start)
        for queue in self.settings.queues:
            if queue not in marks.known and queue not in begin and self.settings.strict:
                raise NoQueue(queue, marks.link.url)
        for queue in [one for one in begin if self.settings.covers(one)]:
            now = marks.numbers.get(queue)
            if now is None or numbers.get(queue, now) != now:
                what = "was deleted" if now is None else "was deleted and made again"
                self._lost(f"queue {queue!r} {what} after this stream had begun to read it")
                del begin[queue]
        return begin

    def _lost(self, text: str) -> None:
        if self.settings.strict:
            raise DataLost(f"{text}. With failOnDataLoss=false the stream goes on with what is there: a queue that was "
                           "made again is read from its start")
        logging.getLogger("queend.spark").warning(text)

    def _heads(self) -> Position:
        first = self._marks is None
        marks = self.marks
        if not first:
            marks.refresh()
        return {queue: {number: one.head for number, one in known.items()} for queue, known in marks.known.items()}

    def _not_behind(self, start: Position, heads: Position) -> Position:
        """Raises heads to the offsets that were already read, so that the stream never goes back."""
        for queue, offsets in start.items():
            known = heads.setdefault(queue, {})
            for number, offset in offsets.items():
                if known.get(number, -1) < offset:
                    known[number] = offset
        return heads

    def _share(self, begins: Position, heads: Position, total: int, most: int) -> Position:
        """Takes from each partition its share of `most`, in proportion to its unread records. Shares below 1 are summed
        over the partitions: each time the sum passes a whole number, that partition gives a record. The start of the
        sum moves by the golden ratio each trigger, so every record has the same chance whatever its partition.
        begins, heads: as of all partitions; total: the records between them, more than `most`."""
        self._phase = (self._phase + GOLDEN) % 1
        shared: Position = {}
        before = int(self._phase * total)
        for queue, known in heads.items():
            shared[queue] = {}
            for number, head in known.items():
                begin = begins[queue][number]
                after = before + max(0, head - begin) * most
                shared[queue][number] = begin + after // total - before // total
                before = after
        return shared

    def _begin(self, start: Position, queue: str, number: int) -> int:
        """Returns where a partition is read from; a partition new since the start, from its oldest record on."""
        given = start.get(queue, {}).get(number)
        if given is not None:
            return given
        mark = self.marks.known.get(queue, {}).get(number)
        return mark.floor if mark else 0

    # -- a micro-batch -------------------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begin, behind = unpacked(start), unpacked(end)
        ranges: list[Place] = []
        gone: list[str] = []
        for queue, offsets in behind.items():
            known = self.marks.known.get(queue, {})
            for number, last in offsets.items():
                first = self._begin(begin, queue, number)
                if first >= last:
                    continue
                mark = known.get(number)
                if mark is None or mark.replaced:
                    gone.append(f"queue {queue!r}: a partition was deleted before its records {first} to {last - 1} "
                                "were read")
                    continue
                ranges.append((queue, mark.name, first, last, number))
        if gone:
            self._lost(gone[0] + f", and {len(gone) - 1} more" * (len(gone) > 1))
        return tasks_of(ranges, self.settings, sum(len(self.marks.known.get(queue, {})) for queue in behind))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return iter(Records(self.settings, self.columns, [Range(*one) for one in partition.value or []]))

    def commit(self, end: dict[str, Any]) -> None:
        """Commits what changed in a batch that Spark has finished, so that the daemon shows the group's lag; the first
        time all of it."""
        if not self.settings.group:
            return
        marks, reached = self.marks, unpacked(end)
        entries = [{"queue": queue, "partition": marks.known[queue][number].name, "offset": offset}
                   for queue, offsets in reached.items() for number, offset in offsets.items()
                   if self._committed.get(queue, {}).get(number) != offset
                   and number in marks.known.get(queue, {}) and not marks.known[queue][number].replaced]
        marks.link.commit(self.settings.group, entries)
        self._committed = reached

    def stop(self) -> None:
        if self._link is not None:
            self._link.close()


@plain("initialOffset", "prepareForTriggerAvailableNow", "getDefaultReadLimit", "latestOffset", "partitions", "read")
class FailedReader(StreamReader):
    """Raises `error` at the first call. If DataSource.streamReader raises an error itself, Spark reports an
    UnboundLocalError of its own instead."""

    def __init__(self, error: Exception):
        self.error = error

    def _fail(self, *_: Any) -> NoReturn:
        raise self.error

    initialOffset = prepareForTriggerAvailableNow = getDefaultReadLimit = _fail
    latestOffset = reportLatestOffset = partitions = read = _fail    # type: ignore[assignment]

    def stop(self) -> None:
        pass
