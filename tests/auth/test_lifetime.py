"""How long a grant lasts: to the end of its token, of its keys, of its place among the remembered."""
from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from select import select

import pytest
from support.callers import Caller, told
from support.client import pop_target
from support.frozen import frozen
from support.tokens import SECRET, bearer, token, writer
from support.wait import until

EXPIRED = (401, "Token verification failed: Token has expired")


@pytest.fixture(scope="module")
def daemon(start_daemon):
    return start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, JWT_CLOCK_SKEW="0", QUEEND_JWT_TOKENS="8")


def until_over(seconds: int) -> None:
    """Until the wall clock has passed a moment that a token names: nothing else could be waited for."""
    until(lambda: time.time() > seconds, "a token's end")


def test_a_token_ends_while_its_connection_lives(daemon, queue):
    end = int(time.time()) + 6
    short = writer(exp=end - int(time.time()))
    with Caller(daemon, short) as caller:
        caller.push(queue, 1)
        until_over(end)
        wire = caller.wire
        assert told(caller, "POST", "/api/v1/push", {"items": [{"queue": queue, "payload": 2}]}) == EXPIRED
        assert told(caller, "GET", f"/api/v1/pop/queue/{queue}") == EXPIRED
        assert told(caller, "GET", "/api/v1/resources/queues") == EXPIRED
        assert caller.wire is wire, "the connection stays"
        caller.token = writer()
        assert [m["data"] for m in caller.pop(queue, batch=9)] == [1]


@pytest.mark.parametrize("known", [True, False])
def test_a_long_poll_ends_with_its_token(daemon, queue, known):
    """It is answered empty, and nothing is delivered to it afterwards: the message is there for another."""
    with Caller(daemon, writer()) as other:
        if known:
            other.push(queue, 0)
            other.ack(other.pop(queue)[0])
        before = other.parked()

        def parked() -> bool:
            return other.parked() == before + 1

        with ExitStack() as opened:
            for life in (2, 8, 32, 128):      # on a slow machine a short one is over before the pop waits
                end = int(time.time()) + life
                caller = opened.enter_context(Caller(daemon, writer(exp=life)))
                caller.send("GET", pop_target(queue, wait=True, timeout=60_000))
                until(lambda: parked() or time.time() > end, "the pop waits, or its token is over")
                if parked():
                    break
            answer = caller.receive()
            assert answer.status == 200 and answer.json["messages"] == [] and time.time() >= end - 0.1
            until_over(end)
            assert told(caller, "GET", pop_target(queue, wait=True, timeout=60_000)) == EXPIRED
        other.push(queue, "for another")
        assert [m["data"] for m in other.pop(queue)] == ["for another"]


def test_more_tokens_than_places(daemon, queue):
    """What is forgotten is verified again: nobody notices."""
    callers = [Caller(daemon, writer(f"caller-{n}")) for n in range(50)]
    for _ in range(3):
        for n, caller in enumerate(callers):
            caller.push(queue, n, partition=str(n))
    with Caller(daemon, writer()) as reader:
        for n in range(50):
            assert [m["producerSub"] for m in reader.pop(queue, str(n), batch=9)] == [f"caller-{n}"] * 3
    for caller in callers:
        caller.close()


def test_no_more_tokens_are_remembered_than_there_are_places(start_daemon, queue):
    """While nobody verifies any, those that are remembered are let in, and all others wait."""
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_TOKENS="8", NUM_WORKERS=1,
                          QUEEND_CORE_DUMPS="true")                # else nobody may freeze it
    with ExitStack() as opened:
        callers = [opened.enter_context(Caller(daemon, writer(f"caller-{n}"))) for n in range(50)]
        for caller in callers:
            caller.push(queue, 1)
        with frozen(daemon.pid):
            push = b'{"items": [{"queue": "%s", "payload": 2}]}' % queue.encode()
            for caller in callers[:-1]:
                caller.send("POST", "/api/v1/push", push)
            for _ in range(3):      # the last of them is sent when all before have come in, and answered after them
                assert callers[-1].request("POST", "/api/v1/push", push).status == 201, "its token came last"
            answered, _, _ = select([caller.wire.socket for caller in callers[:-1]], [], [], 0)
            assert len(answered) < 8
        assert {caller.receive().status for caller in callers[:-1]} == {201}


def test_a_crowd_with_a_new_token_is_let_in(daemon, queue):
    """Many connections at once with a token nobody has seen: all are held, verified and go on."""
    text, failures = writer("crowd"), []
    gate = threading.Barrier(64)

    def one(n: int) -> None:
        with Caller(daemon, text) as caller:
            gate.wait()
            for _ in range(5):
                answer = caller.request("POST", "/api/v1/push",
                                        {"items": [{"queue": queue, "partition": str(n), "payload": n}]})
                if answer.status != 201:
                    failures.append((answer.status, answer.body))

    threads = [threading.Thread(target=one, args=(n,)) for n in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_bad_tokens_do_not_disturb_good_ones(daemon, queue):
    """A storm of tokens that do not verify, on connections that leave without waiting."""
    with Caller(daemon, writer()) as good:
        good.push(queue, "x")
        for n in range(200):
            with daemon.client() as bad:
                bad.send("POST", "/api/v1/push", b'{"items":[]}', bearer(token(key="z" * 40, sub=str(n), role="admin")))
        with daemon.client() as bad:
            for n in range(200):
                assert told(bad, "POST", "/api/v1/push", {"items": []},
                            bearer(token(key="z" * 40, sub=str(n), role="admin")))[0] == 401
        assert [m["data"] for m in good.pop(queue)] == ["x"]


def test_pipelined_requests_are_answered_in_order(daemon, queue):
    """Held ones among others: a new token, none, a known one."""
    with daemon.client() as client:
        tokens = [writer("fresh"), None, writer("fresh"), "x", writer("other")]
        for n, text in enumerate(tokens):
            client.send("POST", "/api/v1/push", b'{"items":[{"queue":"%s","payload":%d}]}' % (queue.encode(), n),
                        bearer(text) if text else None)
        assert [client.receive().status for _ in tokens] == [201, 401, 201, 401, 201]


def test_a_daemon_that_stops_answers_the_held(start_daemon, queue):
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET)
    with Caller(daemon, writer("late")) as caller:
        caller.push(queue, 1)
    callers = [Caller(daemon, writer(f"late-{n}")) for n in range(20)]
    for caller in callers:
        caller.send("POST", "/api/v1/push", b'{"items":[{"queue":"%s","payload":1}]}' % queue.encode())
    daemon.terminate()
    statuses = []
    for caller in callers:
        try:
            statuses.append(caller.receive().status)
        except ConnectionError:
            statuses.append(0)          # not read any more
        caller.close()
    assert set(statuses) <= {201, 503, 0}
    daemon.ended()
