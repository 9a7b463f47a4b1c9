"""Why a pop is empty: `reason` tells messages that a lease holds from none at all."""
from __future__ import annotations

import psycopg
import pytest
from psycopg.types.json import Jsonb
from support.client import Client, data
from support.daemon import Daemon
from support.wait import until

SHORT = {"wait": True, "timeout": 1}      # a long poll that is over at once


def reason(client: Client, *where: str | None, **query: object) -> str:
    answer = client.pop_answer(*where, **query)
    assert (answer.status, answer.json["messages"]) == (200, [])
    return answer.json["reason"]


def reasons(client: Client, queue: str, space: str, group: str) -> set[str]:
    """Of every way to ask: by queue, partition and namespace, with and without waiting."""
    return {reason(client, *where, consumerGroup=group, **query, **more)
            for where, more in (((queue,), {}), ((queue, "p"), {}), ((None,), {"namespace": space}))
            for query in ({}, SHORT)}


def test_leased_and_empty(client: Client, queue: str) -> None:
    space = f"of-{queue}"
    client.configure(queue, namespace=space)
    client.push(queue, 1, partition="p")
    (message,) = client.pop(queue, consumerGroup="g")
    assert reasons(client, queue, space, "g") == {"leased"}
    assert data(client.pop(queue, consumerGroup="other", autoAck=True)) == [1]
    assert reasons(client, queue, space, "other") == {"empty"}, "a lease of another group holds nothing back"
    assert client.ack(message, group="g")["success"]
    assert reasons(client, queue, space, "g") == {"empty"}


def test_a_lease_of_another_daemon(start_daemon) -> None:
    one = start_daemon()
    two = start_daemon(conninfo=one.conninfo)
    with one.client() as here, two.client() as there:
        here.push("q", 1)
        (message,) = here.pop("q", consumerGroup="g")
        until(lambda: reason(there, "q", consumerGroup="g") == "leased", what="the other daemon knows of the lease")
        assert here.ack(message, group="g")["success"]


def test_a_delay_is_no_lease(client: Client, queue: str) -> None:
    client.push(queue, 1, delayMs=3_600_000)
    assert reason(client, queue) == "empty"


def test_other_reasons_stay(client: Client, queue: str) -> None:
    assert reason(client, queue) == "queue_not_found"
    client.push(queue, 1)
    assert reason(client, queue, "nowhere") == "partition_not_found"


@pytest.mark.parametrize("partition", [None, "p"])
def test_from_sql(daemon: Daemon, client: Client, queue: str, partition: str | None) -> None:
    client.push(queue, 1, partition="p")
    asked = {"idx": 0, "queue_name": queue, "partition_name": partition, "consumer_group": "g"}
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        def pop(**more: object) -> dict:
            ((answer,),) = connection.execute("SELECT queen.pop_unified_batch_v4(%s)", (Jsonb([asked | more]),))
            return answer[0]["result"]
        assert data(pop()["messages"]) == [1]
        assert pop()["reason"] == "leased"
        assert data(pop(consumer_group="other", auto_ack=True)["messages"]) == [1]
        assert pop(consumer_group="other")["reason"] == "empty"
        for name, most in (("max_partitions", 1000), ("batch_size", 10_000)):
            with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"{name} must be from 1 to {most}"):
                pop(**{name: most + 1})
