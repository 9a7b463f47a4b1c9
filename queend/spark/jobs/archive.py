"""Archives a queue into Parquet, by queue and date, each record once. Commits archived offsets for a group, so that
retention may remove the records."""
from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

from ..link import Refused, Unreachable
from ..marks import NoQueue
from .archivetable import ArchiveTable
from .deltatable import DeltaArchive
from .fault import JobError, told
from .frames import Head, opened, source
from .icebergtable import IcebergArchive
from .manifest import Entry, Manifest, Span
from .objects import ObjectStore
from .progress import Progress, Say
from .store import Store, opened_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("partition string, offset bigint, timestamp timestamp, id string, transactionId string, "
           "headers array<struct<key:string,value:binary>>, value string")
# The day in UTC, whatever the time zone of the session.
DAY = "date_from_unix_date(cast(floor(unix_micros(timestamp) / 86400000000) as int))"
BATCH_ROWS, BATCH_PARTITIONS, FILE_ROWS = 5_000_000, 50_000, 500_000


def archive(spark: SparkSession, queue: str, target: str, *, group: str | None = "archive", allow_gaps: bool = False,
            batch_rows: int = BATCH_ROWS, file_rows: int = FILE_ROWS, compression: str = "zstd",
            table: Sequence[str] = (), catalog: str | None = None, say: Say | None = None,
            **link: str) -> dict[str, Any]:
    """Archives the records that the queue has and the archive lacks. group: gets archived offsets committed; None: no
    commit. allow_gaps: records that retention removed before they were archived are noted as lost and skipped. table:
    formats in which the archive is also a table: delta, iceberg. catalog: of Iceberg, a name in pyiceberg's
    configuration; None: a SQLite file in the archive. link: url, token, tokenFile, ca …"""
    if catalog and "iceberg" not in table:
        raise JobError(f"catalog {catalog!r} is for Iceberg: give the table iceberg, too")
    progress = Progress(spark, f"archive {queue}", say)
    store = opened_store(spark, target)
    with opened(link) as wire:
        head = Head(wire, queue)
        manifest = begun(store, head)
        tables = [opened_table(name, store, catalog) for name in dict.fromkeys(table)]
        _settle(manifest)
        _follow(tables, manifest)
        _tell(head, manifest, group, manifest.last, head.rows)
        spans, gaps = due(head, manifest, allow_gaps)
        lost = {(one.number, one.end): one for one in gaps}
        rows = files = 0
        for number, batch in enumerate(batches(spans, batch_rows), 1):
            began = time.monotonic()
            entry = _write(progress, head, manifest, link, batch, [lost[one.number, one.start] for one in batch
                                                                   if (one.number, one.start) in lost],
                           group, {"file_rows": file_rows, "compression": compression})
            _follow(tables, manifest)
            _tell(head, manifest, group, entry)
            rows += entry.rows
            files += len(entry.files)
            progress.batch(f"batch {number}, {len(batch):,} partitions, {len(entry.files)} files", entry.rows,
                           time.monotonic() - began)
    return {"job": "archive", "queue": queue, "target": str(store), "rows": rows,
            "partitions": len({one.number for one in spans}), "files": files,
            "offsets": {"from": sum(one.start for one in spans), "to": sum(one.end for one in spans)},
            "lost": sum(one.end - one.start for one in gaps),
            "entries": len(manifest.entries) - 1, "seconds": progress.seconds}


def begun(store: Store | ObjectStore, head: Head) -> Manifest:
    """Returns the manifest, of this queue and no other. A new one notes what was already gone."""
    manifest = Manifest(store, head.queue)
    if manifest.last is None:
        entry = manifest.next(head.identity, begin=[(number, floor) for number, _, floor, _ in head.rows if floor])
        try:
            manifest.commit(entry)
        except OSError as error:
            raise JobError(f"cannot write {store}: {error.strerror or error}") from None
        except JobError:
            manifest = Manifest(store, head.queue)    # another run has just begun
    if manifest.identity != head.identity:
        raise JobError(f"{store} has the archive of another queue named {head.queue!r}, which was deleted: its "
                       "offsets have nothing to do with those of today's. Archive this one into another folder")
    return manifest


def due(head: Head, manifest: Manifest, allow_gaps: bool) -> tuple[list[Span], list[Span]]:
    """Returns the ranges that exist and are not archived, and those that are gone and were not archived."""
    spans, gaps = [], []
    for number, name, floor, end in head.rows:
        start = manifest.reached(number)
        if end < start:
            raise JobError(f"queue {head.queue!r}, partition {name!r}: the log ends at {end}, but {start} is archived "
                           "already. Was the database brought back from a backup? Archive into another folder")
        if floor > start:
            if not allow_gaps:
                raise JobError(f"queue {head.queue!r}, partition {name!r}: records {start} to {floor - 1} were "
                               "removed before they were archived. With --allow-gaps they are written down as lost "
                               "and the rest is archived")
            if floor < end:    # otherwise it is noted when there are records behind it
                gaps.append(Span(number, name, start, floor))
            start = floor
        if start < end:
            spans.append(Span(number, name, start, end))
    return spans, gaps


def batches(spans: list[Span], most: int) -> Iterator[list[Span]]:
    """Yields batches of at most so many rows; a partition may be in several, in order."""
    held: list[Span] = []
    room = most
    for one in spans:
        start = one.start
        while start < one.end:
            end = min(one.end, start + room)
            held.append(one._replace(start=start, end=end))
            room -= end - start
            start = end
            if room <= 0 or len(held) >= BATCH_PARTITIONS:
                yield held
                held, room = [], most
    if held:
        yield held


def _write(progress: Progress, head: Head, manifest: Manifest, link: dict[str, str], spans: list[Span],
           gaps: list[Span], group: str | None, how: dict) -> Entry:
    store, place = manifest.store, manifest.place()
    try:
        with progress.tasks("files"):
            frame, seen = _checked(source(progress.spark, link, head.queue, spans, COLUMNS,
                                          maxRecordsPerPartition=how["file_rows"]))
            made = store.write(frame, place, how["compression"])
        head.check()
        _compare(head, spans, seen.get)
        where = f"queue={store.escaped(head.queue)}"
        entry = manifest.next(head.identity, rows=sum(one.end - one.start for one in spans), group=group, spans=spans,
                              gaps=gaps)
        entry.files = [{"path": f"{where}/{name.rpartition('/')[0]}/{entry.number:010}-{n:05}.parquet",
                        "from": f"{place}/{name}", "bytes": size}
                       for n, (name, size) in enumerate(made)]
        store.force([f"{place}/{name}" for name, _ in made])
        manifest.commit(entry)
    except JobError:
        store.remove(place)
        raise
    except Exception as error:  # noqa: BLE001 - whatever it was: nothing of this batch counts
        beaten = manifest.is_beaten()
        try:
            store.remove(place)
        except Exception:  # noqa: BLE001, S110 - the next run removes it
            pass
        if beaten:
            raise manifest.beaten() from None
        raise JobError(f"queue {head.queue!r} into {store}: {told(error)}. This batch was dropped; earlier batches are "
                       "kept") from error
    _settle(manifest)
    return entry


def _settle(manifest: Manifest) -> None:
    try:
        manifest.settle()
    except OSError as error:
        raise JobError(f"files of {manifest.store} could not be moved to their place: {error.strerror or error}. They "
                       "are archived and read; the next run moves them") from None


def opened_table(name: str, store: Store | ObjectStore, catalog: str | None = None) -> ArchiveTable:
    """Returns the table of an archive in a format, delta or iceberg, and creates what it lacks."""
    if name == "delta":
        return DeltaArchive(store, COLUMNS)
    if name == "iceberg":
        return IcebergArchive(store, catalog)
    raise JobError(f"no table can be {name!r}; expected delta or iceberg")


def _follow(tables: list[ArchiveTable], manifest: Manifest) -> None:
    for table in tables:
        table.follow(manifest)


def _checked(frame: DataFrame) -> tuple[DataFrame, Any]:
    """Returns the frame with its date, sorted, and sums that check whether it is complete."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    seen = Observation()
    number = F.crc32(F.substring("id", -8, 8))    # that of the partition, in hex; its name may be reused
    frame = frame.withColumn("date", F.expr(DAY))
    frame = frame.observe(seen, F.count(F.lit(1)).alias("rows"), F.sum("offset").alias("offsets"),
                          F.sum(number).alias("numbers"))
    return frame.sortWithinPartitions("date", "partition", "offset"), seen


def _compare(head: Head, spans: list[Span], seen: dict[str, Any]) -> None:
    wanted = {"rows": sum(one.end - one.start for one in spans),
              "offsets": sum((one.start + one.end - 1) * (one.end - one.start) // 2 for one in spans),
              "numbers": sum(crc32(f"{one.number:08x}".encode()) * (one.end - one.start) for one in spans)}
    found = {name: int(seen.get(name) or 0) for name in wanted}
    if found != wanted:
        raise JobError(f"queue {head.queue!r}: {found['rows']} records came instead of {wanted['rows']}, or others "
                       "than were asked for. Was a partition removed and made again meanwhile? Nothing of this batch "
                       "counts; run it again")


def _tell(head: Head, manifest: Manifest, group: str | None, entry: Entry | None,
          rows: list[tuple[int, str, int, int]] | None = None) -> None:
    """Commits offsets for a group: all of them if the group is new, otherwise the last entry, whose commit may be
    missing. rows: the present partitions; None: asks for them. The route takes names, not numbers: a partition that is
    deleted and made again between that answer and the commit gets the offset of the former one, at most its own end."""
    if not group or entry is None:
        return
    spans = entry.spans if entry.group == group else [
        Span(number, manifest.names[number], 0, end) for number, end in manifest.ends.items()]
    try:
        now = {number: name for number, name, *_ in (head.partitions() if rows is None else rows)}
        head.link.commit(group, [{"queue": head.queue, "partition": one.name, "offset": one.end} for one in spans
                                 if now.get(one.number) == one.name])
    except NoQueue:     # it was just deleted: there is nothing to commit
        return
    except (Refused, Unreachable) as error:
        raise JobError(f"what is archived could not be told to group {group!r}: {error}. It is archived; the next run "
                       "tells it") from None
