"""Every allocation of the core fails in turn while it serves: nothing ends the process, every request is answered, what
was answered as stored is there, and nothing is left over."""
from __future__ import annotations

import threading
import time
import uuid

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from support.client import Client, ack_of, data, pop_target
from support.frames import message_ids
from support.http import Gone
from support.wait import until

from queend._core import Core, probe_memory_fails, probe_memory_works


@pytest.fixture(scope="module")
def conninfo(cluster) -> str:
    return cluster.dsn(dbname=conninfo_to_dict(cluster.database())["dbname"])


STORED = ("SELECT COALESCE(sum(l.n), 0) FROM queend.log l JOIN queend.partitions p ON p.id = l.partition_id"
          " JOIN queend.queues q ON q.id = p.queue_id"
          " WHERE q.name = %s")


class Serving:
    """A core of its own on the database; nobody answers for the control plane."""

    def __init__(self, conninfo: str, **settings: object):
        self.conninfo = conninfo
        self.core = Core({"host": "127.0.0.1", "port": 0, "workers": 1, "slots_per_worker": 2,
                          "conninfo": conninfo, **settings})
        self.port = self.core.start()
        until(self.core.ready, "the database answers")

    def client(self) -> Client:
        return Client(("127.0.0.1", self.port))

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *what: object) -> None:
        """Stops in any case, for there is one core in a process."""
        probe_memory_works()
        stopped = self.core.stop(10_000)
        leaks = self.core.leaks()
        if what[0] is None:
            assert stopped
            assert not any(leaks.values()), leaks


class Script:
    """What a client does, request by request. Each is answered with one of the statuses that are allowed, or its
    connection ends."""

    def __init__(self, serving: Serving, name: str):
        self.serving, self.queue, self.stored, self.taken = serving, name, [], []
        self.doubtful: set[str] = set()
        self.client = serving.client()
        self.ended = 0

    def ask(self, method: str, target: str, body: object = None) -> object:
        try:
            answer = self.client.request(method, target, body)
        except (Gone, ConnectionError):
            self.client.close()
            self.ended += 1
            return None
        assert answer.status in (200, 201, 204, 503, 500), (answer.status, answer.body)
        return answer if answer.status < 300 else None

    def push(self, *payloads: str, partition: str = "p") -> None:
        answer = self.ask("POST", "/api/v1/push", {
            "items": [{"queue": self.queue, "partition": partition, "payload": one} for one in payloads]})
        told = answer.json if answer else []
        for payload, item in zip(payloads, told or [{}] * len(payloads)):
            if item.get("status") == "queued":
                self.stored.append(payload)
            else:
                self.doubtful.add(payload)

    def pop(self, **query: object) -> list[dict]:
        answer = self.ask("GET", pop_target(self.queue, **query))
        messages = answer.json["messages"] if answer and answer.status == 200 else []
        self.taken += data(messages) if query.get("consumerGroup") == "other" else []
        return messages

    def run(self) -> None:
        large = "x" * 3000
        self.push("a")
        self.push(*[f"b{i}" + large for i in range(3)])
        self.push(*[f"c{i}" for i in range(40)], partition="q")
        messages = self.pop(batch=2)
        for one in messages[:1]:
            self.ask("POST", "/api/v1/ack", ack_of(one))
        self.ask("POST", "/api/v1/ack/batch", {"acknowledgments": [ack_of(one, "retry") for one in messages[1:]]})
        self.pop(batch=3, autoAck=True, partitions=4)
        self.pop(batch=50, autoAck=True, wait=True, timeout=50, consumerGroup="other")
        item = {"queue": self.queue, "partition": "t", "payload": "d"}
        answer = self.ask("POST", "/api/v1/transaction", {"operations": [{"type": "push", "items": [item]}]})
        (self.stored.append if answer and answer.json.get("success") else self.doubtful.add)("d")
        self.ask(
            "POST",
            f"/api/v1/lease/{messages[0]['leaseId'] if messages else '018f0000-0000-7000-8000-000000000001'}/extend",
            {"seconds": 5})

    def handed(self) -> None:
        """A pop that waits is served by the push."""
        with self.serving.client() as waiting:
            waiting.send("GET",
                         pop_target(self.queue, consumerGroup="other", wait=True, timeout=300, autoAck=True, batch=3))
            self.push("e" + "y" * 2000, partition="p")
            try:
                answer = waiting.receive()
                assert answer.status in (200, 204, 503)
                self.taken += data(answer.json["messages"]) if answer.status == 200 else []
            except Gone:
                self.ended += 1

    def check(self) -> None:
        """With memory again: what was answered as stored is delivered to a new group and to one that has read before,
        once."""
        with psycopg.connect(self.serving.conninfo) as db:
            there = db.execute(STORED, (self.queue,)).fetchone()[0]
        everything = self.rest("check", there)
        assert set(self.stored) <= set(everything) <= set(self.stored) | self.doubtful
        assert sorted(everything) == sorted(set(everything))
        assert sorted(self.taken + self.rest("other", there - len(self.taken))) == sorted(everything)

    def rest(self, group: str, n: int) -> list[str]:
        """What is left for a group, n messages. They come, if not at once: a scan that had no memory is repeated."""
        got: list[str] = []
        with self.serving.client() as client:
            while messages := client.pop(self.queue, consumerGroup=group, batch=1000, partitions=64,
                                         autoAck=True, wait=True, timeout=20_000 if len(got) < n else 1):
                got += data(messages)
        return got


def serve(conninfo: str, queue: str, first: int, fails: int) -> int:
    """Serves the script with a fresh core, whose allocations `first` and so on fail; returns how many it asked for."""
    with Serving(conninfo) as serving:
        script = Script(serving, queue)
        probe_memory_fails(first, fails)
        script.run()
        script.handed()
        asked = probe_memory_works()
        script.check()
        script.client.close()
    return asked


@pytest.mark.parametrize("share", range(4))
def test_each_allocation_fails_once(conninfo: str, share: int) -> None:
    """A core of its own for each, so that nothing is there from before."""
    first = asked = share + 1
    while first <= asked:
        asked = serve(conninfo, f"one-{first}", first, 1)
        first += 4
    assert first > 100


@pytest.mark.parametrize("share", range(2))
def test_many_fail_in_a_row(conninfo: str, share: int) -> None:
    first = asked = share * 8 + 1
    while first <= asked:
        asked = serve(conninfo, f"many-{first}", first, 20)
        first += 16


def test_memory_comes_and_goes_under_load(conninfo: str) -> None:
    """Several clients at once, and one core for all of it."""
    with Serving(conninfo, workers=2) as serving:
        scripts = [Script(serving, f"load-{n}") for n in range(4)]

        def repeat(script: Script) -> None:
            for _ in range(20):
                script.run()
                script.handed()

        threads = [threading.Thread(target=repeat, args=(script,)) for script in scripts]
        for thread in threads:
            thread.start()
        first = 1
        while any(thread.is_alive() for thread in threads):
            probe_memory_fails(first % 13 + 1, 3)
            first += 1
            time.sleep(0.002)
        for thread in threads:
            thread.join()
        probe_memory_works()
        for script in scripts:
            script.client.close()


def test_without_memory_each_id_is_stored_once(conninfo: str) -> None:
    """A push brings ids of version 7 in the wrong order, each twice. Memory runs out at any place."""
    ids = [str(uuid.UUID(bytes=one)) for one in sorted(message_ids(600), reverse=True) for _ in range(2)]
    first = asked = 0
    with Serving(conninfo) as serving:
        script = Script(serving, "twice")
        while first <= asked:
            first += 1
            items = [{"queue": "twice", "partition": f"p{first}", "payload": 1, "transactionId": one} for one in ids]
            script.ask("GET", "/livez")
            probe_memory_fails(first, 50)
            script.ask("POST", "/api/v1/push", {"items": items})
            asked = probe_memory_works()
        script.client.close()
    with psycopg.connect(conninfo) as db:
        rows = db.execute("SELECT p.name, string_agg(l.ids, '') FROM queend.log l JOIN queend.partitions p"
                          " ON p.id = l.partition_id JOIN queend.queues q ON q.id = p.queue_id"
                          " WHERE q.name = 'twice' GROUP BY 1").fetchall()
    assert rows and {name: len(stored) // 16 for name, stored in rows} == {name: 600 for name, _ in rows}
