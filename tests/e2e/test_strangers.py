"""Long polls for what does not exist yet: each hears of what it waits for, by whatever way that comes, and of nothing
else."""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from support.client import Client, data, pop_target
from support.daemon import Daemon
from support.postgres import running
from support.proxy import Proxy
from support.wait import PATIENCE, until

WAIT = {"wait": True, "timeout": 60_000, "autoAck": True, "batch": 10}


@pytest.fixture
def start(start_daemon) -> Iterator[Callable[..., Daemon]]:
    """Starts daemons that end with the test: their connections are needed by the next."""
    running: list[Daemon] = []

    def one(conninfo: str | None = None) -> Daemon:
        running.append(start_daemon(conninfo))
        return running[-1]
    yield one
    for daemon in running:
        if daemon.process.poll() is None:
            daemon.stop()


@pytest.fixture
def daemon(start) -> Daemon:
    """One for each test: what is parked is counted."""
    return start()


def parked(client: Client, number: int) -> None:
    until(lambda: client.parked() == number, f"{number} pops wait")


@contextmanager
def waiting(daemon: Daemon, *targets: str) -> Iterator[list[Client]]:
    """A client for each target whose pop is parked."""
    with ExitStack() as stack:
        clients = [stack.enter_context(daemon.client()) for _ in targets]
        for one, target in zip(clients, targets):
            one.send("GET", target)
        parked(stack.enter_context(daemon.client()), len(targets))
        yield clients


def got(client: Client) -> list:
    return data(client.receive().json["messages"])


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
def test_each_hears_of_its_own_queue_partition_namespace_or_task(daemon: Daemon, client: Client, start,
                                                                 elsewhere: bool) -> None:
    """Each group stands for itself, so that nobody takes another's message. Elsewhere: pushed through a second
    daemon."""
    with ExitStack() as stack:
        pusher = stack.enter_context(start(daemon.conninfo).client()) if elsewhere else client
        wanted = {"queue": pop_target("sales.order.a", consumerGroup="queue", **WAIT),
                  "partition": pop_target("sales.order.a", "p", consumerGroup="partition", **WAIT),
                  "namespace": pop_target(None, namespace="sales", consumerGroup="namespace", **WAIT),
                  "task": pop_target(None, task="order", consumerGroup="task", **WAIT),
                  "both": pop_target(None, namespace="sales", task="order", consumerGroup="both", **WAIT)}
        others = {"other queue": pop_target("sales.order.b", consumerGroup="1", **WAIT),
                  "other partition": pop_target("sales.order.a", "q", consumerGroup="2", **WAIT),
                  "other namespace": pop_target(None, namespace="stock", consumerGroup="3", **WAIT),
                  "other task": pop_target(None, namespace="sales", task="refund", consumerGroup="4", **WAIT)}
        clients = dict(zip([*wanted, *others],
                           stack.enter_context(waiting(daemon, *wanted.values(), *others.values()))))
        pusher.push("sales.order.a", 1, partition="p")
        assert {name: got(clients[name]) for name in wanted} == {name: [1] for name in wanted}
        parked(client, len(others))
        for expected, (name, queue, partition) in enumerate(
                [("other queue", "sales.order.b", None), ("other partition", "sales.order.a", "q"),
                 ("other namespace", "stock.x", None), ("other task", "sales.refund", None)]):
            pusher.push(queue, expected, partition=partition)
            assert got(clients[name]) == [expected]
        parked(client, 0)


def test_an_option_changed_elsewhere_leaves_others_waiting_and_frees_what_was_delayed(daemon: Daemon,
                                                                                      client: Client, start) -> None:
    with start(daemon.conninfo).client() as other:
        client.configure("late", delayedProcessing=3600)
        client.configure("still")
        client.push("late", 1, partition="p")
        client.push("still", 0, partition="p")
        assert len(client.pop("still", **WAIT)) == 1
        with waiting(daemon, pop_target("late", **WAIT), pop_target("still", **WAIT),
                     pop_target("unknown", **WAIT)) as (late, still, unknown):
            other.configure("late", delayedProcessing=0)
            client.push("anything", 1)                     # whoever calls next learns that the catalogue changed
            assert got(late) == [1]
            parked(client, 2)
            client.push("still", 2, partition="p")
            client.push("unknown", 3)
            assert got(still) == [2] and got(unknown) == [3]


def test_many_names_wait_leave_and_are_answered_when_the_daemon_stops(daemon: Daemon, client: Client) -> None:
    targets = [pop_target(f"n{i % 60}", f"p{i}" if i % 3 else None, **WAIT) for i in range(150)]
    targets += [pop_target(None, namespace=f"n{i}", **WAIT) for i in range(50)]
    with waiting(daemon, *targets) as clients:
        for one in clients[::2]:
            one.close()
        parked(client, 100)
        client.push("n3", 5)
        assert got(clients[3]) == [5]
        parked(client, 99)                                  # those of other partitions of n3 stay
        daemon.stop()
        assert all(one.receive().status in (200, 204) for i, one in enumerate(clients) if i % 2 and i != 3)


@pytest.mark.parametrize("partition", [None, "p"], ids=["a queue", "a partition"])
def test_made_before_the_first_look(request: pytest.FixtureRequest, start, queue: str, partition: str | None) -> None:
    """The daemon has read the catalog, and its first look at what others stored is under way: it tells of nothing
    older."""
    sent, go_on = threading.Event(), threading.Event()

    def rule(to_server: bool, piece: bytes) -> list:
        if not to_server or sent.is_set() or b"SELECT pg_current_snapshot()" not in piece:
            return [piece]
        sent.set()
        return [go_on.wait, piece]

    with running(request.config.getoption("--postgres"), tcp=True) as cluster:
        proxy = Proxy(cluster.port)
        with start(cluster.conninfo).client() as pusher:
            if partition:
                pusher.push(queue, "older", partition="another")
            proxy.rule = rule
            late = Daemon(cluster.dsn(port=proxy.port, sslmode="disable", gssencmode="disable"))
            try:
                with late.client() as watcher, late.client() as client:
                    assert sent.wait(PATIENCE)
                    client.send("GET", pop_target(queue, partition, **WAIT))
                    parked(watcher, 1)
                    pusher.push(queue, 1, partition=partition or "p")
                    go_on.set()
                    assert got(client) == [1]
            finally:
                go_on.set()
                late.stop()
                proxy.close()
