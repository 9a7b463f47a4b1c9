"""Reads a queue and its archive as one space of offsets: Parquet for archived records (cold), the daemon for newer ones
(hot), without gaps or overlaps."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .archive import COLUMNS, DAY
from .fault import JobError, failing
from .frames import Head, opened, source
from .manifest import Manifest, Span
from .progress import Progress, Say
from .store import opened_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN = f"{COLUMNS}, date date"
NAMES = ["topic", "partition", "offset", "timestamp", "id", "transactionId", "headers", "value", "date"]


def read(spark: SparkSession, queue: str, target: str, *, hot: bool = True, allow_gaps: bool = False,
         **link: str) -> DataFrame:
    """Returns a frame of topic, partition, offset, timestamp, id, transactionId, headers, value and date. hot: also
    asks the daemon for records that are not archived; otherwise it is not asked at all. Records that are gone and were
    never archived are an error, unless allow_gaps is set."""
    return Both(spark, queue, target, hot, allow_gaps, link).frame()


class Both:
    """The archived records and the others, as of one moment."""

    def __init__(self, spark: SparkSession, queue: str, target: str, hot: bool, allow_gaps: bool, link: dict[str, str]):
        self.spark, self.queue, self.link = spark, queue, link
        self.store = opened_store(spark, target)
        self.spans: list[Span] = []
        head = None
        if hot:    # first: records archived meanwhile only reduce what the daemon is asked for
            with opened(link) as wire:
                head = Head(wire, queue)
        self.manifest = Manifest(self.store, queue)
        if self.manifest.last is None:
            raise JobError(f"there is no archive of queue {queue!r} in {self.store}")
        if self.manifest.gaps and not allow_gaps:
            one = self.manifest.gaps[0]
            raise JobError(_gap(queue, one.name, one.start, one.end))
        if head is not None:
            if self.manifest.identity != head.identity:
                raise JobError(f"{self.store} has the archive of another queue named {queue!r}, which was deleted: "
                               "the two are no one space of offsets. With --cold the archive alone is read")
            self.spans = self._rest(head, allow_gaps)

    def _rest(self, head: Head, allow_gaps: bool) -> list[Span]:
        spans = []
        for number, name, floor, end in head.rows:
            start = self.manifest.reached(number)
            if floor > start and not allow_gaps:
                raise JobError(_gap(self.queue, name, start, floor))
            if end < start:
                raise JobError(f"queue {self.queue!r}, partition {name!r}: the log ends at {end}, but {start} is "
                               "archived already. Was the database brought back from a backup?")
            if max(start, floor) < end:
                spans.append(Span(number, name, max(start, floor), end))
        return spans

    def cold(self) -> DataFrame | None:
        parts = [self.store.frame(SHOWN, names) for names in self.manifest.found().values()]
        return self._shown(parts) if parts else None

    def hot(self) -> DataFrame | None:
        if not self.spans:
            return None
        from pyspark.sql import functions as F

        return self._shown([source(self.spark, self.link, self.queue, self.spans, COLUMNS,
                                   maxRecordsPerPartition=500_000).withColumn("date", F.expr(DAY))])

    def _shown(self, frames: list[DataFrame]) -> DataFrame:
        from pyspark.sql import functions as F

        whole = frames[0]
        for one in frames[1:]:
            whole = whole.unionByName(one)
        return whole.withColumn("topic", F.lit(self.queue)).select(*NAMES)

    def frame(self) -> DataFrame:
        parts = [one for one in (self.cold(), self.hot()) if one is not None]
        if not parts:
            from pyspark.sql import functions as F

            return self.spark.createDataFrame([], SHOWN).withColumn("topic", F.lit(self.queue)).select(*NAMES)
        return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])


def _gap(queue: str, name: str, start: int, end: int) -> str:
    return (f"queue {queue!r}, partition {name!r}: records {start} to {end - 1} were removed before they were "
            "archived. With --allow-gaps the others are read")


def export(spark: SparkSession, queue: str, target: str, *, output: str | None = None, format: str = "parquet",
           where: str | None = None, hot: bool = True, allow_gaps: bool = False, say: Say | None = None,
           **link: str) -> dict[str, Any]:
    """Counts the records read, or writes them to a new folder, which appears as a whole."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    progress = Progress(spark, f"read {queue}", say)
    both = Both(spark, queue, target, hot, allow_gaps, link)
    cold = sum(entry.rows for entry in both.manifest.entries)
    progress.say(f"{cold:,} rows are archived, {sum(one.end - one.start for one in both.spans):,} are not")
    seen = Observation()
    with failing(f"queue {queue!r}"):
        frame = both.frame()
        frame = frame.where(where) if where else frame
        frame = frame.observe(seen, F.count(F.lit(1)).alias("rows"))
        with progress.tasks("rows"):
            if output:
                frame.write.format(format).mode("errorifexists").save(output)
            else:
                frame.write.format("noop").mode("overwrite").save()
        rows = int(seen.get.get("rows") or 0)
    progress.batch("read", rows, progress.seconds)
    return {"job": "read", "queue": queue, "target": str(both.store), "rows": rows, "archived": cold,
            "hot": sum(one.end - one.start for one in both.spans),
            "partitions": len(both.manifest.ends.keys() | {one.number for one in both.spans}), "output": output,
            "seconds": progress.seconds}
