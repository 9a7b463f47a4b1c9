"""Who may have a stream of messages, for how long, and what may be acknowledged over it."""
import json
import time

import pytest
from support.callers import Caller
from support.client import ack_of
from support.feed import Feed
from support.socket_feed import SocketFeed
from support.tokens import SECRET, bearer, token, writer
from support.wait import until


@pytest.fixture(scope="module")
def daemon(start_daemon):
    return start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, JWT_CLOCK_SKEW="0", QUEEND_JWT_QUEUES_CLAIM="queues")


def refused(daemon, queue: str, headers: dict) -> tuple[int, str]:
    stream = Feed(daemon.address, queue, headers=headers)
    stream.close()
    return stream.status, json.loads(stream.text)["error"]


def test_a_stream_needs_what_a_pop_needs(daemon, queue):
    assert refused(daemon, queue, {}) == (401, "Authentication required")
    assert refused(daemon, queue, bearer("x"))[0] == 401
    assert refused(daemon, queue, bearer(token(sub="reader", role="read-only")))[0] == 403
    limited = bearer(token(sub="limited", role="read-write", queues={"other": "pop"}))
    status, error = refused(daemon, queue, limited)
    assert status == 403 and error.startswith("Insufficient permissions for this queue")


def test_a_stream_ends_with_its_token(daemon, queue):
    end = int(time.time()) + 5       # until then both are open, on a slow machine as well
    with Caller(daemon, writer()) as other, \
            Feed(daemon.address, queue, headers=bearer(writer(exp=end - int(time.time())))) as stream, \
            SocketFeed(daemon.address, queue, headers=bearer(writer(exp=end - int(time.time())))) as socket:
        event = stream.event()
        assert (event.name, event.json) == ("end", {"reason": "token expired"})
        assert stream.event() is None
        assert socket.closed() == (1008, "token expired")
        assert time.time() >= end - 0.1
        other.push(queue, "for another")
        assert [m["data"] for m in other.pop(queue)] == ["for another"]


@pytest.mark.parametrize("leaves", [False, True])
def test_acknowledgments_over_a_socket_are_looked_at(daemon, queue, leaves):
    """Also when its client leaves before they are."""
    limited = bearer(token(sub="limited", role="read-write", queues={queue: "pop"}))
    with Caller(daemon, writer()) as other:
        other.push(queue, "own")
        other.push(queue + "-other", "not its own")
        (foreign,) = other.pop(queue + "-other")
        with SocketFeed(daemon.address, queue, headers=limited) as stream:
            message = stream.message()
            if leaves:
                stream.say({"ack": ack_of(foreign)})
                stream.say({"extend": {"leaseId": foreign["leaseId"], "seconds": 1}})
            else:
                assert stream.ask({"ack": ack_of(foreign)})["status"] == 403
                assert stream.ask({"extend": {"leaseId": foreign["leaseId"]}})["status"] == 403
                assert stream.ack(message)["success"]
        until(lambda: other.metric("queend_worker_streams") == 0, "it is gone")
        assert other.ack(foreign)["success"], "nobody else did it"
