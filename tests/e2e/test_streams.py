"""/streams/v1 as the wire contract has it; the published SDK drives it in test_streams_sdk.py, faults in
test_streams_faults.py."""
from __future__ import annotations

import json
import uuid

import psycopg
import pytest
from support.client import Client, data, pop_target
from support.crowd import Crowd
from support.daemon import Daemon
from support.streams import Stream
from support.wait import until


@pytest.fixture
def stream(client: Client, queue: str) -> Stream:
    return Stream(client, queue, queue)


def register(client: Client, name: str, **more):
    return client.post("/streams/v1/queries", {"name": name, "source_queue": "s", "config_hash": "one", **more})


def test_registering(client: Client, daemon: Daemon, queue: str) -> None:
    first = register(client, queue, sink_queue="")
    assert first.status == 200
    id = first.json["query_id"]
    assert first.json == {"success": True, "query_id": id, "name": queue, "config_hash": "one",
                          "fresh": True, "reset": False}
    client.push(queue, 1)
    stream = Stream(client, queue, queue, "sink", "one")
    partition = client.pop(queue, autoAck=True)[0]["partitionId"]
    assert stream.id == id and stream.cycle(partition, {"k": 1})["success"]

    again = register(client, queue, reset=True).json
    assert (again["query_id"], again["fresh"], again["reset"]) == (id, False, False)
    assert stream.state(partition) == {"k": 1}
    refused = register(client, queue, config_hash="two")
    assert refused.status == 409 and refused.json["success"] is False
    assert "config_hash mismatch" in refused.json["error"] and refused.json["query_id"] == id
    assert stream.state(partition) == {"k": 1}
    wiped = register(client, queue, config_hash="two", reset=True, sink_queue="other").json
    assert (wiped["query_id"], wiped["fresh"], wiped["reset"]) == (id, False, True) and stream.state(partition) == {}
    with psycopg.connect(daemon.conninfo) as connection:
        assert connection.execute("SELECT source_queue, sink_queue, config_hash FROM queend.stream_queries"
                                  " WHERE name = %s", (queue,)).fetchall() == [("s", "other", "two")]


def test_a_name_is_registered_once_by_many(daemon: Daemon, queue: str) -> None:
    seen = []

    def one() -> None:
        with daemon.client() as client:
            seen.append(register(client, queue).json)

    with Crowd() as crowd:
        for _ in range(8):
            crowd.go(one)
    assert len({answer["query_id"] for answer in seen}) == 1 and sum(answer["fresh"] for answer in seen) == 1


def test_a_cycle_moves_state_messages_and_cursor(client: Client, stream: Stream, queue: str) -> None:
    client.push(queue, 1, 2, 3, partition="p")
    messages = stream.pop()
    sink, trace = f"{queue}.sink.out", str(uuid.uuid4())
    items = [{"queue": sink, "partition": "a", "payload": {"b": 1, "a": [1.50, 12345678901234567890123]},
              "messageId": None}, {"queue": sink, "partition": "b"},
             {"queue": sink, "partition": "a", "payload": "x", "traceId": trace, "namespace": "n", "task": "t"},
             {"queue": sink, "payload": 4}]
    answer = stream.cycle(messages, {"k": {"n": 1}, "gone": 1}, items, ["gone", "never"])
    assert answer["success"] and "error" not in answer and answer["queueName"] == queue
    assert answer["state_ops_applied"] == 4
    assert answer["ack_result"] == {"success": True, "count": 3, "lease_released": True, "dlq": False}
    assert [one["index"] for one in answer["push_results"]] == [0, 1, 2, 3]
    assert {one["status"] for one in answer["push_results"]} == {"queued"}
    assert {one["queueName"] for one in answer["push_results"]} == {sink}
    assert [one["trace_id"] for one in answer["push_results"]] == [None, None, trace, None]
    assert stream.state(messages[0]["partitionId"]) == {"k": {"n": 1}} and stream.pop() == []
    stored = client.pop(sink, batch=10, partitions=3)
    told = {one["message_id"]: (one["transaction_id"], one["partition_id"], one["trace_id"])
            for one in answer["push_results"]}
    assert {m["id"]: (m["transactionId"], m["partitionId"], m["traceId"]) for m in stored} == told
    assert [m["data"] for m in stored if m["partition"] == "a"] == [{"b": 1, "a": [1.5, 12345678901234567890123]}, "x"]
    assert sorted((m["partition"], json.dumps(m["data"])) for m in stored if m["partition"] != "a") == [
        ("Default", "4"), ("b", "null")]
    shown = client.show(sink).json
    assert (shown["namespace"], shown["task"]) == ("n", "t")


def test_items_with_transaction_ids_are_stored_once(client: Client, stream: Stream, queue: str) -> None:
    client.push(queue, 1, 2, partition="p")
    partition = stream.pop(batch=1)[0]["partitionId"]
    sink, ids = f"{queue}-sink", [str(uuid.uuid4()), "a text",
                                  str(uuid.uuid7() if hasattr(uuid, "uuid7") else uuid.uuid4())]
    client.push(sink, "old", partition="p", transactionId=ids[1])
    items = [{"queue": sink, "partition": "p", "payload": n, "transactionId": id}
             for n, id in enumerate([ids[0], ids[1], ids[0], ids[2]])]
    first = stream.cycle(partition, None,
                         [*items, {"queue": sink, "partition": "p", "payload": "made"}])["push_results"]
    assert [one["status"] for one in first] == ["queued", "duplicate", "duplicate", "queued", "queued"]
    assert first[2]["message_id"] == first[0]["message_id"]
    assert [one["transaction_id"] for one in first[:4]] == [ids[0], ids[1], ids[0], ids[2]]
    again = stream.cycle(partition, None, items)["push_results"]
    assert [one["status"] for one in again] == ["duplicate"] * 4
    assert [one["message_id"] for one in again] == [one["message_id"] for one in first[:4]]
    stored = client.pop(sink, "p", batch=10)
    assert data(stored) == ["old", 0, 3, "made"]
    assert [m["id"] for m in stored[1:]] == [first[n]["message_id"] for n in (0, 3, 4)]
    assert [m["transactionId"] for m in stored[:3]] == [ids[1], ids[0], ids[2]]
    assert client.request("DELETE", f"/api/v1/queues/{sink}/partitions/p/messages/{ids[0]}").json["success"]
    again = stream.cycle(partition, None, items)["push_results"]
    of = "duplicate_of_deleted"
    assert [one["status"] for one in again] == [of, "duplicate", of, "duplicate"]
    assert [one["message_id"] for one in again] == [one["message_id"] for one in first[:4]]


def test_many_items_keep_their_order(client: Client, stream: Stream, queue: str) -> None:
    client.push(queue, 1)
    sink = f"{queue}-sink"
    items = [{"queue": sink, "partition": str(n % 3), "payload": [n, "x" * (n % 400)]} for n in range(5000)]
    answer = stream.cycle(stream.pop(), None, items)
    assert len({one["message_id"] for one in answer["push_results"]}) == 5000
    for partition in range(3):
        stored = []
        while messages := client.pop(sink, str(partition), batch=1000, autoAck=True):
            stored += messages
        assert [m["data"][0] for m in stored] == list(range(partition, 5000, 3))
        assert [m["id"] for m in stored] == [answer["push_results"][n]["message_id"] for n in range(partition, 5000, 3)]


def test_state_is_kept_as_it_was_written(client: Client, stream: Stream, queue: str) -> None:
    client.push(queue, 1)
    message = stream.pop()[-1]
    raw = b'{"z":1.50,"a":"\\u0000 \\ud834\\udd1e","n":123456789012345678901234567890,"z":2}'
    body = json.dumps(stream.body([message],
                                  {"tumb:60\x1fä\x1f\"": "VALUE", "gone": 1})).encode().replace(b'"VALUE"', raw)
    assert client.post("/streams/v1/cycle", body).json["success"]
    answer = client.post("/streams/v1/state/get", {"query_id": stream.id, "partition_id": message["partitionId"],
                                                   "keys": ["tumb:60\x1fä\x1f\""]})
    assert b'"value":' + raw in answer.body
    ops = [{"type": "upsert", "key": "gone"}, {"type": "delete", "key": "gone"}, {"type": "delete", "key": "back"},
           {"type": "upsert", "key": "back"},
           {"type": "upsert", "key": "null", "value": None}, {"type": "upsert", "key": "null", "value": 1},
           {"type": "upsert", "key": "null", "value": None}]
    answer = stream.post({"query_id": stream.id, "partition_id": message["partitionId"], "state_ops": ops,
                          "push_items": None, "ack": None, "release_lease": None})
    assert answer["success"] and answer["state_ops_applied"] == 7 and answer["ack_result"] is None
    state = stream.state(message["partitionId"])
    assert state.pop("tumb:60\x1fä\x1f\"")["z"] == 2 and state == {"back": {}, "null": None}
    empty = stream.post({"query_id": stream.id, "partition_id": message["partitionId"], "state_ops": None})
    assert empty["success"]
    assert (empty["state_ops_applied"], empty["push_results"], empty["ack_result"]) == (0, [], None)


def test_a_partition_by_its_number(daemon: Daemon, client: Client, queue: str) -> None:
    """Cycles do the same whether they name it by id or by number."""
    answers, states, sinks = [], [], []
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        for way in ("id", "number"):
            stream, sink = Stream(client, f"{queue}-{way}", f"{queue}-{way}"), f"{queue}-{way}-sink"
            client.push(sink, 0, partition="p")
            client.push(stream.source, *range(9), partition="p")
            values = {"a\x1f\"ä\\": {"windowEnd": 1.5e3}, "b": [1, {"windowEnd": 7}], "c": {"x": {"windowEnd": 1}},
                      "d": {"windowEnd": -0.25}, "e": {"windowEnd": "7"}, "f": None}
            here = []
            for number in range(3):
                messages = stream.pop(batch=3)
                body = stream.body(messages, {**values, "n": number} if number < 2 else {},
                                   [{"queue": sink, "partition": "p", "payload": {"n": n, "way": "x" * n * 700}}
                                    for n in range(number * 3)],
                                   ["b", "none"] if number == 2 else [], release_lease=number != 1)
                if way == "number":
                    (number_of,) = connection.execute("SELECT queend.partition_id(%s)",
                                                      (messages[0]["partitionId"],)).fetchone()
                    body["partition_id"] = str(number_of)
                if number == 1:
                    body["ack"]["leaseId"] = None
                answer = stream.post(body)
                here.append({**answer, "query_id": None, "partition_id": None,
                             "queueName": answer["queueName"].removeprefix(queue)[:1],
                             "push_results": [{**one, "transaction_id": None, "message_id": None, "partition_id": None,
                                               "queueName": None} for one in answer["push_results"]]})
                stored = {one["message_id"]: one["transaction_id"] for one in answer["push_results"]}
                if number == 1:
                    connection.execute("UPDATE queend.cursors SET lease_until = 1"
                                       " WHERE partition_id = queend.partition_id(%s)", (messages[0]["partitionId"],))
                    client.post(f"/api/v1/consumer-groups/{stream.group}/queues/{stream.source}/seek",
                                {"timestamp": "2020-01-01T00:00:00Z"})
                assert answer["success"], answer
                if number == 2:
                    assert {m["id"]: m["transactionId"] for m in client.pop(sink, "p", batch=100)[4:]} == stored
            answers.append(here)
            states.append([stream.state(messages[0]["partitionId"], **filters) for filters in (
                {}, {"ripe_at_or_before": 0}, {"ripe_at_or_before": 1500}, {"keys": ["f", "b"]})])
            sinks.append(connection.execute("SELECT sum(n), count(*) FROM queend.log l JOIN queend.partitions p"
                                            " ON p.id = l.partition_id JOIN queend.queues q ON q.id = p.queue_id"
                                            " WHERE q.name = %s", (sink,)).fetchone())
    assert answers[0] == answers[1] and states[0] == states[1] and sinks[0] == sinks[1]
    assert states[0][1].keys() == {"d"} and states[0][2].keys() == {"a\x1f\"ä\\", "d"} and states[0][0]["n"] == 1


def test_filters_of_the_state(client: Client, stream: Stream, queue: str) -> None:
    client.push(queue, 1)
    partition = stream.pop()[-1]["partitionId"]
    values = {"a%1": {"windowEnd": 10}, "a%2": {"windowEnd": 20.5}, "ab1": {"windowEnd": "5"},
              "a_": {"windowEnd": True}, "b": {"windowEnd": 10}, "ä": 1, "": {"windowEnd": -1}}
    assert stream.cycle(partition, values)["success"]

    def keys(**filters) -> list[str]:
        return list(stream.state(partition, **filters))

    assert keys() == keys(keys=[], key_prefix="",
                          ripe_at_or_before=None) == sorted(values, key=str.encode) == keys(keys="b")
    assert keys(key_prefix="a%") == ["a%1", "a%2"] and keys(key_prefix="a_") == ["a_"] and keys(key_prefix="ä") == ["ä"]
    assert keys(ripe_at_or_before=10) == ["", "a%1", "b"]
    assert keys(ripe_at_or_before=20.5, key_prefix="a") == ["a%1", "a%2"]
    assert keys(keys=["b", "a%2", "c"], ripe_at_or_before=15) == ["b"]
    other = Stream(client, f"{queue}-other", queue)
    assert other.state(partition) == {} and stream.state(str(uuid.uuid4())) == {}
    assert client.post("/streams/v1/state/get", {"query_id": str(uuid.uuid4()), "partition_id": partition}).json == {
        "success": True, "rows": []}


def test_a_kept_lease_gives_the_rest_again(client: Client, stream: Stream, queue: str) -> None:
    client.configure(queue, leaseTime=3)
    client.push(queue, *range(5), partition="p")
    messages = stream.pop()
    client.configure(queue, leaseTime=300)
    answer = stream.cycle(messages[:2], {"k": 1}, [], release_lease=False)
    assert answer["ack_result"] == {"success": True, "count": 2, "lease_released": False, "dlq": False}
    with_lease = stream.cycle(messages[:3], {"k": 2}, [], release_lease=False)
    assert with_lease["success"]
    rest = stream.pop(wait=True, timeout=60000)
    assert data(rest) == [3, 4]
    assert stream.cycle(messages[:4])["error"] == "Invalid or expired lease"
    assert stream.cycle(rest)["success"] and stream.pop() == [] and stream.state(rest[0]["partitionId"]) == {"k": 2}


def test_a_cycle_that_keeps_the_lease_counts_once(client: Client, stream: Stream, queue: str) -> None:
    """Sent again it would move the cursor no further. To give the lease back it need not."""
    client.push(queue, *range(5), partition="p")
    messages = stream.pop()
    sink = f"{queue}-sink"
    for most in (2, 4):
        body = stream.body(messages[:most], {"k": most}, [{"queue": sink, "payload": most}], release_lease=False)
        assert stream.post(body)["success"] and stream.post(body)["error"] == "Already acknowledged"
    assert stream.state(messages[0]["partitionId"]) == {"k": 4} and data(client.pop(sink, batch=9)) == [2, 4]
    assert stream.cycle(messages[:4], {"k": 5})["success"] and data(stream.pop()) == [4]


def parked(daemon: Daemon, client: Client, *arguments, **query) -> Client:
    waiting = daemon.client()
    before = client.parked()
    waiting.send("GET", pop_target(*arguments, wait=True, timeout=50000, **query))
    until(lambda: client.parked() > before, "the pop is parked")
    return waiting


def test_who_waits_hears_of_the_lease_and_of_the_messages(daemon: Daemon, client: Client, stream: Stream,
                                                          queue: str) -> None:
    client.push(queue, 1, 2, 3, partition="p")
    messages = stream.pop()
    sink = f"{queue}-sink"
    with parked(daemon, client, queue, consumerGroup=stream.group,
                batch=10) as rest, parked(daemon, client, sink, "new") as reader:
        assert stream.cycle(messages[:1], None, [{"queue": sink, "partition": "new", "payload": "first"}])["success"]
        again = rest.receive().json["messages"]
        assert data(again) == [2, 3]
        (first,) = reader.receive().json["messages"]
        assert first["data"] == "first" and client.ack(first)["success"]
    with parked(daemon, client, sink, "new") as reader:
        assert stream.cycle(again, None, [{"queue": sink, "partition": "new", "payload": "second"}])["success"]
        assert data(reader.receive().json["messages"]) == ["second"]


def test_a_whole_delivery_is_done_whatever_message_is_named(client: Client, stream: Stream, queue: str) -> None:
    client.push(queue, *range(4), partition="p")
    messages = stream.pop(batch=3)
    body = stream.body(messages)
    body["ack"]["transactionId"] = messages[1]["transactionId"]
    assert stream.post(body)["success"]
    rest = stream.pop()
    assert data(rest) == [3]
    client.push(queue, 4, 5, partition="p")
    assert stream.cycle(rest)["success"]
    messages = stream.pop()
    assert stream.cycle(messages[:1])["success"] and data(stream.pop()) == [5]


@pytest.mark.parametrize("status", ["failed", "dlq"])
def test_a_failed_cycle_is_dead_lettered(client: Client, stream: Stream, queue: str, status: str) -> None:
    client.push(queue, 1, 2, 3, partition="p")
    messages = stream.pop()
    body = stream.body(messages[:2], {"k": 1}, [{"queue": f"{queue}-sink", "payload": 1}], release_lease=False)
    body["ack"]["status"] = status
    answer = stream.post(body)
    assert answer["ack_result"] == {"success": True, "count": 0, "lease_released": False, "dlq": True}
    assert stream.state(messages[0]["partitionId"]) == {"k": 1}
    assert data(stream.pop()) == [3]
    (dead,) = client.get(f"/api/v1/dlq?queue={queue}").json["messages"]
    assert (dead["data"], dead["errorMessage"],
            dead["consumerGroup"]) == (2, "Streaming cycle reported failure", stream.group)


WRONG = {
    "Unknown state_op type: frob": {"state_ops": [{"type": "frob", "key": "k"}]},
    "Unknown ack.status: maybe": {"ack": {"transactionId": "x", "status": "maybe"}},
    "ack.transactionId is required": {"ack": {"leaseId": None}},
    "Message not found": {"ack": {"transactionId": "nobody's"}},
    "Invalid or expired lease": {"ack": {"transactionId": None, "leaseId": "no lease"}},
    "Invalid or expired lease ": {"ack": {"transactionId": None, "leaseId": str(uuid.uuid4())}},
    "Invalid or expired lease  ": {"consumer_group": None},
    "Unknown consumer_group": {"consumer_group": "nobody", "ack": {"transactionId": None}},
    "Unknown query_id": {"query_id": str(uuid.uuid4())},
    "Unknown partition_id": {"partition_id": str(uuid.uuid4())},
    'query_id is no UUID: "zzz"': {"query_id": "zzz"},
}


@pytest.mark.parametrize("error", WRONG)
def test_a_cycle_that_cannot_be_done_leaves_no_trace(client: Client, stream: Stream, queue: str, error: str) -> None:
    client.push(queue, 1, 2, partition="p")
    messages = stream.pop()
    sink = f"{queue}-sink"
    good = stream.body(messages, {"k": 1, "l": 2}, [{"queue": sink, "payload": 1}], ["m"])
    wrong = {**good, **WRONG[error]}
    if "ack" in WRONG[error] and wrong["ack"].get("transactionId", "") is None:
        wrong["ack"] = {**wrong["ack"], "transactionId": messages[-1]["transactionId"]}
    answer = stream.post(wrong)
    assert (answer["success"], answer["error"], answer["state_ops_applied"], answer["push_results"],
            answer["ack_result"]) == (False, error.strip(), 0, [], None)
    assert answer["queueName"] == (None if error == "Unknown partition_id" else queue)
    assert stream.state(messages[0]["partitionId"]) == {} and client.pop(sink) == []
    assert stream.post(good)["success"] and stream.state(messages[0]["partitionId"]) == {"k": 1, "l": 2}


BAD = {
    "state_ops must be an array": {"state_ops": {}},
    "state_ops[1] must be an object": {"state_ops": [{"type": "delete", "key": "k"}, 1]},
    "state_ops[0].key is required": {"state_ops": [{"type": "upsert"}]},
    "state_ops[0].key must be a text": {"state_ops": [{"type": "upsert", "key": 1}]},
    "state_ops[0].key must be a text of at most 2048 bytes": {"state_ops": [{"type": "delete", "key": "k" * 2049}]},
    "state_ops[0].key must be a text of at most 2048 bytes without NUL":
    {"state_ops": [{"type": "delete", "key": "\0"}]},
    "push_items[0].queue is required": {"push_items": [{"payload": 1}]},
    "push_items[0].queue must be": {"push_items": [{"queue": ""}]},
    "push_items[0].partition must be": {"push_items": [{"queue": "q", "partition": "p" * 256}]},
    "push_items[0].traceId must be a UUID": {"push_items": [{"queue": "q", "traceId": "x"}]},
    "push_items[0].deliverAt is not supported": {"push_items": [{"queue": "q", "deliverAt": "2030-01-01T00:00:00Z"}]},
    "push_items[0].delayMs is not supported": {"push_items": [{"queue": "q", "delayMs": 5}]},
    "push_items has more than 10000 elements": {"push_items": [{"queue": "q"}] * 10001},
    "release_lease must be": {"release_lease": "no"},
    "ack must be an object or null": {"ack": []}, "query_id is required": {"query_id": 7},
    "partition_id is required": {"partition_id": ""},
}


@pytest.mark.parametrize("error", BAD)
def test_bad_requests_are_refused(client: Client, stream: Stream, error: str) -> None:
    answer = client.post("/streams/v1/cycle", {**stream.body("1"), **BAD[error]})
    assert answer.status == 400 and answer.json["error"].startswith(error) and answer.json["code"], answer.body


def test_values_are_bounded(client: Client, start_daemon, queue: str) -> None:
    daemon = start_daemon(QUEEND_MAX_BODY_BYTES=1 << 21)
    with daemon.client() as client:
        stream = Stream(client, queue, queue)
        client.push(queue, 1)
        message = stream.pop()[-1]
        large = client.post("/streams/v1/cycle", stream.body([message], {"k": "x" * (1 << 20)}))
        assert large.status == 413 and "state_ops[0].value has more than 1048576 bytes" in large.json["error"]
        half = "x" * 1_000_000
        assert stream.cycle(message["partitionId"], {"a": half, "b": half})["success"]
        assert stream.cycle(message["partitionId"], {"c": half})["success"]
        answer = client.post("/streams/v1/state/get", {"query_id": stream.id, "partition_id": message["partitionId"]})
        assert answer.status == 413 and "request keys" in answer.json["error"]
        assert stream.state(message["partitionId"], keys=["a", "c"]).keys() == {"a", "c"}
        for name, wrong in {"keys": [1], "ripe_at_or_before": "soon", "key_prefix": 1}.items():
            assert client.post("/streams/v1/state/get", {"query_id": stream.id, "partition_id": message["partitionId"],
                                                         name: wrong}).status == 400
        assert client.post("/streams/v1/state/get",
                           {"query_id": "zzz", "partition_id": message["partitionId"]}).status == 400


def test_requests_for_state_are_bounded(client: Client, stream: Stream, queue: str) -> None:
    client.push(queue, 1)
    asked = {"query_id": stream.id, "partition_id": stream.pop()[-1]["partitionId"]}
    many = [f"{n:0150}" for n in range(100_000)]
    assert client.post("/streams/v1/state/get", {**asked, "keys": many}).json["rows"] == []
    answer = client.post("/streams/v1/state/get", {**asked, "note": "x" * (16 << 20)})
    assert answer.status == 413 and "16777216 are allowed" in answer.json["error"]


def test_cycles_of_a_partition_stand_in_line(daemon: Daemon, client: Client, stream: Stream, queue: str) -> None:
    """Each has read before the other: but of one delivery only one cycle counts, and sinks shared by partitions cost no
    deadlock."""
    for partition in "abcdefgh":
        client.push(queue, *range(20), partition=partition)
    counted = []

    def run() -> None:
        with daemon.client() as mine:
            own = Stream(mine, queue, queue)
            while messages := mine.pop(queue, consumerGroup=own.group, batch=3, partitions=1, wait=True, timeout=1000):
                part = messages[0]["partitionId"]
                sum_ = own.state(part).get("sum", 0) + sum(data(messages))
                body = own.body(messages, {"sum": sum_}, [{"queue": f"{queue}-{n}", "partition": str(m["data"] % 5),
                                                           "payload": m["data"]} for m in messages for n in "xy"])
                first, second = own.post(body), own.post(body)
                assert first["success"] and second["error"] == "Invalid or expired lease", (first, second)
                counted.append(len(messages))

    with Crowd() as crowd:
        for _ in range(6):
            crowd.go(run)
    assert sum(counted) == 160
    partitions = client.show(queue).json["partitions"]
    assert [stream.state(one["id"]) for one in partitions] == [{"sum": 190}] * 8
    assert [client.show(f"{queue}-{n}").json["totals"]["total"] for n in "xy"] == [160, 160]


def test_state_goes_with_its_queue(daemon: Daemon, client: Client, stream: Stream, queue: str) -> None:
    client.push(queue, 1)
    messages = stream.pop()
    assert stream.cycle(messages, {"k": 1})["success"]
    client.request("DELETE", f"/api/v1/consumer-groups/{stream.group}")
    assert stream.state(messages[0]["partitionId"]) == {"k": 1}, "the group has no part in the state"
    client.delete(queue)
    assert stream.cycle(messages[0]["partitionId"], {"k": 2})["error"] == "Unknown partition_id"
    until(lambda: stream.state(messages[0]["partitionId"]) == {}, "the state is swept")
    client.push(queue, 2)
    assert Stream(client, queue, queue).id == stream.id and data(stream.pop()) == [2]


def test_a_deleted_sink_is_made_again(client: Client, stream: Stream, queue: str) -> None:
    client.push(queue, 1, 2)
    sink = f"{queue}-sink"
    for number in (1, 2):
        messages = stream.pop(batch=1)
        assert stream.cycle(messages, None, [{"queue": sink, "payload": number}])["success"]
        assert data(client.pop(sink, wait=True, timeout=100_000)) == [number]
        client.delete(sink)


def test_without_a_lease_for_whoever_holds_it(client: Client, stream: Stream, queue: str) -> None:
    client.push(queue, 1, 2, 3)
    messages = stream.pop(batch=2)
    body = stream.body(messages)
    del body["ack"]["leaseId"]
    assert stream.post(body)["success"] and data(held := stream.pop()) == [3]
    assert not client.ack(messages[0], group=stream.group)["success"]
    # a repeat, as after a lost answer, leaves the lease of the consumer that came since
    assert stream.post(body)["success"] and stream.pop() == []
    assert client.ack(held[0], group=stream.group)["success"]


def test_sql_reads_queries_and_state_as_on_the_reference_server(client: Client, daemon: Daemon, queue: str) -> None:
    client.push(queue, 1)
    stream = Stream(client, queue, queue, "sink", "one")
    (message,) = client.pop(queue, consumerGroup="seen", autoAck=True)
    stream.cycle(message["partitionId"], {"k": {"n": 1}})
    with psycopg.connect(daemon.conninfo) as connection:
        assert connection.execute("SELECT id::text, source_queue, sink_queue, config_hash FROM queen_streams.queries"
                                  " WHERE name = %s", (queue,)).fetchall() == [
            (stream.id, queue, "sink", "one")]
        assert connection.execute("SELECT s.partition_id::text, s.key, s.value,"
                                  " s.updated_at > now() - interval '1 hour' FROM queen_streams.state s"
                                  " JOIN queen_streams.queries q ON q.id = s.query_id WHERE q.name = %s",
                                  (queue,)).fetchall() == [
            (message["partitionId"], "k", {"n": 1}, True)]
        assert ("seen",) in connection.execute("SELECT consumer_group FROM queen.consumer_watermarks WHERE queue_name ="
                                               " %s AND last_empty_scan_at = 'epoch'", (queue,)).fetchall()


def test_a_timer_beside_the_consumer_closes_no_window_twice(daemon: Daemon, client: Client, stream: Stream,
                                                            queue: str) -> None:
    """The timer's cycle has no acknowledgment. Both have read the window before either closes it."""
    client.push(queue, 1, 2)
    messages = stream.pop(batch=1)
    partition = messages[0]["partitionId"]
    assert stream.cycle(messages, {"window": 1, "later": 0})["success"]
    closing = stream.body(partition, push=[{"queue": f"{queue}-sink", "payload": "by the timer"}], unsets=["window"],
                          consumer_group=stream.group)
    consumed = stream.pop()
    assert stream.state(partition) == {"window": 1, "later": 0}
    with daemon.client() as timer:
        timer.send("POST", "/streams/v1/cycle", json.dumps(closing).encode())
        assert stream.cycle(consumed, push=[{"queue": f"{queue}-sink", "payload": "by the consumer"}],
                            unsets=["window"])["success"]
        answer = timer.receive().json
        assert answer["success"] and answer["push_results"] == [], answer
    assert data(client.pop(f"{queue}-sink", batch=10, wait=True, timeout=100_000)) == ["by the consumer"]
    assert stream.state(partition) == {"later": 0}

    # alone it closes what it has read
    assert stream.post({**closing, "state_ops": [{"type": "delete", "key": "later"}]})["success"]
    # and what drops keys alone doubles nothing
    assert stream.post({**closing, "push_items": []})["success"]
    assert stream.state(partition) == {}
