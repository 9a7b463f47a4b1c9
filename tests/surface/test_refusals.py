"""What a function of the schema queen cannot understand is refused: it never means all, or the default."""
from __future__ import annotations

import json

import psycopg
import pytest

FILTERED = ("redrive_dlq_v1", "get_dlq_messages_v1", "list_messages_v1")


def call(sql, name: str, *values: object):
    """One call; dictionaries and lists go as JSON."""
    arguments = [json.dumps(value) if isinstance(value, (dict, list)) else value for value in values]
    return sql.value(f"SELECT queen.{name}({', '.join(['%s'] * len(values))})", *arguments)


def push(sql, queue: str, payload: object, **more: object) -> None:
    call(sql, "push_messages_v3", [{"queue": queue, "payload": payload, **more}])


def pop(sql, queue: str, **more: object) -> list[dict]:
    return call(sql, "pop_unified_batch_v4", [{"queue_name": queue, **more}])[0]["result"]["messages"]


def refused(sql, name: str, *values: object) -> str:
    """Asserts error 22023 and returns its text."""
    with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
        call(sql, name, *values)
    return caught.value.diag.message_primary


@pytest.mark.parametrize("name", FILTERED)
@pytest.mark.parametrize("wrong", [{"to": "soon"}, {"from": "2026-13-01"}, {"to": "infinity"}, {"partitoin": "a"},
                                   {"limit": 10_001}, {"limit": -1}, {"limit": "x"}, {"limit": 1.5}])
def test_a_filter_that_cannot_be_read(sql, queue, name: str, wrong: dict) -> None:
    """With one dead letter in the queue: a redrive that takes the filter for none would move it."""
    push(sql, queue, 1)
    (message,) = pop(sql, queue)
    assert call(sql, "ack_messages_v2", [{**message, "status": "dlq"}])[0]["dlq"] is True
    told = refused(sql, name, {"queue": queue, **wrong})
    assert next(iter(wrong)) in told or "is no time" in told
    assert len(sql.rows("SELECT 1 FROM queen.dead_letter_queue WHERE queue = %s", queue)) == 1


def test_a_list_says_how_many_it_gives_at_most(sql) -> None:
    for name, most in (("get_dlq_messages_v1", 1000), ("list_messages_v1", 10_000)):
        assert refused(sql, name, {"limit": most + 1}).endswith(f"from 0 to {most}")
    assert "from 0 to 1000" in refused(sql, "get_traces_by_name_v1", "name", 1001)
    assert call(sql, "get_dlq_messages_v1", {"limit": 1000})["pagination"]["limit"] == 1000


@pytest.mark.parametrize("option", [{"delayMs": 60_000}, {"deliverAt": "2099-01-01T00:00:00Z"}])
def test_a_delay_of_an_item_is_refused(sql, queue, option: dict) -> None:
    """Dropping it would deliver the message at once."""
    item = {"queue": queue, "payload": 1, **option}
    for name, value in (("push_messages_v3", [item]), ("push_messages_v2", [item]),
                        ("execute_transaction_v2", {"operations": [{"type": "push", "items": [item]}]})):
        assert f"{next(iter(option))} is not supported" in refused(sql, name, value)
    assert not sql.rows("SELECT 1 FROM queen.queues WHERE name = %s", queue)


def test_the_start_of_a_group(sql, queue) -> None:
    push(sql, queue, 1)
    for more in ({"sub_mode": "newest"}, {"sub_mode": "waited"}, {"sub_from": "soon"}):
        refused(sql, "pop_unified_batch_v4", [{"queue_name": queue, "consumer_group": "g", **more}])
    assert not sql.rows("SELECT 1 FROM queen.consumer_groups_metadata WHERE queue_name = %s", queue)
    assert pop(sql, queue, consumer_group="g", sub_mode="new-only") == []
    push(sql, queue, 2)
    assert [one["data"] for one in pop(sql, queue, consumer_group="g")] == [2]


def test_options_of_a_queue(sql, queue) -> None:
    for options in ({"leasetime": 5}, {"mode": "replcae"}, [], {"encryption": "maybe"}, {"retentionEnabled": "yes"}):
        refused(sql, "configure_queue_v1", queue, options)
    assert not sql.rows("SELECT 1 FROM queen.queues WHERE name = %s", queue)


@pytest.mark.parametrize("options", [{"leaseTime": -5}, {"leaseTime": "abc"}, {"retryLimit": 1.5}, {"ttl": 2**40},
                                     {"rateLimit": 1_000_001}, {"ratePeriod": 0}])
def test_a_number_outside_of_its_range(sql, queue, options: dict) -> None:
    told = refused(sql, "configure_queue_v1", queue, options)
    assert told.startswith(f"options.{next(iter(options))} must be an integer from ")
    assert not sql.rows("SELECT 1 FROM queen.queues WHERE name = %s", queue)
    assert call(sql, "configure_queue_v1", queue, {"leaseTime": "60", "retryLimit": None})["options"]["leaseTime"] == 60


@pytest.mark.parametrize("name, asked, told", [
    ("push_messages_v3", [{"queue": "q", "payload": 1}, {"queue": "q", "payload": 2, "partiton": "p"}],
     "partiton is no key; partition is one (item 1)"),
    ("push_messages_v2", [{"queue": "q", "transactionid": "t"}],
     "transactionid is no key; transactionId is one (item 0)"),
    ("execute_transaction_v2", [{"type": "push", "items": [{"queue": "q", "pyaload": 1}]}],
     "pyaload is no key; payload is one (item 0)"),
    ("execute_transaction_v2", [{"type": "ack", "transactionId": "t", "partitionId": "1", "consumerGrop": "g"}],
     "consumerGrop is no key; consumerGroup is one (item 0)"),
    ("ack_messages_v2", [{"transactionId": "t", "leaseIdd": "x"}], "leaseIdd is no key; leaseId is one (item 0)"),
    ("renew_lease_v2", [{"leaseId": "x", "extendSecond": 5}], "extendSecond is no key; extendSeconds is one (item 0)"),
    ("pop_unified_batch_v4", [{"queue_name": "q", "consumer_gruop": "g"}],
     "consumer_gruop is no key; consumer_group is one (item 0)")])
def test_a_member_that_is_misspelled(sql, name: str, asked: list, told: str) -> None:
    """It would be left out without a word: the message would go to another partition, the pop to another group."""
    assert refused(sql, name, asked) == told
    assert not sql.rows("SELECT 1 FROM queen.queues WHERE name = 'q'")


def test_a_member_that_nobody_knows_is_passed_over(sql, queue) -> None:
    """As over HTTP; callers of the reference server send some."""
    call(sql, "push_messages_v3", [{"queue": queue, "payload": 1, "messageId": "x", "is_encrypted": False, "par": 1}])
    assert [one["data"] for one in pop(sql, queue)] == [1]


def test_a_redrive_goes_on_past_what_it_cannot_read(sql, queue) -> None:
    for n in range(5):
        push(sql, queue, n)
        (message,) = pop(sql, queue)
        assert call(sql, "ack_messages_v2", [{**message, "status": "dlq"}])[0]["dlq"] is True
    sql.rows("UPDATE queend.dead_letters SET seal = 'key' WHERE id IN (SELECT d.id FROM queend.dead_letters d"
             " JOIN queend.queues q ON q.id = d.queue_id WHERE q.name = %s ORDER BY d.id DESC LIMIT 2)", queue)
    told = call(sql, "redrive_dlq_v1", {"queue": queue, "limit": 2})
    assert (told["redriven"], told["unreadable"]) == (2, 2)
    assert [one["data"] for one in pop(sql, queue, auto_ack=True)] == [1, 2], "the newest it can read, as they failed"
    told = call(sql, "redrive_dlq_v1", {"queue": queue})
    assert (told["redriven"], told["unreadable"]) == (1, 2)
    assert len(sql.rows("SELECT 1 FROM queen.dead_letter_queue WHERE queue = %s", queue)) == 2


def test_the_length_of_a_lease(sql, queue) -> None:
    push(sql, queue, 1)
    lease = pop(sql, queue)[0]["leaseId"]
    for seconds in (0, -5, 31_536_001):
        refused(sql, "renew_lease_v2", [{"leaseId": lease, "extendSeconds": seconds}])
    assert call(sql, "renew_lease_v2", [{"leaseId": lease, "extendSeconds": 1}])[0]["success"] is True


def test_a_step_that_takes_nothing(sql, queue) -> None:
    push(sql, queue, 1)
    for seconds, size in ((-60, 1), (60, 0), (60, -1), (60, None), (None, 1), (60, 10_001)):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            sql.rows("SELECT * FROM queen.pop_sm_lease(%s, 'Default', 'g', %s, 'me', %s)", queue, seconds, size)
    assert pop(sql, queue, consumer_group="g"), "it is not leased"


@pytest.mark.parametrize("option", ["windowBuffer", "delayedProcessing"])
def test_a_step_proposes_what_may_be_delivered(sql, queue, option: str) -> None:
    """What waits for a delay is not in the way of the other partitions."""
    call(sql, "configure_queue_v1", queue, {option: 3600})
    push(sql, queue, 1, partition="early")
    push(sql, queue, 2, partition="late")
    resolved = "SELECT partition_name FROM queen.pop_sm_resolve(%s, 'g')"
    assert sql.rows(resolved, queue) == []
    sql.rows("UPDATE queend.log SET created_at = created_at - 7200000000 WHERE partition_id ="
             " (SELECT p.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id"
             "   WHERE q.name = %s AND p.name = 'late')", queue)
    assert sql.rows(resolved, queue) == [("late",)]
    assert len(sql.rows("SELECT * FROM queen.pop_sm_lease(%s, 'late', 'g', 60, 'me', 1)", queue)) == 1


def test_operations_and_places(sql, queue) -> None:
    push(sql, queue, 1, transactionId="t")
    for request in ("{}", "null", "5"):
        refused(sql, "execute_transaction_v2", request)
    for after in ("", "5", "x.y", "1.2.3", "2147483648.0", "9999999999.0", "12345678901.0"):
        refused(sql, "erase_v1", {"queue": queue, "transactionIds": ["t"], "after": after})
    last = call(sql, "erase_v1", json.dumps({"queue": queue, "transactionIds": ["t"], "after": "2147483647.0"}))
    assert (last["erased"], last["complete"]) == (0, True)
    assert call(sql, "erase_v1", json.dumps({"queue": queue, "transactionIds": ["t"]}))["erased"] == 1


def test_numbers_of_partitions(sql) -> None:
    """Ids of 32 bits have up to ten digits."""
    for text, number in (("7", 7), ("999999999", 999999999), ("1000000000", 1000000000), ("2147483647", 2147483647),
                         ("2147483648", None), ("9999999999", None), ("99999999999", None), ("-1", None), ("", None)):
        assert sql.value("SELECT queend.partition_number(%s)", text) == number
        assert sql.value(f"SELECT queend.partition_number('{text}')") == number


def test_a_group_that_was_not_there(sql, queue) -> None:
    push(sql, queue, 1)
    pop(sql, queue, consumer_group="g")
    assert call(sql, "delete_consumer_group_for_queue_v1", "g", queue)["existed"] is True
    assert call(sql, "delete_consumer_group_for_queue_v1", "g", queue)["existed"] is False
    assert call(sql, "delete_consumer_group_v1", f"{queue}-none")["existed"] is False
    refused(sql, "get_lagging_partitions_v1", None)


def test_a_message_that_came_back_names_its_origin(sql, queue) -> None:
    push(sql, queue, 1, transactionId="order-1")
    call(sql, "ack_messages_v2", [{**pop(sql, queue)[0], "status": "dlq"}])
    assert call(sql, "redrive_dlq_v1", {"queue": queue})["redriven"] == 1
    origin = {"originTransactionId": "order-1", "originQueue": queue, "originPartition": "Default", "originOffset": 0}
    (message,) = pop(sql, queue)
    fetched = sql.value("SELECT queen.pop_sm_fetch(%s, NULL, NULL, 9)", message["partitionId"])
    for one in (message, fetched[-1]):
        assert {name: one.get(name) for name in origin} == origin
    assert "originQueue" not in fetched[0]
