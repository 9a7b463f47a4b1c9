"""Pops: what is asked for, and the answers."""
import json
import uuid
from datetime import datetime, timezone

import pytest
from hypothesis import given, settings, strategies as st

from queend._core import probe_pop, probe_pop_empty, probe_pop_reply, ProbeRefused

QUEUE = b"/api/v1/pop/queue/q"
PARTITION = b"/api/v1/pop/queue/q/partition/p"
ANY = b"/api/v1/pop"
UUIDS = [str(uuid.UUID(int=n)).encode() for n in range(1, 9)]
DEFAULTS = {"queue": "q", "partition": None, "group": "__QUEUE_MODE__", "namespace": None, "task": None,
            "batch": 1, "partitions": 1,
            "timeout": 30000, "wait": False, "auto_ack": False, "autopilot": False, "batch_given": False,
            "partitions_given": False, "new": False, "from": None}


def refused(path, query=b""):
    with pytest.raises(ProbeRefused) as caught:
        probe_pop(path, query)
    assert caught.value.status == 400
    return caught.value.text


def test_defaults():
    assert probe_pop(QUEUE) == DEFAULTS
    assert probe_pop(QUEUE, b"", {"timeout": 7, "batch": 9}) == DEFAULTS | {"timeout": 7, "batch": 9}


def test_everything_given():
    query = (b"batch=5&wait=true&timeout=1000&consumerGroup=g%201&autoAck=1&partitions=3"
             b"&subscriptionMode=new&namespace=x&frames=true")
    assert probe_pop(QUEUE, query) == DEFAULTS | {
        "batch": 5, "batch_given": True, "wait": True, "timeout": 1000, "group": "g 1",
        "auto_ack": True, "partitions": 3, "partitions_given": True, "new": True}


@pytest.mark.parametrize("query, batch", [
    (b"batch=", 1), (b"batch=abc", 1), (b"batch=0", 1), (b"batch=-5", 1), (b"batch=10abc", 10),
    (b"batch=%20+7", 7), (b"batch=%2B8", 8),
    (b"batch=99999999999", 1), (b"batch=100000", 10000), (b"batch=3&batch=4", 3)])
def test_batches_are_lenient_and_bounded(query, batch):
    assert probe_pop(QUEUE, query)["batch"] == batch


@pytest.mark.parametrize("query, wait", [(b"wait=true", True), (b"wait=1", True), (b"wait=TRUE", False),
                                         (b"wait=yes", False), (b"wait=", False), (b"wait", False)])
def test_truth(query, wait):
    assert probe_pop(QUEUE, query)["wait"] is wait


def test_the_partition_route_takes_one_partition():
    asked = probe_pop(PARTITION, b"partitions=9&autopilot=true")
    assert (asked["partition"], asked["partitions"], asked["partitions_given"]) == ("p", 1, True)


def test_an_empty_partition_name_is_a_name():
    assert probe_pop(b"/api/v1/pop/queue/q/partition/")["partition"] == ""


def test_autopilot_chooses_what_is_not_given():
    asked = probe_pop(QUEUE, b"autopilot=true&wait=true")
    assert asked["batch"] == 200 and not asked["batch_given"] and not asked["partitions_given"]
    asked = probe_pop(QUEUE, b"autopilot=true&batch=7&partitions=1")
    assert asked["batch"] == 7 and asked["batch_given"] and asked["partitions"] == 1 and asked["partitions_given"]


def test_partitions_are_bounded():
    assert probe_pop(QUEUE, b"partitions=1000")["partitions"] == 1000
    assert probe_pop(QUEUE, b"partitions=1001")["partitions"] == 1000, "of a daemon that is not strict"


def test_timeouts_end_before_two_minutes():
    assert probe_pop(QUEUE, b"timeout=900000")["timeout"] == 115000
    assert probe_pop(QUEUE, b"timeout=-1")["timeout"] == -1


def test_both_names_of_auto_ack():
    assert probe_pop(QUEUE, b"commitOnDelivery=true")["auto_ack"]


def test_an_empty_group_is_queue_mode():
    assert probe_pop(QUEUE, b"consumerGroup=")["group"] == "__QUEUE_MODE__"


@pytest.mark.parametrize("query, new, since", [
    (b"subscriptionMode=new", True, None), (b"subscriptionMode=new-only", True, None),
    (b"subscriptionMode=all", False, None),
    (b"subscriptionMode=from_beginning", False, None), (b"subscriptionFrom=now", True, None),
    (b"subscriptionMode=all&subscriptionFrom=now", True, None),
    (b"subscriptionFrom=2026-01-02T03:04:05Z", False, 1767323045000000),
    (b"subscriptionFrom=2026-01-02T03:04:05+00:00&subscriptionMode=new", False, 1767323045000000),
    (b"subscriptionFrom=garbage", False, None), (b"subscriptionFrom=garbage&subscriptionMode=new", False, None)])
def test_where_a_new_group_begins(query, new, since):
    asked = probe_pop(QUEUE, b"consumerGroup=g&" + query)
    assert (asked["new"], asked["from"]) == (new, since)
    asked = probe_pop(QUEUE, query)
    assert (asked["new"], asked["from"]) == (False, None), "queue mode begins at the oldest message"


def test_the_operators_default_start():
    new = {"new": True}
    assert probe_pop(QUEUE, b"consumerGroup=g", new)["new"]
    assert not probe_pop(QUEUE, b"consumerGroup=g&subscriptionMode=all", new)["new"]
    assert not probe_pop(QUEUE, b"", new)["new"]


def test_namespace_and_task():
    assert probe_pop(ANY, b"namespace=n")["namespace"] == "n"
    assert probe_pop(ANY, b"task=t&namespace=")["task"] == "t"
    assert refused(ANY) == refused(ANY, b"namespace=&task=") == "namespace or task is required"


def test_a_queue_in_the_query():
    assert probe_pop(ANY, b"queue=q&batch=3") == probe_pop(b"/api/v1/pop/queue/q", b"batch=3")
    assert (probe_pop(ANY, b"partition=a%2Fb&queue=q&partitions=7")
            == probe_pop(b"/api/v1/pop/queue/q/partition/a%2Fb", b"partitions=7"))
    assert probe_pop(ANY, b"queue=&partition=&task=t")["queue"] == ""
    assert refused(ANY, b"partition=p&task=t") == "queue is required with partition"
    assert refused(ANY, b"queue=q&task=t") == "queue cannot be combined with namespace or task"
    assert refused(ANY, b"queue=%ff") == "queue must be valid text of at most 255 bytes"
    assert refused(ANY, b"queue=q&partition=" + b"x" * 256) == "partition must be valid text of at most 255 bytes"


def test_refusals():
    alone = "conflation needs a consumerGroup: a group of a queue conflates, not one pop"
    assert refused(QUEUE, b"conflation=true") == alone
    assert refused(QUEUE, b"conflation=true&consumerGroup=__QUEUE_MODE__") == alone
    assert refused(QUEUE, b"conflation=true&consumerGroup=g&autoAck=true") == (
        "conflation cannot be combined with autoAck: the newest message is acknowledged")
    assert probe_pop(QUEUE, b"conflation=true&consumerGroup=g&partitions=7")["batch"] == 7
    assert refused(QUEUE, b"consumerGroup=" + b"x" * 256) == "consumerGroup must be valid text of at most 255 bytes"
    assert refused(b"/api/v1/pop/queue/"
                   + b"x" * 256) == "The queue name in the path must be valid text of 1 to 255 bytes"
    assert refused(QUEUE, b"format=xml") == refused(QUEUE, b"format=%ff") == "format must be json or cloudevents"
    assert refused(ANY, b"namespace=%ff") == "namespace must be valid text of at most 255 bytes"
    assert probe_pop(QUEUE, b"namespace=%ff&task=" + b"x" * 256) == DEFAULTS, "of pops that name no queue"
    assert refused(PARTITION + b"x" * 255) == "The partition name in the path must be valid text of at most 255 bytes"


# ---- answers ---------------------------------------------------------------------------------------------------------

def message(**given):
    return {"id": bytes(16), "record_id": uuid.UUID(int=5).bytes, "payload": b'{"n":1}', "partition": b"p",
            "partition_uuid": UUIDS[0],
            "lease": UUIDS[1], "attempt": 1, "offset": 0, "created_us": 1767323045678901} | given


def test_a_delivery():
    answer = json.loads(probe_pop_reply(QUEUE, b"consumerGroup=g%22", b"orders", [message(
        txid='ord"1'.encode(), trace=uuid.UUID(int=7).bytes, sub="Zoë\n".encode(), attempt=3, offset=41,
        payload=b'[1, {"a":"\\ud800"}]')]))
    lease, partition = UUIDS[1].decode(), UUIDS[0].decode()
    assert answer == {
        "success": True, "queue": "orders", "partition": "p", "partitionId": partition, "leaseId": lease,
        "consumerGroup": 'g"', "partitionsClaimed": 1,
        "messages": [{"id": str(uuid.UUID(int=0)), "transactionId": 'ord"1', "traceId": str(uuid.UUID(int=7)),
                      "data": [1, {"a": "\ud800"}],
                      "producerSub": "Zoë\n", "createdAt": "2026-01-02T03:04:05.678901Z", "partitionId": partition,
                      "partition": "p", "leaseId": lease,
                      "consumerGroup": 'g"', "queue": "orders", "offset": 41, "deliveryAttempt": 3}]}


def test_the_id_is_the_transaction_id_unless_a_text_was_kept():
    found, = json.loads(probe_pop_reply(QUEUE, b"", b"q", [message(lease=b"")]))["messages"]
    assert found["transactionId"] == str(uuid.UUID(int=5)) and found["traceId"] is None and found["producerSub"] is None
    assert found["leaseId"] == ""


def test_payloads_come_back_byte_for_byte():
    payload = b'{"a":1,"a":2, "big":123456789012345678901234567890.5e-7,"u":"\\u0000\\ud800"}'
    assert payload in probe_pop_reply(QUEUE, b"", b"q", [message(payload=payload)])


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
a_message = st.fixed_dictionaries({
    "id": st.binary(min_size=16, max_size=16), "record_id": st.binary(min_size=16, max_size=16),
    "txid": texts, "sub": texts,
    "trace": st.none() | st.binary(min_size=16, max_size=16),
    "payload": st.sampled_from([b"null", b"1", b'"x"', b"{}"]) | texts.map(lambda t: json.dumps(t).encode()),
    "place": st.integers(0, 3), "attempt": st.integers(1, 3), "offset": st.integers(0, 2**42),
    "created_us": st.integers(0, 4 * 10**15) | st.just(0)})


@settings(max_examples=200)
@given(st.lists(a_message, min_size=1, max_size=12), texts, texts, st.booleans())
def test_many_messages_of_many_partitions(messages, queue, partition, leased):
    # what is kept from one message to the next never shows in the wrong one
    given_messages = [m | {"txid": m["txid"].encode(), "sub": m["sub"].encode(),
                           "partition": f"{partition}{m['place']}".encode(),
                           "partition_uuid": UUIDS[m["place"]], "lease": UUIDS[5] if leased else b""} for m in messages]
    answer = json.loads(probe_pop_reply(QUEUE, b"autopilot=true", queue.encode(), given_messages))
    assert answer["autopilot"] == {"partitions": 1, "batch": 200}
    assert answer["messages"] == [{
        "id": str(uuid.UUID(bytes=m["id"])), "transactionId": m["txid"] or str(uuid.UUID(bytes=m["record_id"])),
        "traceId": str(uuid.UUID(bytes=m["trace"])) if m["trace"] else None, "data": json.loads(m["payload"]),
        "producerSub": m["sub"] or None,
        "createdAt": datetime.fromtimestamp(m["created_us"] // 10**6, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
        + f".{m['created_us'] % 10**6:06}Z",
        "partitionId": UUIDS[m["place"]].decode(), "partition": f"{partition}{m['place']}",
        "leaseId": UUIDS[5].decode() if leased else "",
        "consumerGroup": "__QUEUE_MODE__", "queue": queue, "deliveryAttempt": m["attempt"],
        "offset": m["offset"]} for m in messages]


NOTHING = {"queue": "q", "partition": "p", "consumerGroup": "__QUEUE_MODE__", "messages": [], "success": True}


@pytest.mark.parametrize("path, query, why, answer", [
    (QUEUE, b"", "no_partition", {"success": False, "error": "no_available_partition", "messages": []}),
    (PARTITION, b"", "not_found", {"success": False, "error": "partition_not_found", "messages": []}),
    (PARTITION, b"", "lease_held", {"success": False, "error": "lease_held", "messages": []}),
    (PARTITION, b"", "window", NOTHING | {"partitionId": UUIDS[0].decode(), "leaseId": "", "windowBufferActive": True}),
    (PARTITION, b"", "nothing", NOTHING | {"partitionId": UUIDS[0].decode(), "leaseId": "", "partitionsClaimed": 0}),
    (PARTITION, b"wait=true", "expired", NOTHING | {"partitionId": None, "leaseId": None}),
    (QUEUE, b"wait=true", "expired", NOTHING | {"partition": "", "partitionId": None, "leaseId": None}),
    (QUEUE, b"wait=true&timeout=0", "no_partition", NOTHING | {"partition": "", "partitionId": None, "leaseId": None}),
    (ANY, b"task=t&wait=true&consumerGroup=g", "expired",
     NOTHING | {"queue": "", "partition": "", "consumerGroup": "g", "partitionId": None, "leaseId": None}),
    (QUEUE, b"autopilot=true", "no_partition", {"success": False, "error": "no_available_partition", "messages": [],
                                                "autopilot": {"partitions": 1, "batch": 200}}),
])
def test_empty_answers(path, query, why, answer):
    assert json.loads(probe_pop_empty(path, query, why, UUIDS[0])) == answer | {"reason": "empty"}
