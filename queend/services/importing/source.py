"""A Queen MQ database as an import reads it: never written, in one snapshot."""
from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import namedtuple_row

from ...postgres import session
from ...settings.dsn import words_of

TABLES = ("queues", "partitions", "messages", "partition_consumers", "consumer_groups_metadata", "dead_letter_queue")
PAGE = 500           # partitions
CHUNK = 2000         # messages fetched at a time

# A cursor's place is the last message that the group consumed, or the start of its subscription if it consumed none.
QUEUES = "SELECT * FROM {}.queues ORDER BY name"
GROUPS = """SELECT c.consumer_group AS name, m.mode, (extract(epoch FROM m.start) * 1000000)::bigint AS start_us
     FROM (SELECT DISTINCT k.consumer_group FROM {0}.partition_consumers k
        JOIN {0}.partitions p ON p.id = k.partition_id WHERE p.queue_id = %(queue)s UNION SELECT x.consumer_group
        FROM {0}.consumer_groups_metadata x WHERE x.queue_name = %(name)s) AS c
     LEFT JOIN LATERAL (SELECT x.subscription_mode AS mode, x.subscription_timestamp AS start
        FROM {0}.consumer_groups_metadata x WHERE x.consumer_group = c.consumer_group AND x.queue_name = %(name)s
        AND x.partition_name = '' LIMIT 1) AS m ON true ORDER BY 1"""
PARTITIONS = "SELECT p.id, p.name FROM {0}.partitions p WHERE p.queue_id = %s AND p.id > %s ORDER BY p.id LIMIT %s"
CURSORS = """SELECT k.partition_id, k.consumer_group, k.last_consumed_created_at AS at, k.last_consumed_id AS id,
        k.batch_retry_count AS retries, (extract(epoch FROM k.last_consumed_at) * 1000000)::bigint AS consumed_us,
        m.start FROM {0}.partition_consumers k JOIN {0}.partitions p ON p.id = k.partition_id
     JOIN {0}.queues q ON q.id = p.queue_id
     LEFT JOIN LATERAL (SELECT x.subscription_timestamp AS start FROM {0}.consumer_groups_metadata x
        WHERE x.consumer_group = k.consumer_group AND x.queue_name = q.name AND x.partition_name IN ('', p.name)
        ORDER BY x.partition_name DESC LIMIT 1) AS m ON k.last_consumed_created_at IS NULL
     WHERE k.partition_id = ANY (%s)"""
AFTER = "(m.created_at, m.id) > (%(at)s::timestamptz, %(id)s::uuid)"
MESSAGES = """SELECT m.id, m.transaction_id, m.trace_id, m.payload::text AS payload, m.producer_sub, m.created_at,
       (extract(epoch FROM m.created_at) * 1000000)::bigint AS created_us
  FROM {0}.messages m WHERE m.partition_id = %(part)s AND """ + AFTER + " ORDER BY m.created_at, m.id"
COUNT = "SELECT count(*) FROM {0}.messages m WHERE m.partition_id = %(part)s AND " + AFTER
BETWEEN = COUNT + " AND (m.created_at, m.id) <= (%(to_at)s::timestamptz, %(to_id)s::uuid)"
DEAD = """SELECT d.partition_id, d.consumer_group, d.error_message, d.retry_count, m.transaction_id, m.trace_id,
        m.producer_sub, m.payload::text AS payload, (extract(epoch FROM m.created_at) * 1000000)::bigint AS created_us,
        (extract(epoch FROM d.failed_at) * 1000000)::bigint AS failed_us
     FROM {0}.dead_letter_queue d JOIN {0}.messages m ON m.id = d.message_id
     JOIN {0}.partitions p ON p.id = m.partition_id WHERE p.queue_id = %s ORDER BY d.failed_at, d.id"""

ZERO = uuid.UUID(int=0)
Place = tuple[datetime, uuid.UUID]     # (created_at, id): messages behind it are wanted
BEGINNING: Place = (datetime(1, 1, 1, tzinfo=timezone.utc), ZERO)


class SourceError(Exception):
    """The database is not one of Queen MQ, or cannot be read."""


@dataclass(frozen=True)
class Cursor:
    group: str
    place: Place              # of the last message it consumed, or that lies before its subscription
    retries: int
    consumed_us: int


class Source:
    """Reads in one snapshot, taken by the constructor. Raises SourceError if the database is not one of Queen MQ,
    ConfigError for an invalid connection string."""

    def __init__(self, dsn: str, schema: str):
        words_of(dsn, "the connection string")
        try:
            self.connection = psycopg.connect(
                dsn, row_factory=namedtuple_row, application_name="queend import-queen", client_encoding="UTF8",
                options="-c statement_timeout=0 -c idle_in_transaction_session_timeout=0 -c "
                        "default_transaction_read_only=on -c timezone=UTC")
        except psycopg.Error as error:
            raise SourceError(f"cannot connect to the database: {session.told(error)}") from None
        self.schema = sql.Identifier(schema)
        self.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        self.connection.read_only = True
        kinds: dict[str, str] = dict(self.connection.execute(
            "SELECT c.relname, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE "
            "n.nspname = %s", (schema,)).fetchall())
        if missing := [name for name in TABLES if kinds.get(name) not in ("r", "p")]:
            if self.rows("SELECT to_regclass('queend.log')")[0][0] is not None:
                raise SourceError("this is a database of queend, without tables of Queen MQ")
            raise SourceError(f"the schema {schema} has no tables of Queen MQ: {', '.join(missing)} missing")

    def close(self) -> None:
        self.connection.close()

    def rows(self, text: str, parameters: Any = None) -> list[Any]:
        return self.connection.execute(sql.SQL(text).format(self.schema), parameters).fetchall()

    def queues(self) -> list[Any]:
        return self.rows(QUEUES)

    def groups(self, queue: Any) -> list[Any]:
        """Returns the queue's consumer groups: name, mode and start_us of a subscription to the whole queue (None: no
        subscription)."""
        return self.rows(GROUPS, {"queue": queue.id, "name": queue.name})

    def partitions(self, queue: Any) -> Iterator[tuple[list[Any], dict[uuid.UUID, list[Cursor]]]]:
        """Yields the queue's partitions (id, name), a page at a time, and the cursors of each."""
        after = ZERO
        while page := self.rows(PARTITIONS, (queue.id, after, PAGE)):
            cursors: dict[uuid.UUID, list[Cursor]] = {one.id: [] for one in page}
            for k in self.rows(CURSORS, ([one.id for one in page],)):
                # A message of exactly the subscription's moment is wanted: the smallest possible id lies before it.
                place = (k.at, k.id) if k.at is not None else (k.start, ZERO) if k.start is not None else BEGINNING
                cursors[k.partition_id].append(Cursor(k.consumer_group, place, k.retries, k.consumed_us or 0))
            yield page, cursors
            after = page[-1].id

    def messages(self, partition: uuid.UUID, after: Place) -> Iterator[Any]:
        """Yields the partition's messages behind a place, in order, with a bounded number of them in memory."""
        with self.connection.cursor("messages") as cursor:
            cursor.itersize = CHUNK
            cursor.execute(sql.SQL(MESSAGES).format(self.schema), {"part": partition, "at": after[0], "id": after[1]})
            yield from cursor

    def count(self, partition: uuid.UUID, after: Place, to: Place | None = None) -> int:
        """Returns how many messages lie behind a place, up to another."""
        known = {"part": partition, "at": after[0], "id": after[1]}
        if to is None:
            return self.rows(COUNT, known)[0][0]
        return self.rows(BETWEEN, {**known, "to_at": to[0], "to_id": to[1]})[0][0]

    def dead_letters(self, queue: Any) -> Iterator[Any]:
        with self.connection.cursor("dead") as cursor:
            cursor.itersize = CHUNK
            cursor.execute(sql.SQL(DEAD).format(self.schema), (queue.id,))
            yield from cursor
