"""Two daemons without peers: a lease that one of them knows ends through the other, and what is free then is delivered
to each kind of pop long before that lease would have run out."""
from __future__ import annotations

import psycopg
import pytest
from support.client import Client, ack_of, data
from support.daemon import Daemon
from support.wait import until

LEASE = 300
WAITS = {"wait": True, "timeout": 30_000}
MANY = 4600     # partitions, more than one statement looks up
LOOKS = ("SELECT count(*), max(query_start) FROM pg_stat_activity WHERE application_name = 'queend' AND datname ="
         " current_database() AND query LIKE '%%queend.waking(%%' AND query_start > %s")


def nobody_commits(daemon: Daemon) -> None:
    """Returns when the looks of all daemons have seen what is committed by now."""
    with psycopg.connect(daemon.conninfo, autocommit=True) as session:
        (seen,), count = session.execute("SELECT clock_timestamp()").fetchone(), 0
        while count < 5:
            number, at = until(lambda since=seen: (row := session.execute(LOOKS, [since]).fetchone())[0] and row,
                               "a look")
            seen, count = at, count + number


def leased(client: Client, other: Client, queue: str, **names: str) -> None:
    """The other daemon has leased the first of two messages, which was acknowledged here; the second one is free."""
    client.configure(queue, leaseTime=LEASE, **names)
    client.push(queue, 1, 2, partition="p")
    (message,) = other.pop(queue, consumerGroup="g", batch=1, **WAITS)
    assert message["data"] == 1
    assert client.ack(message, group="g")["leaseReleased"]


@pytest.mark.parametrize(("asks", "waits", "later"), [
    *((asks, waits, True) for asks in (["namespace"], ["task"], ["namespace", "task"], []) for waits in (True, False)),
    (["namespace"], True, False), ([], True, False)])
def test_each_kind_of_pop(client: Client, other: Client, daemon: Daemon, queue: str, asks: list[str], waits: bool,
                          later: bool) -> None:
    """Which asks for a queue, or by these names, and waits or asks again; later than the last commit, or before it."""
    names = {name: f"of-{queue}" for name in ("namespace", "task")}
    leased(client, other, queue, **names)
    if later:
        nobody_commits(daemon)      # nothing but the pop tells the daemon that it has to look
    target = None if asks else queue
    more = {"consumerGroup": "g", **{name: names[name] for name in asks}}
    if waits:
        assert data(other.pop(target, **more, **WAITS)) == [2]
    else:
        assert data(until(lambda: other.pop(target, **more), "the second one")) == [2]


def test_the_first_pop_after_a_pause(client: Client, other: Client, daemon: Daemon, queue: str) -> None:
    """A consumer that asks every few seconds, without waiting, is not told `empty` first."""
    client.configure(queue)
    assert other.pop(queue, consumerGroup="g") == []
    nobody_commits(daemon)
    leased(client, other, queue)
    nobody_commits(daemon)
    assert data(other.pop(queue, consumerGroup="g")) == [2]


def test_more_leases_than_one_statement_looks_up(client: Client, other: Client, daemon: Daemon, queue: str) -> None:
    """The last of them is looked up, too, though nobody commits anything meanwhile."""
    client.configure(queue, leaseTime=LEASE)
    items = [{"queue": queue, "partition": f"p{n}", "payload": 1} for n in range(MANY)]
    for begin in range(0, MANY, 1000):
        client.push_items(items[begin:begin + 1000])
    found: list[dict] = []
    while len(found) < MANY:
        found += other.pop(queue, consumerGroup="g", batch=1000, partitions=1000, **WAITS)
    for begin in range(0, MANY, 1000):
        results = client.ack_batch([ack_of(m) for m in found[begin:begin + 1000]], "g")
        assert all(one["success"] for one in results)
    client.push(queue, 2, partition=found[-1]["partition"])
    nobody_commits(daemon)
    (second,) = other.pop(queue, consumerGroup="g", **WAITS)
    assert (second["partition"], second["data"]) == (found[-1]["partition"], 2)
