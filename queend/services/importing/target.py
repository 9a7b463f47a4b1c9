"""The target of an import: rows of the log with the original moments of the records, cursors, dead letters."""
from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

import orjson
from psycopg.rows import namedtuple_row

from ..._core import record_key, record_row, rows_merge
from ...postgres import session

WINDOW_US = 60_000_000       # largest distance of a version-7 id from its storage that lets the log prove it
ROW_RECORDS, ROW_BYTES = 1000, 65_536
# dead letters of messages that were not moved get offsets from the end of the range of offsets
OFFSETS = 1 << 42
# every queue there shows them without effect: naming them here would put them into effect
DEFAULTS = {"ttl": 3600, "retryDelay": 1000}

CONFIGURE = "SELECT queend.configure(%s, %s, %s, %s)"
RESOLVE = "SELECT queue_id, partition_id FROM queend.resolve(%s, %s) ORDER BY ord"
BEGIN = """INSERT INTO queend.imports (source_id, partition_id) SELECT *
     FROM unnest(%s::uuid[], %s::int[]) ON CONFLICT DO NOTHING"""
PROGRESS = "SELECT * FROM queend.imports WHERE source_id = ANY (%s)"
APPEND = """SELECT queend.import_rows(%s, %s::bigint[], %s::bigint[], %s::int[], %s::uuid[], %s::boolean[], %s::bytea[],
        %s::bytea[], %s::bytea[], %s::bigint[], %s::bytea[])"""
STORED = "UPDATE queend.imports SET stored = %s, last_at = %s, last_id = %s, high = %s, odd = %s WHERE source_id = %s"
CURSOR = """INSERT INTO queend.cursors AS k (committed, row_base, lease_end, consumed_at, partition_id, group_id,
        retries) SELECT c.committed, COALESCE((SELECT l.base FROM queend.log l WHERE l.partition_id = %(part)s
        AND l.base <= c.committed + 1 ORDER BY l.base DESC
        LIMIT 1), 0), c.committed, c.consumed, %(part)s, c.grp, c.retries
     FROM unnest(%(committed)s::bigint[], %(consumed)s::bigint[], %(group)s::int[], %(retries)s::int[]) AS c (committed,
        consumed, grp, retries) ORDER BY c.grp
     ON CONFLICT (partition_id, group_id) DO UPDATE SET committed = GREATEST(k.committed, excluded.committed),
        row_base = GREATEST(k.row_base, excluded.row_base), lease_end = GREATEST(k.lease_end, excluded.lease_end)"""
DEAD = """INSERT INTO queend.dead_letters (queue_id, partition_id, group_id, group_name, record_offset, record_id,
        transaction_id, trace_id, producer_sub, payload, error, retry_count, created_at, failed_at)
     VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"""
FOUND = "SELECT queend.message_find(%s, %s)"


@dataclass
class Rows:
    """Rows of the log under construction, of one partition."""

    base: int
    high: uuid.UUID
    odd: bool
    # base, created, n, high, odd, ids, body, meta
    columns: list[list[Any]] = field(default_factory=lambda: [[] for _ in range(8)])
    late_at: list[int] = field(default_factory=list)
    late: list[bytes] = field(default_factory=list)
    open: list[tuple[int, int, bytes, bytes, bytes]] = field(default_factory=list)       # as rows_merge takes them
    bytes: int = 0

    @property
    def stored(self) -> int:
        return self.base + len(self.open)

    def add(self, message: Any, compress_from: int, now_us: int) -> None:
        """Adds a message; a full batch becomes a row."""
        payload = message.payload.encode()
        if self.open and (len(self.open) >= ROW_RECORDS or self.bytes + len(payload) > ROW_BYTES):
            self.close(compress_from)
        key, created = record_key(message.transaction_id), min(message.created_us, now_us)
        created = max(created, self.open[-1][1] if self.open else self.columns[1][-1] if self.columns[1] else 0)
        canonical = str(uuid.UUID(bytes=key)) == message.transaction_id
        body, meta = record_row([(
            payload, (message.trace_id and message.trace_id.bytes,
                      message.producer_sub and message.producer_sub.encode(),
                      None if canonical else message.transaction_id.encode(), None, None, None))])
        seven = key[6] >> 4 == 7
        if seven and abs(int.from_bytes(key[:6], "big") * 1000 - created) < WINDOW_US - 1_000_000:
            self.high = max(self.high, uuid.UUID(bytes=key))
        else:
            self.odd |= seven
            self.late_at.append(self.stored)
            self.late.append(key)
        self.open.append((1, created, key, body, meta))
        self.bytes += len(payload)

    def close(self, compress_from: int) -> None:
        if self.open:
            created, ids, body, meta = rows_merge(self.open, compress_from)
            for column, value in zip(self.columns,
                                     (self.base, created, len(self.open), self.high, self.odd, ids, body, meta),
                                     strict=True):
                column.append(value)
            self.base, self.open, self.bytes = self.stored, [], 0


class Target:
    """The database imported into. One transaction per call of `append`; everything else is idempotent."""

    def __init__(self, conninfo: str):
        self.connection = session.connect(conninfo, autocommit=True, row_factory=namedtuple_row)
        self.now_us: int = self.connection.execute("SELECT queend.now_us()").fetchone()[0]

    def close(self) -> None:
        self.connection.close()

    def known(self, names: list[str]) -> list[str]:
        """Returns those of these queues that exist and were not created by an import."""
        return [row.name
                for row in self.connection.execute(
                    "SELECT q.name FROM queend.queues q WHERE q.name = ANY (%s) AND NOT EXISTS (SELECT FROM "
                    "queend.imports i JOIN queend.partitions p ON p.id = i.partition_id WHERE p.queue_id = q.id) ORDER "
                    "BY 1", (names,))]

    def queue(self, queue: Any, groups: list[Any]) -> dict[str, int]:
        """Creates a queue with its options and groups. Returns group name → id."""
        options = {"priority": queue.priority, "leaseTime": queue.lease_time, "retryLimit": queue.retry_limit,
                   "retryDelay": queue.retry_delay, "ttl": queue.ttl, "deadLetterQueue": queue.dead_letter_queue,
                   "dlqAfterMaxRetries": queue.dlq_after_max_retries, "delayedProcessing": queue.delayed_processing,
                   "windowBuffer": queue.window_buffer, "retentionSeconds": queue.retention_seconds,
                   "completedRetentionSeconds": queue.completed_retention_seconds,
                   "retentionEnabled": queue.retention_enabled, "encryptionEnabled": queue.encryption_enabled,
                   "maxWaitTimeSeconds": queue.max_wait_time_seconds, "maxSize": queue.max_queue_size}
        given = {name: value for name, value in options.items() if value is not None and DEFAULTS.get(name) != value}
        with self.connection.transaction():
            self.connection.execute(CONFIGURE, (
                queue.name, queue.namespace or "", queue.task or "", orjson.dumps(given).decode()))
            (found,) = self.connection.execute(RESOLVE, ([queue.name], ["Default"])).fetchall()
            self.connection.execute(BEGIN, ([queue.id], [found.partition_id]))
            return {
                    group.name: self.connection.execute(
                        "SELECT group_id FROM queend.group_resolve(%s, %s, 'all', %s)",
                        (found.queue_id, group.name, group.start_us)).fetchone().group_id for group in groups}

    def partitions(self, queue: str, page: list[Any]) -> dict[uuid.UUID, Any]:
        """Creates a page of partitions. Returns id in the source → progress of its import."""
        names = [one.name for one in page]
        with self.connection.transaction():
            made = self.connection.execute(RESOLVE, ([queue] * len(names), names)).fetchall()
            self.connection.execute(BEGIN, ([one.id for one in page], [one.partition_id for one in made]))
        return {row.source_id: row for row in self.connection.execute(PROGRESS, ([one.id for one in page],))}

    def append(self, progress: Any, rows: Rows, last: Any, cursors: list[tuple[int, int, int, int]]) -> None:
        """Stores closed rows, the progress and cursors: (committed at the end, moment, group, retries). A cursor goes
        no further than the stored records. Raises RuntimeError if another program wrote to the partition."""
        part = progress.partition_id
        with self.connection.transaction():
            if rows.columns[0]:
                stored = self.connection.execute(APPEND, (part, *rows.columns, rows.late_at, rows.late)).fetchone()[0]
                if not stored:
                    raise RuntimeError("another client pushed to a partition that is being imported")
                self.connection.execute(STORED,
                                        (rows.base, last.created_at, last.id, rows.high, rows.odd, progress.source_id))
            self.connection.execute(CURSOR, {
                "part": part, "committed": [min(one[0], rows.base - 1) for one in cursors],
                "consumed": [one[1] for one in cursors], "group": [one[2] for one in cursors],
                "retries": [one[3] for one in cursors]})

    def done(self, progress: Any) -> None:
        self.connection.execute("UPDATE queend.imports SET done = true WHERE source_id = %s", (progress.source_id,))

    def tell(self, queue: str) -> None:
        """Makes the daemons of this database read the queue again: its records have old moments, which no look for new
        records covers."""
        self.connection.execute("SELECT queend.groups_moved(q.id) FROM queend.queues q WHERE q.name = %s", (queue,))

    def dead_letters(self, queue: Any, letters: Any, groups: dict[str, int]) -> int:
        """Moves all dead letters of a queue at once, unless an earlier import did. Returns how many."""
        n = 0
        with self.connection.transaction(), self.connection.cursor() as cursor:
            if cursor.execute("UPDATE queend.imports SET done = true WHERE source_id = %s AND NOT done",
                              (queue.id,)).rowcount == 0:
                return 0
            queue_id = cursor.execute("SELECT id FROM queend.queues WHERE name = %s", (queue.name,)).fetchone().id
            parts: dict[uuid.UUID, int] = {}
            for one in letters:
                if one.partition_id not in parts:
                    cursor.execute("SELECT partition_id FROM queend.imports WHERE source_id = %s", (one.partition_id,))
                    parts[one.partition_id] = cursor.fetchone().partition_id
                part, key = parts[one.partition_id], record_key(one.transaction_id)
                at = cursor.execute(FOUND, (part, key)).fetchone()[0]
                n += 1
                cursor.execute(DEAD, (queue_id, part, groups.get(one.consumer_group, 0), one.consumer_group,
                                      OFFSETS - n if at is None else at, key, one.transaction_id, one.trace_id,
                                      one.producer_sub, one.payload, one.error_message or "", one.retry_count or 0,
                                      one.created_us, one.failed_us))
        return n

    def figures(self, progress: Any) -> tuple[int, dict[int, int]]:
        """Returns (records of a partition, group → number of records it has not consumed)."""
        head = self.connection.execute("SELECT queend.head(%s)", (progress.partition_id,)).fetchone()[0]
        return head, {row.group_id: head - row.committed - 1 for row in self.connection.execute(
            "SELECT group_id, committed FROM queend.cursors WHERE partition_id = %s", (progress.partition_id,))}
