"""Binary pushes through the whole daemon: stored as they came where they can be, answered message by message, in
order."""
from __future__ import annotations

import json
import random
import threading
import uuid
from collections.abc import Callable

import psycopg
import pytest
from support.client import Client, data
from support.daemon import Daemon
from support.wait import until
from support.frames import KIND, form_a, form_b, framed_group, group_a, message_ids

from queend._core import record_read


def push(client: Client, body: bytes, **query: str) -> list | dict:
    answer = client.request("POST", "/api/v1/push" + ("?format=counts" if query else ""), body, KIND)
    assert answer.status == 201, (answer.status, answer.body)
    return answer.json


def drain(client: Client, queue: str, group: str, partition: str | None = None) -> list[dict]:
    out: list[dict] = []
    while messages := client.pop(queue, partition, consumerGroup=group, autoAck=True, batch=10000, partitions=64):
        out += messages
    return out


def uuids(n: int, version: int = 4) -> list[str]:
    return [str(uuid.uuid4()) for _ in range(n)] if version == 4 else [str(uuid.UUID(bytes=i)) for i in message_ids(n)]


def bodies(daemon: Daemon, queue: str) -> list[tuple[int, int, bytes]]:
    """Codec, records and body of the queue's rows, by partition and offset."""
    with psycopg.connect(daemon.conninfo) as connection:
        return [(body[0], n, body) for n, body in connection.execute(
            "SELECT l.n, l.body FROM queend.log l JOIN queend.partitions p ON p.id = l.partition_id"
            " JOIN queend.queues q ON q.id = p.queue_id"
            " WHERE q.name = %s ORDER BY p.name, l.base", (queue,)).fetchall()]


@pytest.mark.parametrize("version", [4, 7])
def test_a_large_group_is_stored_as_it_came(daemon: Daemon, client: Client, queue: str, version: int) -> None:
    texts = uuids(300, version)
    group, ids, z = framed_group(queue, "p", list(range(300)), texts)
    told = push(client, form_b(group))
    assert bodies(daemon, queue) == [(0x12, 300, b"\x12" + z)]
    assert [(one["index"], one["status"], one["transaction_id"], one["message_id"]) for one in told] == [
        (n, "queued", texts[n], str(uuid.UUID(bytes=ids[n]))) for n in range(300)]
    messages = client.pop(queue, batch=100) + client.pop(queue, batch=1000)
    assert [m["id"] for m in messages] == [one["message_id"] for one in told[:100]], "the partition is leased"
    assert [c["success"] for c in client.ack_batch([{"transactionId": m["transactionId"], "partitionId": m[
        "partitionId"], "leaseId": m["leaseId"]} for m in messages])] == [True] * 100
    messages += client.pop(queue, batch=1000)
    assert data(messages) == list(range(300)) and [m["offset"] for m in messages] == list(range(300))
    assert [m["id"] for m in messages] == [one["message_id"] for one in told]
    assert [m["transactionId"] for m in messages] == texts
    assert {m["partitionId"] for m in messages} == {told[0]["partition_id"]}


def test_texts_as_ids(client: Client, queue: str) -> None:
    texts = ["ü %d" % n for n in range(20)] + [str(uuid.uuid4()).upper() for _ in range(20)]
    group, _, _ = framed_group(queue, "p", list(range(40)), texts)
    assert [one["transaction_id"] for one in push(client, form_b(group))] == texts
    messages = client.pop(queue, batch=40)
    assert [m["transactionId"] for m in messages] == texts
    assert client.ack(messages[-1])["success"] is True
    assert push(client, form_b(group, flags=10)) == {"count": 40, "queued": 0, "duplicate": 40, "error": 0}


@pytest.mark.parametrize("version", [4, 7])
def test_a_retry_is_all_duplicates(daemon: Daemon, client: Client, queue: str, version: int) -> None:
    framed, _, _ = framed_group(queue, "b", list(range(50)), uuids(50, version))
    plain = group_a([b"%d" % n for n in range(50)], uuids(50, version), queue, "a")
    small, _, _ = framed_group(queue, "b", [50, 51], ["x", "y"])
    for body in form_a(plain), form_b(framed, small):
        first, again = push(client, body), push(client, body)
        assert [one["status"] for one in first] == ["queued"] * len(first)
        assert [one["status"] for one in again] == ["duplicate"] * len(first)
        assert [one["transaction_id"] for one in again] == [one["transaction_id"] for one in first]
    assert [(codec, n) for codec, n, _ in bodies(daemon, queue)] == [(0x10, 50), (0x12, 50), (0x10, 2)]
    messages = drain(client, queue, "g")
    assert data([m for m in messages if m["partition"] == "a"]) == list(range(50))
    assert data([m for m in messages if m["partition"] == "b"]) == list(range(52))


@pytest.mark.parametrize("version", [4, 7])
def test_some_duplicates(client: Client, queue: str, version: int) -> None:
    """Among the log's, among the request's own, in framed and plain groups: each id is stored once, the first one."""
    texts = uuids(100, version)
    push(client, form_a(group_a([b'"old"'] * 2, [texts[3], texts[60]], queue, "p")))
    framed, _, _ = framed_group(queue, "p", list(range(40)), texts[:40])
    overlapping, _, _ = framed_group(queue, "p", list(range(30, 70)), texts[30:70])
    told = push(client, form_b(framed, overlapping))
    told += push(client, form_a(group_a([b"%d" % n for n in range(50, 100)], texts[50:], queue, "p")))
    expected = ["duplicate" if n == 3 else "queued" for n in range(40)]
    expected += ["duplicate" if n < 40 or n == 60 else "queued" for n in range(30, 70)]
    expected += ["duplicate" if n < 70 else "queued" for n in range(50, 100)]
    assert [one["status"] for one in told] == expected
    messages = drain(client, queue, "g")
    assert data(messages) == ["old", "old"] + [n for n in range(100) if n not in (3, 60)]
    assert [m["offset"] for m in messages] == list(range(100))
    by_text = {m["transactionId"]: m["id"] for m in messages}
    assert {one["transaction_id"]: one["message_id"] for one in told if one["status"] == "queued"} == {
        text: by_text[text] for n, text in enumerate(texts) if n not in (3, 60)}


def test_groups_keep_their_place(client: Client, queue: str) -> None:
    """Large and small groups of one partition, others between them."""
    rng = random.Random(3)
    for form in "ab":
        groups, next_number = [], {"x": 0, "y": 0}
        for _ in range(40):
            where, n = rng.choice("xy"), rng.choice([1, 2, 15, 16, 17, 60])
            values = list(range(next_number[where], next_number[where] + n))
            next_number[where] += n
            groups.append(framed_group(queue, form + where, values, uuids(n))[0] if form == "b" else
                          group_a([b"%d" % v for v in values], uuids(n), queue, form + where))
        told = push(client, form_b(*groups) if form == "b" else form_a(*groups))
        assert [one["index"] for one in told] == list(range(len(told)))
        assert {one["status"] for one in told} == {"queued"}
        for where in "xy":
            assert data(drain(client, queue, "g", form + where)) == list(range(next_number[where]))


def test_a_storm_of_groups(daemon: Daemon, queue: str) -> None:
    """Producers that share partitions and repeat themselves: nothing lost, nothing twice, each producer's order
    kept."""
    faults: list[str] = []
    counts: list[int] = []

    def produce(number: int) -> None:
        rng = random.Random(number)
        stored = 0
        with daemon.client() as client:
            sent: list[bytes] = []
            for step in range(40):
                n = rng.choice([1, 5, 16, 40, 100])
                values = [[number, step, k] for k in range(n)]
                partition = f"p{rng.randrange(3)}"
                group = framed_group(queue, partition, values, uuids(n, rng.choice([4, 7])))[0]
                body = form_b(group, flags=10)
                if rng.random() < 0.3 and sent:
                    told = push(client, rng.choice(sent))
                    if told["queued"] or told["error"]:
                        faults.append(f"a repetition was told {told}")
                told = push(client, body)
                stored += told["queued"]
                if told["queued"] != n:
                    faults.append(f"{n} messages were told {told}")
                sent.append(body)
        counts.append(stored)

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not faults, faults[:3]
    with daemon.client() as client:
        messages = drain(client, queue, "g")
    assert len(messages) == sum(counts) and len(counts) == 6
    last: dict[tuple, list] = {}
    for message in messages:
        producer = message["partition"], message["data"][0]
        assert last.get(producer, [-1, 0, 0]) < message["data"], message
        last[producer] = message["data"]
    assert len({tuple(m["data"]) for m in messages}) == len(messages)


def test_dead_letters_of_framed_messages(daemon: Daemon, client: Client, queue: str) -> None:
    client.configure(queue, retryLimit=0, deadLetterQueue=True)
    push(client, form_b(framed_group(queue, "p", [{"n": n} for n in range(20)], [f"t{n}" for n in range(20)])[0]))
    messages = client.pop(queue, batch=20)
    client.ack_batch([{"transactionId": m["transactionId"], "partitionId": m["partitionId"], "leaseId": m["leaseId"],
                       "status": "dlq" if m["data"]["n"] in (3, 7) else "completed"} for m in messages])
    with psycopg.connect(daemon.conninfo) as connection:
        rows = connection.execute("SELECT d.record_offset - b.base, b.n, b.body FROM queend.dead_letters d"
                                  " JOIN queend.dead_bodies b"
                                  " ON b.partition_id = d.partition_id JOIN queend.queues q ON q.id = d.queue_id"
                                  " WHERE q.name = %s"
                                  " ORDER BY d.id", (queue,)).fetchall()
    assert [(json.loads(p), t) for p, t, _ in (record_read(body, n, place) for place, n, body in rows)] == [
        ({"n": 3}, "t3"), ({"n": 7}, "t7")]


def test_refusals_store_nothing(client: Client, queue: str) -> None:
    good, _, _ = framed_group(queue, "p", [1])
    for body in (form_b(good)[:-1], form_b(good, b"\0"), form_b(good, flags=9), b"QPB1", b"QTB1\0\0\0\0\0\0\0\0\0",
                 form_a(group_a([b"1", b"{"], None, queue), flags=0)):
        for headers in KIND, {"Content-Type": "application/json"}:
            answer = client.request("POST", "/api/v1/push", body, headers)
            assert answer.status == 400 and answer.json["error"], body
    assert client.pop(queue) == []


@pytest.mark.parametrize("version", [4, 7])
def test_a_waiting_pop_is_answered_with_a_group(daemon: Daemon, client: Client, queue: str, version: int) -> None:
    """By the push itself or after it: the same messages with the same ids."""
    client.configure(queue)
    with daemon.client() as waiter:
        for round_, n in enumerate([5, 20, 40]):
            waiter.send("GET", f"/api/v1/pop/queue/{queue}?wait=true&timeout=100000&batch=30&autoAck=true")
            until(lambda: client.parked() == 1, "the pop is parked")
            texts = uuids(n, version)
            told = push(client, form_b(framed_group(queue, "p", list(range(n)), texts)[0]))
            messages = waiter.receive().json["messages"]
            messages += drain(client, queue, "__QUEUE_MODE__")
            assert data(messages) == list(range(n)), round_
            assert [m["id"] for m in messages] == [one["message_id"] for one in told]
            assert [m["transactionId"] for m in messages] == texts


def test_framed_groups_that_are_sent_in_halves(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """An error of one item splits a batch until that item stands alone. The groups are then stored unpacked, as many
    more rows than their size in frames tells."""
    values = [[{"n": n, "chance": random.Random(n).randbytes(980).hex(), "text": "x" * 13_500}
               for n in range(at, at + 60)] for at in range(0, 1800, 60)]
    groups, _, packed = zip(*(framed_group(queue, "p", one, uuids(60, 7)) for one in values))
    assert all(len(z) <= 65536 for z in packed) and len(json.dumps(values)) > 14 * sum(map(len, packed))
    daemon = start_daemon(NUM_WORKERS=1)
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as db:
        client.push(queue, "first", partition="p")
        db.execute("ALTER TABLE queend.log ADD CONSTRAINT small CHECK (n < 60) NOT VALID")
        assert {one["status"] for one in push(client, form_b(*groups))} == {"queued"}
        stored: list[dict] = []
        while messages := client.pop(queue, "p", batch=200, autoAck=True):
            stored += messages
        assert data(stored) == ["first", *(value for one in values for value in one)]
    daemon.stop()
