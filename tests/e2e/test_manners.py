"""HTTP as its newer standards have it, beside the forms that clients know: problems, keys of idempotency, ETags,
Retry-After."""
import json
import uuid
from urllib.parse import quote

import pytest
from support.http import Wire, request
from support.wait import until

PROBLEM = {"Accept": "application/problem+json"}


def problem(answer):
    assert answer.headers["content-type"] == "application/problem+json", answer
    told = answer.json
    assert told["type"] == "about:blank" and told["status"] == answer.status and told["title"]
    assert told["detail"] == told["error"]
    return told


# -- RFC 9457 ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("method, target, body, status", [
    ("POST", "/api/v1/push", b"[1,2", 400),
    ("POST", "/api/v1/push", b'{"items":[{"queue":7}]}', 400),
    ("GET", "/api/v1/pop/queue/%FF", None, 400),
    ("POST", "/api/v1/ack", b"{}", 400),
    ("POST", "/api/v1/ack/batch", b"{}", 400),
    ("POST", "/api/v1/transaction", b"{}", 400),
    ("POST", "/api/v1/lease/x/extend", b"{", 400),
    ("POST", "/api/v1/configure", b"{", 400),
    ("GET", "/api/v1/resources/queues/no-such-queue", None, 404),
    ("GET", "/nowhere/%22a%22/\"b\"/é", None, 404),
    ("DELETE", "/api/v1/push", None, 404),
])
def test_errors_are_problems_where_they_are_asked_for(client, method, target, body, status):
    plain, told = (client.request(method, target, body, headers) for headers in ({}, PROBLEM))
    assert plain.status == told.status == status
    assert plain.headers["content-type"] == "application/json"
    members = problem(told)
    assert members["instance"] == quote(target, safe="/%")
    # what compatible clients read stays as it is
    assert {key: value for key, value in members.items()
            if key in plain.json} == {key: members[key] for key in plain.json} == plain.json


@pytest.mark.parametrize("accept, wanted", [
    ("*/*", False), ("application/*", False), ("application/json", False), ("application/problem+json;q=0", False),
    ("application/json, application/problem+json;q=0.9", False), ("application/problem+jsonx", False),
    ("text/html;a=application/problem+json", False),
    ("application/json, application/problem+json", True),
    ("application/json;q=0.1,APPLICATION/problem+JSON ; q=0.125", True),
    ("text/html, application/problem+json;charset=utf-8;q=0.001", True),
])
def test_who_counts_as_asking(client, accept, wanted):
    for target in ("/api/v1/pop", "/nowhere"):
        answer = client.request("GET", target, None, {"Accept": accept})
        assert (answer.headers["content-type"] == "application/problem+json") == wanted


def test_accept_may_come_in_several_lines(daemon):
    with Wire(daemon.address) as wire:
        wire.send(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\naccept:"
                  b" application/problem+json\r\n\r\n")
        problem(wire.receive())


def test_what_is_no_request_is_told_plainly(daemon):
    with Wire(daemon.address) as wire:
        wire.send(b"GET / HTTP/1.1\r\nAccept: application/problem+json\r\n\r\n")
        answer = wire.receive()
        assert answer.status == 400 and answer.json == {"error": "Missing Host header"}


def test_an_answer_that_is_no_error_stays(client):
    assert client.request("GET", "/health", None, PROBLEM).headers["content-type"] == "application/json"


def test_further_members_stay_and_the_five_are_ours(client):
    answer = client.request("POST", "/api/v1/configure", {"queue": "q", "options": {"leaseTime": -1}}, PROBLEM)
    assert problem(answer)["success"] is False and answer.json["code"] == "invalid_option"


# -- ETag, HEAD, Retry-After -------------------------------------------------------------------------------------------

def test_what_has_not_changed_is_not_sent_again(client, queue):
    client.configure(queue)
    target = f"/api/v1/resources/queues/{queue}"
    first = client.get(target)
    tag = first.headers["etag"]
    for sent in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = client.request("GET", target, None, {"If-None-Match": sent})
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag), sent
        assert "content-length" not in again.headers and "content-type" not in again.headers
    assert client.request("GET", target, None, {"If-None-Match": '"other"'}).json == first.json
    client.push(queue, 1)
    changed = client.request("GET", target, None, {"If-None-Match": tag})
    assert changed.status == 200 and changed.headers["etag"] != tag and changed.json["totals"]["total"] == 1


@pytest.mark.parametrize("target", ["/health", "/metrics", "/metrics/prometheus",
                                    "/api/v1/resources/queues/none-of-this-name", "/api/v1/pop/queue/etag?batch=1"])
def test_what_has_no_etag(client, target):
    assert "etag" not in client.get(target).headers


def test_head_is_get_without_the_body(client, queue):
    client.configure(queue)
    for target in (f"/api/v1/resources/queues/{queue}", "/openapi.json"):
        got, head = client.get(target), client.request("HEAD", target)
        assert head.status == 200 and head.body == b"" and head.headers["content-length"] == str(len(got.body))
        assert head.headers["etag"] == got.headers["etag"]
        assert client.request("HEAD", target, None, {"If-None-Match": got.headers["etag"]}).status == 304


def test_head_takes_nothing_from_a_queue(client, queue):
    client.push(queue, 1)
    assert client.request("HEAD", f"/api/v1/pop/queue/{queue}?autoAck=true").status == 404
    assert [one["data"] for one in client.pop(queue)] == [1]


def test_who_is_sent_away_is_told_when_to_come_back(start_daemon, postgres):
    conninfo = postgres.database()
    daemon = start_daemon(conninfo, QUEEND_PATIENCE_MS=1, DB_CONNECTION_TIMEOUT=1000)
    name = conninfo.rpartition("dbname=")[2]
    with daemon.client() as client:
        postgres.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        postgres.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        until(lambda: client.get("/readyz").status == 503, "the core has lost its connections")
        for method, target, body in (("GET", "/readyz", None), (
                "POST", "/api/v1/push", {"items": [{"queue": "q", "payload": 1}]}), ("GET", "/api/v1/messages", None)):
            for headers in ({}, PROBLEM):
                answer = client.request(method, target, body, headers)
                assert answer.status == 503 and answer.headers["retry-after"] == "1", (target, answer)
                assert headers == {} or problem(answer)["title"] == "Service Unavailable"
        health = client.request("GET", "/health", None, PROBLEM)
        assert (health.status, health.headers["retry-after"],
                health.headers["content-type"]) == (503, "1", "application/json"), "a report, no error"
        postgres.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        until(lambda: client.get("/readyz").status == 200 and client.get("/health").status == 200, "both are back")


# -- Idempotency-Key ---------------------------------------------------------------------------------------------------

def push(client, body, key=None, target="/api/v1/push", kind="application/json"):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.request("POST", target, body,
                          {"Content-Type": kind, **({} if key is None else {"Idempotency-Key": key})})


def stored(client, queue):
    messages = client.pop(queue, batch=10000, partitions=64)
    return sorted(json.dumps(one["data"]) for one in messages)


def test_a_push_sent_again_answers_the_same_and_stores_nothing(client, queue):
    items = {"items": [{"queue": queue, "partition": f"p{i % 3}", "payload": i,
                        **({"traceId": str(uuid.uuid4())} if i % 2 else {})} for i in range(9)]}
    first, again = push(client, items, "order-17"), push(client, items, '"order-17"')
    assert first.status == again.status == 201 and first.json == again.json
    assert "idempotency-replayed" not in first.headers and again.headers["idempotency-replayed"] == "true"
    assert all(one["status"] == "queued" and uuid.UUID(one["transaction_id"]).version == 8 for one in first.json)
    messages = client.pop(queue, batch=100, partitions=3)
    assert sorted(one["data"] for one in messages) == list(range(9))
    assert {one["transactionId"] for one in messages} == {one["transaction_id"] for one in first.json}
    other = push(client, items, "order-18")
    assert "idempotency-replayed" not in other.headers
    assert not {one["transaction_id"] for one in other.json} & {one["transaction_id"] for one in first.json}


def test_what_a_first_attempt_did_not_store_is_stored_by_the_second(client, queue):
    items = [{"queue": queue, "partition": f"p{i}", "payload": i} for i in range(4)]
    first = push(client, {"items": items[:2]}, "half")
    second = push(client, {"items": items}, "half")
    assert second.headers["idempotency-replayed"] == "true" and second.json[:2] == first.json
    assert stored(client, queue) == ["0", "1", "2", "3"]


def test_items_with_ids_of_their_own_keep_to_them(client, queue):
    items = {"items": [{"queue": queue, "transactionId": f"{queue}-a", "payload": 1}, {"queue": queue, "payload": 2}]}
    push(client, items, "mixed")
    again = push(client, items, "mixed")
    assert [one["status"] for one in again.json] == ["duplicate", "queued"]
    assert stored(client, queue) == ["1", "2"]


@pytest.mark.parametrize("kind, query, body", [
    ("application/x-ndjson", "", b"".join(b'{"payload":%d}\n' % i for i in range(300))),
    ("application/x-ndjson", "&payload=line", b"".join(b"%d\n" % i for i in range(300))),
    ("application/json", "", None),
], ids=["items", "lines", "json"])
def test_every_form_and_size_of_a_push(client, queue, kind, query, body):
    body = body or json.dumps({"items": [{"queue": queue, "payload": i} for i in range(300)]}).encode()
    first, again = (push(client, body, "runs", f"/api/v1/push?queue={queue}{query}", kind) for _ in range(2))
    assert first.status == 201, first.body
    assert first.json == again.json and again.headers["idempotency-replayed"] == "true"
    assert push(client, body, "runs", f"/api/v1/push?queue={queue}&format=counts{query}",
                kind).json == {"count": 300, "queued": 300, "duplicate": 0, "error": 0}
    assert stored(client, queue) == sorted(str(i) for i in range(300))


def test_the_key_counts_within_its_partition(client, queue):
    for name in (queue, queue + "-other"):
        assert "idempotency-replayed" not in push(client, {"items": [{"queue": name, "payload": 1}]}, "one-key").headers
    assert stored(client, queue) == stored(client, queue + "-other") == ["1"]


def test_two_at_once_store_one(daemon, queue):
    with Wire(daemon.address) as one, Wire(daemon.address) as other, daemon.client() as client:
        body = json.dumps({"items": [{"queue": queue, "payload": 1}]}).encode()
        for wire in (one, other):
            wire.send(request("POST", "/api/v1/push", body, {"Idempotency-Key": "race"}) * 20)
        answers = [wire.receive() for wire in (one, other) for _ in range(20)]
        assert {answer.status for answer in answers} == {201} and len({answer.body for answer in answers}) == 1
        assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
        assert stored(client, queue) == ["1"]


@pytest.mark.parametrize("key", ["", '""', "x" * 256, "caf\xe9", "a\tb"])
def test_keys_that_are_refused(client, queue, key):
    answer = push(client, {"items": [{"queue": queue, "payload": 1}]}, key)
    assert answer.status == 400 and "Idempotency-Key" in answer.json["error"]
    assert client.pop(queue) == []


def test_two_keys_are_refused(daemon, queue):
    with Wire(daemon.address) as wire:
        wire.send(request("POST", "/api/v1/push", b'{"items":[]}', {"Idempotency-Key": "a", "idempotency-key": "b"}))
        assert wire.receive().status == 400


@pytest.mark.parametrize("sent", [
    b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", b"nonsense\r\n\r\n",
    b"GET /api/v1/pop HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /api/v1/push HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
    b"GET /api/v1/stream/sniffed HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n",
])
def test_no_browser_guesses_what_an_answer_is(daemon, sent):
    with Wire(daemon.address) as wire:
        wire.send(sent)
        assert wire.receive(head_only=True).headers["x-content-type-options"] == "nosniff"


# -- headers in several lines ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("target", ["/api/v1/push", "/api/v1/configure", "/nowhere"])
def test_two_content_types_are_a_problem(daemon, target):
    """Whatever the route: one would be believed by a proxy in front, the other by us."""
    head = (f"POST {target} HTTP/1.1\r\nHost: localhost\r\nAccept: application/problem+json\r\nContent-Length: 2\r\n"
            f"Content-Type: application/x-ndjson\r\nContent-Type: application/json\r\n\r\n{{}}")
    with Wire(daemon.address) as wire:
        wire.send(head.encode())
        told = wire.receive()
        assert told.status == 400 and problem(told)["error"] == "Repeated Content-Type header"
        assert told.json["instance"] == target and wire.ended()


@pytest.mark.parametrize("target, lines, status", [
    ("/api/v1/resources/queues?color=blue", ("Prefer: respond-async", "Prefer: handling=strict"), 400),
    ("/api/v1/pop/queue/none?color=blue", ("Prefer: respond-async", "Prefer: handling=strict"), 400),
    ("/api/v1/resources/queues?color=blue", ("Prefer: respond-async", "Prefer: wait=1"), 200),
])
def test_lists_may_come_in_several_lines(daemon, target, lines, status):
    with Wire(daemon.address) as wire:
        wire.send("\r\n".join([f"GET {target} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode())
        assert wire.receive().status == status
