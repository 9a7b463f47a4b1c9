"""maxSize: what a queue does not hold any more of, item by item, in every form of a push, from several clients and
daemons."""
from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import psycopg
import pytest
from support.client import Client
from support.daemon import Daemon
from support.frames import KIND, form_a, form_b, framed_group, group_a
from support.wait import until

FULL = "The queue is full: it holds its maxSize of {} messages"


def kinds(answers: list[dict]) -> dict[str, int]:
    return dict(Counter(one["status"] for one in answers))


def into_room(push: Callable[[], list[dict]]) -> dict[str, int]:
    """Pushes into a queue of which something was consumed. A slow look at the sizes is believed for ten times as long
    as it took: until then all is refused."""
    def look() -> dict[str, int] | None:
        seen = kinds(push())
        return seen if "queued" in seen else None
    return until(look, "there is room again")


def pushed(client: Client, queue: str) -> int:
    """The messages pushed to a queue, as the statistics count them."""
    series = client.get(f"/api/v1/analytics/queue-ops?queue={quote(queue)}").json["series"]
    return sum(row["pushMessages"] for row in series)


def stored(client: Client, queue: str) -> int:
    return client.show(queue).json["totals"]["total"]


def test_what_does_not_fit_is_refused_item_by_item(client: Client, queue: str) -> None:
    other = queue + "-unbounded"
    client.configure(queue, maxSize=3)
    client.push(other, "whoever learns of a change while it stores goes by partitions")
    items = [{"queue": name, "partition": f"p{i % 2}", "payload": i} for i in range(5) for name in (queue, other)]
    answers = client.push_items(items)
    assert [one["index"] for one in answers] == list(range(10))
    assert [one["status"] for one in answers if one["queueName"] == other] == ["queued"] * 5
    bounded = [one for one in answers if one["queueName"] == queue]
    assert [one["status"] for one in bounded] == ["queued"] * 3 + ["failed"] * 2
    assert all(one["error"] == FULL.format(3) and one["code"] == "queue_full" and one["transaction_id"]
               for one in bounded[3:])
    assert kinds(client.push(queue, "again")) == {"failed": 1}      # all of a request: the answer is the same
    assert stored(client, queue) == 3 and stored(client, other) == 6


def test_what_is_stored_already_is_a_duplicate_also_where_there_is_no_room(client: Client, queue: str) -> None:
    def items(ids: list[str], partition: str) -> list[dict]:
        return [{"queue": queue, "partition": partition, "payload": i, "transactionId": one}
                for i, one in enumerate(ids)]

    client.configure(queue, maxSize=203)
    # of so many the daemon remembers the ids
    texts, random = ["a", "b", "c"], [str(uuid.uuid4()) for _ in range(200)]
    first = client.push_items(items(texts, "p")) + client.push_items(items(random[:100], "q")) + client.push_items(
        items(random[100:], "q"))
    assert kinds(first) == {"queued": 203}
    again = client.push_items(items([*texts, "d"], "p"))
    assert [one["status"] for one in again] == ["duplicate"] * 3 + ["failed"] and again[3]["code"] == "queue_full"
    assert [one["message_id"] for one in again[:3]] == [one["message_id"] for one in first[:3]]
    assert kinds(client.push_items(items([*random, *(str(uuid.uuid4()) for _ in range(50))], "q"))) == {
        "duplicate": 200, "failed": 50}
    client.pop(queue, "p", batch=1, autoAck=True)
    until(lambda: [one["status"] for one in client.push_items(items(["d", "b", "e"], "p"))] == [
        "queued", "duplicate", "failed"], "there is room again")
    keyed = {"Idempotency-Key": "once"}
    client.pop(queue, "p", batch=2, autoAck=True)
    assert into_room(lambda: client.push(queue, 0)) == {"queued": 1}
    sent = [client.request("POST", "/api/v1/push", {"items": [{"queue": queue, "partition": "p", "payload": 1}]},
                           keyed) for _ in range(2)]
    assert [answer.json[0]["status"] for answer in sent] == ["queued"] * 2 and sent[0].json == sent[1].json


def test_a_bound_counts_from_the_next_push_on(client: Client, queue: str) -> None:
    items = [{"queue": queue, "partition": f"p{i % 2}", "payload": i} for i in range(9)]
    for most in (5, 4, 3):      # falling: with an earlier look at the size, all would be refused
        client.configure(queue, maxSize=most)
        assert into_room(lambda: client.push_items(items)) == {"queued": most, "failed": 9 - most}
        if most > 3:
            assert len(client.pop(queue, batch=9, partitions=2, autoAck=True)) == most
    client.configure(queue, maxSize=5)
    assert kinds(client.push_items(items)) == {"queued": 2, "failed": 7}


def test_room_is_there_again_when_something_is_consumed(client: Client, queue: str) -> None:
    client.configure(queue, maxSize=10)
    for turn in range(5):
        assert into_room(lambda: client.push(queue, *range(12))) == {"queued": 10, "failed": 2}, turn
        messages = client.pop(queue, batch=4)
        assert kinds(client.push(queue, "leased messages take room")) == {"failed": 1}
        client.ack_batch([{"transactionId": m["transactionId"], "partitionId": m["partitionId"],
                           "status": "completed"} for m in messages])
        assert into_room(lambda: client.push(queue, *range(5))) == {"queued": 4, "failed": 1}
        assert len(client.pop(queue, batch=20, autoAck=True)) == 10
    client.configure(queue, maxSize=None)
    assert kinds(client.push(queue, *range(50))) == {"queued": 50}


def test_the_slowest_group_counts(client: Client, queue: str) -> None:
    client.configure(queue, maxSize=4)
    assert kinds(client.push(queue, *range(4))) == {"queued": 4}
    assert len(client.pop(queue, batch=4, autoAck=True, consumerGroup="quick")) == 4
    assert len(client.pop(queue, batch=1, autoAck=True, consumerGroup="slow")) == 1
    assert into_room(lambda: client.push(queue, 4, 5)) == {"queued": 1, "failed": 1}
    assert client.request("DELETE", "/api/v1/consumer-groups/slow").status == 200
    assert into_room(lambda: client.push(queue, *range(5))) == {"queued": 3, "failed": 2}


def test_duplicates_take_no_room(client: Client, queue: str) -> None:
    client.configure(queue, maxSize=3)
    one = {"queue": queue, "payload": 1, "transactionId": "same"}
    assert kinds(client.push_items([one, one])) == {"queued": 1, "duplicate": 1}
    assert kinds(client.push_items([one])) == {"duplicate": 1}
    assert kinds(client.push(queue, 2, 3, 4)) == {"queued": 2, "failed": 1}
    assert kinds(client.push_items([one])) == {"duplicate": 1}      # also where there is none


def test_many_clients_fill_it_exactly(daemon: Daemon, client: Client, queue: str) -> None:
    client.configure(queue, maxSize=1000)

    def work(number: int) -> Counter:
        with daemon.client() as one:
            return sum((Counter(kinds(one.push(queue, *range(7), partition=f"p{(number + i) % 5}")))
                        for i in range(25)), Counter())
    with ThreadPoolExecutor(8) as pool:
        got = sum(pool.map(work, range(8)), Counter())
    # what is on its way while sizes are asked for counts twice, for that long: the last few may be refused early
    assert got["queued"] + got["failed"] == 1400 and got["queued"] == stored(client, queue) <= 1000
    until(lambda: client.push(queue, *range(1001 - stored(client, queue))) and stored(client, queue) == 1000,
          "it is full")
    assert kinds(client.push(queue, 0)) == {"failed": 1}


@pytest.mark.parametrize("form", ["json", "ndjson", "counts", "plain frames", "framed"])
def test_every_form_of_a_push_answers(client: Client, queue: str, form: str) -> None:
    """A run of which a part fits is cut."""
    client.configure(queue, maxSize=25)
    payloads = [f'{{"n":{i}}}' for i in range(40)]
    if form == "plain frames":
        answer = client.request("POST", "/api/v1/push",
                                form_a(group_a([one.encode() for one in payloads], queue=queue), flags=0), KIND)
    elif form == "framed":
        answer = client.request("POST", "/api/v1/push",
                                form_b(framed_group(queue, "p", [{"n": i} for i in range(40)])[0]), KIND)
    elif form == "json":
        body = '{"items":[' + ",".join(f'{{"queue":"{queue}","payload":{one}}}' for one in payloads) + "]}"
        answer = client.request("POST", "/api/v1/push", body.encode())
    else:
        body = "\n".join(f'{{"queue":"{queue}","payload":{one}}}' for one in payloads)
        answer = client.request("POST", "/api/v1/push" + ("?format=counts" if form == "counts" else ""), body.encode(),
                                {"Content-Type": "application/x-ndjson"})
    assert answer.status == 201, answer.body
    if form == "counts":
        assert (answer.json["queued"], answer.json["error"]) == (25, 15)
    else:
        assert [one["status"] for one in answer.json] == ["queued"] * 25 + ["failed"] * 15
    assert [m["data"]["n"] for m in client.pop(queue, batch=100, autoAck=True)] == list(range(25))
    until(lambda: pushed(client, queue) > 0, "it is counted")
    assert pushed(client, queue) == 25


def test_a_transaction_that_does_not_fit_takes_no_effect(client: Client, queue: str) -> None:
    def pushed(number: int) -> dict:
        return {"type": "push", "items": [{"queue": queue, "payload": i} for i in range(number)]}
    client.configure(queue, maxSize=10)
    source = queue + "-source"
    client.push(source, "job")
    (job,) = client.pop(source)
    ack = {"type": "ack", "transactionId": job["transactionId"], "partitionId": job["partitionId"],
           "leaseId": job["leaseId"], "status": "completed"}
    assert client.transaction(pushed(8))["success"] is True
    answer = client.transaction(ack, pushed(3))
    assert answer["success"] is False and FULL.format(10) in str(answer) and stored(client, queue) == 8
    assert kinds(client.push(queue, *range(3))) == {"queued": 2, "failed": 1}
    assert client.transaction(ack, pushed(1))["success"] is False
    client.pop(queue, batch=9, autoAck=True)
    until(lambda: client.transaction(ack, pushed(3))["success"] is True, "there is room again")


def test_what_another_daemon_stored_is_counted(daemon: Daemon, client: Client, start_daemon, queue: str) -> None:
    other = start_daemon(daemon.conninfo)
    with other.client() as second:
        client.configure(queue, maxSize=10)
        until(lambda: kinds(second.push(queue, 1)) and second.configure(queue, maxSize=10)["configured"],
              "both know the queue")
        held = stored(client, queue)
        assert kinds(client.push(queue, *range(8 - held))) == {"queued": 8 - held}
        until(lambda: kinds(second.push(queue, 1)) == {"failed": 1}, "the second has heard of it")
        until(lambda: kinds(client.push(queue, 1)) == {"failed": 1}, "the first has heard of it")
        assert 10 <= stored(client, queue) <= 20          # each keeps to it by what it knows
        second.pop(queue, batch=20, autoAck=True)
        assert into_room(lambda: client.push(queue, *range(12))) == {"queued": 10, "failed": 2}
    other.stop()


def test_the_size_of_a_queue(daemon: Daemon, client: Client, queue: str) -> None:
    """As the database sums it up: floors, groups without a cursor, groups that began in the middle."""
    with psycopg.connect(daemon.conninfo, autocommit=True) as db:
        def size() -> int:
            return db.execute("SELECT s.size FROM queend.queues q, queend.queue_sizes(ARRAY[q.id, q.id]) s"
                              " WHERE q.name = %s", (queue,)).fetchone()[0]
        client.configure(queue)
        assert size() == 0
        client.push_items([{"queue": queue, "partition": f"p{i % 3}", "payload": i} for i in range(30)])
        assert size() == 30                                              # no group: all that is stored
        assert client.pop(queue, consumerGroup="late", subscriptionMode="new") == []
        assert size() == 0                                               # it wants none of it
        client.push_items([{"queue": queue, "partition": f"p{i % 3}", "payload": i} for i in range(6)])
        assert size() == 6
        client.pop(queue, "p0", batch=4, autoAck=True, consumerGroup="early")
        assert size() == 36 - 4
        while client.pop(queue, batch=100, partitions=3, autoAck=True, consumerGroup="early"):
            pass
        assert size() == 6
        while client.pop(queue, batch=100, partitions=3, autoAck=True, consumerGroup="late"):
            pass
        assert size() == 0


def test_the_id_of_a_deleted_message_is_told_where_there_is_no_room(client: Client, queue: str) -> None:
    def again() -> dict:
        (one,) = client.push_items([{"queue": queue, "payload": 1, "transactionId": "same"}])
        return one

    client.configure(queue, maxSize=1)
    first, = client.push_items([{"queue": queue, "payload": 1, "transactionId": "same"}])
    assert kinds(client.push(queue, 2)) == {"failed": 1}
    assert again()["status"] == "duplicate"
    assert client.request("DELETE", f"/api/v1/queues/{queue}/partitions/Default/messages/same").json["success"]
    assert kinds(client.push(queue, 3)) == {"failed": 1}
    assert (again()["status"], again()["message_id"]) == ("duplicate_of_deleted", first["message_id"])
    client.configure(queue, maxSize=None)
    assert (again()["status"], again()["message_id"]) == ("duplicate_of_deleted", first["message_id"])
