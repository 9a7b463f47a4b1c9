"""Timers over HTTP: every answer and error of their routes, riders of transactions, rights, encrypted queues, two
daemons."""
from __future__ import annotations

import base64
import json
import uuid
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from support.client import Client, data
from support.daemon import Daemon
from support.frames import KIND, framed_group, transaction
from support.tokens import SECRET, bearer, token
from support.wait import until

from queend._core import probe_zip

HOUR = 3_600_000


def packed(payload: Any) -> str:
    return base64.b64encode(json.dumps(payload).encode()).decode()


def schedule(queue: str, key: str = "k", delay: Any = HOUR, payload: Any = 1, **more: Any) -> dict:
    return {"op": "schedule", "queue": queue, "timerKey": key, "payload": packed(payload), "delayMs": delay, **more}


def cancel(queue: str, key: str = "k", **more: Any) -> dict:
    return {"op": "cancel", "queue": queue, "timerKey": key, **more}


def call(client: Client, *operations: dict, status: int = 200) -> Any:
    answer = client.post("/api/v1/timers", {"operations": list(operations)})
    assert answer.status == status, (answer.status, answer.body)
    return answer.json if status != 200 else answer.json["results"]


def path(queue: str, key: str = "", **query: Any) -> str:
    asked = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query.items())
    return f"/api/v1/timers/{quote(queue, safe='')}" + f"/{quote(key)}" * bool(key) + f"?{asked}" * bool(asked)


def show(client: Client, queue: str, key: str = "k") -> dict:
    answer = client.get(path(queue, key))
    assert answer.status == 200, (answer.status, answer.body)
    return answer.json


def arrived(client: Client, queue: str, n: int = 1) -> list[dict]:
    """The next n messages of the queue."""
    found: list[dict] = []

    def more() -> bool:
        found.extend(client.pop(queue, batch=n - len(found), wait="true", timeout=1000, autoAck="true"))
        return len(found) >= n
    until(more, "the messages arrive")
    return found


# ---- schedule, cancel, fire ------------------------------------------------------------------------------------------

def test_a_timer_is_delivered_as_a_message(client: Client, queue: str) -> None:
    (made,) = call(client, schedule(queue, "a/b c:1", 200, {"x": [1, "é"]}, txn="t-1", partition="p7"))
    assert (made["index"], made["ok"], made["status"], made["queue"], made["timerKey"], made["txn"]) == (
        0, True, "scheduled", queue, "a/b c:1", "t-1")
    assert made["deliverAt"].endswith("Z") and uuid.UUID(made["messageId"]).version == 4
    shown = show(client, queue, "a/b c:1")
    assert json.loads(base64.b64decode(shown["payload"])) == {"x": [1, "é"]} and shown["found"] is True
    assert {name: shown[name] for name in ("queue", "timerKey", "partition", "deliverAt", "txn", "messageId",
                                           "payloadZstd", "encrypted", "producerSub", "attempts", "lastError",
                                           "claimed")} == {
        "queue": queue, "timerKey": "a/b c:1", "partition": "p7", "deliverAt": made["deliverAt"], "txn": "t-1",
        "messageId": made["messageId"], "payloadZstd": False, "encrypted": False, "producerSub": None, "attempts": 0,
        "lastError": None, "claimed": False}
    (message,) = arrived(client, queue)
    assert (message["data"], message["transactionId"], message["partition"]) == ({"x": [1, "é"]}, "t-1", "p7")
    assert message["id"] != made["messageId"], "ids of messages follow from their places"
    assert message["createdAt"] >= made["deliverAt"]
    assert show(client, queue, "a/b c:1") == {"found": False}


def test_replace_and_cancel(client: Client, queue: str) -> None:
    (first,) = call(client, schedule(queue))
    (second,) = call(client, schedule(queue, delay=2 * HOUR, payload=2) | {"op": "reschedule"})
    assert (second["status"], second["op"]) == ("rescheduled", "reschedule")
    assert second["deliverAt"] > first["deliverAt"]
    assert second["messageId"] != first["messageId"] and second["txn"] != first["txn"]
    (gone,) = call(client, cancel(queue))
    assert (gone["ok"], gone["status"], gone["txn"], gone["messageId"], gone["deliverAt"]) == (
        True, "cancelled", second["txn"], second["messageId"], second["deliverAt"])
    (none,) = call(client, cancel(queue, txn="mine"))
    assert none == {"index": 0, "op": "cancel", "ok": False, "status": "absent", "queue": queue, "timerKey": "k",
                    "txn": "mine", "messageId": None, "deliverAt": None}
    assert client.pop(queue) == []


def test_cancel_by_its_path(client: Client, queue: str) -> None:
    odd = f"{queue}/ü?"
    (made,) = call(client, schedule(odd, "o:1/x y"))
    answer = client.request("DELETE", path(odd, "o:1/x y"))
    assert answer.status == 200 and answer.json == {
        "ok": True, "status": "cancelled", "queue": odd, "timerKey": "o:1/x y", "txn": made["txn"],
        "messageId": made["messageId"], "deliverAt": made["deliverAt"]}
    answer = client.request("DELETE", path(odd, "o:1/x y", txn="mine"))
    assert answer.status == 200 and answer.json == {
        "ok": False, "status": "absent", "queue": odd, "timerKey": "o:1/x y", "txn": "mine", "messageId": None,
        "deliverAt": None}
    for bad in (path(queue) + "/", path(queue, "k" * 513), path("q" * 256, "k"), path(queue, "k", txn="t" * 256)):
        answer = client.request("DELETE", bad)
        assert answer.status == 400 and answer.json["code"] == "timers_bad_request", bad


def test_lists(client: Client, queue: str) -> None:
    call(client, *(schedule(queue, f"k:{n}") for n in range(5)), schedule(queue, "other"))
    first = client.get(path(queue, limit=2)).json
    assert [row["timerKey"] for row in first["rows"]] == ["k:0", "k:1"] and "payload" not in first["rows"][0]
    assert first["truncated"] is True and first["nextAfter"] == "k:1"
    rest = client.get(path(queue, after="k:1", limit=1000)).json
    assert [row["timerKey"] for row in rest["rows"]] == ["k:2", "k:3", "k:4", "other"]
    assert rest["truncated"] is False and rest["nextAfter"] is None
    assert [row["timerKey"] for row in client.get(path(queue, prefix="o")).json["rows"]] == ["other"]
    assert client.get(path(queue, mode="count")).json == {"count": 6}
    assert client.get(path(queue, mode="count", prefix="k:")).json == {"count": 5}
    assert client.get(path(f"{queue}-none")).json == {"rows": [], "truncated": False, "nextAfter": None}


def test_a_delay_in_the_past_is_due_at_once_and_in_order(client: Client, queue: str) -> None:
    call(client, *(schedule(queue, str(n), delay, n) for n, delay in enumerate((0, -10_000, 0, -1))))
    assert data(arrived(client, queue, 4)) == [0, 1, 2, 3]


def test_a_packed_payload(client: Client, queue: str) -> None:
    whole = json.dumps({"text": "x" * 100_000}).encode()
    text = base64.b64encode(probe_zip(whole)).decode()
    call(client, schedule(queue, delay=0, payloadZstd=True) | {"payload": text})
    assert arrived(client, queue)[0]["data"] == json.loads(whole)


def test_a_message_that_is_there_is_not_delivered_twice(client: Client, queue: str) -> None:
    client.push(queue, "first", transactionId="same")
    call(client, schedule(queue, "a", 0, "again", txn="same"), schedule(queue, "b", 0, "other"))
    assert data(arrived(client, queue, 2)) == ["first", "other"] and show(client, queue, "a") == {"found": False}


def test_a_paused_queue_takes_timers_and_messages(client: Client, queue: str) -> None:
    client.push(queue, 0)
    assert client.post(f"/api/v1/queues/{queue}/pause").status == 200
    call(client, schedule(queue, "a", 0, 1), schedule(queue, "b"))
    until(lambda: show(client, queue, "a")["found"] is False, "it fires")
    assert client.request("DELETE", path(queue, "b")).json["status"] == "cancelled"
    assert client.post(f"/api/v1/queues/{queue}/resume").status == 200
    assert data(arrived(client, queue, 2)) == [0, 1]


def test_the_timers_of_a_deleted_queue_go(client: Client, queue: str) -> None:
    client.push(queue, 0)
    call(client, schedule(queue))
    assert client.request("DELETE", f"/api/v1/resources/queues/{queue}").status == 200
    assert show(client, queue) == {"found": False}


# ---- errors ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("operation, reason", [
    ({"op": "move"}, "timers_unknown_op"), ({"op": None}, "timers_unknown_op"), ({"queue": ""}, "timers_bad_queue"),
    ({"queue": None}, "timers_bad_queue"), ({"queue": "q" * 256}, "timers_bad_queue"),
    ({"timerKey": ""}, "timers_bad_key"), ({"timerKey": "a\0"}, "timers_bad_key"),
    ({"timerKey": "k" * 513}, "timers_bad_key"), ({"timerKey": 5}, "timers_bad_key"),
    ({"txn": ""}, "timers_bad_txn"), ({"txn": "t" * 256}, "timers_bad_txn"), ({"txn": 7}, "timers_bad_txn"),
    ({"partition": 5}, "timers_bad_partition"), ({"partition": "p" * 256}, "timers_bad_partition"),
    ({"delayMs": None}, "timers_bad_delay"), ({"delayMs": "5"}, "timers_bad_delay"),
    ({"delayMs": 1.5}, "timers_bad_delay"), ({"delayMs": 10**18}, "timers_bad_delay"),
    ({"payload": None}, "timers_bad_payload"), ({"payload": ""}, "timers_bad_payload"),
    ({"payload": "?"}, "timers_bad_payload"), ({"payload": "AAA"}, "timers_bad_payload"),
    ({"payload": base64.b64encode(b"{no json").decode()}, "timers_bad_payload"),
    ({"payload": base64.b64encode(b"1 2").decode()}, "timers_bad_payload"),
    ({"payload": base64.b64encode(b'"\xff"').decode()}, "timers_bad_payload"),
    ({"payloadZstd": True}, "timers_bad_payload"), ({"payloadZstd": 1}, None),
    *(({name: 1}, "timers_server_owned_field") for name in (
        "producerSub", "messageId", "tenant", "tenant_id", "deliverAt", "deliver_at", "delaySeconds", "attempts",
        "claimToken", "claimed_until", "_x"))])
def test_bad_operations_are_named(client: Client, queue: str, operation: dict, reason: str | None) -> None:
    refused = call(client, schedule(queue, "good"), schedule(queue) | operation, status=400)
    assert (refused["error"], refused["code"], refused.get("reason")) == ("timers_bad_request", "timers_bad_request",
                                                                          reason)
    assert "(operation 1)" in refused["detail"]
    assert show(client, queue, "good") == {"found": False}, "nothing was done"


def test_bounds(client: Client, queue: str) -> None:
    call(client, schedule(queue, "k" * 512, 31_622_400_000))
    assert call(client, schedule(queue, delay=31_622_400_001), status=403)["code"] == "timer_horizon_exceeded"
    call(client, schedule(queue, payload="x" * (1048576 - 2)))
    assert call(client, schedule(queue, payload="x" * (1048576 - 1)), status=413)["code"] == "payload_too_large"
    large = base64.b64encode(probe_zip(b'"' + b"x" * 1048576 + b'"')).decode()
    assert call(client, schedule(queue) | {"payload": large, "payloadZstd": True},
                status=413)["code"] == "payload_too_large"
    call(client, *(schedule(queue, str(n)) for n in range(256)))
    assert call(client, *(schedule(queue, str(n)) for n in range(257)), status=400)["reason"] == "timers_too_many_ops"
    assert call(client, schedule(queue), cancel(queue),
                status=400)["reason"] == "timers_duplicate_key_in_call"
    assert call(client, status=400)["detail"] == "operations array cannot be empty"


def test_too_many_timers(start_daemon, queue: str) -> None:
    daemon = start_daemon()
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        call(client, schedule(queue, "a"))
        connection.execute("CREATE OR REPLACE FUNCTION queend.timers_most() RETURNS bigint LANGUAGE sql IMMUTABLE"
                           " AS 'SELECT 1::bigint'")
        connection.execute("ANALYZE queend.timers")
        refused = call(client, schedule(queue, "b"), status=403)
        assert refused["code"] == "timers_quota_exceeded" and "too many timers" in refused["detail"]
        lost = client.transaction(timers=[schedule(queue, "b")])
        assert (lost["success"], lost["reason"], lost["failedIndex"]) == (False, "timers_quota_exceeded", 0)
        assert client.request("DELETE", path(queue, "a")).json["status"] == "cancelled"


# ---- transactions ----------------------------------------------------------------------------------------------------

def push(queue: str, payload: Any, **more: Any) -> dict:
    return {"type": "push", "items": [{"queue": queue, "payload": payload, **more}]}


def gate(key: str) -> dict:
    return {"op": "putIfAbsent", "ns": "shop", "key": key, "value": True, "ttlSeconds": 60, "required": True}


def test_a_timer_rides_in_a_transaction(client: Client, queue: str) -> None:
    key = str(uuid.uuid4())
    done = client.transaction(push(queue, 1), kv=[gate(key)], timers=[schedule(queue, "t", 50, 2), cancel(queue, "no")])
    assert done["success"] is True
    assert [(one["index"], one["type"], one.get("opIndex"), one.get("status")) for one in done["results"]] == [
        (0, "push", None, None), (1, "kv", 0, None), (2, "timer", 0, "scheduled"), (3, "timer", 1, "absent")]
    assert data(arrived(client, queue, 2)) == [1, 2]
    lost = client.transaction(push(queue, 3), kv=[gate(key)], timers=[schedule(queue, "u", 0, 4)])
    assert (lost["success"], lost["reason"], lost["failedIndex"]) == (False, "kv_precondition", 1)
    assert show(client, queue, "u") == {"found": False} and client.pop(queue) == []


def test_only_timers(client: Client, queue: str) -> None:
    done = client.transaction(timers=[schedule(queue, "t", 0, 2)])
    assert done["success"] is True and done["results"][0]["status"] == "scheduled"
    assert data(arrived(client, queue)) == [2]


def test_a_cancellation_shares_the_fate_of_an_acknowledgment(client: Client, queue: str) -> None:
    client.push(queue, 1)
    (message,) = client.pop(queue)
    call(client, schedule(queue))
    ack = {"type": "ack", "transactionId": message["transactionId"], "partitionId": message["partitionId"],
           "leaseId": message["leaseId"]}
    assert client.transaction(ack | {"transactionId": "unknown"}, timers=[cancel(queue)])["success"] is False
    assert show(client, queue)["found"] is True
    done = client.transaction(ack, timers=[cancel(queue)])
    assert done["success"] is True and done["results"][1]["status"] == "cancelled" and client.pop(queue) == []


def test_a_bad_rider_is_refused_as_in_a_call(client: Client, queue: str) -> None:
    answer = client.post("/api/v1/transaction", {"operations": [push(queue, 1)], "timers": [schedule(queue, "")]})
    assert (answer.status, answer.json["code"], answer.json["reason"]) == (400, "timers_bad_request", "timers_bad_key")
    assert client.post("/api/v1/transaction", {"operations": [push(queue, 1)], "timers": []}).status == 200


def test_a_timer_rides_in_frames(client: Client, queue: str) -> None:
    head = {"operations": [], "timers": [schedule(queue, "t", 0, "timer")]}
    for counts in (False, True):
        body = transaction(json.dumps(head).encode(), framed_group(queue, "Default", ["pushed"])[0], flags=2 * counts)
        answer = client.request("POST", "/api/v1/transaction", body, KIND)
        assert answer.status == 200, answer.body
        timer = answer.json["results"][-1]
        assert (timer["index"], timer["type"], timer["status"]) == (1, "timer", "scheduled")
        assert len(answer.json["results"]) == (1 if counts else 2)
        assert sorted(data(arrived(client, queue, 2))) == ["pushed", "timer"]


# ---- rights ----------------------------------------------------------------------------------------------------------

def test_rights_by_queue(start_daemon) -> None:
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="queues")

    def ask(rights: Any, method: str, target: str, body: Any = None, role: str = "read-write") -> int:
        claims = {} if rights is None else {"queues": rights}
        with daemon.client() as client:
            return client.request(method, target, body, bearer(token(sub="svc", role=role, **claims))).status

    def write(rights: Any, **more: Any) -> list[int]:
        bodies: list[tuple[str, dict]] = [
            ("/api/v1/timers", {"operations": [schedule("orders")]}),
            ("/api/v1/transaction", {"operations": [], "timers": [schedule("orders", "r")]}),
            ("/api/v1/timers", {"operations": [cancel("orders", "r")]})]
        return [*(ask(rights, "POST", target, body, **more) for target, body in bodies),
                ask(rights, "DELETE", path("orders", "k"), **more)]

    def read(rights: Any, **more: Any) -> list[int]:
        return [ask(rights, "GET", path("orders", key), **more) for key in ("", "k")]
    assert write(None) == [200] * 4 and read(None, role="read-only") == [200] * 2
    assert write(None, role="read-only") == [403] * 4
    assert write({"ord*": "push"}) == [200] * 4 and read({"ord*": "push"}) == [403] * 2
    assert write({"orders": "read"}) == [403] * 4 and read({"orders": "read"}) == [200] * 2
    assert write({"other": "*"}) == [403] * 4 and read({"other": "*"}) == [403] * 2
    with daemon.client() as client:
        admin = bearer(token(sub="boss", role="admin"))
        client.request("POST", "/api/v1/timers", {"operations": [schedule("orders", "p", 0, 1)]}, admin)
        assert client.get(path("orders", "p")).status == 401
        popped: list[dict] = []

        def got() -> bool:
            answer = client.request("GET", "/api/v1/pop/queue/orders", None, admin)
            popped.extend(answer.json["messages"] if answer.status == 200 else [])
            return bool(popped)
        until(got, "it is delivered")
        assert popped[0]["producerSub"] == "boss"


# ---- encrypted queues ------------------------------------------------------------------------------------------------

KEYS = f"a:{bytes(range(32)).hex()}"


def sealed(daemon: Daemon, queue: str) -> bool:
    with psycopg.connect(daemon.conninfo) as connection:
        ((payload, seal),) = connection.execute("SELECT payload, seal FROM queend.timers WHERE queue = %s",
                                                (queue,)).fetchall()
    return "secret" not in payload and seal == "a"


def test_encrypted_queues(start_daemon, queue: str) -> None:
    daemon = start_daemon(QUEEND_ENCRYPTION_KEYS=KEYS)
    other = start_daemon(daemon.conninfo, QUEEND_ENCRYPTION_KEYS=KEYS)
    keyless = start_daemon(daemon.conninfo)
    with daemon.client() as client, other.client() as late, keyless.client() as blind:
        client.configure(queue, encryptionEnabled=True)
        for who in (client, late):      # the other one has not heard of the queue yet
            call(who, schedule(queue, delay=HOUR, payload="secret"))
            assert sealed(daemon, queue)
            shown = show(who, queue)
            assert shown["encrypted"] is True and json.loads(base64.b64decode(shown["payload"])) == "secret"
            call(who, cancel(queue))
        done = late.transaction(push(queue, "a"), timers=[schedule(queue, delay=0, payload="secret")])
        assert done["success"] is True
        assert sorted(data(arrived(client, queue, 2))) == ["a", "secret"]
        answer = blind.post("/api/v1/timers", {"operations": [schedule(queue)]})
        assert answer.status == 500 and "no key" in answer.body.decode()


def test_a_queue_that_becomes_encrypted_has_its_timers_sealed(start_daemon, queue: str) -> None:
    daemon = start_daemon(QUEEND_ENCRYPTION_KEYS=KEYS)
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        call(client, schedule(queue, payload="secret"))
        client.configure(queue, encryptionEnabled=True)
        connection.execute("UPDATE queend.timers SET due = 0, next_at = 0")
        call(client, schedule(queue, "next", 0, "now"))
        assert data(arrived(client, queue, 2)) == ["secret", "now"]
        assert connection.execute("SELECT count(*) FROM queend.log WHERE position('secret'::bytea IN body) > 0"
                                  ).fetchone() == (0,)


def test_a_timer_that_cannot_fire_delays_no_other(start_daemon, queue: str) -> None:
    daemon = start_daemon()
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        call(client, schedule(queue, "bad"), schedule(f"{queue}-good", "good", payload=5))
        client.configure(queue, encryptionEnabled=True)
        connection.execute("UPDATE queend.timers SET due = 0, next_at = 0")
        assert data(arrived(client, f"{queue}-good")) == [5]
        until(lambda: show(client, queue, "bad")["attempts"] > 0, "it has failed")
        assert "encrypted" in show(client, queue, "bad")["lastError"]
        assert client.metric("queend_timers_failed_total") >= 1
        assert call(client, cancel(queue, "bad"))[0]["status"] == "cancelled", "while it waits for the next attempt"


# ---- daemons ---------------------------------------------------------------------------------------------------------

def test_two_daemons(daemon: Daemon, peer: Daemon, queue: str) -> None:
    """Timers that are scheduled through one daemon wake pops of the other."""
    with daemon.client() as client, peer.client() as other:
        for n in range(4):
            one, two = (client, other) if n % 2 else (other, client)
            call(one, schedule(queue, str(n), 100, n))
            assert data(arrived(two, queue)) == [n]
        call(client, schedule(queue))
        assert call(other, cancel(queue))[0]["status"] == "cancelled"


def test_a_daemon_ends_before_its_timers_are_due(start_daemon, queue: str) -> None:
    first = start_daemon()
    second = start_daemon(first.conninfo)
    with first.client() as client:
        call(client, *(schedule(queue, str(n), 500 + n, n) for n in range(20)))
    first.kill()
    with second.client() as client:
        assert data(arrived(client, queue, 20)) == list(range(20))
        assert client.get(path(queue, mode="count")).json == {"count": 0}


def test_figures(start_daemon, queue: str) -> None:
    with start_daemon().client() as client:
        call(client, schedule(queue, "a", 0), schedule(queue, "b"), schedule(queue, "c"))
        call(client, cancel(queue, "b"), cancel(queue, "none"))
        client.request("DELETE", path(queue, "c"))
        until(lambda: client.metric("queend_timers_fired_total") == 1, "one fires")
        assert client.metric("queend_timers_deleted_total") == 1
        assert 0 < client.metric("queend_timers_late_seconds") < 60
        assert client.metric("queend_timers_failed_total") == 0
