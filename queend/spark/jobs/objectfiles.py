"""Files of Parquet in an object store as a data source of Spark that needs no Hadoop. Only ObjectStore uses this."""
from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Iterator
from datetime import date
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import (DataSource, DataSourceArrowWriter, DataSourceReader, InputPartition,
                                    WriterCommitMessage)
from pyspark.sql.types import StructType

from .bucket import asking_store, bucket

ROWS = 50_000    # of a row group, and of a batch that is read
LIST = "files.json"    # what a write has made: names and bytes


class ObjectFiles(DataSource):
    """Options: url; to read: names (JSON); to write: place (where names are relative to), compression."""

    @classmethod
    def name(cls) -> str:
        return "queend-object-files"

    def reader(self, schema: StructType) -> FilesReader:
        return FilesReader(self.options["url"], json.loads(self.options["names"]))

    def writer(self, schema: StructType, overwrite: bool) -> FilesWriter:
        return FilesWriter(self.options["url"], self.options["place"], self.options["compression"])


class FilesReader(DataSourceReader):
    """A task per file. The date of its rows is in the name of its folder."""

    def __init__(self, url: str, names: list[str]):
        self.url, self.names = url, names

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(name) for name in self.names]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        name = partition.value
        day = date.fromisoformat(name.rpartition("/")[0].rpartition("date=")[2])
        with tempfile.TemporaryFile() as file:    # all columns are read, so one request is enough
            with asking_store(self.url):
                for piece in bucket(self.url).get(name):
                    file.write(piece)
            file.seek(0)
            for batch in pq.ParquetFile(file).iter_batches(ROWS):
                yield batch.append_column("date", pa.array([day] * batch.num_rows, pa.date32()))


class Made(NamedTuple):
    """A file of a task."""

    name: str
    size: int


class FilesMade(WriterCommitMessage):
    """The files of a task."""

    def __init__(self, files: list[Made]):
        self.files = files


class FilesWriter(DataSourceArrowWriter):
    """A file per task and date. The list of the files is written when all tasks have ended."""

    def __init__(self, url: str, place: str, compression: str):
        self.url, self.place, self.codec = url, place, compression

    def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesMade:
        to, run = bucket(self.url), uuid.uuid4().hex    # another attempt of the task has other names
        return FilesMade([self._file(to, f"date={day}/{run}.parquet", (piece for _, piece in pieces))
                          for day, pieces in groupby(_by_date(iterator), key=lambda piece: piece[0])])

    def _file(self, to: Any, name: str, pieces: Iterator[pa.RecordBatch]) -> Made:
        first = next(pieces)
        with tempfile.TemporaryFile() as file:
            with pq.ParquetWriter(file, first.schema, compression=self.codec) as out:
                out.write_batch(first, row_group_size=ROWS)
                for piece in pieces:
                    out.write_batch(piece, row_group_size=ROWS)
            size = file.seek(0, 2)
            file.seek(0)
            with asking_store(self.url):
                to.put(f"{self.place}/{name}", file)
        return Made(name, size)

    def commit(self, messages: list[Any]) -> None:
        made = sorted(file for message in messages if message is not None for file in message.files)
        with asking_store(self.url):
            bucket(self.url).put(f"{self.place}/{LIST}", json.dumps(made).encode())

    def abort(self, messages: list[Any]) -> None:
        """Leaves the files: the next run removes their folder."""


def _by_date(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[date, pa.RecordBatch]]:
    """Yields each run of rows of one date, without the column of the date."""
    for batch in batches:
        days = batch.column("date").to_pylist()
        rest, start = batch.drop_columns(["date"]), 0
        for day, run in groupby(days):
            length = len(list(run))
            yield day, rest.slice(start, length)
            start += length
