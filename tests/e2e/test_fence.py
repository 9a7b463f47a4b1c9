"""Backends that stand still for longer than every deadline, and go on then: what was given up is not done as well."""
from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from support.client import Client, ack_of, data
from support.crowd import Crowd
from support.daemon import Daemon
from support.postgres import Postgres
from support.streams import Stream
from support.wait import until

SLOTS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'queend' AND datname = current_database()"


class Frozen:
    """The backends of a daemon's connections, standing still."""

    def __init__(self, daemon: Daemon):
        self.admin = psycopg.connect(daemon.conninfo, autocommit=True)
        self.pids = [pid for (pid,) in self.admin.execute(SLOTS).fetchall()]
        assert self.pids
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """They go on, meet what is left for them to do, and that nobody is there any more."""
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)
        seen: list[int] = []

        # those that were given up have ended; one that is being replaced may look like it for a moment
        def settled() -> bool:
            seen.append(len(self.admin.execute(SLOTS).fetchall()))
            return seen[-5:] == [len(self.pids)] * 5
        until(settled, "those that were given up have ended")


@contextmanager
def frozen(daemon: Daemon) -> Iterator[Frozen]:
    backends = Frozen(daemon)
    try:
        yield backends
    finally:
        backends.thaw()
        backends.admin.close()


@pytest.fixture
def slow(start_daemon: Callable[..., Daemon], postgres: Postgres) -> Callable[..., Daemon]:
    """A daemon that gives up after two seconds, as soon as it may."""
    def start(**more: object) -> Daemon:
        return start_daemon(postgres.database(), **{"NUM_WORKERS": 1, "QUEEND_SLOTS": 4,
                                                    "LIBQUEEN_INFLIGHT_DEADLINE_MS": 2000,
                                                    "DB_STATEMENT_TIMEOUT": 600_000,  # nothing else ends what hangs
                                                    "DB_LOCK_TIMEOUT": 1000, "QUEEND_CACHE_BYTES": 0,
                                                    "QUEEND_PATIENCE_MS": 60000, **more})
    return start


def left(client: Client, queue: str, count: int) -> list:
    """Waits for so many, and sees that there are no more."""
    result: list = []
    while len(result) < count and (messages := client.pop(queue, "p", batch=100, autoAck=True,
                                                          wait=True, timeout=100_000)):
        result += data(messages)
    return result + data(client.pop(queue, "p", batch=100, autoAck=True))


@pytest.mark.parametrize("buffer", [False, True], ids=["no buffer", "buffer"])
def test_a_push_is_stored_once(slow, queue, buffer, tmp_path) -> None:
    daemon = slow(**({"QUEEND_BUFFER_BYTES": 64 << 20, "FILE_BUFFER_DIR": tmp_path / "buffer"} if buffer else {}))
    with daemon.client() as client:
        client.push(queue, "warm", partition="p")
        with frozen(daemon):
            answers = [client.post("/api/v1/push", {"items": [{"queue": queue, "partition": "p", "payload": n}]})
                       for n in range(2)]
            assert [answer.status for answer in answers] == [201, 201]
            until(lambda: client.get("/api/v1/status/buffers").json["pending"] == 0, "what was buffered is stored")
        assert left(client, queue, 3) == ["warm", 0, 1]


def test_a_pop_that_acknowledges_at_once_consumes_for_its_client_only(slow, queue) -> None:
    daemon = slow()
    with daemon.client() as client:
        client.push(queue, *range(6), partition="p")
        client.pop(queue, "p", batch=1, autoAck=True)
        with frozen(daemon):
            got = client.pop(queue, "p", batch=2, autoAck=True, wait=True, timeout=100_000)
            assert data(got) == [1, 2]
        assert left(client, queue, 3) == [3, 4, 5]


def test_a_lease_is_held_by_who_was_told_of_it(slow, queue) -> None:
    daemon = slow()
    with daemon.client() as client:
        client.push(queue, *range(4), partition="p")
        client.ack(client.pop(queue, "p", batch=1)[0])
        with frozen(daemon):
            got = client.pop(queue, "p", batch=1, wait=True, timeout=100_000)
            assert data(got) == [1] and client.ack(got[0])["success"]
        assert left(client, queue, 2) == [2, 3]


def test_a_transaction_happens_once(slow, queue) -> None:
    daemon = slow()
    with daemon.client() as client:
        client.push(queue, 0, 1, partition="p")
        first, = client.pop(queue, "p", batch=1)
        assert client.transaction({"type": "ack", **ack_of(first)}, {
            "type": "push", "items": [{"queue": queue, "partition": "p", "payload": 2}]})["success"]
        second, = client.pop(queue, "p", batch=1)
        body = {"operations": [{"type": "ack", **ack_of(second)},
                               {"type": "push", "items": [{"queue": queue, "partition": "p", "payload": 3}]}]}
        with frozen(daemon):
            told = client.post("/api/v1/transaction", body)
            assert told.status == 503 or told.json["success"], told.body
        if told.status == 503:
            again = client.post("/api/v1/transaction", body)
            assert again.json["success"], again.body
        assert left(client, queue, 2) == [2, 3]


def test_a_cycle_told_as_unknown_does_not_happen_later(slow, queue) -> None:
    daemon = slow()
    sink = f"{queue}-sink"
    with daemon.client() as client:
        client.push(sink, "warm", partition="p")
        client.pop(sink, "p", consumerGroup="g")
        stream = Stream(client, queue, queue)
        client.push(queue, 1, 2, partition="p")
        body = stream.body(stream.pop(), {"k": 1}, [{"queue": sink, "partition": "p", "payload": "made"}])
        with frozen(daemon):
            answer = client.post("/streams/v1/cycle", body)
            assert answer.status == 503, answer.body
        assert stream.post(body)["success"]
        assert left(client, sink, 2) == ["warm", "made"]


def test_an_acknowledgment_told_as_unknown_does_not_happen_later(slow, queue) -> None:
    """It would be harmless for one that completes; a message sent to the dead letters meanwhile consumed is not."""
    daemon = slow()
    with daemon.client() as client:
        client.push(queue, 1, 2, partition="p")
        first, = client.pop(queue, "p", batch=1)
        client.ack(first)
        second, = client.pop(queue, "p", batch=1)
        with frozen(daemon):
            assert client.post("/api/v1/ack", {**ack_of(second, "dlq"), "error": "no"}).status == 503
        assert client.ack(second)["success"]
        assert client.dead(queue) == 0 and left(client, queue, 0) == []


def test_many_pushes_while_backends_stand_still_again_and_again(slow, queue) -> None:
    daemon = slow()
    crowd = Crowd()
    acknowledged: list[str] = []

    def produce(number: int) -> None:
        with daemon.client() as client:
            for n in range(3):
                answer = client.post("/api/v1/push",
                                     {"items": [{"queue": queue, "partition": "p", "payload": f"{number}.{n}"}]})
                assert answer.status == 201, answer.body
                acknowledged.append(f"{number}.{n}")

    with daemon.client() as client:
        client.push(queue, "warm", partition="p")
        for _ in range(2):
            with frozen(daemon):
                crowd.all(produce, range(len(crowd.threads), len(crowd.threads) + 4))
                crowd.join()
        got = left(client, queue, 1 + len(acknowledged))
        assert sorted(got) == sorted(["warm", *acknowledged]), json.dumps(got)


def test_statistics_that_are_reset_end_no_statement(slow, queue) -> None:
    """The daemon takes the server for another one. It is not: a statement that a backend has not executed yet will be,
    so it is not sent again before it had an answer."""
    daemon = slow(LIBQUEEN_INFLIGHT_DEADLINE_MS=600_000, QUEEND_PUSH_STREAMS=2)
    with (daemon.client() as client, daemon.client() as waiting, daemon.client() as pushing,
          psycopg.connect(daemon.conninfo, autocommit=True) as admin, psycopg.connect(daemon.conninfo) as holder):
        for name in "abcd":
            client.push(queue, 1, partition=name)
        lanes = {number % 2: (name, number & 63) for name, number in admin.execute(
            "SELECT p.name, p.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s",
            (queue,))}
        (one, lane), (other, _) = lanes[0], lanes[1]
        holder.execute("SELECT pg_advisory_xact_lock(1903519076, %s)", (lane,))
        push(waiting, queue, one)
        free = until(lambda: admin.execute("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                                           " AND classid = 1903519076").fetchone(), "a push waits for its lane")
        still = [pid for pid in admin.execute(SLOTS).fetchall() if pid != free]
        for pid, in still:
            os.kill(pid, signal.SIGSTOP)
        try:
            calls = pushes(client)
            push(pushing, queue, other)
            until(lambda: pushes(client) > calls, "the other push was sent to a backend that stands still")
            holder.rollback()
            assert waiting.receive().status == 201
            admin.execute("SELECT pg_stat_reset_shared('bgwriter')")
            admin.execute("SELECT pg_terminate_backend(%s)", free)
            until(lambda: daemon.line("server_changed"), "the daemon has noticed")
            moment, = admin.execute("SELECT clock_timestamp()").fetchone()
            until(lambda: admin.execute("SELECT clock_timestamp() > %s + interval '3 s'", (moment,)).fetchone() == (
                True,), "connections were looked at since")
        finally:
            for pid, in still:
                os.kill(pid, signal.SIGCONT)
        assert pushing.receive().status == 201
        assert data(client.pop(queue, other, batch=100, autoAck=True)) == [1, 2]


def push(client: Client, queue: str, partition: str) -> None:
    client.send("POST", "/api/v1/push",
                json.dumps({"items": [{"queue": queue, "partition": partition, "payload": 2}]}).encode())


def pushes(client: Client) -> float:
    """How many statements were sent for pushes so far."""
    (line,) = (line for line in client.figures() if line.startswith('queend_calls_total{type="push"}'))
    return float(line.rsplit(" ", 1)[1])


@pytest.mark.parametrize("end", ["answered", "lost"])
def test_a_scan_in_flight_while_the_server_is_taken_for_another_one(slow, queue: str, end: str) -> None:
    """One connection reads a page of a group; the other one ends, comes again, and finds the server changed."""
    daemon = slow(LIBQUEEN_INFLIGHT_DEADLINE_MS=600_000, QUEEND_SLOTS=2)
    with (daemon.client() as client, daemon.client() as waiting,
          psycopg.connect(daemon.conninfo, autocommit=True) as admin, psycopg.connect(daemon.conninfo) as holder):
        client.push(queue, 1, partition="p")
        assert data(client.pop(queue, "p", consumerGroup="known")) == [1]
        holder.execute("LOCK TABLE queend.cursors IN ACCESS EXCLUSIVE MODE")
        waiting.send("GET", f"/api/v1/pop/queue/{queue}?consumerGroup=new&wait=true&timeout=90000")
        page, = until(lambda: admin.execute(f"{SLOTS} AND query LIKE '%pop_scan%' AND wait_event_type = 'Lock'"
                                            ).fetchone(), "a page of the scan waits")
        others = {pid for pid, in admin.execute(SLOTS).fetchall()} - {page}
        admin.execute("SELECT pg_stat_reset_shared('bgwriter')")
        for pid in others:
            admin.execute("SELECT pg_terminate_backend(%s)", (pid,))
        until(lambda: daemon.line("server_changed"), "the daemon has noticed")
        if end == "lost":
            admin.execute("SELECT pg_terminate_backend(%s)", (page,))
        holder.rollback()
        assert data(waiting.receive().json["messages"]) == [1]
