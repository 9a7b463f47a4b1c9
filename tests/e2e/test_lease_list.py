"""GET /api/v1/leases: who has messages, how many, since when and until when; and how a lease is ended or extended."""
from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from urllib.parse import urlencode

import psycopg
from support.client import Client, pop_target
from support.daemon import Daemon
from support.tokens import SECRET, token

from queend.control.routes import leases


def listed(client: Client, **query: object) -> dict:
    answer = client.get(f"/api/v1/leases?{urlencode(query)}")
    assert answer.status == 200, answer.body
    return answer.json


def test_a_lease_from_the_delivery_to_its_end(client: Client, queue: str) -> None:
    assert listed(client, queue=queue) == {"leases": [], "total": 0, "complete": True}
    client.push(queue, *range(5), partition="p")
    before = datetime.datetime.now(datetime.UTC)
    taken = client.pop(queue, consumerGroup="g", subscriptionMode="all", batch=3, leaseSeconds=60)
    found = listed(client, queue=queue)
    (one,) = found["leases"]
    assert (found["total"], found["complete"]) == (1, True)
    assert {name: one[name] for name in ("queue", "partition", "partitionId", "consumerGroup", "leaseId", "messages",
                                         "offset", "deliveries", "leasesLapsed")} == {
        "queue": queue, "partition": "p", "partitionId": taken[0]["partitionId"], "consumerGroup": "g",
        "leaseId": taken[0]["leaseId"], "messages": 3, "offset": 0, "deliveries": 1, "leasesLapsed": 0}
    since, ends = (datetime.datetime.fromisoformat(one[name]) for name in ("lastActivityAt", "expiresAt"))
    assert since >= before - datetime.timedelta(seconds=1) and ends - since == datetime.timedelta(seconds=60)
    client.ack(taken[0], group="g")
    (left,) = listed(client, queue=queue)["leases"]
    assert (left["messages"], left["offset"]) == (2, 1) and left["lastActivityAt"] >= one["lastActivityAt"]
    assert client.extend(one["leaseId"], {"seconds": 600})["success"]
    (longer,) = listed(client, queue=queue)["leases"]
    assert datetime.datetime.fromisoformat(longer["expiresAt"]) - ends > datetime.timedelta(seconds=500)
    for message in taken[1:]:
        client.ack(message, group="g")
    assert listed(client, queue=queue)["leases"] == []


def test_it_is_released_by_its_id_and_not_after_its_end(client: Client, queue: str) -> None:
    """With the status retry for all that the lease has, as the dashboard does: no failure is counted, no other lease of
    the partition is touched."""
    client.configure(queue, retryLimit=0, dlqAfterMaxRetries=True)
    client.push(queue, *range(3))
    client.pop(queue, consumerGroup="g", subscriptionMode="all", batch=3)
    (one,) = listed(client, queue=queue, consumerGroup="g")["leases"]
    body = {"windowId": f"{one['partitionId']}:{one['leaseId']}", "consumerGroup": "g", "status": "retry"}
    (done,) = client.post("/api/v1/ack", body).json
    assert (done["success"], done["messages"], done["leaseReleased"]) == (True, 3, True)
    assert listed(client, queue=queue)["leases"] == []
    again = client.pop(queue, consumerGroup="g", batch=3)
    assert [one["data"] for one in again] == [0, 1, 2] and client.dead(queue) == 0
    (done,) = client.post("/api/v1/ack", body).json
    assert not done["success"], "the lease that was released"
    (other,) = listed(client, queue=queue)["leases"]
    assert (other["leaseId"], other["messages"], other["deliveries"]) == (again[0]["leaseId"], 3, 2)


def test_filters_order_and_pages(client: Client, queue: str) -> None:
    for n, seconds in enumerate((300, 100, 200)):
        client.push_items([{"queue": f"{queue}{n % 2}", "partition": f"p{n}", "payload": n}])
        client.pop(f"{queue}{n % 2}", f"p{n}", consumerGroup=f"{queue}-g{n // 2}", subscriptionMode="all",
                   leaseSeconds=seconds)

    def partitions(**query: object) -> list[str]:
        return [one["partition"] for one in listed(client, **query)["leases"] if one["queue"].startswith(queue)]

    assert partitions() == partitions(sort="expires") == ["p1", "p2", "p0"]
    assert partitions(sort="idle") == ["p0", "p1", "p2"]
    assert partitions(queue=f"{queue}0", sort="idle") == ["p0", "p2"]
    assert partitions(consumerGroup=f"{queue}-g0") == ["p1", "p0"]
    assert partitions(queue=f"{queue}0", consumerGroup=f"{queue}-g1") == ["p2"]
    assert partitions(queue=f"{queue}none") == [] == partitions(consumerGroup=f"{queue}none")
    assert listed(client, queue=f"{queue}0", limit=1)["total"] == 2
    first = client.get(f"/api/v1/leases?queue={queue}0&limit=1")
    assert 'rel="next"' in first.headers["link"] and "offset=1" in first.headers["link"]
    last = client.get(f"/api/v1/leases?queue={queue}0&limit=1&offset=1")
    assert "link" not in last.headers and [one["partition"] for one in last.json["leases"]] == ["p0"]
    for query in ("sort=colour", "limit=0", "limit=1001", "offset=10001"):
        assert client.get(f"/api/v1/leases?{query}").status == 400


def test_a_lease_of_several_partitions_is_listed_for_each(client: Client, queue: str) -> None:
    client.push_items([{"queue": queue, "partition": p, "payload": p} for p in "abc"])
    taken = client.pop(queue, batch=3, partitions=3)
    found = listed(client, queue=queue)["leases"]
    assert {one["partition"] for one in found} == set("abc")
    assert {one["leaseId"] for one in found} == {taken[0]["leaseId"]}


def test_what_keeps_expiring(daemon: Daemon, client: Client, queue: str) -> None:
    """A message that ends its consumers: the leases in a row that expired with it."""
    client.push(queue, 1)
    client.pop(queue)
    with psycopg.connect(daemon.conninfo, autocommit=True) as session:
        part, group = session.execute("SELECT k.partition_id, k.group_id FROM queend.cursors k JOIN queend.partitions"
                                      " p ON p.id = k.partition_id JOIN queend.queues q ON q.id = p.queue_id"
                                      " WHERE q.name = %s", (queue,)).fetchone()
        session.execute("UPDATE queend.cursors SET standing = true WHERE partition_id = %s AND group_id = %s",
                        (part, group))
        session.execute("INSERT INTO queend.standing (since, taken, first, upto, partition_id, group_id, lapses)"
                        " VALUES (0, 0, 0, 0, %s, %s, 7)", (part, group))
    assert [one["leasesLapsed"] for one in listed(client, queue=queue)["leases"]] == [7]


def test_says_when_there_are_more_than_it_examines(start_daemon: Callable[..., Daemon]) -> None:
    daemon = start_daemon()
    with daemon.client() as client:
        client.push("q", 1)
        client.pop("q")
        listed(client)
        with psycopg.connect(daemon.conninfo, autocommit=True) as session:      # ends of leases in other partitions
            session.execute("INSERT INTO queend.stat_marks (partition_id, due) SELECT 1000000 + i, 4000000000000000 + i"
                            " FROM generate_series(1, %s) AS i", (leases.EXAMINED_MOST,))
            assert session.execute("SELECT total, complete FROM queend.lease_list(NULL, NULL, false, %s, 10, 0)",
                                   (leases.EXAMINED_MOST,)).fetchall()[0] == (1, False)
        found = listed(client)
        assert (found["total"], found["complete"], len(found["leases"])) == (1, False, 1)
        assert listed(client, queue="none") == {"leases": [], "total": 0, "complete": False}


def test_a_token_that_is_limited_to_queues_or_groups(start_daemon: Callable[..., Daemon]) -> None:
    settings = {"JWT_ENABLED": "true", "JWT_SECRET": SECRET, "QUEEND_JWT_QUEUES_CLAIM": "queues"}
    with start_daemon(**settings).client() as client:
        full = {"Authorization": f"Bearer {token(exp=3600, role='admin')}"}
        queues = ("a.b", "a.c", "b", "a%", "a_", "a\\")
        for queue in queues:
            client.request("POST", "/api/v1/push", {"items": [{"queue": queue, "payload": 1}]}, headers=full)
            for group in ("page-1", "page-2", "other"):
                client.request("GET", f"{pop_target(queue, consumerGroup=group)}", headers=full)

        def found(rules: dict | None, query: str = "") -> list[tuple[str, str]] | int:
            limits = {} if rules is None else {"queues": rules}
            answer = client.request("GET", f"/api/v1/leases{query}", headers={
                "Authorization": f"Bearer {token(exp=3600, role='read-only', **limits)}"})
            if answer.status != 200:
                assert answer.json["error"].startswith("Insufficient permissions for this queue: the token lacks read ")
                return answer.status
            rows = answer.json["leases"]
            assert answer.json["total"] == len(rows) or "limit=" in query
            return sorted((one["queue"], one["consumerGroup"]) for one in rows)

        def all_of(queues: Iterable[str], groups: Iterable[str] = ("page-1", "page-2", "other")) -> list:
            return sorted((queue, group) for queue in queues for group in groups)

        assert found(None) == all_of(queues)
        assert found({"a.*": ["read"]}) == all_of(["a.b", "a.c"])
        assert found({"a.*": ["read"]}, "?queue=a.b") == all_of(["a.b"])
        assert found({"a.*": ["read"]}, "?queue=b") == 403 == found({"a.*": ["pop", "manage"]})
        pages = {"*": ["read:page-*", "pop"]}
        assert found(pages) == all_of(queues, ["page-1", "page-2"])
        assert found(pages, "?queue=b") == all_of(["b"], ["page-1", "page-2"])
        assert found(pages, "?queue=b&consumerGroup=page-2") == [("b", "page-2")]
        assert found(pages, "?consumerGroup=other") == 403 == found(pages, "?queue=b&consumerGroup=other")
        assert found({"b": ["read:page-1"], "a.b": ["read"]}) == [*all_of(["a.b"]), ("b", "page-1")]
        assert len(found(pages, "?limit=3")) == 3 and found(pages, "?limit=100&offset=12") == []
        # a pattern has no signs but the asterisk
        assert found({"a%": "read"}) == all_of(["a%"]) and found({"a_": "read"}) == all_of(["a_"])
        assert found({"a\\": "read"}) == all_of(["a\\"]) and found({"a%*": ["read:p_ge*"]}) == []
        assert found({"\ud800*": ["read"], "b\0": ["read"]}) == [] == found({"*": ["read:\ud800"]})
