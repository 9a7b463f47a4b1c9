"""Streams of messages in a browser: its own WebSocket and EventSource, with a token and with a ticket."""
from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from support.callers import Caller
from support.guides import named
from support.tokens import SECRET, writer

EVENTS = """async ([token, queue]) => {
  const asked = await fetch(`/api/v1/stream/${queue}/ticket`, {method: "POST",
    headers: {Authorization: "Bearer " + token}});
  const {path} = await asked.json();
  const got = await new Promise((done, failed) => {
    const feed = new EventSource(path + "&autoAck=true");
    feed.onmessage = ({data}) => { feed.close(); done(JSON.parse(data).data); };
    feed.onerror = () => { feed.close(); failed(new Error("event source")); };
  });
  return [got, (await fetch(path)).status];
}"""
SOCKET = """async ([token, queue]) => await new Promise((done, failed) => {
  const feed = new WebSocket(`ws://${location.host}/api/v1/stream/${queue}`, ["queend", "bearer." + token]);
  let got;
  feed.onmessage = ({data}) => {
    const said = JSON.parse(data);
    if (said.message) {
      got = said.message;
      feed.send(JSON.stringify({ack: {transactionId: got.transactionId, partitionId: got.partitionId,
        leaseId: got.leaseId, status: "completed"}}));
    } else { feed.close(); done([got.data, said.status, feed.protocol]); }
  };
  feed.onerror = () => failed(new Error("socket"));
})"""


@pytest.fixture(scope="module")
def daemon(start_daemon):
    return start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET)


def test_a_page_reads_streams(browser: Browser, daemon, queue: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{daemon.url}/livez")
    with Caller(daemon, writer()) as other:
        other.push(queue, "for the event source")
        assert page.evaluate(EVENTS, [writer(), queue]) == ["for the event source", 401]
        other.push(queue, "for the socket")
        assert page.evaluate(SOCKET, [writer(), queue]) == ["for the socket", 200, "queend"]
    context.close()


# docs/browsers.md: on a page of another origin, the module of the page, with a server that hands out tokens.
MODULE = """async ([url, token, queue]) => {
  const {server, push, events, socket} = await import("/feed.js");
  server.url = url;
  window.asked = 0;
  window.seen = {events: [], socket: []};
  const getToken = async () => { asked += 1; return token; };
  window.stop = [
    events(getToken, queue, "page-events", (m) => seen.events.push(m.data)),
    socket(getToken, queue, "page-socket", async (m) => {
      seen.socket.push([m.data, m.deliveryAttempt]);
      if (m.data === 2 && m.deliveryAttempt === 1) throw new Error("not yet");
    })];
  return [await push(getToken, queue, {transactionId: "1", payload: 1}),
    await push(getToken, queue, {transactionId: "1", payload: 1}),
    await push(getToken, queue, {transactionId: "2", payload: 2}),
    await push(getToken, "another", {payload: 1}).catch((refused) => refused.status)];
}"""


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[str]:
    """The origin of a web server with the module of the page."""
    (tmp_path / "index.html").write_text("<!doctype html><title>shop</title>")
    (tmp_path / "feed.js").write_text(named("browsers.md", "js")["feed.js"])
    handler = functools.partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{web.server_port}"
        web.shutdown()


def test_the_module_of_the_page(browser: Browser, start_daemon, elsewhere: str) -> None:
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="queues",
                          JWT_REQUIRE_QUEUES="true", CORS_ORIGINS=elsewhere)
    token = writer(queues={"inbox.anna": ["push", "pop:page-*"]})
    context = browser.new_context()
    page = context.new_page()
    page.goto(elsewhere)
    assert page.evaluate(MODULE, [daemon.url, token, "inbox.anna"]) == ["queued", "duplicate", "queued", 403]
    page.wait_for_function("seen.events.length === 2 && seen.socket.length === 3", timeout=60_000)
    assert page.evaluate("seen") == {"events": [1, 2], "socket": [[1, 1], [2, 1], [2, 2]]}
    asked = page.evaluate("asked")
    daemon.end()                                          # both streams end and are opened again, with a token each
    page.wait_for_function(f"asked > {asked + 1}", timeout=60_000)
    page.evaluate("stop.forEach((one) => one())")
    context.close()
