"""Queues without order: messages that name no partition are spread, whatever form the push has."""
from __future__ import annotations

import hashlib
import json
import struct
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import psycopg
import pyarrow as pa
import pytest
from support.buffers import away, buffered, drained, server  # noqa: F401 (fixture)
from support.cli import Cli
from support.client import Client
from support.crowd import Crowd
from support.daemon import Daemon
from support.frames import KIND, form_a, form_b, framed_group, group_a, transaction
from support.streams import Stream
from support.wait import until

from queend.client import Client as Queend
from queend.client import Push

NDJSON = {"Content-Type": "application/x-ndjson"}
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
CLOUD = {"Content-Type": "application/cloudevents+json"}
N = 8


def place(id: str, n: int = N) -> str:
    """The partition of a message by its transactionId, as the document says."""
    try:
        raw = uuid.UUID(id).bytes if id == str(uuid.UUID(id)) else b""
    except ValueError:
        raw = b""
    if not raw:
        raw = hashlib.sha256(id.encode()).digest()[:16]
        raw = raw[:6] + bytes([raw[6] & 15 | 128]) + raw[7:8] + bytes([raw[8] & 63 | 128]) + raw[9:]
    time_low, b, c, d = struct.unpack(">4I", raw)
    number = (b & 0xfff) + c + d if raw[6] >> 4 == 7 else int.from_bytes(hashlib.sha256(raw).digest()[:4], "big")
    return f"~{number % 2**32 % n:02d}"


def taken(client: Client, queue: str, **query: object) -> dict[str, list]:
    """All payloads by partition."""
    out: dict[str, list] = {}
    while messages := client.pop(queue, autoAck=True, batch=1000, partitions=64, **query):
        for one in messages:
            out.setdefault(one["partition"], []).append(one["data"])
    return out


def even(found: dict[str, list], values: list, n: int = N) -> None:
    """Asserts that these payloads came, and went to the partitions in turn."""
    assert sorted(sum(found.values(), [])) == sorted(values)
    assert set(found) <= {f"~{i:02d}" for i in range(n)}
    sizes = [len(found.get(f"~{i:02d}", [])) for i in range(n)]
    assert max(sizes) - min(sizes) <= 1, sizes


@pytest.fixture
def free(client: Client, queue: str) -> str:
    """A queue without order, with N partitions."""
    client.configure(queue, ordered=False, spreadPartitions=N)
    return queue


def by_json(client: Client, queue: str, values: list) -> None:
    client.push(queue, *values)


def by_name(client: Client, queue: str, values: list) -> None:
    """As the published clients push: a partition that the program did not name is named Default."""
    client.push(queue, *values, partition="Default")


def by_lines(client: Client, queue: str, values: list) -> None:
    body = b"\n".join(json.dumps({"payload": one}).encode() for one in values)
    assert client.request("POST", f"/api/v1/push?queue={queue}", body, NDJSON).status == 201


def by_payload_lines(client: Client, queue: str, values: list) -> None:
    body = b"\n".join(json.dumps(one).encode() for one in values)
    answer = client.request("POST", f"/api/v1/push?queue={queue}&payload=line&format=counts", body, NDJSON)
    assert answer.json["queued"] == len(values)


def by_arrow(client: Client, queue: str, values: list) -> None:
    batch = pa.record_batch({"payload": pa.array([json.dumps(one) for one in values])})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write(batch)
    assert client.request("POST", f"/api/v1/push?queue={queue}", sink.getvalue().to_pybytes(), ARROW).status == 201


def by_frames(client: Client, queue: str, values: list) -> None:
    body = form_a(group_a([json.dumps(one).encode() for one in values], None, queue, "Default"), flags=0)
    answer = client.request("POST", "/api/v1/push", body, KIND)
    assert answer.status == 201, answer.body


def by_transaction(client: Client, queue: str, values: list) -> None:
    items = [{"queue": queue, "payload": one} for one in values]
    assert client.transaction({"type": "push", "items": items})["success"]


def by_cycle(client: Client, queue: str, values: list) -> None:
    client.push(f"{queue}-source", 1)
    stream = Stream(client, queue, f"{queue}-source", queue)
    items = [{"queue": queue, "payload": one} for one in values]
    assert stream.cycle(stream.pop(), push=items)["success"]


FORMS = [by_json, by_name, by_lines, by_payload_lines, by_arrow, by_frames, by_transaction, by_cycle]


@pytest.mark.parametrize("values", [list(range(3 * N)), list(range(400))], ids=["few", "many"])
@pytest.mark.parametrize("push", FORMS, ids=lambda one: one.__name__[3:])
def test_messages_without_an_id_go_to_the_partitions_in_turn(client: Client, free: str, push: Callable,
                                                             values: list) -> None:
    push(client, free, values)
    found = taken(client, free)
    even(found, values)
    assert all(part == sorted(part) for part in found.values()), "each partition keeps its order"


def test_a_queue_with_order_stays_as_it_is(client: Client, queue: str) -> None:
    client.configure(queue, spreadPartitions=N)
    by_json(client, queue, list(range(20)))
    assert taken(client, queue) == {"Default": list(range(20))}


def test_a_partition_that_is_named_is_that_partition(client: Client, free: str) -> None:
    client.push(free, 1, 2, partition="mine")
    client.push(free, 3, partition="~03")
    assert taken(client, free) == {"mine": [1, 2], "~03": [3]}


def ids() -> list[str]:
    return ([f"order-{n}" for n in range(40)] + [str(uuid.uuid4()) for _ in range(40)]
            + [str(uuid.uuid1()) for _ in range(40)]
            + [str(uuid.UUID(int=uuid.uuid4().int & ~(15 << 76) | 7 << 76)) for _ in range(40)])


def test_a_repeated_id_meets_the_first_one_in_every_form(daemon: Daemon, client: Client, other: Client,
                                                         free: str) -> None:
    """Also from another daemon, from SQL and in a transaction."""
    names = ids()
    items = [{"queue": free, "payload": name, "transactionId": name} for name in names]
    assert {one["status"] for one in client.push_items(items)} == {"queued"}
    assert {one["status"] for one in client.push_items(items)} == {"duplicate"}
    assert {one["status"] for one in other.push_items(items)} == {"duplicate"}
    body = b"\n".join(json.dumps({"payload": 0, "transactionId": name}).encode() for name in names)
    counts = client.request("POST", f"/api/v1/push?queue={free}&format=counts", body, NDJSON).json
    assert counts["duplicate"] == len(names)
    body = form_a(group_a([b"0"] * len(names), names, free, "Default"))
    assert {one["status"] for one in client.request("POST", "/api/v1/push", body, KIND).json} == {"duplicate"}
    group, _, _ = framed_group(free, "Default", [0] * len(names), names)
    assert {one["status"] for one in client.request("POST", "/api/v1/push", form_b(group), KIND).json} == {"duplicate"}
    for item in items[::10]:
        told = client.transaction({"type": "push", "items": [item]})
        assert told["success"] is False and "uplicate" in told["error"]
    with psycopg.connect(daemon.conninfo, autocommit=True) as database:
        told, = database.execute("SELECT queen.push_messages_v3(%s)", (json.dumps(items),)).fetchone()
        assert {one["status"] for one in told["items"]} == {"duplicate"}
        for name in names[::10]:
            database.execute("SELECT queen.push(%s, NULL, '0'::json, %s)", (free, name))
        until(lambda: database.execute("SELECT count(*) FROM queend.outbox").fetchone() == (0,), "the outbox is empty")
    found = taken(client, free)
    assert {name: part for part, values in found.items() for name in values} == {name: place(name) for name in names}
    assert sum(map(len, found.values())) == len(names)


@pytest.mark.parametrize("n", [5, 300])
def test_frames_whose_ids_are_the_clients(client: Client, free: str, n: int) -> None:
    """They come compressed, to be stored as they are: here their records part. Pushed, and in a transaction."""
    group, ids, _ = framed_group(free, "Default", list(range(n)))
    told = client.request("POST", "/api/v1/push", form_b(group), KIND).json
    assert {one["status"] for one in told} == {"queued"}
    after, more, _ = framed_group(free, "Default", list(range(n, 2 * n)))
    answer = client.request("POST", "/api/v1/transaction", transaction(b"{}", after), KIND)
    assert answer.status == 200 and answer.json["success"], answer.body
    found = {value: part for part, values in taken(client, free).items() for value in values}
    assert found == {value: place(str(uuid.UUID(bytes=id))) for value, id in enumerate([*ids, *more])}


def test_an_id_twice_in_one_push(client: Client, free: str) -> None:
    told = client.push_items([{"queue": free, "payload": n, "transactionId": "same"} for n in range(3)])
    assert [one["status"] for one in told] == ["queued", "duplicate", "duplicate"]
    assert taken(client, free) == {place("same"): [0]}


def test_ids_that_are_counted_up_go_to_the_partitions_in_turn(client: Client, free: str) -> None:
    first = int(uuid.uuid4()) & ~(15 << 76) & ~(2**20) | 7 << 76
    client.push_items([{"queue": free, "payload": n, "transactionId": str(uuid.UUID(int=first + n))}
                       for n in range(3 * N)])
    even(taken(client, free), list(range(3 * N)))


def test_pushes_from_sql_go_to_the_partitions_in_turn(daemon: Daemon, client: Client, free: str) -> None:
    items = [{"queue": free, "payload": n} for n in range(100)]
    with psycopg.connect(daemon.conninfo, autocommit=True) as database:
        database.execute("SELECT queen.push_messages_v3(%s)", (json.dumps(items),))
        with database.transaction():
            for n in range(100, 200):
                database.execute("SELECT queen.push(%s, NULL, to_json(%s))", (free, n))
        until(lambda: database.execute("SELECT count(*) FROM queend.outbox").fetchone() == (0,), "the outbox is empty")
        depth = f"/api/v1/resources/queues/{quote(free)}/depth"
        until(lambda: client.get(depth).json["pending"] == 200, "all are there")
        even(taken(client, free), list(range(200)))
        told, = database.execute("SELECT queen.execute_transaction_v2(%s)", (json.dumps([
            {"type": "push", "queue": free, "payload": 200, "transactionId": "tx"}]),)).fetchone()
        assert told["success"], told
    assert until(lambda: taken(client, free), "the daemon has seen the transaction") == {place("tx"): [200]}


@pytest.mark.parametrize("n", [10, 500])
def test_a_push_with_an_idempotency_key(client: Client, free: str, n: int) -> None:
    body, headers = b"\n".join(b"%d" % k for k in range(n)), {**NDJSON, "Idempotency-Key": "one"}
    for _ in range(2):
        answer = client.request("POST", f"/api/v1/push?queue={free}&payload=line", body, headers)
        assert answer.status == 201
    found = taken(client, free)
    assert sorted(sum(found.values(), [])) == list(range(n)) and len(found) > 2


def test_events_without_a_subject_are_spread(client: Client, free: str) -> None:
    for n in range(40):
        event = {"specversion": "1.0", "id": str(n), "source": "s", "type": "t", "data": n}
        for _ in range(2):
            answer = client.request("POST", f"/api/v1/events/{free}", json.dumps(event).encode(), CLOUD)
            assert answer.status == 201
    client.request("POST", f"/api/v1/events/{free}",
                   json.dumps({**event, "id": "x", "partitionkey": "own"}).encode(), CLOUD)
    found = taken(client, free)
    assert found.pop("own") == [39]
    assert sorted(sum(found.values(), [])) == list(range(40)) and len(found) > N // 2


def test_a_second_daemon_spreads_from_its_first_push_on(client: Client, other: Client, queue: str) -> None:
    """It knows nothing of the queue, or knows it as it was: what it sends under an old catalog is spread anew."""
    for round_ in range(6):
        name = f"{queue}-{round_}"
        if round_ % 2:
            other.push(name, "before")
            assert taken(other, name) == {"Default": ["before"]}
        client.configure(name, ordered=False, spreadPartitions=N)
        values = [f"id-{n}" for n in range(150 if round_ > 3 else 20)]
        other.push_items([{"queue": name, "payload": one, "transactionId": one} for one in values])
        told = client.push_items([{"queue": name, "payload": one, "transactionId": one} for one in values])
        assert {one["status"] for one in told} == {"duplicate"}, round_
        other.push(name, *range(N))
        found = taken(client, name)
        assert set(found) <= {f"~{i:02d}" for i in range(N)}
        assert Counter(map(str, sum(found.values(), []))) == Counter([*values, *map(str, range(N))])


def test_a_restart_spreads_as_before(start_daemon: Callable[..., Daemon]) -> None:
    daemon = start_daemon()
    with daemon.client() as client:
        client.configure("q", ordered=False, spreadPartitions=N)
        assert client.push("q", "first", transactionId="a")[0]["status"] == "queued"
    daemon.stop()
    with start_daemon(daemon.conninfo).client() as client:
        assert client.push("q", "first", transactionId="a")[0]["status"] == "duplicate"
        client.push("q", *range(N))
        assert sorted(map(str, sum(taken(client, "q").values(), []))) == sorted(["first", *map(str, range(N))])


def test_the_option_changes_while_pushes_run(daemon: Daemon, client: Client, other: Client, queue: str) -> None:
    """Forth and back: each message is stored once, and each change holds for the pushes after it."""
    client.configure(queue)
    stopped = threading.Event()
    pushed: list[int] = []

    def push(who: int) -> None:
        n = 0
        with daemon.client() as mine:
            while not stopped.is_set():
                mine.push_items([{"queue": queue, "payload": who + 10 * (n + k)} for k in range(1 + n % 200)])
                pushed.extend(who + 10 * (n + k) for k in range(1 + n % 200))
                n += 1 + n % 200

    with Crowd() as crowd:
        crowd.all(push, range(3))
        for round_ in range(6):
            before = len(pushed)
            until(lambda before=before: len(pushed) > before + 100, "pushes go on")
            client.configure(queue, ordered=bool(round_ % 2), spreadPartitions=N if round_ < 4 else 2 * N)
            told = other.push(queue, -round_ - 1)[0]
            assert told["status"] == "queued"
        stopped.set()
    found = taken(client, queue)
    assert Counter(sum(found.values(), [])) == Counter([*pushed, *(-round_ - 1 for round_ in range(6))])
    assert all((-round_ - 1 in found["Default"]) == bool(round_ % 2) for round_ in range(6))
    assert len(found) > N


def test_ten_jobs_are_in_flight_at_once(client: Client, daemon: Daemon, free: str) -> None:
    """Thirty jobs, ten workers that wait: each takes one job, and none is done before ten are out. Three rounds."""
    client.configure(free, spreadPartitions=64)
    together = threading.Barrier(10, timeout=100)
    done: list[int] = []

    def work(_: int) -> None:
        with daemon.client() as mine:
            for _ in range(3):
                (job,) = mine.pop(free, wait=True, timeout=100_000)
                together.wait()           # broken unless ten are in flight
                assert mine.ack(job)["success"]
                done.append(job["data"])
                together.wait()

    with Crowd() as crowd:
        crowd.all(work, range(10))
        until(lambda: client.parked() == 10, "all workers wait")
        client.push(free, *range(30))
    assert sorted(done) == list(range(30))


def test_failed_and_replayed_messages(client: Client, free: str) -> None:
    """Retries, dead letters, their redrive and a seek work by partition."""
    client.configure(free, retryLimit=0)
    client.push(free, *range(N))
    messages = client.pop(free, batch=1, partitions=64) + client.pop(free, batch=1, partitions=64)
    dead, *rest = messages
    assert client.ack(dead, "failed")["dlq"] is True
    for one in rest:
        client.ack(one)
    assert client.dead(free) == 1
    answer = client.post("/api/v1/dlq/redrive", {"queue": free})
    assert answer.status in (200, 201, 202), answer.body
    until(lambda: client.dead(free) == 0, "the dead letter is pushed again")
    found = taken(client, free)
    assert dead["data"] in sum(found.values(), []) and "Default" not in found


def test_answers_name_the_partition_that_was_chosen(client: Client, free: str) -> None:
    told = client.push_items([{"queue": free, "payload": 1, "transactionId": "a"}, {"queue": free, "payload": 2},
                              {"queue": free, "payload": 3, "partition": "mine"},
                              {"queue": free, "payload": 1, "transactionId": "a"}])
    assert [one.get("partition") for one in told] == [place("a"), told[1]["partition"], None, place("a")]
    tx = client.transaction({"type": "push", "items": [{"queue": free, "payload": 4, "transactionId": "b"}]})
    assert tx["results"][0]["partition"] == place("b")
    assert {m["data"]: m["partition"] for m in client.pop(free, batch=9, partitions=9)} == {
        1: place("a"), 2: told[1]["partition"], 3: "mine", 4: place("b")}
    assert "partition" not in client.push(f"{free}-kept", 1)[0]


def test_a_message_is_found_by_the_name_that_its_client_knows(client: Client, queue: str) -> None:
    """Clients address a message that they pushed without a partition in Default, also one from before the change."""
    client.push(queue, "old", transactionId="old")
    client.configure(queue, ordered=False, spreadPartitions=N)
    client.push(queue, "new", transactionId="new")
    for id in ("old", "new"):
        path = f"/api/v1/queues/{quote(queue)}/partitions/Default/messages/{id}"
        assert client.get(path).json["payload"] == id
        assert client.request("DELETE", path).json["success"] is True
        assert client.get(path).status == 404
    assert taken(client, queue) == {}


def test_the_python_client(daemon: Daemon, client: Client, queue: str) -> None:
    with Queend(daemon.url) as mine:
        mine.configure(queue, ordered=False, spread_partitions=N)
        stored = mine.push_many(Push(queue, n) for n in range(3 * N))
        assert Counter(one.partition for one in stored) == {f"~{i:02d}": 3 for i in range(N)}
        later = mine.schedule(queue, "late", id="late", delay=3600)
        assert later.partition == "late" and mine.cancel(later) and not mine.cancel(later)
    even(taken(client, queue), list(range(3 * N)))


def test_the_command_that_creates_a_queue(daemon: Daemon, client: Client, queue: str, tmp_path: Path) -> None:
    cli = Cli(daemon.url, tmp_path)
    assert cli.ok("queue", "create", queue, "--unordered", f"spreadPartitions={N}").out.split() == [
        "spreadPartitions", str(N), "ordered", "no"]
    again = cli("queue", "create", queue)
    assert again.status != 0 and "exists" in again.err and "queue configure" in again.err
    cli.ok("queue", "create", f"{queue}-kept")
    assert client.show(f"{queue}-kept").json["options"]["ordered"]["inForce"] is True
    assert client.show(queue).json["options"]["ordered"]["inForce"] is False
    client.push(queue, *range(N))
    even(taken(client, queue), list(range(N)))


def test_what_waits_in_the_failover_buffer_has_its_partition(server, postgres, queue: str) -> None:
    conninfo = postgres.database()
    daemon = server(conninfo)
    with daemon.client() as client:
        client.configure(queue, ordered=False, spreadPartitions=N)
        client.push(queue, "warm", transactionId="warm")
        with postgres.away():
            away(client, f"{queue}-probe")
            told = client.push(queue, *range(4 * N))
            assert {one["status"] for one in told} == {"buffered"}
            assert {one["partition"] for one in told} == {f"~{i:02d}" for i in range(N)}
            (item,) = client.push(queue, "mine", transactionId="mine")
            assert item["partition"] == place("mine")
            client.push(queue, *range(100, 300), partition="Default")
        drained(client)
        assert client.push(queue, 0, transactionId="mine")[0]["status"] == "duplicate"
        found = taken(client, queue)
    assert sorted(map(str, sum(found.values(), []))) == sorted(map(str, [*range(4 * N), *range(100, 300), "warm",
                                                                         "mine"]))
    assert set(found) == {f"~{i:02d}" for i in range(N)}


def test_a_daemon_without_its_database_spreads_what_it_kept(server, postgres, queue: str) -> None:
    """It does not know the queue's options while it keeps the messages."""
    conninfo = postgres.database()
    with server(conninfo).client() as client:
        client.configure(queue, ordered=False, spreadPartitions=N)
        client.push(queue, "early", transactionId="early")
    server_before = server
    with postgres.away():
        again = server_before(conninfo)
        with again.client() as client:
            told = client.push(queue, *range(200), "early")
            assert {one["status"] for one in told} == {"buffered"}
            client.push(queue, "early", transactionId="early")
    with again.client() as client:
        drained(client)
        assert buffered(client)["pending"] == 0
        until(lambda: client.push(queue, "late", transactionId="late")[0]["status"] in ("queued", "duplicate"),
              "pushes go through")
        found = taken(client, queue)
    assert "Default" not in found
    assert Counter(map(str, sum(found.values(), []))) == Counter([*map(str, range(200)), "early", "early", "late"])


@pytest.mark.parametrize("bad", [{"ordered": 1}, {"ordered": "no"}, {"spreadPartitions": 0},
                                 {"spreadPartitions": 1025}, {"spreadPartitions": "many"}],
                         ids=["number", "text", "none", "too many", "word"])
def test_bad_options_are_refused(client: Client, queue: str, bad: dict) -> None:
    answer = client.post("/api/v1/configure", {"queue": queue, "options": bad})
    assert answer.status == 400 and next(iter(bad)) in answer.json["error"]


def test_an_encrypted_queue_without_order(start_daemon: Callable[..., Daemon], queue: str) -> None:
    daemon = start_daemon(QUEEN_ENCRYPTION_KEY="5a" * 32)
    with daemon.client() as client:
        client.configure(queue, ordered=False, spreadPartitions=N, encryptionEnabled=True, maxSize=500)
        client.push(queue, *range(400))
        told = client.push(queue, *range(400, 600))
        assert Counter(one["status"] for one in told) == {"queued": 100, "failed": 100}
        found = taken(client, queue)
        assert len(sum(found.values(), [])) == 500 and set(found) == {f"~{i:02d}" for i in range(N)}


def test_the_names_reach_beyond_two_digits(client: Client, queue: str) -> None:
    client.configure(queue, ordered=False, spreadPartitions=1024)
    client.push(queue, *range(1024))
    found = taken(client, queue)
    assert set(found) == {f"~{i:02d}" for i in range(1024)}
