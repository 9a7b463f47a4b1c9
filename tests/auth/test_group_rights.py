"""Tokens whose verbs are limited to consumer groups: every route that names a group, with a group that fits, with
another one and without any."""
from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from support.callers import Caller
from support.client import ack_of, pop_target
from support.feed import Feed, stream_target
from support.socket_feed import SocketFeed
from support.streams import Stream
from support.tokens import SECRET, bearer, token

from queend.auth.levels import TABLE
from queend.control.routes import routers

routers()      # declares the routes of the control plane
MINE, FOREIGN = "page-1", "payment"
VERBS = [f"{verb}:page-*" for verb in ("pop", "read", "manage")]
LACKS = "Insufficient permissions for this queue: the token lacks "


@pytest.fixture(scope="module")
def daemon(start_daemon):
    return start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="queues")


@pytest.fixture
def full(daemon):
    with Caller(daemon, token(sub="full", role="admin")) as caller:
        yield caller


def named(group: str | None) -> dict[str, str]:
    return {} if group is None else {"consumerGroup": group}


Answer = tuple[int, str]
Ask = Callable[[Caller, Caller, str, str | None], Answer]


def told(caller: Caller, method: str, path: str, body: Any = None) -> Answer:
    answer = caller.request(method, path, body)
    return answer.status, answer.json.get("error", "") if isinstance(answer.json, dict) else ""


def leased(full: Caller, queue: str, group: str | None) -> dict:
    (message,) = full.pop(queue, **named(group))
    return message


def stream(caller: Caller, full: Caller, queue: str, group: str | None) -> Answer:
    with Feed(caller.address, queue, headers=bearer(caller.token), **named(group)) as feed:
        return feed.status, json.loads(feed.text)["error"] if feed.status != 200 else ""


def said(caller: Caller, queue: str, value: dict) -> Answer:
    """Over a socket that its token may have."""
    with SocketFeed(caller.address, queue, "none", headers=bearer(caller.token), consumerGroup=MINE) as socket:
        answer = socket.ask(value)
        body = answer.get("ack", answer.get("extend"))
        return answer["status"], body.get("error", "") if isinstance(body, dict) else ""


def cycle(caller: Caller, full: Caller, queue: str, group: str | None) -> Answer:
    one = Stream(full, queue, queue)
    message = leased(full, queue, group)
    body = {**one.body([message], None), "consumer_group": group}
    return told(caller, "POST", "/streams/v1/cycle", {key: value for key, value in body.items() if value is not None})


def ticket(caller: Caller, full: Caller, queue: str, group: str | None) -> Answer:
    path = caller.post(f"{stream_target(queue)}/ticket", None).json["path"]
    with Feed(caller.address, queue, ticket=path.partition("=")[2], **named(group)) as feed:
        return feed.status, json.loads(feed.text)["error"] if feed.status != 200 else ""


DATA: dict[str, Ask] = {
    "pop_queue": lambda c, f, q, g: told(c, "GET", pop_target(q, **named(g))),
    "pop_partition": lambda c, f, q, g: told(c, "GET", pop_target(q, "Default", **named(g))),
    "stream": stream,
    "ticket": ticket,
    "ack": lambda c, f, q, g: told(c, "POST", "/api/v1/ack", {**ack_of(leased(f, q, g)), **named(g)}),
    "ack_batch": lambda c, f, q, g: told(c, "POST", "/api/v1/ack/batch",
                                         {"acknowledgments": [ack_of(leased(f, q, g))], **named(g)}),
    "transaction": lambda c, f, q, g: told(c, "POST", "/api/v1/transaction", {
        "operations": [{"type": "ack", **ack_of(leased(f, q, g)), **named(g)}]}),
    "lease": lambda c, f, q, g: told(c, "POST", f"/api/v1/lease/{leased(f, q, g)['leaseId']}/extend", {}),
    "socket_ack": lambda c, f, q, g: said(c, q, {"ack": {**ack_of(leased(f, q, g)), **named(g)}}),
    "socket_ack_batch": lambda c, f, q, g: said(c, q, {"ack": {"acknowledgments": [ack_of(leased(f, q, g))],
                                                              **named(g)}}),
    "socket_extend": lambda c, f, q, g: said(c, q, {"extend": {"leaseId": leased(f, q, g)["leaseId"], "seconds": 9}}),
    "cycle": cycle,
}
BODIES = {"seek": {"toEnd": True}, "subscription": {"subscriptionTimestamp": "2030-01-01T00:00:00Z"}}
CONTROL = [route for route in TABLE if ":group" in route.path]


def member(daemon, verbs: list[str] | str = VERBS, **more: object) -> Caller:
    return Caller(daemon, token(sub="page", role="admin", queues={"*": verbs, **more}))


@pytest.mark.parametrize("ask", DATA)
def test_what_is_done_on_behalf_of_a_group(daemon, full, ask: str) -> None:
    for number, (group, may) in enumerate(((MINE, True), (FOREIGN, False), (None, False))):
        queue = f"data-{ask}-{number}"
        full.push(queue, 1)
        with member(daemon) as page, member(daemon, "pop") as plain:
            status, error = DATA[ask](page, full, queue, group)
            if may:
                assert status < 300, error
            else:
                shown = "__QUEUE_MODE__" if group is None else group
                assert (status, error) == (403, f'{LACKS}pop for "{queue}" on behalf of the group "{shown}"')
            other = f"plain-{ask}-{number}"
            full.push(other, 1)
            status, error = DATA[ask](plain, full, other, group)
            assert status < 300, f"a verb without groups is for all of them: {error}"


@pytest.mark.parametrize("route", CONTROL, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_with_a_group_in_its_path(daemon, full, route) -> None:
    queue = "control"
    verb = "read" if route.level == 1 else "manage"
    full.push(queue, 1)
    for group, may in ((MINE, True), (FOREIGN, False)):
        path = "/" + (route.path.replace(":queue", queue).replace(":partition", "Default").replace(":group", group))
        body = None if route.method != "POST" else BODIES.get(path.rsplit("/", 1)[1])
        if route.path.endswith("/offsets"):
            body = {"entries": [{"queue": queue, "partition": "Default", "offset": 0}]}
        with member(daemon) as page, member(daemon, ["push", "pop"]) as wrong:
            status, error = told(page, route.method, path, body)
            assert (status == 403) is not may, error
            if not may:
                about = queue if ":queue" in route.path or route.path.endswith("/offsets") else "*"
                assert error == f'{LACKS}{verb} for "{about}" on behalf of the group "{group}"'
            assert told(wrong, route.method, path, body)[0] == 403


def test_routes_without_a_group_need_a_verb_without_groups(daemon, full) -> None:
    full.push("whole", 1)
    with member(daemon) as page:
        for method, path, body in (("GET", "/api/v1/resources/queues/whole", None),
                                   ("POST", "/api/v1/configure", {"queue": "whole"}),
                                   ("DELETE", "/api/v1/resources/queues/whole", None),
                                   ("DELETE", "/api/v1/queues/whole/clear", None),
                                   ("POST", "/api/v1/push", {"items": [{"queue": "whole", "payload": 1}]})):
            status, error = told(page, method, path, body)
            assert status == 403 and error.startswith(LACKS), (path, error)


def test_a_pop_by_namespace_sees_the_queues_of_its_group_only(daemon, full) -> None:
    full.configure("by-name", namespace="groups")
    full.push("by-name", "seen")
    with member(daemon) as page:
        for group in (FOREIGN, None):
            assert page.pop(None, namespace="groups", **named(group)) == []
        assert [m["data"] for m in page.pop(None, namespace="groups", consumerGroup=MINE)] == ["seen"]


def test_a_query_of_a_stream_is_registered_by_its_group(daemon, full) -> None:
    full.push("source", 1)
    with member(daemon, ["pop:streams.mine"]) as runner:
        for name, status in (("mine", 200), ("theirs", 403)):
            answer = runner.post("/streams/v1/queries", {"name": name, "source_queue": "source", "config_hash": "h"})
            assert answer.status == status, answer.body


def test_a_group_is_shown_in_the_queues_that_may_be_read(daemon, full) -> None:
    for queue in ("mine.a", "mine.b", "theirs"):
        full.push(queue, 1)
        full.pop(queue, consumerGroup="shown")
    def shown(caller: Caller) -> set[str]:
        answer = caller.request("GET", "/api/v1/consumer-groups/shown")
        assert answer.status == 200, answer.body
        return set(answer.json)
    for queues, seen in (({"mine.*": ["read"]}, {"mine.a", "mine.b"}), ({"theirs": "*"}, {"theirs"}),
                         ({"mine.a": ["read:shown"], "theirs": ["read:other", "pop"]}, {"mine.a"}),
                         ({"elsewhere": ["read"]}, set()), ({"*": ["read:s*"]}, {"mine.a", "mine.b", "theirs"})):
        with Caller(daemon, token(sub="page", role="read-only", queues=queues)) as caller:
            assert shown(caller) == seen, queues
    assert shown(full) == {"mine.a", "mine.b", "theirs"}
    for queues in ({"mine.*": ["pop"]}, {"*": ["read:other"]}):
        with Caller(daemon, token(sub="page", role="admin", queues=queues)) as caller:
            answer = caller.request("GET", "/api/v1/consumer-groups/shown")
            assert (answer.status, answer.json["error"]) == (
                403, f'{LACKS}read for "*" on behalf of the group "shown"'), queues


def test_a_session_tells_its_groups(daemon) -> None:
    with member(daemon, ["push", "pop:a-*", "pop:b", "read:b"]) as caller:
        assert caller.get("/api/v1/system/session").json["queues"] == {"*": ["push", "pop:a-*", "pop:b", "read:b"]}


@pytest.mark.parametrize("verb", ["pop:", "push:a", "*:a", ":a", "pull:a", "pop :a", "pop:" + "a" * 256])
def test_what_is_no_verb_refuses_the_token(daemon, verb: str) -> None:
    with member(daemon, [verb]) as caller:
        answer = caller.request("GET", "/api/v1/resources/queues")
        assert answer.status == 401 and answer.json["error"].startswith("Token verification failed: Claim queues ")
