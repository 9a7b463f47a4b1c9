"""Who stored a message is told with it, whatever way it came and whatever way it goes."""
from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import psycopg
import pyarrow as pa
import pytest
from support.callers import Caller
from support.client import pop_target
from support.frames import KIND, form_a, form_b, framed_group, group_a, read_pop, transaction
from support.tokens import SECRET, writer
from support.wait import until


@pytest.fixture(scope="module")
def daemon(start_daemon):
    return start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, NUM_WORKERS="2")


@pytest.fixture
def one(daemon) -> Iterator[Caller]:
    with Caller(daemon, writer("one")) as caller:
        yield caller


@pytest.fixture
def two(daemon) -> Iterator[Caller]:
    with Caller(daemon, writer("zwei ü")) as caller:
        yield caller


def uuids(n: int) -> list[str]:
    return [str(uuid.uuid4()) for _ in range(n)]


def stored(caller: Caller, body: object, kind: str | None = None, query: str = "") -> None:
    answer = caller.request("POST", f"/api/v1/push{query}", body, {"Content-Type": kind} if kind else None)
    assert answer.status == 201, answer.body


def arrow(table: dict) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch(table)
    with pa.ipc.new_stream(sink, batch.schema) as out:
        out.write(batch)
    return sink.getvalue().to_pybytes()


FORMS = {
    "json": lambda c, q: stored(c, {"items": [{"queue": q, "partition": "p", "payload": n, "producerSub": "liar",
                                               **({"traceId": str(uuid.uuid4())} if n % 2 else {})}
                                              for n in range(40)]}),
    "lines": lambda c, q: stored(c, b"\n".join(b'{"payload":%d,"producerSub":"liar"}' % n for n in range(40)),
                                 "application/x-ndjson", f"?queue={q}&partition=p"),
    "payload-lines": lambda c, q: stored(c, b"\n".join(b"%d" % n for n in range(40)), "application/x-ndjson",
                                         f"?queue={q}&partition=p&payload=line&format=counts"),
    "arrow": lambda c, q: stored(c, arrow({"payload": [str(n) for n in range(40)]}),
                                 "application/vnd.apache.arrow.stream", f"?queue={q}&partition=p"),
    "arrow-few": lambda c, q: stored(c, arrow({"payload": ["0", "1"], "transactionId": ["a", "b"]}),
                                     "application/vnd.apache.arrow.stream", f"?queue={q}&partition=p"),
    "framed-run": lambda c, q: stored(c, form_b(framed_group(q, "p", list(range(40)))[0]), KIND["Content-Type"]),
    "framed-texts": lambda c, q:
    stored(c, form_b(framed_group(q, "p", list(range(40)), [f"t {n}" for n in range(40)])[0]), KIND["Content-Type"]),
    "framed-few": lambda c, q: stored(c, form_b(framed_group(q, "p", [0, 1])[0]), KIND["Content-Type"]),
    "plain-run": lambda c, q: stored(c, form_a(group_a([b"%d" % n for n in range(40)], uuids(40), q, "p")),
                                     KIND["Content-Type"]),
    "large-run": lambda c, q: stored(c, form_a(group_a([b'"%s"' % (b"x" * 200)] * 40, uuids(40), q, "p")),
                                     KIND["Content-Type"]),
    "transaction": lambda c, q: c.transaction({"type": "push", "items": [
        {"queue": q, "partition": "p", "payload": n, "producerSub": "liar"} for n in range(3)]}),
    "binary-transaction": lambda c, q: c.request("POST", "/api/v1/transaction",
                                                 transaction(b"", framed_group(q, "p", list(range(20)))[0]), KIND),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_way_in_and_out(daemon, one: Caller, two: Caller, queue: str, form: str):
    """From the log, from memory, framed: two producers in one partition."""
    FORMS[form](one, queue)
    FORMS[form](two, queue) if "texts" not in form and form != "arrow-few" else two.push(queue, 1, partition="p")
    seen = {group: one.pop(queue, "p", batch=500, consumerGroup=group) for group in ("a", "b")}
    subjects = [m["producerSub"] for m in seen["a"]]
    assert set(subjects) == {"one", "zwei ü"} and subjects == sorted(subjects)
    assert seen["a"] == [{**m, "consumerGroup": "a", "leaseId": seen["a"][0]["leaseId"]} for m in seen["b"]]
    framed = one.request("GET", pop_target(queue, "p", batch=500, consumerGroup="c", frames=True))
    messages = read_pop(framed.body)["messages"]
    assert [(m["offset"], m["producerSub"], m["transactionId"], m["data"], m["id"]) for m in messages] == [
        (m["offset"], m["producerSub"], m["transactionId"], m["data"], m["id"]) for m in seen["a"]]
    (part,) = [m for m in read_pop(one.request("GET", pop_target(queue, "p", batch=1, consumerGroup="d",
                                                                 frames=True)).body)["messages"]]
    assert part["producerSub"] == "one"


def parked(daemon, caller: Caller, target: str) -> Caller:
    waiting = Caller(daemon, caller.token)
    before = caller.parked()
    waiting.send("GET", target)
    until(lambda: caller.parked() == before + 1, "the pop waits")
    return waiting


@pytest.mark.parametrize("frames", [False, True])
@pytest.mark.parametrize("form", ["json", "framed-run", "plain-run"])
def test_a_waiting_pop_is_told_too(daemon, one: Caller, queue: str, form: str, frames: bool):
    """Handed over by the push itself: first a message that makes the cursor known."""
    one.push(queue, "first", partition="p")
    one.ack(one.pop(queue, "p")[0])
    with parked(daemon, one, pop_target(queue, "p", batch=100, wait=True, timeout=100_000, frames=frames)) as waiting:
        FORMS[form](one, queue)
        body = waiting.receive().body
    messages = read_pop(body)["messages"] if frames else json.loads(body)["messages"]
    assert len(messages) >= 40 and {m["producerSub"] for m in messages} == {"one"}


def test_consumers_that_keep_up_are_told_from_memory(one: Caller, queue: str):
    """A group whose cursor stands at the head reads the next rows from memory."""
    one.push(queue, "first", partition="p")
    one.ack(one.pop(queue, "p")[0])
    before = one.metric("queend_worker_from_memory_total")
    for form in ("json", "framed-run", "plain-run"):
        for frames in (False, True):
            FORMS[form](one, queue)
            answer = one.request("GET", pop_target(queue, "p", batch=100, frames=frames))
            messages = read_pop(answer.body)["messages"] if frames else answer.json["messages"]
            assert len(messages) == 40 and {m["producerSub"] for m in messages} == {"one"}
            last = messages[-1]
            assert all(told["success"]
                       for told in one.ack_batch([{"transactionId": m["transactionId"], "partitionId": m["partitionId"],
                                                   "leaseId": last["leaseId"]} for m in messages]))
    assert one.metric("queend_worker_from_memory_total") > before


@pytest.mark.parametrize("kind", ["framed", "plain"])
def test_what_was_pushed_again_keeps_its_producer(one: Caller, two: Caller, queue: str, kind: str):
    """Some of the records are duplicates, so runs are taken apart: the first producer of each stays."""
    texts = uuids(60)

    def body(start: int, stop: int) -> bytes:
        if kind == "framed":
            return form_b(framed_group(queue, "p", list(range(start, stop)), texts[start:stop])[0])
        return form_a(group_a([b"%d" % n for n in range(start, stop)], texts[start:stop], queue, "p"))

    stored(one, body(0, 40), KIND["Content-Type"])
    stored(two, body(20, 60), KIND["Content-Type"])
    messages = one.pop(queue, "p", batch=100)
    assert [m["data"] for m in messages] == list(range(60))
    assert [m["producerSub"] for m in messages] == ["one"] * 40 + ["zwei ü"] * 20


def test_dead_letters_name_the_producer(daemon, one: Caller, queue: str):
    for form in ("json", "framed-run"):
        FORMS[form](one, queue)
    for message in one.pop(queue, "p", batch=500):
        one.ack(message, "dlq")
    with psycopg.connect(daemon.conninfo) as connection:
        told = connection.execute("SELECT DISTINCT d.producer_sub FROM queend.dead_letters d JOIN queend.queues q"
                                  " ON q.id = d.queue_id WHERE q.name = %s", (queue,)).fetchall()
    assert told == [("one",)]


def test_keys_of_idempotency_are_the_subject_s_or_the_token_s_own(daemon) -> None:
    body, key = {"items": [{"queue": "keyed-tokens", "payload": 1}]}, {"Idempotency-Key": "order-17"}
    one, same, other, two, again = writer("", n=1), writer("", n=1), writer("", n=2), writer(
        "somebody", n=1), writer("somebody", n=2)
    seen = []
    for text in (one, same, other, two, again):
        with Caller(daemon, text) as caller:
            answer = caller.request("POST", "/api/v1/push", body, key)
            assert answer.status == 201
            seen.append("idempotency-replayed" in answer.headers)
    assert seen == [False, one == same, False, False,
                    True], "two tokens without a subject are two producers, of one subject they are one"
