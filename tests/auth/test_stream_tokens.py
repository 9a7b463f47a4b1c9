"""Streams with tokens: levels, queue permissions, and who stored what a cycle stores."""
from __future__ import annotations

import pytest
from support.callers import Caller
from support.streams import Stream
from support.tokens import SECRET, token, writer

CLAIM = "queues"


@pytest.fixture(scope="module")
def daemon(start_daemon):
    return start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM=CLAIM)


def limited(daemon, role: str = "read-write", **rules) -> Caller:
    return Caller(daemon, token(sub="one", role=role, **{CLAIM: rules}))


def refused(caller: Caller, path: str, body: dict) -> bool:
    answer = caller.post(f"/streams/v1/{path}", body)
    assert answer.status in (200, 403), answer.body
    if answer.status == 403 and "for this queue" in answer.json["error"]:
        assert answer.json["code"] == "forbidden"
    return answer.status == 403


def test_levels_and_the_producer(daemon, queue: str) -> None:
    with (Caller(daemon, writer("svc")) as caller, Caller(daemon, token(role="read-only")) as reader,
          daemon.client() as nobody):
        stream = Stream(caller, queue, queue)
        caller.push(queue, 1)
        messages = stream.pop()
        body = stream.body(messages, {"k": 1}, [{"queue": f"{queue}-sink", "payload": 1, "producerSub": "liar"}])
        where = {"query_id": stream.id, "partition_id": messages[0]["partitionId"]}
        registering = {"name": queue, "source_queue": queue, "config_hash": "h"}
        for path, asked in (("queries", registering), ("cycle", body)):
            assert refused(reader, path, asked) and nobody.post(f"/streams/v1/{path}", asked).status == 401
        assert stream.post(body)["success"]
        assert not refused(reader, "state/get", where) and nobody.post("/streams/v1/state/get", where).status == 401
        (stored,) = caller.pop(f"{queue}-sink")
        assert stored["producerSub"] == "svc"


def test_queue_permissions(daemon, queue: str) -> None:
    sink, other = f"{queue}-sink", f"{queue}-other"
    with (Caller(daemon, writer("all")) as everything, limited(daemon, **{queue: "pop", sink: "push"}) as runner,
          limited(daemon, **{queue: "push", sink: "pop"}) as wrong, \
             limited(daemon, **{other: "*", sink: "push"}) as stranger,
          limited(daemon, "read-only", **{queue: "read"}) as reader):
        everything.push(queue, 1, 2)
        everything.push(other, 1)
        mine = {"name": queue, "source_queue": queue, "sink_queue": sink, "config_hash": "h"}
        assert refused(wrong, "queries", mine) and refused(stranger, "queries", mine)
        assert not refused(runner, "queries", mine)
        assert refused(runner, "queries", {**mine, "name": f"{queue}2", "sink_queue": other})
        assert refused(runner, "queries", {**mine, "name": f"{queue}2", "source_queue": other})
        assert refused(stranger, "queries", {**mine, "source_queue": other, "config_hash": "new",
                                             "reset": True}), "nor can a query be taken over"
        stream = Stream(runner, queue, queue, sink)
        messages = stream.pop()
        body = stream.body(messages, {"k": 1}, [{"queue": sink, "payload": 1}])
        where = {"query_id": stream.id, "partition_id": messages[0]["partitionId"]}
        for caller in (wrong, stranger):
            assert refused(caller, "cycle", body) and refused(caller, "cycle", {**body, "push_items": [], "ack": None})
        assert refused(runner, "cycle", stream.body(messages, None, [{"queue": sink}, {"queue": other}]))
        theirs = everything.pop(other, consumerGroup=stream.group)
        assert refused(runner, "cycle", {**body, "partition_id": theirs[0]["partitionId"],
                                         "ack": None}), "the partition is of another queue"
        assert stream.post(body)["success"]
        assert [refused(caller, "state/get", where) for caller in (runner, reader, wrong, stranger)] == [
            False, False, True, True]
