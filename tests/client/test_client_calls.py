"""The methods of the client against a daemon."""
from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.client import Client as Plain
from support.daemon import Daemon
from support.ports import free_port
from support.tokens import SECRET, token
from support.wait import until

from queend.client import (
    File,
    Forbidden,
    LeaseLost,
    NotStored,
    Push,
    Refused,
    Scheduled,
    TransactionRefused,
    Unauthorized,
    Unavailable,
    Verdict,
)


def test_a_message_on_its_way(q: Any, queue: str) -> None:
    stored = q.push(queue, {"n": 1}, partition="customer-7", id="order-7", traceparent=f"00-{'a' * 32}-{'b' * 16}-01",
                    headers={"tenant": "acme"})
    assert (stored.status, stored.new, stored.id, stored.error) == ("queued", True, "order-7", None)
    again = q.push(queue, {"n": 1}, partition="customer-7", id="order-7")
    assert (again.status, again.new) == ("duplicate", False)
    (one,) = q.pop(queue, group="billing", batch=10, partitions=10, wait=5, lease=60)
    assert (one.queue, one.partition, one.id, one.data) == (queue, "customer-7", "order-7", {"n": 1})
    assert (one.group, one.attempt, one.offset, one.key) == ("billing", 1, 0, "order-7")
    assert (one.message_id, one.partition_id) == (stored.message_id, stored.partition_id)
    assert one.traceparent is not None and one.created_at.tzinfo is not None and one.headers == {"tenant": "acme"}
    assert q.extend(one, 90) > datetime.now(UTC) + timedelta(seconds=30)
    q.ack(one)
    assert q.pop(queue, group="billing") == []
    (other,) = q.pop(queue)
    assert (other.group, other.id) == (None, "order-7")
    q.ack([other])


@pytest.mark.parametrize("odd", ["a/b", "..", "%41", "ä ?#&", "."])
def test_names_may_have_any_signs(q: Any, kind: type, queue: str, odd: str) -> None:
    name = odd if odd.strip(".") == "" else f"{queue} {odd}"
    id = odd * len(kind.__name__)       # both clients use the same queue
    assert q.push(name, 1, partition=odd, id=id).new
    with q.stream(name, partition=odd) as messages:
        one = next(messages)
    assert (one.queue, one.partition, one.id) == (name, odd, id)
    q.ack(one)
    assert q.pop(name, partition=odd) == []
    assert q.cancel(Scheduled(name, id, odd)) is True


def test_verdicts(q: Any, client: Plain, queue: str) -> None:
    client.configure(queue, retryLimit=1)
    q.push_many(Push(queue, n, partition=f"p{n}") for n in range(4))
    messages = sorted(q.pop(queue, batch=4, partitions=4), key=lambda one: one.data)
    assert [one.data for one in messages] == [0, 1, 2, 3]
    (failed,) = q.fail(messages[0], "boom")
    (retried,) = q.retry(messages[1])
    (dead,) = q.dead(messages[2], "never")
    assert (failed.dead, retried.dead, dead.dead) == (False, False, True)
    (done,) = q.settle([Verdict(messages[3])])
    assert not done.dead and client.dead(queue) == 1
    again = sorted(q.pop(queue, batch=4, partitions=4), key=lambda one: one.data)
    assert [(one.data, one.attempt) for one in again] == [(0, 2), (1, 2)]
    assert q.fail(again[0], "boom")[0].dead is True
    q.retry(again[1], delay=3600)
    assert q.pop(queue, batch=4, partitions=4) == []


def test_a_lease_that_has_ended(q: Any, client: Plain, queue: str) -> None:
    client.configure(queue, leaseTime=1)
    q.push(queue, 1)
    (one,) = q.pop(queue)
    (other,) = until(lambda: q.pop(queue, lease=600), "the lease ends")
    with pytest.raises(LeaseLost):
        q.extend(one, 60)
    with pytest.raises(LeaseLost) as raised:
        q.ack(one)
    assert raised.value.messages == [one]
    q.ack(other)


def test_a_transaction_moves_a_message(q: Any, queue: str) -> None:
    q.push(queue, 1)
    (one,) = q.pop(queue)
    with q.transaction() as t:
        t.ack(one)
        t.push(f"{queue}-out", {"from": one.id}, partition="p", id="mine")
        t.push(f"{queue}-out", 2, partition="p")
        t.require(one)
    assert [(stored.status, stored.partition) for stored in t.stored] == [("queued", "p")] * 2
    out = q.pop(f"{queue}-out", batch=5)
    assert [one.message_id for one in out] == [stored.message_id for stored in t.stored]
    assert q.pop(queue) == []


def test_a_refused_transaction_does_nothing(q: Any, queue: str) -> None:
    q.push(f"{queue}-out", 1, id="taken")
    q.push(queue, 1)
    (one,) = q.pop(queue)
    with pytest.raises(TransactionRefused) as raised:
        with q.transaction() as t:
            t.ack(one)
            t.push(f"{queue}-out", 2, id="taken")
    assert (raised.value.reason, raised.value.index) == ("duplicate", 1), "as the block numbers them"
    with q.transaction(skip_duplicates=True) as t:
        t.push(f"{queue}-out", 2, id="taken")
        t.ack(one)
        t.push(f"{queue}-out", 3)
    assert [stored.status for stored in t.stored] == ["duplicate", "queued"]
    assert [one.data for one in q.pop(f"{queue}-out", batch=5)] == [1, 3]
    with pytest.raises(TransactionRefused) as raised:
        with q.transaction() as t:
            t.ack(one)
    assert raised.value.reason == "rejected_ack"


def test_an_exception_in_the_block_sends_nothing(daemon: Daemon, queue: str) -> None:
    from queend.client import Client

    with Client(daemon.url) as q:
        with pytest.raises(RuntimeError):
            with q.transaction() as t:
                t.push(queue, 1)
                raise RuntimeError
        with pytest.raises(Refused) as raised:
            q.call("GET", f"/api/v1/resources/queues/{queue}")
        assert raised.value.status == 404


def test_delays(q: Any, queue: str) -> None:
    late = q.schedule(queue, 1, id="timeout-1", delay=3600)
    assert late == Scheduled(queue, "timeout-1", "timeout-1")
    q.schedule(queue, 2, id="timeout-2", at=datetime.now(UTC) + timedelta(hours=2))
    q.schedule(queue, 3, id="timeout-3", delay=0)
    (due,) = q.pop(queue, batch=5, partitions=5)
    assert due.data == 3
    assert [q.cancel(late), q.cancel(late), q.cancel(Scheduled(queue, "timeout-9"))] == [True, False, False]
    listed = q.call("GET", "/api/v1/messages/scheduled", query={"queue": queue})["scheduled"]
    assert [one["partition"] for one in listed] == ["timeout-2"]


def test_where_a_group_begins(q: Any, queue: str) -> None:
    q.push(queue, 1)
    assert q.pop(queue, group="new", start="new") == []
    assert [one.data for one in q.pop(queue, group="old", start=datetime(2026, 1, 1, tzinfo=UTC))] == [1]
    with pytest.raises(ValueError, match="no time zone"):
        q.pop(queue, group="odd", start=datetime(2026, 1, 1))


def test_a_full_queue_stores_what_there_is_room_for(q: Any, client: Plain, queue: str) -> None:
    client.configure(queue, maxSize=1)
    with pytest.raises(NotStored) as raised:
        q.push_many([Push(queue, 1), Push(queue, 2)])
    assert raised.value.code == "queue_full"
    assert [one.status for one in raised.value.stored] == ["queued", "failed"]


@pytest.mark.parametrize(("ask", "status"), [
    (lambda q, queue: q.pop(queue, batch=0), 400), (lambda q, queue: q.push("", 1), 400),
    (lambda q, queue: q.call("GET", f"/api/v1/resources/queues/{queue}/depth"), 404),
    (lambda q, queue: q.call("POST", "/api/v1/configure", body={"queue": queue, "options": {"leasetime": 1}}), 400)])
def test_a_refusal_says_why(q: Any, queue: str, ask: Callable[[Any, str], Any], status: int) -> None:
    with pytest.raises(Refused) as raised:
        ask(q, queue)
    assert raised.value.status == status and str(raised.value) == raised.value.error != ""


def test_consumed_with_the_delivery(q: Any, queue: str) -> None:
    q.push(queue, 1)
    (one,) = q.pop(queue, auto_ack=True)
    assert one.data == 1 and q.pop(queue) == []


def test_threads_share_a_client(daemon: Daemon, queue: str) -> None:
    from queend.client import Client

    with Client(daemon.url, deadline=120, timeout=120) as q:
        threads = [threading.Thread(target=lambda part=part: [q.push(queue, n, partition=part) for n in range(20)])
                   for part in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        got = q.pop(queue, batch=100, partitions=4)
        for part, messages in itertools.groupby(got, key=lambda one: one.partition):
            assert [one.data for one in messages] == list(range(20)), part


def test_nobody_listens(kind: type) -> None:
    one = kind(f"http://127.0.0.1:{free_port()}", deadline=0.3)
    try:
        with pytest.raises(Unavailable) as raised:
            one.push("q", 1)
        assert raised.value.may_be_done is False
        with pytest.raises(Unavailable):
            with one.stream("q") as messages:
                next(messages)
    finally:
        one.close()


@pytest.mark.parametrize("url", ["", "localhost:6632", "ftp://host", "http://", "http://host?x=1"])
def test_a_url_that_is_none(kind: type, url: str) -> None:
    with pytest.raises(ValueError):
        kind(url)


@pytest.fixture(scope="module")
def guarded(start_daemon: Callable[..., Daemon]) -> Daemon:
    return start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="queues")


def test_tokens(guarded: Daemon, kind: type, queue: str, tmp_path: Path) -> None:
    good = token(role="read-write", queues={queue: ["push", "pop"]})
    file = tmp_path / "token"
    file.write_text("wrong\n")
    source = File(file)
    shown = [good]
    for given in (source, lambda: shown[0], good):
        one = kind(guarded.url, token=given, deadline=120, timeout=120)
        try:
            if given is source:
                with pytest.raises(Unauthorized):
                    one.push(queue, 1)
                file.write_text(good + "\n")
            assert one.push(queue, 1).new
            with pytest.raises(Forbidden, match=r'push for "other"'):
                one.push("other", 1)
            with one.stream(queue, group="g", release=True) as messages:
                assert next(messages).data == 1
        finally:
            one.close()


def test_a_token_that_was_replaced_on_the_way_is_shown(guarded: Daemon, kind: type, queue: str) -> None:
    shown = iter(["old", *[token(role="read-write", queues={queue: "push"})] * 3])
    one = kind(guarded.url, token=lambda: next(shown), deadline=120, timeout=120)
    try:
        assert one.push(queue, 1).new
    finally:
        one.close()


@pytest.mark.parametrize("text", ["a\nb", "a b", "ä"])
def test_a_token_that_fits_no_header(kind: type, text: str) -> None:
    one = kind("http://127.0.0.1:1", token=text)
    try:
        with pytest.raises(ValueError, match="token") as raised:
            one.push("q", 1)
        assert text not in str(raised.value)
    finally:
        one.close()


def test_the_newest_message(q: Any, queue: str) -> None:
    for n in range(3):
        q.push(queue, n, partition="a")
    (one,) = q.pop(queue, group="latest", conflation=True, batch=9)
    assert one.data == 2
    q.ack(one)
    assert q.pop(queue, group="latest", conflation=True) == []
    with pytest.raises(ValueError, match="conflation requires a group"):
        q.pop(queue, conflation=True)
    with pytest.raises(ValueError, match="auto_ack"):
        q.pop(queue, group="latest", conflation=True, auto_ack=True)
    q.pop(queue, group="plain", batch=1)
    with pytest.warns(RuntimeWarning, match="group 'plain' .* does not conflate"):
        assert q.pop(queue, group="plain", conflation=True) == []
    q.push(queue, 3, partition="a")
    with q.stream(queue, group="latest", conflation=True) as messages:
        assert next(messages).data == 3
