"""A database copied into another one over HTTP, as the dashboard does it."""
from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from support.client import Client, data
from support.wait import until

BASE = "/api/v1/migration"


def address(conninfo: str, **more: Any) -> dict[str, Any]:
    parts = conninfo_to_dict(conninfo)
    return {"host": parts["host"], "port": str(parts.get("port", 5432)), "database": parts["dbname"], "user": parts["user"], "password": parts.get("password", ""), **more}


def ended(client: Client) -> dict[str, Any]:
    return until(lambda: (now := client.get(f"{BASE}/status").json)["status"] in ("complete", "error") and now, "the copy ended")


def fill(client: Client) -> None:
    client.configure("q", leaseTime=77)
    for part in ("a", "b"):
        client.push("q", *range(50), partition=part)
    assert data(client.pop("q", "a", consumerGroup="g", batch=20, autoAck=True)) == [*range(20)]
    (message,) = client.pop("q", "b", consumerGroup="g")
    assert client.ack(message, "dlq", group="g")["success"]
    client.push("wide", {"text": "x" * 5000})


def test_a_database_is_copied(client: Client, daemon, postgres, start_daemon) -> None:
    fill(client)
    there = address(postgres.empty_database())
    conninfo = daemon.conninfo.replace(f"dbname={conninfo_to_dict(daemon.conninfo)['dbname']}", f"dbname={there['database']}")
    assert client.post(f"{BASE}/test-connection", there).json["version"].startswith("PostgreSQL")
    assert client.post(f"{BASE}/start", there).status == 202
    status = ended(client)
    assert status["status"] == "complete" and "log: " in status["restoreOutput"], status
    found = client.post(f"{BASE}/validate", there).json
    assert found["success"] and found["allMatch"], found
    assert {one["table"]: one["targetCount"] for one in found["tables"]} | {"messages": 101, "queues": 2, "dead_letter_queue": 1} == {one["table"]: one["targetCount"] for one in found["tables"]}
    with start_daemon(conninfo).client() as other:
        assert data(other.pop("q", "a", consumerGroup="g", batch=100, autoAck=True)) == [*range(20, 50)]
        assert data(other.pop("q", "b", consumerGroup="g", batch=100, autoAck=True)) == [*range(1, 50)]
        assert other.dead("q") == 1
        other.push("q", "new", partition="a")
        other.push("new", "queue", partition="new")
        assert data(other.pop("q", "a", consumerGroup="g")) == ["new"] and data(other.pop("new", "new")) == ["queue"]
    assert client.post(f"{BASE}/validate", there).json["allMatch"] is False
    assert client.post(f"{BASE}/reset").json["status"] == "idle" and client.get(f"{BASE}/status").json == {"status": "idle", "currentStep": "", "elapsedSeconds": 0.0}


def test_without_messages_offsets_go_on(client: Client, daemon, postgres, start_daemon) -> None:
    client.push("empty", *range(7))
    there = address(postgres.empty_database(), excludeTableData=["messages", "nothing we have"])
    client.post(f"{BASE}/start", there)
    assert ended(client)["status"] == "complete"
    conninfo = daemon.conninfo.replace(f"dbname={conninfo_to_dict(daemon.conninfo)['dbname']}", f"dbname={there['database']}")
    with start_daemon(conninfo).client() as other:
        assert other.pop("empty") == []
        other.push("empty", "first")
        (message,) = other.pop("empty")
        assert (message["data"], message["offset"]) == ("first", 7)


def test_one_at_a_time_and_a_stop_in_the_middle(postgres, start_daemon) -> None:
    daemon = start_daemon()
    there = address(postgres.empty_database())
    with daemon.client() as client, psycopg.connect(daemon.conninfo) as holder:
        holder.execute("LOCK TABLE queend.traces IN ACCESS EXCLUSIVE MODE")
        assert client.post(f"{BASE}/start", there).status == 202
        until(lambda: client.get(f"{BASE}/status").json["currentStep"] == "copying traces", "it waits for the table")
        assert [client.post(f"{BASE}/{what}", there).status for what in ("start", "reset")] == [409, 409]
        daemon.stop()


@pytest.mark.parametrize("change, text", [
    ({"host": ""}, "are required"), ({"user": None}, "are required"), ({"port": 5432}, "port must be a string"), ({"port": "99999"}, "port must be"), ({"port": "x"}, "port must be"),
    ({"ssl": "yes"}, "ssl must be"), ({"password": ["x"]}, "password must be"), ({"database": "a\0b"}, "database must be"),
    ({"excludeTableData": "messages"}, "excludeTableData must be"), ({"schema": "public"}, "schema can only")])
def test_bad_input(client: Client, daemon, change: dict[str, Any], text: str) -> None:
    before = client.get(f"{BASE}/status").json
    answer = client.post(f"{BASE}/start", address(daemon.conninfo) | change)
    assert answer.status == 400 and text in answer.json["error"], answer.body
    assert client.get(f"{BASE}/status").json == before, "nothing began"


def test_what_cannot_be(client: Client, daemon) -> None:
    nowhere = address(daemon.conninfo, host="127.0.0.1", port="1")
    for host in ("127.0.0.1", "ü" * 300, "a..b", "\u07ff.example"):
        answer = client.post(f"{BASE}/test-connection", nowhere | {"host": host})
        assert answer.status == 200 and answer.json["success"] is False and answer.json["error"], answer.body
    answer = client.post(f"{BASE}/validate", nowhere)
    assert answer.status == 400 and answer.json["success"] is False and "Failed to connect to target" in answer.json["error"]
    client.post(f"{BASE}/start", address(daemon.conninfo))
    assert "is the database that is to be copied" in ended(client)["error"]
    client.post(f"{BASE}/start", nowhere)
    assert ended(client)["status"] == "error"
    client.post(f"{BASE}/reset")
