"""The functions of the schema queen, from SQL alone: the reference server's names, JSON in and out."""
from __future__ import annotations

import json
import uuid
from datetime import datetime

import psycopg
import pytest
from sql.records import batch, framed, id7, packed


def call(sql, name: str, *values: object):
    """One call; dictionaries and lists go as JSON."""
    arguments = [json.dumps(value) if isinstance(value, (dict, list)) else value for value in values]
    return sql.value(f"SELECT queen.{name}({', '.join(['%s'] * len(values))})", *arguments)


def push(sql, queue: str, *payloads: object, **more: object) -> list[dict]:
    return call(sql, "push_messages_v3", [{"queue": queue, "payload": one, **more} for one in payloads])["items"]


def pop(sql, queue: str, partition: str = "", **more: object) -> dict:
    (answer,) = call(sql, "pop_unified_batch_v4",
                     [{"idx": 7, "queue_name": queue, "partition_name": partition, **more}])
    assert answer["idx"] == 7
    return answer["result"]


def data(result: dict) -> list:
    return [message["data"] for message in result["messages"]]


def ack(sql, message: dict, status: str = "completed", **more: object) -> dict:
    (answer,) = call(sql, "ack_messages_v2", [{"transactionId": message["transactionId"],
                                               "partitionId": message["partitionId"], "status": status,
                                               "consumerGroup": message["consumerGroup"],
                                               "leaseId": message["leaseId"], **more}])
    return answer


def test_push(sql, queue) -> None:
    trace, known = str(uuid.uuid4()), str(uuid.uuid4())
    answer = call(sql, "push_messages_v3", [
        {"queue": queue, "payload": {"n": 1}, "transactionId": "a", "producerSub": "me"},
        {"queue": queue, "transactionId": known, "traceId": trace, "index": 40},
        {"queue": queue, "partition": "p", "payload": None}, {"queue": queue, "payload": 2, "transactionId": "a"}])
    first, second, third, again = answer["items"]
    assert [one["status"] for one in answer["items"]] == ["queued", "queued", "queued", "duplicate"]
    assert [one["index"] for one in answer["items"]] == [0, 40, 2, 3] and second["trace_id"] == trace
    assert second["transaction_id"] == known
    assert again["message_id"] == first["message_id"]
    assert again["partition_id"] == first["partition_id"] != third["partition_id"]
    assert third["transaction_id"][14] == "7"
    assert {one["partition_id"]: one["last_message_id"] for one in answer["partition_updates"]} == {
        second["partition_id"]: second["message_id"], third["partition_id"]: third["message_id"]}
    rows = sql.rows("SELECT * FROM queen.messages WHERE queue = %s AND partition = 'Default'", queue)
    assert [(row.transaction_id, row.payload, row.producer_sub, str(row.trace_id))
            for row in rows] == [("a", {"n": 1}, "me", "None"), (known, {}, None, trace)]
    assert [str(row.id) for row in rows] == [first["message_id"], second["message_id"]]
    assert str(rows[0].partition_id) == first["partition_id"]
    assert call(sql, "push_messages_v2",
                [{"queue": queue, "payload": 3, "transactionId": "a"}])[0]["status"] == "duplicate"
    assert call(sql, "push_messages_v3", [])["items"] == []


@pytest.mark.parametrize("item, code", [({"payload": 1}, "22023"), ({"queue": ""}, "22023"),
                                        ({"queue": "q", "partition": "x" * 256}, "22023"),
                                        ({"queue": "q", "transactionId": "x" * 256}, "22023"),
                                        ({"queue": "q", "traceId": "no uuid"}, "22P02")])
def test_a_bad_item_refuses_the_call(sql, queue, item, code) -> None:
    with pytest.raises(psycopg.Error) as refused:
        call(sql, "push_messages_v3", [{"queue": queue, "payload": 1}, item])
    assert refused.value.sqlstate == code
    assert not sql.rows("SELECT 1 FROM queen.queues WHERE name = %s", queue)


@pytest.mark.parametrize("member", ["ttl", "priority", "deliverAt"])
def test_members_that_messages_do_not_have(sql, queue, member) -> None:
    item = {"queue": queue, "payload": 1, member: 5}
    for function, asked in (("push_messages_v3", [item | {member: None}, item]),
                            ("execute_transaction_v2", [{"type": "push", "items": [item]}])):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"{member} is not supported in an item"):
            call(sql, function, json.dumps(asked))


def test_many_items_of_all_kinds(sql, queue) -> None:
    """More than a row of the log holds, big ones among them, repeats across rows."""
    payloads = ["x" * (70_000 if n in (5, 1800) else 10 + n % 7) for n in range(2300)]
    ids = [str(n % 2200) if n % 2 else str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{queue}{n % 2200}")) for n in range(2300)]
    items = [{"queue": queue, "partition": f"p{n % 2200 % 3}", "payload": payloads[n], "transactionId": ids[n]}
             for n in range(2300)]
    done = call(sql, "push_messages_v3", items)["items"]
    assert [one["status"] for one in done] == ["queued"] * 2200 + ["duplicate"] * 100
    assert [one["message_id"] for one in done[2200:]] == [one["message_id"] for one in done[:100]]
    for part in range(3):
        got = sql.rows("SELECT payload, transaction_id FROM queen.messages WHERE queue = %s AND partition = %s"
                       " ORDER BY message_offset", queue, f"p{part}")
        assert [(row.payload, row.transaction_id)
                for row in got] == [(payloads[n], ids[n]) for n in range(2200) if n % 3 == part]
    again = call(sql, "push_messages_v3", items)["items"]
    assert {one["status"] for one in again} == {"duplicate"}
    assert [one["message_id"] for one in again] == [one["message_id"] for one in done]


def test_pop_and_acknowledge(sql, queue) -> None:
    push(sql, queue, 1, 2, 3)
    result = pop(sql, queue, batch_size=2, worker_id="worker-1")
    assert result["success"] and data(result) == [1, 2] and result["leaseId"] == "worker-1"
    assert result["partition"] == "Default" and result["partitionsClaimed"] == 1
    first, second = result["messages"]
    assert first["partitionId"] == result["partitionId"] and first["leaseId"] == "worker-1"
    held = pop(sql, queue, "Default")
    assert (held["success"], held["error"], held["messages"]) == (False, "lease_held", [])
    assert pop(sql, queue)["error"] == "no_available_partition" and not call(sql, "has_pending_messages", queue)
    assert ack(sql, first, leaseId="another")["error"] == "Invalid or expired lease"
    assert ack(sql, {**first, "transactionId": "none"})["error"] == "Message not found"
    odd = ack(sql, first, "odd")
    assert odd["success"] is False and odd["error"] == "status must be completed, failed, retry or dlq"
    assert ack(sql, first)["leaseReleased"] is False
    done = ack(sql, second)
    assert done["success"] and done["leaseReleased"]
    assert (done["queueName"], done["partitionName"]) == (queue, "Default")
    assert call(sql, "has_pending_messages", queue) and call(sql, "has_pending_messages", queue, "Default")
    assert not call(sql, "has_pending_messages", queue, "none")
    assert data(pop(sql, queue, "Default", auto_ack=True)) == [3] and pop(sql, queue, "Default")["messages"] == []


def test_the_extras_of_a_row_are_taken_apart_once(sql, queue) -> None:
    """A pop of many messages whose ids are texts looks at each row of the log once, whatever messages say of their
    origin."""
    push(sql, queue, *range(300))
    items = [{"queue": queue, "payload": n, "transactionId": f"order-{n}"} for n in range(300)]
    call(sql, "push_messages_v3", items)
    with sql.transaction():
        sql.rows("SET LOCAL track_functions = 'all'")
        assert len(data(pop(sql, queue, batch_size=1000))) == 600
        sql.rows("SELECT queen.pop_sm_fetch((SELECT id FROM queen.partitions WHERE queue = %s), NULL, NULL, 1000)",
                 queue)
        assert len(sql.rows("SELECT * FROM queen.messages WHERE queue = %s AND partition = 'Default'", queue)) == 600
        assert len(call(sql, "list_messages_v1", {"queue": queue, "limit": 1000})["messages"]) == 600
        calls = dict(sql.rows("SELECT funcname, calls FROM pg_stat_xact_user_functions"))
    rows = 2
    assert calls["meta_records"] <= 4 * rows and calls["meta_piece"] <= 4 * 300


def test_failed_ones_come_again_and_end_among_the_dead(sql, queue) -> None:
    call(sql, "configure_queue_v1", queue, {"retryLimit": 1})
    push(sql, queue, "x", transactionId="t")
    assert ack(sql, pop(sql, queue)["messages"][0], "failed")["dlq"] is False
    assert ack(sql, pop(sql, queue)["messages"][0], "retry")["leaseReleased"] is True
    assert ack(sql, pop(sql, queue)["messages"][0], "failed", error="broken")["dlq"] is True
    (letter,) = sql.rows("SELECT * FROM queen.dead_letter_queue WHERE queue = %s", queue)
    assert (letter.payload, letter.error_message, letter.consumer_group,
            letter.transaction_id) == ("x", "broken", "__QUEUE_MODE__", "t")
    (shown,) = call(sql, "get_dlq_messages_v1", {"queue": queue})["messages"]
    assert (shown["data"], shown["errorMessage"], shown["id"]) == ("x", "broken", str(letter.message_id))
    assert call(sql, "get_dlq_messages_v1", {"queue": f"{queue}-none"})["messages"] == []
    assert len(sql.rows("DELETE FROM queen.dead_letter_queue WHERE queue = %s RETURNING id", queue)) == 1
    assert not sql.rows("SELECT 1 FROM queen.dead_letter_queue WHERE queue = %s", queue)


def test_groups_subscriptions_and_many_partitions(sql, queue) -> None:
    for part in range(5):
        push(sql, queue, f"old{part}", partition=f"p{part}")
    assert pop(sql, queue, consumer_group="late", sub_mode="new")["messages"] == []
    for part in range(5):
        push(sql, queue, f"new{part}", partition=f"p{part}")
    result = pop(sql, queue, consumer_group="late", auto_ack=True, max_partitions=10, batch_size=100)
    assert sorted(data(result)) == [f"new{part}" for part in range(5)] and result["partitionsClaimed"] == 5
    assert result["leaseId"] == ""
    some = pop(sql, queue, consumer_group="all", max_partitions=3, batch_size=100)
    assert some["partitionsClaimed"] == 3 and len(some["messages"]) == 6
    assert len(pop(sql, queue, consumer_group="all", max_partitions=10, batch_size=3)["messages"]) == 3
    assert pop(sql, f"{queue}-none")["error"] == "no_available_partition"
    assert pop(sql, queue, "none")["error"] == "partition_not_found"
    names = sql.rows("SELECT consumer_group, subscription_mode FROM queen.consumer_groups_metadata"
                     " WHERE queue_name = %s ORDER BY 1", queue)
    assert names == [("all", "all"), ("late", "new")]


def test_every_partition_is_visited(sql, queue) -> None:
    for part in range(20):
        push(sql, queue, *range(30), partition=f"p{part}")
    seen = set()
    for _ in range(400):
        (message,) = pop(sql, queue, batch_size=1, auto_ack=True)["messages"]
        seen.add(message["partition"])
        if len(seen) == 20:
            break
    assert len(seen) == 20


@pytest.mark.parametrize("name", ["pop_unified_batch", "pop_unified_batch_v2", "pop_unified_batch_v3",
                                  "pop_specific_batch"])
def test_older_names_of_pop(sql, queue, name) -> None:
    push(sql, queue, 1)
    (answer,) = call(sql, name, [{"queue_name": queue, "partition_name": "Default"}])
    assert answer["idx"] == 0 and data(answer["result"]) == [1]


def test_windows_and_delays(sql, queue) -> None:
    call(sql, "configure_queue_v1", queue, {"windowBuffer": 3600})
    push(sql, queue, 1)
    assert pop(sql, queue, "Default")["windowBufferActive"] is True and pop(sql, queue)["windowBufferActive"] is True
    call(sql, "configure_queue_v1", queue, {"windowBuffer": None, "delayedProcessing": 3600})
    assert pop(sql, queue)["messages"] == []
    call(sql, "configure_queue_v1", queue, {"mode": "replace"})
    assert data(pop(sql, queue)) == [1]


@pytest.mark.parametrize("auto", [True, False])
def test_what_sql_cannot_read_is_neither_lost_nor_in_the_way(sql, queue, auto) -> None:
    """Rows the daemon compressed: a delivery ends before them, other partitions go on, and the view says why."""
    push(sql, queue, 1, 2, partition="mixed")
    part = sql.value("SELECT p.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s",
                     queue)
    row = batch(part, [id7()], [b'"big"'])
    for body in (packed(b"\x05\x22big\x22"), framed(b"")):
        sql.rows("SELECT * FROM queend.push(0, %s::int[], %s::int[], %s::int[], %s::int[], %s::smallint[], %s::uuid[],"
                 " %s::uuid[], %b::bytea[], %b::bytea[], ARRAY[NULL::bytea])",
                 [part & 63], [part], [0], [1], [0], [row.lo], [row.hi], [id7()], [body])
    push(sql, queue, 5, partition="mixed")
    push(sql, queue, 6, partition="plain")
    result = pop(sql, queue, "mixed", auto_ack=auto)
    assert data(result) == [1, 2]
    if not auto:
        assert [ack(sql, message)["leaseReleased"] for message in result["messages"]] == [False, True]
    assert pop(sql, queue, "mixed", auto_ack=auto)["error"] == "unreadable"
    assert pop(sql, queue, "mixed", auto_ack=auto)["error"] == "unreadable"
    assert data(pop(sql, queue, auto_ack=True)) == [6] and pop(sql, queue)["error"] == "unreadable"
    rows = sql.rows("SELECT payload, payload_state FROM queen.messages WHERE queue = %s AND partition = 'mixed'"
                    " ORDER BY message_offset", queue)
    assert rows == [(1, "plain"), (2, "plain"), (None, "packed"), (None, "packed"), (5, "plain")]


def test_json_that_jsonb_cannot_hold(sql, queue) -> None:
    sql.rows("SELECT queen.push(%s, 'p', %s::json)", queue, '{"zero": "\\u0000"}')
    sql.rows("SELECT * FROM queend.relay()")
    (row,) = sql.rows("SELECT payload, payload_text, payload_state FROM queen.messages WHERE queue = %s", queue)
    assert row == (None, '{"zero": "\\u0000"}', "plain") and pop(sql, queue)["error"] == "unreadable"


def test_leases_are_extended(sql, queue) -> None:
    push(sql, queue, 1)
    lease = pop(sql, queue, lease_seconds=30)["leaseId"]
    until = sql.value("SELECT lease_expires_at FROM queen.partition_consumers WHERE queue = %s", queue)
    good, bad = call(sql, "renew_lease_v2",
                     [{"index": 3, "leaseId": lease, "extendSeconds": 3000}, {"leaseId": "none"}])
    assert good["success"] and good["index"] == 3 and datetime.fromisoformat(good["expiresAt"]) > until
    assert (bad["success"], bad["error"]) == (False, "Lease not found")


def test_step_by_step(sql, queue) -> None:
    push(sql, queue, 1, 2, 3)
    (found,) = sql.rows("SELECT * FROM queen.pop_sm_resolve(%s, 'g')", queue)
    (lease,) = sql.rows("SELECT * FROM queen.pop_sm_lease(%s, %s, 'g', 60, 'me', 2)", queue, found.partition_name)
    assert lease.partition_id == found.partition_id and lease.cursor_ts is None
    assert not sql.rows("SELECT * FROM queen.pop_sm_lease(%s, %s, 'g', 60, 'you', 2)", queue, found.partition_name)
    messages = sql.value("SELECT queen.pop_sm_fetch(%s, %s, %s, 2)", lease.partition_id,
                         lease.cursor_ts, lease.cursor_id)
    assert [one["data"] for one in messages] == [1, 2]
    last = {**messages[1], "partitionId": str(lease.partition_id), "consumerGroup": "g", "leaseId": "me"}
    assert ack(sql, last, cumulative=True)["leaseReleased"] is True
    (lease,) = sql.rows("SELECT * FROM queen.pop_sm_lease(%s, %s, 'g', 60, 'me', 2)", queue, found.partition_name)
    assert str(lease.cursor_id) == messages[1]["id"] and lease.cursor_ts is not None
    assert [one["data"] for one in sql.value("SELECT queen.pop_sm_fetch(%s, %s, %s, 2)", lease.partition_id,
                                             lease.cursor_ts, lease.cursor_id)] == [3]
    assert not sql.value("SELECT queen.pop_sm_release(%s, 'g', 'you')", lease.partition_id)
    assert sql.value("SELECT queen.pop_sm_release(%s, 'g', 'me')", lease.partition_id)
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        sql.rows("SELECT * FROM queen.pop_sm_lease(%s, 'Default', 'g', 60, '', 2)", queue)


def transaction(sql, *operations: dict, **more: object) -> dict:
    return call(sql, "execute_transaction_v2", {"operations": list(operations), **more})


def test_transactions(sql, queue) -> None:
    push(sql, queue, 1, 2)
    first, second = pop(sql, queue, worker_id="w")["messages"]
    out = {"type": "push", "items": [{"queue": f"{queue}-out", "payload": "a"},
                                     {"queue": f"{queue}-out", "partition": "p", "payload": "b", "transactionId": "t"}]}
    one = {"type": "ack", "transactionId": first["transactionId"], "partitionId": first["partitionId"]}
    for operations, more, error, shown in [
        ([one, out, {**one, "transactionId": "none"}], {}, "ACK operation failed: Message not found",
         [False] * 4),
        ([one, out, {**one, "partitionId": "none"}], {}, "ACK operation failed: Message not found",
         [False] * 4),
        ([one, out, {**one, "leaseId": "none"}], {}, "ACK operation failed: Invalid or expired lease",
         [False] * 4),
        ([one, out, {**one, "status": "retry"}], {}, "ACK operation failed: Unknown error", [False] * 4),
        ([out, {"type": "odd"}], {}, "Unknown operation type: odd", [False] * 3),
        ([out, out], {}, "duplicate key value violates unique constraint \"messages_partition_transaction_unique\"",
         [False] * 3),
        ([one, out], {"requiredLeases": ["none"]}, "Invalid or expired lease", []),
    ]:
        answer = transaction(sql, *operations, **more)
        assert (answer["success"],
                answer["error"]) == (False, error) and [r["success"] for r in answer["results"]] == shown, answer
        assert not sql.rows("SELECT 1 FROM queen.queues WHERE name = %s", f"{queue}-out"), "not even the queue"
    answer = transaction(sql, one, out, {**one, "transactionId": second["transactionId"], "status": "failed",
                                         "error": "broken"}, requiredLeases=["w"])
    assert answer["success"]
    assert [(r["index"], r["type"]) for r in answer["results"]] == [(0, "ack"), (1, "push"), (2, "push"), (3, "ack")]
    assert answer["results"][3]["dlq"] is True and answer["results"][2]["transactionId"] == "t"
    assert answer["results"][1]["transactionId"]
    stored = {str(row.id): row.payload
              for row in sql.rows("SELECT id, payload FROM queen.messages WHERE queue = %s", f"{queue}-out")}
    assert stored == {answer["results"][1]["messageId"]: "a", answer["results"][2]["messageId"]: "b"}
    assert pop(sql, queue)["messages"] == []
    assert sql.value("SELECT error_message FROM queen.dead_letter_queue WHERE queue = %s", queue) == "broken"
    again = transaction(sql, out)
    assert again["success"] is False and "messages_partition_transaction_unique" in again["error"]
    assert [r["index"] for r in again["results"]] == [0]
    assert call(sql, "execute_transaction_v2",
                [{"type": "push", "queue": f"{queue}-out", "data": 3}])["success"] is True
    assert transaction(sql)["success"] is True
    push(sql, queue, 3)
    (third,) = pop(sql, queue)["messages"]
    assert transaction(sql, {"type": "ack", "transactionId": third["transactionId"],
                             "partitionId": third["partitionId"], "leaseId": third["leaseId"]})["success"] is True
    assert pop(sql, queue)["messages"] == []


def test_queues(sql, queue) -> None:
    answer = call(sql, "configure_queue_v1", queue,
                  {"namespace": "n", "task": "t", "leaseTime": 7, "encryptionEnabled": True})
    assert answer["configured"] and answer["options"]["leaseTime"] == 7 and answer["namespace"] == "n"
    (row,) = sql.rows("SELECT * FROM queen.queues WHERE name = %s", queue)
    assert (row.lease_time, row.namespace, row.task, row.retry_limit, row.encryption_enabled,
            str(row.id)) == (7, "n", "t", 3, True, answer["queueId"])
    assert sql.value("SELECT id::text FROM queen.partitions WHERE queue = %s", queue) == answer["partitionId"]
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="is encrypted"):
        push(sql, queue, 1)
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="is encrypted"):
        transaction(sql, {"type": "push", "queue": queue, "data": 3})
    assert sql.rows("DELETE FROM queen.queues WHERE name = %s RETURNING name", queue) == [(queue,)]
    assert not sql.rows("SELECT 1 FROM queen.queues WHERE name = %s", queue)
    assert not sql.rows("SELECT 1 FROM queen.partitions WHERE queue = %s", queue)
    assert call(sql, "delete_queue_v1", queue) == {"deleted": True, "queue": queue, "existed": False}
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        call(sql, "configure_queue_v1", "")


def test_groups_are_shown_moved_and_deleted(sql, queue) -> None:
    group = f"g-{queue}"
    push(sql, queue, 1, 2, 3)
    ack(sql, pop(sql, queue, consumer_group=group, batch_size=1)["messages"][0])
    (shown,) = [one for one in call(sql, "get_consumer_groups_v4") if one["name"] == group]
    assert (shown["totalLag"], shown["members"], shown["state"], shown["topics"]) == (2, 1, "Stable", [queue])
    (place,) = call(sql, "get_consumer_group_details_v1", group)[queue]["partitions"]
    assert (place["offsetLag"], place["offset"], place["head"], place["leaseActive"]) == (2, 1, 3, False)
    assert [one["offset_lag"] for one in call(sql, "get_lagging_partitions_v1", -1)
            if one["consumer_group"] == group] == [2]
    (row,) = sql.rows("SELECT * FROM queen.partition_consumers WHERE consumer_group = %s", group)
    assert (row.pending_estimate, row.total_messages_consumed, row.worker_id, row.queue) == (2, 1, None, queue)
    assert row.last_consumed_id == sql.value("SELECT id FROM queen.messages WHERE queue = %s AND message_offset = 0",
                                             queue)
    assert sql.value("SELECT queen.seek_consumer_group_v1(%s, %s, seek_to_end => true)", group,
                     queue)["partitionsUpdated"] == 1
    assert pop(sql, queue, consumer_group=group)["messages"] == []
    assert sql.value("SELECT queen.seek_consumer_group_v1(%s, %s, '2020-01-01')", group,
                     queue)["partitionsUpdated"] == 1
    assert data(pop(sql, queue, consumer_group=group)) == [1, 2, 3]
    assert call(sql, "seek_consumer_group_v1", group, queue)["success"] is False
    for updated in (True, False):      # the second time it stands there
        assert call(sql, "seek_partition_v1", group, queue, "Default")["updated"] is updated
    assert call(sql, "seek_partition_v1", group, queue, "none")["error"] == "Partition not found"
    assert sql.value("SELECT queen.update_consumer_group_subscription_v1(%s, now())", group)["rowsUpdated"] == 1
    assert call(sql, "delete_consumer_group_for_queue_v1", group, queue)["deletedPartitions"] == 1
    assert call(sql, "delete_consumer_group_v1", group)["deletedPartitions"] == 0
    assert data(pop(sql, queue, consumer_group=group)) == [1, 2, 3]


def test_messages_and_traces(sql, queue) -> None:
    made = push(sql, queue, {"n": 1}, transactionId="t")[0]
    where = (made["partition_id"], "t")
    push(sql, queue, 2)
    assert [one["transactionId"] for one in call(sql, "list_messages_v1", {"queue": queue})["messages"]][-1] == "t"
    shown = call(sql, "get_message_v1", *where)
    assert (shown["payload"], shown["queue"], shown["id"]) == ({"n": 1}, queue, made["message_id"])
    assert call(sql, "get_message_v1", where[0],
                "none") == call(sql, "get_message_v1", "none", "t") == {"error": "Message not found"}
    noted = call(sql, "record_trace_v1",
                 {"transactionId": "t", "partitionId": where[0], "data": {"x": 1}, "traceNames": [queue, "other"]})
    assert noted["success"]
    assert call(sql, "record_trace_v1", {"transactionId": "none", "partitionId": where[0]})["success"] is False
    (trace,) = call(sql, "get_message_traces_v1", *where)["traces"]
    assert trace["id"] == noted["traceId"] and trace["data"] == {"x": 1} and trace["trace_names"] == [queue, "other"]
    assert [one["id"] for one in call(sql, "get_traces_by_name_v1", queue)["traces"]] == [trace["id"]]
    assert queue in [one["trace_name"] for one in call(sql, "get_available_trace_names_v1")["trace_names"]]
    (row,) = sql.rows("SELECT t.message_id, n.trace_name FROM queen.message_traces t JOIN queen.message_trace_names n"
                      " ON n.trace_id = t.id WHERE n.trace_name = %s", queue)
    assert str(row.message_id) == made["message_id"]
    assert sql.rows("SELECT last_message_id FROM queen.partition_lookup WHERE queue_name = %s", queue)
    assert call(sql, "delete_message_v1", *where)["success"] is True
    assert call(sql, "delete_message_v1", *where)["success"] is False
    assert len(sql.rows("DELETE FROM queen.messages WHERE queue = %s RETURNING transaction_id", queue)) == 1
    assert not sql.rows("SELECT 1 FROM queen.messages WHERE queue = %s", queue) and pop(sql, queue)["messages"] == []
    assert sql.rows("SELECT * FROM queen.retention_history") == []


def test_an_update_of_watermarks_changes_nothing_and_says_so(sql, queue) -> None:
    push(sql, queue, 1)
    pop(sql, queue, consumer_group="g", subscription_mode="all")
    said: list[str] = []
    sql.connection.add_notice_handler(lambda notice: said.append(notice.message_primary))
    assert sql.rows("UPDATE queen.consumer_watermarks SET last_empty_scan_at = now() WHERE queue_name = %s"
                    " RETURNING consumer_group", queue) == [("g",)]
    assert len(said) == 1 and "no effect" in said[0]
    assert sql.value("SELECT last_empty_scan_at = 'epoch' FROM queen.consumer_watermarks WHERE queue_name = %s", queue)
