"""Pushes of many items: gathers items into requests, counts answers, traces an error to its line."""
from __future__ import annotations

import hashlib
import itertools
import os
import re
import time
import uuid
from typing import Any
from urllib.parse import quote

import orjson

from ..wording import many
from .client import Server, ServerError
from .lines import Payload
from .output import Format, dump
from .remote import Foreign, Stop
from .terminal import say, write

ITEMS, BYTES = 1000, 1 << 20      # of one request
AGAIN_S = 30.0                    # how long a server that is unavailable is retried
PLACE = re.compile(r"\(item (\d+)(?:, ([^)]*))?\)")
TURNS = itertools.count(int.from_bytes(os.urandom(4), "big"))
KEY, KEY_MOST = "Idempotency-Key", 255      # characters


def made_id() -> str:
    """Returns a UUID of version 7. The server finds duplicates of such ids most cheaply, because they grow with time.
    A queue without order takes the sum of the three parts behind the time as the number of a partition. The last part
    is made so that these sums count up: messages go to the partitions in turn."""
    drawn = int.from_bytes(os.urandom(6), "big")
    first, second = drawn >> 36, 1 << 31 | drawn & 0x3fffffff       # 12 and 30 random bits
    last = next(TURNS) - first - second & 0xffffffff
    return str(uuid.UUID(int=int(time.time() * 1000) << 80 | (7 << 12 | first) << 64 | second << 32 | last))


class Sender:
    def __init__(self, server: Server, queue: str, partition: str, field: str | None, every: dict[str, Any],
                 headers: dict[str, str], output: Format):
        (queue + partition).encode()      # a name that is not UTF-8 is refused as such: UnicodeEncodeError
        self.server, self.queue, self.partition, self.field = server, queue, partition, field
        self.every, self.output = every, output
        self.headers = {name: value for name, value in headers.items() if name.lower() != KEY.lower()}
        given = [value for name, value in headers.items() if name.lower() == KEY.lower()]
        self.key = given[-1] if given else None
        self.requests = 0
        self.event = any(name.lower().startswith("ce-") for name in headers)
        self.items: list[bytes] = []
        self.places: list[str] = []
        self.ours: list[bool] = []      # whether the id of an item was made here
        self.added = self.size = self.stored = self.duplicates = self.deleted = self.buffered = self.printed = 0

    def add(self, payload: Payload, item: bool) -> None:
        made = self._item(payload) if item else payload.text if self.event else self._wrapped(payload)
        self.items.append(made)
        self.places.append(payload.where)
        self.ours += [False] * (len(self.items) - len(self.ours))
        self.added += 1
        self.size += len(made)
        if len(self.items) >= ITEMS or self.size >= BYTES or self.event:
            self.flush()

    def _wrapped(self, payload: Payload) -> bytes:
        partition = self.partition
        if self.field is not None:
            value = orjson.loads(payload.text)
            for name in self.field.split("."):
                value = value.get(name) if isinstance(value, dict) else None
            if not isinstance(value, (str, int)) or isinstance(value, bool):
                raise Stop(f"{payload.where} has no field {self.field} with the name of a partition", 1)
            partition = str(value)
        head = dump({"queue": self.queue, "partition": partition, **self.every, **self._id(self.every)}).encode()
        return b'%s,"payload":%s}' % (head[:-1], payload.text)

    def _item(self, payload: Payload) -> bytes:
        if not payload.text.lstrip().startswith(b"{"):
            raise Stop(f"{payload.where} is not an object: --items requires objects with a payload", 1)
        named = orjson.loads(payload.text)
        if "payload" not in named:
            raise Stop(f"{payload.where} has no payload", 1)
        head = {name: value for name, value in {"queue": self.queue, "partition": self.partition, **self.every}.items()
                if name not in named}
        head |= self._id({**self.every, **named})
        rest = payload.text.strip()
        return (dump(head).encode()[:-1] + b"," + rest[1:]) if head else rest

    def _id(self, named: dict[str, Any]) -> dict[str, str]:
        """Returns an id for an item without one, so that a request may be sent again. A key makes the ids."""
        if self.key is not None or "transactionId" in named:
            return {}
        self.ours.append(True)
        return {"transactionId": made_id()}

    def flush(self) -> None:
        if not self.items:
            return
        items, places, ours = self.items, self.places, self.ours
        self.items, self.places, self.ours, self.size = [], [], [], 0
        answer = self._send(items, places)
        if not isinstance(answer, list) or len(answer) != len(items):
            raise Foreign(self.server.url)
        for row, made in zip(answer, ours, strict=True):
            if made and row.get("status") == "duplicate":
                row["status"] = "queued"      # by the same request, whose answer was lost
            status = row.get("status")
            self.stored += status == "queued"
            self.duplicates += status == "duplicate"
            self.deleted += status == "duplicate_of_deleted"
            self.buffered += status == "buffered"
        for row in answer:
            if self.output is Format.ndjson:
                write(dump(row) + "\n")
            elif self.output is Format.names:
                say(row["transaction_id"])
            elif self.output is Format.json:
                write(("[\n " if not self.printed else ",\n ") + dump(row))
            self.printed += 1
        if wrong := [(row, place) for row, place in zip(answer, places, strict=False)
                     if row.get("status") not in ("queued", "duplicate", "duplicate_of_deleted", "buffered")]:
            row, place = wrong[0]
            raise Stop(f"{place}: {row.get('error') or row.get('status')}", 1)

    def _send(self, items: list[bytes], places: list[str]) -> Any:
        if self.event:
            path = (f"/api/v1/events/{quote(self.queue, safe='')}?partition={quote(self.partition, safe='')}"
                    + "".join(f"&{name}={quote(str(value))}" for name, value in self.every.items()))
            body, headers = items[0], {"Content-Type": "application/json", **self.headers}
        else:
            path, body = "/api/v1/push", b'{"items":[' + b",".join(items) + b"]}"
            headers = self.headers if self.key is None else {**self.headers, KEY: self._next_key(self.key)}
        begin = time.monotonic()
        while True:
            try:
                return self.server.read(self.server.call("POST", "", target=path, body=body, headers=headers,
                                                         repeats=not self.event), "POST")
            except ServerError as error:
                # The request may have been executed. The ids of its items, or of its event, make a repeat safe.
                if error.code == 503 and time.monotonic() - begin < AGAIN_S:
                    time.sleep(1.0)
                    continue
                if error.code == 400 and (found := PLACE.search(error.text)) and int(found[1]) < len(places):
                    error.text = f"{places[int(found[1])]}: {error.text[:found.start()].strip()}"
                if self.stored:
                    stored = f"{many(self.stored, 'message')} before {'was' if self.stored == 1 else 'were'} stored"
                    error.hint = "; ".join(filter(None, (stored, error.hint)))
                raise

    def _next_key(self, key: str) -> str:
        """Returns the key of the next request. The daemon makes ids from the key and the place in the request, so each
        request has a key of its own; the same input gets the same keys again."""
        number, self.requests = self.requests, self.requests + 1
        if not number:
            return key
        quoted = len(key) >= 2 and key[0] == key[-1] == '"'      # quotes do not count
        made = f"{key[1:-1] if quoted else key}/{number}"
        return made if len(made) <= KEY_MOST else hashlib.sha256(made.encode()).hexdigest()

    def tell(self, done: bool = False) -> None:
        """Prints how many messages were stored: none, too, if everything is done."""
        if self.output is Format.json:
            write("\n]\n" if self.printed else "[]\n")
        if self.output.for_people and (self.printed or done):
            write(self.result() + "\n")

    def result(self) -> str:
        """Returns how many messages were stored, and why the others were not."""
        told = [f"{self.stored} stored"]
        if self.duplicates:
            told.append(many(self.duplicates, "duplicate"))
        if self.deleted:
            told.append(f"{self.deleted} not stored: they repeat deleted messages")
        if self.buffered:
            told.append(f"{self.buffered} buffered until the database is available")
        return ", ".join(told)
