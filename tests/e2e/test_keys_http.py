"""Keys and values, locks, and both in transactions, over HTTP."""
from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from support.client import Client, data
from support.daemon import Daemon
from support.tokens import SECRET, bearer, token
from support.wait import until

NS = "shop"


@pytest.fixture
def key() -> str:
    return f"k-{uuid.uuid4()}"


def call(client: Client, *operations: dict, status: int = 200) -> Any:
    answer = client.post("/api/v1/kv", {"operations": [{"ns": NS, **one} for one in operations]})
    assert answer.status == status, (answer.status, answer.body)
    return answer.json


def kv(client: Client, op: str, key: str = "", **more: Any) -> dict:
    (result,) = call(client, {"op": op, **({"key": key} if key else {}), **more})["results"]
    assert (result["index"], result["op"]) == (0, op)
    return result


def put(client: Client, key: str, value: Any = 1, **more: Any) -> dict:
    return kv(client, "put", key, value=value, **({"ttlSeconds": 60} | more))


def lock(client: Client, op: str, name: str, **more: Any) -> dict:
    answer = client.post("/api/v1/locks", {"operations": [{"op": op, "name": name, **more}]})
    assert answer.status == 200, (answer.status, answer.body)
    return answer.json["results"][0]


def test_a_value_comes_back_as_it_was_sent(client: Client, key: str) -> None:
    stored = put(client, key, {"a": [1, 2.50, "é\\u0000"], "n": None})
    assert stored["applied"] is True and 0 < stored["version"] < 2**53 and stored["expiresAt"]
    got = kv(client, "get", key)
    assert got["found"] is True and got["value"] == {"a": [1, 2.50, "é\\u0000"], "n": None}
    assert (got["version"], got["expiresAt"]) == (stored["version"], stored["expiresAt"])
    assert kv(client, "get", f"{key}-not") == {"index": 0, "op": "get", "found": False, "key": f"{key}-not"}
    assert put(client, key, None, ttlSeconds=None, forever=True)["expiresAt"] is None
    got = kv(client, "get", key)
    assert got["found"] is True and got["value"] is None and got["expiresAt"] is None


def test_conditions(client: Client, key: str) -> None:
    assert (lambda r: (r["applied"], r["reason"], r["version"]))(put(client, key, 1, expect=42)) == (False, "absent", 0)
    assert kv(client, "get", key)["found"] is False
    first = kv(client, "putIfAbsent", key, value=1, ttlSeconds=60)
    again = kv(client, "putIfAbsent", key, value=2, ttlSeconds=60)
    assert first["applied"] is True
    assert (again["applied"], again["reason"], again["value"], again["version"]) == (False, "exists", 1,
                                                                                     first["version"])
    second = put(client, key, 3, expect=first["version"])
    stale = put(client, key, 4, expect=first["version"])
    assert second["applied"] is True
    assert (stale["reason"], stale["value"], stale["version"]) == ("version", 3, second["version"])
    assert kv(client, "check", key, expect=second["version"])["applied"] is True
    assert kv(client, "delete", key)["applied"] is True
    assert kv(client, "delete", key)["reason"] == "absent"


def test_counters(client: Client, key: str) -> None:
    for n in (1, 2, 3):
        assert kv(client, "incr", key, max=3, ttlSeconds=60)["value"] == n
    refused = kv(client, "incr", key, max=3, ttlSeconds=60)
    assert (refused["applied"], refused["reason"], refused["value"]) == (False, "limit", 3)
    put(client, key, "text")
    assert kv(client, "incr", key, ttlSeconds=60)["reason"] == "type"


def test_lists(client: Client, key: str) -> None:
    results = call(client, *({"op": "put", "key": f"{key}:{i}", "value": i, "ttlSeconds": 60} for i in range(5)))
    assert [one["applied"] for one in results["results"]] == [True] * 5
    page = kv(client, "getPrefix", prefix=f"{key}:", limit=2)
    assert [row["value"] for row in page["rows"]] == [0, 1] and page["truncated"] and page["nextAfter"] == f"{key}:1"
    rest = kv(client, "getPrefix", prefix=f"{key}:", after=page["nextAfter"], keysOnly=True)
    assert [row["key"] for row in rest["rows"]] == [f"{key}:{i}" for i in (2, 3, 4)]
    assert not rest["truncated"] and rest["nextAfter"] is None and "value" not in rest["rows"][0]
    many = kv(client, "getMany", keys=[f"{key}:3", f"{key}:9", f"{key}:0"])
    assert [row["value"] for row in many["rows"]] == [3, 0] and many["missing"] == [f"{key}:9"]
    assert many["truncated"] is False


def test_a_call_sees_its_own_writes_in_their_order(client: Client, key: str) -> None:
    got = call(client, {"op": "get", "key": key}, {"op": "put", "key": key, "value": 1, "ttlSeconds": 9},
               {"op": "get", "key": key}, {"op": "getPrefix", "prefix": key}, {"op": "getMany", "keys": [key, "none-"]},
               {"op": "incr", "key": f"{key}b", "ttlSeconds": 9}, {"op": "getPrefix", "prefix": key})["results"]
    assert [one["index"] for one in got] == list(range(7))
    assert got[0]["found"] is False and got[2]["value"] == 1 and len(got[3]["rows"]) == 1
    assert got[4]["missing"] == ["none-"] and got[5]["value"] == 1 and len(got[6]["rows"]) == 2


def test_a_required_operation_undoes_all(client: Client, key: str) -> None:
    held = put(client, key, "mine")
    lost = call(client, {"op": "put", "key": f"{key}b", "value": 1, "ttlSeconds": 9},
                {"op": "check", "key": key, "expect": held["version"] + 1, "required": True})
    assert lost == {"ok": False, "reason": "kv_precondition", "failedIndex": 1, "kvReason": "version",
                    "version": held["version"], "value": "mine"}
    assert kv(client, "get", f"{key}b")["found"] is False


@pytest.mark.parametrize("operation, reason", [
    ({"op": "move"}, "kv_unknown_op"), ({"op": "get", "ns": "No", "key": "a"}, "kv_bad_namespace"),
    ({"op": "get", "key": ""}, "kv_bad_key"), ({"op": "get", "key": "a\0"}, "kv_bad_key"),
    ({"op": "get"}, "kv_bad_key"), ({"op": "getMany", "keys": []}, "kv_bad_key"),
    ({"op": "put", "key": "a", "value": 1}, "kv_expiry_not_specified"),
    ({"op": "put", "key": "a", "value": 1, "ttlSeconds": 1, "forever": True}, "kv_expiry_not_specified"),
    ({"op": "put", "key": "a", "value": 1, "ttlSeconds": 0}, "kv_bad_ttl"),
    ({"op": "put", "key": "a", "value": 1, "ttlSeconds": "9"}, "kv_bad_ttl"),
    ({"op": "put", "key": "a", "ttlSeconds": 9}, "kv_value_missing"),
    ({"op": "put", "key": "a", "value": 1, "ttlSeconds": 9, "expect": None}, "kv_bad_expect"),
    ({"op": "check", "key": "a"}, "kv_bad_expect"), ({"op": "getPrefix", "prefix": ""}, "kv_prefix_required"),
    ({"op": "incr", "key": "a", "ttlSeconds": 9, "delta": "1"}, "kv_bad_number"),
    ({"op": "incr", "key": "a", "ttlSeconds": 9, "max": 1e300}, "kv_bad_number")])
def test_bad_operations_are_named(client: Client, operation: dict, reason: str) -> None:
    refused = call(client, {"op": "put", "key": "good", "value": 1, "ttlSeconds": 1}, operation, status=400)
    assert (refused["error"], refused["code"], refused["reason"]) == ("kv_bad_request", "kv_bad_request", reason)
    assert "(operation 1)" in refused["detail"]
    assert kv(client, "get", "good")["found"] is False, "nothing was done"


def test_bounds(client: Client, key: str) -> None:
    assert put(client, "k" * 512)["applied"] is True
    assert call(client, {"op": "get", "key": "k" * 513}, status=413)["code"] == "kv_key_too_large"
    assert put(client, key, "v" * 65534)["applied"] is True
    assert call(client, {"op": "put", "key": key, "value": "v" * 65535, "ttlSeconds": 9},
                status=413)["code"] == "kv_value_too_large"
    assert call(client, *[{"op": "get", "key": key}] * 257, status=400)["reason"] == "kv_too_many_ops"
    assert call(client, {"op": "getMany", "keys": [str(i) for i in range(1025)]},
                status=400)["reason"] == "kv_too_many_keys"
    assert call(client, *[{"op": "incr", "key": key, "ttlSeconds": 9}] * 2,
                status=400)["reason"] == "kv_duplicate_key_in_call"
    for i in range(70):
        put(client, f"{key}:{i:02}", "v" * 65000)
    page = kv(client, "getPrefix", prefix=f"{key}:")
    assert page["truncated"] is True and len(page["rows"]) == 64, "4 MiB of values"
    many = kv(client, "getMany", keys=[f"{key}:{i:02}" for i in range(70)])
    assert many["truncated"] is True and len(many["rows"]) == 64 and many["missing"] == []


def test_an_expired_key_is_gone_and_swept(start_daemon) -> None:
    daemon = start_daemon(RETENTION_INTERVAL=200)
    with daemon.client() as client:
        put(client, "gone", 1, ttlSeconds=1)
        put(client, "stays", 1, ttlSeconds=600)
        until(lambda: kv(client, "get", "gone")["found"] is False, "it expires")
        with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
            until(lambda: connection.execute("SELECT key FROM queend.kv").fetchall() == [("stays",)], "it is removed")
        until(lambda: client.metric("queend_retention_removed_keys_total") == 1, "and counted")


def test_one_of_many_wins(daemon: Daemon, key: str) -> None:
    def one(n: int) -> dict:
        with daemon.client() as client:
            return kv(client, "putIfAbsent", key, value=n, ttlSeconds=60)
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(one, range(64)))
    (winner,) = [one for one in results if one["applied"]]
    assert {(one["reason"], one["value"], one["version"]) for one in results if not one["applied"]} == {
        ("exists", winner["value"], winner["version"])}


def test_counts_of_many_are_each_different(daemon: Daemon, key: str) -> None:
    def some(_: int) -> list[tuple[int, int]]:
        with daemon.client() as client:
            return [(r["value"], r["version"]) for r in (kv(client, "incr", key, ttlSeconds=60) for _ in range(25))]
    with ThreadPoolExecutor(8) as pool:
        each = list(pool.map(some, range(8)))
    assert sorted(value for one in each for value, _ in one) == list(range(1, 201))
    by_value = sorted(pair for one in each for pair in one)
    assert all(a[1] < b[1] for a, b in pairwise(by_value)), "later versions of a key are larger"
    assert all(a < b for one in each for a, b in pairwise(one))


def test_locks(client: Client, key: str) -> None:
    won = lock(client, "acquire", key, owner="me", ttlSeconds=30)
    assert won["acquired"] is True and won["slot"] == 0 and won["owner"] == "me" and "already" not in won
    assert won["guard"] == {"op": "check", "ns": "queen-locks", "key": f"{key}#0", "expect": won["token"],
                            "required": True}
    again = lock(client, "acquire", key, owner="me", ttlSeconds=30)
    assert again["already"] is True and again["token"] == won["token"]
    other = lock(client, "acquire", key, owner="you", ttlSeconds=30)
    assert (other["acquired"], other["reason"]) == (False, "held")
    assert [(one["slot"], one["owner"], one["token"]) for one in other["holders"]] == [(0, "me", won["token"])]
    row = kv(client, "get", f"{key}#0", ns="queen-locks")
    assert row["version"] == won["token"] and row["value"]["owner"] == "me"
    renewed = lock(client, "renew", key, token=won["token"], ttlSeconds=60)
    assert renewed["renewed"] is True and renewed["token"] > won["token"]
    assert lock(client, "renew", key, token=won["token"], ttlSeconds=60, owner="you")["reason"] == "lost"
    resent = lock(client, "renew", key, token=won["token"], ttlSeconds=60, owner="me")
    assert resent["renewed"] is True and resent["token"] > renewed["token"]
    assert lock(client, "release", key, token=won["token"])["released"] is False
    assert lock(client, "get", key)["held"] is True
    assert lock(client, "release", key, token=resent["token"])["released"] is True
    assert lock(client, "get", key) == {"index": 0, "op": "get", "held": False, "holders": []}
    assert lock(client, "acquire", key, owner="you", ttlSeconds=30)["token"] > resent["token"]


def test_a_semaphore(daemon: Daemon, key: str) -> None:
    def one(n: int) -> dict:
        with daemon.client() as client:
            return lock(client, "acquire", key, owner=str(n), ttlSeconds=30, limit=3)
    with ThreadPoolExecutor(12) as pool:
        won = [one for one in pool.map(one, range(12)) if one["acquired"]]
    assert 1 <= len(won) <= 3 and len({one["slot"] for one in won}) == len(won)
    for n in range(12):
        one(100 + n)
    with daemon.client() as client:
        assert [one["slot"] for one in lock(client, "get", key)["holders"]] == [0, 1, 2]


@pytest.mark.parametrize("operation, error", [
    ({"op": "take", "name": "a"}, "op must be"), ({"op": "get", "name": "a#b"}, "name must be"),
    ({"op": "get", "name": ""}, "name must be"), ({"op": "get", "name": "a\n"}, "name must be"),
    ({"op": "acquire", "name": "a"}, "ttlSeconds must be"),
    ({"op": "acquire", "name": "a", "ttlSeconds": 9, "limit": 1025}, "limit must be"),
    ({"op": "renew", "name": "a", "ttlSeconds": 9}, "token must be"),
    ({"op": "release", "name": "a", "token": 9, "slot": 1024}, "slot must be")])
def test_bad_locks(client: Client, operation: dict, error: str) -> None:
    answer = client.post("/api/v1/locks", {"operations": [operation]})
    assert answer.status == 400 and answer.json["code"] == "locks_bad_request"
    assert answer.json["detail"].startswith(error)


# ---- transactions ----------------------------------------------------------------------------------------------------

def push(queue: str, payload: Any, **more: Any) -> dict:
    return {"type": "push", "items": [{"queue": queue, "payload": payload, **more}]}


def gate(key: str, **more: Any) -> dict:
    return {"op": "putIfAbsent", "ns": NS, "key": key, "value": True, "ttlSeconds": 60, "required": True, **more}


def test_a_gate_and_a_push_are_one(client: Client, queue: str, key: str) -> None:
    done = client.transaction(push(queue, 1), kv=[gate(key), {"op": "get", "ns": NS, "key": key}])
    assert done["success"] is True
    assert [(one["index"], one["type"], one.get("opIndex")) for one in done["results"]] == [
        (0, "push", None), (1, "kv", 0), (2, "kv", 1)]
    assert done["results"][1]["applied"] is True and done["results"][2]["value"] is True
    lost = client.transaction(push(queue, 2), kv=[gate(key)])
    assert (lost["success"], lost["reason"], lost["kvReason"], lost["failedIndex"], lost["results"]) == (
        False, "kv_precondition", "exists", 1, [])
    assert (lost["value"], lost["version"]) == (True, done["results"][1]["version"])
    assert data(client.pop(queue, batch=5)) == [1]


def test_keys_share_the_fate_of_an_acknowledgment(client: Client, queue: str, key: str) -> None:
    client.push(queue, 1)
    (message,) = client.pop(queue)
    write = {"op": "put", "ns": NS, "key": key, "value": 1, "ttlSeconds": 60}
    refused = client.transaction({"type": "ack", "transactionId": "unknown", "partitionId": message["partitionId"],
                                  "leaseId": message["leaseId"]}, kv=[write])
    assert refused["success"] is False and kv(client, "get", key)["found"] is False
    done = client.transaction({"type": "ack", "transactionId": message["transactionId"],
                               "partitionId": message["partitionId"], "leaseId": message["leaseId"]}, kv=[write])
    assert done["success"] is True and kv(client, "get", key)["value"] == 1 and client.pop(queue) == []


def test_only_keys(client: Client, key: str) -> None:
    done = client.transaction(kv=[{"op": "incr", "ns": NS, "key": key, "ttlSeconds": 60}])
    assert done["success"] is True and done["results"][0]["value"] == 1
    lost = client.transaction(kv=[{"op": "check", "ns": NS, "key": key, "expect": 0, "required": True}])
    assert (lost["success"], lost["failedIndex"], lost["kvReason"]) == (False, 0, "exists")


def test_a_push_to_a_new_queue_is_refused_before_it_is_made(client: Client, queue: str, key: str) -> None:
    put(client, key)
    lost = client.transaction(push(queue, 1), kv=[gate(key)])
    assert lost["reason"] == "kv_precondition"
    assert client.show(queue).status == 404, "no queue was made"


def test_lists_ride_in_no_transaction(client: Client) -> None:
    answer = client.post("/api/v1/transaction", {"operations": [], "kv": [
        {"op": "getPrefix", "ns": NS, "prefix": "a"}]})
    assert answer.status == 400 and answer.json["reason"] == "kv_get_prefix_not_allowed_in_transaction"


def test_a_guard_fences_a_holder_that_lost_its_lock(client: Client, queue: str, key: str) -> None:
    old = lock(client, "acquire", key, owner="old", ttlSeconds=1)
    until(lambda: lock(client, "get", key)["held"] is False, "the lock expires")
    new = lock(client, "acquire", key, owner="new", ttlSeconds=60)
    assert new["token"] > old["token"]
    stale = client.transaction(push(queue, "old"), kv=[old["guard"]])
    assert (stale["success"], stale["reason"], stale["value"]["owner"]) == (False, "kv_precondition", "new")
    assert client.transaction(push(queue, "new"), kv=[new["guard"]])["success"] is True
    assert data(client.pop(queue, batch=5)) == ["new"]


# ---- rights ----------------------------------------------------------------------------------------------------------

def test_rights_by_namespace(start_daemon) -> None:
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="queues")

    def ask(rights: Any, op: dict, role: str = "read-write", route: str = "kv") -> int:
        claims = {} if rights is None else {"queues": rights}
        with daemon.client() as client:
            return client.request("POST", f"/api/v1/{route}", {"operations": [op]},
                                  bearer(token(sub="t", role=role, **claims))).status
    read, write = {"op": "get", "ns": NS, "key": "a"}, {"op": "delete", "ns": NS, "key": "a"}
    assert ask(None, write) == 200 and ask(None, read, role="read-only") == 403
    assert ask({"*": "*"}, read) == 403, "a pattern of queues gives no right to keys"
    assert [ask({"kv:sh*": "read"}, one) for one in (read, write)] == [200, 403]
    assert [ask({"kv:shop": ["push", "read"]}, one) for one in (read, write)] == [200, 200]
    assert ask({"kv:other": "*"}, read) == 403
    take = {"op": "acquire", "name": "x", "ttlSeconds": 9}
    assert [ask({f"kv:{ns}": "*"}, take, route="locks") for ns in ("queen-locks", "shop")] == [200, 403]
