"""Messages that are cleared, expired or deleted while a consumer holds them: the next ones come at once."""
from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from urllib.parse import quote

import psycopg
import pytest
from psycopg.types.json import Jsonb
from support.client import Client, ack_of, data
from support.daemon import Daemon
from support.faults import Faults
from support.streams import Stream
from support.wait import until


@pytest.mark.parametrize("acked", [True, False])
@pytest.mark.parametrize("how", ["clear", "delete"])
def test_what_is_gone_keeps_no_partition_closed(client: Client, queue: str, how: str, acked: bool) -> None:
    client.push(queue, "old")
    (message,) = client.pop(queue, leaseSeconds=300)
    target = (f"/api/v1/queues/{queue}/clear" if how == "clear"
              else f"/api/v1/messages/{message['partitionId']}/{message['transactionId']}")
    assert client.request("DELETE", target.replace("[", "%5B").replace("]", "%5D")).status == 200
    client.push(queue, "new")
    if acked:
        told = client.ack(message)
        assert (told["success"], told["error"]) == (True, None)
    (new,) = client.pop(queue, wait=True, timeout=60_000)
    assert (new["data"], new["deliveryAttempt"]) == ("new", 1)
    told = client.ack(message)
    assert (told["success"], told["error"]) == (True, None), "it is gone, whoever holds the partition now"
    assert client.ack(new)["leaseReleased"] is True


def test_what_expired_keeps_no_partition_closed(start_daemon, queue: str) -> None:
    with start_daemon(RETENTION_INTERVAL=200).client() as client:
        client.configure(queue, retentionEnabled=True, retentionSeconds=1)
        client.push(queue, "old")
        (message,) = client.pop(queue, leaseSeconds=300)
        until(lambda: client.get(f"/api/v1/messages/{message['partitionId']}/{message['transactionId']}").status == 404,
              "retention removes it")
        client.push(queue, "new")
        assert data(client.pop(queue, wait=True, timeout=60_000)) == ["new"]
        assert client.ack(message)["success"] is True


def test_a_clear_whose_statement_failed_is_undone(start_daemon, queue: str) -> None:
    """Otherwise a second one removes nothing more, and finds no lease to end."""
    daemon = start_daemon()
    with closing(Faults(daemon.conninfo, "leases_moot")) as faults, daemon.client() as client:
        client.push(queue, "old")
        client.pop(queue, leaseSeconds=300)
        faults.plant("leases_moot", "57P01", 1)
        target = f"/api/v1/queues/{quote(queue, safe='')}/clear"
        assert client.request("DELETE", target).status == 503
        assert client.request("DELETE", target).json["count"] == 1
        client.push(queue, "new")
        assert data(client.pop(queue, wait=True, timeout=60_000)) == ["new"]


def test_a_pass_of_retention_that_failed_keeps_no_partition_closed(start_daemon, queue: str) -> None:
    daemon = start_daemon(RETENTION_INTERVAL=200)
    with closing(Faults(daemon.conninfo, "leases_moot")) as faults, daemon.client() as client:
        client.configure(queue, retentionEnabled=True, retentionSeconds=1)
        faults.plant("leases_moot", "57P01", 1)
        client.push(queue, "old")
        client.pop(queue, leaseSeconds=300)
        until(lambda: faults.met("leases_moot") > 0, "retention removes it, and fails")
        client.configure(queue, retentionEnabled=False)
        client.push(queue, "new")
        assert data(client.pop(queue, wait=True, timeout=60_000)) == ["new"]


@pytest.mark.parametrize("what", ["", "?partition=held"])
def test_a_clear_waits_for_whoever_holds_a_partition(daemon: Daemon, client: Client, queue: str, what: str) -> None:
    """So does each that deletes, erases or moves a message of it, and retention."""
    client.push(queue, 1, 2, partition="held")
    with (psycopg.connect(daemon.conninfo) as other, psycopg.connect(daemon.conninfo, autocommit=True) as watcher,
          ThreadPoolExecutor(1) as pool, daemon.client() as second):
        other.execute("SELECT queend.partition_hold(p.id) FROM queend.partitions p JOIN queend.queues q"
                      " ON q.id = p.queue_id WHERE q.name = %s AND p.name = 'held'", (queue,))
        cleared = pool.submit(second.request, "DELETE", f"/api/v1/queues/{quote(queue, safe='')}/clear{what}")
        until(lambda: cleared.done() or watcher.execute(
            "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND %s = ANY (pg_blocking_pids(pid))",
            (other.info.backend_pid,)).fetchall(), "the clear waits")
        other.commit()
        assert cleared.result().json["count"] == 2
    assert data(client.pop(queue, "held")) == []


def removed(client: Client, queue: str) -> dict:
    """A message in hand whose queue was deleted."""
    client.push(queue, "old")
    (message,) = client.pop(queue, leaseSeconds=300)
    client.delete(queue)
    return message


@pytest.mark.parametrize("status", ["completed", "failed", "dlq", "retry"])
def test_of_a_queue_that_was_deleted(daemon: Daemon, client: Client, queue: str, status: str) -> None:
    """In every form: its messages are gone, which counts as done."""
    message = removed(client, queue)
    item = ack_of(message, status)
    told = client.ack(message, status)
    assert (told["success"], told["error"], told["dlq"], told["noop"]) == (True, None, False, True)
    assert client.ack_batch([item, ack_of(message)])[0]["success"] is True
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        ((told,),) = connection.execute("SELECT queen.ack_messages_v2(%s)", (Jsonb([item]),)).fetchall()
        assert (told[0]["success"], told[0]["error"], told[0]["dlq"]) == (True, None, False)


def test_a_transaction_with_a_message_of_a_queue_that_was_deleted(daemon: Daemon, client: Client, queue: str) -> None:
    message, next_ = removed(client, queue), f"{queue}-next"
    ack = {"type": "ack", **ack_of(message)}
    assert client.transaction(ack)["success"] is True
    told = client.transaction({"type": "push", "items": [{"queue": next_, "payload": 1}]}, ack)
    assert [told["success"], *(one["success"] for one in told["results"])] == [True] * 3
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        asked = Jsonb([ack, {"type": "push", "items": [{"queue": next_, "payload": 2}]}])
        ((told,),) = connection.execute("SELECT queen.execute_transaction_v2(%s)", (asked,)).fetchall()
    assert [told["success"], *(one["success"] for one in told["results"])] == [True] * 3
    assert data(client.pop(next_, batch=9)) == [1, 2]


@pytest.mark.parametrize("id", [str(uuid.UUID(int=7)), "1999999999"])
def test_an_id_that_was_never_given_is_not_found(client: Client, queue: str, id: str) -> None:
    message = removed(client, queue) | {"partitionId": id}
    told = client.ack(message)
    assert (told["success"], told["error"]) == (False, "Message not found")
    assert client.transaction({"type": "ack", **ack_of(message)})["success"] is False


def test_a_cycle_whose_message_retention_removed(start_daemon, queue: str) -> None:
    """Its lease goes on, for others that it has: its state is stored, and its message is done."""
    with start_daemon(RETENTION_INTERVAL=200).client() as client:
        client.configure(queue, retentionEnabled=True, retentionSeconds=1)
        stream = Stream(client, "s", queue)
        client.push(queue, "old")
        (old,) = stream.pop(batch=1, leaseSeconds=300)
        path = f"/api/v1/messages/{old['partitionId']}/{old['transactionId']}"
        until(lambda: client.get(path).status == 404, "retention removes it")
        told = stream.cycle([old], {"key": 1})
        if told["success"]:
            assert stream.state(old["partitionId"]) == {"key": 1}
        else:
            assert told["error"].startswith("Invalid or expired lease"), "not that it was not found"
