"""Writes frames into queues: Arrow batches of Spark, cut into requests, sent in order per key."""
from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.types import StructType

from .compat import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from .ids import RowIds
from .letters import Letters, letter
from .link import ARROW, Link, Refused
from .plain import plain
from .settings import SinkSettings
from .shape import Shape

ROW = re.compile(r"\(row (\d+)")
NOT_JSON = "; write value as a struct, as to_json(…), or with onError=deadletter"
WINDOW = 16    # rows sent at a time behind a refused row


class RowRefused(RuntimeError):
    """A row that the daemon refused; the message says which one and why."""


@dataclass
class Written(WriterCommitMessage):
    """The counts of what a task stored."""

    rows: int = 0
    duplicates: int = 0
    refused: int = 0


class Sink:
    """Writes the rows of one task."""

    def __init__(self, settings: SinkSettings, shape: Shape, query: str, epoch: int, part: int):
        self.settings, self.shape, self.part = settings, shape, part
        self.ids = RowIds(query, epoch, part) if settings.exactly_once else None
        aside = settings.dead_queue or settings.dead_path
        self.letters = Letters(settings, f"{query}-{epoch}-{part}") if aside else None
        self.written = Written()
        names = {"queue": settings.queue, "partition": settings.partition}
        self.target = "/api/v1/push?" + urlencode({"format": "counts",
                                                   **{name: value for name, value in names.items() if value}})
        self.lanes = settings.lanes if shape.lane else 1

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Prepares a wave of requests while the one before is sent, and sends it after that one arrived, so a key stays
        in order."""
        links = [Link(self.settings.link) for _ in range(self.lanes)]
        under_way: list[Future] = []
        with ThreadPoolExecutor(self.lanes) as pool:
            try:
                for first, table in self._tables(batches):
                    wave = [(rows, piece, self._body(piece) if piece.num_rows <= self.settings.rows else None)
                            for rows, piece in self._split(first, table)]
                    self._take(under_way)
                    under_way = [pool.submit(self._send, link, *one) for link, one in zip(links, wave, strict=False)]
                self._take(under_way)
                if self.letters:
                    self.letters.close()
            finally:
                pool.shutdown(cancel_futures=True)
                for link in links:
                    link.close()
        return self.written

    def _take(self, under_way: list[Future]) -> None:
        for one in under_way:
            done: Written = one.result()
            self.written.rows += done.rows
            self.written.duplicates += done.duplicates
            self.written.refused += done.refused

    def _tables(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
        """Yields pieces of at most as many rows and bytes as a wave may have, each with the number of its first row."""
        rows, size = self.settings.rows * self.lanes, self.settings.bytes * self.lanes
        kept: list[pa.Table] = []
        first = n = weight = 0
        for batch in batches:
            table = self.shape.table(batch, self.ids)
            each = max(1, table.nbytes // max(1, table.num_rows))
            at = 0
            while at < table.num_rows:
                take = min(table.num_rows - at, rows - n, max(1, (size - weight) // each))
                kept.append(table.slice(at, take))
                at += take
                n += take
                weight += take * each
                if n >= rows or weight + each > size:
                    yield first, pa.concat_tables(kept)
                    first, n, weight, kept = first + n, 0, 0, []
        if n:
            yield first, pa.concat_tables(kept)

    def _split(self, first: int, table: pa.Table) -> list[tuple[Any, pa.Table]]:
        """Splits a table into as many parts as there are lanes; rows of one partition stay together. Returns each part
        with the numbers of its rows."""
        table = table.combine_chunks()
        for name in ("queue", "partition"):
            if name in table.column_names:
                place = table.column_names.index(name)
                table = table.set_column(place, name, table.column(name).dictionary_encode())
        if self.lanes == 1:
            return [(first, table)]
        place = pc.fill_null(table.column(self.shape.lane).combine_chunks().indices, 0)
        lane = pc.subtract(place, pc.multiply(pc.divide(place, self.lanes), self.lanes))
        pieces = []
        for number in range(self.lanes):
            rows = pc.indices_nonzero(pc.equal(lane, number))
            if len(rows):
                pieces.append((pc.add(rows.cast(pa.int64()), first), table.take(rows)))
        return pieces

    def _body(self, table: pa.Table) -> pa.Buffer:
        out = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression=self.settings.compression)
        with pa.ipc.new_stream(out, table.schema, options=options) as writer:
            writer.write_table(table)
        return out.getvalue()

    # -- one request, and its remaining rows after a refusal
    # ------------------------------------------------------------

    def _send(self, link: Link, rows: Any, table: pa.Table, body: pa.Buffer | None) -> Written:
        """Sends rows and returns what was stored. rows: the number of the first row, or of each row; body: the request
        with all rows, None if it is not made yet or one request cannot have them all."""
        done = Written()
        todo = [(0, table.num_rows)]
        window = most = min(table.num_rows, self.settings.rows)     # a wave may have all its rows in one lane
        while todo:
            at, end = todo.pop()
            if end - at > window:
                todo.append((at + window, end))
                end = at + window
            piece = table.slice(at, end - at)
            try:
                said = orjson.loads(link.post(self.target, memoryview(body or self._body(piece)), ARROW))
            except Refused as refused:
                if refused.status == 413 and end - at > 1:
                    todo += [((at + end) // 2, end), (at, (at + end) // 2)]
                    body = None
                    continue
                place = ROW.search(refused.text)
                bad = (at + int(place[1]) if place and refused.status == 400
                       else at if end - at == 1 and refused.status in (400, 413) else None)
                if bad is None or bad >= end:
                    raise RowRefused(f"queue {self._name(table, 'queue', at)!r}, rows {self._number(rows, at)} to "
                                     f"{self._number(rows, end - 1)} of Spark partition {self.part}: "
                                     f"{refused}") from None
                self._refuse(link, rows, table, bad, refused)
                done.refused += 1
                todo += [span for span in ((bad + 1, end), (at, bad)) if span[0] < span[1]]
                window = min(max(WINDOW, bad - at), most)
                body = None
                continue
            body = None
            window = min(2 * window, most)
            done.rows += said["queued"]
            done.duplicates += said["duplicate"]
            if said["error"]:
                raise RowRefused(f"queue {self._name(table, 'queue', at)!r}: {said['error']} of rows "
                                 f"{self._number(rows, at)} to {self._number(rows, end - 1)} of Spark partition "
                                 f"{self.part} were not stored: {said}")
        return done

    def _name(self, table: pa.Table, column: str, at: int) -> str | None:
        given = table.column(column)[at].as_py() if column in table.column_names else None
        return given or getattr(self.settings, column) or ("Default" if column == "partition" else None)

    @staticmethod
    def _number(rows: Any, at: int) -> int:
        return rows + at if isinstance(rows, int) else rows[at].as_py()

    def _refuse(self, link: Link, rows: Any, table: pa.Table, at: int, refused: Refused) -> None:
        row = self._number(rows, at)
        queue, partition = self._name(table, "queue", at), self._name(table, "partition", at)
        if self.letters is None:
            raise RowRefused(f"queue {queue!r}, partition {partition!r}, row {row} of Spark partition {self.part}: "
                             f"{refused}{NOT_JSON if refused.text.startswith('Invalid JSON') else ''}")
        self.letters.add(letter(table, at, row, {"queue": queue, "partition": partition, "sparkPartition": self.part},
                                refused.text), link)


@plain("write")
class BatchWriter(DataSourceArrowWriter):
    """Implements `df.write.format("queend")`. The constructor runs on the driver once; `write` in each task."""

    def __init__(self, settings: SinkSettings, schema: StructType):
        self.settings, self.shape = settings, Shape.of(schema, settings.queue, settings.format)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return Sink(self.settings, self.shape, self.settings.query, 0, TaskContext.get().partitionId()).write(iterator)


@plain("write")
class StreamWriter(DataSourceStreamArrowWriter):
    """Implements `df.writeStream.format("queend")`. The query's id is that of its checkpoint, so a restarted query
    makes the same ids again."""

    def __init__(self, settings: SinkSettings, schema: StructType):
        self.settings, self.shape = settings, Shape.of(schema, settings.queue, settings.format)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        task = TaskContext.get()
        query = task.getLocalProperty("sql.streaming.queryId")
        epoch = task.getLocalProperty("streaming.sql.batchId")
        if query is None or epoch is None:
            raise RuntimeError("this version of Spark does not tell a task its query and epoch: rows could not be told "
                               "apart")
        return Sink(self.settings, self.shape, query, int(epoch), task.partitionId()).write(iterator)
