"""Tokens that are limited to queues."""
from __future__ import annotations

import uuid

import pytest
from support.callers import Caller, told
from hypothesis import given
from hypothesis import strategies as st
from support.client import ack_of, pop_target
from support.frames import KIND, form_b, framed_group
from support.tokens import SECRET, token, writer
from support.wait import until

from queend._core import probe_bearer, probe_glob
from queend.auth import levels
from queend.auth.guard import bearer_of
from queend.auth.permits import fits
from queend.control.routes import routers

LACKS = "Insufficient permissions for this queue: the token lacks "


class Denied:
    """Equals a refusal for want of a right to a queue, whatever it says was missing."""

    def __eq__(self, answer: object) -> bool:
        return isinstance(answer, tuple) and answer[0] == 403 and answer[1].startswith(
            "Insufficient permissions for this queue")


DENIED = Denied()
ITEM = {"payload": 1}


@pytest.fixture(scope="module")
def daemon(start_daemon):
    return start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="queues")


@pytest.fixture
def full(daemon):
    with Caller(daemon, token(sub="full", role="admin")) as caller:
        yield caller


def limited(daemon, role: str = "read-write", **queues: object) -> Caller:
    """Names of queues with - as _."""
    return Caller(daemon, token(sub="limited", role=role,
                                queues={name.replace("_", "-"): verbs for name, verbs in queues.items()}))


def push_body(*queues: str) -> dict:
    return {"items": [{"queue": queue, **ITEM} for queue in queues]}


def test_push(daemon, full):
    with limited(daemon, **{"in*": "push", "out": "pop"}) as caller:
        assert told(caller, "POST", "/api/v1/push", push_body("in-a", "in-b"))[0] == 201
        for queues in (("out",), ("other",), ("in-c", "other"), ("IN",), ("xin",)):
            assert told(caller, "POST", "/api/v1/push", push_body(*queues)) == DENIED
        assert full.get("/api/v1/resources/queues/in-c").status == 404, "a refused request stores nothing"
        for queue, status in (("in-f", 201), ("out", 403)):
            assert caller.request("POST", "/api/v1/push", form_b(framed_group(queue, "p", list(range(40)))[0]),
                                  KIND).status == status
            assert caller.request("POST", f"/api/v1/push?queue={queue}", b'{"payload":1}',
                                  {"Content-Type": "application/x-ndjson"}).status == status


def test_pop_and_ack(daemon, full):
    full.push("work-1", 1, 2)
    full.push("hidden-1", 3)
    with limited(daemon, work_1="pop") as caller:
        (message,) = caller.pop("work-1")
        assert told(caller, "GET", "/api/v1/pop/queue/hidden-1") == DENIED
        assert told(caller, "GET", "/api/v1/pop/queue/hidden-1/partition/Default?wait=true&timeout=1000") == DENIED
        assert told(caller, "GET", "/api/v1/pop/queue/nowhere") == DENIED, "what is not there is not told"
        (other,) = full.pop("hidden-1")
        assert told(caller, "POST", "/api/v1/ack", ack_of(other)) == DENIED
        assert told(caller, "POST", "/api/v1/ack/batch",
                    {"acknowledgments": [ack_of(message), ack_of(other)]}) == DENIED
        assert caller.extend(message["leaseId"])["success"] is True
        assert caller.ack(message)["success"] is True, "the refused batch has done nothing"
        assert full.ack(other)["success"] is True
    with limited(daemon, work_1="push") as caller:
        assert told(caller, "GET", "/api/v1/pop/queue/work-1") == DENIED
        assert told(caller, "POST", f"/api/v1/lease/{uuid.uuid4()}/extend", {}) == (403, "Insufficient permissions")


def test_transactions(daemon, full):
    full.push("tx-in", 1, 2)
    with limited(daemon, tx_in="pop", tx_out="push") as caller:
        one, two = caller.pop("tx-in", batch=2)
        done = caller.transaction({"type": "ack", **ack_of(one)},
                                  {"type": "push", "items": [{"queue": "tx-out", **ITEM}]})
        assert done["success"] is True
        body = {"operations": [{"type": "ack", **ack_of(two)}, {"type": "push", "items": [{"queue": "tx-in", **ITEM}]}]}
        assert told(caller, "POST", "/api/v1/transaction", body) == DENIED
        full.push("tx-other", 1)
        (other,) = full.pop("tx-other")
        assert told(caller, "POST", "/api/v1/transaction", {"operations": [{"type": "ack", **ack_of(other)}]}) == DENIED
        assert full.pop("tx-out")[0]["producerSub"] == "limited"


def test_pops_of_a_namespace_see_the_allowed_queues_only(daemon, full):
    for name in ("ns-a", "ns-b"):
        full.configure(name, namespace="ns")
    with limited(daemon, ns_a="pop") as caller:
        assert told(caller, "GET", "/api/v1/pop?queue=ns-b") == DENIED
        caller.send("GET", pop_target(None, namespace="ns", wait=True, timeout=100_000))
        until(lambda: full.parked() == 1, "the pop waits")
        full.push("ns-b", "hidden")
        full.push("ns-a", "seen")
        assert [m["data"] for m in caller.receive().json["messages"]] == ["seen"]
        assert caller.pop(None, namespace="ns") == []
    assert [m["data"] for m in full.pop(None, namespace="ns")] == ["hidden"]


def test_the_control_plane(daemon, full):
    full.push("ctl-a", 1)
    with limited(daemon, "admin", ctl_a=["read", "manage"], ctl_r="read") as caller:
        assert told(caller, "GET", "/api/v1/resources/queues/ctl-a")[0] == 200
        assert told(caller, "GET", "/api/v1/resources/queues/ctl%2Da")[0] == 200
        assert told(caller, "GET", "/api/v1/resources/queues/ctl-r")[0] == 404
        assert told(caller, "GET", "/api/v1/resources/queues/hidden") == DENIED
        assert told(caller, "GET", "/api/v1/resources/queues") == DENIED, "it is about all of them"
        assert told(caller, "POST", "/api/v1/configure", {"queue": "ctl-a"})[0] == 200
        for body in ({"queue": "ctl-r"}, {"queue": "x"}, {}, [], {"queue": 1}, {"queue": "*"}):
            assert told(caller, "POST", "/api/v1/configure", body) == DENIED
        assert caller.request("POST", "/api/v1/configure", b'{"queue":"hidden","queue":"ctl-a"}').status == 200
        assert caller.request("POST", "/api/v1/configure", b'{"queue":"ctl-a","queue":"hidden"}').status == 403
        assert told(caller, "POST", "/api/v1/fetch", {"entries": [{"queue": "ctl-a", "offset": 0}]})[0] == 200
        assert told(caller, "POST", "/api/v1/fetch",
                    {"entries": [{"queue": "ctl-a", "offset": 0}, {"queue": "hidden", "offset": 0}]}) == DENIED
        assert told(caller, "DELETE", "/api/v1/resources/queues/ctl-r") == DENIED
        assert told(caller, "DELETE", "/api/v1/resources/queues/ctl-a")[0] == 200
    with limited(daemon, "read-only", **{"*": "read"}) as caller:
        assert told(caller, "GET", "/api/v1/resources/queues")[0] == 200
        assert told(caller, "POST", "/api/v1/configure", {"queue": "x"}) == (403, "Insufficient permissions")


BY_NAMES = "/api/v1/queues/{queue}/partitions/{partition}/messages/{id}"


@pytest.mark.parametrize("named", [False, True])
def test_a_single_message_needs_the_verb_of_its_queue(daemon, full, named):
    """By the id of its partition, and by names; its traces, too."""
    queue = f"single-{named}"
    (at,) = {one["partition_id"] for one in full.push(queue, *range(4), partition="p 1/2")}
    ids = [one["transactionId"] for one in full.pop(queue, "p 1/2", batch=4)]
    traces = {"transactionId": ids[0], "partitionId": at, "data": 1}

    def path(id: str, queue: str = queue, end: str = "") -> str:
        return (BY_NAMES.format(queue=queue, partition="p%201%2F2", id=id) if named
                else f"/api/v1/messages/{at}/{id}") + end

    with (limited(daemon, **{queue: "manage"}) as manager, limited(daemon, **{queue: "read"}) as reader,
          limited(daemon, **{f"{queue}x": "*"}) as stranger):
        assert told(reader, "GET", path(ids[0]))[0] == 200
        for caller, verb in ((manager, "read"), (stranger, "read")):
            assert told(caller, "GET", path(ids[0])) == (403, f'{LACKS}{verb} for "{queue}"')
        for method, end, body, id in (("POST", "/dlq", {}, ids[1]), ("POST", "/retry", {}, ids[1]),
                                      ("DELETE", "", None, ids[2])):
            for caller in (reader, stranger):
                assert told(caller, method, path(id, end=end), body) == (403, f'{LACKS}manage for "{queue}"')
            answer = manager.request(method, path(id, end=end), body)
            assert answer.status == 200 and answer.json["partitionId"] == at, answer.body
            assert answer.json["success"] is True
        assert told(manager, "POST", "/api/v1/traces", traces)[0] == 201
        assert told(reader, "GET", f"/api/v1/traces/{at}/{ids[0]}")[0] == 200
        assert told(stranger, "GET", f"/api/v1/traces/{at}/{ids[0]}") == DENIED
        assert told(stranger, "POST", "/api/v1/traces", traces) == DENIED
        if named:
            assert told(manager, "DELETE", path("x", f"{queue}x")) == DENIED
            assert told(stranger, "DELETE", path("x", f"{queue}x")) == (404, "Partition not found")
        else:
            assert told(stranger, "GET", f"/api/v1/messages/{uuid.uuid4()}/x")[0] == 404
    assert full.get(path(ids[2])).status == 404


def test_permissions_give_no_level(daemon):
    with limited(daemon, "read-only", **{"*": "*"}) as caller:
        assert told(caller, "POST", "/api/v1/push", push_body("x")) == (403, "Insufficient permissions")
    with Caller(daemon, token(role="read-write", queues={})) as caller:
        assert told(caller, "POST", "/api/v1/push", push_body("x")) == DENIED
        assert told(caller, "POST", "/api/v1/push", {"items": []})[0] == 201
    with Caller(daemon, writer()) as caller:
        assert told(caller, "POST", "/api/v1/push",
                    push_body("free"))[0] == 201, "without the claim all queues are free"


SHORT = st.text("ab*", max_size=9).map(str.encode)


@given(SHORT, st.text("ab", max_size=9).map(str.encode))
def test_both_planes_read_patterns_alike(pattern, name):
    assert fits(pattern, name) == bool(probe_glob(pattern, name))


@pytest.mark.parametrize("pattern, name, fit", [
    (b"", b"", True), (b"*", b"", True), (b"*", b"x", True), (b"a*", b"a", True), (b"a*c", b"abbc", True),
    (b"a*c", b"ac", True), (b"a*c", b"acd", False),
    (b"a*b*c", b"axbxc", True), (b"*.dead", b"orders.dead", True), (b"ab", b"abc", False), (b"a**b", b"a-b", True),
    (b"?", b"x", False), (b"a.c", b"abc", False),
])
def test_patterns(pattern, name, fit):
    assert fits(pattern, name) is fit and bool(probe_glob(pattern, name)) is fit


VALUES = st.text(" BbEeAaRrx.", max_size=12).map(lambda text: text.strip().encode())


@given(VALUES)
def test_both_planes_find_the_same_token(value):
    assert probe_bearer(b"Host: x\r\nAuthorization: " + value + b"\r\nOther: y\r\n") == bearer_of(
        [(b"authorization", value)])


def test_a_lease_is_extended_by_whoever_may_pop_its_queue(daemon, full):
    for number in range(3):
        full.push("leased-1", number, partition=f"p{number}")
    full.push("leased-2", 9)
    single, several, foreign = full.pop("leased-1",
                                        "p0"), full.pop("leased-1", batch=2, partitions=2), full.pop("leased-2")
    assert len({message["leaseId"] for message in several}) == 1
    assert len({message["partition"] for message in several}) == 2
    with limited(daemon, **{"leased_1": "pop", "leased_2": "push"}) as caller:
        for message in (single[0], several[0]):
            assert caller.extend(message["leaseId"])["success"] is True
        assert told(caller, "POST", f"/api/v1/lease/{foreign[0]['leaseId']}/extend", {}) == DENIED
        assert told(caller, "POST", f"/api/v1/lease/{uuid.uuid4()}/extend", {})[0] == 200, "nobody's"
    with limited(daemon, other="pop") as caller:
        for message in (single[0], several[0], foreign[0]):
            assert told(caller, "POST", f"/api/v1/lease/{message['leaseId']}/extend", {"seconds": 86_400}) == DENIED
    before = full.extend(foreign[0]["leaseId"], {"seconds": 1})["expiresAt"]
    assert before < full.extend(foreign[0]["leaseId"],
                                {"seconds": 3600})["expiresAt"], "and it was not extended by a day"


def test_a_blank_name_of_a_queue_is_all_queues(daemon) -> None:
    """`?queue=in&queue=`: a route takes the last one."""
    routers()      # declares the routes
    asked = [one for one in levels.TABLE if one.where == "query"]
    assert len(asked) > 10
    with limited(daemon, role="admin", **{"in": ["read", "manage"]}) as caller:
        for route in asked:
            for query in ("queue=in&queue=", "queue=&queue=in", "queue=in&%71ueue", "queue=in&queue=other", "queue="):
                assert told(caller, route.method, f"/{route.path}?{query}") == DENIED, (route.path, query)
        assert caller.get("/api/v1/messages?queue=in").status == 200
