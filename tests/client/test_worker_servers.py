"""Workers against servers that are late, refuse them or answer wrongly."""
from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from support.both import Lossy
from support.client import Client as Plain
from support.daemon import Daemon
from support.ports import free_port
from support.tokens import SECRET, bearer, token
from support.wait import PATIENCE, until
from support.workers import LONG, consumed

from queend.client import App, Context, File, Forbidden, Message, Unauthorized, Unavailable


@pytest.mark.parametrize("path", [b"POST /api/v1/ack/batch", b"POST /api/v1/transaction", b"GET /api/v1/pop"],
                         ids=["ack", "transaction", "pop"])
def test_a_server_that_asks_to_wait_is_not_asked_in_a_loop(daemon: Daemon, network: Lossy, client: Plain, queue: str,
                                                           path: bytes) -> None:
    """It asks for more time than the deadline has left, so the request fails at once."""
    asked: list[float] = []
    busy: list[Any] = []

    def rule(to_server: bool, data: bytes) -> list[Any]:
        if to_server and data.startswith(path):
            asked.append(time.monotonic())
            if len(asked) < 3:
                busy.append(network.speaks)
        if not to_server and network.speaks in busy:
            busy.remove(network.speaks)
            return [b"HTTP/1.1 503 Busy\r\nRetry-After: 2\r\nContent-Length: 27\r\n\r\n"
                    b'{"error":"try again later"}']
        return [data]

    network.rule = rule
    app = App(network.url, deadline=1, timeout=LONG)

    @app.worker(queue, lease=6 if b"pop" in path else 60, poll=0.1)
    def handle(message: Message, context: Context) -> None:
        if b"transaction" in path:
            context.push(f"{queue}-out", 1)

    client.push(queue, 1)
    with app.running():
        consumed(client, queue)
        until(lambda: len(asked) > 1, "it is asked again")
    assert all(later - earlier > 1.9 for earlier, later in pairwise(asked[:3]))


def test_a_token_that_is_missing_is_no_answer(kind: type, tmp_path: Any) -> None:
    def none() -> str:
        raise RuntimeError("the vault is sealed")

    for source, told in ((File(tmp_path / "token"), "No such file"), (none, "the vault is sealed")):
        one = kind("http://127.0.0.1:1", token=source)
        with pytest.raises(Unavailable, match=told) as raised:
            one.push("q", 1)
        assert not raised.value.may_be_done
        one.close()


def test_a_network_that_loses_answers_stops_no_worker(network: Lossy, client: Plain, queue: str) -> None:
    app = App(network.url, deadline=LONG, timeout=LONG)
    handled: list[int] = []

    @app.worker(queue, lease=2, poll=0.1, batch=1)
    def handle(messages: list[Message], context: Context) -> None:
        handled.extend(one.data for one in messages)
        context.push(f"{queue}-out", messages[0].data)
        if len(handled) == 1:
            network.lose("POST /api/v1/transaction", answers=True)
        if len(handled) == 2:
            network.lose("GET /api/v1/pop", answers=True)

    client.push(queue, *range(5))
    network.lose("GET /api/v1/pop", answers=False, times=3)
    with app.running():
        consumed(client, queue)
    assert [one["data"] for one in client.pop(f"{queue}-out", batch=9)] == list(range(5))


def test_a_server_that_comes_later(app: App, daemon: Daemon, client: Plain, queue: str) -> None:
    late = App(f"http://127.0.0.1:{free_port()}", deadline=0.2)
    late.worker(queue, poll=0.1)(lambda message: None)
    with late.running():
        pass        # it is stopped while it waits for the server, and no error is raised


def test_a_worker_that_is_refused_ends(start_daemon: Callable[..., Daemon], queue: str) -> None:
    guarded = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET)
    for shown, error in ((None, Unauthorized), (token(role="read-only"), Forbidden)):
        app = App(guarded.url, token=shown, deadline=LONG, timeout=LONG)
        app.worker(queue)(lambda message: None)
        assert app.run(signals=False) == 1
        with pytest.raises(error):
            with app.running():
                pass


@pytest.mark.parametrize("body", [b"welcome", b'{"service":"another"}', b"[]", b'{"messages":[{}]}'],
                         ids=["text", "object", "list", "member"])
def test_an_answer_of_another_program_ends_no_worker(network: Lossy, client: Plain, queue: str, body: bytes,
                                                     caplog: pytest.LogCaptureFixture) -> None:
    """It comes once in place of a pop, and once in place of an acknowledgment."""
    false: dict[bytes, Any] = {b"GET /api/v1/pop": None, b"POST /api/v1/ack": None}

    def rule(to_server: bool, data: bytes) -> list[Any]:
        for path, speaks in false.items():
            if to_server and speaks is None and data.startswith(path):
                false[path] = network.speaks
            if not to_server and speaks is network.speaks is not None:
                false[path] = False
                return [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)]
        return [data]

    network.rule = rule
    app = App(network.url, deadline=LONG, timeout=LONG)
    handled: list[int] = []

    @app.worker(queue, name="w", lease=1, poll=0.1)
    def handle(message: Message) -> None:
        handled.append(message.data)

    client.push(queue, 1, 2)
    with app.running():
        consumed(client, queue)
    assert set(handled) == {1, 2} and set(false.values()) == {False}
    told = [one for one in caplog.records if "worker w" in one.getMessage() and "next attempt in" in one.getMessage()]
    assert [one.levelno for one in told] == [logging.ERROR] and repr(body) in told[0].getMessage()


def test_a_worker_without_a_token_says_so_at_once(daemon: Daemon, client: Plain, queue: str, tmp_path: Any,
                                                  caplog: pytest.LogCaptureFixture) -> None:
    app = App(daemon.url, token=File(tmp_path / "token"), deadline=LONG, timeout=LONG)
    app.worker(queue, name="w", poll=0.1)(lambda message: None)
    client.push(queue, 1)
    with app.running():
        until(lambda: caplog.records, "it says something")
        assert caplog.records[0].levelno == logging.ERROR
        assert f"No such file or directory: '{tmp_path / 'token'}'" in caplog.records[0].getMessage()
        (tmp_path / "token").write_text("anything")
        consumed(client, queue)


def test_a_token_that_is_refused_later_is_an_error_of_the_log(start_daemon: Callable[..., Daemon], queue: str,
                                                              caplog: pytest.LogCaptureFixture) -> None:
    guarded = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET)
    shown = [token(role="read-write")]
    app = App(guarded.url, token=lambda: shown[0], deadline=LONG, timeout=LONG)
    handled = threading.Event()
    app.worker(queue, name="w", poll=0.1)(lambda message: handled.set())
    with guarded.client() as plain, app.running():
        def push(partition: str) -> int:
            items = [{"queue": queue, "partition": partition, "payload": 1}]
            return plain.request("POST", "/api/v1/push", {"items": items}, bearer(token(role="read-write"))).status

        assert push("acknowledged or not") == 201 and handled.wait(PATIENCE)
        shown[0] = "no.token.at-all"
        told = until(lambda: [one for one in caplog.records if "next attempt in" in one.getMessage()], "it is told")
        assert {one.levelno for one in told} == {logging.ERROR}
        handled.clear()
        shown[0] = token(role="read-write")
        assert push("another") == 201 and handled.wait(PATIENCE)


def test_the_server_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("QUEEND_URL", "http://there:1")
    assert App().client().settings.url == "http://there:1"
    assert App("http://here:2").client().settings.url == "http://here:2"
