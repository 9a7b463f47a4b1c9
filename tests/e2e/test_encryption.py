"""Encrypted queues: whatever way in and whatever way out, what is stored is sealed, and what comes out is what went
in."""
from __future__ import annotations

import base64
import io
import json
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from support.client import Client, ack_of, data, pop_target
from support.daemon import Daemon
from support.frames import KIND, form_a, form_b, framed_group, group_a, read_pop, transaction
from support.streams import Stream
from support.wait import PATIENCE, until
from support.sdk import WIRES, prepare

from queend._core import probe_batchrow

A, B = bytes(range(32)), bytes(range(100, 132))
KEYS = f"a:{A.hex()}"
MARK = "plainly-seen"
REFUSED = "The queue is encrypted and this server has no key"


@pytest.fixture(scope="module")
def daemon(start_daemon: Callable[..., Daemon]) -> Daemon:
    return start_daemon(QUEEND_ENCRYPTION_KEYS=KEYS)


@pytest.fixture(scope="module")
def keyless(daemon: Daemon, start_daemon: Callable[..., Daemon]) -> Daemon:
    """A daemon on the same database that has no key."""
    return start_daemon(daemon.conninfo)


@pytest.fixture
def encrypted(client: Client, queue: str) -> str:
    assert client.configure(queue, encryptionEnabled=True, deadLetterQueue=True)["options"]["encryptionEnabled"] is True
    return queue


def told(client: Client, queue: str) -> None:
    """The client's daemon has heard of every option that was set: a push finds out what it did not know."""
    client.push(f"{queue}-told", 0)


def values(n: int) -> list[dict]:
    return [{"n": k, "text": f"{MARK} {'é' * (k % 5)}"} for k in range(n)]


def stored(daemon: Daemon, queue: str) -> list[tuple[bytes, str | None]]:
    """(payload as it stands in the log, id of its key), in order."""
    with psycopg.connect(daemon.conninfo) as db:
        rows = db.execute("SELECT l.ids, l.body, COALESCE(l.meta, '') AS meta, l.n FROM queend.log l"
                          " JOIN queend.partitions p ON p.id = l.partition_id"
                          " JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s ORDER BY p.id, l.base",
                          (queue,)).fetchall()
    found: list[tuple[bytes, str | None]] = []
    for ids, body, meta, n in rows:
        more: list = []
        records = probe_batchrow(ids, body, meta, n, 0, None, more)
        found += [(record[1], seal.decode() if seal else None)
                  for record, (_, seal, _) in zip(records, more, strict=True)]
    return found


def sealed_by(key: bytes, queue: str, raw: bytes) -> Any:
    """What the other implementation finds in an envelope of the daemon."""
    e = {name: base64.b64decode(text) for name, text in json.loads(raw).items()}
    return json.loads(AESGCM(key).decrypt(e["iv"], e["encrypted"] + e["authTag"], b"queend seal 1:" + queue.encode()))


def no_plaintext(daemon: Daemon) -> None:
    """Nowhere in the database, nor in the log lines."""
    mark = MARK.encode()
    with psycopg.connect(daemon.conninfo) as db:
        tables = [name for (name,) in db.execute("SELECT c.oid::regclass::text FROM pg_class c WHERE c.relkind = 'r'"
                                                 " AND c.relnamespace = 'queend'::regnamespace").fetchall()]
        assert "queend.log" in tables and "queend.dead_letters" in tables
        for table in tables:
            ((found,),) = db.execute(f"SELECT count(*) FROM {table} t WHERE position(%s::text in t::text) > 0"
                                     " OR position(%s::text in t::text) > 0", (MARK, mark.hex())).fetchall()
            assert found == 0, table
    assert MARK not in daemon.story()


# ---- ways in -------------------------------------------------------------------------------------------------------

def by_json(client: Client, queue: str, payloads: list) -> None:
    client.push(queue, *payloads)


def by_lines(client: Client, queue: str, payloads: list) -> None:
    body = b"\n".join(json.dumps({"payload": one}).encode() for one in payloads)
    assert client.request("POST", f"/api/v1/push?queue={queue}", body,
                          {"Content-Type": "application/x-ndjson"}).status == 201


def by_bare_lines(client: Client, queue: str, payloads: list) -> None:
    answer = client.request("POST", f"/api/v1/push?queue={queue}&payload=line", b"\n".join(
        json.dumps(one).encode() for one in payloads), {"Content-Type": "application/x-ndjson"})
    assert answer.status == 201 and [one["status"] for one in answer.json] == ["queued"] * len(payloads)


def by_arrow(client: Client, queue: str, payloads: list) -> None:
    batch = pa.record_batch({"payload": pa.array([json.dumps(one) for one in payloads])})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write(batch)
    answer = client.request("POST", f"/api/v1/push?queue={queue}&format=counts", sink.getvalue().to_pybytes(),
                            {"Content-Type": "application/vnd.apache.arrow.stream"})
    assert answer.json == {"count": len(payloads), "queued": len(payloads), "duplicate": 0, "error": 0}


def by_binary(client: Client, queue: str, payloads: list) -> None:
    body = form_a(group_a([json.dumps(one).encode() for one in payloads], [""] * len(payloads), queue, "Default"))
    assert client.request("POST", "/api/v1/push", body, KIND).status == 201


def by_frames(client: Client, queue: str, payloads: list) -> None:
    texts = [f"{queue}-{n}" if n % 3 else str(uuid.uuid4()) for n in range(len(payloads))]
    answer = client.request("POST", "/api/v1/push", form_b(framed_group(queue, "Default", payloads, texts)[0]), KIND)
    assert answer.status == 201 and [one["transaction_id"] for one in answer.json] == texts


def by_transaction(client: Client, queue: str, payloads: list) -> None:
    answer = client.transaction(*({"type": "push", "items": [{"queue": queue, "payload": one}]} for one in payloads))
    assert answer["success"] is True


def by_binary_transaction(client: Client, queue: str, payloads: list) -> None:
    answer = client.request("POST", "/api/v1/transaction",
                            transaction(b"", framed_group(queue, "Default", payloads)[0]), KIND)
    assert answer.json["success"] is True


def by_events(client: Client, queue: str, payloads: list) -> None:
    events = [{"specversion": "1.0", "id": str(n), "source": "/s", "type": "t", "data": one}
              for n, one in enumerate(payloads)]
    answer = client.request("POST", f"/api/v1/events/{queue}", events,
                            {"Content-Type": "application/cloudevents-batch+json"})
    assert answer.status == 201, answer.body


WAYS_IN = {one.__name__[3:]: one for one in (by_json, by_lines, by_bare_lines, by_arrow, by_binary, by_frames,
                                             by_transaction, by_binary_transaction,
                                              by_events)}


# ---- ways out ------------------------------------------------------------------------------------------------------

def framed_pop(client: Client, queue: str, **query: Any) -> list:
    answer = client.pop_answer(queue, batch=1000, frames=True, **query)
    assert answer.headers["content-type"] == "application/x-queen-pop"
    return data(read_pop(answer.body)["messages"])


def fetched(client: Client, queue: str, accept: str) -> list:
    answer = client.request("POST", "/api/v1/fetch", {"entries": [{"queue": queue, "offset": 0, "maxBytes": 8 << 20}]},
                            {"Accept": accept})
    assert answer.status == 200
    if accept == "application/x-ndjson":
        return [record["payload"] for record in map(json.loads, answer.body.splitlines()[:-1])]
    if accept == "application/json":
        return [record["payload"] for record in answer.json["entries"][0]["records"]]
    with pa.ipc.open_stream(io.BytesIO(answer.body)) as reader:
        return [json.loads(one) for one in reader.read_all()["payload"].to_pylist()]


@pytest.mark.parametrize("way", WAYS_IN)
def test_every_way_in_and_every_way_out(daemon: Daemon, client: Client, encrypted: str, way: str) -> None:
    payloads = values(150)
    WAYS_IN[way](client, encrypted, payloads)
    raw = stored(daemon, encrypted)
    assert [seal for _, seal in raw] == ["a"] * 150
    assert [sealed_by(A, encrypted, one) for one, _ in raw] == payloads
    for accept in ("application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"):
        assert fetched(client, encrypted, accept) == payloads
    assert framed_pop(client, encrypted, consumerGroup="framed") == payloads
    assert [one["data"] for one in client.pop_answer(encrypted, batch=1000, consumerGroup="events",
                                                     format="cloudevents").json] == payloads
    messages = client.pop(encrypted, batch=1000)
    assert data(messages) == payloads
    first = messages[0]
    shown = client.get(f"/api/v1/messages/{first['partitionId']}/{first['transactionId']}").json
    assert (shown["payload"], shown["isEncrypted"]) == (payloads[0], True)
    assert [one["success"] for one in client.ack_batch([ack_of(one, "dlq") for one in messages[:2]])] == [True, True]
    assert data(client.get(f"/api/v1/dlq?queue={encrypted}").json["messages"]) == [payloads[1], payloads[0]]
    no_plaintext(daemon)


@contextmanager
def parked(daemon: Daemon, client: Client, queue: str, **query: Any) -> Iterator[Client]:
    before = client.parked()
    with daemon.client() as one:
        one.send("GET", pop_target(queue, wait=True, timeout=100_000, **query))
        until(lambda: client.parked() == before + 1, "the pop waits")
        yield one


@pytest.mark.parametrize("frames", [False, True], ids=["json", "framed"])
def test_handed_over_and_from_memory(daemon: Daemon, client: Client, encrypted: str, frames: bool) -> None:
    """Answered by the push itself, then from the rows in memory: both hold what is sealed."""
    client.push(encrypted, "first")
    client.ack(client.pop(encrypted)[0])
    ways = ("queend_worker_handed_over_total", "queend_worker_from_memory_total")
    before = [client.metric(way) for way in ways]
    payloads = values(20)
    with parked(daemon, client, encrypted, batch=5, frames=frames) as waiter:
        client.push(encrypted, *payloads)
        answer = waiter.receive()
    got = read_pop(answer.body)["messages"] if frames else answer.json["messages"]
    assert data(got) == payloads[:5]
    lease = got[0]["leaseId"]
    assert client.ack_batch([{"transactionId": one["transactionId"], "partitionId": one["partitionId"],
                              "leaseId": lease, "status": "completed"} for one in got])[-1]["success"]
    assert (framed_pop(client, encrypted) if frames else data(client.pop(encrypted, batch=100))) == payloads[5:]
    assert [client.metric(way) - old for way, old in zip(ways, before)] == [5, 15]
    no_plaintext(daemon)


def test_large_and_odd_payloads(client: Client, encrypted: str) -> None:
    payloads = [None, 0, "", [], {}, "x" * 3_000_000, {"encrypted": "QUJD", "iv": "QUJD", "authTag": "QUJD"}]
    client.push(encrypted, *payloads)
    assert data(client.pop(encrypted, batch=100)) == payloads
    assert fetched(client, encrypted, "application/json") == payloads


def test_extras_stay(daemon: Daemon, client: Client, encrypted: str) -> None:
    trace = str(uuid.uuid4())
    client.push(encrypted, 1, transactionId="order-1", traceId=trace)
    (message,) = client.pop(encrypted)
    assert (message["data"], message["transactionId"], message["traceId"]) == (1, "order-1", trace)
    assert client.push(encrypted, 1, transactionId="order-1")[0]["status"] == "duplicate"


def test_with_a_delay_and_a_trace(daemon: Daemon, client: Client, encrypted: str) -> None:
    """Whatever else an item carries: each of one request has its own extras and is sealed."""
    trace = str(uuid.uuid4())
    client.push_items([{"queue": encrypted, "payload": n, "transactionId": f"t{n}", **({"delayMs": 1} if n % 2 else {}),
                        **({"traceId": trace} if n % 3 else {})} for n in range(12)])
    got: list[dict] = []
    until(lambda: got.extend(client.pop(encrypted, batch=100, autoAck=True)) or len(got) == 12, "all are delivered")
    assert sorted((one["data"], one["transactionId"], one["traceId"])
                  for one in got) == [(n, f"t{n}", trace if n % 3 else None) for n in range(12)]
    assert all(seal == "a" for _, seal in stored(daemon, encrypted))


def test_the_sink_of_a_stream(daemon: Daemon, client: Client, keyless: Daemon, encrypted: str) -> None:
    source = f"{encrypted}-source"
    client.push(source, 1, 2)
    stream = Stream(client, encrypted, source, encrypted)
    messages = stream.pop()
    with keyless.client() as other:
        answer = other.post("/streams/v1/cycle", stream.body(messages, push=[{"queue": encrypted, "payload": 1}]))
        assert (answer.status, answer.json["error"]) == (500, REFUSED) and stored(daemon, encrypted) == []
    done = stream.cycle(messages, push=[{"queue": encrypted, "payload": one, "transactionId": f"sum-{n}"}
                                        for n, one in enumerate(values(2))])
    assert done["success"] is True and [one["status"] for one in done["push_results"]] == ["queued", "queued"]
    assert [sealed_by(A, encrypted, raw) for raw, _ in stored(daemon, encrypted)] == values(2)
    assert data(client.pop(encrypted, batch=9)) == values(2)


def test_queues_side_by_side(daemon: Daemon, client: Client, encrypted: str) -> None:
    """One request may push to both kinds."""
    client.push_items([{"queue": (encrypted, f"{encrypted}-open")[n % 2], "payload": n} for n in range(40)])
    assert data(client.pop(encrypted, batch=100)) == list(range(0, 40, 2))
    assert stored(daemon, f"{encrypted}-open") == [(str(n).encode(), None) for n in range(1, 40, 2)]
    assert all(seal == "a" for _, seal in stored(daemon, encrypted))


def test_turned_on_and_off(daemon: Daemon, client: Client, queue: str) -> None:
    """What is stored stays as it was; all of it is read. A daemon hears of the end with its next push, which may be
    sealed still."""
    client.push(queue, "before")
    client.configure(queue, encryptionEnabled=True)
    client.push(queue, "sealed")
    client.configure(queue, encryption="off")
    client.push(queue, "meanwhile")
    client.push(queue, "after")
    raw = stored(daemon, queue)
    assert [seal for _, seal in raw][:2] + [seal for _, seal in raw][3:] == [None, "a", None]
    assert (raw[0][0], raw[3][0]) == (b'"before"', b'"after"')
    assert data(client.pop(queue, batch=9)) == ["before", "sealed", "meanwhile", "after"]
    assert fetched(client, queue, "application/json") == ["before", "sealed", "meanwhile", "after"]


# ---- keys ----------------------------------------------------------------------------------------------------------

def test_rotation(daemon: Daemon, client: Client, encrypted: str, start_daemon: Callable[..., Daemon]) -> None:
    """Sealed by the old key and by the new one, read by whoever has both; without the old one its messages come as they
    are stored."""
    client.push(encrypted, "old")
    both = start_daemon(daemon.conninfo, QUEEND_ENCRYPTION_KEYS=f"b:{B.hex()},a:{A.hex()}")
    with both.client() as other:
        other.push(encrypted, "new")
        assert data(other.pop(encrypted, batch=9, consumerGroup="both")) == ["old", "new"]
    raw = stored(daemon, encrypted)
    assert both.told("encryption_keys")["detail"] == "b encrypts; b, a decrypt"
    assert not any(key.hex() in both.story() for key in (A, B))
    assert [seal for _, seal in raw] == ["a", "b"] and sealed_by(B, encrypted, raw[1][0]) == "new"
    both.stop()
    only = start_daemon(daemon.conninfo, QUEEND_ENCRYPTION_KEYS=f"b:{B.hex()}")
    with only.client() as other:
        envelope, text = json.loads(raw[0][0]), "new"
        assert data(other.pop(encrypted, batch=9, consumerGroup="only")) == [envelope, text]
        assert framed_pop(other, encrypted, consumerGroup="framed") == [envelope, text]
        for accept in ("application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"):
            assert fetched(other, encrypted, accept) == [envelope, text]
        assert other.metric("queend_worker_left_sealed_total") == 2 and other.metric("queend_worker_opened_total") == 2
    assert "its key is not here" in only.told("envelope_not_opened")["detail"]
    assert data(client.pop(encrypted, batch=9, consumerGroup="late")) == ["old", json.loads(raw[1][0])]
    only.stop()


def test_the_single_key_of_the_reference(daemon: Daemon, client: Client, encrypted: str,
                                         start_daemon: Callable[..., Daemon]) -> None:
    """A deployment switched over as it is: QUEEN_ENCRYPTION_KEY seals; given beside a list it opens. Its envelopes,
    which name no key, are opened."""
    single = start_daemon(daemon.conninfo, QUEEN_ENCRYPTION_KEY=B.hex())
    with single.client() as other:
        other.push(encrypted, "by the single key")
        iv = os.urandom(16)
        theirs = AESGCM(B).encrypt(iv, b'{"from": "elsewhere"}', None)
        shape = {name: base64.b64encode(value).decode()
                 for name, value in (("iv", iv), ("authTag", theirs[-16:]), ("encrypted", theirs[:-16]))}
        other.configure(encrypted, encryption="off")
        told(other, encrypted)
        other.push(encrypted, shape)          # as an import writes it
        assert data(other.pop(encrypted, batch=9, consumerGroup="open")) == ["by the single key", shape]
        other.configure(encrypted, encryptionEnabled=True)
        told(other, encrypted)
        assert data(other.pop(encrypted, batch=9)) == ["by the single key", {"from": "elsewhere"}]
        assert fetched(other, encrypted, "application/json") == ["by the single key", {"from": "elsewhere"}]
        assert framed_pop(other, encrypted, consumerGroup="framed") == ["by the single key", {"from": "elsewhere"}]
    single.stop()
    told(client, encrypted)
    assert fetched(client, encrypted, "application/json")[1] == shape


@pytest.mark.parametrize("known", [False, True], ids=["stale", "known"])
@pytest.mark.parametrize("way", WAYS_IN)
def test_without_a_key_nothing_is_stored(daemon: Daemon, keyless: Daemon, encrypted: str, way: str,
                                         known: bool) -> None:
    with keyless.client() as other:
        if known:
            told(other, encrypted)
        try:
            WAYS_IN[way](Refused(other), encrypted, values(150))
        except Refused.Told as refused:
            answer = refused.args[0]
        assert (answer.status, answer.json["error"]) == (500, REFUSED)
        assert other.push(f"{encrypted}-open", 1)[0]["status"] == "queued"
    assert stored(daemon, encrypted) == []


class Refused(Client):
    """Stops at the first answer that is an error."""

    class Told(Exception):
        pass

    def __init__(self, client: Client):
        super().__init__(client.address, client.timeout)

    def request(self, *arguments: Any, **more: Any) -> Any:
        answer = super().request(*arguments, **more)
        self.close()
        if answer.status >= 400:
            raise self.Told(answer)
        return answer


def test_a_whole_request_is_refused_or_none_of_it(daemon: Daemon, keyless: Daemon, encrypted: str) -> None:
    with keyless.client() as other:
        told(other, encrypted)
        answer = other.post("/api/v1/push", {"items": [{"queue": f"{encrypted}-open", "payload": 1},
                                                       {"queue": encrypted, "payload": 2}]})
        assert (answer.status, answer.json["error"]) == (500, REFUSED)
    assert stored(daemon, encrypted) == stored(daemon, f"{encrypted}-open") == []


# ---- what others turned on -----------------------------------------------------------------------------------------

def test_a_daemon_that_was_not_told_seals_too(daemon: Daemon, client: Client, queue: str,
                                              start_daemon: Callable[..., Daemon]) -> None:
    """Pushes run through one daemon while the other turns encryption on: whatever began after the answer is sealed."""
    peer = start_daemon(daemon.conninfo, QUEEND_ENCRYPTION_KEYS=KEYS)
    on = threading.Event()
    counts: list[tuple[int, int]] = []

    def produce(place: int) -> None:
        with peer.client() as producer:
            late = n = 0
            while late < 20:
                late += on.is_set()
                name = "late" if late else "early"
                if n % 3:
                    producer.push(queue, *[{"who": place, name: k} for k in range(3)], partition=f"p{place}")
                elif n % 2:
                    by_bare_lines(producer, queue, [{"who": place, name: k} for k in range(20)])
                else:
                    producer.transaction({"type": "push",
                                          "items": [{"queue": queue, "payload": {"who": place, name: 0}}]})
                n += 1
            counts.append((place, n))

    threads = [threading.Thread(target=produce, args=(place,)) for place in range(4)]
    with peer.client() as one:
        one.push(queue, {"early": 0})
    for thread in threads:
        thread.start()
    until(lambda: len(stored(daemon, queue)) > 50, "the pushes run")
    client.configure(queue, encryptionEnabled=True)
    on.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(counts) == 4, peer.story()
    raw = stored(daemon, queue)
    open_ = [json.loads(one) for one, seal in raw if seal is None]
    hidden = [sealed_by(A, queue, one) for one, seal in raw if seal]
    assert open_ and all("early" in one for one in open_)
    assert sum("late" in one for one in hidden) >= 4 * 20
    peer.stop()


# ---- dead letters --------------------------------------------------------------------------------------------------

def redrive(client: Client, **wanted: Any) -> Any:
    return client.post("/api/v1/dlq/redrive", wanted)


def bury(client: Client, queue: str, *payloads: Any) -> list[dict]:
    client.push(queue, *payloads)
    messages = client.pop(queue, batch=100)
    client.ack_batch([ack_of(one, "dlq") for one in messages])
    return messages


def test_dead_letters_stay_sealed(daemon: Daemon, client: Client, encrypted: str) -> None:
    first, second = bury(client, encrypted, values(1)[0], "second")
    before = stored(daemon, encrypted)
    assert client.post(f"/api/v1/messages/{first['partitionId']}/{first['transactionId']}/retry").status == 200
    assert redrive(client, queue=encrypted).json["redriven"] == 1
    assert stored(daemon, encrypted) == before * 2
    assert data(client.pop(encrypted, batch=9)) == [values(1)[0], "second"]
    no_plaintext(daemon)


@pytest.mark.parametrize("on", [True, False], ids=["encrypted", "open"])
def test_into_another_queue_sealed_anew(daemon: Daemon, client: Client, encrypted: str, on: bool) -> None:
    target = f"{encrypted}-target"
    client.configure(target, encryptionEnabled=on)
    bury(client, encrypted, *values(3))
    assert redrive(client, queue=encrypted, targetQueue=target).json["redriven"] == 3
    assert [sealed_by(A, target, raw) for raw, _ in stored(daemon, target)] == values(3)
    assert data(client.pop(target, batch=9)) == values(3)
    no_plaintext(daemon)


def test_plain_dead_letters_are_sealed_on_their_way_into_an_encrypted_queue(daemon: Daemon, client: Client,
                                                                            keyless: Daemon, encrypted: str) -> None:
    source = f"{encrypted}-source"
    client.configure(source, deadLetterQueue=True)
    bury(client, source, "plain")
    with keyless.client() as other:
        answer = redrive(other, queue=source, targetQueue=encrypted)
        assert (answer.status, answer.json["error"]) == (500, REFUSED)
    assert redrive(client, queue=source, targetQueue=encrypted).json["redriven"] == 1
    assert [seal for _, seal in stored(daemon, encrypted)] == ["a"] and data(client.pop(encrypted)) == ["plain"]


def test_without_the_key_dead_letters_wait(daemon: Daemon, client: Client, keyless: Daemon, encrypted: str) -> None:
    bury(client, encrypted, "kept")
    with keyless.client() as other:
        shown = other.get(f"/api/v1/dlq?queue={encrypted}").json["messages"]
        assert set(shown[0]["data"]) == {"encrypted", "iv", "authTag"}
        assert redrive(other, queue=encrypted, targetQueue=f"{encrypted}-target").status == 500
        assert other.get(f"/api/v1/dlq?queue={encrypted}").json["total"] == 1
        assert redrive(other, queue=encrypted).json["redriven"] == 1       # into its own queue nothing has to be opened
    assert data(client.pop(encrypted, wait=True, timeout=100_000)) == ["kept"]


def test_a_changed_payload_harms_nobody_else(daemon: Daemon, client: Client, encrypted: str) -> None:
    """Somebody who can write to the database: his envelope comes out as it is, its neighbours are opened."""
    client.push(encrypted, "one", partition="a")
    client.push(encrypted, "two", partition="a")
    with psycopg.connect(daemon.conninfo, autocommit=True) as db:
        where = ("partition_id = (SELECT p.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id"
                 " WHERE q.name = %s AND p.name = 'a')")
        ((body, base),) = db.execute(f"SELECT body, base FROM queend.log WHERE {where} ORDER BY base LIMIT 1",
                                     (encrypted,)).fetchall()
        at = body.index(b'"authTag":"') + 12
        changed = body[:at] + (b"B" if body[at:at + 1] == b"A" else b"A") + body[at + 1:]
        db.execute(f"UPDATE queend.log SET body = %s WHERE {where} AND base = %s", (changed, encrypted, base))
    first, second = client.pop(encrypted, "a", batch=9)
    assert set(first["data"]) == {"encrypted", "iv", "authTag"} and second["data"] == "two"
    assert client.ack_batch([ack_of(first), ack_of(second)])[-1]["success"] is True


@pytest.mark.parametrize("refuses", [False, True])
def test_a_plain_payload_is_told_or_refused(daemon: Daemon, client: Client, queue: str,
                                            start_daemon: Callable[..., Daemon], refuses: bool) -> None:
    """Stored before the option was turned on, or by somebody who has no key but can write to the database; also one
    that says it has a key."""
    client.push(queue, "before")
    client.configure(queue, encryptionEnabled=True)
    client.push(queue, "sealed")
    client.push(queue, "forged")
    with psycopg.connect(daemon.conninfo, autocommit=True) as db:
        where = ("partition_id = (SELECT p.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id"
                 " WHERE q.name = %s AND p.name = 'Default')")
        ((body, base),) = db.execute(f"SELECT body, base FROM queend.log WHERE {where} ORDER BY base DESC LIMIT 1",
                                     (queue,)).fetchall()
        at = body.index(b'{"encrypted"')
        size = len(body) - at
        db.execute(f"UPDATE queend.log SET body = %s WHERE {where} AND base = %s",
                   (body[:at] + b'"' + b"f" * (size - 2) + b'"', queue, base))
    other = start_daemon(daemon.conninfo, QUEEND_ENCRYPTION_KEYS=KEYS, QUEEND_REFUSE_PLAIN=str(refuses).lower())
    with other.client() as reader:
        before = reader.metric("queend_worker_not_sealed_total")
        for got in (data(reader.pop(queue, batch=9, consumerGroup="g")), fetched(reader, queue, "application/json")):
            assert got[1] == "sealed"
            if refuses:
                assert got[0] == got[2] and "is not sealed" in got[0]["error"]
            else:
                assert got[0] == "before" and set(got[2]) == {"f"}
        assert reader.metric("queend_worker_not_sealed_total") > before
    assert ("QUEEND_REFUSE_PLAIN)" in other.told("payload_not_sealed")["detail"]) is refuses


@pytest.mark.parametrize("generation, wire", [("0.15", "json"), ("2", "json"), ("2", "all")])
def test_with_the_sdk(daemon: Daemon, generation: str, wire: str) -> None:
    queues = prepare(generation).run("sdk_encryption.py", daemon, json.dumps(WIRES[wire]),
                                     f"sdk-{generation}-{wire}")[-2:]
    assert [len(stored(daemon, queue)) for queue in queues] == [300, 1]
    assert all(seal == "a" for queue in queues for _, seal in stored(daemon, queue))
    no_plaintext(daemon)
