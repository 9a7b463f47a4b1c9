"""A key by its path (GET, PUT, DELETE /api/v1/kv/:ns/:key), and the lists of keys for people."""
from __future__ import annotations

import uuid
from urllib.parse import quote

import pytest
from support.client import Client
from support.tokens import SECRET, bearer, token
from support.wait import until


@pytest.fixture
def ns() -> str:
    return f"n-{uuid.uuid4()}"


def test_a_key_by_its_path(client: Client, ns: str) -> None:
    path = f"/api/v1/kv/{ns}/carts/7"
    assert (lambda a: (a.status, a.json, a.headers.get("etag")))(client.get(path)) == (
        404, {"index": 0, "op": "get", "found": False, "key": "carts/7", "error": "Key not found"}, None)
    put = client.request("PUT", path, {"value": {"n": 12345678901234567890, "x": 1.50}, "forever": True})
    assert put.status == 200 and put.json["applied"] is True and put.headers["etag"] == f'"{put.json["version"]}"'
    got = client.get(path)
    assert got.status == 200 and got.headers["etag"] == put.headers["etag"] and got.json["found"] is True
    assert b'"value":{"n": 12345678901234567890, "x": 1.5}' in got.body      # as its client sent it
    lost = client.request("PUT", path, {"value": 2, "forever": True, "expect": 0})
    assert lost.status == 200 and (lost.json["applied"], lost.json["reason"]) == (False, "exists")
    assert lost.headers["etag"] == put.headers["etag"]
    done = client.request("PUT", path, {"value": 2, "ttlSeconds": 60, "expect": put.json["version"]})
    assert done.json["applied"] is True
    assert client.request("DELETE", path, {"expect": put.json["version"]}).json["reason"] == "version"
    gone = client.request("DELETE", path)
    assert gone.status == 200 and gone.json["applied"] is True and "etag" not in gone.headers
    assert client.request("DELETE", path).json["reason"] == "absent"
    assert client.get(path).status == 404


@pytest.mark.parametrize("key", ["o:1/x y", "ä%?#&+", "a//b/", "../up", "x" * 512])
def test_any_key_has_a_path(client: Client, ns: str, key: str) -> None:
    path = f"/api/v1/kv/{ns}/{quote(key)}"
    assert client.request("PUT", path, {"value": key, "forever": True}).json["key"] == key
    assert client.get(path).json["value"] == key
    done = client.post("/api/v1/kv", {"operations": [{"op": "get", "ns": ns, "key": key}]})
    assert done.json["results"][0]["value"] == key


@pytest.mark.parametrize(("method", "path", "body", "status", "reason"), [
    ("GET", "Shop/k", None, 400, "kv_bad_namespace"), ("GET", "shop/k?x=1", None, 400, "kv_no_query_string"),
    ("GET", "shop/%ff", None, 400, "kv_bad_key"), ("GET", "shop/%00", None, 400, "kv_bad_key"),
    ("PUT", "shop/k", {"forever": True}, 400, "kv_value_missing"),
    ("PUT", "shop/k", {"value": 1}, 400, "kv_expiry_not_specified"),
    ("PUT", "shop/k", {"value": 1, "ttlSeconds": 0}, 400, "kv_bad_ttl"),
    ("PUT", "shop/k", {"value": 1, "forever": True, "expect": "x"}, 400, "kv_bad_expect"),
    ("PUT", "shop/" + "k" * 513, {"value": 1, "forever": True}, 413, None),
    ("PUT", "shop/k", {"value": "x" * 65536, "forever": True}, 413, None),
    ("PUT", "shop/k", {"value": 1, "forever": True, "ttlSecond": 5}, 400, None),
    ("PUT", "shop/k", [1], 400, None), ("DELETE", "shop/k", {"expect": 1.5}, 400, "kv_bad_expect")])
def test_bad_requests_are_named(client: Client, method: str, path: str, body: object, status: int,
                                reason: str | None) -> None:
    answer = client.request(method, f"/api/v1/kv/{path}", body)
    assert answer.status == status, answer.body
    assert answer.json["code"].startswith("kv_") and answer.json.get("reason") == reason and answer.json["detail"]


def test_paths_that_are_no_keys(client: Client) -> None:
    assert client.get("/api/v1/kv/shop").status == 404
    assert client.get("/api/v1/kv/shop/").status == 404
    assert client.post("/api/v1/kv/shop/k", {}).status in (404, 405)


def test_lists_for_people(client: Client, ns: str) -> None:
    for name in ("a/1", "a/2", "a/3", "b"):
        client.request("PUT", f"/api/v1/kv/{ns}/{name}", {"value": name, "forever": True})
    client.request("PUT", f"/api/v1/kv/{ns}/a/0", {"value": "short", "ttlSeconds": 1})

    def listed(**more: object) -> dict:
        answer = client.post("/api/v1/resources/kv/list", {"namespace": ns, **more})
        assert answer.status == 200, answer.body
        return answer.json

    until(lambda: len(listed()["rows"]) == 4, "the short one has expired")
    names = client.get("/api/v1/resources/kv/namespaces?limit=1000").json["namespaces"]
    assert {"namespace": ns, "keys": 4} in names
    page = listed(prefix="a/", limit=2)
    assert [row["key"] for row in page["rows"]] == ["a/1", "a/2"] and page["truncated"] is True
    assert page["rows"][0] == {"key": "a/1", "value": "a/1", "version": page["rows"][0]["version"], "expiresAt": None,
                               "updatedAt": page["rows"][0]["updatedAt"], "expired": False, "bytes": 5}
    page = listed(prefix="a/", limit=2, after=page["nextAfter"], keysOnly=True)
    assert [row["key"] for row in page["rows"]] == ["a/3"] and page["nextAfter"] is None
    assert "value" not in page["rows"][0]
    shown = listed(includeExpired=True)["rows"]
    assert [row["key"] for row in shown if row["expired"]] in (["a/0"], [])      # until it is swept
    for body, status in (({}, 400), ({"namespace": "X"}, 400), ({"namespace": ns, "limit": 0}, 400),
                         ({"namespace": ns, "prefix": 1}, 400), ({"namespace": ns, "keysOnly": 1}, 400)):
        assert client.post("/api/v1/resources/kv/list", body).status == status


def test_rights_of_paths_and_lists(start_daemon) -> None:
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="limits")

    def ask(method: str, path: str, body: object = None, role: str = "read-write", **limits: object) -> tuple:
        with daemon.client() as client:
            answer = client.request(method, path, body, bearer(token(sub="t", role=role, **limits)))
            return answer.status, answer.json
    value = {"value": 1, "forever": True}
    assert ask("PUT", "/api/v1/kv/shop/k", value)[0] == 200
    assert ask("PUT", "/api/v1/kv/shop/k", value, role="read-only")[0] == 403
    assert ask("GET", "/api/v1/kv/shop/k", role="read-only")[0] == 200
    reads, all_queues = {"kv:shop": "read"}, {"*": "*"}
    assert ask("GET", "/api/v1/kv/shop/k", limits=reads)[0] == 200
    assert ask("GET", "/api/v1/kv/other/k", limits=reads)[0] == 403
    assert ask("DELETE", "/api/v1/kv/shop/k", limits=reads)[0] == 403
    assert ask("GET", "/api/v1/kv/shop/k", limits=all_queues)[0] == 403
    lists, names = "/api/v1/resources/kv/list", "/api/v1/resources/kv/namespaces"
    assert ask("POST", lists, {"namespace": "shop"}, limits=reads)[0] == 200
    assert ask("POST", lists, {"namespace": "shop"}, limits=all_queues)[0] == 403
    assert ask("GET", names, limits=reads)[1]["namespaces"] == [{"namespace": "shop", "keys": 1}]
    assert ask("GET", names, limits=all_queues)[1]["namespaces"] == []
