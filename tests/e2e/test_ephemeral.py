"""Ephemeral queues over HTTP: messages in the memory of a daemon (docs/ephemeral.md)."""
from __future__ import annotations

import random
import socket
import uuid
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from support.client import Client
from support.daemon import Daemon
from support.http import Answer
from support.tokens import SECRET, bearer, token
from support.wait import until

ROOT = "/api/v1/ephemeral"


@pytest.fixture
def name() -> str:
    return f"e-{uuid.uuid4()}"


def checked(answer: Answer, status: int) -> Any:
    assert answer.status == status, (answer.status, answer.body)
    if status < 300:
        assert answer.headers["queend-durable"] == "false" and answer.json["durable"] is False
    return answer.json


def push(client: Client, queue: str, *payloads: Any, status: int = 201, **more: Any) -> Any:
    return checked(client.post(f"{ROOT}/push", {"queue": queue, "messages": [{"payload": one} for one in payloads],
                                                **more}), status)


def target(queue: str, **query: Any) -> str:
    return f"{ROOT}/pop?{urlencode({'queue': queue, **query})}"


def pop(client: Client, queue: str, **query: Any) -> list[dict]:
    got = checked(client.get(target(queue, **query)), 200)
    assert got["queue"] == queue
    return got["messages"]


def payloads(messages: list[dict]) -> list[Any]:
    return [one["payload"] for one in messages]


def ack(client: Client, queue: str, *messages: dict | str, status: str | None = None,
        group: str | None = None) -> list[str]:
    ids = [one if isinstance(one, str) else one["id"] for one in messages]
    more = {} if status is None else {"status": status}
    body = {"queue": queue, "acks": [{"id": one, **more} for one in ids], **({"group": group} if group else {})}
    results = checked(client.post(f"{ROOT}/ack", body), 200)["results"]
    assert [one["id"] for one in results] == ids
    return [one["outcome"] + (" dropped" if one.get("dropped") else "") for one in results]


def configure(client: Client, queue: str, status: int = 201, **options: Any) -> Any:
    return checked(client.post(f"{ROOT}/configure", {"queue": queue, "options": options}), status)


def depth(client: Client, queue: str, group: str | None = None) -> dict:
    of = f"?group={group}" if group else ""
    return checked(client.get(f"{ROOT}/queues/{quote(queue, safe='')}/depth{of}"), 200)


def listed(client: Client, queue: str) -> dict:
    got = checked(client.get(f"{ROOT}/queues"), 200)
    assert got["count"] == len(got["queues"]) and 0 < got["cellBytes"] <= got["limitBytes"]
    return next(one for one in got["queues"] if one["queue"] == queue)


# ---- order, groups, leases -------------------------------------------------------------------------------------------

def test_messages_come_in_order_within_their_partition(client: Client, name: str) -> None:
    assert push(client, name, 1, 2, 3) == {"pushed": 3, "durable": False}
    push(client, name, {"a": [1, 2.50]}, None, partition="p")
    assert payloads(pop(client, name, batch=2, partition="Default")) == [1, 2]
    got = pop(client, name, batch=10)
    assert sorted((one["partition"], str(one["payload"])) for one in got) == [
        ("Default", "3"), ("p", "None"), ("p", "{'a': [1, 2.5]}")]
    assert payloads([one for one in got if one["partition"] == "p"]) == [{"a": [1, 2.5]}, None]
    assert pop(client, name) == [] and len({one["id"] for one in got}) == 3
    assert {one["attempts"] for one in got} == {0}


def test_groups_each_get_all_and_share_within(client: Client, name: str) -> None:
    assert pop(client, name, group="a") == [] == pop(client, name, group="b")
    push(client, name, 1, 2)
    one, two = pop(client, name, group="a"), pop(client, name, group="a")
    assert (payloads(one), payloads(two)) == ([1], [2])
    of_b = pop(client, name, group="b", batch=9)
    assert payloads(of_b) == [1, 2]
    assert ack(client, name, one[0], group="b") == ["acked"], "the id names the message, the group is in the body"
    assert ack(client, name, *one, *two, group="a") == ["acked", "acked"]
    assert ack(client, name, *of_b, group="b") == ["unknown", "acked"]
    assert depth(client, name)["pending"] == 0 and listed(client, name)["depth"] == 0


def test_a_new_group_begins_with_what_the_queue_holds(client: Client, name: str) -> None:
    push(client, name, 1, 2)
    assert ack(client, name, *pop(client, name)) == ["acked"]
    assert payloads(pop(client, name, group="late", batch=9)) == [2]
    assert ack(client, name, *pop(client, name, batch=9)) == ["acked"]
    seen = depth(client, name)
    assert seen["pending"] == 1 and {g["group"]: g["pending"] for g in seen["groups"]} == {
        "__QUEUE_MODE__": 0, "late": 1}


def test_what_came_back_comes_first(client: Client, name: str) -> None:
    push(client, name, 1, 2, 3)
    first = pop(client, name, batch=2)
    assert ack(client, name, first[1], status="retry") == ["redelivered"]
    assert ack(client, name, first[0], status="failed") == ["redelivered"]
    again = pop(client, name, batch=9)
    assert [(one["payload"], one["attempts"]) for one in again] == [(1, 1), (2, 1), (3, 0)]
    assert ack(client, name, *first) == ["stale", "stale"], "ids of the earlier delivery"
    assert ack(client, name, *again) == ["acked"] * 3
    assert ack(client, name, *again) == ["unknown"] * 3


def test_the_retry_limit_drops(client: Client, name: str) -> None:
    configure(client, name, retryLimit=1)
    push(client, name, 1)
    assert ack(client, name, *pop(client, name), status="failed") == ["redelivered"]
    (last,) = pop(client, name)
    assert last["attempts"] == 1 and ack(client, name, last, status="retry") == ["acked dropped"]
    assert pop(client, name) == [] and listed(client, name)["drops"] == {"bounds": 0, "ttl": 0, "retry": 1}


def test_a_lease_ends_and_a_waiting_pop_gets_the_message(client: Client, name: str) -> None:
    configure(client, name, leaseSeconds=1)
    push(client, name, 1)
    (held,) = pop(client, name)
    assert depth(client, name, "__QUEUE_MODE__")["pending"] == 1 and pop(client, name) == []
    (again,) = pop(client, name, wait="true", timeout=30000)
    assert (again["payload"], again["attempts"]) == (1, 1)
    assert ack(client, name, held) == ["stale"] and ack(client, name, again) == ["acked"]


def test_auto_ack_leaves_nothing_to_acknowledge(client: Client, name: str) -> None:
    push(client, name, 1, 2, 3)
    (one,) = pop(client, name, autoAck="true")
    assert ack(client, name, one) == ["unknown"]
    assert payloads(pop(client, name, commitOnDelivery="true", batch=5)) == [2, 3]
    assert depth(client, name)["pending"] == 0


def test_ids_that_are_none(client: Client, name: str) -> None:
    push(client, name, 1)
    (one,) = pop(client, name)
    other = "0" * 16 + one["id"][16:]
    assert ack(client, name, "x", "", "1-2-3", other, one["id"] + "-1", one["id"][:-1] + "9") == [
        "unknown", "unknown", "unknown", "stale", "unknown", "stale"]
    assert ack(client, f"{name}-no", one) == ["stale"] and ack(client, name, one, group="no") == ["unknown"]
    assert ack(client, name, one) == ["acked"]


# ---- bounds ----------------------------------------------------------------------------------------------------------

def test_a_full_queue_refuses(client: Client, name: str) -> None:
    assert configure(client, name, maxLength=2, maxBytes=10)["options"]["policy"] == "reject"
    push(client, name, 1, 2)
    answer = client.post(f"{ROOT}/push", {"queue": name, "messages": [{"payload": 3}]})
    assert (answer.status, answer.json["code"], answer.headers["retry-after"]) == (429, "queue_full", "1")
    assert push(client, name, 1, 2, 3, status=413)["code"] == "push_too_large"
    assert push(client, name, "x" * 9, status=413)["code"] == "push_too_large"
    assert ack(client, name, *pop(client, name)) == ["acked"]
    push(client, name, "x" * 7)
    assert push(client, name, 1, status=429)["code"] == "queue_full"
    assert payloads(pop(client, name, batch=9)) == [2, "x" * 7], "all or nothing"


def test_a_full_queue_drops_its_oldest(client: Client, name: str) -> None:
    configure(client, name, maxLength=3, policy="dropOldest")
    assert pop(client, name, group="g") == []
    push(client, name, 1, 2, 3)
    (held,) = pop(client, name, group="g")
    push(client, name, 4, 5)
    assert ack(client, name, held, group="g") == ["unknown"], "it was dropped while it was leased"
    assert payloads(pop(client, name, group="g", batch=9)) == [3, 4, 5]
    assert listed(client, name)["drops"]["bounds"] == 2
    assert depth(client, name)["groups"][0]["skipped"] == 2


def test_messages_expire(client: Client, name: str) -> None:
    configure(client, name, ttlSeconds=1)
    push(client, name, 1, 2)
    (held,) = pop(client, name)
    until(lambda: depth(client, name)["pending"] == 0, "the messages expire")
    assert ack(client, name, held) == ["unknown"] and pop(client, name) == []
    assert listed(client, name)["drops"]["ttl"] == 2
    configure(client, name, ttlSeconds=None)
    push(client, name, 3)
    assert payloads(pop(client, name)) == [3]


def test_the_memory_of_all_queues_is_bounded(start_daemon, name: str) -> None:
    daemon = start_daemon(QUEEND_EPHEMERAL_BYTES=100_000)
    with daemon.client() as client:
        configure(client, f"{name}-d", policy="dropOldest")
        push(client, f"{name}-d", "a" * 40_000)
        push(client, name, "b" * 40_000)
        assert push(client, name, "c" * 40_000, status=429)["code"] == "queue_full"
        push(client, f"{name}-d", "d" * 40_000)
        assert listed(client, f"{name}-d")["drops"]["bounds"] == 1 and listed(client, name)["depth"] == 1
        assert push(client, name, "e" * 100_000, status=429)["code"] == "queue_full"
        for n in range(10_000):
            answer = client.get(target(f"{name}-{n}"))
            if answer.status != 200:
                break
        assert (answer.status, answer.json["code"]) == (429, "queue_full"), "names take memory, too"
        assert client.request("DELETE", f"{ROOT}/queue/{name}").json["deleted"] is True
        push(client, name, "f" * 30_000)
        assert client.metric("queend_ephemeral_refused_total") == 3


def test_switched_off_and_with_peers(start_daemon, name: str) -> None:
    for settings, code in (({"QUEEND_EPHEMERAL_BYTES": 0}, "ephemeral_disabled"),
                           ({"QUEEN_PEERS": "http://127.0.0.1:1", "QUEEN_SYNC_SECRET": "0" * 64},
                            "ephemeral_unavailable")):
        with start_daemon(**settings).client() as client:
            assert push(client, name, 1, status=503)["code"] == code
            assert client.get(target(name)).json["code"] == code
            assert configure(client, name, status=503)["code"] == code
            assert client.get(f"{ROOT}/queues").json["code"] == code


# ---- waiting ---------------------------------------------------------------------------------------------------------

def test_a_push_wakes_one_pop_of_each_group(daemon: Daemon, client: Client, name: str) -> None:
    others = [daemon.client() for _ in range(5)]
    for i, other in enumerate(others):
        query = {"group": f"g{i % 2}"} | ({"partition": "p"} if i > 3 else {})
        other.send("GET", target(name, wait="true", timeout=30000, **query))
    until(lambda: client.parked() == 5, "the pops wait")
    push(client, name, 1, partition="p")
    until(lambda: client.parked() == 3, "one pop of each group has its message")
    push(client, name, 2, 3, partition="p")
    got = sorted(payload for other in others for payload in payloads(other.receive().json["messages"]))
    assert got == [1, 1, 2, 2, 3], "each pop took one"
    for other in others:
        other.close()


def test_an_empty_long_poll(client: Client, name: str) -> None:
    assert pop(client, name, wait="true", timeout=1) == []
    assert pop(client, name, wait="true", timeout=1, partition="p", group="g") == []


def test_a_client_that_leaves_costs_no_message(daemon: Daemon, client: Client, name: str) -> None:
    for _ in range(3):
        with daemon.client() as gone:
            gone.send("GET", target(name, wait="true", timeout=60000))
            until(lambda: client.parked() == 1, "the pop waits")
        until(lambda: client.parked() == 0, "the pop is withdrawn")
    push(client, name, 1)
    assert [(one["payload"], one["attempts"]) for one in pop(client, name)] == [(1, 0)]


@pytest.mark.parametrize("half", [False, True])
def test_an_answer_that_does_not_leave_is_given_back(daemon: Daemon, client: Client, name: str, half: bool) -> None:
    """It waits behind an answer that is owed to its connection before."""
    push(client, name, 1, 2)
    with daemon.client() as other:
        other.send("GET", f"/api/v1/pop/queue/{name}?wait=true&timeout=60000")
        other.send("GET", target(name, batch=2, wait="true", timeout=60000))
        until(lambda: [one["leased"] for one in depth(client, name)["groups"]] == [2], "they are leased")
        if half:
            other.wire.socket.shutdown(socket.SHUT_WR)
            until(lambda: depth(client, name)["groups"][0]["leased"] == 0, "they are given back")
    until(lambda: depth(client, name)["groups"][0]["leased"] == 0, "they are given back")
    assert [(one["payload"], one["attempts"]) for one in pop(client, name, batch=9)] == [(1, 0), (2, 0)]


def test_a_window_gathers_messages(daemon: Daemon, client: Client, name: str) -> None:
    configure(client, name, windowBuffer={"ms": 60000, "count": 3})
    with daemon.client() as other:
        other.send("GET", target(name, wait="true", timeout=60000, batch=10))
        until(lambda: client.parked() == 1, "the pop waits")
        push(client, name, 1)
        push(client, name, 2)
        assert client.parked() == 1 and depth(client, name, "__QUEUE_MODE__")["groups"][0]["leased"] == 0
        push(client, name, 3)
        assert payloads(other.receive().json["messages"]) == [1, 2, 3]
    push(client, name, 4)
    assert payloads(pop(client, name, batch=10)) == [4], "a pop that does not wait gathers nothing"
    configure(client, name, windowBuffer={"ms": 1})
    push(client, name, 5)
    assert payloads(pop(client, name, batch=10, wait="true", timeout=60000)) == [5], "the window is over"


def test_a_stop_answers_waiting_pops(start_daemon, name: str) -> None:
    daemon = start_daemon()
    with daemon.client() as client, daemon.client() as other:
        other.send("GET", target(name, wait="true", timeout=300000))
        until(lambda: client.parked() == 1, "the pop waits")
        client.close()
        daemon.terminate()
        assert checked(other.receive(), 200)["messages"] == []


# ---- reset, deletion, restarts ---------------------------------------------------------------------------------------

def test_a_reset_voids_leases_and_keeps_options(client: Client, name: str) -> None:
    configure(client, name, maxLength=7)
    push(client, name, 1, 2)
    (held,) = pop(client, name)
    assert checked(client.post(f"{ROOT}/reset", {"queue": name}), 200) == {
        "queue": name, "dropped": 2, "durable": False}
    assert ack(client, name, held) == ["stale"] and pop(client, name) == []
    push(client, name, 3)
    assert payloads(pop(client, name)) == [3] and listed(client, name)["options"]["maxLength"] == 7
    assert checked(client.post(f"{ROOT}/reset", {"queue": f"{name}-no"}), 200)["dropped"] == 0


def test_deletion(daemon: Daemon, client: Client, name: str) -> None:
    odd = f"{name}/ä b"
    configure(client, odd)
    push(client, odd, 1)
    (held,) = pop(client, odd)
    with daemon.client() as other:
        other.send("GET", target(odd, wait="true", timeout=60000))
        until(lambda: client.parked() == 1, "the pop waits")
        path = f"{ROOT}/queue/{quote(odd, safe='')}"
        assert checked(client.request("DELETE", path), 200) == {
            "queue": odd, "deleted": True, "declared": True, "durable": False}
        assert checked(other.receive(), 200)["messages"] == []
    assert checked(client.request("DELETE", path), 200) == {
        "queue": odd, "deleted": False, "declared": False, "durable": False}
    assert ack(client, odd, held) == ["stale"]
    answer = client.get(f"{ROOT}/queues/{quote(odd, safe='')}/depth")
    assert (answer.status, answer.json["code"]) == (404, "ephemeral_queue_not_found")


def test_a_restart_keeps_options_and_loses_messages(start_daemon, name: str) -> None:
    daemon = start_daemon()
    with daemon.client() as client:
        assert configure(client, name, maxLength=5, windowBuffer={"ms": 3})["options"]["maxLength"] == 5
        assert configure(client, name, maxLength=None, leaseSeconds=9)["options"] == {
            "maxBytes": 16 << 20, "maxLength": 10000, "policy": "reject", "ttlSeconds": 0, "leaseSeconds": 9,
            "retryLimit": 5, "windowBuffer": {"ms": 3, "count": 0}}
        push(client, name, 1)
        (held,) = pop(client, name)
    daemon.end()
    with start_daemon(daemon.conninfo).client() as client:
        until(lambda: any(one["queue"] == name for one in client.get(f"{ROOT}/queues").json["queues"]), "it is read")
        seen = listed(client, name)
        assert seen["declared"] is True and seen["depth"] == 0 and seen["options"]["leaseSeconds"] == 9
        push(client, name, 2)
        assert payloads(pop(client, name)) == [2] and ack(client, name, held) == ["stale"]


# ---- refusals and rights ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize("route, body, error", [
    ("push", b"", "Empty request body"), ("push", b"[]", "The body must be an object"),
    ("push", b"{", "Invalid JSON"), ("push", {"queue": "q"}, "messages array required"),
    ("push", {"queue": "q", "messages": []}, "messages array cannot be empty"),
    ("push", {"messages": [{"payload": 1}]}, "queue is required"),
    ("push", {"queue": "", "messages": [{"payload": 1}]}, "queue must be"),
    ("push", {"queue": "q" * 256, "messages": [{"payload": 1}]}, "queue must be"),
    ("push", {"queue": "q", "partition": 5, "messages": [{"payload": 1}]}, "partition must be"),
    ("push", {"queue": "q", "messages": [5]}, "Each message must be an object"),
    ("push", {"queue": "q", "messages": [{"payload": 1}, {"data": 1}]}, "payload is required (message 1)"),
    ("push", {"queue": "q", "messages": [{"payload": 1}] * 10001}, "A push has at most 10000 messages"),
    ("ack", {"queue": "q"}, "acks array required"), ("ack", {"acks": []}, "queue is required"),
    ("ack", {"queue": "q", "acks": [{"id": 5}]}, "id must be a string"),
    ("ack", {"queue": "q", "acks": [{"id": "a", "status": "dlq"}]}, "status must be"),
    ("configure", {"queue": "q", "options": {"colour": 1}}, "options.colour is unknown"),
    ("configure", {"queue": "q", "options": {"maxLength": 0}}, "options.maxLength must be"),
    ("configure", {"queue": "q", "options": {"policy": "drop"}}, "options.policy must be"),
    ("configure", {"queue": "q", "options": {"windowBuffer": {"s": 1}}}, "options.windowBuffer must be"),
    ("configure", {"queue": "q", "options": 5}, "options must be"), ("configure", {}, "queue must be"),
    ("reset", {}, "queue must be")])
def test_bad_bodies(client: Client, route: str, body: Any, error: str) -> None:
    answer = client.post(f"{ROOT}/{route}", body)
    assert answer.status == 400 and answer.json["error"].startswith(error), (answer.status, answer.body)


@pytest.mark.parametrize("query, error", [
    ("", "queue is required"), ("queue=", "queue is required"), ("queue=q&batch=0", "batch must be"),
    ("queue=q&batch=10001", "batch must be"), ("queue=q&timeout=300001", "timeout must be"),
    ("queue=%ff", "queue must be"), (f"queue={'q' * 256}", "queue must be"),
    ("queue=q&consumerGroup=g", "consumerGroup is no parameter")])
def test_bad_queries(client: Client, query: str, error: str) -> None:
    answer = client.get(f"{ROOT}/pop?{query}")
    assert answer.status == 400 and answer.json["error"].startswith(error), (answer.status, answer.body)


def test_rights(start_daemon) -> None:
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="queues")

    def ask(method: str, path: str, body: Any = None, role: str = "read-write", rights: Any = None) -> int:
        claims = {} if rights is None else {"queues": rights}
        with daemon.client() as client:
            return client.request(method, ROOT + path, body, bearer(token(sub="t", role=role, **claims))).status
    pushes = ("POST", "/push", {"queue": "a", "messages": [{"payload": 1}]})
    pops, acks = ("GET", "/pop?queue=a&group=g"), ("POST", "/ack", {"queue": "a", "group": "g", "acks": []})
    manages = [("POST", "/configure", {"queue": "a"}), ("POST", "/reset", {"queue": "a"})]
    reads = [("GET", "/queues"), ("GET", "/queues/a/depth")]
    deletes = ("DELETE", "/queue/a")
    assert [ask(*one, role="read-only") for one in (pushes, pops, acks, *manages, deletes)] == [403] * 6
    assert [ask(*one) for one in (pushes, pops, acks, *manages, *reads, deletes)] == [
        201, 200, 200, 201, 200, 200, 200, 200]
    assert ask(*pushes, rights={"b": "*"}) == 403 and ask(*pushes, rights={"a": "push"}) == 201
    assert [ask(*pops, rights={"a": right}) for right in ("push", "pop")] == [403, 200]
    assert [ask(*acks, rights={"a": right}) for right in ("push", "pop")] == [403, 200]
    assert [ask(*one, rights={"a": "pop"}) for one in (*manages, deletes)] == [403] * 3
    assert [ask(*one, rights={"a": "manage"}) for one in manages] == [201, 200]
    assert [ask(*reads[1], rights={"a": right}) for right in ("pop", "read")] == [403, 200]
    with daemon.client() as client:
        seen = client.request("GET", f"{ROOT}/queues", None, bearer(token(
            sub="t", role="read-only", queues={"b*": "read"}))).json
        assert seen["queues"] == []


def test_figures(client: Client, name: str) -> None:
    names = ("pushed", "popped", "acked", "redelivered")
    before = {one: client.metric(f"queend_ephemeral_{one}_total") for one in names}
    push(client, name, 1, 2)
    assert ack(client, name, *pop(client, name), status="retry") == ["redelivered"]
    assert ack(client, name, *pop(client, name)) == ["acked"]
    after = {one: client.metric(f"queend_ephemeral_{one}_total") - before[one] for one in names}
    assert after == {"pushed": 2, "popped": 2, "acked": 1, "redelivered": 1}
    assert client.metric("queend_ephemeral_queues") >= 1 and client.metric("queend_ephemeral_bytes") > 0


# ---- random histories ------------------------------------------------------------------------------------------------

class Model:
    """An ephemeral queue as its documents describe it: by lists and sets, without leases that end."""

    def __init__(self, limit: int, length: int):
        self.limit, self.length = limit, length
        self.messages: dict[int, str] = {}      # payload, which rises → partition
        self.groups: dict[str, dict[int, int]] = {}     # group → payloads not completed → deliveries, -1: none yet
        self.out: dict[str, set[int]] = {}

    def push(self, payloads: range, partition: str) -> None:
        while len(self.messages) + len(payloads) > self.length:
            oldest = min(self.messages)
            for group, pending in self.groups.items():
                pending.pop(oldest, None)
                self.out[group].discard(oldest)
            del self.messages[oldest]
        for payload in payloads:
            self.messages[payload] = partition
            for pending in self.groups.values():
                pending[payload] = -1

    def ready(self, group: str, partition: str | None) -> list[int]:
        """What a pop may deliver, by partition: what came back first."""
        if group not in self.groups:
            self.groups[group], self.out[group] = dict.fromkeys(self.messages, -1), set()
        pending = self.groups[group]
        return sorted((p for p in pending if p not in self.out[group]
                       and partition in (None, self.messages[p])), key=lambda p: (pending[p] < 0, p))

    def deliver(self, group: str, payload: int) -> int:
        self.groups[group][payload] = max(0, self.groups[group][payload])
        self.out[group].add(payload)
        return self.groups[group][payload]

    def settle(self, group: str, payload: int, fails: bool) -> str:
        if payload not in self.out[group]:
            return "unknown"
        self.out[group].discard(payload)
        if fails and self.groups[group][payload] < self.limit:
            self.groups[group][payload] += 1
            return "redelivered"
        del self.groups[group][payload]
        if not any(payload in pending for pending in self.groups.values()):
            del self.messages[payload]
        return "acked dropped" if fails else "acked"


@pytest.mark.parametrize("seed", range(6))
def test_random_histories(client: Client, name: str, seed: int) -> None:
    dice = random.Random(seed)
    limit, length = dice.choice([0, 1, 3]), dice.choice([5, 20, 1000])
    model, held = Model(limit, length), []
    configure(client, name, retryLimit=limit, maxLength=length, policy="dropOldest", leaseSeconds=3600)
    at = 0
    for _ in range(300):
        group, partition = dice.choice("abc"), dice.choice("pqr")
        step = dice.random()
        if step < 0.35:
            n = dice.randint(1, 5)
            push(client, name, *range(at, at + n), partition=partition)
            model.push(range(at, at + n), partition)
            at += n
        elif step < 0.7:
            named = partition if dice.random() < 0.5 else None
            batch = dice.randint(1, 6)
            expected = model.ready(group, named)
            got = pop(client, name, group=group, batch=batch, **({"partition": named} if named else {}))
            assert len(got) == min(batch, len(expected))
            for of in "pqr":
                mine = [one["payload"] for one in got if one["partition"] == of]
                assert mine == [p for p in expected if model.messages[p] == of][:len(mine)], (got, expected)
            for one in got:
                assert one["attempts"] == model.deliver(group, one["payload"])
            held += [(group, one) for one in got]
        elif held:
            group, one = held.pop(dice.randrange(len(held)))
            fails = dice.random() < 0.4
            assert ack(client, name, one, status="failed" if fails else "completed", group=group) == [
                model.settle(group, one["payload"], fails)]
    seen = depth(client, name)
    assert seen["pending"] == len(model.messages)
    assert {g["group"]: (g["pending"], g["leased"]) for g in seen["groups"]} == {
        group: (len(pending), len(model.out[group])) for group, pending in model.groups.items()}
    assert {p["partition"]: p["pending"] for p in seen["partitions"] if p["pending"]} == {
        of: n for of in "pqr" if (n := sum(p == of for p in model.messages.values()))}
