"""POST /api/v1/queues/{queue}/erase: overwrites the stored messages of a queue that a filter selects.

It searches the dead letters, the outbox, the log, the dead letters again and the traces, in this order, so that a
message that moves on meanwhile is found later: a redrive moves a dead letter to the log. A request searches a bounded
part and returns where to go on. Each partition is erased in a transaction of its own."""
from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Request
from psycopg.rows import namedtuple_row

from ..._core import record_key, row_records, seal_opened
from ...auth.levels import ADMIN
from ...services.erasure import settle
from ..database import in_parts, rows
from ..http.answer import Json, PathName, Refusal, not_found
from ..http.body import body_object
from ..http.route import Routes
from ..http.schema import ANY, FLAG, MAYBE, NAME, TEXT, array, body, record, whole
from ..http.schemas import integers
from .dead_letters import Letter
from .maintenance import NONE
from .record import opened
from .search import BYTES
from .wanted import Wanted, wanted_of

router = Routes("messages")

# Bounds of one step.
ROWS = 2000             # rows of the log
PARTITIONS = 1000
LETTERS = 200           # dead letters, or traces
OUTBOX = 1000           # messages of the outbox
OFFSETS = 500           # records erased by one transaction
SECONDS = 1.0      # after which a request ends with the present step
PLACE = re.compile(r"outbox\.\d{1,18}|(?:early|letters)\.\d{1,18}\.\d{1,18}|log\.\d{1,10}\.\d{1,18}|"
                   r"traces\.\d{1,10}\.x(?:[0-9a-f]{2})*\.\d{1,18}", re.ASCII)
OF_PARTITION = ("log", "traces")      # places that begin with the number of a partition
START = "early.0.0"

QUEUE = "SELECT q.id, q.name, q.encryption_enabled AS encrypted FROM queend.queues q WHERE q.name = %s"
PARTITION = "SELECT p.id FROM queend.partitions p WHERE p.queue_id = %s AND p.name = %s"
PENDING = """SELECT o.id, o.queue, o.partition, o.transaction_id, o.payload::text AS payload,
            o.headers FROM queend.outbox o
     WHERE o.id > %s ORDER BY o.id LIMIT %s"""
DROP = "DELETE FROM queend.outbox o WHERE o.id = ANY (%s)"
LOG = "SELECT * FROM queend.erase_log(%s, %s, %s::int, %s, %s, %s, %s)"
DEAD = """SELECT d.*, ''::text AS message_id
     FROM queend.dead_show(ARRAY(SELECT queend.erase_dead(%s, %s, %s, %s, %s))) AS d"""
TRACES = "SELECT * FROM queend.erase_traces(%s, %s, %s::int, %s, %s, %s, %s)"
UNTRACE = "SELECT queend.trace_remove(%s)"
ERASE = "SELECT * FROM queend.messages_erase(%s, %s)"
KINDS = ("deadLetters", "traces", "outbox")      # counted beside the messages of the log


def is_place(text: str) -> bool:
    """Returns whether a text may be a place."""
    if not PLACE.fullmatch(text):
        return False
    kind, first, *_ = text.split(".")
    return kind not in OF_PARTITION or int(first) < 1 << 31


class Done:
    """Counts of a request: matches, and erased records."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter(dict.fromkeys(("messages", *KINDS), 0))
        self.erased: Counter[str] = Counter(dict.fromkeys(("erased", *KINDS), 0))
        self.searched = self.unreadable = 0


@router.declare("POST /api/v1/queues/{queue}/erase", ADMIN, whole(
    queue=TEXT, dryRun=FLAG, found=whole(**integers("messages", *KINDS)),
    **integers("erased", *KINDS, "searched", "unreadable", "buffered"), complete=FLAG, next=MAYBE),
                body=body(record([], partition=NAME, transactionIds=array(TEXT), text=TEXT, path=TEXT, value=ANY,
                                 dryRun=FLAG, after=TEXT)),
                example={"path": "/customer/email", "value": "eve@example.org"}, own=True, exact=True)
async def queue_erase(request: Request, queue: PathName) -> Json:
    """Overwrites the payloads of all messages that match, consumed and deleted ones included, and removes their dead
    letters, traces and outbox rows. All given filters must match: `partition`, `transactionIds`, `text` of the payload,
    `value` at `path` (a JSON Pointer); 400 without a filter. A request processes a part of the queue: while `complete`
    is false, pass `next` as `after` in the next request. `found` counts the matches; with `dryRun` only these. The
    other counts are of erased data. `unreadable`: messages that could not be decrypted. `buffered`: messages in this
    daemon's failover buffer, which are not searched."""
    sent = await body_object(request, strict=True)
    wanted, after = wanted_of(sent), sent.get("after", START)
    if not isinstance(sent.get("dryRun", False), bool):
        raise Refusal(400, "dryRun must be true or false", "invalid_request")
    if not isinstance(after, str) or not is_place(after):
        raise Refusal(400, "after must be the value of next in an earlier answer", "invalid_request")
    found = await rows(request, QUEUE, queue)
    if not found:
        raise not_found("Queue")
    if wanted.partition is not None and not await rows(request, PARTITION, found[0].id, wanted.partition):
        raise not_found("Partition")
    job = Erasure(request, found[0], wanted, sent.get("dryRun", False))
    place: str | None = after
    until = time.monotonic() + SECONDS
    with in_parts(lambda: {**job.done.erased, "next": place} if any(job.done.erased.values()) else {}):
        while place is not None and time.monotonic() < until:
            place = await job.step(place)
    buffer = request.app.state.control.core.buffer() or NONE
    return Json({"queue": queue, "dryRun": job.dry, "found": job.done.found, **job.done.erased,
                 "searched": job.done.searched, "unreadable": job.done.unreadable, "buffered": buffer["pending"],
                 "complete": place is None, "next": place})


class Erasure:
    """One request. A place is the kind of the next part and a position in it (PLACE): log.PARTITION.BASE."""

    def __init__(self, request: Request, queue: Any, wanted: Wanted, dry: bool):
        self.request, self.queue, self.wanted, self.dry = request, queue, wanted, dry
        self.control = request.app.state.control
        self.done = Done()

    async def step(self, place: str) -> str | None:
        """Searches the next part, and erases matches. Returns the place to go on from, None at the end."""
        kind, *numbers = place.split(".")
        steps: dict[str, Callable[..., Awaitable[str | None]]] = {
            "early": self._early, "outbox": self._outbox, "log": self._log, "letters": self._letters,
            "traces": self._traces}
        return await steps[kind](*(bytes.fromhex(one[1:]) if one[0] == "x" else int(one) for one in numbers))

    def _fits(self, key: bytes, payload: bytes | None, headers: str | None = None) -> bool:
        """Returns whether a record matches, and counts it."""
        self.done.searched += 1
        found = self.wanted.fits(key, payload, headers)
        self.done.unreadable += found is None
        return bool(found)

    async def _early(self, failed: int, after: int) -> str:
        """Erases dead letters before a redrive can move them to a part of the log that was searched. Those that stay
        are counted behind the log, all of them in a dry run."""
        if self.dry:
            return "outbox.0"
        done = self.done
        letters, messages = done.found["deadLetters"], done.erased["erased"]
        searched, unreadable = done.searched, done.unreadable
        place = await self._letters(failed, after)
        done.found["messages"] += done.erased["erased"] - messages
        done.searched, done.unreadable = searched + done.found["deadLetters"] - letters, unreadable
        return place.replace("letters.", "early.") if place.startswith("letters.") else "outbox.0"

    async def _outbox(self, after: int) -> str:
        pending = await rows(self.request, PENDING, after, OUTBOX)
        ids = [one.id for one in pending if one.queue == self.queue.name
               and self.wanted.partition in (None, one.partition)
               and self._fits(record_key(one.transaction_id), one.payload.encode(), one.headers)]
        self.done.found["outbox"] += len(ids)
        if ids and not self.dry:
            async with self.control.pool.connection() as connection:
                self.done.erased["outbox"] += (await connection.execute(DROP, (ids,))).rowcount
        return f"outbox.{pending[-1].id}" if len(pending) == OUTBOX else "log.0.0"

    async def _log(self, part: int, base: int) -> str:
        found: dict[int, list[int]] = defaultdict(list)
        async with self.control.searches:      # one at a time: each has megabytes in memory
            async with self.control.pool.connection() as connection, connection.cursor(binary=True) as cursor:
                *log, end = await (await cursor.execute(LOG, (
                    self.queue.id, self.wanted.partition, part, base, ROWS, BYTES, PARTITIONS))).fetchall()
            await asyncio.to_thread(self._match, log, found)
        for number, offsets in found.items():
            self.done.found["messages"] += len(offsets)
            await self._erase(number, offsets)
        return "letters.0.0" if end[0] is None else f"log.{end[0]}.{end[1]}"

    def _match(self, log: list[Any], found: dict[int, list[int]]) -> None:
        name = self.queue.name.encode()
        for number, base, n, ids, row_body, meta in log:
            try:
                records = row_records(name, self.queue.encrypted, ids, row_body, meta, n)
            except ValueError:      # written by a later version
                self.done.unreadable += n
                continue
            found[number] += [base + i for i, (payload, headers) in enumerate(records)
                              if payload != b"" and self._fits(ids[16 * i:16 * i + 16], payload,
                                                               headers and headers.decode())]

    async def _letters(self, failed: int, after: int) -> str:
        found: dict[int, list[int]] = defaultdict(list)
        letters = await rows(self.request, DEAD, self.queue.id, self.wanted.partition, failed, after, LETTERS)
        for one in letters:
            payload, text = self._letter(one)
            if self._fits(record_key(text), payload, one.headers):
                found[one.partition_id].append(one.record_offset)
        for number, offsets in found.items():
            self.done.found["deadLetters"] += len(offsets)
            await self._erase(number, offsets)
        return f"letters.{letters[-1].failed_at}.{letters[-1].id}" if len(letters) == LETTERS else "traces.0.x.0"

    def _letter(self, row: Any) -> tuple[bytes | None, str]:
        """Returns (payload, None if it cannot be read; transactionId) of a dead letter."""
        if row.payload is None and row.body is None:
            return None, row.transaction_id
        stored, text, _ = opened(Letter(row))
        if row.seal is None and not row.encrypted:
            return stored, text
        plain = seal_opened(self.queue.name, row.seal, stored)
        return (None if plain is None and row.seal is not None else plain or stored), text

    async def _traces(self, part: int, key: bytes, ord: int) -> str | None:
        *traces, end = await rows(self.request, TRACES, self.queue.id, self.wanted.partition, part, key, ord, LETTERS,
                                  PARTITIONS)
        ids = [one.id for one in traces if self._fits(one.record_id, one.data.encode())]
        self.done.found["traces"] += len(ids)
        if ids and not self.dry:
            self.done.erased["traces"] += (await rows(self.request, UNTRACE, ids))[0][0]
        return None if end.partition_id is None else f"traces.{end.partition_id}.x{end.record_id.hex()}.{end.ord}"

    async def _erase(self, part: int, offsets: list[int]) -> None:
        """Erases records of a partition, OFFSETS of them in a transaction; none in a dry run."""
        for at in range(0, 0 if self.dry else len(offsets), OFFSETS):
            async with self.control.pool.connection() as connection, connection.transaction():
                async with connection.cursor(row_factory=namedtuple_row) as cursor:
                    gone = await (await cursor.execute(ERASE, (part, offsets[at:at + OFFSETS]))).fetchone()
                await settle(connection, part, self.control.settings.queend_compress_from)
            self.done.erased.update(erased=gone.messages, deadLetters=gone.dead, traces=gone.traces)
