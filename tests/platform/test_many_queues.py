"""Lists of many queues come in pages."""
from __future__ import annotations

import re

import psycopg
import pytest

MANY = 12_000


@pytest.fixture(scope="module")
def daemon(start_daemon, postgres):
    database = postgres.database()
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("INSERT INTO queend.queues (name, namespace, task) SELECT 'q' || n, 'space' || n % 3000,"
                           f" 'task' || n % 2 FROM generate_series(1, {MANY}) AS n")
        connection.execute("INSERT INTO queend.partitions (queue_id, name) SELECT id, 'Default' FROM queend.queues")
    # Statistics are refreshed when a test asks for it: figures that a test writes would be counted anew meanwhile.
    return start_daemon(database, STATS_INTERVAL_MS=3_600_000)


def walk(client, target: str, name: str | None) -> list[list]:
    pages = []
    while target:
        answer = client.get(target)
        pages.append(answer.json[name] if name else answer.json)
        link = answer.headers.get("link", "")
        target = link and re.fullmatch(r'<(/[^>]+)>; rel="next"', link)[1]
    return pages


def test_queues_in_pages_newest_first(client):
    pages = walk(client, "/api/v1/resources/queues?limit=5000", "queues")
    assert [len(page) for page in pages] == [5000, 5000, 2000]
    assert len({queue["name"] for page in pages for queue in page}) == MANY
    assert len(client.get("/api/v1/resources/queues").json["queues"]) == 1000
    assert client.get("/api/v1/resources/queues?limit=2&offset=11999").json["queues"] == pages[-1][-1:]
    assert client.request("GET", "/api/v1/resources/queues?limit=10001").status == 400


def test_namespaces_and_tasks_in_pages(client):
    assert [len(page) for page in walk(client, "/api/v1/resources/namespaces", "namespaces")] == [1000, 1000, 1000]
    assert walk(client, "/api/v1/resources/tasks?limit=1",
                "tasks") == [[one] for one in client.get("/api/v1/resources/tasks").json["tasks"]]


def test_groups_in_pages(client):
    for number in range(3):
        client.push("q1", number)
        client.pop("q1", consumerGroup=f"g{number}", autoAck="true")
    client.request("POST", "/api/v1/stats/refresh", {})
    names = [one["name"] for one in client.get("/api/v1/consumer-groups").json]
    assert [page[0]["name"]
            for page in walk(client, "/api/v1/consumer-groups?limit=1", None)] == names == ["g0", "g1", "g2"]


def test_namespaces_of_many_queues_are_kept_sums(daemon, client):
    def of(kind: str, name: str) -> dict | None:
        pages = walk(client, f"/api/v1/resources/{kind}s?limit=10000", f"{kind}s")
        return next((one for page in pages for one in page if one[kind] == name), None)

    client.configure("made.later", namespace="later", task="once")
    client.push("made.later", 1, 2, partition="p")
    client.push("q1", 1, partition="more")
    assert client.post("/api/v1/stats/refresh", {}).status == 200
    with psycopg.connect(daemon.conninfo) as db:
        assert db.execute("SELECT count(*) FROM queend.stat_spaces").fetchone() == (3000 + 1 + 3,), "they are kept"
    assert of("namespace", "later") == {"namespace": "later", "queues": 1, "partitions": 2,
                                        "messages": {"total": 2, "pending": 2}}
    assert of("task", "once")["queues"] == 1 and of("namespace", "space1")["partitions"] == 5
    client.configure("made.later", namespace="elsewhere")
    client.delete("q2")
    assert client.post("/api/v1/stats/refresh", {}).status == 200
    assert of("namespace", "later") is None and of("namespace", "elsewhere")["messages"]["total"] == 2
    assert of("namespace", "space2")["queues"] == 3


def test_dead_letters_are_summed_over_all_queues(daemon, client):
    """Queues are told of by name as far as 10 000 go. Written are the kept figures: so many dead letters take a
    minute."""
    assert client.post("/api/v1/stats/refresh", {}).status == 200
    with psycopg.connect(daemon.conninfo, autocommit=True) as db:
        changed = db.execute("UPDATE queend.stat_queues SET dead = 1").rowcount
    assert client.metric("queen_dlq_depth_by_queue") == 10_000 < changed
    assert client.metric("queen_dlq_depth") == changed
