"""The daemon killed, the daemon stopped, PostgreSQL gone under load: what was acknowledged stays, what was not is asked
again."""
from __future__ import annotations

import json
import threading
from collections.abc import Callable

import psycopg
from support.client import Client, ack_of, data, pop_target
from support.crowd import Crowd
from support.daemon import Daemon
from support.http import Gone
from support.postgres import Postgres
from support.wait import until


class Load:
    """Producers that repeat a push, with the same transaction id, until it is acknowledged."""

    def __init__(self, address: Callable[[], tuple[str, int]], queue: str, producers: int = 6, partitions: int = 10):
        self.address, self.queue, self.partitions = address, queue, partitions
        self.acknowledged: set[str] = set()
        self.statuses: set[int] = set()
        self.lost = 0
        self.enough = threading.Event()
        self.lock = threading.Lock()
        self.crowd = Crowd()
        self.crowd.all(self.produce, range(producers))

    def produce(self, number: int) -> None:
        n = 0
        client = None
        while not self.enough.is_set():
            transaction = f"{number}.{n}"
            item = {"queue": self.queue, "partition": str(n % self.partitions), "transactionId": transaction,
                    "payload": transaction}
            try:
                client = client or Client(self.address(), 30)
                answer = client.post("/api/v1/push", {"items": [item]})
            except OSError:
                client = None
                with self.lock:
                    self.lost += 1
                self.enough.wait(0.01)  # the address refuses: no need to spin
                continue
            with self.lock:
                self.statuses.add(answer.status)
                if answer.status == 201:
                    assert answer.json[0]["status"] in ("queued", "duplicate")
                    self.acknowledged.add(transaction)
                    n += 1
            if answer.status != 201:
                assert answer.status == 503 and "retry-after" in answer.headers, (answer.status, answer.body)
                self.enough.wait(0.01)

    def reached(self, count: int) -> None:
        until(lambda: len(self.acknowledged) >= count or self.crowd.failures, f"{count} acknowledged pushes")
        if self.crowd.failures:
            raise self.crowd.failures[0]

    def end(self) -> None:
        self.enough.set()
        self.crowd.join()


def everything(client: Client, queue: str, group: str) -> list[dict]:
    """Reads a group to its end."""
    result: list[dict] = []
    while messages := client.pop(queue, consumerGroup=group, batch=1000, partitions=100, autoAck=True):
        result += messages
    return result


def check(client: Client, queue: str, load: Load) -> None:
    """All that was acknowledged is there once, in the order of each producer, with offsets from 0 without a gap."""
    seen = everything(client, queue, "checker")
    ids = [m["transactionId"] for m in seen]
    assert len(ids) == len(set(ids)), "stored twice"
    assert load.acknowledged <= set(ids), f"lost: {sorted(load.acknowledged - set(ids))[:10]}"
    for partition in range(load.partitions):
        mine = [m for m in seen if m["partition"] == str(partition)]
        assert [m["offset"] for m in mine] == list(range(len(mine)))
        for producer in {m["data"].split(".")[0] for m in mine}:
            numbers = [int(m["data"].split(".")[1]) for m in mine if m["data"].split(".")[0] == producer]
            assert numbers == sorted(numbers)


def test_a_killed_daemon_loses_nothing_acknowledged(start_daemon, postgres: Postgres) -> None:
    conninfo = postgres.database()
    current: list[Daemon] = [start_daemon(conninfo)]
    load = Load(lambda: current[0].address, "killed")
    consumed: list[str] = []
    for wanted in (300, 600, 900):
        load.reached(wanted)
        with current[0].client() as client:
            messages = client.pop("killed", batch=50, partitions=5)
            assert all(one["success"] for one in client.ack_batch([ack_of(m) for m in messages]))
            consumed += data(messages)
        current[0].kill()
        current[0] = start_daemon(conninfo)
    load.reached(1200)
    load.end()
    assert load.lost > 0, "no producer noticed"
    with current[0].client() as client:
        check(client, "killed", load)
        rest = data(everything(client, "killed", "__QUEUE_MODE__"))
        assert len(consumed) == len(set(consumed)) and not set(consumed) & set(rest), "an ack was forgotten"
        assert load.acknowledged <= set(consumed) | set(rest)
    current[0].stop()


def test_sigterm_answers_what_was_asked(start_daemon, postgres: Postgres) -> None:
    conninfo = postgres.database()
    daemon = start_daemon(conninfo)
    waiting = [daemon.client() for _ in range(20)]
    for one in waiting:
        one.send("GET", pop_target("never", wait=True, timeout=60000))
    current = [daemon]
    load = Load(lambda: current[0].address, "stopped")
    load.reached(300)
    with daemon.client() as client:
        until(lambda: client.parked() == 20, "the pops wait")
    daemon.terminate()
    for one in waiting:
        answer = one.receive()
        assert answer.status == 204 or (answer.status == 200
                                        and answer.json["messages"] == []) or answer.status == 503, answer
    daemon.ended()
    current[0] = start_daemon(conninfo)
    load.reached(len(load.acknowledged) + 100)
    load.end()
    with current[0].client() as client:
        check(client, "stopped", load)
    current[0].stop()


def test_postgres_restarted_under_load(start_daemon, postgres: Postgres) -> None:
    daemon = start_daemon()
    load = Load(lambda: daemon.address, "restarted")
    with daemon.client() as waiting, daemon.client() as client:
        for wanted in (300, 700):
            load.reached(wanted)
            waiting.send("GET", pop_target(f"quiet-{wanted}", wait=True, timeout=60000))
            until(lambda: client.parked() == 1, "the pop waits")
            postgres.restart()
            until(lambda: client.get("/readyz").status == 200, "the core is back")
            until(lambda: client.get("/health").status == 200, "the control plane is back")
            client_push(client, f"quiet-{wanted}")
            assert data(waiting.receive().json["messages"]) == ["woken"], "a pop that waited through it is served"
            load.reached(len(load.acknowledged) + 200)
        load.end()
        check(client, "restarted", load)
    daemon.stop()


def test_a_long_poll_outlasts_a_database_that_is_away(start_daemon, postgres: Postgres) -> None:
    """Its patience is its own timeout, not that of requests that want an answer now; names it has never heard of make
    no difference."""
    daemon = start_daemon(QUEEND_PATIENCE_MS=200)
    with daemon.client() as known, daemon.client() as unknown, daemon.client() as short, daemon.client() as client:
        client.push("known", "first")
        client.ack(client.pop("known")[0])
        with postgres.away():
            until(lambda: client.post("/api/v1/push", {"items": [{"queue": "known", "payload": 1}]}).status == 503,
                  "a push loses its patience")
            known.send("GET", pop_target("known", wait=True, timeout=60000))
            unknown.send("GET", pop_target("unknown", wait=True, timeout=60000))
            short.send("GET", pop_target("unknown", wait=True, timeout=700))
            answer = short.receive()
            assert (answer.status, answer.json["messages"]) == (200, [])
        client_push(client, "known")
        client_push(client, "unknown")
        assert "woken" in data(known.receive().json["messages"] + client.pop("known", batch=10))
        assert data(unknown.receive().json["messages"]) == ["woken"]
    daemon.stop()


def client_push(client: Client, queue: str) -> None:
    """One message, however often it takes."""
    def stored() -> bool:
        item = {"queue": queue, "payload": "woken", "transactionId": "once"}
        return client.post("/api/v1/push", {"items": [item]}).status == 201

    until(stored, "the push is stored")


def test_an_end_while_connections_are_broken(postgres: Postgres, start_daemon) -> None:
    """The daemon ends in order also while its connections are broken."""
    daemon = start_daemon()
    with daemon.client() as client:
        client.push("q", 1)
        postgres.restart()
        daemon.terminate()
    daemon.ended()


def test_backends_terminated_one_by_one(start_daemon, postgres: Postgres) -> None:
    """Connections that break alone are replaced; requests go on over the others."""
    daemon = start_daemon()
    load = Load(lambda: daemon.address, "terminated")
    database = daemon.conninfo.rsplit("dbname=", 1)[1].split()[0]
    for wanted in range(200, 1001, 200):
        load.reached(wanted)
        postgres.execute("SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity"
                         f" WHERE datname = '{database}'"
                         " AND application_name NOT LIKE '%control%' ORDER BY random() LIMIT 4) victims")
    load.reached(1200)
    load.end()
    with daemon.client() as client:
        check(client, "terminated", load)
    daemon.stop()


def test_a_push_whose_outcome_was_lost_is_not_stored_twice(start_daemon, postgres: Postgres) -> None:
    """Without a transaction id of the client's: the daemon's own repeat after a broken connection must find its first
    try."""
    daemon = start_daemon()
    database = daemon.conninfo.rsplit("dbname=", 1)[1].split()[0]
    stop = threading.Event()
    results: list[str] = []

    def push(number: int) -> None:
        n = 0
        with daemon.client() as client:
            while not stop.is_set():
                try:
                    answer = client.post("/api/v1/push", {"items": [{"queue": "twice", "payload": f"{number}.{n}"}]})
                except Gone:
                    continue
                if answer.status == 201:
                    results.append(f"{number}.{n}")
                n += 1

    with Crowd() as crowd:
        crowd.all(push, range(4))
        for wanted in range(100, 1001, 100):
            until(lambda wanted=wanted: len(results) >= wanted or crowd.failures, f"{wanted} pushes")
            postgres.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"
                             " AND application_name NOT LIKE '%control%'")
        stop.set()
    with daemon.client() as client:
        seen = data(everything(client, "twice", "checker"))
    assert len(seen) == len(set(seen)), "stored twice"
    assert set(results) <= set(seen)
    daemon.stop()


def test_who_repeats_what_is_not_stored_yet_is_told_the_same(start_daemon, postgres: Postgres) -> None:
    """A push and its repetition are on their way together as the database goes: neither is stored, and both are to be
    tried again."""
    conninfo = postgres.database()
    name = psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"]
    daemon = start_daemon(conninfo, NUM_WORKERS=1, QUEEND_PATIENCE_MS=500)
    item = json.dumps({"items": [{"queue": "q", "transactionId": "once", "payload": 1}]}).encode()
    clients = [daemon.client() for _ in range(3)]
    with psycopg.connect(conninfo) as lock, postgres.connect() as admin:
        clients[0].push("q", 0)
        lock.execute("LOCK TABLE queend.log IN ACCESS EXCLUSIVE MODE")
        clients[0].send("POST", "/api/v1/push", b'{"items":[{"queue":"q","payload":2}]}')
        until(lambda: admin.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND database ="
                                    " (SELECT oid FROM pg_database WHERE datname = %s)", (name,)).fetchone()[0],
              "a push is under way")
        for one in clients[1:]:
            one.send("POST", "/api/v1/push", item)
        with daemon.client() as eyes:
            for _ in range(2):            # what the worker had received before is done with
                assert eyes.get("/livez").status == 200
        admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> %s",
                      (name, lock.info.backend_pid))
        assert [one.receive().status for one in clients] == [503, 503, 503]
        admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    for one in clients:
        one.close()
