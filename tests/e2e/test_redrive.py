"""Dead letters that come back: to the group they were dead letters of, and to nobody else."""
from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from support.client import QUEUE_MODE, Client, ack_of, data
from support.daemon import Daemon
from support.wait import until

GROUPS = ("billing", "shipping", QUEUE_MODE)


def of(group: str) -> dict[str, str]:
    return {} if group == QUEUE_MODE else {"consumerGroup": group}


def redrive(client: Client, queue: str, **more) -> int:
    answer = client.post("/api/v1/dlq/redrive", {"queue": queue, **more})
    assert answer.status == 200, answer.body
    return answer.json["redriven"]


def take(client: Client, queue: str, group: str, **more) -> list:
    """All that the group is given, acknowledged."""
    got: list = []
    while some := client.pop(queue, batch=7, autoAck=True, **of(group), **more):
        got += data(some)
    return got


def bury(client: Client, queue: str, group: str, bad: list, **more) -> list:
    """Consumes what there is; what is bad becomes a dead letter."""
    got: list = []
    while some := client.pop(queue, batch=3, **of(group), **more):
        for one in some:
            answer = client.ack(one, "dlq" if one["data"] in bad else "completed",
                                None if group == QUEUE_MODE else group, lease=False)
            assert answer["success"] is True
        got += data(some)
    return got


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("group", GROUPS)
def test_only_the_group_it_was_a_dead_letter_of(client: Client, queue: str, group: str, named: bool) -> None:
    client.push(queue, *range(6))
    for one in GROUPS:
        assert bury(client, queue, one, [2, 3] if one == group else []) == list(range(6))
    assert redrive(client, queue, **({"consumerGroup": group} if named else {})) == 2 and client.dead(queue) == 0
    client.push(queue, "after")
    for one in GROUPS:
        assert take(client, queue, one) == ([2, 3] if one == group else []) + ["after"]
    # a group that comes later has the messages, not their copies
    assert take(client, queue, "late", subscriptionMode="all") == [*range(6), "after"]


def test_without_a_group_those_that_have_it(client: Client, queue: str) -> None:
    client.push(queue, *range(4))
    assert bury(client, queue, "billing", [0, 1]) == bury(client, queue, "shipping",
                                                          []) == bury(client, queue, QUEUE_MODE, [1, 3]) == [0, 1, 2, 3]
    assert redrive(client, queue) == 4
    assert take(client, queue, "shipping") == []
    # what fails again is a dead letter again, and comes back once more
    assert bury(client, queue, "billing", [1]) == [0, 1] and bury(client, queue, QUEUE_MODE, [3]) == [1, 3]
    assert redrive(client, queue, consumerGroup="billing") == 1
    assert take(client, queue, QUEUE_MODE) == take(client, queue, "shipping") == []
    assert take(client, queue, "billing") == [1]
    assert redrive(client, queue, consumerGroup=QUEUE_MODE) == 1
    assert take(client, queue, "billing") == take(client, queue, "shipping") == []
    assert take(client, queue, QUEUE_MODE) == [3]


def test_one_message_of_the_two(client: Client, queue: str) -> None:
    client.push(queue, *range(2))
    for one in GROUPS:
        bury(client, queue, one, [1] if one == "billing" else [])
    (letter,) = client.get(f"/api/v1/dlq?queue={queue}").json["messages"]
    answer = client.post(f"/api/v1/messages/{letter['partitionId']}/{letter['transactionId']}/retry")
    assert answer.status == 200, answer.body
    assert take(client, queue, "shipping") == take(client, queue, QUEUE_MODE) == []
    assert take(client, queue, "billing") == [1]


def test_another_queue_has_them_for_everybody(client: Client, queue: str) -> None:
    client.push(queue, *range(2))
    bury(client, queue, "billing", [0, 1])
    assert redrive(client, queue, consumerGroup="billing", targetQueue=f"{queue}-2") == 2
    for one in ("shipping", QUEUE_MODE):
        assert until(lambda name=one: take(client, f"{queue}-2", name), "they are there") == [0, 1]
    client.push(queue, "x", partition="p")
    bury(client, queue, "billing", ["x"])
    assert redrive(client, queue, targetQueue=queue, targetPartition="q") == 1      # still its own queue
    assert take(client, queue, "shipping") == [0, 1, "x"] and take(client, queue, "billing") == ["x"]


def test_what_was_moved_by_hand_comes_back_to_all(client: Client, queue: str) -> None:
    client.configure(queue)
    assert take(client, queue, "billing") == []
    client.push(queue, *range(2))
    one = client.get(f"/api/v1/messages?queue={queue}").json["messages"][-1]
    assert client.post(f"/api/v1/messages/{one['partitionId']}/{one['transactionId']}/dlq",
                       {"consumerGroup": "billing"}).json["moved"] is True
    assert take(client, queue, "shipping") == take(client, queue, QUEUE_MODE) == [1]
    assert redrive(client, queue) == 1
    assert take(client, queue, "shipping") == take(client, queue, QUEUE_MODE) == [0]
    assert take(client, queue, "billing") == [1, 0]


def test_parked_pops(client: Client, daemon: Daemon, queue: str) -> None:
    """Who waits is given what is for him, at once; the others go on waiting, and have the next push."""
    client.push(queue, "bad")
    for one in GROUPS:
        bury(client, queue, one, ["bad"] if one == "billing" else [])
    waiting = {one: daemon.client() for one in GROUPS}
    for one, parked in waiting.items():
        group = "" if one == QUEUE_MODE else f"&consumerGroup={one}"
        parked.send("GET", f"/api/v1/pop/queue/{queue}?wait=true&timeout=30000&autoAck=true{group}")
    until(lambda: client.parked() >= 3, "all of them wait")
    assert redrive(client, queue, consumerGroup="billing") == 1
    assert data(waiting["billing"].receive().json["messages"]) == ["bad"]
    client.push(queue, "next")
    for one in ("shipping", QUEUE_MODE):
        assert data(waiting[one].receive().json["messages"]) == ["next"]
    for one in waiting.values():
        one.close()
    assert take(client, queue, "billing") == ["next"]


def test_between_messages_served_from_memory(client: Client, queue: str) -> None:
    """Groups that keep up are served by the push or from memory; what comes back in between stays with its group, in
    order."""
    for n in range(30):
        client.push(queue, *range(10 * n, 10 * n + 3))
        for one in GROUPS:
            assert bury(client, queue, one,
                        [10 * n + 1] if one == GROUPS[n % 3] else []) == list(range(10 * n, 10 * n + 3))
        assert redrive(client, queue, **({"consumerGroup": GROUPS[n % 3]} if n % 2 else {})) == 1
        client.push(queue, 10 * n + 9)
        for one in GROUPS:
            assert take(client, queue, one) == ([10 * n + 1] if one == GROUPS[n % 3] else []) + [10 * n + 9]


def test_leases_and_retries(client: Client, queue: str) -> None:
    client.configure(queue, retryLimit=1, retryDelay=0, dlqAfterMaxRetries=True)
    client.push(queue, *range(3))
    for one in GROUPS:
        bury(client, queue, one, [0, 2] if one == "billing" else [])
    assert redrive(client, queue) == 2
    client.push(queue, 3)
    got = until(lambda: client.pop(queue, batch=10, consumerGroup="billing"), "they are there")
    assert data(got) == [0, 2, 3] and len({one["leaseId"] for one in got}) == 1
    assert client.ack(got[0], group="billing")["success"] is True
    assert client.ack(got[1], "failed", group="billing")["success"] is True      # it and what follows come again
    assert data(until(lambda: client.pop(queue, batch=10, consumerGroup="billing", autoAck=True), "again")) == [2, 3]
    (one,) = client.pop(queue, batch=10, consumerGroup="shipping")
    assert one["data"] == 3 and client.ack(one, group="shipping")["leaseReleased"] is True


def test_restarts_and_two_daemons(start_daemon, client: Client, daemon: Daemon, queue: str) -> None:
    client.push(queue, *range(50))
    for one in GROUPS:
        bury(client, queue, one, list(range(0, 50, 5)) if one == "billing" else [])
    with start_daemon(daemon.conninfo).client() as other:
        assert redrive(other, queue, consumerGroup="billing") == 10
        turn = itertools.cycle((client, other))
        assert take(next(turn), queue, "shipping") == []
        assert until(lambda: take(next(turn), queue, "billing"), "the other finds them") == list(range(0, 50, 5))
        assert take(next(turn), queue, "shipping") == take(next(turn), queue, QUEUE_MODE) == []
        client.push(queue, "x")
        bury(other, queue, "shipping", ["x"])
        assert redrive(client, queue) == 1
    again = start_daemon(daemon.conninfo)
    again.stop()
    again = start_daemon(daemon.conninfo)
    with again.client() as last:
        assert until(lambda: take(last, queue, "billing"), "what was pushed") == ["x"] == take(last, queue, QUEUE_MODE)
        assert take(last, queue, "shipping") == ["x"] and take(last, queue, "shipping") == []


def test_those_that_are_named(client: Client, queue: str) -> None:
    """One by one, of several that failed at the same moment; a second time there are none left."""
    client.push(queue, *range(9), partition="a")
    assert bury(client, queue, "billing", [1, 2, 3, 7]) == bury(client, queue, "shipping", [2]) == list(range(9))
    listed = client.get(f"/api/v1/dlq?queue={queue}").json["messages"]
    named = [{name: one[name] for name in ("partitionId", "offset", "consumerGroup")} for one in listed
             if one["consumerGroup"] == "billing" and one["data"] in (2, 7)]
    assert redrive(client, queue, messages=named) == 2 and redrive(client, queue, messages=named) == 0
    assert sorted((one["consumerGroup"], one["data"]) for one in client.get(f"/api/v1/dlq?queue={queue}").json[
        "messages"]) == [("billing", 1), ("billing", 3), ("shipping", 2)]
    assert take(client, queue, "billing") == [2, 7] and take(client, queue, "shipping") == []
    other = f"{queue}.other"
    client.push(other, 1)
    assert redrive(client, other, messages=[{**named[0], "offset": 1}]) == 0    # of another queue


@pytest.mark.parametrize(("more", "text"), [
    ({"messages": []}, "messages is empty: give it a value"),
    ({"messages": "a"}, "messages must be a list of 1 to 10000 objects"),
    ({"messages": [1]}, "messages must be a list of 1 to 10000"),
    ({"messages": [{"partitionId": "x", "offset": 0, "consumerGroup": "g"}]},
     "messages[0] must have partitionId, offset and consumerGroup"),
    ({"messages": [{"partitionId": "1", "offset": True, "consumerGroup": "g"}]}, "messages[0] must have"),
    ({"messages": [{"partitionId": "1", "offset": 0}], "limit": 1}, "not both"),
], ids=["none", "text", "number", "partition", "offset", "both"])
def test_names_that_cannot_be(client: Client, queue: str, more: dict, text: str) -> None:
    client.push(queue, 1)
    answer = client.post("/api/v1/dlq/redrive", {"queue": queue, **more})
    assert answer.status == 400 and text in answer.json["error"]


@pytest.mark.parametrize("more", [{}, {"limit": 5}, {"messages": [{"partitionId": "1", "offset": 0,
                                                                  "consumerGroup": "g"}]}])
def test_of_a_queue_that_does_not_exist(client: Client, queue: str, more: dict) -> None:
    answer = client.post("/api/v1/dlq/redrive", {"queue": queue, **more})
    assert (answer.status, answer.json["error"]) == (404, "Queue not found")
    assert client.show(queue).status == 404, "nothing was made"


def test_a_limit_is_not_lowered_in_silence(client: Client, queue: str) -> None:
    client.configure(queue)
    answer = client.post("/api/v1/dlq/redrive", {"queue": queue, "limit": 10_001})
    assert answer.status == 400 and "from 1 to 10000" in answer.json["error"]


ORIGIN = {"originQueue", "originPartition", "originOffset", "originTransactionId"}


def came_back(client: Client, queue: str) -> dict:
    """A dead letter of the group g with an id of its own comes back; what its message has to say of it."""
    client.push_items([{"queue": queue, "partition": "p", "payload": {"n": 1}, "transactionId": "order-1",
                        "traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}])
    assert bury(client, queue, "g", [{"n": 1}]) == [{"n": 1}]
    assert redrive(client, queue) == 1
    return {"originTransactionId": "order-1", "originQueue": queue, "originPartition": "p", "originOffset": 0}


def origin(message: dict) -> dict:
    return {name: message[name] for name in message if name in ORIGIN}


def test_a_redriven_message_names_its_origin_in_every_form(daemon: Daemon, client: Client, queue: str) -> None:
    was = came_back(client, queue)
    (message,) = client.pop(queue, consumerGroup="g")
    assert origin(message) == was and message["traceparent"].endswith("-01")
    assert client.ack(message, group="g")["success"]
    assert origin(client.get(f"/api/v1/messages/{message['partitionId']}/{message['transactionId']}").json) == was
    for route, names in ((f"/api/v1/messages?queue={queue}", "messages"),
                         (f"/api/v1/messages/search?queue={queue}&text=n", "messages")):
        new, old = client.get(route).json[names]
        assert (origin(new), origin(old), old["transactionId"]) == (was, {}, "order-1"), route
    asked = {"entries": [{"queue": queue, "partition": "p", "offset": 0}]}
    old, new = client.post("/api/v1/fetch", asked).json["entries"][0]["records"]
    assert (origin(new), origin(old)) == (was, {})
    with psycopg.connect(daemon.conninfo) as connection:
        rows = connection.execute("SELECT origin FROM queen.messages WHERE queue = %s ORDER BY message_offset",
                                  (queue,)).fetchall()
        assert rows == [(None,), (was,)]
        ((shown,),) = connection.execute("SELECT queen.get_message_v1(%s, %s)",
                                         (message["partitionId"], message["transactionId"])).fetchall()
        assert origin(shown) == was


def test_events_name_the_origin(client: Client, queue: str) -> None:
    came_back(client, queue)
    (event,) = client.get(f"/api/v1/pop/queue/{queue}?consumerGroup=g&format=cloudevents").json
    assert {name: event[name] for name in event if name.startswith("queendorigin")} == {
        "queendorigintransactionid": "order-1", "queendoriginqueue": queue, "queendoriginpartition": "p",
        "queendoriginoffset": "0"}


def test_what_comes_back_again_names_its_first_origin(client: Client, queue: str) -> None:
    was = came_back(client, queue)
    assert bury(client, queue, "g", [{"n": 1}]) == [{"n": 1}]
    (dead,) = client.get(f"/api/v1/dlq?queue={queue}").json["messages"]
    assert origin(dead) == was and dead["transactionId"] != "order-1"
    assert redrive(client, queue) == 1
    assert [origin(one) for one in client.pop(queue, consumerGroup="g")] == [was]


def test_redrive_and_purge_by_the_text_of_the_error(daemon: Daemon, client: Client, queue: str) -> None:
    errors = ["timeout of a", "no such customer", "timeout of b", "100% wrong"]
    for error in errors:
        client.push(queue, error)
        (message,) = client.pop(queue)
        assert client.ack(message, "dlq", error=error)["success"]
    found = client.get(f"/api/v1/dlq?queue={queue}&error=timeout").json
    assert data(found["messages"]) == ["timeout of b", "timeout of a"] and found["total"] == 2
    with psycopg.connect(daemon.conninfo) as connection:
        ((told,),) = connection.execute("SELECT queen.get_dlq_messages_v1(%s)",
                                        (json.dumps({"queue": queue, "error": "%"}),)).fetchall()
        assert data(told["messages"]) == ["100% wrong"]
    for wrong in ("", 5):
        assert client.post("/api/v1/dlq/redrive", {"queue": queue, "error": wrong}).status == 400
    assert redrive(client, queue, error="timeout of b") == 1 and take(client, queue, QUEUE_MODE) == ["timeout of b"]
    answer = client.request("DELETE", f"/api/v1/dlq?queue={queue}&error=timeout")
    assert (answer.status, answer.json["deleted"]) == (200, 1)
    assert redrive(client, queue, error="nobody") == 0 and client.dead(queue) == 2


def test_a_dead_letter_that_is_moved_by_hand_as_well_comes_back_once(client: Client, queue: str) -> None:
    client.push(queue, 1)
    (message,) = client.pop(queue, consumerGroup="billing")
    assert client.ack(message, "dlq", "billing")["success"] is True
    where = f"/api/v1/messages/{message['partitionId']}/{message['transactionId']}/dlq"
    assert client.post(where, {"consumerGroup": "billing"}).json["moved"] is True
    assert client.dead(queue) == 1, "not a second dead letter of the group"
    assert take(client, queue, "shipping") == [], "it was taken out of the queue"
    assert redrive(client, queue) == 1
    for group in ("billing", "shipping"):
        assert take(client, queue, group) == [1]


def buried(client: Client, queue: str, number: int) -> None:
    """Makes so many dead letters, which fail one after the other."""
    client.push(queue, *range(number))
    while some := client.pop(queue, batch=500):
        client.ack_batch([{**ack_of(one), "status": "dlq"} for one in some])


def test_the_oldest_first(client: Client, queue: str) -> None:
    """So that many redrives together keep the order in which the messages failed."""
    buried(client, queue, 7)
    lefts = []
    while client.dead(queue):
        answer = client.post("/api/v1/dlq/redrive", {"queue": queue, "oldest": True, "limit": 3}).json
        lefts.append((answer["redriven"], answer["left"]))
    assert lefts == [(3, True), (3, True), (1, False)] and take(client, queue, QUEUE_MODE) == list(range(7))
    answer = client.post("/api/v1/dlq/redrive", {"queue": queue, "oldest": 1})
    assert (answer.status, answer.json["error"]) == (400, "oldest must be true or false")


def test_a_purge_goes_on_behind_what_others_deleted(daemon: Daemon, client: Client, queue: str) -> None:
    """A whole page of it is deleted by another session while it waits for the lock."""
    buried(client, queue, 1005)
    with psycopg.connect(daemon.conninfo) as other, psycopg.connect(daemon.conninfo, autocommit=True) as watcher:
        other.execute("SELECT queend.dead_delete(ARRAY(SELECT d FROM queend.queues q, queend.dead_find(q.id, NULL,"
                      " NULL, NULL, NULL, 1000, 0, NULL) AS d WHERE q.name = %s))", (queue,))
        with ThreadPoolExecutor(1) as pool, daemon.client() as second:
            purged = pool.submit(second.request, "DELETE", f"/api/v1/dlq?queue={queue}")
            until(lambda: watcher.execute("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE"
                                          " '%dead_delete%'").fetchall(), "the purge waits")
            other.commit()
            answer = purged.result()
    assert (answer.status, answer.json["deleted"], client.dead(queue)) == (200, 5, 0)
