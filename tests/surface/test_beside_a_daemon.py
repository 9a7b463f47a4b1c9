"""SQL callers and HTTP clients on the same queues: each finds what the other did."""
from __future__ import annotations

import json

from support.client import Client, data, pop_target
from support.wait import until


def call(sql, name: str, *values: object):
    return sql.value(f"SELECT queen.{name}({', '.join(['%s'] * len(values))})",
                     *(json.dumps(v) if isinstance(v, (dict, list)) else v for v in values))


def pop(sql, queue: str, **more: object) -> list[dict]:
    return call(sql, "pop_unified_batch_v4", [{"queue_name": queue, **more}])[0]["result"]["messages"]


def ack(sql, message: dict, **more: object) -> dict:
    keys = ("transactionId", "partitionId", "consumerGroup", "leaseId")
    return call(sql, "ack_messages_v2",
                [{**{key: message[key] for key in keys if key in message}, "status": "completed", **more}])[0]


def test_a_direct_push_wakes_who_waits(client: Client, daemon, beside, queue) -> None:
    for round_ in range(2):      # a queue that is new, and one that is known
        with daemon.client() as waiting:
            waiting.send("GET", pop_target(queue, wait=True, timeout=30000, autoAck=True))
            until(lambda: client.parked() > 0, "the pop waits")
            call(beside, "push_messages_v3", [{"queue": queue, "payload": round_, "partition": "p"}])
            assert data(waiting.receive().json["messages"]) == [round_]


def test_what_http_stored_is_popped_and_acknowledged_by_sql(client: Client, beside, queue) -> None:
    client.push_items([{"queue": queue, "payload": {"n": 1}, "transactionId": "a",
                        "traceId": "0192f0c0-0000-7000-8000-0000000000aa"}, {"queue": queue, "payload": "ä"}])
    first, second = pop(beside, queue)
    assert (first["data"], second["data"], first["transactionId"],
            first["traceId"]) == ({"n": 1}, "ä", "a", "0192f0c0-0000-7000-8000-0000000000aa")
    assert (client.pop(queue) == []
            and client.ack(first)["success"] is True), "the lease holds there too, and its holder is known"
    assert client.ack(second)["leaseReleased"] is True and pop(beside, queue) == []


def test_what_sql_stored_is_popped_by_http_and_acknowledged_by_sql(client: Client, beside, queue) -> None:
    made = call(beside, "push_messages_v3",
                [{"queue": queue, "payload": number, "transactionId": str(number)} for number in range(3)])["items"]
    messages = until(lambda: client.pop(queue, "Default", batch=2), "the daemon finds them")
    assert data(messages) == [0, 1] and [m["id"] for m in messages] == [m["message_id"] for m in made[:2]]
    assert client.push(queue, "again", transactionId="2")[0]["status"] == "duplicate"
    for message in messages:
        assert ack(beside, message)["success"] is True
    assert data(until(lambda: client.pop(queue, "Default"), "the lease is free")) == [2]


def test_a_lease_that_sql_gave_back_is_found_by_who_waits(client: Client, daemon, beside, queue) -> None:
    client.push(queue, 1, 2)
    (message,) = pop(beside, queue, batch_size=1)
    with daemon.client() as waiting:
        waiting.send("GET", pop_target(queue, wait=True, timeout=30000, autoAck=True))
        until(lambda: client.parked() > 0, "the pop waits")
        assert ack(beside, message)["leaseReleased"] is True
        assert data(waiting.receive().json["messages"]) == [2]


def test_queues_made_changed_and_deleted_by_sql(client: Client, beside, queue) -> None:
    client.push(queue, 1)
    assert data(client.pop(queue)) == [1]
    assert beside.rows("DELETE FROM queen.queues WHERE name = %s RETURNING name", queue) == [(queue,)]
    assert client.pop(queue) == [] and client.push(queue, 2, transactionId="t")[0]["status"] == "queued"
    assert data(client.pop(queue)) == [2], "another queue of the same name"
    call(beside, "configure_queue_v1", queue, {"leaseTime": 5})
    assert client.show(queue).json["name"] == queue
    assert beside.value("SELECT lease_time FROM queen.queues WHERE name = %s", queue) == 5


def test_the_rows_of_large_messages(client: Client, beside, queue) -> None:
    client.push(queue, "x" * 5000)
    assert call(beside, "pop_unified_batch_v4", [{"queue_name": queue}])[0]["result"]["error"] == "unreadable"
    assert beside.rows("SELECT payload, payload_state FROM queen.messages WHERE queue = %s",
                       queue) == [(None, "packed")]
    assert data(client.pop(queue)) == ["x" * 5000], "nothing was lost to the attempt"
