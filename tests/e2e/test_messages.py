"""Messages and dead letters seen, deleted, sent back, while a daemon delivers them."""
from __future__ import annotations

import json
import uuid
from urllib.parse import quote, urlencode

import pytest
from support.client import QUEUE_MODE, Client, ack_of, data
from support.daemon import Daemon
from support.http import Answer
from support.wait import until

BIG = "x" * 5000


@pytest.fixture(scope="module")
def daemon(start_daemon) -> Daemon:
    return start_daemon(QUEEND_COMPRESS_FROM=1024)


def messages(client: Client, **query) -> list[dict]:
    answer = client.get("/api/v1/messages?" + urlencode(query))
    assert answer.status == 200, answer.body
    return answer.json["messages"]


def where(message: dict, last: str = "") -> str:
    return f"/api/v1/messages/{message['partitionId']}/{quote(message['transactionId'], safe='')}{last}"


def dlq(client: Client, **query) -> dict:
    answer = client.get("/api/v1/dlq?" + urlencode(query))
    assert answer.status == 200, answer.body
    return answer.json


def fail(client: Client, queue: str, count: int, **query) -> list[dict]:
    """Takes that many messages and dead-letters each."""
    taken = client.pop(queue, batch=count, **query)
    assert len(taken) == count
    for i, one in enumerate(taken):
        assert client.ack(one, "dlq", query.get("consumerGroup"), lease=False, error=f"bad {i}")["dlq"] is True
    return taken


def test_listed_and_shown(client: Client, queue: str) -> None:
    trace = str(uuid.uuid4())
    client.push(queue, {"n": 0}, {"n": 1}, partition="a", traceId=trace)
    client.push_items([{"queue": queue, "partition": "b", "payload": [BIG], "transactionId": "a text/with ü"}])
    newest, *others = messages(client, queue=queue)
    assert newest["transactionId"] == "a text/with ü" and newest["queuePath"] == f"{queue}/b" and "data" not in newest
    assert [(one["partition"], one["offset"], one["traceId"], one["status"])
            for one in others] == [("a", 1, trace, "pending"), ("a", 0, trace, "pending")]
    shown = client.get(where(newest)).json
    assert shown["payload"] == [BIG] and shown["id"] == newest["id"] and shown["consumerGroups"] == []
    assert shown["mode"]["type"] == "none"
    (taken,) = client.pop(queue, "a")
    shown = client.get(where(taken)).json
    assert shown["status"] == "processing" and shown["payload"] == {"n": 0} and shown["id"] == taken["id"]
    assert shown["leaseExpiresAt"]
    client.ack(taken)
    assert [(one["offset"], one["status"]) for one in messages(client, queue=queue, partition="a")] == [
        (1, "pending"), (0, "completed")]
    assert [one["offset"] for one in messages(client, queue=queue, status="completed")] == [0]
    client.pop(queue, "a", consumerGroup="g", autoAck=True)
    (first,) = messages(client, queue=queue, partition="a", offset=1, limit=1)
    assert first["offset"] == 0 and first["busStatus"] == {"consumedBy": 1, "totalGroups": 1}
    assert first["status"] == "completed"
    assert messages(client, queue=queue, status="failed") == [] == messages(client, queue=f"{queue}-none") == messages(
        client, queue=queue, to="2020-01-01")
    assert len(messages(client, ns=queue.split(".")[0], queue=queue)) == 3
    number = client.get("/api/v1/messages/1/nothing")
    assert number.status == 404 and number.json["error"] == "Message not found"


def test_groups_count_where_they_have_no_cursor(client: Client, queue: str) -> None:
    """A list, a search and the page of a message say the same as the figures of the queue."""
    client.push(queue, "there", partition="b")
    client.pop(queue, "b", consumerGroup="late", autoAck=True)
    client.push(queue, "here", partition="a")
    client.pop(queue, "a", consumerGroup="g", autoAck=True)
    client.pop(queue, "c", consumerGroup="new", subscriptionMode="new")
    for one in messages(client, queue=queue):
        shown = client.get(where(one)).json
        (found,) = client.get("/api/v1/messages/search?" + urlencode(
            {"queue": queue, "text": "here", "partition": one["partition"]})).json["messages"]
        assert one["status"] == shown["status"] == found["status"] == "pending"
        assert one["busStatus"] == {"consumedBy": 2, "totalGroups": 3}
        assert shown["mode"] == {"hasQueueMode": False, "busGroupsCount": 3, "type": "bus", "consumedByGroups": 2}
        assert {group["name"]: group["consumed"] for group in shown["consumerGroups"]} == {
            "g": one["partition"] == "a", "late": one["partition"] == "b", "new": True}
    assert messages(client, queue=queue, status="completed") == []
    totals = client.get(f"/api/v1/resources/queues/{quote(queue)}").json["totals"]
    assert totals["pending"] == len(messages(client, queue=queue, status="pending")) == 2


@pytest.mark.parametrize("group", [None, "g"])
def test_a_lease_holds_what_it_brought(client: Client, queue: str, group: str | None) -> None:
    client.push(queue, 0, 1, 2)
    client.pop(queue, batch=2, **({"consumerGroup": group} if group else {}))
    totals = client.get(f"/api/v1/resources/queues/{quote(queue)}").json["totals"]
    assert (totals["pending"], totals["processing"]) == (1, 2)
    for status, offsets in {"processing": [1, 0], "pending": [2], "completed": []}.items():
        listed = messages(client, queue=queue, status=status)
        assert [one["offset"] for one in listed] == offsets
        assert {client.get(where(one)).json["status"] for one in listed} <= {status}
        assert {one["leaseExpiresAt"] is not None for one in listed} <= {status == "processing" and group is None}


def test_pages_over_everything(client: Client, queue: str) -> None:
    for i in range(20):
        client.push(queue, *range(5), partition=f"p{i}")
    whole = [(one["partition"], one["offset"]) for one in messages(client, queue=queue, limit=1000)]
    assert len(whole) == len(set(whole)) == 100
    paged = [(one["partition"], one["offset"]) for at in range(0, 110, 10)
             for one in messages(client, queue=queue, limit=10, offset=at)]
    assert paged == whole
    anywhere = [one for one in messages(client, limit=1000) if one["queue"] == queue]
    assert [(one["partition"], one["offset"]) for one in anywhere] == whole


@pytest.mark.parametrize("waits", [False, True])
def test_a_deleted_message_is_not_delivered(client: Client, queue: str, waits: bool) -> None:
    """Also not from memory: a group has just consumed what came before, so the rows are kept for it."""
    client.push(queue, "before")
    assert data(client.pop(queue, consumerGroup="g", autoAck=True)) == ["before"]
    client.push(queue, 0, 1, 2, 3)
    last, *_, first = messages(client, queue=queue, limit=4)
    for one in (first, last):
        assert client.request("DELETE", where(one)).json == {
            "success": True, "partitionId": one["partitionId"], "transactionId": one["transactionId"],
            "message": "Message deleted successfully"}
    assert client.request("DELETE", where(first)).json["success"] is False and client.get(where(first)).status == 404
    assert data(client.pop(queue, consumerGroup="g", batch=10, wait=waits, timeout=30000)) == [1, 2]
    assert data(client.pop(queue, batch=10, autoAck=True)) == ["before"]      # up to the first of them
    assert data(client.pop(queue, batch=10, autoAck=True)) == [1, 2]
    assert client.pop(queue, batch=10) == []
    assert [one["offset"] for one in messages(client, queue=queue)] == [3, 2, 0]
    client.push(queue, "after")
    assert data(until(lambda: client.pop(queue, autoAck=True), "the cursor passes the last one")) == ["after"]


def test_a_page_is_full_where_the_newest_were_deleted(client: Client, queue: str) -> None:
    """In a partition each, in rows of one message, and in a row of which some are left."""
    for n in range(5):
        client.push(queue, n, partition=f"p{n}", transactionId=f"apart {n}")
    client.push_items([{"queue": queue, "partition": "row", "payload": n, "transactionId": f"row {n}"}
                       for n in range(4)])
    for n in range(5):
        client.push(queue, n, partition="one", transactionId=f"one {n}")
    for one in messages(client, queue=queue):
        if one["transactionId"] not in ("apart 0", "apart 1", "row 1", "one 0", "one 1"):
            assert client.request("DELETE", where(one)).json["success"]
    left = ["one 1", "one 0", "row 1", "apart 1", "apart 0"]
    assert [one["transactionId"] for one in messages(client, queue=queue, limit=200)] == left
    for limit in (1, 2, 3):
        pages = [messages(client, queue=queue, limit=limit, offset=at) for at in range(0, len(left), limit)]
        assert [one["transactionId"] for page in pages for one in page] == left
        assert all(len(page) == limit for page in pages[:-1])
    assert [one["transactionId"] for one in messages(client, queue=queue, partition="one", limit=1)] == ["one 1"]
    assert [one["transactionId"] for one in messages(client, limit=2)] == left[:2]
    assert [one["transactionId"] for one in messages(client, queue=queue, status="pending", limit=3)] == left[:3]


def test_dead_letters_page_by_page(client: Client, queue: str) -> None:
    client.push(queue, *({"n": n, "big": BIG} for n in range(7)), partition="p")
    taken = fail(client, queue, 7, consumerGroup="g")
    page = dlq(client, queue=queue, limit=3, offset=1)
    assert page["total"] == 7 and page["pagination"] == {"limit": 3, "offset": 1}
    assert [one["data"]["n"] for one in page["messages"]] == [5, 4, 3]
    one = page["messages"][0]
    assert {key: one[key] for key in ("transactionId", "partitionId", "queue", "partition", "consumerGroup",
                                      "errorMessage", "id")} == {
        "transactionId": taken[5]["transactionId"], "partitionId": taken[5]["partitionId"], "queue": queue,
        "partition": "p", "consumerGroup": "g", "errorMessage": "bad 5", "id": taken[5]["id"]}
    assert one["data"]["big"] == BIG
    for nothing in ({"consumerGroup": "h"}, {"partition": "q"}, {"to": "2020-01-01"}, {"from": "2999-01-01"}):
        assert dlq(client, queue=queue, **nothing)["messages"] == []
    assert len(dlq(client, queue=queue, consumerGroup="g", partition="p")["messages"]) == 7
    assert dlq(client, queue=f"{queue}-none") == {"messages": [], "total": 0, "pagination": {"limit": 100, "offset": 0}}
    assert client.get(where(taken[0])).json["status"] == "dead_letter"
    assert client.get(where(taken[0])).json["errorMessage"] == "bad 0"
    client.request("DELETE", f"/api/v1/consumer-groups/g/queues/{quote(queue, safe='')}")
    assert {one["consumerGroup"] for one in dlq(client, queue=queue)["messages"]} == {"g"}      # outlives its group
    # as the command line drains it: list, delete each, list again
    while left := dlq(client, queue=queue, limit=2)["messages"]:
        for one in left:
            assert client.request("DELETE", where(one)).json["success"] is True
    assert client.dead(queue) == 0


def test_retry_makes_a_new_message(client: Client, queue: str) -> None:
    trace = str(uuid.uuid4())
    client.push(queue, {"n": 1, "big": BIG}, partition="p", traceId=trace)
    (taken,) = fail(client, queue, 1)
    assert client.pop(queue) == []
    told = client.post(where(taken, "/retry"), {})
    assert told.status == 200 and told.json["success"] is True
    (again,) = until(lambda: client.pop(queue, "p"), "it is there again")
    assert again["data"] == {"n": 1, "big": BIG} and again["traceId"] == trace
    assert again["transactionId"] == told.json["newTransactionId"] != taken["transactionId"]
    assert dlq(client, queue=queue)["total"] == 0
    assert client.post(where(taken, "/retry"), {}).status == 404


def test_into_the_dead_letters_and_back(client: Client, queue: str) -> None:
    client.configure(queue)
    assert client.pop(queue, consumerGroup="g") == []
    client.push(queue, 0, 1, 2)
    one = messages(client, queue=queue)[1]
    told = client.post(where(one, "/dlq"), {"error": "poison", "consumerGroup": "g"})
    assert told.json == {"success": True, "partitionId": one["partitionId"], "transactionId": one["transactionId"],
                         "consumerGroup": "g", "moved": True}
    assert client.post(where(one, "/dlq")).json["moved"] is False
    assert data(client.pop(queue, batch=5, autoAck=True)) == [0]
    assert data(client.pop(queue, batch=5, autoAck=True)) == [2]
    (dead,) = dlq(client, queue=queue)["messages"]
    assert (dead["data"], dead["errorMessage"], dead["consumerGroup"]) == (1, "poison", "g")
    shown = client.get(where(one)).json
    assert (shown["status"], shown["payload"], shown["errorMessage"]) == ("dead_letter", 1, "poison")
    assert client.post("/api/v1/dlq/redrive",
                       {"queue": queue}).json == {"success": True, "queue": queue, "redriven": 1, "left": False}
    assert data(until(lambda: client.pop(queue, batch=5, autoAck=True), "it is back")) == [1]


@pytest.mark.parametrize("named", ["id", "names"])
def test_burying_makes_no_group(client: Client, queue: str, named: str) -> None:
    """A group that nobody reads for would have a backlog for ever and keep retention from completed messages."""
    client.push(queue, *range(5))
    assert data(client.pop(queue, batch=5, autoAck=True, consumerGroup="billing")) == list(range(5))
    first, second = messages(client, queue=queue)[:2]

    def bury(one: dict, **body) -> Answer:
        at = where(one) if named == "id" else (
            f"/api/v1/queues/{queue}/partitions/{one['partition']}/messages/{one['transactionId']}")
        return client.post(f"{at}/dlq", body)
    refused = bury(first, consumerGroup="biling")
    assert refused.status == 404
    assert refused.json == {"error": "Consumer group not found", "code": "group_not_found"}
    assert client.dead(queue) == 0
    assert bury(first).json["consumerGroup"] == QUEUE_MODE
    assert bury(second, consumerGroup=QUEUE_MODE).json["moved"] is True
    assert bury(first, consumerGroup="biling").json["moved"] is False      # it is a dead letter already
    assert [one["name"] for one in client.get(f"/api/v1/consumer-groups?queue={queue}").json] == ["billing"]
    assert [one["consumerGroup"] for one in dlq(client, queue=queue, consumerGroup=QUEUE_MODE)["messages"]] == [
        QUEUE_MODE] * 2
    totals = client.get(f"/api/v1/status/queues/{queue}").json["totals"]
    assert (totals["pending"], totals["processing"], totals["deadLetter"]) == (0, 0, 2)
    (shown,) = client.get(f"/api/v1/dlq?queue={queue}&limit=1").json["messages"]
    told = client.post("/api/v1/dlq/redrive", {"queue": queue, "messages": [
        {key: shown[key] for key in ("partitionId", "offset", "consumerGroup")}]})
    assert told.json["redriven"] == 1
    assert client.post("/api/v1/dlq/redrive", {"queue": queue, "consumerGroup": QUEUE_MODE}).json["redriven"] == 1
    assert sorted(data(client.pop(queue, batch=5, autoAck=True, consumerGroup="billing"))) == [3, 4]


def test_what_was_buried_without_a_group_keeps_its_name(client: Client, queue: str) -> None:
    """The dead letter is the queue mode's, whether its group is made and deleted later or not."""
    client.push(queue, 0, 1)
    one = messages(client, queue=queue)[-1]
    assert client.post(where(one, "/dlq"), {"error": "poison"}).json["moved"] is True
    assert data(client.pop(queue)) == [1]
    for _ in range(2):
        (dead,) = dlq(client, queue=queue, consumerGroup=QUEUE_MODE)["messages"]
        assert (dead["consumerGroup"], dead["data"], dead["errorMessage"]) == (QUEUE_MODE, 0, "poison")
        assert client.request("DELETE", f"/api/v1/consumer-groups/{QUEUE_MODE}/queues/{queue}").status == 200


def test_redrive_by_filter_in_order(client: Client, queue: str) -> None:
    for partition in "ab":
        client.push(queue, *(f"{partition}{n}" for n in range(250)), partition=partition)
        fail(client, queue, 250, partition=partition, consumerGroup=f"g-{partition}")
    told = client.post("/api/v1/dlq/redrive",
                       {"queue": queue, "limit": 1, "targetQueue": f"{queue}-one", "targetPartition": "x"}).json
    assert told["redriven"] == 1 and told["left"] is True
    (one,) = until(lambda: client.pop(f"{queue}-one", "x", autoAck=True), "it is in the other queue")
    with client.__class__(client.address) as waiting:
        waiting.send("GET", f"/api/v1/pop/queue/{quote(queue, safe='')}-other"
                            "?wait=true&timeout=30000&batch=1000&partitions=10&autoAck=true")
        told = client.post("/api/v1/dlq/redrive",
                           {"queue": queue, "partition": "a", "targetQueue": f"{queue}-other"}).json
        got = data(waiting.receive().json["messages"])
    while len(got) < told["redriven"]:
        got += data(until(lambda: client.pop(f"{queue}-other", "a", batch=1000, autoAck=True), "the rest"))
    assert got == [value for value in (f"a{n}" for n in range(250)) if value != one["data"]]
    assert client.post("/api/v1/dlq/redrive", {"queue": queue, "from": "2999-01-01"}).json["redriven"] == 0
    left = dlq(client, queue=queue)["total"]
    purged = client.request("DELETE", f"/api/v1/dlq?queue={quote(queue, safe='')}&consumerGroup=g-b").json
    assert purged == {"success": True, "queue": queue, "deleted": left} and dlq(client, queue=queue)["total"] == 0


def test_two_redrives_store_nothing_twice(client: Client, daemon: Daemon, queue: str) -> None:
    client.push(queue, *range(600))
    fail(client, queue, 600)
    body = json.dumps({"queue": queue, "targetQueue": f"{queue}-out"}).encode()
    with daemon.client() as one, daemon.client() as other:
        for each in (one, other):
            each.send("POST", "/api/v1/dlq/redrive", body)
        assert sum(each.receive().json["redriven"] for each in (one, other)) == 600
    seen: list = []
    while len(seen) < 600:
        seen += data(until(lambda: client.pop(f"{queue}-out", batch=1000, autoAck=True), "more of them"))
    assert sorted(seen) == list(range(600)) and client.pop(f"{queue}-out") == []


@pytest.mark.parametrize("method, target, body, error", [
    ("GET", "/api/v1/messages?status=bogus", None, "status must be one of"),
    ("GET", "/api/v1/messages?from=garbage", None, "from must be a time"),
    ("GET", "/api/v1/messages?to=garbage", None, "to must be a time"),
    ("GET", "/api/v1/messages?queue=a%00b", None, "queue contains a NUL"),
    ("GET", "/api/v1/dlq?from=garbage", None, "from must be a time"),
    ("GET", "/api/v1/messages/%ff/x", None, "path is not valid UTF-8"),
    ("DELETE", "/api/v1/dlq", None, "queue is required"),
    ("POST", "/api/v1/dlq/redrive", {}, "queue is required"),
    ("POST", "/api/v1/dlq/redrive", {"queue": 5}, "queue must be a text"),
    ("POST", "/api/v1/dlq/redrive", {"queue": "q", "limit": 0}, "limit must be"),
    ("POST", "/api/v1/dlq/redrive", {"queue": "q", "targetQueue": ""}, "targetQueue is empty"),
    ("POST", "/api/v1/dlq/redrive", {"queue": "q", "to": "x"}, "to must be a time"),
    ("POST", "/api/v1/messages/1/x/dlq", {"error": 5}, "error must be a text"),
])
def test_bad_requests_name_what_is_wrong(client: Client, method: str, target: str, body: object, error: str) -> None:
    answer = client.request(method, target, body)
    assert answer.status == 400 and answer.json["error"].startswith(error), answer.body


@pytest.mark.parametrize("method, last", [("GET", ""), ("POST", "/retry"), ("POST", "/dlq")])
@pytest.mark.parametrize("partition", ["abc", "99999999999", "1999999999", "7f82f3dc-3dfe-451b-b7e9-da068cc8fd55"])
def test_what_is_not_there_is_404(client: Client, method: str, last: str, partition: str) -> None:
    answer = client.request(method, f"/api/v1/messages/{partition}/x{last}")
    assert answer.status == 404 and answer.json == {"error": "Message not found", "code": "message_not_found"}
    assert client.request("DELETE", f"/api/v1/messages/{partition}/x").json["success"] is False


def test_ack_by_list_of_what_is_left(client: Client, queue: str) -> None:
    """A window with a deleted message in it is acknowledged to its end and released."""
    client.push(queue, *range(6))
    client.request("DELETE", where(messages(client, queue=queue)[3]))
    got = client.pop(queue, batch=10)
    assert data(got) == [0, 1]
    assert [one["success"] for one in client.ack_batch([ack_of(m) for m in got])] == [True, True]
    got = client.pop(queue, batch=10)
    assert data(got) == [3, 4, 5] and client.ack_batch([ack_of(m) for m in got])[-1]["leaseReleased"] is True


def test_dead_letters_are_listed_from_their_table(client: Client, queue: str) -> None:
    """Each once, whoever gave it up, page by page, and also when the log has them no more."""
    client.push(queue, *range(7), partition="p")
    for group, times in (("a", 7), ("b", 3)):
        client.ack_batch([ack_of(one, "dlq") for one in client.pop(queue, "p", consumerGroup=group, batch=times)],
                         group)
    target = f"/api/v1/messages?queue={quote(queue)}&status=dead_letter"

    def listed(more: str) -> list[int]:
        pages = [client.get(f"{target}{more}&limit=2&offset={at}").json["messages"] for at in range(0, 10, 2)]
        assert all(one["status"] == "dead_letter" and one["partition"] == "p" for page in pages for one in page)
        return sorted(one["offset"] for page in pages for one in page)

    assert listed("") == listed("&partition=p") == [*range(7)]
    assert client.request("DELETE", f"/api/v1/queues/{quote(queue)}/clear").json["count"] == 7
    assert listed("") == listed("&partition=p") == [*range(7)]
    assert client.get(f"{target}&to=2020-01-01T00:00:00Z").json["messages"] == []


def test_a_clear_takes_what_waits_for_its_moment_and_what_stands_behind_it(client: Client, queue: str) -> None:
    client.post("/api/v1/push", {"items": [{"queue": queue, "payload": "later", "delayMs": 3_600_000}]})
    client.push(queue, "behind")
    client.push(queue, "elsewhere", partition="p")
    assert client.request("DELETE", f"/api/v1/queues/{quote(queue)}/clear?partition=Default").json["count"] == 2
    assert client.get(f"/api/v1/messages/scheduled?queue={quote(queue)}").json["scheduled"] == []
    assert messages(client, queue=queue)[0]["partition"] == "p"
    assert client.request("DELETE", f"/api/v1/queues/{quote(queue)}/clear").json["count"] == 1
    client.push(queue, "new")
    assert data(client.pop(queue, batch=9)) == ["new"]


def test_a_list_of_ten_thousand(client: Client, queue: str) -> None:
    """As the reference's command line asks for it."""
    client.push(queue, *range(1100))
    assert len(client.get(f"/api/v1/messages?queue={queue}&limit=10000").json["messages"]) == 1100
