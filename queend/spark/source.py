"""Reads queues as frames: by offset, without a lease and without a group."""
from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
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
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from .link import Link
from .marks import Marks, NoQueue
from .plan import Bounds, DataLost, Place, Range, batch_ranges, edge_offsets, tasks_of
from .position import Position, numbers_of, packed, unpacked
from .records import Columns, Records
from .wanted import SourceSettings

GOLDEN = (5 ** 0.5 - 1) / 2


class BatchReader(DataSourceReader):
    """Implements `spark.read.format("queend")`. The range read is fixed when the query is planned."""

    def __init__(self, settings: SourceSettings, schema: StructType):
        self.settings, self.columns, self.bounds = settings, Columns(schema), Bounds()

    def partitions(self) -> list[InputPartition]:
        with Link(self.settings.link) as link:
            return tasks_of(batch_ranges(link, self.settings, self.bounds), self.settings)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return iter(Records(self.settings, self.columns, [Range(*one) for one in partition.value or []]))


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


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Implements `spark.readStream.format("queend")`. Lives on the driver as long as the query."""

    def __init__(self, settings: SourceSettings, schema: StructType):
        self.settings, self.columns = settings, Columns(schema)
        self._link: Link | None = None
        self._marks: Marks | None = None
        self._frozen: Position | None = None
        self._committed: Position = {}    # what the group was told
        self._phase = random.random()

    def __getstate__(self) -> dict[str, Any]:
        # tasks need none of these
        return {**self.__dict__, "_link": None, "_marks": None, "_frozen": None, "_committed": {}}

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
                raise NoQueue(f"there is no queue {queue!r} at {marks.link.url}")
        position: Position = {}
        for queue, known in marks.known.items():
            table = pa.table({"number": pa.array(list(known), pa.int32()),
                              "name": pa.array([one.name for one in known.values()], pa.string()),
                              "highWatermark": pa.array([one.head for one in known.values()], pa.int64()),
                              "logStartOffset": pa.array([one.floor for one in known.values()], pa.int64())})
            places = edge_offsets(marks.link, self.settings.start, queue, self.settings, table)
            position[queue] = dict(zip(known, places.to_pylist(), strict=True))
        return packed(position, marks.numbers)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.settings.most) if self.settings.most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._frozen = self._heads()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        heads = self._frozen or self._heads()
        begin = self._still_there(start)
        end = (self._share(begin, heads, limit.max_rows) if isinstance(limit, ReadMaxRows)
               else self._not_behind(begin, heads))
        return packed(end, self.marks.numbers)

    def _still_there(self, start: dict[str, Any]) -> Position:
        """Returns the stream's position without deleted queues: one that was created again is read from its start.
        Raises DataLost for them with failOnDataLoss."""
        marks, begin, numbers = self.marks, unpacked(start), numbers_of(start)
        for queue in self.settings.queues:
            if queue not in marks.known and queue not in begin and self.settings.strict:
                raise NoQueue(f"there is no queue {queue!r} at {marks.link.url}")
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

    def _share(self, start: Position, heads: Position, most: int) -> Position:
        """Takes from each partition its share of `most`, in proportion to its unread records. Shares below 1 are summed
        over the partitions: each time the sum passes a whole number, that partition gives a record. The start of the
        sum moves by the golden ratio each trigger, so every record has the same chance whatever its partition."""
        heads = self._not_behind(start, heads)
        begins = {queue: {number: self._begin(start, queue, number) for number in known}
                  for queue, known in heads.items()}
        total = sum(max(0, head - begins[queue][number]) for queue, known in heads.items()
                    for number, head in known.items())
        if total <= most:
            return heads
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
