"""Maps the columns of a frame to the columns of an Arrow push."""
from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from .jsontext import json_text
from .settings import named
from .values import written

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from .ids import RowIds

TEXT = {"string", "binary", "varchar", "char"}
WHOLE = {"integer", "long", "short", "byte"}
NESTED = {"struct", "array", "map"}
COLUMNS = {    # the columns read, and their allowed types
    "value": TEXT | NESTED, "queue": {"string", "varchar", "char"}, "topic": {"string", "varchar", "char"},
    "partition": TEXT | WHOLE, "key": TEXT | WHOLE, "transactionId": TEXT | WHOLE, "traceparent": TEXT,
    "deliverAt": {"timestamp", "timestamp_ntz"},
    "headers": {"array<struct<key:string,value:binary>>", "array<struct<key:string,value:string>>",
                "map<string,string>"},
}


class SchemaError(ValueError):
    """A frame that cannot be written; the message names the column and says what is allowed."""


@dataclass(frozen=True)
class Shape:
    """Names of the frame's columns by their role; None: no such column. format: one of settings.FORMATS."""

    value: str
    queue: str | None
    partition: str | None
    key: str | None
    transaction: str | None
    trace: str | None
    due: str | None
    headers: str | None
    format: str = "json"

    @classmethod
    def of(cls, schema: StructType, queue: str | None, form: str = "json") -> Shape:
        found: dict[str, str] = {}
        for field in schema.fields:
            known = next((one for one in COLUMNS if one.lower() == field.name.lower()), None)
            if known is None:
                raise SchemaError(f'unknown column "{field.name}"; the columns of a queue are {named(COLUMNS)}. Drop '
                                  'it, or put it into value')
            kind = field.dataType.simpleString() if known == "headers" else field.dataType.typeName()
            if kind not in COLUMNS[known] and kind != "void":
                raise SchemaError(f'column "{field.name}" is {kind}; it must be {" or ".join(sorted(COLUMNS[known]))}')
            if known == "value" and kind in NESTED and form != "json":
                raise SchemaError(f'column "{field.name}" is {kind}; with valueFormat={form} it must be '
                                  f'{" or ".join(sorted(TEXT))}')
            found[known] = field.name
        if "value" not in found:
            raise SchemaError('column "value" is missing (string or binary with JSON text, or a struct)')
        if "queue" in found and "topic" in found:
            raise SchemaError('give either "queue" or "topic", not both')
        if not queue and "queue" not in found and "topic" not in found:
            raise SchemaError('no queue is given: set the option "queue", or add a column "queue"')
        return cls(found["value"], found.get("queue") or found.get("topic"), found.get("partition"), found.get("key"),
                   found.get("transactionId"), found.get("traceparent"), found.get("deliverAt"),
                   found.get("headers"), form)

    @property
    def lane(self) -> str | None:
        """Returns the column that divides rows into lanes: rows of different values have no order among them."""
        return "partition" if self.partition or self.key else "queue" if self.queue else None

    def table(self, batch: pa.RecordBatch, ids: RowIds | None) -> pa.Table:
        """Returns the columns of a push. ids: None if the daemon makes them."""
        columns: dict[str, pa.Array] = {}
        if self.queue:
            columns["queue"] = _text(batch.column(self.queue))
        if self.partition or self.key:
            both = [_text(batch.column(name)) for name in (self.partition, self.key) if name]
            columns["partition"] = pc.coalesce(*both) if len(both) > 1 else both[0]
        if self.trace:
            columns["traceparent"] = _text(batch.column(self.trace))
        if self.due:
            columns["deliverAt"] = batch.column(self.due).cast(pa.timestamp("us", "UTC"))
        if self.headers:
            columns["headers"] = _headers(batch.column(self.headers))
        columns["payload"] = _payload(batch.column(self.value), self.format)
        if self.transaction:
            given = _text(batch.column(self.transaction))
            columns["transactionId"] = pc.coalesce(given, ids.texts(columns)) if ids and given.null_count else given
        elif ids:
            columns["transactionId"] = ids.texts(columns)
        return pa.table(columns)


def _text(column: pa.Array) -> pa.Array:
    """Returns values as texts; bytes must be UTF-8."""
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def _headers(column: pa.Array) -> pa.Array:
    """Returns headers, pairs of a name and a text, as JSON objects. The daemon refuses a name that occurs twice."""
    return pa.array([None if pairs is None else "{" + ",".join(map(_header, pairs)) + "}"
                     for pairs in column.to_pylist()], pa.string())


def _header(pair: Any) -> str:
    name, value = (pair["key"], pair["value"]) if isinstance(pair, dict) else pair
    try:
        text = value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        raise SchemaError(f'header {name!r} has bytes that are no text in UTF-8') from None
    return f"{json.dumps(name, ensure_ascii=False)}:{json.dumps(text, ensure_ascii=False)}"


def _payload(column: pa.Array, form: str) -> pa.Array:
    if form != "json":
        return written(column, form)
    return json_text(column) if pa.types.is_nested(column.type) else column
