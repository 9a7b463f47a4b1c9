"""The dashboard as files: what is served, with which headers, to whom; and that the built page is of its sources."""
from __future__ import annotations

import gzip
import json
import re
import runpy
from collections.abc import Callable
from typing import Any

import pytest
from support.client import Client
from support.daemon import ROOT, Daemon
from support.tokens import SECRET, token

BUILT = ROOT / "queend" / "dashboard"
FILES = sorted(file.relative_to(BUILT).as_posix() for file in BUILT.rglob("*") if file.is_file())


def test_the_built_page_belongs_to_the_sources() -> None:
    belongs = runpy.run_path(str(ROOT / "tools/dashboard.py"))["belongs"]
    assert json.loads((BUILT / "sources.json").read_text()) == belongs(), "make dashboard"


def test_a_change_of_sources_or_page_is_seen(tmp_path: Any) -> None:
    digest = runpy.run_path(str(ROOT / "tools/dashboard.py"))["digest"]
    (tmp_path / "a").write_text("a")
    (tmp_path / "node_modules").mkdir()
    before = digest(tmp_path, {"node_modules"})
    (tmp_path / "node_modules" / "b").write_text("b")
    assert digest(tmp_path, {"node_modules"}) == before
    (tmp_path / "a").write_text("b")
    assert digest(tmp_path, {"node_modules"}) != before


def test_the_page_is_small_and_needs_nothing_from_elsewhere() -> None:
    page = (BUILT / "index.html").read_text()
    assert len(FILES) == 5 and sum(len(gzip.compress((BUILT / one).read_bytes())) for one in FILES) < 100_000
    assert not re.search(r"<style|<script(?![^>]*\bsrc=)|\son\w+=|\bstyle=|https?://", page)
    for named in re.findall(r'(?:src|href)="/([^"]+)"', page):
        assert named in FILES


@pytest.mark.parametrize("path", ["/", *(f"/{name}" for name in FILES if name != "sources.json")])
def test_each_file_has_the_headers(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status == 200 and answer.body == (BUILT / (path[1:] or "index.html")).read_bytes()
    policy = dict(one.strip().split(" ", 1) for one in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'" and policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'" and policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["referrer-policy"] == "no-referrer"
    kept = "immutable" in answer.headers["cache-control"]
    assert kept == path.startswith("/assets/"), "another content has another name, and only there"
    packed = client.request("GET", path, headers={"Accept-Encoding": "br, gzip;q=0.5"})
    if packed.headers.get("content-encoding"):
        assert gzip.decompress(packed.body) == answer.body and packed.headers["vary"] == "Accept-Encoding"
    refused = client.request("GET", path, headers={"Accept-Encoding": "gzip;q=0"})
    assert refused.body == answer.body and "content-encoding" not in refused.headers


@pytest.mark.parametrize("path", ["/sources.json", "/nothing", "/assets/none.js", "/assets/../index.html",
                                  "/%2e%2e/config.py", "/api/v1/nope", "/queues/orders"])
def test_nothing_else_is_a_file(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status == 404 and answer.json["error"].startswith("Not found")


def test_tokens_guard_the_data_and_not_the_page(start_daemon: Callable[..., Daemon]) -> None:
    claims = {"exp": 3600, "sub": "reader"}
    with start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="queues").client() as client:
        for name in FILES:
            assert client.get(f"/{name}").status == (401 if name == "sources.json" else 200)

        def ask(path: str, **more: Any) -> Any:
            return client.request("GET", path, headers={"Authorization": f"Bearer {token(**claims, **more)}"})

        for path in ("live", "session", "settings"):
            assert client.get(f"/api/v1/system/{path}").status == 401
        reader = ask("/api/v1/system/session", role="read-only").json
        assert [reader[name] for name in ("tokens", "level", "subject", "queues")] == [
            True, "read-only", "reader", None]
        assert reader["expiresAt"].endswith("Z")
        assert ask("/api/v1/system/session", role="none").status == 403
        limited = ask("/api/v1/system/session", role="read-write", queues={"a.*": ["push", "read"]}).json
        assert limited["level"] == "read-write" and limited["queues"] == {"a.*": ["push", "read"]}
        assert ask("/api/v1/system/settings", role="read-write").status == 403
        found = {one["name"]: one for one in ask("/api/v1/system/settings", role="admin").json}
        assert found["JWT_SECRET"]["value"] == "********" and SECRET not in json.dumps(found)
        assert found["JWT_SECRET"]["changed"] and not found["QUEEND_DASHBOARD"]["changed"]
        assert found["QUEEND_DASHBOARD"]["value"] == found["QUEEND_DASHBOARD"]["default"] == "true"


def test_what_is_watched(client: Client, queue: str) -> None:
    before = client.get("/api/v1/system/live").json
    client.post("/api/v1/push", {"items": [{"queue": queue, "payload": n} for n in range(5)]})
    after = client.get("/api/v1/system/live").json
    assert after["jobs"]["push"]["items"] - before["jobs"]["push"]["items"] == 5
    assert sum(after["jobs"]["push"]["latencyBuckets"]) > sum(before["jobs"]["push"]["latencyBuckets"])
    assert after["ready"] and after["startedAt"] == before["startedAt"] and after["backlog"]["queues"] >= 0


def test_queues_are_searched_and_sorted(client: Client, queue: str) -> None:
    for n, name in enumerate((f"{queue}-Alpha%", f"{queue}-beta_")):
        client.post("/api/v1/push", {"items": [{"queue": name, "payload": i} for i in range(n + 1)]})
    def names(query: str) -> list[str]:
        return [one["name"] for one in client.get(f"/api/v1/resources/queues?{query}").json["queues"]]
    assert names(f"search={queue.upper()}-ALPHA%25") == [f"{queue}-Alpha%"]
    assert names(f"search={queue}-&sort=name") == [f"{queue}-Alpha%", f"{queue}-beta_"]
    assert names(f"search={queue}-&sort=pending") == [f"{queue}-beta_", f"{queue}-Alpha%"]
    assert names(f"search={queue}-b%25") == []
    assert client.get("/api/v1/resources/queues?sort=colour").status == 400
    assert names(f"search={queue}-&paused=true") == []
    client.post(f"/api/v1/queues/{queue}-beta_/pause", {})
    assert names(f"search={queue}-&paused=true") == names("paused=true") == [f"{queue}-beta_"]
    assert names(f"search={queue}-&sort=name&paused=false") == [f"{queue}-Alpha%", f"{queue}-beta_"]


def test_partitions_are_paged_by_name(client: Client, queue: str) -> None:
    wanted = sorted([f"a{n:02}" for n in range(20)] + ["b%", "b_", "ü"], key=str.encode)
    client.post("/api/v1/push", {"items": [{"queue": queue, "partition": name, "payload": 1} for name in wanted]})
    def names(query: str) -> list[str]:
        found = client.get(f"/api/v1/resources/partitions?queue={queue}&{query}").json
        return [one["name"] for one in found["partitions"]]
    found, after = [], ""
    while page := names(f"limit=7&after={after}"):
        found, after = found + page, page[-1].replace("%", "%25").replace("ü", "%C3%BC")
    assert found == wanted
    assert names("prefix=b%25") == ["b%"] and names("prefix=a&after=a17") == ["a18", "a19"] and names("prefix=c") == []
    assert client.get("/api/v1/resources/partitions?prefix=a").status == 400


def test_what_is_scheduled_is_listed(client: Client, queue: str) -> None:
    late = {"queue": queue, "payload": 1, "delayMs": 3_600_000, "transactionId": "late"}
    client.post("/api/v1/push", {"items": [late]})
    client.post("/api/v1/push", {"items": [{"queue": queue, "payload": 1}]})
    (one,) = client.get(f"/api/v1/messages/scheduled?queue={queue}").json["scheduled"]
    assert (one["queue"], one["messages"], one["transactionId"]) == (queue, 1, "late")
    assert any(other == one for other in client.get("/api/v1/messages/scheduled").json["scheduled"])
    assert client.get("/api/v1/messages/scheduled?queue=none-such").status == 404


def test_streams_are_listed(client: Client, queue: str) -> None:
    made = client.post("/streams/v1/queries", {"name": queue, "source_queue": "a", "config_hash": "x"}).json
    (one,) = [one for one in client.get("/streams/v1/queries").json["queries"] if one["name"] == queue]
    assert [one[name] for name in ("query_id", "source_queue", "sink_queue", "state_keys")] == [
        made["query_id"], "a", None, 0]


def test_a_dead_letter_comes_back_edited(client: Client, queue: str) -> None:
    client.post("/api/v1/push", {"items": [{"queue": queue, "payload": {"n": 1}}]})
    message = client.get(f"/api/v1/pop/queue/{queue}?consumerGroup=g&subscriptionMode=all").json["messages"][0]
    client.post("/api/v1/ack", {"transactionId": message["transactionId"], "partitionId": message["partitionId"],
                                "leaseId": message["leaseId"], "consumerGroup": "g", "status": "dlq"})
    (dead,) = client.get(f"/api/v1/dlq?queue={queue}").json["messages"]
    named = {"partitionId": dead["partitionId"], "offset": dead["offset"], "consumerGroup": "g", "payload": {"n": 2}}
    done = client.post("/api/v1/dlq/redrive", {"queue": queue, "messages": [named]}).json
    assert done["redriven"] == 1 and client.get(f"/api/v1/dlq?queue={queue}").json["total"] == 0
    again = client.get(f"/api/v1/pop/queue/{queue}?consumerGroup=g").json["messages"]
    assert [one["data"] for one in again] == [{"n": 2}]
