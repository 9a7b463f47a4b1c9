"""Acknowledgments: what moves the cursor, what is delivered again, what ends as a dead letter."""
from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from contextlib import ExitStack

import psycopg
import pytest
from support.client import Client, ack_of, data
from support.daemon import Daemon
from support.postgres import Postgres
from support.wait import until

NO_LEASE = "Invalid or expired lease: the consumer group holds none on this message"
NOWHERE = "00000000-0000-0000-0000-000000000000"


def test_result_of_an_ack(client: Client, queue: str) -> None:
    client.push(queue, 1, 2, partition="p")
    first, second = client.pop(queue, batch=2)
    assert client.ack(first) == {"index": 0, "transactionId": first["transactionId"], "success": True,
                                 "error": None, "queueName": queue,
                                 "partitionName": "p", "leaseReleased": False, "dlq": False}
    assert client.ack(second)["leaseReleased"] is True


@pytest.mark.parametrize("word", ["completed", "success", None, 5])
def test_words_for_done(lenient: Client, queue: str, word: object) -> None:
    lenient.push(queue, 1)
    (message,) = lenient.pop(queue)
    assert lenient.ack(message, **({"status": word}))["success"] is True
    assert lenient.pop(queue) == []


def test_an_unknown_word_changes_nothing(lenient: Client, queue: str) -> None:
    lenient.push(queue, 1)
    (message,) = lenient.pop(queue)
    result = lenient.ack(message, "banana")
    assert (result["success"], result["error"], result["leaseReleased"]) == (False, None, False)
    assert lenient.ack(message)["leaseReleased"] is True


def test_cumulative_consumes_all_before_it(client: Client, queue: str) -> None:
    client.push(queue, *range(5))
    messages = client.pop(queue, batch=4)
    assert client.ack(messages[3], cumulative=True)["leaseReleased"] is True
    assert data(client.pop(queue, batch=5)) == [4]


def test_an_acknowledgment_completes_what_it_names(client: Client, queue: str, daemon: Daemon,
                                                   start_daemon: Callable[..., Daemon]) -> None:
    """What stands before it comes again when the lease ends, from another daemon as well; what was confirmed does
    not."""
    client.configure(queue, leaseTime=3)
    client.push(queue, *range(6))
    messages = client.pop(queue, batch=5)
    assert client.ack(messages[4])["success"] and client.ack(messages[2], cumulative=False)["success"]
    (place,) = client.get("/api/v1/consumer-groups/__QUEUE_MODE__").json[queue]["partitions"]
    assert (place["offset"], place["offsetLag"], place["totalConsumed"]) == (0, 4, 2)
    assert data(client.pop(queue, batch=5, wait=True, timeout=100_000)) == [0, 1]
    client.configure(queue, leaseTime=300)
    with start_daemon(daemon.conninfo).client() as other:
        for expected in ([0, 1], [3], [5]):
            messages = other.pop(queue, batch=5, wait=True, timeout=100_000)
            assert data(messages) == expected
            assert all(one["success"] for one in other.ack_batch([ack_of(m) for m in messages]))
    assert client.pop(queue) == []


def test_cumulative_is_a_matter_of_completing(client: Client, queue: str) -> None:
    client.push(queue, 1)
    (message,) = client.pop(queue)
    for given, said in (({"cumulative": "yes"}, "cumulative must be true or false"),
                        ({"cumulative": 1}, "cumulative must be true or false"),
                        ({"cumulative": True, "status": "failed"}, "cumulative goes with the status completed alone")):
        answer = client.post("/api/v1/ack", {**ack_of(message), **given})
        assert answer.status == 400 and said in answer.json["error"], answer.body
    assert client.ack(message, cumulative=None)["leaseReleased"] is True


def test_the_cursor_never_moves_back(client: Client, queue: str) -> None:
    client.push(queue, *range(4))
    messages = client.pop(queue, batch=3)
    assert client.ack(messages[1], cumulative=True)["success"]
    assert client.ack(messages[0])["success"], "already consumed: done again without effect"
    assert client.ack(messages[2])["leaseReleased"] is True
    assert client.ack(messages[0], lease=False)["success"]
    assert data(client.pop(queue, batch=5)) == [3]


def test_a_lease_that_is_not_live_has_no_say(client: Client, queue: str) -> None:
    client.push(queue, 1)
    (message,) = client.pop(queue)
    for lease in (NOWHERE, "zzz", str(uuid.uuid4())):
        result = client.ack({**message, "leaseId": lease})
        assert (result["success"], result["error"], result["queueName"]) == (False, "Invalid or expired lease", queue)
    assert client.ack(message)["success"]
    again = client.ack(message)
    assert (again["success"],
            again["error"]) == (False, "Invalid or expired lease"), "the batch is complete, its lease gone"


def test_without_a_lease_id_it_is_acked_for_whoever_holds_it(client: Client, queue: str) -> None:
    client.push(queue, 1, 2)
    (message,) = client.pop(queue)
    assert client.ack(message, lease=False)["leaseReleased"] is True
    assert client.ack(message, leaseId="", status="completed", lease=False)["success"]
    assert data(client.pop(queue)) == [2]


def test_what_does_not_exist(client: Client, queue: str) -> None:
    client.push(queue, 1)
    (message,) = client.pop(queue)
    unknown = client.ack({**message, "transactionId": "nope"})
    assert (unknown["success"], unknown["error"], unknown["queueName"]) == (False, "Message not found", queue)
    for partition in (NOWHERE, str(uuid.uuid4())):
        result = client.ack({**message, "partitionId": partition}, lease=False)
        assert (result["success"], result["error"], result["queueName"],
                result["partitionName"]) == (False, "Message not found", None, None)
    never = client.ack(message, group="never-popped", lease=False)
    assert (never["success"], never["error"], never["leaseReleased"]) == (False, NO_LEASE, False)
    assert data(client.pop(queue, consumerGroup="never-popped")) == [1]


def test_failed_is_delivered_again_with_the_rest(client: Client, queue: str) -> None:
    client.push(queue, *range(4))
    messages = client.pop(queue, batch=3)
    result = client.ack(messages[0], "failed", error="boom")
    assert (result["success"], result["leaseReleased"], result["dlq"]) == (True, True, False)
    again = client.pop(queue, batch=3)
    assert data(again) == [0, 1, 2] and {m["deliveryAttempt"] for m in again} == {2}


def test_retry_is_not_counted(client: Client, queue: str) -> None:
    client.configure(queue, retryLimit=0)
    client.push(queue, 1)
    for _ in range(4):
        (message,) = client.pop(queue)
        result = client.ack(message, "retry")
        assert (result["success"], result["leaseReleased"], result["dlq"]) == (True, True, False)
    assert client.dead(queue) == 0 and data(client.pop(queue)) == [1]


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_dead_letter_after_the_retry_limit(client: Client, queue: str, limit: int) -> None:
    client.configure(queue, retryLimit=limit)
    client.push(queue, "bad", "good")
    for attempt in range(limit):
        (message,) = client.pop(queue)
        assert (message["data"], message["deliveryAttempt"]) == ("bad", attempt + 1)
        assert client.ack(message, "failed")["dlq"] is False
    (message,) = client.pop(queue)
    result = client.ack(message, "failed", error="at last")
    assert (message["data"], result["success"], result["dlq"]) == ("bad", True, True)
    assert client.dead(queue) == 1
    assert data(client.pop(queue)) == ["good"], "the dead letter does not block"


def test_the_count_starts_anew_after_a_dead_letter(client: Client, queue: str) -> None:
    client.configure(queue, retryLimit=1)
    client.push(queue, "a", "b")
    for expected in ("a", "a", "b"):
        (message,) = client.pop(queue)
        assert message["data"] == expected
        client.ack(message, "failed")
    (message,) = client.pop(queue)
    assert message["data"] == "b" and client.ack(message, "failed")["dlq"] is True
    assert client.dead(queue) == 2


def test_dlq_sends_a_held_message_there_at_once(client: Client, queue: str) -> None:
    client.push(queue, {"x": 1}, 2)
    first, second = client.pop(queue, batch=2)
    assert client.ack(first, "dlq", error="direct")["dlq"] is True
    assert client.ack(second)["leaseReleased"] is True
    assert client.dead(queue) == 1 and client.pop(queue) == []


# -- several at once ---------------------------------------------------------------------------------------------------


def test_results_in_the_order_of_the_request(client: Client, queue: str) -> None:
    client.push_items([{"queue": queue, "partition": p, "payload": n} for p in "abc" for n in range(3)])
    messages = client.pop(queue, batch=9, partitions=3)
    items = [ack_of(m) for m in reversed(messages)]
    items.insert(4, {**items[0], "transactionId": "nope"})
    results = client.ack_batch(items)
    assert [one["index"] for one in results] == list(range(10))
    assert [one["transactionId"] for one in results] == [one["transactionId"] for one in items]
    assert [one["success"] for one in results] == [True] * 4 + [False] + [True] * 5
    assert {one["partitionName"] for one in results} == {"a", "b", "c"}
    assert {one["queueName"] for one in results} == {queue}
    assert client.pop(queue, batch=9, partitions=3) == []


def test_an_empty_batch(client: Client) -> None:
    assert client.ack_batch([]) == []


def test_a_failed_batch_counts_as_one_retry(client: Client, queue: str) -> None:
    client.configure(queue, retryLimit=3)
    client.push(queue, *range(100))
    for attempt in (1, 2, 3):
        messages = client.pop(queue, batch=100)
        assert data(messages) == list(range(100)) and messages[0]["deliveryAttempt"] == attempt
        results = client.ack_batch([ack_of(m, "failed") for m in messages])
        assert all(one["success"] and not one["dlq"] for one in results)
    messages = client.pop(queue, batch=100)
    assert data(messages) == list(range(100)), "nothing of it is skipped"
    assert all(one["success"] for one in client.ack_batch([ack_of(m) for m in messages]))
    assert client.pop(queue) == [] and client.dead(queue) == 0


def test_a_failed_batch_at_the_limit_is_dead_lettered_whole(client: Client, queue: str) -> None:
    client.configure(queue, retryLimit=0)
    client.push(queue, *range(10))
    results = client.ack_batch([ack_of(m, "failed") for m in client.pop(queue, batch=10)])
    assert all(one["success"] and one["dlq"] for one in results)
    assert client.dead(queue) == 10 and client.pop(queue) == []


def test_a_failed_message_is_never_skipped(client: Client, queue: str) -> None:
    client.push(queue, *range(5))
    messages = client.pop(queue, batch=5)
    words = ["completed", "failed", "completed", "completed", "failed"]
    results = client.ack_batch([ack_of(m, word) for m, word in zip(messages, words, strict=True)])
    assert all(one["success"] and not one["dlq"] for one in results)
    assert data(client.pop(queue, batch=5)) == [1, 2, 3, 4], "of one request, those behind it come again with it"


def test_what_another_request_has_completed_stays_done(client: Client, queue: str) -> None:
    client.push(queue, *range(5))
    messages = client.pop(queue, batch=5)
    assert client.ack(messages[2])["success"] and client.ack(messages[1], "failed")["leaseReleased"] is True
    for expected in ([0, 1], [3, 4]):
        again = client.pop(queue, batch=5)
        assert data(again) == expected and all(one["success"] for one in client.ack_batch([ack_of(m) for m in again]))


def test_a_failed_message_is_never_skipped_in_any_order_of_items(client: Client, queue: str) -> None:
    client.push(queue, *range(3))
    messages = client.pop(queue, batch=3)
    client.ack_batch([ack_of(messages[2]), ack_of(messages[0]), ack_of(messages[1], "failed")])
    assert data(client.pop(queue, batch=3)) == [1, 2]


def test_mixed_at_the_limit(client: Client, queue: str) -> None:
    client.configure(queue, retryLimit=0)
    client.push(queue, *range(4))
    messages = client.pop(queue, batch=4)
    results = client.ack_batch([ack_of(messages[0]), ack_of(messages[1], "failed"), ack_of(messages[2]),
                                ack_of(messages[3], "failed")])
    assert [one["dlq"] for one in results] == [False, True, False, True]
    assert client.dead(queue) == 2 and client.pop(queue) == []


def test_partitions_of_a_batch_are_decided_apart(client: Client, queue: str) -> None:
    client.push_items([{"queue": queue, "partition": p, "payload": f"{p}{n}"} for p in "ab" for n in range(2)])
    messages = client.pop(queue, batch=4, partitions=2)
    client.ack_batch([ack_of(m, "failed" if m["partition"] == "a" else "completed") for m in messages])
    assert data(client.pop(queue, batch=4, partitions=2)) == ["a0", "a1"]


def test_the_group_of_the_batch_holds_for_its_items(client: Client, queue: str) -> None:
    client.push(queue, 1)
    (message,) = client.pop(queue, consumerGroup="g")
    (result,) = client.ack_batch([ack_of(message, consumerGroup="ignored")], group="g")
    assert result["success"] and result["leaseReleased"] is True
    assert client.pop(queue, consumerGroup="g") == []


def test_a_request_for_a_group_that_is_unknown_costs_one_search(start_daemon: Callable[..., Daemon], postgres: Postgres,
                                                                queue: str) -> None:
    """Of each partition, not of each message."""
    database = postgres.database()
    with psycopg.connect(database, autocommit=True) as session:
        session.execute(f"ALTER DATABASE {session.info.dbname} SET track_functions = 'all'")
        with start_daemon(database).client() as client:
            client.push(queue, 1, partition="p")
            client.push(queue, 2, partition="q")
            messages = [message for partition in "pq" for message in client.pop(queue, partition)]
            results = client.ack_batch([ack_of({**message, "transactionId": f"x{n}"}) for message in messages
                                        for n in range(1000)], "never-popped")
            assert {result["error"] for result in results} == {"Message not found"}
            calls = until(lambda: session.execute("SELECT sum(calls) FROM pg_stat_user_functions"
                                                  " WHERE funcname = 'ack_group'").fetchone()[0], "it is counted")
            assert calls == 2


def test_null_means_absent(client: Client, queue: str) -> None:
    client.push(queue, 1)
    (message,) = client.pop(queue)
    answer = client.post("/api/v1/ack/batch", {"consumerGroup": None, "acknowledgments": [
        {"transactionId": message["transactionId"], "partitionId": message["partitionId"], "leaseId": None,
         "status": None, "error": None}]})
    assert answer.status == 200 and answer.json[0]["success"] is True


def test_validation_looks_at_the_state_before_the_request(client: Client, queue: str) -> None:
    """The batch is complete with its second item, which frees the lease; the third is still valid."""
    client.push(queue, *range(3))
    messages = client.pop(queue, batch=3)
    results = client.ack_batch([ack_of(messages[0]), ack_of(messages[2]), ack_of(messages[1])])
    assert all(one["success"] for one in results)


def test_dead_letters_keep_what_is_needed_to_see_why(daemon: Daemon, client: Client, queue: str) -> None:
    client.configure(queue, retryLimit=0)
    client.push(queue, {"why": "this"})
    (message,) = client.pop(queue, consumerGroup="g")
    client.ack(message, "failed", group="g", error="because")
    with psycopg.connect(daemon.conninfo) as connection:
        row = connection.execute("SELECT d.error, d.retry_count FROM queend.dead_letters d JOIN queend.queues q"
                                 " ON q.id = d.queue_id"
                                 " WHERE q.name = %s", (queue,)).fetchall()
    assert row == [("because", 0)]


PARTITIONS = 3000
COMMITTED = ("SELECT count(*) FROM queend.cursors k JOIN queend.partitions p ON p.id = k.partition_id"
             " JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s AND k.committed = 0")


@pytest.mark.parametrize("alone", [True, False])
def test_acknowledgments_of_more_partitions_than_rounds_look_up(start_daemon: Callable[..., Daemon], queue: str,
                                                                alone: bool) -> None:
    """A daemon that was just started knows none of them. What it answers is what the database has."""
    before = start_daemon()
    with before.client() as client:
        for at in range(0, PARTITIONS, 1000):
            client.push_items([{"queue": queue, "partition": str(n), "payload": n} for n in range(at, at + 1000)])
        taken: list[dict] = []
        while len(taken) < PARTITIONS:
            taken += client.pop(queue, batch=1000, partitions=1000, leaseSeconds=600)
    before.stop()
    daemon = start_daemon(before.conninfo, NUM_WORKERS=1)
    parts = [taken] if alone else [taken[:-100], taken[-100:]]       # clients that ask at once share a round
    with ExitStack() as stack, psycopg.connect(daemon.conninfo) as connection:
        clients = [stack.enter_context(daemon.client()) for _ in parts]
        for client, part in zip(clients, parts, strict=True):
            client.send("POST", "/api/v1/ack/batch",
                        json.dumps({"acknowledgments": [ack_of(message) for message in part]}).encode())
        answers = [client.receive() for client in clients]
        assert all(one["success"] and not one.get("noop") for answer in answers for one in answer.json)
        assert connection.execute(COMMITTED, (queue,)).fetchone() == (PARTITIONS,)
