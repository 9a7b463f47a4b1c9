"""Streams of messages in a browser: its own WebSocket and EventSource, with a token and with a ticket."""
from __future__ import annotations

import pytest
from playwright.sync_api import Browser
from support.callers import Caller
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
