"""Tokens of pages, which cannot set a header of a stream: a ticket in the query, or a protocol of a WebSocket."""
from __future__ import annotations

import json
import time

import pytest
from support.callers import Caller
from support.feed import Feed
from support.socket_feed import SocketFeed, handshake
from support.http import Wire
from support.tokens import SECRET, bearer, token, writer
from support.wait import until

TOKENS = {"JWT_ENABLED": "true", "JWT_SECRET": SECRET, "JWT_CLOCK_SKEW": "0", "QUEEND_JWT_QUEUES_CLAIM": "queues"}


@pytest.fixture(scope="module")
def daemon(start_daemon):
    return start_daemon(**TOKENS, QUEEND_REQUEST_LOG="all")


def minted(daemon, queue: str, where: str = "", headers: dict | None = None):
    with daemon.client() as client:
        return client.request("POST", f"/api/v1/stream/{queue}{where}/ticket", None, headers or bearer(writer()))


def ticket(daemon, queue: str, where: str = "", headers: dict | None = None) -> str:
    answer = minted(daemon, queue, where, headers)
    assert answer.status == 201 and answer.json["expiresInSeconds"] == 5
    assert answer.json["path"] == f"/api/v1/stream/{queue}{where}?ticket={answer.json['ticket']}"
    return answer.json["ticket"]


def status(daemon, queue: str, partition: str | None = None, **query: object) -> int:
    stream = Feed(daemon.address, queue, partition, **query)
    stream.close()
    return stream.status


def test_a_ticket_opens_one_stream(daemon, queue):
    with Caller(daemon, writer()) as other:
        other.push(queue, "for a page")
    one = ticket(daemon, queue)
    with Feed(daemon.address, queue, ticket=one, autoAck=True) as stream:
        assert stream.event().json["data"] == "for a page"
        assert status(daemon, queue, ticket=one) == 401
    assert status(daemon, queue, ticket=one) == 401
    with SocketFeed(daemon.address, queue, ticket=ticket(daemon, queue)):
        pass


def test_it_is_of_its_path_and_used_up_at_another(daemon, queue):
    one = ticket(daemon, queue)
    assert status(daemon, queue + "-other", ticket=one) == 401
    assert status(daemon, queue, ticket=one) == 401
    two = ticket(daemon, queue, "/partition/p")
    assert status(daemon, queue, ticket=two) == 401
    three = ticket(daemon, queue, "/partition/p")
    with Feed(daemon.address, queue, "p", ticket=three) as stream:
        assert stream.status == 200
    with daemon.client() as client:
        four = ticket(daemon, queue)
        assert client.get(f"/api/v1/pop/queue/{queue}?ticket={four}").status == 401, "of streams only"


@pytest.mark.parametrize("wrong", ["", "x", "%00", "%zz", "a" * 5000])
def test_nonsense_is_none(daemon, queue, wrong):
    with daemon.client() as client:
        assert client.get(f"/api/v1/stream/{queue}?ticket={wrong}").status in (400, 401)


def test_who_may_not_pop_gets_none(daemon, queue):
    assert minted(daemon, queue, headers={"X-None": "1"}).status == 401
    assert minted(daemon, queue, headers=bearer(token(sub="reader", role="read-only"))).status == 403
    limited = bearer(token(sub="limited", role="read-write", queues={queue: "pop", "other": "push"}))
    assert minted(daemon, "other", headers=limited).status == 403
    assert status(daemon, queue, ticket=ticket(daemon, queue, headers=limited)) == 200


def test_the_stream_ends_with_the_token_behind_it(daemon, queue):
    end = int(time.time()) + 2
    one = ticket(daemon, queue, headers=bearer(writer(exp=end - int(time.time()))))
    with Feed(daemon.address, queue, ticket=one) as stream:
        assert stream.event().json == {"reason": "token expired"}


def test_a_protocol_of_a_socket_may_be_the_token(daemon, queue):
    """The answer names the other one, as browsers demand."""
    with Caller(daemon, writer()) as other:
        other.push(queue, 1)
    for offered, wanted in ((f"queend, bearer.{writer()}", 101), (f"bearer.{writer()},queend", 101),
                            ("queend, bearer.", 401), ("queend, bearer.x.y.z", 401), ("queend", 401)):
        wire = Wire(daemon.address, 60)
        wire.send(handshake(queue, headers={"Sec-WebSocket-Protocol": offered})[0])
        answer = wire.receive(head_only=True)
        assert answer.status == wanted
        assert answer.headers.get("sec-websocket-protocol") == ("queend" if wanted == 101 else None)
        wire.close()


def test_neither_is_ever_in_a_log(start_daemon, queue):
    daemon = start_daemon(**TOKENS, QUEEND_REQUEST_LOG="all", LOG_LEVEL="debug")
    one, two, bearing = ticket(daemon, queue), ticket(daemon, queue), writer()
    for _ in range(2):
        status(daemon, queue, ticket=one)
    status(daemon, queue + "-other", ticket=two)
    with SocketFeed(daemon.address, queue, headers={"Sec-WebSocket-Protocol": f"queend, bearer.{bearing}"}):
        pass
    until(lambda: sum(line.get("path", "").startswith("/api/v1/stream/") for line in daemon.log) >= 4, "its lines")
    daemon.stop()
    said = json.dumps(daemon.log)
    assert one not in said and two not in said and bearing not in said and "ticket=" not in said


def test_too_old_it_is_none(daemon, queue):
    one = ticket(daemon, queue)
    began = time.monotonic()
    until(lambda: time.monotonic() - began > 5.5, "its end", 30)
    assert status(daemon, queue, ticket=one) == 401


def test_without_tokens_a_ticket_says_nothing(start_daemon, queue):
    daemon = start_daemon()
    with daemon.client() as client:
        one = client.post(f"/api/v1/stream/{queue}/ticket").json["ticket"]
    assert status(daemon, queue, ticket=one) == status(daemon, queue, ticket=one) == 200
