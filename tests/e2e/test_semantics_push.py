"""Push: what is stored, what counts as the same, what is refused and how that is said."""
from __future__ import annotations

import json
import threading
import uuid

import pytest
from support.client import Client, data
from support.daemon import Daemon



def test_answer_of_a_stored_message(client: Client, queue: str) -> None:
    (one,) = client.push(queue, {"n": 1}, partition="p", transactionId="t-1",
                         traceId="11111111-2222-4333-8444-555555555555")
    assert {key: one[key] for key in ("index", "transaction_id", "status", "trace_id", "queueName")} == {
        "index": 0, "transaction_id": "t-1", "status": "queued",
        "trace_id": "11111111-2222-4333-8444-555555555555", "queueName": queue}
    assert uuid.UUID(one["message_id"]).version == 7
    uuid.UUID(one["partition_id"])
    (popped,) = client.pop(queue)
    assert popped["id"] == one["message_id"] and popped["partitionId"] == one["partition_id"]
    assert popped["transactionId"] == "t-1" and popped["traceId"] == one["trace_id"] and popped["data"] == {"n": 1}
    assert popped["partition"] == "p" and popped["producerSub"] is None


def test_missing_transaction_ids_are_made_and_differ(client: Client, queue: str) -> None:
    items = client.push(queue, 1, 2) + client.push(queue, 3, transactionId="")
    ids = [one["transaction_id"] for one in items]
    assert len(set(ids)) == 3 and all(uuid.UUID(one) for one in ids)
    assert [one["transactionId"] for one in client.pop(queue, batch=3)] == ids


@pytest.mark.parametrize("transaction",
                         ["plain text", str(uuid.UUID(int=5, version=4)), "0192f0c0-0000-7000-8000-0000000000aa",
                          "0192F0C0-0000-7000-8000-0000000000AA", "ünï-\U0001f600", "x" * 255])
def test_the_same_id_is_stored_once_per_partition(client: Client, queue: str, transaction: str) -> None:
    (first,) = client.push(queue, "first", partition="a", transactionId=transaction)
    (again,) = client.push(queue, "again", partition="a", transactionId=transaction)
    (other,) = client.push(queue, "other", partition="b", transactionId=transaction)
    assert (first["status"], again["status"], other["status"]) == ("queued", "duplicate", "queued")
    assert again["message_id"] == first["message_id"] != other["message_id"]
    assert again["transaction_id"] == transaction and again["queueName"] == queue
    (popped,) = client.pop(queue, "a", batch=10)
    assert popped["data"] == "first" and popped["transactionId"] == transaction


def test_ids_that_differ_only_in_case_are_two(client: Client, queue: str) -> None:
    low, high = "0192f0c0-0000-7000-8000-0000000000aa", "0192F0C0-0000-7000-8000-0000000000AA"
    items = client.push(queue, 1, transactionId=low) + client.push(queue, 2, transactionId=high)
    assert [one["status"] for one in items] == ["queued", "queued"]
    assert [one["transactionId"] for one in client.pop(queue, batch=2)] == [low, high]


def test_first_of_equal_ids_in_a_request_wins(client: Client, queue: str) -> None:
    items = client.push_items([{"queue": queue, "partition": p, "payload": n, "transactionId": t}
                               for n, (p, t)
                               in enumerate([("a", "x"), ("b", "x"), ("a", "x"), ("a", "y"), ("a", "y"), ("b", "x")])])
    assert [one["status"] for one in items] == ["queued", "queued", "duplicate", "queued", "duplicate", "duplicate"]
    assert [one["index"] for one in items] == list(range(6))
    ids = [one["message_id"] for one in items]
    assert (ids[2], ids[4], ids[5]) == (ids[0], ids[3], ids[1])
    assert data(client.pop(queue, "a", batch=10)) == [0, 3] and data(client.pop(queue, "b", batch=10)) == [1]


def test_old_and_new_mixed_in_one_request(client: Client, queue: str) -> None:
    client.push_items([{"queue": queue, "payload": n, "transactionId": f"t{n}"} for n in range(0, 20, 2)])
    items = client.push_items([{"queue": queue, "payload": n, "transactionId": f"t{n}"} for n in range(20)])
    assert [one["status"] for one in items] == ["duplicate", "queued"] * 10
    assert data(client.pop(queue, batch=100)) == [*range(0, 20, 2), *range(1, 20, 2)]


def test_consumed_messages_still_hold_their_id(client: Client, queue: str) -> None:
    (first,) = client.push(queue, 1, transactionId="t")
    assert client.pop(queue, autoAck=True)
    (again,) = client.push(queue, 2, transactionId="t")
    assert again["status"] == "duplicate" and again["message_id"] == first["message_id"]
    assert client.pop(queue) == []


def test_one_of_many_equal_pushes_at_once_is_stored(daemon: Daemon, client: Client, queue: str) -> None:
    start, results = threading.Barrier(8), []

    def push(number: int) -> None:
        with daemon.client() as own:
            start.wait()
            for round_ in range(20):
                results.append((round_, own.push(queue, number, transactionId=f"t{round_}")[0]))

    threads = [threading.Thread(target=push, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 160
    for round_ in range(20):
        of_round = [one for number, one in results if number == round_]
        assert sorted(one["status"] for one in of_round) == ["duplicate"] * 7 + ["queued"]
        assert len({one["message_id"] for one in of_round}) == 1
    assert len(client.pop(queue, batch=100)) == 20


@pytest.mark.parametrize("text", [
    "null", "0", "-0", "-0.0", "1e3", "1E+400", "1.10", "12345678901234567890123", "9223372036854775808", '""',
    '"\\u0000"', '"a\\u0000b"',
    '"\\/\\b\\f\\n\\r\\t\\"\\\\"', '"\\ud83d\\ude00"', '"\\ud800"', '"é\U0001f600\u2028"', "[]", "{}",
    '{"z":1,"a":2,"z":3}', '[ 1 ,\t2 ]', '{ "a" : [ ] }',
    "[" * 200 + "]" * 200, '"' + "x" * 300_000 + '"'], ids=lambda text: text[:24])
def test_payloads_come_back_as_they_were_written(client: Client, queue: str, text: str) -> None:
    body = f'{{"items":[{{"queue":{json.dumps(queue)},"payload":{text}}}]}}'.encode()
    assert client.post("/api/v1/push", body).status == 201
    assert f'"data":{text}'.encode() in client.pop_answer(queue).body.replace(b'"data": ', b'"data":')


def test_a_payload_that_is_missing_is_null(lenient: Client, queue: str) -> None:
    lenient.push_items([{"queue": queue}, {"queue": queue, "payload": None}, {"queue": queue, "data": 5}])
    assert data(lenient.pop(queue, batch=3)) == [None, None, None]


def test_fields_that_belong_to_others_are_ignored(lenient: Client, queue: str) -> None:
    name = f"{queue}.work.v2"
    lenient.push_items([{"queue": name, "payload": 1, "namespace": "N", "task": "T", "producerSub": "evil",
                         "more": {"deep": []}}])
    assert lenient.pop(name)[0]["producerSub"] is None
    shown = lenient.show(name).json
    assert (shown["namespace"], shown["task"]) == (queue, "work")


@pytest.mark.parametrize("name", ["with space", "a/b", "ünïcödé \U0001f600", "a.b.c", "100%", "q?x=1&y#z",
                                  "'\"\\;--", ".", "x" * 255])
def test_names_of_any_characters(client: Client, name: str) -> None:
    client.push(name, 1, partition=name)
    (by_queue,) = client.pop(name, consumerGroup=name)
    (by_partition,) = client.pop(name, name, consumerGroup="other")
    assert by_queue["partition"] == by_partition["partition"] == name and by_queue["consumerGroup"] == name
    assert client.ack(by_queue, group=name)["success"]


def test_an_empty_list_stores_nothing(client: Client) -> None:
    answer = client.post("/api/v1/push", {"items": []})
    assert (answer.status, answer.json) == (201, [])


def test_a_request_of_many_partitions_keeps_the_order_of_its_items(client: Client, queue: str) -> None:
    items = client.push_items([{"queue": queue, "partition": str(n % 100), "payload": n} for n in range(5000)])
    assert [one["index"] for one in items] == list(range(5000)) and {one["status"] for one in items} == {"queued"}
    assert len({one["message_id"] for one in items}) == 5000
    for partition in (0, 57, 99):
        assert data(client.pop(queue, str(partition), batch=100)) == list(range(partition, 5000, 100))


def test_message_ids_rise_with_the_order_of_a_partition(client: Client, queue: str) -> None:
    for n in range(30):
        client.push(queue, *range(n % 3 + 1))
    messages = client.pop(queue, batch=100)
    assert [(m["createdAt"], m["id"]) for m in messages] == sorted((m["createdAt"], m["id"]) for m in messages)
    assert [m["offset"] for m in messages] == list(range(len(messages)))
    assert [m["id"] for m in messages] == sorted(m["id"] for m in messages)
