"""Several workers and several push streams: jobs, parts and wake-ups cross threads, and nobody can tell."""
from __future__ import annotations

import random
import re
import threading
import time
import uuid
from collections import defaultdict

import pytest
from support.client import ack_of, data, pop_target
from support.crowd import Crowd
from support.daemon import Daemon
from support.http import request as request_of
from support.postgres import running
from support.proxy import Proxy


@pytest.fixture(scope="module", params=[("acceptor", 4), ("reuseport", 4), ("acceptor", 1)], ids="{0[0]}-{0[1]}".format)
def workers(request: pytest.FixtureRequest, start_daemon) -> Daemon:
    """Streams divided among the workers, and one for all of them."""
    mode, streams = request.param
    return start_daemon(NUM_WORKERS=3, QUEEND_PUSH_STREAMS=streams, QUEEND_LISTEN_MODE=mode)


def test_a_daemon_that_says_it_is_ready_is_so_on_every_connection(start_daemon) -> None:
    """Each connection is another worker's in turn: all of them are there and have reached the database."""
    for _ in range(3):
        daemon = start_daemon(NUM_WORKERS=8, DB_POOL_SIZE=8)
        for _ in range(16):
            with daemon.client() as client:
                assert client.get("/readyz").status == 200
        with daemon.client() as client:
            told = re.findall(r'^queend_worker_accepted_total\{worker="(\d)"\} (\d+)', client.get(
                "/metrics/prometheus").body.decode(), re.M)
            assert [worker for worker, _ in told] == list("01234567") and all(int(n) >= 2 for _, n in told)
        daemon.stop()


def test_what_crosses_threads_keeps_its_order(workers: Daemon, queue: str) -> None:
    """Batches over many partitions of two queues, two groups that consume with long polls: each sees all of it, in
    order."""
    queues = [f"{queue}-a", f"{queue}-b"]
    pushed: dict[tuple[str, str], int] = defaultdict(int)
    seen: dict[str, dict[tuple[str, str], list[dict]]] = {"left": defaultdict(list), "right": defaultdict(list)}
    complete = threading.Event()
    turn = threading.Lock()

    def produce(number: int) -> None:
        chance = random.Random(number)
        with workers.client() as own:
            for n in range(60):
                items = [{"queue": chance.choice(queues), "partition": f"p{chance.randrange(40)}",
                          "payload": [number, n, i],
                          **({"transactionId": str(uuid.UUID(int=chance.getrandbits(128), version=4))}
                             if chance.random() < 0.3 else {})}
                         for i in range(chance.choice((1, 1, 7, 60)))]
                assert {one["status"] for one in own.push_items(items)} == {"queued"}
                with turn:
                    for one in items:
                        pushed[one["queue"], one["partition"]] += 1

    def done(group: str) -> bool:
        return complete.is_set() and sum(map(len, seen[group].values())) >= sum(pushed.values())

    def consume(work: tuple[str, str, int]) -> None:
        name, group, number = work
        chance = random.Random(number)
        with workers.client() as own:
            while not done(group):
                messages = own.pop(name, batch=chance.randint(1, 80), partitions=chance.randint(1, 9), wait=True,
                                   timeout=300, consumerGroup=group)
                with turn:
                    for one in messages:
                        seen[group][name, one["partition"]].append(one)
                assert all(one["success"] for one in own.ack_batch([ack_of(m) for m in messages], group=group))

    with Crowd() as consumers:
        consumers.all(consume, [(name, group, i) for i in range(2) for name in queues for group in seen])
        with Crowd() as producers:
            producers.all(produce, range(6))
        complete.set()
    for parts in seen.values():
        assert {where: [m["offset"] for m in messages]
                for where, messages in parts.items()} == {where: list(range(n)) for where, n in pushed.items()}
        for messages in parts.values():
            for number in range(6):
                mine = [m["data"] for m in messages if m["data"][0] == number]
                assert mine == sorted(mine), "the order of each producer is kept"


def test_a_queue_deleted_again_and_again_loses_nothing_pushed_after(workers: Daemon, queue: str) -> None:
    """Names go stale in every worker; what was acknowledged after a deletion is there, and nothing of before it."""
    with workers.client() as admin:
        for life in range(6):
            stop = threading.Event()

            def produce(number: int, life: int = life, stop: threading.Event = stop) -> None:
                with workers.client() as own:
                    n = 0
                    while not stop.is_set():
                        own.push(queue, f"before {life} {number} {n}", partition=f"p{number}")
                        n += 1

            with Crowd() as crowd:
                crowd.all(produce, range(4))
                admin.push(queue, "before", partition="admin")
                stop.set()
            assert admin.request("DELETE", f"/api/v1/resources/queues/{queue}").json["existed"]

            def after(number: int, life: int = life) -> None:
                with workers.client() as own:
                    own.push(queue, *(f"after {life} {number} {i}" for i in range(20)), partition=f"p{number}")

            with Crowd() as crowd:
                crowd.all(after, range(4))
            with workers.client() as own:
                got = []
                while messages := own.pop(queue, batch=100, partitions=10, autoAck=True, wait=len(got) < 80):
                    got += [m["data"] for m in messages]
            assert sorted(got) == sorted(f"after {life} {number} {i}" for number in range(4) for i in range(20))


def test_a_queue_deleted_while_it_is_pushed_to(workers: Daemon, queue: str) -> None:
    """Every push is answered; those acknowledged after the last deletion was answered are delivered."""
    deleted = threading.Event()
    kept: list[str] = []
    turn = threading.Lock()

    def produce(number: int) -> None:
        with workers.client() as own:
            n = 0
            left = 30
            while left:
                late = deleted.is_set()      # asked before the push begins
                text = f"{number} {n}"
                answer = own.post("/api/v1/push",
                                  {"items": [{"queue": queue, "partition": f"p{n % 3}", "payload": text}]})
                n += 1
                if answer.status == 503 and not late:       # its names were gone again and again
                    continue
                assert answer.status == 201 and answer.json[0]["status"] == "queued", answer.body
                if late:
                    left -= 1
                    with turn:
                        kept.append(text)

    with Crowd() as crowd:
        crowd.all(produce, range(4))
        with workers.client() as admin:
            for _ in range(15):
                assert admin.request("DELETE", f"/api/v1/resources/queues/{queue}").status == 200
        deleted.set()
    with workers.client() as own:
        got = []
        while messages := own.pop(queue, batch=200, partitions=10, autoAck=True, wait=not set(kept) <= set(got)):
            got += [m["data"] for m in messages]
    assert len(got) == len(set(got)) and set(kept) <= set(got)


def test_parts_that_fail_on_several_threads(start_daemon, request: pytest.FixtureRequest, queue: str) -> None:
    """The parts of a push are with streams of three workers when the database goes: each tells its own, the request is
    answered once."""
    with running(request.config.getoption("--postgres"), tcp=True) as cluster:
        proxy = Proxy(cluster.port)
        daemon = start_daemon(cluster.dsn(port=proxy.port), NUM_WORKERS=3, QUEEND_PUSH_STREAMS=6,
                              QUEEND_PATIENCE_MS=300)
        fail_on_several_threads(daemon, proxy, queue)
        daemon.kill()


def fail_on_several_threads(daemon: Daemon, proxy: Proxy, queue: str) -> None:
    items = [{"queue": queue, "partition": f"p{i}", "payload": i} for i in range(64)]
    with daemon.client() as own:
        own.push_items(items)
        proxy.close()

        def push(_: int) -> None:
            with daemon.client() as one:
                answer = one.post("/api/v1/push", {"items": items})
                assert answer.status == 503 and answer.headers["retry-after"], answer.body

        with Crowd() as crowd:
            crowd.all(push, range(20))


def test_who_looks_while_something_is_stored_is_told_or_finds_it(start_daemon) -> None:
    """Pops of a namespace by many groups, one after the other, while a message is stored by way of another worker: each
    gets it, those that looked before and wait as well as those that look later. What falls in between is rare: without
    the care that is taken for it some thousand rounds see one."""
    groups, chance = [f"g{n}" for n in range(60)], random.Random(7)
    daemon = start_daemon(NUM_WORKERS=2)
    burst = b"".join(request_of("GET", pop_target(None, namespace="ns", consumerGroup=group, autoAck=True, wait=True,
                                                  timeout=100_000)) for group in groups)
    with daemon.client() as one, daemon.client() as other:      # of one worker each
        assert one.push("ns.q", -1) and other.get("/livez").status == 200 and other.wire
        for group in groups:
            assert one.pop(None, namespace="ns", consumerGroup=group, autoAck=True, wait=True, timeout=100_000)
        for n in range(500):
            one.send("POST", "/api/v1/push", b'{"items":[{"queue":"ns.q","payload":%d}]}' % n)
            time.sleep(chance.uniform(0.0, 0.0015))     # the pops are to meet the commit
            other.wire.send(burst)
            assert one.receive().status == 201
            assert [data(other.receive().json["messages"]) for _ in groups] == [[n]] * len(groups)


def test_a_queue_that_moves_between_namespaces_is_served_in_each(workers: Daemon, queue: str) -> None:
    """It is filed anew again and again, while pops of both namespaces wait for it, and some leave with what they got,
    which is leased for two seconds: each message is consumed all the same, once."""
    spaces = [f"{queue}-left", f"{queue}-right"]
    pushed, seen, lock = 1500, [], threading.Lock()

    def file(n: int) -> None:
        with workers.client() as own:
            own.configure(queue, namespace=spaces[n % 2])

    def consume(number: int) -> None:
        chance = random.Random(number)
        while len(seen) < pushed:
            with workers.client() as own:
                own.send("GET", f"/api/v1/pop?namespace={spaces[number % 2]}&wait=true&timeout=1000"
                         "&batch=2&leaseSeconds=2")
                if chance.random() < 0.2:
                    continue
                for message in own.receive().json["messages"]:
                    if own.ack(message)["success"]:
                        with lock:
                            seen.append(message["data"])

    file(0)
    with Crowd() as crowd:
        for number in range(6):
            crowd.go(consume, number)
        with workers.client() as own:
            for n in range(pushed // 10):
                own.push(queue, *range(10 * n, 10 * n + 10), partition=f"p{n % 20}")
                file(n)
    assert sorted(seen) == list(range(pushed))
