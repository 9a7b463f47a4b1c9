"""Rows that are sent again, in any order: the daemon compares their ids with those of the log, and the answers are the
same as if PostgreSQL had looked them up."""
from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Iterator

import psycopg
import pyarrow as pa
import pytest
from support.client import Client, data
from support.crowd import Crowd
from support.daemon import Daemon
from support.postgres import Postgres
from support.seeds import seed_of_run

PARTITIONS = "abc"
WAYS = {"json": "application/json", "lines": "application/x-ndjson", "arrow": "application/vnd.apache.arrow.stream"}


def id7(n: int) -> str:
    """An id of about now; ids with rising numbers are in order."""
    ms = time.time_ns() // 1_000_000
    return str(uuid.UUID(int=ms << 80 | 7 << 76 | n >> 12 << 64 | 1 << 63 | (n & 0xfff) << 40 | random.getrandbits(40)))


# Ids of version 7 have a millisecond that is not smaller than that of the row before.
KINDS = {"ordered": id7, "random": lambda n: str(uuid.uuid4()), "text": lambda n: f"order-{n}-{random.random()}"}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def rows(count: int, kind: str, text: str = "") -> list[dict]:
    """Rows of all partitions by turns."""
    return [{"partition": PARTITIONS[n % len(PARTITIONS)], "transactionId": KINDS[kind](n),
             "payload": {"n": n, "text": text}} for n in range(count)]


def push(client: Client, queue: str, some: list[dict], way: str = "json") -> list[dict]:
    if way == "json":
        body = json.dumps({"items": [{"queue": queue, **one} for one in some]}).encode()
    elif way == "lines":
        body = "\n".join(json.dumps(one) for one in some).encode()
    else:
        batch = pa.record_batch({key: pa.array([json.dumps(one[key]) if key == "payload" else one[key] for one in some])
                                 for key in some[0]})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write(batch)
        body = sink.getvalue().to_pybytes()
    answer = client.request("POST", f"/api/v1/push?queue={queue}", body, {"Content-Type": WAYS[way]})
    assert answer.status == 201, (answer.status, answer.body)
    return answer.json


class Joins:
    """Counts the joins of ids in a database."""

    def __init__(self, conninfo: str):
        self.conninfo = conninfo
        self.db = psycopg.connect(conninfo, autocommit=True)
        self.db.execute("CREATE SEQUENCE public.joins MINVALUE 0")
        for name in "ids_match", "ids_within":
            text, = self.db.execute("SELECT pg_get_functiondef(%s::regproc)", [f"queend.{name}"]).fetchone()
            counts = text.replace("\nBEGIN\n", "\nBEGIN\n    PERFORM nextval('public.joins');\n", 1)
            assert counts != text
            self.db.execute(counts.encode())

    def count(self) -> int:
        return self.db.execute("SELECT last_value + is_called::int FROM public.joins").fetchone()[0]


@pytest.fixture(scope="module")
def joins(postgres: Postgres) -> Iterator[Joins]:
    joins = Joins(postgres.database())
    yield joins
    joins.db.close()


@pytest.fixture(scope="module")
def daemon(joins: Joins, start_daemon: Callable[..., Daemon]) -> Daemon:
    return start_daemon(joins.conninfo)


def answers(told: list[dict], status: str) -> dict[str, str]:
    """transaction id → message id."""
    assert {one["status"] for one in told} == {status}
    return {one["transaction_id"]: one["message_id"] for one in told}


@pytest.mark.parametrize("text", ["", "long " * 20], ids=["plain", "compressed"])
@pytest.mark.parametrize("way", WAYS)
def test_no_order_costs_a_join(client: Client, queue: str, joins: Joins, kind: str, way: str,
                              text: str) -> None:
    sent = rows(3000, kind, text)
    first: dict[str, str] = {}
    for at in range(0, len(sent), 500):
        first |= answers(push(client, queue, sent[at:at + 500], way), "queued")
    before = joins.count()
    random.Random(seed_of_run()).shuffle(sent)
    for size in 3000, 999, 3, 1:
        assert answers(push(client, queue, sent[:size], way), "duplicate").items() <= first.items()
    assert answers(push(client, queue, sent, way), "duplicate") == first
    assert joins.count() == before
    for partition in PARTITIONS:
        popped = client.pop(queue, partition, batch=5000)
        assert data(popped) == sorted((one["payload"] for one in sent if one["partition"] == partition),
                                      key=lambda payload: payload["n"])
        assert {one["transactionId"]: one["id"] for one in popped}.items() <= first.items()


@pytest.mark.parametrize("text", ["", "long " * 20], ids=["plain", "compressed"])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_new_beside_them_is_stored(client: Client, queue: str, kind: str, way: str, text: str) -> None:
    """Each partition has other new ids: all, some between those that are stored, none."""
    sent = rows(3000, kind, text)
    known = [one for n, one in enumerate(sent) if one["partition"] != "a" and (one["partition"] == "c" or n % 7)]
    first = answers(push(client, queue, known, way), "queued")
    again = random.Random(seed_of_run()).sample(sent, len(sent))
    told = push(client, queue, again, way)
    for item, one in zip(again, told, strict=True):
        assert one["transaction_id"] == item["transactionId"]
        assert one["status"] == ("duplicate" if item["transactionId"] in first else "queued")
        assert first.get(item["transactionId"], one["message_id"]) == one["message_id"]
    assert answers(push(client, queue, sent, way), "duplicate") == {one["transaction_id"]: one["message_id"]
                                                                    for one in told}
    popped = [one for partition in PARTITIONS for one in client.pop(queue, partition, batch=5000)]
    assert sorted(data(popped), key=lambda payload: payload["n"]) == [one["payload"] for one in sent]


def test_one_of_them_was_deleted(daemon: Daemon, client: Client, queue: str, kind: str) -> None:
    sent = rows(300, kind)
    first = answers(push(client, queue, sent), "queued")
    gone, partition = sent[150]["transactionId"], sent[150]["partition"]
    assert client.request("DELETE", f"/api/v1/queues/{queue}/partitions/{partition}/messages/{gone}").json["success"]
    for one in push(client, queue, random.Random(seed_of_run()).sample(sent, len(sent))):
        assert one["status"] == ("duplicate_of_deleted" if one["transaction_id"] == gone else "duplicate")
        assert first[one["transaction_id"]] == one["message_id"]


def test_from_everywhere_at_once(daemon: Daemon, start_daemon: Callable[..., Daemon], client: Client,
                                 queue: str, kind: str) -> None:
    """Six clients of two daemons push the same rows, each in an order of its own: each row is queued once."""
    daemons = daemon, start_daemon(daemon.conninfo)
    sent = rows(3000, kind)
    told: list[dict] = []
    seed = seed_of_run()

    def producer(number: int) -> None:
        chance = random.Random(f"{seed} {number}")
        with daemons[number % 2].client() as own:
            left = chance.sample(sent, len(sent)) if number > 1 else sent
            while left:
                size = chance.choice([1, 40, 400])
                told.extend(push(own, queue, left[:size]))
                left = left[size:]

    with Crowd() as crowd:
        crowd.all(producer, range(6))
    assert len(told) == 6 * len(sent)
    assert sorted(one["transaction_id"] for one in told if one["status"] == "queued") == sorted(
        one["transactionId"] for one in sent)
    assert len({(one["transaction_id"], one["message_id"]) for one in told}) == len(sent)
    popped = [one for partition in PARTITIONS for one in client.pop(queue, partition, batch=5000)]
    assert sorted(one["transactionId"] for one in popped) == sorted(one["transactionId"] for one in sent)
