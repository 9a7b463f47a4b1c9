"""Redrives dead letters into a queue: stores them as new messages and deletes the dead letters, both or neither.

In its own queue the new message of a dead letter is for the group it was a dead letter of
(docs/inside/decisions/messages.md). A message that was moved there by hand for all groups comes back to all of them, as
does a message redriven into another queue. The new message names its origin in its headers."""
from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import namedtuple_row

from ..._core import record_new_id, record_row
from ..http.schemas import ORIGIN
from .record import opened
from .sealing import moved, sealed

ROW_BYTES, ROW_RECORDS = 65_536, 1000
SHOW = "SELECT * FROM queend.dead_show(%s)"
# Locks the queues first, as every deletion does. So the two cannot wait for each other.
STAY = """SELECT q.id FROM queend.queues q
     WHERE q.name = %s OR q.id IN (SELECT d.queue_id FROM queend.dead_letters d WHERE d.id = ANY (%s))
     ORDER BY q.id FOR NO KEY UPDATE"""
HOLD = "SELECT d.id FROM queend.dead_letters d WHERE d.id = ANY (%s) ORDER BY d.id FOR UPDATE SKIP LOCKED"
DELETE = "SELECT queend.dead_delete(%s)"
# Adds a trace to the message that was a dead letter: the id and the place it came back under. The trace goes when the
# message goes.
NOTE = """INSERT INTO queend.traces (partition_id, record_id, transaction_id, group_name, event_type, worker_id, data,
        names, created_at)
    SELECT d.partition_id, d.record_id, d.transaction_id, COALESCE(u.group_name, ''), 'redriven', 'queend', u.data,
           '{}', queend.now_us()
      FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS u (id, group_name, data)
      JOIN queend.dead_letters d ON d.id = u.id"""
ENCRYPTED = "SELECT q.name FROM queend.queues q WHERE q.name = ANY (%s) AND q.encryption_enabled"
# keeps these partitions from removal as idle ones
KEEP = "SELECT p.id FROM queend.partitions p WHERE p.id = ANY (%s) ORDER BY p.id FOR KEY SHARE"
RESOLVE = "SELECT ord, partition_id FROM queend.resolve(%s, %s) ORDER BY ord"
PUSH = """SELECT status, base FROM queend.push(0, %s::int[], %s::int[], %s::int[], %s::int[], %s::smallint[],
        %s::uuid[], %s::uuid[], %s::bytea[], %s::bytea[], %s::bytea[]) ORDER BY ord"""
ADDRESS = """SELECT queend.address_add(u.part, u.first, u.last, u.name)
     FROM unnest(%s::int[], %s::bigint[], %s::bigint[], %s::text[]) WITH ORDINALITY AS u (part, first, last, name, ord)
     ORDER BY u.part, u.first"""


@dataclass
class Row:
    """A row to be stored in the log."""

    partition: int
    group: str | None      # the only group it is for
    skip: int
    ids: list[uuid.UUID] = field(default_factory=list)
    records: list[tuple[bytes, tuple[bytes | None, ...]]] = field(default_factory=list)      # as record_row takes them
    size: int = 0


async def redrive(connection: AsyncConnection, ids: list[int], queue: str | None, partition: str | None,
                  payloads: dict[int, bytes | None] | None = None) -> tuple[list[str], set[str]]:
    """Stores these dead letters again, those of each group in order, in the given queue (None: their own) and partition
    (None: of the same name). payloads: new payloads of some of them, by id. Encrypted payloads stay encrypted. Returns
    the new transaction ids and their queues. Skips dead letters that another session has locked."""
    named: Any = namedtuple_row      # rows have the names of columns, which no type says
    async with connection.transaction(), connection.cursor(row_factory=named) as cursor:
        await cursor.execute(STAY, (queue, ids))
        held = {row.id for row in await (await cursor.execute(HOLD, (ids,))).fetchall()}
        dead = await (await cursor.execute(SHOW, ([one for one in ids if one in held],))).fetchall()
        if not dead:
            return [], set()
        # those of a group together: others pass over them at once
        dead.sort(key=lambda one: _group(one, queue) or "")
        names = [(queue or one.queue, partition if partition is not None else one.partition) for one in dead]
        parts = [row.partition_id for row in await (await cursor.execute(
            RESOLVE, tuple(map(list, zip(*names, strict=True))))).fetchall()]
        if len(await (await cursor.execute(KEEP, (parts,))).fetchall()) != len(set(parts)):
            raise RuntimeError("a partition was deleted during the redrive")
        encrypted = {row.name for row in await (await cursor.execute(
            ENCRYPTED, (list({name for name, _ in names}),))).fetchall()}
        rows, made = _rows([_group(one, queue) for one in dead], dead, parts,
                     [_payload(one, (payloads or {}).get(one.id), name, name in encrypted)
                      for one, (name, _) in zip(dead, names, strict=True)])
        written = [record_row(row.records) for row in rows]
        await cursor.execute(NOTE, ([one.id for one in dead], [one.group_name for one in dead], [
            json.dumps({"transactionId": str(id), "queue": name, "partition": part}, ensure_ascii=False)
            for id, (name, part) in zip(made, names, strict=True)]))
        await cursor.execute(DELETE, ([one.id for one in dead],))
        # The lanes are held from here to the commit, which follows at once.
        bounds = {part: [one for row in rows if row.partition == part for one in row.ids] for part in set(parts)}
        stored = await (await cursor.execute(PUSH, (
            sorted({part & 63 for part in parts}), [row.partition for row in rows], [row.skip for row in rows],
            [len(row.ids) for row in rows], [0] * len(rows),
            [min(bounds[row.partition]) for row in rows], [max(bounds[row.partition]) for row in rows],
            [b"".join(one.bytes for one in row.ids) for row in rows],
            [body for body, _ in written], [meta for _, meta in written]))).fetchall()
        if len(stored) != len(rows) or any(one.base < 0 for one in stored):
            raise RuntimeError("generated ids exist already")
        if to := [(row.partition, one.base, one.base + len(row.ids) - 1, row.group)
                  for row, one in zip(rows, stored, strict=True) if row.group]:
            await cursor.execute(ADDRESS, tuple(map(list, zip(*to, strict=True))))
    return [str(one) for row in rows for one in row.ids], {name for name, _ in names}


def _payload(dead: Any, new: bytes | None, queue: str, encrypted: bool) -> tuple[bytes, str | None]:
    """Returns the payload to store, and the id of the key it is sealed with."""
    if new is None:
        return moved(dead, opened(dead)[0], queue, encrypted)
    # sealed payloads are never stored in clear
    return sealed(queue, new) if encrypted or dead.seal is not None else (new, None)


def _group(dead: Any, queue: str | None) -> str | None:
    return None if dead.from_all or queue not in (None, dead.queue) else dead.group_name


def _rows(groups: list[str | None], dead: list[Any], parts: list[int],
          payloads: list[tuple[bytes, str | None]]) -> tuple[list[Row], list[uuid.UUID]]:
    """Returns rows of the log, and the new id of each dead letter."""
    rows: list[Row] = []
    made: list[uuid.UUID] = []
    last: dict[int, Row] = {}
    for group, one, part, (payload, seal) in zip(groups, dead, parts, payloads, strict=True):
        row = last.get(part)
        if row is None or row.group != group or row.size + len(payload) > ROW_BYTES or len(row.ids) >= ROW_RECORDS:
            row = last[part] = Row(part, group, row.skip + len(row.ids) if row else 0)
            rows.append(row)
        made.append(uuid.UUID(bytes=record_new_id()))
        row.ids.append(made[-1])
        row.records.append((payload, (one.trace_id and one.trace_id.bytes, _text(one.producer_sub), None, None,
                                      _text(seal), _headers(one))))
        row.size += len(payload)
    return rows, made


def _headers(dead: Any) -> bytes:
    """Returns the headers of the new message: the old ones, and its origin; after a second redrive the first origin."""
    headers = dead.headers or "{}"
    if origin_of(headers):
        return headers.encode()
    origin = json.dumps({"originTransactionId": opened(dead)[1], "originQueue": dead.queue,
                         "originPartition": dead.partition, "originOffset": dead.record_offset}, ensure_ascii=False)
    return f"{headers[:-1]}{',' if len(headers) > 2 else ''}{origin[1:]}".encode()


def origin_of(headers: str | None) -> dict[str, Any]:
    """Returns what headers say of the origin of a redriven dead letter."""
    if not headers or '"originTransactionId"' not in headers:
        return {}
    found = json.loads(headers)
    return {key: found[key] for key in ORIGIN if key in found}


def shown_of(headers: str | None) -> dict[str, Any]:
    """Returns what lists show of a record's headers: those that its sender gave, and its origin."""
    own = json.loads(headers).get("headers") if headers and '"headers":{' in headers else None
    return {**({} if own is None else {"headers": own}), **origin_of(headers)}


def _text(value: str | None) -> bytes | None:
    return None if value is None else value.encode()
