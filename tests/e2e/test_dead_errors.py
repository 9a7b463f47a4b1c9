"""Dead letters counted by error and group, and one of them deleted by its place."""
from __future__ import annotations

from urllib.parse import quote, urlencode

from support.client import Client
from support.daemon import Daemon

from queend.control.routes import dead_errors


def fail(client: Client, queue: str, group: str, errors: list[str | None]) -> list[dict]:
    """Makes a dead letter of each error, in this order."""
    client.push(queue, *range(len(errors)))
    taken = client.pop(queue, consumerGroup=group, subscriptionMode="all", batch=len(errors))
    for message, error in zip(taken, errors, strict=True):
        client.ack(message, "dlq", group, **({} if error is None else {"error": error}))
    return taken


def errors(client: Client, **query: object) -> dict:
    answer = client.get(f"/api/v1/dlq/errors?{urlencode(query)}")
    assert answer.status == 200, answer.body
    return answer.json


def test_counts_by_error_and_group(client: Client, queue: str) -> None:
    fail(client, queue, "billing", ["no customer", "timeout", "no customer", "no customer"])
    fail(client, queue, "shipping", ["timeout"])        # of the five messages there are then, one
    found = errors(client, queue=queue)
    assert {(one["consumerGroup"], one["errorMessage"], one["count"]) for one in found["groups"]} == {
        ("billing", "no customer", 3), ("billing", "timeout", 1), ("shipping", "timeout", 1)}
    assert found["groups"][0]["count"] == 3, "the largest first"
    assert (found["total"], found["examined"], found["complete"]) == (3, 5, True)
    listed = [one for one in client.get(f"/api/v1/dlq?queue={quote(queue)}").json["messages"]
              if one["errorMessage"] == "no customer"]
    assert (found["groups"][0]["lastFailedAt"], found["groups"][0]["firstFailedAt"]) == (
        listed[0]["failedAt"], listed[-1]["failedAt"])
    assert [one["errorMessage"] for one in errors(client, queue=queue, consumerGroup="shipping")["groups"]] == [
        "timeout"]
    assert errors(client, queue=queue, error="custom")["examined"] == 3
    short = errors(client, queue=queue, limit=1)
    assert len(short["groups"]) == 1 and short["total"] == 3
    assert errors(client, queue=queue + "-none") == {"groups": [], "total": 0, "examined": 0, "complete": True}


def test_says_when_there_are_more_than_it_examines(daemon: Daemon, client: Client, queue: str) -> None:
    most = dead_errors.EXAMINED_MOST
    for start in range(0, most + 1, 5000):
        client.post("/api/v1/push?format=counts", {"items": [{"queue": queue, "payload": n}
                                                             for n in range(min(5000, most + 1 - start))]})
    left = most + 1
    while left:
        taken = client.pop(queue, batch=1000)
        client.ack_batch([{"transactionId": one["transactionId"], "partitionId": one["partitionId"],
                           "leaseId": one["leaseId"], "status": "dlq", "error": "boom"} for one in taken])
        left -= len(taken)
    assert client.dead(queue) == most + 1
    found = errors(client, queue=queue)
    assert (found["examined"], found["complete"], found["groups"][0]["count"]) == (most, False, most)


def test_one_dead_letter_is_deleted(client: Client, queue: str) -> None:
    fail(client, queue, "billing", ["a", "b"])
    fail(client, queue, "shipping", ["a"])
    one = client.get(f"/api/v1/dlq?queue={quote(queue)}&consumerGroup=shipping").json["messages"][0]

    def delete(**query: object) -> tuple[int, dict]:
        answer = client.request("DELETE", f"/api/v1/dlq?{urlencode({'queue': queue, **query})}")
        return answer.status, answer.json

    place = {"partitionId": one["partitionId"], "offset": one["offset"]}
    assert delete(**place)[0] == 400, "without a group"
    assert delete(**place, consumerGroup="shipping", error="a")[0] == 400, "with another filter"
    assert delete(partitionId="x", offset=0, consumerGroup="shipping")[0] == 400
    assert delete(partitionId=one["partitionId"], offset="-1", consumerGroup="shipping")[0] == 400
    assert delete(offset=0, consumerGroup="shipping")[0] == 400
    assert client.dead(queue) == 3
    assert delete(**place, consumerGroup="shipping") == (200, {"success": True, "queue": queue, "deleted": 1})
    assert delete(**place, consumerGroup="shipping") == (200, {"success": True, "queue": queue, "deleted": 0})
    assert client.dead(queue) == 2, "the dead letter of the other group at this place stays"


def test_exactly_one_error_is_selected(client: Client, queue: str) -> None:
    """A text that an error has in it selects others too: `timeout` those with `timeout of b`."""
    long = "x" * 20_000
    fail(client, queue, "billing", ["timeout", "timeout of b", None, "timeout", long, long + "y"])
    ids = {one["errorMessage"]: one["errorId"] for one in errors(client, queue=queue)["groups"]}
    none = "Retries exhausted"
    assert set(ids) == {"timeout", "timeout of b", none, long, long + "y"} and len(set(ids.values())) == 5
    for error, count in (("timeout", 2), ("timeout of b", 1), (none, 1), (long, 1), (long + "y", 1)):
        found = client.get(f"/api/v1/dlq?{urlencode({'queue': queue, 'errorId': ids[error]})}").json
        assert {one["errorMessage"] for one in found["messages"]} == {error} and found["total"] == count
    first, second = (client.get(f"/api/v1/dlq?{urlencode({'queue': queue, 'errorId': ids['timeout']})}"
                                f"&limit=1&offset={at}").json["messages"] for at in (0, 1))
    assert [one["data"] for one in first + second] == [3, 0], "the newest first"
    answer = client.post("/api/v1/dlq/redrive", {"queue": queue, "errorId": ids["timeout"], "oldest": True, "limit": 1})
    assert (answer.json["redriven"], answer.json["left"]) == (1, True)
    answer = client.post("/api/v1/dlq/redrive", {"queue": queue, "errorId": ids["timeout"]})
    assert (answer.json["redriven"], answer.json["left"]) == (1, False)
    assert [one["data"] for one in client.pop(queue, consumerGroup="billing", batch=9)] == [0, 3]
    for error in (long, none):
        answer = client.request("DELETE", f"/api/v1/dlq?{urlencode({'queue': queue, 'errorId': ids[error]})}")
        assert answer.json["deleted"] == 1
    assert {one["errorMessage"] for one in errors(client, queue=queue)["groups"]} == {"timeout of b", long + "y"}
    answer = client.request("DELETE", f"/api/v1/dlq?{urlencode({'queue': queue, 'errorId': '0'})}")
    assert answer.json["deleted"] == 0 and client.dead(queue) == 2
    assert client.post("/api/v1/dlq/redrive", {"queue": queue, "errorId": 1}).status == 400
