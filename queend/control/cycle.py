"""A cycle of a stream: what its request says, and the arguments of queend.stream_cycle made of it."""
from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from .._core import json_is_crowded, json_slices, record_key, record_new_id, record_row
from .answer import Refusal
from .database import QUEUE_MODE

CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
NAME_BYTES, TEXT_CHARS = 255, 255
KEY_BYTES, VALUE_BYTES = 2048, 1 << 20
OPS_MOST, ITEMS_MOST = 100_000, 10_000
ROW_BYTES, ROW_RECORDS = 65_536, 1000
ASIDE_BYTES = 65_536
INT4_MOST = 2**31 - 1
DONE, DEAD = ("completed", "success"), ("failed", "dlq")


Made = TypeVar("Made")


class Failed(Exception):
    """The cycle cannot be done; the message is its `error`."""


@dataclass
class Item:
    """A message for a sink. text: its transactionId where that is not the record id; seal: id of the key its payload is sealed with."""

    queue: str
    partition: str
    namespace: str
    task: str
    payload: bytes
    id: uuid.UUID
    made: bool
    text: str | None
    transaction_id: str
    trace: uuid.UUID | None
    seal: str | None = None


@dataclass
class Ack:
    record: bytes
    lease: uuid.UUID | None
    dead: bool
    count: int
    error: str


@dataclass
class Cycle:
    query: str
    partition: str
    group: str
    release: bool
    ops: int
    sets: dict[str, tuple[str, float | None]] = field(default_factory=dict)      # key → value as written, windowEnd
    unsets: set[str] = field(default_factory=set)
    items: list[Item] = field(default_factory=list)
    ack: Ack | None = None
    failed: str | None = None       # why it cannot be done, though the request is well-formed


async def aside(work: Callable[..., Made], body: bytes) -> Made:
    """Something made of a body; beside the loop where that may take longer."""
    return await asyncio.to_thread(work, body) if len(body) > ASIDE_BYTES else work(body)


def parts(text: bytes) -> Any:
    """json_slices; refuses what is no JSON or has too many of them."""
    try:
        return json_slices(text)
    except ValueError as error:
        raise Refusal(400, f"Invalid JSON: {error}", "invalid_json") from None


def members(body: bytes) -> dict[str, bytes]:
    """The request body, an object; refuses anything else."""
    if not body.strip():
        raise Refusal(400, "Empty request body", "empty_body")
    values = parts(body)
    if not isinstance(values, dict):
        raise Refusal(400, "request body must be a JSON object", "invalid_request")
    return values


def text_of(values: dict[str, bytes], name: str, where: str = "", most: int = NAME_BYTES, least: int = 0) -> str | None:
    """A text, None for one that is absent or null; refuses what is too long or no text."""
    raw = values.get(name, b"null")
    if raw == b"null":
        return None
    value = loaded(raw) if raw[:1] == b'"' else None
    if not isinstance(value, str) or "\0" in value or not least <= len(value.encode()) <= most:
        raise Refusal(400, f"{where}{name} must be a text of {'1 to' if least else 'at most'} {most} bytes without NUL",
                      "invalid_request")
    return value


def loaded(raw: bytes) -> Any:
    if json_is_crowded(raw):
        return None
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:      # half of a surrogate pair, or a number beyond all
        return None


def required(values: dict[str, bytes], name: str) -> str:
    """A text that is not empty. What is missing, empty or no text is told in the words clients know."""
    value = loaded(values.get(name, b"null"))
    if not isinstance(value, str) or not value:
        raise Refusal(400, f"{name} is required", "invalid_request")
    text_of(values, name)
    return value


def list_of(values: dict[str, bytes], name: str, most: int) -> list[dict[str, bytes]]:
    """The objects of an array; null or absent: none."""
    raw = values.get(name, b"null")
    elements = [] if raw == b"null" else parts(raw)
    if not isinstance(elements, list):
        raise Refusal(400, f"{name} must be an array", "invalid_request")
    if len(elements) > most:
        raise Refusal(400, f"{name} has more than {most} elements", "too_many")
    objects = [parts(one) for one in elements]
    for place, one in enumerate(objects):
        if not isinstance(one, dict):
            raise Refusal(400, f"{name}[{place}] must be an object", "invalid_request")
    return objects


def cycle_of(values: dict[str, bytes], check: Callable[..., None] = lambda *_: None) -> Cycle:
    """The cycle that a request asks for. Refuses (400, 413) what is malformed or too large; what the clients' protocol answers as a
    failed cycle is in `failed`. check: looks at the keys of the whole, and of each of its parts."""
    check(values)
    query, partition = required(values, "query_id"), required(values, "partition_id")
    release = values.get("release_lease", b"null")
    if release not in (b"true", b"false", b"null"):
        raise Refusal(400, "release_lease must be true or false", "invalid_request")
    cycle = Cycle(query, partition, text_of(values, "consumer_group") or QUEUE_MODE, release != b"false", 0)
    try:
        for place, op in enumerate(list_of(values, "state_ops", OPS_MOST)):
            check(op, "state_ops")
            _take_op(cycle, op, f"state_ops[{place}].")
        for one in list_of(values, "push_items", ITEMS_MOST):
            check(one, "push_items")
        cycle.items = [_item(one, f"push_items[{place}].") for place, one in enumerate(list_of(values, "push_items",
            ITEMS_MOST))]
        if values.get("ack", b"null") != b"null":
            check(parts(values["ack"]), "ack")
            cycle.ack = _ack(parts(values["ack"]))
    except Failed as failed:
        cycle.failed = str(failed)
    return cycle


def _take_op(cycle: Cycle, op: dict[str, bytes], where: str) -> None:
    kind = loaded(op.get("type", b"null"))
    if kind not in ("upsert", "delete"):
        raise Failed(f"Unknown state_op type: {kind if isinstance(kind, str) else orjson.dumps(kind).decode()}"[:200])
    key = text_of(op, "key", where, KEY_BYTES)
    if key is None:
        raise Refusal(400, f"{where}key is required", "invalid_request")
    cycle.ops += 1
    cycle.sets.pop(key, None)      # of several for one key the last one is what is left
    cycle.unsets.discard(key)
    if kind == "delete":
        cycle.unsets.add(key)
        return
    value = op.get("value", b"{}")
    if len(value) > VALUE_BYTES:
        raise Refusal(413, f"{where}value has more than {VALUE_BYTES} bytes", "value_too_large")
    cycle.sets[key] = value.decode(), _window_end(value)


def _window_end(value: bytes) -> float | None:
    if value[:1] != b"{" or b"windowEnd" not in value:
        return None
    end = loaded(parts(value).get("windowEnd", b"null"))
    return float(end) if isinstance(end, (int, float)) and not isinstance(end, bool) else None


def _item(one: dict[str, bytes], where: str) -> Item:
    queue = text_of(one, "queue", where, least=1)
    if queue is None:
        raise Refusal(400, f"{where}queue is required", "invalid_request")
    partition = text_of(one, "partition", where)
    for name in ("deliverAt", "delayMs"):
        if one.get(name, b"null") not in (b"null", b"0"):
            raise Refusal(400, f"{where}{name} is not supported in a cycle", "invalid_request")
    text = text_of(one, "transactionId", where, 4 * TEXT_CHARS) or None
    if text and len(text) > TEXT_CHARS:
        raise Refusal(400, f"{where}transactionId must have at most {TEXT_CHARS} characters", "invalid_request")
    trace = text_of(one, "traceId", where) or None
    if trace and not CANONICAL.fullmatch(trace.lower()):
        raise Refusal(400, f"{where}traceId must be a UUID", "invalid_request")
    id = uuid.UUID(bytes=record_key(text) if text else record_new_id())
    return Item(queue, "Default" if partition is None else partition, text_of(one, "namespace", where) or "",
                text_of(one, "task", where) or "",
                one.get("payload", b"null"), id, text is None, text if text and not CANONICAL.fullmatch(text) else None,
                text or str(id),
                uuid.UUID(trace) if trace else None)


def _ack(values: Any) -> Ack:
    if not isinstance(values, dict):
        raise Refusal(400, "ack must be an object or null", "invalid_request")
    transaction_id = text_of(values, "transactionId", "ack.", 4 * TEXT_CHARS)
    if not transaction_id:
        raise Failed("ack.transactionId is required")
    lease = text_of(values, "leaseId", "ack.") or None
    status = text_of(values, "status", "ack.") or DONE[0]
    if status not in DONE + DEAD:
        raise Failed(f"Unknown ack.status: {status}")
    if lease and not CANONICAL.fullmatch(lease.lower()):
        raise Failed("Invalid or expired lease")
    count = loaded(values.get("count", b"1"))
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= INT4_MOST:
        count = 1
    return Ack(record_key(transaction_id), uuid.UUID(lease) if lease else None, status in DEAD, count,
               text_of(values, "error", "ack.", 1 << 16) or "Streaming cycle reported failure")


class Rows:
    """The items as rows of the log: of each partition in their order, in pieces of at most 1000. parts: the partition of every item;
    subject: who stores them. An item that repeats the id of an earlier one of its partition is not stored again."""

    def __init__(self, items: list[Item], parts: list[int], subject: str | None):
        self.places: list[tuple[int, int]] = []       # of every item: its row, and which of it
        self.rows: list[list[Item]] = []
        self.parts: list[int] = []
        self.skips: list[int] = []
        self.subject = subject and subject.encode()
        first: dict[tuple[int, uuid.UUID], tuple[int, int]] = {}
        last: dict[int, int] = {}
        sizes: list[int] = []
        self.repeats: set[int] = set()
        for number, (item, part) in enumerate(zip(items, parts, strict=True)):
            if known := first.get((part, item.id)):
                self.repeats.add(number)
                self.places.append(known)
                continue
            row = last.get(part, -1)
            if row < 0 or len(self.rows[row]) >= ROW_RECORDS or sizes[row] + len(item.payload) > ROW_BYTES:
                self.skips.append(0 if row < 0 else self.skips[row] + len(self.rows[row]))
                self.parts.append(part)
                self.rows.append([])
                sizes.append(0)
                row = last[part] = len(self.rows) - 1
            sizes[row] += len(item.payload)
            first[part, item.id] = (row, len(self.rows[row]))
            self.places.append((row, len(self.rows[row])))
            self.rows[row].append(item)

    def arguments(self) -> tuple:
        """Lanes and rows, as queend.push wants them."""
        of: dict[int, list[Item]] = {}
        for part, row in zip(self.parts, self.rows, strict=True):
            of.setdefault(part, []).extend(row)
        kinds, lows, highs = {}, {}, {}
        for part, items in of.items():
            seven = [item.id for item in items if item.id.bytes[6] >> 4 == 7]
            kinds[part] = (0 if all(item.made for item in items)
                           else 1) if len(seven) == len(items) else 3 if seven else 2
            lows[part], highs[part] = (min(seven), max(seven)) if seven else (None, None)
        written = [record_row([(item.payload, self._extras(item)) for item in row]) for row in self.rows]
        return (sorted({part & 63 for part in self.parts}), self.parts, self.skips, [len(row) for row in self.rows],
                [kinds[part] for part in self.parts],
                [lows[part] for part in self.parts], [highs[part] for part in self.parts],
                [b"".join(item.id.bytes for item in row) for row in self.rows],
                [body for body, _ in written], [meta for _, meta in written])

    def _extras(self, item: Item) -> tuple[bytes | None, ...]:
        return item.trace and item.trace.bytes, self.subject, item.text and item.text.encode(), None, item.seal and item.seal.encode(), None
