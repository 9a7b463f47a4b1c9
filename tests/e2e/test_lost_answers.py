"""Transactions and cycles whose answer is lost: the connection ends after the commit, or before the request arrived.
What was pushed tells the daemon whether it took effect; the client gets its answer, or hears that nobody knows, and
nothing is doubled or lost."""
from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator

import psycopg
import pytest
from support.client import Client, ack_of, data
from support.daemon import Daemon
from support.postgres import Postgres, running
from support.proxy import CUT, Proxy
from support.streams import Stream
from support.wait import PATIENCE, until


class Cutter:
    """Between daemon and server. `after`: from the statement on, no answer comes back on any connection until `mend`.
    `before`: the statement does not reach the server, once. `unanswered`: the connection of the statement has ended."""

    def __init__(self, proxy: Proxy):
        self.proxy = proxy
        self.statement = b""
        self.when = ""
        self.carrier = None
        self.cut = threading.Event()
        self.unanswered = threading.Event()
        proxy.rule = self.rule

    def arm(self, statement: str, when: str) -> None:
        self.statement, self.when = b"\0" + statement.encode() + b"\0", when
        self.carrier = None
        self.cut.clear()
        self.unanswered.clear()

    def mend(self) -> None:
        self.statement, self.when = b"", ""

    def rule(self, to_server: bool, piece: bytes) -> list:
        if to_server and self.statement and self.statement in piece and not self.cut.is_set():
            self.carrier = self.proxy.speaks
            self.cut.set()
            if self.when == "before":
                return [CUT]
        if not to_server and self.when == "after" and self.cut.is_set():
            if self.proxy.speaks is self.carrier:
                self.unanswered.set()
            return [CUT]
        return [piece]


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    with running(request.config.getoption("--postgres"), tcp=True) as one:
        yield one


@pytest.fixture(scope="module")
def proxy(cluster: Postgres) -> Iterator[Proxy]:
    one = Proxy(cluster.port)
    yield one
    one.close()


@pytest.fixture(scope="module")
def lossy(cluster: Postgres, proxy: Proxy) -> Iterator[tuple[Daemon, str]]:
    name = cluster.database().split("dbname=")[1].split()[0].strip("'")
    daemon = Daemon(cluster.dsn(port=proxy.port, dbname=name, sslmode="disable", gssencmode="disable"),
                    QUEEND_PATIENCE_MS=20_000)
    yield daemon, cluster.conninfo.replace("dbname=postgres", f"dbname={name}")
    daemon.stop()


@pytest.fixture
def cutter(proxy: Proxy) -> Iterator[Cutter]:
    one = Cutter(proxy)
    yield one
    one.mend()


@pytest.fixture
def client(lossy: tuple[Daemon, str]) -> Iterator[Client]:
    with lossy[0].client() as one:
        yield one


@pytest.fixture
def db(lossy: tuple[Daemon, str]) -> Iterator[psycopg.Connection]:
    with psycopg.connect(lossy[1], autocommit=True) as one:
        yield one


def stored(db: psycopg.Connection, queue: str) -> int:
    return db.execute("SELECT COALESCE(sum(l.n), 0)::int FROM queend.log l JOIN queend.partitions p"
                      " ON p.id = l.partition_id JOIN queend.queues q ON q.id = p.queue_id"
                      " WHERE q.name = %s", (queue,)).fetchone()[0]


def lost(client: Client, cutter: Cutter, when: str, statement: str, path: str, body: dict,
         happened) -> tuple[int, dict]:
    """Sends it, and loses its answer; `happened`: that it took effect is seen in the database."""
    cutter.arm(statement, when)
    client.send("POST", path, json.dumps(body).encode())
    assert cutter.cut.wait(PATIENCE)
    if when == "after":
        until(happened, "it took effect")
        assert cutter.unanswered.wait(PATIENCE)       # a commit is seen before its answer has come as far as the proxy
    cutter.mend()
    answer = client.receive()
    return answer.status, answer.json


def pushes(queue: str, ids: str) -> list[dict]:
    return [{"type": "push", "items": [{"queue": queue, "partition": partition, "payload": n,
                                        **({} if ids == "made" else {"transactionId": str(uuid.uuid4())})}]}
            for n, partition in enumerate(["a", "b", "a"])]


@pytest.mark.parametrize("when", ["after", "before"])
@pytest.mark.parametrize("ids", ["made", "given"])
def test_a_transaction_that_pushes(client: Client, cutter: Cutter, db: psycopg.Connection, queue: str,
                                   ids: str, when: str) -> None:
    client.push_items([{"queue": queue, "partition": p, "payload": "there"} for p in "ab"])
    body = {"operations": pushes(queue, ids)}
    status, told = lost(client, cutter, when, "transaction", "/api/v1/transaction", body,
                        lambda: stored(db, queue) == 5)
    assert (status, told["success"]) == (200, True), told
    assert stored(db, queue) == 5
    got = data(client.pop(queue, "a", batch=10, autoAck=True)) + data(client.pop(queue, "b", batch=10, autoAck=True))
    assert got == ["there", 0, 2, "there", 1]
    if ids == "given":
        again = client.post("/api/v1/transaction", body)
        assert again.json["success"] is False and stored(db, queue) == 5


@pytest.mark.parametrize("when", ["after", "before"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_transaction_that_acknowledges_too(client: Client, cutter: Cutter, db: psycopg.Connection, queue: str,
                                             whole: bool, when: str) -> None:
    client.push(queue, "one", "two")
    client.push(f"{queue}-out", "there", partition="a")
    client.push(f"{queue}-out", "there", partition="b")
    taken = client.pop(queue, batch=2)
    acks = [{"type": "ack", **ack_of(one)} for one in (taken if whole else taken[:1])]
    body = {"operations": [*pushes(f"{queue}-out", "made"), *acks]}
    status, told = lost(client, cutter, when, "transaction", "/api/v1/transaction", body,
                        lambda: stored(db, f"{queue}-out") == 5)
    assert (status, told["success"]) == (200, True), told
    assert stored(db, f"{queue}-out") == 5
    committed = db.execute("SELECT k.committed FROM queend.cursors k JOIN queend.partitions p ON p.id = k.partition_id"
                           " JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s", (queue,)).fetchone()[0]
    assert committed == (1 if whole else 0)
    if not whole:
        assert client.ack(taken[1])["success"] is True
    assert client.pop(queue) == []


def test_a_transaction_of_acknowledgments_alone(client: Client, cutter: Cutter, db: psycopg.Connection,
                                                queue: str) -> None:
    """Nothing says whose acknowledgment it was: the client is told so, and doubles nothing by sending it again."""
    client.push(queue, "one")
    (taken,) = client.pop(queue)
    body = {"operations": [{"type": "ack", **ack_of(taken)}]}
    committed = ("SELECT k.committed FROM queend.cursors k JOIN queend.partitions p ON p.id = k.partition_id"
                 " JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s")
    status, told = lost(client, cutter, "after", "transaction", "/api/v1/transaction", body,
                        lambda: db.execute(committed, (queue,)).fetchone() == (0,))
    assert status == 503 and "not known" in told["error"], told
    again = until(lambda: next((one.json for one in [client.post("/api/v1/transaction", body)] if one.status == 200),
                               None), "the daemon answers")
    assert again["success"] is False and client.pop(queue) == []


@pytest.mark.parametrize("when", ["after", "before"])
def test_one_that_is_refused_stays_refused(client: Client, cutter: Cutter, db: psycopg.Connection,
                                           queue: str, when: str) -> None:
    id = str(uuid.uuid4())
    client.push_items([{"queue": queue, "partition": "a", "payload": "there", "transactionId": id},
                       {"queue": queue, "partition": "b", "payload": "there"}])
    operations = pushes(queue, "made")
    operations[0]["items"][0]["transactionId"] = id
    status, told = lost(client, cutter, when, "transaction", "/api/v1/transaction",
                        {"operations": operations}, lambda: True)
    assert (status, told["success"]) == (200, False), told
    assert stored(db, queue) == 2


@pytest.mark.parametrize("when", ["after", "before"])
@pytest.mark.parametrize("sinks", [2, 0])
def test_a_cycle_of_a_stream(client: Client, cutter: Cutter, db: psycopg.Connection, queue: str,
                             sinks: int, when: str) -> None:
    client.push(f"{queue}-sink", "there", partition="p")
    client.push(queue, 1, 2, 3, partition="p")
    stream = Stream(client, queue, queue)
    messages = stream.pop(batch=2)
    body = stream.body(messages, {"k": 1},
                       [{"queue": f"{queue}-sink", "partition": "p", "payload": n} for n in range(sinks)])
    done = ("SELECT count(*) FROM queend.stream_state s JOIN queend.stream_queries q ON q.id = s.query_id"
            " WHERE q.query_uuid = %s")
    status, told = lost(client, cutter, when, "stream_cycle", "/streams/v1/cycle", body,
                        lambda: db.execute(done, (stream.id,)).fetchone() == (1,))
    if when == "after" and sinks:
        assert (status, told["success"]) == (200, True), told
    else:
        # the answer may have come before the cut
        assert status == 503 or (when == "after" and told["success"]), told
        again = until(lambda: next((one.json for one in [client.post("/streams/v1/cycle", body)] if one.status == 200),
                                   None), "the daemon answers")
        assert again["success"] is (when == "before"), again
    assert stored(db, f"{queue}-sink") == 1 + sinks
    assert data(stream.pop()) == [3], "whose lease may have ended is asked for"
    assert stream.state(messages[0]["partitionId"]) == {"k": 1}


@pytest.mark.parametrize("when", ["after", "before"])
@pytest.mark.parametrize("old", [True, False])
def test_a_transaction_refused_for_a_push_stored_before(client: Client, cutter: Cutter, db: psycopg.Connection,
                                                        queue: str, old: bool, when: str) -> None:
    """The message that it pushes is there, by an earlier push: that proves nothing about the transaction."""
    id = str(uuid.uuid4())
    client.push(queue, "there", partition="p", transactionId=id)
    client.push(f"{queue}-in", 1)
    (taken,) = client.pop(f"{queue}-in", leaseSeconds=600)
    moment, = db.execute("SELECT clock_timestamp()").fetchone()
    if old:
        until(lambda: db.execute("SELECT clock_timestamp() > %s + interval '2 s'", (moment,)).fetchone() == (True,),
              "it was pushed long before")
    push = {"type": "push", "items": [{"queue": queue, "partition": "p", "payload": "again", "transactionId": id}]}
    status, told = lost(client, cutter, when, "transaction", "/api/v1/transaction",
                        {"operations": [push, {"type": "ack", **ack_of(taken)}]}, lambda: True)
    if old:
        assert (status, told["success"], told["reason"]) == (200, False, "duplicate"), told
    else:
        assert status == 503 and "not known" in told["error"] or told.get("reason") == "duplicate", told
    committed, = db.execute("SELECT max(k.committed) FROM queend.cursors k JOIN queend.partitions p"
                            " ON p.id = k.partition_id JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s",
                            (f"{queue}-in",)).fetchone()
    assert committed == -1
    acked = until(lambda: next((one.json[0] for one in [client.post("/api/v1/ack", ack_of(taken))]
                                if one.status == 200), None), "the daemon answers")
    assert acked["success"] and not acked.get("noop")
