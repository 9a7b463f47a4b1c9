"""Lease ids tell where the lease is: extensions and transactions find it at any daemon, however it was claimed, and
read no more than that."""
from __future__ import annotations

import uuid

import psycopg
import pytest
from support.client import Client
from support.daemon import Daemon
from support.wait import until

WAYS = ("read", "memory", "handed")


@pytest.fixture(scope="module")
def quiet(start_daemon) -> Daemon:
    """A daemon that keeps no rows in memory."""
    return start_daemon(QUEEND_CACHE_BYTES=0)


def claimed(client: Client, daemon: Daemon, queue: str, way: str, partitions: int) -> list[dict]:
    """What a pop over so many partitions was given: from the log, from the daemon's memory, or by the push itself."""
    names = [f"p{i}" for i in range(partitions)]

    def push() -> None:
        client.push_items([{"queue": queue, "partition": name, "payload": name} for name in names])

    push()
    if way != "read":      # the group has been everywhere: it keeps up
        while not all(client.ack(one)["success"]
                      for one in until(lambda: client.pop(queue, batch=100, partitions=10), "what there is")):
            pass
        while some := client.pop(queue, batch=100, partitions=10):
            assert all(client.ack(one)["success"] for one in some)
    if way == "memory":
        push()
    if way != "handed":
        return client.pop(queue, batch=100, partitions=partitions)
    with daemon.client() as waiting:
        before = client.parked()
        waiting.send("GET", f"/api/v1/pop/queue/{queue}?wait=true&timeout=30000&batch=100&partitions={partitions}")
        until(lambda: client.parked() == before + 1, "the pop waits")
        push()
        return waiting.receive().json["messages"]


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("way", WAYS)
def test_found_by_its_id_alone(client: Client, daemon: Daemon, other: Client, queue: str, way: str,
                               partitions: int) -> None:
    messages = claimed(client, daemon, queue, way, partitions)
    (lease,) = {one["leaseId"] for one in messages}
    held = len({one["partition"] for one in messages})
    id = uuid.UUID(lease)
    assert (id.version, id.variant) == (8, uuid.RFC_4122)
    for one in (client, other):
        assert one.extend(lease, {"seconds": 600})["renewed"] == held
    with psycopg.connect(daemon.conninfo, autocommit=True) as database:
        found = database.execute("SELECT k.partition_id FROM queend.cursors k WHERE k.lease_id = %s ORDER BY 1",
                                 (lease,)).fetchall()
        named = database.execute("SELECT queend.lease_part(%s)", (lease,)).fetchone()
        remembered = database.execute("SELECT count(*) FROM queend.leases WHERE lease_id = %s", (lease,)).fetchone()
    assert len(found) == held
    assert ([named], remembered) == (found, (0,)) if held == 1 else remembered == (1,)
    # whichever is done first, the rest is found
    for n, one in enumerate(sorted(messages, key=lambda one: one["partition"])):
        assert other.transaction({"type": "push", "items": [{"queue": f"{queue}-out", "payload": n}]},
                                 requiredLeases=[lease])["success"] is True
        assert client.ack(one)["success"] is True
    assert other.extend(lease)["error"] == "Lease not found"
    told = other.transaction({"type": "push", "items": [{"queue": f"{queue}-out", "payload": "no"}]},
                             requiredLeases=[lease])
    assert told["success"] is False


def test_after_a_restart(start_daemon, quiet: Daemon, queue: str) -> None:
    with quiet.client() as client:
        one = claimed(client, quiet, queue, "read", 1)
        client.push_items([{"queue": queue, "partition": name, "payload": 1} for name in "ab"])
        several = client.pop(queue, batch=10, partitions=10)
    again = start_daemon(quiet.conninfo)
    with again.client() as client:
        assert client.extend(one[0]["leaseId"])["renewed"] == 1 and client.extend(several[0]["leaseId"])["renewed"] == 2


def test_no_two_are_alike_and_none_can_be_guessed(client: Client, queue: str) -> None:
    client.push_items([{"queue": queue, "partition": f"p{i}", "payload": i} for i in range(300)])
    leases = [uuid.UUID(client.pop(queue)[0]["leaseId"]) for _ in range(300)]
    assert len(set(leases)) == 300
    # every bit that is free to be so is set in about half of them, also those that hold the number of the partition
    for bit in set(range(128)) - {127, 76, 77, 78, 79, 62, 63}:
        assert 60 < sum(one.int >> bit & 1 for one in leases) < 240, bit
    together = sorted(str(one) for one in leases)
    assert together != [str(one) for one in leases] and len({one[:6] for one in together}) > 290


def test_a_lease_of_an_older_daemon(client: Client, daemon: Daemon, queue: str) -> None:
    """Its ids are of version 7 and name nothing: the function it calls remembers where they are."""
    client.push(queue, 1)
    lease = str(uuid.UUID(int=(0x0199 << 112) | (7 << 76) | (2 << 62) | uuid.uuid4().int & ((1 << 60) - 1)))
    with psycopg.connect(daemon.conninfo, autocommit=True) as database:
        part, group = database.execute("SELECT p.id, g.group_id FROM queend.partitions p JOIN queend.queues q"
                                       " ON q.id = p.queue_id,"
                                       " LATERAL queend.group_resolve(q.id, 'g', 'all', NULL) AS g WHERE q.name = %s",
                                       (queue,)).fetchone()
        database.execute("SELECT * FROM queend.pop(0, ARRAY[1], ARRAY[%s], ARRAY[%s], ARRAY[true], ARRAY[5], ARRAY[1],"
                         " ARRAY[false], ARRAY[%s::uuid],"
                         " ARRAY[60000000::bigint], ARRAY[0::bigint], ARRAY[0::bigint])", (part, group, lease))
    assert client.extend(lease)["renewed"] == 1


def test_forgotten_in_the_background(start_daemon, queue: str) -> None:
    daemon = start_daemon(RETENTION_INTERVAL=100, EVICTION_INTERVAL=100)
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as database:
        client.push_items([{"queue": queue, "partition": name, "payload": 1} for name in "ab"])
        messages = client.pop(queue, batch=10, partitions=10)
        count = "SELECT count(*) FROM queend.leases"
        assert database.execute(count).fetchone() == (1,)
        assert client.ack(messages[0])["success"] is True
        assert client.extend(messages[1]["leaseId"])["renewed"] == 1
        assert client.ack(messages[1])["success"] is True
        until(lambda: database.execute(count).fetchone() == (0,), "it is forgotten")
