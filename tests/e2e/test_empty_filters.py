"""An empty, missing or misspelled filter never means "all" where something is deleted or moved."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from support.cli import Cli
from support.client import Client

from queend.auth.levels import READ, route_of
from queend.control.http.route import ROUTES
from queend.control.routes import routers

QUEUE, GROUP = "kept", "billing"
# Routes that change something and are not exact: none of them has a filter. What each of them does instead.
WITHOUT_FILTERS = {
    "POST /api/v1/configure": "names one queue", "POST /api/v1/traces": "adds a trace to one message",
    "POST /api/v1/consumer-groups/{group}/offsets": "names each partition",
    "POST /api/v1/stats/refresh": "counts anew", "POST /api/v1/system/maintenance": "a switch",
    "POST /api/v1/system/maintenance/pop": "a switch", "POST /internal/api/notify": "wakes",
    "POST /api/v1/migration/test-connection": "reads", "POST /api/v1/migration/validate": "reads",
    "POST /api/v1/migration/start": "copies to a database that it names", "POST /api/v1/migration/reset": "forgets",
    "POST /streams/v1/queries": "names one query", "POST /api/v1/stream/{queue}/ticket": "makes a ticket",
    "POST /api/v1/stream/{queue}/partition/{partition}/ticket": "makes a ticket",
    "DELETE /api/v1/timers/{queue}/{key}": "names one timer", "POST /api/v1/ephemeral/configure": "names one queue",
    "POST /api/v1/ephemeral/reset": "names one queue",
}
routers()
CHANGING = sorted(route for route in ROUTES if not route.startswith("GET ")
                  and route_of(*route.split())[0].level != READ)
EXACT = [route for route in CHANGING if ROUTES[route].exact]
# What each exact route is sent where nothing is wrong with it; none of it is sent here.
BODIES: dict[str, dict[str, Any]] = {
    "POST /api/v1/dlq/redrive": {"queue": QUEUE}, "POST /api/v1/consumer-groups/{group}/subscription": {
        "subscriptionTimestamp": "2020-01-01T00:00:00Z"},
    "POST /api/v1/consumer-groups/{group}/queues/{queue}/seek": {"toEnd": True},
}


def members_of(route: str) -> dict[str, Any]:
    """The declared members of a route's body; none for a route without a body."""
    method, path = route.split()
    (one,) = [one for router in routers() for one in router.routes if one.path == path and method in one.methods]
    body = (one.openapi_extra or {}).get("requestBody", {})
    return body.get("content", {}).get("application/json", {}).get("schema", {}).get("properties", {})


def cases() -> Iterator[tuple[str, str, Any]]:
    """Requests that an exact route must refuse: route, query, body."""
    for route in EXACT:
        members, base = members_of(route), BODIES.get(route)
        needed = "queue=" + QUEUE if route == "DELETE /api/v1/dlq" else ""
        for name in [one["name"] for one in ROUTES[route].query]:
            rest = needed + "&" if name != "queue" else ""
            for query in (f"{rest}{name}=", f"{rest}{name}", f"{rest}{name}=&{name}=a", f"{rest}{name}=a&{name}=b",
                          f"{rest}{name.upper()}=a", f"{rest}{name}s=a"):
                yield route, query, base
        for query in ("filter=a", "=a", "queues=a", "group=", "%70artitio=a"):
            yield route, f"{needed}&{query}", base
        if not members:
            for body in ({"partition": "a"}, ["a"], "a"):
                yield route, needed, body
            continue
        for name in members:
            for value in (None, "", [], {}):
                yield route, needed, {**(base or {}), name: value}
            yield route, needed, {**(base or {}), f"{name}_": "a"}
        for body in ({**(base or {}), "filter": "a"}, {**(base or {}), "": "a"}, [base], "a", 7, True):
            yield route, needed, body


@pytest.fixture(scope="module")
def world(daemon) -> Iterator[dict[str, str]]:
    """A queue with the partitions '', a and b, in each a message, a dead letter and a cursor of a group. Yields the
    names of paths."""
    with daemon.client() as client:
        client.configure(QUEUE, retryLimit=0)
        for partition in ("", "a", "b"):
            client.push(QUEUE, "dead", "kept", partition=partition)
            (message,) = client.pop(QUEUE, partition, consumerGroup=GROUP)
            assert client.ack(message, "dlq", GROUP)["success"] is True
        yield {"queue": QUEUE, "group": GROUP, "partition": message["partitionId"],
               "transaction_id": message["transactionId"]}


def state_of(daemon) -> list[Any]:
    """What a deletion or a move would change."""
    with psycopg.connect(daemon.conninfo) as connection:
        return [connection.execute(query).fetchall() for query in (
            "SELECT partition_id, base FROM queend.log ORDER BY 1, 2",
            "SELECT partition_id, floor FROM queend.floors ORDER BY 1",
            "SELECT id, queue_id, record_offset FROM queend.dead_letters ORDER BY 1",
            "SELECT partition_id, group_id, committed, lease_until > 0 FROM queend.cursors ORDER BY 1, 2",
            "SELECT id, name, start_at, mode FROM queend.consumer_groups ORDER BY 1",
            "SELECT count(*) FROM queend.paused", "SELECT id, name FROM queend.queues ORDER BY 1")]


def test_every_changing_route_is_exact_or_has_no_filter() -> None:
    assert [route for route in CHANGING if route not in EXACT] == sorted(WITHOUT_FILTERS)


@pytest.mark.parametrize("route", EXACT)
def test_a_route_refuses_what_says_nothing(daemon, lenient_daemon, world, client: Client, route: str) -> None:
    method, path = route.split()
    before = state_of(daemon)
    for _, query, body in [one for one in cases() if one[0] == route]:
        names = {**world, "partition": "b"} if "/partitions/{partition}" in path else world      # by name or by id
        answer = client.request(method, f"{path.format(**names)}?{query}", body)
        assert answer.status == 400 and answer.json["error"], (query, body, answer.status, answer.body)
    assert state_of(daemon) == before


def test_a_lenient_daemon_refuses_it_too(lenient: Client) -> None:
    lenient.push(QUEUE, 1, 2)
    for method, target, body in (("DELETE", f"/api/v1/queues/{QUEUE}/clear?partition=", None),
                                 ("DELETE", f"/api/v1/queues/{QUEUE}/clear?partitoin=a", None),
                                 ("DELETE", f"/api/v1/dlq?queue={QUEUE}&partition=", None),
                                 ("POST", "/api/v1/dlq/redrive", {"queue": QUEUE, "partitoin": "a"})):
        assert lenient.request(method, target, body).status == 400, target
    assert lenient.show(QUEUE).json["totals"]["total"] == 2


def test_a_blank_is_a_name_like_others(daemon, world, client: Client) -> None:
    before = state_of(daemon)
    assert client.request("DELETE", f"/api/v1/queues/{QUEUE}/clear?partition=%20").status == 404
    assert client.request("DELETE", f"/api/v1/dlq?queue={QUEUE}&partition=%20").json["deleted"] == 0
    assert client.request("DELETE", f"/api/v1/dlq?queue={QUEUE}&consumerGroup=%09").json["deleted"] == 0
    assert client.post("/api/v1/dlq/redrive", {"queue": QUEUE, "partition": " "}).json["redriven"] == 0
    for target in (f"/api/v1/dlq?queue={QUEUE}&from=%20", "/api/v1/dlq?queue=%20"):
        assert client.request("DELETE", target).status in (400, 404)
    assert state_of(daemon) == before


@pytest.mark.parametrize("path", ["/api/v1/queues//clear", "/api/v1/resources/queues/", "/api/v1/consumer-groups/",
                                  f"/api/v1/consumer-groups/{GROUP}/queues/", "/api/v1/consumer-groups//queues/kept",
                                  f"/api/v1/consumer-groups/{GROUP}/queues"])
def test_an_empty_name_in_a_path_is_no_route(daemon, world, client: Client, path: str) -> None:
    before = state_of(daemon)
    assert client.request("DELETE", path).status in (404, 405)
    assert state_of(daemon) == before


@pytest.mark.parametrize("call", [
    "delete_consumer_group_v1({})", "delete_consumer_group_v1('billing', NULL)",
    "delete_consumer_group_for_queue_v1('billing', {})", "delete_consumer_group_for_queue_v1({}, 'kept')",
    "delete_consumer_group_for_queue_v1('billing', 'kept', NULL)",
    "update_consumer_group_subscription_v1('billing', NULL)", "update_consumer_group_subscription_v1({}, now())",
    "delete_queue_v1({})", "seek_consumer_group_v1('billing', {}, NULL, true)",
    "seek_consumer_group_v1({}, 'kept', NULL, true)", "seek_consumer_group_v1('billing', 'kept', '2020-01-01', NULL)",
    "seek_partition_v1({}, 'kept', 'a')", "seek_partition_v1('billing', {}, 'a')",
    "seek_partition_v1('billing', 'kept', NULL)"])
def test_a_function_refuses_what_says_nothing(daemon, world, call: str) -> None:
    before = state_of(daemon)
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        for value in ("NULL", "''"):
            with pytest.raises(psycopg.errors.InvalidParameterValue):
                connection.execute(f"SELECT queen.{call.format(value)}")
    assert state_of(daemon) == before


@pytest.mark.parametrize("target", ["NULL, false", "'2020-01-01', true"])
def test_a_seek_names_one_target(daemon, world, target: str) -> None:
    before = state_of(daemon)
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        (told,) = connection.execute(f"SELECT queen.seek_consumer_group_v1('billing', 'kept', {target})").fetchone()
    assert told["success"] is False and "pecify" in told["error"]
    assert state_of(daemon) == before


@pytest.mark.parametrize("words", [
    "queue clear kept --partition|", "queue clear kept --partition|=", "queue delete|", "queue delete kept|",
    "dlq purge kept --partition|", "dlq purge kept --group|", "dlq purge kept --from|", "dlq purge kept --to|",
    "dlq purge|", "dlq redrive kept --partition|", "dlq redrive kept --group|", "dlq redrive kept --from|",
    "dlq redrive kept --to|", "dlq redrive kept --to-queue|", "dlq redrive kept --to-partition|", "dlq redrive|",
    "group delete billing --queue|", "group delete|", "group seek billing kept --end --partition|",
    "group seek billing kept --to|", "group seek billing|", "group pause billing --queue|",
    "group resume billing --queue|"])
def test_a_command_refuses_what_is_empty(daemon, world, tmp_path, words: str) -> None:
    before = state_of(daemon)
    given = words.partition("|")[0].split()
    line = [*given[:-1], given[-1] + "="] if words.endswith("=") else [*given, ""]
    if given[1] not in ("pause", "resume"):
        line.append("--yes")
        if given[:2] == ["group", "seek"] and len(given) == 3:
            line.append("--end")
    done = Cli(daemon.url, tmp_path)(*line)
    assert done.status == 2 and " is empty" in done.err and done.out == "", done
    assert state_of(daemon) == before


def test_a_file_of_definitions_refuses_an_empty_start(daemon, tmp_path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text('{"queues": [{"name": "other", "groups": [{"name": "g", "from": ""}]}]}')
    done = Cli(daemon.url, tmp_path)("import", str(file))
    assert done.status == 2 and "`from` must not be empty" in done.err, done
