"""Moving in from a Queen MQ database, as its operator does it."""
from __future__ import annotations

import base64
import json
import os
import random
import re
import subprocess
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from support.client import data
from support.daemon import PACKAGE
from support.forked import queend
from support.guides import blocks
from support.sanitizer import typed
from support.wait import until

SCHEMA = (Path(__file__).parents[1] / "support" / "queen_schema.sql").read_text()
KEY = bytes(range(32))
BEGIN = datetime.now(timezone.utc) - timedelta(hours=5)


class Queen:
    """A Queen MQ database in the making. Messages are told apart by their number."""

    def __init__(self, conninfo: str):
        self.conninfo = conninfo
        self.db = psycopg.connect(conninfo, autocommit=True)
        self.db.execute(SCHEMA)
        self.at = BEGIN
        self.number = 0
        self.chance = random.Random(7)

    def queue(self, name: str, **columns: Any) -> uuid.UUID:
        columns = {"name": name, "namespace": name.split(".")[0], "task": "", **columns}
        names = ", ".join(columns)
        return self.db.execute(f"INSERT INTO queen.queues ({names}) VALUES ({', '.join(['%s'] * len(columns))})"
                               " RETURNING id", [*columns.values()]).fetchone()[0]

    def partition(self, queue: uuid.UUID, name: str) -> uuid.UUID:
        return self.db.execute("INSERT INTO queen.partitions (queue_id, name) VALUES (%s, %s) RETURNING id",
                               (queue, name)).fetchone()[0]

    def messages(self, partition: uuid.UUID, n: int, payload: Any = None, kind: str = "") -> list[tuple]:
        """n messages: (created_at, id, transaction id, payload). Batches of some share their moment, as there."""
        made = []
        while len(made) < n:
            self.at += timedelta(microseconds=self.chance.randint(1, 3_000_000))
            for _ in range(min(self.chance.randint(1, 5), n - len(made))):
                self.number += 1
                ms = int(self.at.timestamp() * 1000)
                own = uuid.UUID(bytes=ms.to_bytes(6, "big") + b"\x70\x00\x80" + self.number.to_bytes(7, "big"))
                word = kind or self.chance.choice(["7", "4", "text", "old"])
                given = {"7": str(uuid.UUID(bytes=(ms + 3).to_bytes(6, "big") + own.bytes[6:])),
                         "4": str(uuid.UUID(int=self.chance.getrandbits(128), version=4)),
                         "text": f"Zahlung-ü-{self.number}",
                         "old": str(uuid.UUID(bytes=(ms - 9_000_000).to_bytes(6, "big") + own.bytes[6:]))}[word]
                made.append((self.at, own, given, {"n": self.number} if payload is None else payload(self.number)))
        with self.db.cursor().copy("COPY queen.messages (created_at, id, transaction_id, payload, partition_id,"
                                   " trace_id, producer_sub) FROM STDIN") as copy:
            for at, own, given, value in made:
                copy.write_row((at, own, given, json.dumps(value), partition, uuid.UUID(int=own.int ^ 1),
                                "me" if own.int % 3 == 0 else None))
        return made

    def cursor(self, partition: uuid.UUID, group: str, message: tuple | None, retries: int = 0) -> None:
        at, own = (message[0], message[1]) if message else (None, uuid.UUID(int=0))
        self.db.execute("INSERT INTO queen.partition_consumers (partition_id, consumer_group, last_consumed_created_at,"
                        " last_consumed_id, batch_retry_count, last_consumed_at,"
                        " lease_expires_at, worker_id) VALUES (%s, %s, %s, %s, %s, now(), now() + interval '1 hour',"
                        " 'a lease')", (partition, group, at, own, retries))

    def subscription(self, group: str, queue: str, at: datetime, partition: str = "") -> None:
        self.db.execute("INSERT INTO queen.consumer_groups_metadata (consumer_group, queue_name, partition_name,"
                        " subscription_mode, subscription_timestamp) VALUES (%s, %s, %s, 'new', %s)",
                        (group, queue, partition, at))

    def dead(self, partition: uuid.UUID, group: str, message: tuple, error: str) -> None:
        self.db.execute("INSERT INTO queen.dead_letter_queue (message_id, partition_id, consumer_group, error_message,"
                        " retry_count, original_created_at) VALUES (%s, %s, %s, %s, 3, %s)",
                        (message[1], partition, group, error, message[0]))


def environment(conninfo: str) -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if not k.startswith(("QUEEN", "PG"))}, "QUEEND_DSN": conninfo,
            "PYTHONPATH": str(PACKAGE)}


def bring(here: str, there: str, *more: str, status: int = 0) -> str:
    done = subprocess.run([*queend(), "import-queen", there, *more], env=environment(here),
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def consumed(client, queue: str, partition: str, group: str) -> list[tuple[str, Any]]:
    """What a group is given of a partition: (transaction id, payload), in order."""
    found = []
    while messages := client.pop(queue, partition, consumerGroup=group, batch=1000, autoAck=True):
        found += [(m["transactionId"], m["data"]) for m in messages]
    return found


def told(messages: list[tuple]) -> list[tuple[str, Any]]:
    return [(given, payload) for _, _, given, payload in messages]


@pytest.fixture
def queen(postgres) -> Queen:
    return Queen(postgres.empty_database())


def test_everything_that_somebody_waits_for(queen: Queen, postgres, start_daemon) -> None:
    """Each group gets just what it has not consumed, in order, with ids, moments, producers and traces; dead letters
    come along."""
    here = postgres.database()
    orders = queen.queue("orders.eu", lease_time=60, retry_limit=5, ttl=3600, retry_delay=1000,
                         delayed_processing=0, priority=4)
    a, b, empty = (queen.partition(orders, name) for name in ("a", "b/ü", "empty"))
    first, second = queen.messages(a, 2500), queen.messages(b, 700)
    queen.cursor(a, "__QUEUE_MODE__", first[1999])
    queen.cursor(a, "billing", first[2200], retries=2)
    queen.cursor(a, "late", None)
    queen.subscription("late", "orders.eu", first[2100][0])
    queen.cursor(b, "billing", second[-1])
    queen.cursor(b, "__QUEUE_MODE__", None)
    queen.cursor(empty, "billing", None)
    queen.dead(a, "billing", first[10], "boom")
    queen.dead(a, "billing", first[2300], "again")
    big = queen.partition(queen.queue("large"), "Default")
    large = queen.messages(big, 30, lambda n: {"text": "x" * 20_000, "n": n})
    queen.queue("nobody.was.here")

    text = bring(here, queen.conninfo)
    assert "3 queues" in text and "counts of both databases are equal" in text and "2 dead letters" in text, text
    daemon = start_daemon(here)
    with daemon.client() as client:
        with psycopg.connect(here) as db:
            assert db.execute("SELECT lease_time, retry_limit, priority, ttl_set, retry_delay_set, namespace, task"
                              " FROM queend.queues WHERE name = 'orders.eu'").fetchone() == (
                60, 5, 4, False, False, "orders", "")
        repeated = client.push_items([{"queue": "orders.eu", "partition": "a", "transactionId": given, "payload": 0}
                                      for _, _, given, _ in first[2000:]])
        assert {one["status"] for one in repeated} == {"duplicate"}
        (oldest,) = client.pop("orders.eu", "a")
        assert (oldest["transactionId"],
                oldest["createdAt"]) == (first[2000][2], first[2000][0].strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
        assert oldest["traceId"] == str(uuid.UUID(int=first[2000][1].int ^ 1))
        assert oldest["producerSub"] == ("me" if first[2000][1].int % 3 == 0 else None)
        assert client.ack(oldest, "retry")["success"]
        late = [m for m in first if m[0] >= first[2100][0]]
        assert consumed(client, "orders.eu", "a", "__QUEUE_MODE__") == told(first[2000:])
        assert consumed(client, "orders.eu", "a", "billing") == told(first[2201:])
        assert consumed(client, "orders.eu", "a", "late") == told(late)
        assert consumed(client, "orders.eu", "b/ü", "billing") == []
        assert consumed(client, "orders.eu", "b/ü", "__QUEUE_MODE__") == told(second)
        assert consumed(client, "large", "Default", "whoever") == told(large)
        letters = client.get("/api/v1/dlq?queue=orders.eu").json["messages"]
        assert {(one["transactionId"], one["errorMessage"], one["data"]["n"], one["consumerGroup"], one["retryCount"])
                for one in letters} == {
            (first[10][2], "boom", first[10][3]["n"], "billing", 3),
            (first[2300][2], "again", first[2300][3]["n"], "billing", 3)}
        client.push("orders.eu", {"n": -1}, partition="a")
        assert consumed(client, "orders.eu", "a", "billing")[0][1] == {"n": -1}
    again = bring(here, queen.conninfo)
    assert "counts of both databases are equal" in again
    with daemon.client() as client:
        assert consumed(client, "orders.eu", "a", "billing") == []
        assert len(client.get("/api/v1/dlq?queue=orders.eu").json["messages"]) == 2


@pytest.mark.parametrize("place", [0, 1], ids=["another database", "the same database"])
def test_the_commands_of_the_page(queen: Queen, postgres, start_daemon, place: int) -> None:
    """docs/migration.md, from the old database and within one."""
    messages = queen.messages(queen.partition(queen.queue("orders"), "a"), 3)
    here = queen.conninfo if place else postgres.database()
    block = re.sub(r'"host=[^"]*"', f'"{queen.conninfo}"', blocks("migration.md", "sh")[place])
    done = subprocess.run(["bash", "-euc", block.replace("queend import-queen", f"{typed()} import-queen")],
                          env=environment(here), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "counts of both databases are equal" in done.stdout, done
    daemon = start_daemon(here)
    with daemon.client() as client, psycopg.connect(here) as db:
        assert consumed(client, "orders", "a", "__QUEUE_MODE__") == told(messages)
        assert db.execute("SELECT name FROM queen.queues").fetchall() == [("orders",)]


def test_all_messages(queen: Queen, postgres, start_daemon) -> None:
    here = postgres.database()
    part = queen.partition(queen.queue("q"), "p")
    queen.queue("other")
    messages = queen.messages(part, 40)
    queen.cursor(part, "g", messages[-1])
    bring(here, queen.conninfo, "--all", "--queue", "q")
    with start_daemon(here).client() as client:
        assert consumed(client, "q", "p", "g") == [] and consumed(client, "q", "p", "fresh") == told(messages)
        assert client.show("other").status == 404


def test_sealed_payloads_are_opened_with_the_same_key(queen: Queen, postgres, start_daemon) -> None:
    def envelope(n: int) -> dict[str, str]:
        iv = os.urandom(16)
        sealed = AESGCM(KEY).encrypt(iv, json.dumps({"secret": n}).encode(), None)
        return {"encrypted": base64.b64encode(sealed[:-16]).decode(), "iv": base64.b64encode(iv).decode(),
                "authTag": base64.b64encode(sealed[-16:]).decode()}

    here = postgres.database()
    part = queen.partition(queen.queue("safe", encryption_enabled=True), "Default")
    messages = queen.messages(part, 3, envelope)
    bring(here, queen.conninfo)
    with start_daemon(here, QUEEN_ENCRYPTION_KEY=KEY.hex()).client() as client:
        assert consumed(client, "safe", "Default", "g") == [(m[2], {"secret": n}) for n, m in enumerate(messages, 1)]


def test_an_import_that_was_killed_goes_on(queen: Queen, postgres, start_daemon) -> None:
    """It stops before the lane of its second partition, whose lock is held, dies there, and a second run moves the rest
    and nothing twice."""
    here = postgres.database()
    queue = queen.queue("q")
    parts = [queen.partition(queue, f"p{n}") for n in range(4)]
    messages = [queen.messages(part, 300) for part in parts]
    for part, some in zip(parts, messages, strict=True):
        queen.cursor(part, "g", some[99])
    subprocess.run([*queend(), "migrate"], env=environment(here), check=True, capture_output=True)
    with psycopg.connect(here) as holder, psycopg.connect(here, autocommit=True) as look:
        holder.execute("SELECT pg_advisory_xact_lock(1903519076, lane) FROM generate_series(0, 63) AS lane"
                       " WHERE lane % 2 = 1")
        run = subprocess.Popen([*queend(), "import-queen", queen.conninfo], env=environment(here),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: look.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                                   " AND classid = 1903519076").fetchone(), "it waits for a lane")
        run.kill()
        run.wait()
        holder.rollback()
        until(lambda: look.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <>"
                                   " pg_backend_pid() AND state <> 'idle'").fetchone() == (0,), "its transaction ended")
        done = look.execute("SELECT count(*) FILTER (WHERE done), count(*) FROM queend.imports").fetchone()
    assert done[0] < 4 and done[1] == 5
    assert "counts of both databases are equal" in bring(here, queen.conninfo)
    with start_daemon(here).client() as client:
        for n, some in enumerate(messages):
            assert consumed(client, "q", f"p{n}", "g") == told(some[100:])


def test_a_daemon_that_serves_the_database_hears_of_it(queen: Queen, postgres, start_daemon) -> None:
    queue = queen.queue("served")
    queen.messages(queen.partition(queue, "first"), 2)
    here = postgres.database()
    bring(here, queen.conninfo)
    with start_daemon(here).client() as client:
        assert len(client.pop("served", batch=10, consumerGroup="g", autoAck=True, wait=True, timeout=100_000)) == 2
        later = queen.messages(queen.partition(queue, "second"), 3)
        bring(here, queen.conninfo)
        assert data(client.pop("served", batch=10, consumerGroup="g", autoAck=True, wait=True, timeout=100_000)) == [
            one[3] for one in later]


def test_a_large_partition_goes_in_steps(queen: Queen, postgres, start_daemon) -> None:
    here = postgres.database()
    part = queen.partition(queen.queue("q"), "p")
    messages = queen.messages(part, 25_000)
    queen.cursor(part, "g", messages[12_345])
    assert "25000 messages" in bring(here, queen.conninfo, "--all")
    with start_daemon(here).client() as client:
        assert consumed(client, "q", "p", "g") == told(messages[12_346:])


def test_what_is_refused(queen: Queen, postgres, start_daemon) -> None:
    here = postgres.database()
    with start_daemon(here).client() as client:
        client.push("q", 1)
    part = queen.partition(queen.queue("q"), "Default")
    queen.messages(part, 1)
    assert "already exist" in bring(here, queen.conninfo, status=1)
    assert "has no tables of Queen MQ" in bring(here, postgres.empty_database(), status=1)
    assert "no queue nix" in bring(here, queen.conninfo, "--queue", "nix", status=1)
    assert "of queend" in bring(postgres.empty_database(), here, status=1)
    lost = bring(here, "host=127.0.0.1 port=1 dbname=x", status=1)
    assert "cannot connect to the database: connection failed: " in lost and len(lost.splitlines()) == 1
    assert bring(here, "host=no-such-host.invalid", status=1) == (
        "queend: cannot connect to the database: failed to resolve host 'no-such-host.invalid': "
        "Name or service not known\n")


@pytest.mark.parametrize("there", ["postgresql://u:s3cret@[h/d", "host=h s3cret", "host=h port=s3cret"])
def test_a_connection_string_that_is_none_is_not_quoted(postgres, there) -> None:
    told = bring(postgres.empty_database(), there, status=2)
    assert told.startswith("queend: the connection string: ") and "s3cret" not in told


def test_a_name_that_is_too_long_is_told_before_anything_is_moved(queen: Queen, postgres) -> None:
    here = postgres.database()
    first, second = queen.queue("a"), queen.queue("b")
    queen.messages(queen.partition(first, ""), 10)
    queen.partition(second, "ü" * 200)
    assert "names have 0 to 255 bytes" in bring(here, queen.conninfo, status=1)
    with psycopg.connect(here) as db:
        assert db.execute("SELECT count(*) FROM queend.queues").fetchone() == (0,)
    queen.db.execute("UPDATE queen.partitions SET name = 'c' WHERE length(name) = 200")
    assert "counts of both databases are equal" in bring(here, queen.conninfo)
