"""A daemon, HTTP clients and SQL programs on a database whose settings change how SQL is read."""
from __future__ import annotations

import json

import pytest
from psycopg.conninfo import make_conninfo
from support.client import data
from support.daemon import Daemon
from support.odd import made_odd
from support.wait import until


def call(sql, name: str, *values: object):
    """Calls a function of the schema queen; dictionaries and lists go as JSON."""
    return sql.value(f"SELECT queen.{name}({', '.join(['%s'] * len(values))})",
                     *(json.dumps(v) if isinstance(v, (dict, list)) else v for v in values))


@pytest.fixture(scope="module")
def daemon(start_daemon, postgres) -> Daemon:
    return start_daemon(made_odd(postgres, postgres.database(), client_encoding="LATIN1",
                                 default_transaction_isolation="serializable", default_transaction_deferrable="on"))


@pytest.fixture
def beside(connect, daemon: Daemon):
    """A session of a program that wants READ COMMITTED, and a driver that reads JSON in UTF-8 alone."""
    return connect(make_conninfo(daemon.conninfo, client_encoding="UTF8",
                                 options="-c default_transaction_isolation=read\\ committed"))


def test_what_one_stores_the_other_reads_and_acknowledges(daemon, client, beside, queue) -> None:
    assert beside.value("SHOW standard_conforming_strings") == "off"
    client.push_items([{"queue": queue, "payload": {"text": "a\\b\u00e9"}, "transactionId": "by http"}])
    (message,) = call(beside, "pop_unified_batch_v4", [{"queue_name": queue}])[0]["result"]["messages"]
    assert message["data"] == {"text": "a\\b\u00e9"} and message["transactionId"] == "by http"
    keys = ("transactionId", "partitionId", "consumerGroup", "leaseId")
    (done,) = call(beside, "ack_messages_v2", [{**{key: message[key] for key in keys}, "status": "completed"}])
    assert done["success"] is True and done["leaseReleased"] is True
    trace = "0192f0c0-0000-7000-8000-0000000000aa"
    call(beside, "push_messages_v3", [{"queue": queue, "payload": {"n": 2}, "traceId": trace, "producerSub": "me",
                                       "transactionId": "by sql"}])
    (message,) = until(lambda: client.pop(queue), "the daemon finds it")
    assert (message["data"], message["traceId"], message["transactionId"]) == ({"n": 2}, trace, "by sql")
    assert client.ack(message)["success"] is True
    with beside.transaction():
        call(beside, "push", queue, None, "3")
    assert data(until(lambda: client.pop(queue, autoAck=True), "the daemon moves it")) == [3]


def test_the_doctor_finds_nothing_wrong(daemon, client) -> None:
    found = client.get("/api/v1/system/doctor").json["findings"]
    assert [one for one in found if one["check"] in ("surroundings", "plans", "services")] == []
