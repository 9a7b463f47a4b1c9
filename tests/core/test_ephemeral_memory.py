"""Ephemeral queues in a core without a control plane: failing allocations, bodies at random, memory that comes back."""
from __future__ import annotations

import json
import random
import threading
from urllib.parse import urlencode

import pytest
from psycopg.conninfo import conninfo_to_dict
from support.client import Client
from support.http import Gone
from support.wait import until

from queend._core import Core, probe_ephemeral_idle, probe_memory_fails, probe_memory_works

ROOT = "/api/v1/ephemeral"


@pytest.fixture(scope="module")
def core(cluster):
    """One core of two workers, whose database is there but needless."""
    conninfo = cluster.dsn(dbname=conninfo_to_dict(cluster.database())["dbname"])
    one = Core({"host": "127.0.0.1", "port": 0, "workers": 2, "slots_per_worker": 2, "conninfo": conninfo,
                "ephemeral_bytes": 1 << 20})
    yield one, one.start()
    probe_memory_works()
    assert one.stop(10_000)
    leaks = one.leaks()
    assert not any(leaks.values()), leaks


class Asked:
    """Requests to the core; connections that end are opened again."""

    def __init__(self, port: int):
        self.client = Client(("127.0.0.1", port))

    def ask(self, method: str, target: str, body: object = None):
        try:
            answer = self.client.request(method, target, body)
        except (Gone, ConnectionError):
            self.client.close()
            return None
        assert answer.status in (200, 201, 204, 409, 413, 429, 503), (answer.status, answer.body)
        return answer if answer.status < 300 else None

    def push(self, queue: str, *payloads: object, **more: object):
        return self.ask("POST", f"{ROOT}/push", {"queue": queue, "messages": [{"payload": p} for p in payloads],
                                                 **more})

    def pop(self, queue: str, **query: object) -> list[dict]:
        answer = self.ask("GET", f"{ROOT}/pop?{urlencode({'queue': queue, **query})}")
        return answer.json["messages"] if answer and answer.status == 200 else []

    def ack(self, queue: str, messages: list[dict], status: str, **more: object):
        return self.ask("POST", f"{ROOT}/ack", {"queue": queue, **more, "acks": [
            {"id": one["id"], "status": status} for one in messages]})


def emptied(core: Core) -> None:
    """Deletes all queues: not a byte is left."""
    for one in json.loads(core.ephemeral_queues()):
        assert core.ephemeral_delete(one["queue"].encode())
    figures = core.ephemeral_figures()
    assert (figures["bytes"], figures["queues"]) == (0, 0), figures


def script(core: Core, port: int, name: str) -> None:
    asked = Asked(port)
    asked.push(name, 1, "x" * 3000, partition="p")
    held = asked.pop(name, batch=2, group="g")
    asked.pop(name, batch=2)
    asked.ack(name, held[:1], "completed", group="g")
    asked.ack(name, held[1:], "retry", group="g")
    core.ephemeral_configure(name.encode(), (1000, 3, 60, 30, 1, 0, 0, True))
    asked.push(name, 2, 3, 4)
    asked.pop(name, wait="true", timeout=20, partition="q", group="h")
    asked.pop(name, autoAck="true", batch=9, group="g")
    asked.client.close()


def test_every_allocation_may_fail(core) -> None:
    one, port = core
    script(one, port, "first")
    emptied(one)
    probe_memory_fails(0)
    script(one, port, "counted")
    asked = probe_memory_works()
    emptied(one)
    for fails in (1, 3):
        for n in range(1, asked + 1):
            probe_memory_fails(n, fails)
            script(one, port, f"e{n}")
            probe_memory_works()
            emptied(one)


def test_nothing_is_lost_while_allocations_fail(core) -> None:
    """What a push answered as pushed stays in the queue, whatever becomes of pops."""
    one, port = core
    dice = random.Random(7)
    for _ in range(30):
        asked, pushed = Asked(port), 0
        for n in range(20):
            probe_memory_fails(dice.randint(1, 40))
            pushed += asked.push("kept", n) is not None
            asked.pop("kept", group="g", batch=2)
            probe_memory_works()
        depth = json.loads(b"{" + (one.ephemeral_depth(b"kept", b"g") or b'"pending":0}'))
        assert depth["pending"] >= pushed
        asked.client.close()
        emptied(one)


HOUR = 3_600_000_000


def depth(core: Core, queue: bytes) -> dict:
    return json.loads(b"{" + core.ephemeral_depth(queue, None))


def test_unused_names_are_forgotten(core) -> None:
    one, port = core
    asked, waiting = Asked(port), Client(("127.0.0.1", port))
    one.ephemeral_configure(b"declared", (1000, 1000, 0, 86400, 5, 0, 0, False))
    asked.pop("declared", group="unused", partition="empty")
    asked.push("declared", 1, 2, partition="full")
    (held,) = asked.pop("declared", group="leases")
    asked.pop("empty", group="g")
    asked.push("undeclared", 1)
    waiting.send("GET", f"{ROOT}/pop?queue=waits&wait=true&timeout=60000")
    until(lambda: any(q["waiting"] for q in json.loads(one.ephemeral_queues())), "the pop waits")
    probe_ephemeral_idle(HOUR // 2)
    assert len(json.loads(one.ephemeral_queues())) == 4
    probe_ephemeral_idle(2 * HOUR)
    left = {q["queue"]: (q["partitions"], q["groups"]) for q in json.loads(one.ephemeral_queues())}
    assert left == {"declared": (1, 1), "undeclared": (1, 0), "waits": (0, 1)}
    assert depth(one, b"declared")["groups"] == [{"group": "leases", "pending": 2, "leased": 1, "skipped": 0}]
    asked.ack("declared", [held], "completed", group="leases")
    probe_ephemeral_idle(4 * HOUR)
    seen = depth(one, b"declared")
    assert seen["groups"] == [] and seen["pending"] == 1, "what the group had not completed"
    assert [m["payload"] for m in asked.pop("declared", group="late", batch=9)] == [2]
    asked.push("waits", 1)
    assert waiting.receive().json["messages"][0]["payload"] == 1
    waiting.close()
    asked.client.close()
    emptied(one)


def test_many_threads_share_queues(core) -> None:
    """Each message of a group arrives once while pops, nacks, resets of others and deletions run beside."""
    one, port = core
    seen: list[int] = []
    failed: list[BaseException] = []

    def consume(partition: bool) -> None:
        asked = Asked(port)
        try:
            while True:
                for message in asked.pop("shared", group="g", wait="true", timeout=5000, batch=3,
                                         **({"partition": "p0"} if partition else {})):
                    if message["payload"] == "end":
                        return
                    if message["payload"] % 7 == 0 and message["attempts"] == 0:
                        asked.ack("shared", [message], "retry", group="g")
                    else:
                        seen.append(message["payload"])
                        asked.ack("shared", [message], "completed", group="g")
        except BaseException as error:  # noqa: BLE001
            failed.append(error)
        finally:
            asked.client.close()

    def disturb() -> None:
        asked = Asked(port)
        for n in range(200):
            asked.push(f"other{n % 3}", n)
            asked.pop(f"other{n % 3}", group=str(n % 5))
            one.ephemeral_reset(f"other{n % 3}".encode())
            one.ephemeral_delete(f"other{(n + 1) % 3}".encode())
        asked.client.close()

    consumers = [threading.Thread(target=consume, args=(i == 0,)) for i in range(6)]
    for thread in [*consumers, other := threading.Thread(target=disturb)]:
        thread.start()
    asked = Asked(port)
    asked.pop("shared", group="g")
    for n in range(600):
        assert asked.push("shared", n, partition=f"p{n % 4}")
    until(lambda: len(seen) == 600, "all are consumed")
    for thread in consumers:
        while thread.is_alive():
            asked.push("shared", "end", partition="p0")
            thread.join(0.05)
    other.join()
    assert not failed and sorted(seen) == list(range(600))
    asked.client.close()
    emptied(one)


def test_bodies_at_random(core) -> None:
    """A damaged body is refused or taken; the daemon goes on and loses no memory."""
    one, port = core
    dice = random.Random(11)
    client = Client(("127.0.0.1", port))
    bodies = [json.dumps({"queue": "fuzz", "partition": "p", "messages": [{"payload": [1, "é\n", None]}] * 3}),
              json.dumps({"queue": "fuzz", "group": "g", "acks": [
                  {"id": "0123456789abcdef-1-2-3", "status": "retry", "error": None}] * 3})]
    for _ in range(3000):
        body = bytearray(dice.choice(bodies).encode())
        for _ in range(dice.randint(0, 4)):
            at = dice.randrange(len(body))
            body[at:at + dice.randint(0, 3)] = bytes(dice.choice(b'{}[]",:\\0truefalsnu\xff\x00-9') for _ in range(
                dice.randint(0, 3)))
        answer = client.post(f"{ROOT}/{dice.choice(['push', 'ack'])}", bytes(body))
        assert answer.status in (200, 201, 400, 429), (answer.status, bytes(body))
        if answer.status == 429:
            one.ephemeral_reset(b"fuzz")
    client.close()
    emptied(one)
