"""Records fetched as Arrow and given the columns that Spark wants; the next answer is fetched while this one is
read."""
from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType, StructField, StructType, TimestampType

from .compat import arrow_schema
from .link import ARROW, Link
from .plan import DataLost, Range
from .settings import named
from .shape import SchemaError
from .values import read
from .wanted import SourceSettings

ENTRIES = 1024         # of one call
ENTRY_BYTES = 8 << 20
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
GONE = "UNKNOWN_TOPIC_OR_PARTITION"
KINDS = {"key": "binary", "value": "binary", "topic": "string", "partition": "string", "offset": "bigint",
         "timestamp": "timestamp", "headers": "array<struct<key:string,value:binary>>", "id": "string",
         "transactionId": "string", "traceparent": "string", "timestampType": "int"}
FROM = {"key": "partition", "value": "payload", "topic": "queue", "partition": "partition", "offset": "offset",
        "timestamp": "ts", "headers": "headers", "id": "id", "transactionId": "transactionId",
        "traceparent": "headers", "timestampType": "offset"}
ALSO = {"key": {"string"}, "value": {"string"}, "timestampType": {"integer"}}


TYPES = {"binary": BinaryType(), "string": StringType(), "bigint": LongType(), "timestamp": TimestampType(),
         KINDS["headers"]: ArrayType(StructType([StructField("key", StringType()),
                                                 StructField("value", BinaryType())]))}


def usual(headers: bool) -> StructType:
    """Returns the columns read by default, Kafka's first."""
    names = ["key", "value", "topic", "partition", "offset", "timestamp", *(["headers"] if headers else []), "id",
             "transactionId", "traceparent"]
    return StructType([StructField(name, TYPES[KINDS[name]]) for name in names])


class Columns:
    """The columns that Spark wants, and those that the daemon is asked for. Unwanted columns are not sent."""

    def __init__(self, schema: StructType, form: str = "json"):
        for field in schema.fields:
            kind = KINDS.get(field.name)
            if kind is None:
                raise SchemaError(f'unknown column "{field.name}"; the columns of a queue are {named(KINDS)}')
            said = field.dataType.simpleString()
            if said != kind and said not in ALSO.get(field.name, ()):
                raise SchemaError(f'column "{field.name}" is {kind}, not {said}: select it as {kind}, and cast it in '
                                  "the query")
            if field.name == "value" and form == "base64" and said != kind:
                raise SchemaError(f'column "value" is {kind} with valueFormat=base64, not {said}: cast it in the query')
        self.schema = arrow_schema(schema)
        self.format = form
        asked = {FROM[name] for name in self.schema.names}
        placed = {"queue", "partition", "offset"} if form != "json" and "payload" in asked else set()
        self.asked = sorted(asked | placed)    # errors about a value name its record

    def batch(self, found: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([self._column(found, field) for field in self.schema], schema=self.schema)

    def _column(self, found: pa.RecordBatch, field: pa.Field) -> pa.Array:
        if field.name == "timestampType":
            return pa.repeat(pa.scalar(1, field.type), found.num_rows)    # the time of the log, as Kafka numbers it
        column = found.column(FROM[field.name])
        if field.name == "value" and self.format != "json":
            return read(column, self.format, partial(_place, found)).cast(field.type)
        if field.name == "traceparent":
            return pc.struct_field(pc.extract_regex(column, '"traceparent":"(?P<parent>[^"]*)"'),
                                   "parent").cast(field.type)
        if field.name == "headers":
            return _headers(column).cast(field.type)
        if pa.types.is_dictionary(column.type):
            return column.dictionary.cast(field.type).take(column.indices)
        return column if column.type == field.type else column.cast(field.type)


def _place(found: pa.RecordBatch, at: int) -> str:
    queue, partition, offset = (found.column(name)[at].as_py() for name in ("queue", "partition", "offset"))
    return f"queue {queue!r}, partition {partition!r}, offset {offset}"


def _headers(column: pa.Array) -> pa.Array:
    if pc.max(pc.binary_length(column)).as_py() in (None, 0):
        return pa.nulls(len(column), HEADERS)
    return pa.array([[{"key": key, "value": value.encode() if isinstance(value, str) else json.dumps(value).encode()}
                      for key, value in _pairs(text)] if text else None
                     for text in column.to_pylist()], HEADERS)


def _pairs(text: str) -> Iterator[tuple[str, Any]]:
    """Yields what a record has beside its payload (trace context, attributes of a CloudEvent), then the headers of its
    sender."""
    stored = json.loads(text)
    own = stored.pop("headers", {})
    yield from stored.items()
    yield from own.items()


class Records:
    """The records of one task."""

    def __init__(self, settings: SourceSettings, columns: Columns, ranges: list[Range]):
        self.settings, self.columns = settings, columns
        self.left = [one for one in ranges if one.start < one.end]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with Link(self.settings.link) as link, ThreadPoolExecutor(1) as pool:
            coming = pool.submit(self._fetch, link) if self.left else None
            while coming:
                found = coming.result()
                coming = pool.submit(self._fetch, link) if self.left else None
                for batch in found:
                    if batch.num_rows:
                        yield self.columns.batch(batch)

    def _fetch(self, link: Link) -> list[pa.RecordBatch]:
        asked = self.left[:ENTRIES]
        entries = [{"queue": one.queue, "partition": one.partition, "number": one.number, "offset": one.start,
                    "end": one.end, "maxBytes": min(ENTRY_BYTES, self.settings.bytes)} for one in asked]
        wanted = {"entries": entries, "maxBytes": self.settings.bytes, "columns": self.columns.asked}
        stream = pa.ipc.open_stream(link.ask("/api/v1/fetch", wanted, ARROW))
        told = json.loads(stream.schema.metadata[b"queend.entries"])["entries"]
        found, rest = list(stream), []
        moved = sum(said["nextOffset"] - one.start for one, said in zip(asked, told, strict=True))
        stands = not moved and not any(said.get("error") for said in told)
        if stands or moved != sum(batch.num_rows for batch in found) + sum(said.get("erased", 0) for said in told):
            raise DataLost(f"queue {asked[0].queue!r}, partition {asked[0].partition!r} and those read with it: the "
                           f"log has a gap behind record {asked[0].start}: was the database changed by hand?")
        for one, said in zip(asked, told, strict=True):
            start = said["nextOffset"]
            if said.get("error"):
                start = self._lost(one, said)
            elif said["highWatermark"] < one.end and start >= said["highWatermark"]:
                start = self._lost(one._replace(start=start), {**said, "error": "the log ends before"})
            if start < one.end:
                rest.append(one._replace(start=start))
        self.left[:ENTRIES] = rest
        return found

    def _lost(self, one: Range, said: dict) -> int:
        """Handles a range that cannot be read: returns the offset to continue from, or the range's end. Raises DataLost
        with failOnDataLoss, or if records are unreadable."""
        floor, error = said.get("logStartOffset"), said["error"]
        text = f"queue {one.queue!r}, partition {one.partition!r}: records {one.start} to {one.end - 1} cannot be "
        text += "read: it was deleted, or deleted and made again" if error == GONE else f"read: {error}"
        text += f"; the log has {floor} to {said['highWatermark']}" if floor is not None else ""
        if self.settings.strict or error == "UNREADABLE":
            raise DataLost(f"{text}. With failOnDataLoss=false what is there is read")
        logging.getLogger("queend.spark").warning(text)
        return floor if error == "OFFSET_OUT_OF_RANGE" and floor is not None and floor > one.start else one.end
