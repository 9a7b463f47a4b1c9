"""A cycle is cut at each of its steps: state, sink and cursor agree afterwards, and the cycle sent again counts
once."""
from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest
from support.client import Client
from support.daemon import Daemon
from support.http import Gone
from support.postgres import Postgres, stand
from support.streams import Stream
from support.wait import until

# Where a cycle can be made to stand still: the lock that holds it up there.
STEPS = {
    "before anything": "SELECT pg_advisory_xact_lock(%(query)s::bigint << 32 | %(source)s)",
    "at the lane": "SELECT pg_advisory_xact_lock(1903519076, %(sink)s & 63)",
    "at the cursor": "SELECT FROM queend.cursors WHERE partition_id = %(source)s FOR UPDATE",
    "before the state": "LOCK TABLE queend.stream_state IN SHARE MODE",
    "between state and sink": "LOCK TABLE queend.log IN SHARE MODE",
    "between sink and cursor": "LOCK TABLE queend.cursors IN SHARE MODE",
}
NOTHING = ([("k", "0")], 1, -1, True)       # state, messages in the sink, cursor, leased
ALL = ([("k", "1"), ("l", "2")], 3, 2, False)
CYCLES = ("SELECT pid, wait_event_type FROM pg_stat_activity WHERE datname = current_database()"
          " AND query LIKE '%%stream_cycle%%' AND state = 'active' AND pid <> pg_backend_pid()")


class Case:
    """A stream with a delivery, and the cycle it is about to send."""

    def __init__(self, daemon: Daemon, queue: str):
        self.daemon = daemon
        self.client = daemon.client()
        self.stream = Stream(self.client, queue, queue)
        sink = f"{queue}-sink"
        self.client.push(sink, "before", partition="p")
        self.client.push(queue, 1, 2, 3, partition="p")
        messages = self.stream.pop()
        self.partition = messages[0]["partitionId"]
        assert self.stream.cycle(self.partition, {"k": 0})["success"]
        self.body = self.stream.body(messages, {"k": 1, "l": 2},
                                     [{"queue": sink, "partition": "p", "payload": n} for n in (1, 2)])
        self.admin = psycopg.connect(daemon.conninfo, autocommit=True)
        (self.query,) = self.admin.execute("SELECT id FROM queend.stream_queries WHERE query_uuid = %s",
                                           (self.stream.id,)).fetchone()
        (self.source,), (self.sink,) = (self.admin.execute(
            "SELECT p.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s",
            (name,)).fetchone() for name in (queue, sink))
        assert self.facts() == NOTHING

    def facts(self) -> tuple:
        state = self.admin.execute("SELECT key, value FROM queend.stream_state WHERE query_id = %s"
                                   " AND partition_id = %s ORDER BY key", (self.query, self.source)).fetchall()
        (stored,) = self.admin.execute("SELECT sum(n)::int FROM queend.log WHERE partition_id = %s",
                                       (self.sink,)).fetchone()
        (cursor, leased), = self.admin.execute("SELECT committed, lease_until > 0 FROM queend.cursors"
                                               " WHERE partition_id = %s", (self.source,)).fetchall()
        return state, stored, cursor, leased

    @contextmanager
    def standing(self, step: str, body: dict | None = None) -> Iterator[int]:
        """Sends the cycle and waits until it stands still there; its backend. It may go on at the end of the block."""
        with closing(psycopg.connect(self.daemon.conninfo)) as holder:
            values = {"query": self.query, "source": self.source, "sink": self.sink}
            holder.execute(STEPS[step], {name: values[name] for name in values if f"%({name})s" in STEPS[step]} or None)
            self.client.send("POST", "/streams/v1/cycle", json.dumps(body or self.body).encode())
            ((pid, _),) = until(lambda: [one for one in self.admin.execute(CYCLES).fetchall() if one[1] == "Lock"],
                                "the cycle stands still")
            yield pid

    def ends(self) -> None:
        until(lambda: not self.admin.execute(CYCLES).fetchall(), "the cycle's backend is through")

    def counts_once(self, client: Client) -> None:
        """Sent again, now or after it took effect: it counts once."""
        self.stream.client = client
        before = self.facts()
        assert before in (NOTHING, ALL)
        again = until(lambda: next((answer.json for answer in [client.post("/streams/v1/cycle", self.body)]
                                    if answer.status != 503), None), "the daemon answers")
        assert again["success"] == (before == NOTHING), again
        assert self.facts() == ALL
        assert self.stream.post(self.body)["error"] == "Invalid or expired lease" and self.facts() == ALL
        assert self.stream.pop() == []


@pytest.fixture
def case(daemon: Daemon, queue: str) -> Iterator[Case]:
    one = Case(daemon, queue)
    yield one
    one.admin.close()
    one.client.close()


@pytest.mark.parametrize("how", ["terminate", "cancel"])
@pytest.mark.parametrize("step", STEPS)
def test_the_backend_dies(case: Case, step: str, how: str) -> None:
    """Nothing of what it did is left. The daemon may try again by itself."""
    with case.standing(step) as pid:
        case.admin.execute(f"SELECT pg_{how}_backend(%s)", (pid,))
        until(lambda: pid not in [one for one, _ in case.admin.execute(CYCLES).fetchall()], "its statement has ended")
        assert case.facts() == NOTHING
    answer = case.client.receive()
    assert answer.json["success"] if answer.status == 200 else answer.status == 503, answer.body
    assert case.facts() == (ALL if answer.status == 200 else NOTHING)
    case.counts_once(case.client)


def test_no_cycle_passes_through_the_interpreter(case: Case) -> None:
    """Its partition by id or by number, its sink with a namespace, its items with ids of their own."""
    own = {**case.body["push_items"][0], "transactionId": "own", "namespace": "n"}
    for more in ({}, {"partition_id": str(case.source)}, {"push_items": [own, own]}):
        with case.standing("at the cursor", {**case.body, **more}) as pid:
            assert case.admin.execute("SELECT application_name FROM pg_stat_activity WHERE pid = %s",
                                      (pid,)).fetchone() == ("queend",)
        assert case.client.receive().status == 200


@pytest.fixture
def fresh(start_daemon: Callable[..., Daemon], queue: str) -> Iterator[Case]:
    """On a daemon that may die."""
    one = Case(start_daemon(), queue)
    yield one
    one.admin.close()
    one.client.close()


def killed(case: Case) -> None:
    case.daemon.kill()
    with pytest.raises(Gone):
        case.client.receive()


@pytest.mark.parametrize("step", ["before anything", "between state and sink", "between sink and cursor"])
def test_the_daemon_dies(fresh: Case, start_daemon, step: str) -> None:
    """Its backend may still finish what it was told to do: then all of it."""
    with fresh.standing(step):
        killed(fresh)
    fresh.ends()
    with start_daemon(fresh.daemon.conninfo).client() as client:
        fresh.counts_once(client)


def test_the_daemon_dies_before_it_can_answer(fresh: Case, start_daemon) -> None:
    with fresh.standing("between sink and cursor"):
        stand(fresh.daemon.pid)
    fresh.ends()
    assert fresh.facts() == ALL
    killed(fresh)
    with start_daemon(fresh.daemon.conninfo).client() as client:
        fresh.counts_once(client)


def test_the_server_crashes(fresh: Case, postgres: Postgres) -> None:
    with fresh.standing("between sink and cursor"):
        with postgres.away():
            answer = fresh.client.receive()
    assert answer.status == 503
    fresh.admin = psycopg.connect(fresh.daemon.conninfo, autocommit=True)
    assert fresh.facts() == NOTHING
    with fresh.daemon.client() as client:
        until(lambda: client.get("/readyz").status == 200, "the daemon has its database back")
        fresh.counts_once(client)
