"""Messages searched by their payloads, as an operator asks where an order is: whatever way they are stored, page by
page, a bounded part of a large queue per request."""
from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
from support.client import Client
from support.daemon import Daemon
from support.parked import first_served
from support.postgres import Postgres
from support.tokens import SECRET, token

MANY, STEP = 120_000, 10_000
KEY = f"one:{bytes(range(32)).hex()}"


@pytest.fixture(scope="module")
def daemon(start_daemon: Callable[..., Daemon]) -> Daemon:
    return start_daemon(QUEEND_COMPRESS_FROM=1024, QUEEND_ENCRYPTION_KEYS=KEY)


def asked(client: Client, **query: Any) -> dict:
    answer = client.get("/api/v1/messages/search?" + urlencode(query))
    assert answer.status == 200, answer.body
    assert ("link" in answer.headers) == (answer.json["next"] is not None) != answer.json["complete"]
    return answer.json


def pages(client: Client, **query: Any) -> Iterator[dict]:
    answer = asked(client, **query)
    yield answer
    while answer["next"]:
        answer = asked(client, **{**query, "after": answer["next"]})
        yield answer


def found(client: Client, **query: Any) -> list[tuple[str, int]]:
    return [(one["partition"], one["offset"]) for page in pages(client, **query) for one in page["messages"]]


def test_found_newest_first_and_told_as_the_list_does(client: Client, queue: str) -> None:
    for n in range(5):
        client.push_items([{"queue": queue, "partition": f"p{n % 2}", "transactionId": f"order/{n} ü",
                            "payload": {"order": 4711 + n % 2, "n": n}}])
    answer = asked(client, queue=queue, text='"order":4711')
    assert [one["transactionId"] for one in answer["messages"]] == ["order/4 ü", "order/2 ü", "order/0 ü"]
    assert (answer["searched"], answer["unreadable"], answer["complete"], answer["next"]) == (5, 0, True, None)
    listed = {one["transactionId"]: one for one in client.get(f"/api/v1/messages?queue={queue}").json["messages"]}
    for one in answer["messages"]:
        excerpt = one.pop("excerpt")
        assert '"order": 4711' in excerpt
        assert one == {key: listed[one["transactionId"]][key] for key in one}
    assert found(client, queue=queue, text="4712", partition="p1") == [("p1", 1), ("p1", 0)]
    assert found(client, queue=queue, text="4712", partition="p0") == []
    assert found(client, queue=queue, text="ORDER") == []      # capitals count
    assert asked(client, queue=queue, text="4711", partition="none")["complete"] is True


def test_how_they_stand(client: Client, queue: str) -> None:
    client.push(queue, *({"n": n, "mark": "x"} for n in range(6)), partition="p")
    taken = client.pop(queue, batch=3)
    client.ack(taken[0], lease=False)
    client.ack(taken[1], "dlq", lease=False)
    client.pop(queue, batch=4, consumerGroup="g", autoAck=True)
    listed = client.get(f"/api/v1/messages?queue={queue}").json["messages"]
    hits = asked(client, queue=queue, text="mark")["messages"]
    assert [(one["offset"], one["status"], one["busStatus"]) for one in hits] == [
        (one["offset"], one["status"], one["busStatus"]) for one in listed]
    assert {one["status"] for one in hits} >= {"completed", "dead_letter", "processing"}
    last, *_ = hits
    where = f"/api/v1/messages/{last['partitionId']}/{last['transactionId']}"
    assert client.request("DELETE", where).json["success"] is True
    assert found(client, queue=queue, text="mark") == [("p", n) for n in (4, 3, 2, 1, 0)]
    # moved to the dead letters by hand it is no message any more, but it is found
    buried = hits[1]
    assert client.post(f"/api/v1/messages/{buried['partitionId']}/{buried['transactionId']}/dlq", {}).status == 200
    assert [one["status"] for one in asked(client, queue=queue, text="mark")["messages"]][0] == "dead_letter"


def test_whatever_way_it_is_stored(client: Client, start_daemon: Callable[..., Daemon], daemon: Daemon,
                                   queue: str) -> None:
    packed, secret = f"{queue}-packed", f"{queue}-secret"
    client.push(packed, *({"text": "x" * 2000, "n": n} for n in range(50)))
    client.configure(secret, encryptionEnabled=True)
    client.push(secret, *({"salary": 1000 + n} for n in range(20)))
    assert found(client, queue=packed, text='"n":49') == [("Default", 49)]
    assert found(client, queue=secret, text="1007") == [("Default", 7)]
    assert found(client, queue=secret, text="encrypted") == []      # not the envelope: what is in it
    # one that has no key reads nothing, and says so
    with start_daemon(daemon.conninfo).client() as keyless:
        answer = asked(keyless, queue=secret, text="encrypted")
        assert (answer["messages"], answer["searched"], answer["unreadable"]) == ([], 20, 20)
    # as other writers of JSON write it
    client.request("POST", "/api/v1/push", json.dumps({"items": [
        {"queue": queue, "payload": {"name": "Müller 😀"}}]}, ensure_ascii=True).encode())
    client.request("POST", "/api/v1/push", b'{"items":[{"queue":"%s","payload":"M\\u00FCller"}]}' % queue.encode())
    client.push_items([{"queue": queue, "payload": "Müller"}])
    assert len(found(client, queue=queue, text="Müller")) == 3
    assert len(found(client, queue=queue, text="Müller 😀")) == 1
    client.request("POST", "/api/v1/push", b'{"items":[{"queue":"%s","payload":{"a":"b","c":[1, 2]}}]}'
                   % queue.encode())
    client.push(queue, {"a": "b", "c": [1, 2]})      # with blanks
    for text in ('"a":"b"', '"a": "b"', '"a":"b","c":', '"a": "b", "c":', '"a":', '"c":[1', '"c": [1'):
        assert len(found(client, queue=queue, text=text)) == 2, text


@pytest.mark.parametrize("limit", [1, 3, 7, 1000])
def test_page_by_page_each_once(client: Client, queue: str, limit: int) -> None:
    for n in range(4):      # rows of many messages: a page ends in the middle of them
        for partition in ("a", "b"):
            client.push(queue, *({"n": k, "odd": "yes" if k % 2 else "no"} for k in range(9)), partition=partition)
    whole = found(client, queue=queue, text="yes")
    assert len(whole) == len(set(whole)) == 32
    some = list(pages(client, queue=queue, text="yes", limit=limit))
    assert [(one["partition"], one["offset"]) for page in some for one in page["messages"]] == whole
    assert sum(page["searched"] for page in some) == 72
    assert all(len(page["messages"]) <= limit for page in some)
    moments = [one["createdAt"] for page in some for one in page["messages"]]
    assert moments == sorted(moments, reverse=True)
    # what is stored meanwhile does not move the pages
    first = asked(client, queue=queue, text="yes", limit=3)
    client.push(queue, {"odd": "yes"})
    rest = found(client, queue=queue, text="yes", limit=3, after=first["next"])
    assert [(one["partition"], one["offset"]) for one in first["messages"]] + rest == whole


def test_between_two_moments(client: Client, queue: str) -> None:
    for n in range(3):
        client.push(queue, {"mark": n})
    moments = [one["createdAt"] for one in asked(client, queue=queue, text="mark")["messages"]]
    assert len(found(client, queue=queue, text="mark", **{"from": "2020-01-01", "to": "2999-01-01"})) == 3
    assert found(client, queue=queue, text="mark", to="2020-01-01") == []
    assert found(client, queue=queue, text="mark", **{"from": "2999-01-01"}) == []
    assert ("Default", 2) in found(client, queue=queue, text="mark", **{"from": moments[0]})


def test_a_large_queue_a_bounded_part_at_a_time(client: Client, queue: str) -> None:
    """The oldest of 120 000 messages: no request looks at much more than 10 000 of them, and none at one twice."""
    for start in range(0, MANY, STEP):
        client.post("/api/v1/push?format=counts", {"items": [
            {"queue": queue, "partition": f"p{n % 50}", "payload": {"order": n}} for n in range(start, start + STEP)]})
    some = list(pages(client, queue=queue, text='"order":47}'))
    assert [one["offset"] for page in some for one in page["messages"]] == [0]
    assert sum(page["searched"] for page in some) == MANY
    assert all(page["searched"] < 11_000 for page in some) and len(some) >= 11
    backs = [page["searchedBackTo"] for page in some[:-1]]
    assert backs == sorted(backs, reverse=True) and some[-1]["searchedBackTo"] is None
    assert asked(client, queue=queue, text='"order":47}', partition="p47")["complete"] is True
    newest = asked(client, queue=queue, text="order", limit=1)
    assert len(newest["messages"]) == 1 and newest["searched"] < 11_000


@pytest.mark.parametrize("query, status, words", [
    ("queue=q", 400, "text is required"), ("queue=q&text=", 400, "text is"),
    (f"queue=q&text={'x' * 1001}", 400, "more than 1000"), ("queue=q&text=%00", 400, "NUL"),
    ("queue=none-such&text=x", 404, "Queue not found"), ("queue=q&text=x&limit=0", 400, "limit must"),
    ("queue=q&text=x&limit=1001", 400, "limit must"), ("queue=q&text=x&from=soon", 400, "from must be a time"),
    ("queue=q&text=x&after=x", 400, "after must"), ("queue=q&text=x&after=1.2", 400, "after must"),
    ("queue=q&text=x&after=1.3000000000.0", 400, "after must"), ("queue=q&text=x&after=1.-2.0", 400, "after must"),
    ("queue=q&text=x&after=1.2.3.3000000000", 400, "after must"),
    ("queue=q&queue=none-such&text=x", 404, "Queue not found"), ("text=x" + "&queue=q" * 200, 200, ""),
    ("text=x" + "".join(f"&queue=q{n}" for n in range(101)), 400, "at most 100"),
    ("queue=q&text=x&Partition=p", 400, "partition is one")])
def test_what_is_refused(client: Client, query: str, status: int, words: str) -> None:
    client.push("q", 1)
    answer = client.get(f"/api/v1/messages/search?{query}")
    assert answer.status == status and words in answer.json.get("error", ""), answer.body


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_several_queues_one_after_the_other(client: Client, queue: str, limit: int) -> None:
    names = [f"{queue}-{name}" for name in "abcd"]
    for name in names:
        client.push(name, {"of": name, "order": 1}, {"of": name, "order": 2}, "else", partition="p")
    wanted = [(name, order) for name in names if name != names[2] for order in (2, 1)]
    target = "/api/v1/messages/search?" + urlencode({"text": '"order"', "limit": limit,
                                                     "queue": [names[3], names[0], names[1]]}, doseq=True)
    found: list = []
    while target:
        answer = client.get(target)
        assert answer.status == 200 and len(answer.json["messages"]) <= limit, answer.body
        found += [(one["queue"], json.loads(one["excerpt"])["order"]) for one in answer.json["messages"]]
        link = answer.headers.get("link", "")
        assert bool(link) is not answer.json["complete"]
        target = link.partition(">")[0][1:]
    assert found == wanted
    anywhere, place = set(), {}
    while True:
        answer = asked(client, text=f'"of":"{queue}', limit=limit, **place)
        anywhere |= {one["queue"] for one in answer["messages"]}
        if answer["complete"]:
            break
        place = {"after": answer["next"]}
    assert anywhere == set(names)


@pytest.mark.parametrize("after", ["0.-1.0", "999999999999999999.2147483647.999999999999999999", "5.0.0"])
def test_a_place_that_is_nowhere(client: Client, after: str) -> None:
    client.push("q", 1)
    assert asked(client, queue="q", text="no such", after=after)["complete"] is True


def test_few_wait_for_each_other(start_daemon: Callable[..., Daemon], postgres: Postgres) -> None:
    """While one takes long, sixteen wait, the others are told so, and other pages answer."""
    daemon = start_daemon(postgres.database())
    target = "/api/v1/messages/search?queue=q&text=here"
    with ExitStack() as stack:
        client, *asking = [stack.enter_context(daemon.client()) for _ in range(31)]
        client.push("q", "here")
        with psycopg.connect(daemon.conninfo) as other:
            other.execute("LOCK TABLE queend.log IN ACCESS EXCLUSIVE MODE")
            for one in asking:
                one.send("GET", target)
            for _ in range(30 - 1 - 16):
                one = first_served(asking)
                asking.remove(one)
                answer = one.receive()
                assert (answer.status, answer.headers["retry-after"]) == (503, "1"), answer.body
            assert client.get("/api/v1/system/maintenance").status == 200
        for one in asking:
            answer = one.receive()
            assert answer.status == 200 and len(answer.json["messages"]) == 1, answer.body


def test_who_may(start_daemon: Callable[..., Daemon]) -> None:
    """As the list: who may read this queue."""
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="queues")
    with daemon.client() as client:
        def status(target: str, **claims: Any) -> int:
            return client.request("GET", target, None, {"Authorization": f"Bearer {token(**claims)}"}).status

        client.request("POST", "/api/v1/push", {"items": [{"queue": name, "payload": 1} for name in ("a", "b")]},
                       {"Authorization": f"Bearer {token(role='admin')}"})
        for path in ("/api/v1/messages?queue=", "/api/v1/messages/search?text=1&queue="):
            assert client.get(path + "a").status == 401
            assert status(path + "a", role="read-only") == 200
            assert status(path + "a", role="read-only", queues={"a": "read"}) == 200
            assert status(path + "b", role="read-only", queues={"a": "read"}) == 403
        path = "/api/v1/messages/search?text=1"
        assert status(path + "&queue=a&queue=b", role="read-only", queues={"a": "read"}) == 403
        for queues, may in (({"a": "read"}, ["a"]), ({"*": "read"}, ["a", "b"]), ({"c": "read"}, [])):
            answer = client.request("GET", path, None,
                                    {"Authorization": f"Bearer {token(role='read-only', queues=queues)}"})
            assert [one["queue"] for one in answer.json["messages"]] == may
