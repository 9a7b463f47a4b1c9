"""The server comes back without its newest commits: a standby that lacked them took over, or it crashed with
synchronous_commit=off.

What the daemon remembers must not outlive what the database lost. `forgetful` flushes nothing by itself for ten
seconds, so a crash loses what was committed since `settle`.
"""
from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest
from support.client import Client, ack_of, data, pop_target
from support.daemon import Daemon
from support.http import request as request_of
from support.postgres import Postgres, running
from support.proxy import CUT, Proxy
from support.wait import until


@pytest.fixture(scope="module")
def forgetful(request) -> Iterator[Postgres]:
    with running(request.config.getoption("--postgres"), wal_writer_delay="10s", synchronous_commit="off") as server:
        yield server


@pytest.fixture
def database(forgetful) -> str:
    return forgetful.database()


@pytest.fixture
def serve(database) -> Iterator:
    running: list[Daemon] = []

    def start(**settings) -> Daemon:
        running.append(Daemon(database, QUEEND_SLOTS=3, **settings))
        return running[-1]

    yield start
    for daemon in running:
        if daemon.process.poll() is None:
            daemon.stop()


def settle(conninfo: str) -> None:
    """What is committed up to now survives."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = on")
        connection.execute("CREATE TABLE IF NOT EXISTS settled (n int)")
        connection.execute("INSERT INTO settled VALUES (1)")


def crash(server: Postgres, how: str) -> None:
    """The server ends as in a crash and recovers: all of it, or one backend, which costs all sessions and the shared
    memory."""
    if how == "server":
        server.restart()
        return
    with psycopg.connect(server.conninfo) as connection:
        os.kill(connection.info.backend_pid, signal.SIGKILL)
    def back() -> bool:
        try:
            psycopg.connect(server.conninfo).close()
        except psycopg.OperationalError:
            return False
        return True
    until(back, "the server has recovered")


def push(client: Client, queue: str, *payloads, partition: str = "p", **more) -> list[dict]:
    """As a client that tries again while the database is away."""
    items = {"items": [{"queue": queue, "partition": partition, "payload": one, **more} for one in payloads]}
    return until(lambda: (answer := client.post("/api/v1/push", items)).status == 201 and answer.json,
                 "the push is answered")


def changed(*daemons: Daemon) -> None:
    for daemon in daemons:
        until(lambda: daemon.line("server_changed"), "the daemon has noticed")
        with daemon.client() as client:
            until(lambda: client.get("/readyz").status == 200, "the daemon is ready")


@pytest.mark.parametrize("how", ["server", "backend"])
@pytest.mark.parametrize("workers", [1, 2])
def test_rows_in_memory_do_not_outlive_a_crash(serve, forgetful, database, queue, how, workers):
    daemon = serve(NUM_WORKERS=workers)
    with daemon.client() as client:
        client.push(queue, "m0", partition="p")
        assert data(client.pop(queue, "p", batch=10, autoAck=True)) == ["m0"]
        settle(database)
        client.push(queue, *(f"old{n}" for n in range(5)), partition="p")
    crash(forgetful, how)
    changed(daemon)
    with daemon.client() as client:
        assert {one["status"] for one in push(client, queue, *(f"new{n}" for n in range(5)))} == {"queued"}
        assert data(client.pop(queue, "p", batch=3, autoAck=True)) == ["new0", "new1", "new2"]
        assert data(client.pop(queue, batch=10, autoAck=True)) == ["new3", "new4"]
        push(client, queue, "last")
        assert data(client.pop(queue, batch=10, wait=True, timeout=100_000, autoAck=True)) == ["last"]


@pytest.mark.parametrize("how", ["server", "backend"])
def test_heads_do_not_outlive_a_crash(serve, forgetful, database, queue, how):
    """A head that is named is not looked up: what is gone of the log must not be behind it."""
    daemon, parts = serve(NUM_WORKERS=1), [f"p{n}" for n in range(5)]
    def push_all(client: Client, numbers: range) -> None:
        for n in numbers:
            items = [{"queue": queue, "partition": one, "payload": n} for one in parts]
            until(lambda: client.post("/api/v1/push", {"items": items}).status == 201, "it is stored")
    with daemon.client() as client:
        push_all(client, range(20))
        settle(database)
        push_all(client, range(20, 40))
    crash(forgetful, how)
    changed(daemon)
    with daemon.client() as client:
        push_all(client, range(40, 60))
        for one in parts:
            messages = client.pop(queue, one, batch=100, autoAck=True)
            assert [message["offset"] for message in messages] == list(range(40))
            assert data(messages) == [*range(20), *range(40, 60)]


def test_leases_and_ids_do_not_outlive_a_crash(serve, forgetful, database, queue):
    daemon = serve()
    with daemon.client() as client:
        client.push(queue, "m0", partition="p")
        settle(database)
        ids = [f"id{n}" for n in range(100)]
        client.push_items([{"queue": queue, "partition": "p", "payload": one, "transactionId": one} for one in ids])
        assert len(leased := client.pop(queue, "p", batch=200)) == 101
        crash(forgetful, "server")
        changed(daemon)
        answer = client.ack_batch([ack_of(one) for one in leased])
        assert not any(one["success"] for one in answer)
        again = [{"queue": queue, "partition": "p", "payload": one + "'", "transactionId": one} for one in ids]
        assert {one["status"] for one in client.push_items(again)} == {"queued"}
        assert {one["status"] for one in client.push_items(again)} == {"duplicate"}
        assert data(client.pop(queue, "p", batch=200)) == ["m0", *(one + "'" for one in ids)]


@pytest.mark.parametrize("again", ["first", "after another"])
def test_partitions_made_in_the_lost_tail_are_made_again(serve, forgetful, database, queue, again):
    one, other = serve(), serve()
    lost, else_ = f"{queue}-lost", f"{queue}-other"
    with one.client() as client, other.client() as second:
        client.push(queue, "m0", partition="p")
        settle(database)
        client.push(lost, "lost", partition="new")
        crash(forgetful, "server")
        changed(one, other)
        if again == "after another":      # its queue and partition get the numbers that the lost ones had
            push(second, else_, "other", partition="x")
        push(client, lost, *range(3), partition="new")
        assert data(second.pop(lost, batch=10, wait=True, timeout=100_000, autoAck=True)) == [0, 1, 2]
        if again == "after another":
            assert data(client.pop(else_, batch=10, wait=True, timeout=100_000, autoAck=True)) == ["other"]
        assert data(client.pop(lost, "new", batch=10)) == []
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM queend.log l WHERE l.partition_id NOT IN (SELECT p.id"
                                  " FROM queend.partitions p)").fetchone() == (0,)


def test_who_waits_goes_on_waiting_at_the_new_server(serve, forgetful, database, queue):
    """A parked pop of a queue that the crash took away is given what is pushed after it."""
    daemon = serve()
    with daemon.client() as client, daemon.client() as waiter, daemon.client() as namespace:
        client.push(f"{queue}.a", "m0", partition="p")
        assert data(client.pop(f"{queue}.a", batch=10, autoAck=True)) == ["m0"]
        assert data(client.pop(None, namespace=queue, consumerGroup="g", batch=10, autoAck=True)) == ["m0"]
        waiter.send("GET", f"/api/v1/pop/queue/{queue}.a?wait=true&timeout=100000&batch=10&autoAck=true")
        namespace.send("GET",
                       f"/api/v1/pop?namespace={queue}&consumerGroup=g&wait=true&timeout=100000&batch=10&autoAck=true")
        until(lambda: client.parked() == 2, "both wait")
        crash(forgetful, "server")
        changed(daemon)
        push(client, f"{queue}.a", "m1")
        assert data(waiter.receive().json["messages"]) == ["m1"]
        assert "m1" in data(namespace.receive().json["messages"])


def worker_of(daemon: Daemon, client: Client, eyes: Client) -> int:
    """Which worker has taken the client's connection, that is opened here."""
    def accepted() -> list[float]:
        lines = eyes.get("/metrics/prometheus").body.decode().splitlines()
        return [float(line.split()[1]) for line in lines if line.startswith("queend_worker_accepted_total{")]
    before = accepted()
    client.get("/livez")
    return next(n for n, (now, then) in enumerate(zip(accepted(), before, strict=True)) if now > then)


def connected(client: Client) -> list[int]:
    """Connections of each worker that serve."""
    text = client.get("/metrics/prometheus").body.decode()
    return [int(one) for one in re.findall(r'^queend_worker_connected\{worker="\d+"\} (\d+)', text, re.M)]


def test_a_worker_that_comes_late_keeps_no_group_from_what_is_there(request, queue):
    """One worker has met the new server, and its scan of a group takes long. Another one has not met it yet: what it
    would have in hand it would forget when it does."""
    core, gate = b"\0application_name\0queend\0", threading.Semaphore(1 << 20)
    with running(request.config.getoption("--postgres"), tcp=True) as server:
        name = psycopg.conninfo.conninfo_to_dict(server.database())["dbname"]
        front = Proxy(server.port)
        front.rule = lambda to_server, data: (
            [CUT] if to_server and core in data and not gate.acquire(blocking=False) else [data])
        with Daemon(f"host=127.0.0.1 port={front.port} user=postgres dbname={name}", NUM_WORKERS=2,
                    QUEEND_SLOTS=2) as daemon, ExitStack() as stack:
            eyes, *both = (stack.enter_context(daemon.client()) for _ in range(3))
            for one in both:
                if worker_of(daemon, one, eyes) == 0:
                    first = one
                else:
                    late = one
            eyes.push(queue, "m", partition="p")
            while True:               # until it is the first worker that gets the only connection
                while gate.acquire(blocking=False):
                    pass
                server.restart()
                gate.release()
                if until(lambda: (met := connected(eyes)) != [0, 0] and met, "one has met it")[0]:
                    break
            groups = [f"g{n}" for n in range(4)]
            assert data(first.pop(queue, consumerGroup="known")) == ["m"]     # from here on its end is no news
            with psycopg.connect(server.dsn(dbname=name)) as lock:
                lock.execute("LOCK TABLE queend.cursors IN ACCESS EXCLUSIVE MODE")
                first.wire.send(b"".join(request_of("GET", pop_target(queue, consumerGroup=group, wait=True,
                                                                      timeout=60_000)) for group in groups))
                until(lambda: eyes.parked() == len(groups), "all wait for a scan")
                assert late.get("/livez").status == late.get("/livez").status == 200      # turns of its loop
                gate.release(1 << 20)
                until(lambda: late.get("/readyz").status == 200, "the other one has met it, too")
            assert [data(first.receive().json["messages"]) for _ in groups] == [["m"]] * len(groups)
        front.close()


def test_a_crash_that_loses_nothing_stores_nothing_twice(serve, forgetful, database, queue):
    """Pushes under way when the server dies, some of them committed: each is stored once, in its order."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET synchronous_commit = on")
    daemon = serve(NUM_WORKERS=1)
    with daemon.client() as client:
        push(client, queue, -1)
    clients = [daemon.client() for _ in range(8)]
    for round_ in range(3):
        for n, client in enumerate(clients):
            items = [{"queue": queue, "partition": f"p{n}", "payload": round_ * 100 + i} for i in range(100)]
            client.send("POST", "/api/v1/push", json.dumps({"items": items}).encode())
        crash(forgetful, "server")
        for client in clients:
            answer = client.receive()
            assert answer.status == 201 and {one["status"] for one in answer.json} == {"queued"}, answer.body
    with daemon.client() as client:
        for n in range(8):
            assert data(client.pop(queue, f"p{n}", batch=1000, autoAck=True)) == list(range(300))
    for client in clients:
        client.close()
