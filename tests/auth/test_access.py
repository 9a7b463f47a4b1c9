"""Every route at every level, from outside."""
from __future__ import annotations

import itertools

import pytest
from support.callers import Caller, told
from support.client import Client
from support.http import Wire
from support.tokens import SECRET, bearer, token, writer

from queend.auth.levels import ADMIN, READ, TABLE, UNKNOWN, WRITE, route_of
from queend.control.routes import routers

routers()      # they declare their routes

ROLES = {0: None, READ: "read-only", WRITE: "read-write", ADMIN: "admin"}
HOT = ("api/v1/push", "api/v1/pop", "api/v1/ack", "api/v1/transaction", "api/v1/lease/")


NO_ROLE = "Insufficient permissions: the token has no known role (JWT_ROLES_CLAIM)"


@pytest.fixture(scope="module")
def daemon(start_daemon):
    return start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET)


def path_of(route) -> str:
    return "/" + "/".join("" if part == ":nothing" else f"some-{part[1:]}" if part[0] == ":" else "x.js" if part == "*"
                          else part for part in route.path.split("/"))


@pytest.fixture(scope="module")
def closed_daemon(start_daemon):
    return start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, JWT_SKIP_PATHS="/none")


@pytest.fixture
def closed(closed_daemon):
    """No path is open."""
    with closed_daemon.client() as client:
        yield client


@pytest.mark.parametrize("route", [*TABLE, UNKNOWN], ids=lambda route: f"{route.method} {route.path}")
def test_every_route_at_every_level(closed: Client, route):
    client = closed
    method = "PATCH" if route is UNKNOWN else route.method
    path = path_of(route)
    for level, role in ROLES.items():
        status, error = told(client, method, path, {} if method == "POST" else None,
                             bearer(token(role=role) if role else token()))
        if level < route.level:
            assert (status, error) == (403, "Insufficient permissions" if role else NO_ROLE)
        else:
            assert status not in (401, 403), error
    status, error = told(client, method, path, {} if method == "POST" else None)
    assert (status, error) == (401, "Authentication required") if route.level else status != 401


def test_every_route_that_is_described_has_a_level(client: Client):
    """A route that nobody gave a level needs the highest: safe, but somebody has to think about it."""
    paths = client.request("GET", "/openapi.json", None, bearer(token(role="read-only"))).json["paths"]
    assert len(paths) > 10
    for path, methods in paths.items():
        for method in methods:
            assert route_of(method.upper(), path.replace("{", "").replace("}", ""))[0] is not UNKNOWN, (method, path)


def test_hot_routes_are_told_by_their_own_table():
    assert {route.level for route in TABLE if route.path.startswith(HOT)} == {WRITE}


def test_options_asks_for_nothing(client: Client):
    assert client.request("OPTIONS", "/api/v1/push").status == 204


@pytest.mark.parametrize("path", ["/api/v1/push", "/api/v1/resources/queues", "/nowhere"])
@pytest.mark.parametrize("value, error", [
    ("", "Empty token"), ("Bearer", "Empty token"), ("Bearer ", "Empty token"), ("Bearer   ", "Empty token"),
    ("bearer x", "Token decode error: no JSON Web Token"),
    ("Basic eDp5", "Token decode error: no JSON Web Token"), ("Bearer é", "Token decode error: no JSON Web Token"),
    (f"Bearer {token('none', None, role='admin')}", "Token uses none, expected HS256"),
    (f"Bearer {token(exp=-60, role='admin')}", "Token verification failed: Token has expired"),
    (f"Bearer {token(key='x' * 40, role='admin')}", "Token verification failed: Invalid token signature"),
])
def test_refusals_are_the_same_everywhere(client: Client, path: str, value: str, error: str):
    answer = client.request("GET" if path != "/api/v1/push" else "POST", path, {} if path == "/api/v1/push" else None,
                            {"Authorization": value})
    assert (answer.status, answer.json) == (401, {"error": error})
    assert answer.headers["www-authenticate"] == "Bearer"


def test_the_scheme_in_any_case_or_none(client: Client, queue: str):
    for scheme in ("Bearer ", "bearer ", "BEARER ", "Bearer    ", ""):
        for name in ("Authorization", "authorization", "AUTHORIZATION"):
            answer = client.request("POST", "/api/v1/push", {"items": [{"queue": queue, "payload": 1}]},
                                    {name: scheme + writer()})
            assert answer.status == 201
            assert client.request("GET", "/api/v1/resources/queues", None, {name: scheme + writer()}).status == 200


def test_two_headers_are_no_request(daemon):
    good, bad = f"Authorization: Bearer {writer()}\r\n", "Authorization: Bearer x\r\n"
    for path, (first, second) in itertools.product(("/api/v1/pop/queue/two", "/api/v1/resources/queues"), (
            (good, bad), (bad, good), (good, good), (good, "AUTHORIZATION:\r\n"))):
        with Wire(daemon.address) as wire:
            wire.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{first}{second}\r\n".encode())
            answer = wire.receive()
            assert (answer.status, answer.json) == (400, {"error": "Repeated Authorization header"}) and wire.ended()


def test_a_token_larger_than_any_head_is_refused(daemon):
    with daemon.client() as client:
        assert client.request("GET", "/api/v1/pop/queue/x", None, bearer(writer(more="x" * 13_000))).status == 401
        assert client.request("GET", "/api/v1/pop/queue/x", None, bearer("x" * 40_000)).status == 431


def test_health_is_open_and_figures_of_queues_are_not(client: Client):
    for path in ("/health", "/metrics", "/livez", "/readyz"):
        assert client.get(path).status == 200
    assert client.get("/metrics/prometheus").status == 401
    assert client.request("GET", "/metrics/prometheus", None, bearer(token(role="read-only"))).status == 200
    assert client.get("/openapi.json").status == 401
    assert client.request("GET", "/openapi.json", None, bearer(token(role="read-only"))).status == 200
    assert "doubts" in client.get("/health").json


def test_a_setting_opens_the_figures(start_daemon):
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, JWT_SKIP_PATHS="/health,/metrics/prometheus,/")
    with daemon.client() as client:
        assert [client.get(path).status for path in ("/metrics/prometheus", "/health", "/metrics")] == [200, 200, 401]


def test_without_a_token_the_figures_are_open_where_no_token_is_asked_for(start_daemon):
    with start_daemon().client() as client:
        assert client.get("/metrics/prometheus").status == 200


def test_queues_may_be_required(start_daemon):
    """A token without the claim uses no queue, whatever its role; a limited one can read the figures."""
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="queues",
                          JWT_REQUIRE_QUEUES="true")
    push = ("POST", "/api/v1/push", {"items": [{"queue": "required", "payload": 1}]})
    calls = [push, ("GET", "/api/v1/pop/queue/required", None),
             ("GET", "/api/v1/resources/queues", None), ("GET", "/api/v1/resources/queues/required", None),
             ("DELETE", "/api/v1/resources/queues/required", None), ("GET", "/metrics/prometheus", None)]
    with daemon.client() as client:
        for call in calls:
            assert client.request(*call, bearer(token(role="admin"))).status == 403, call
            assert client.request(*call, bearer(token(role="admin", queues={}))).status == 403, call
        assert client.request(*push, bearer(token(role="admin", queues={"required": "push"}))).status == 201
        for claims in ({"role": "read-only", "queues": {"*": "read"}}, {"role": "admin", "queues": {"*": "*"}}):
            assert client.request("GET", "/metrics/prometheus", None, bearer(token(**claims))).status == 200


def test_what_tells_of_the_daemon_follows_the_open_paths(start_daemon):
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, JWT_SKIP_PATHS="/openapi.json")
    with daemon.client() as client:
        assert [client.get(path).status for path in ("/livez", "/readyz", "/openapi.json")] == [200, 200, 200]
        assert client.get("/health").json == {"status": "healthy"}
        assert [client.get(path).status for path in ("/metrics", "/metrics/prometheus")] == [401, 401]
        assert client.request("GET", "/health", None, bearer("x")).status == 401
        for path in ("/health", "/metrics", "/metrics/prometheus"):
            assert client.request("GET", path, None, bearer(token(role="read-only"))).status == 200
            assert client.request("GET", path, None, bearer(token())).status == (403 if path != "/health" else 200)
        assert client.request("GET", "/health", None, bearer(token())).json == {
            "status": "healthy"}, "a token without a role is told no more than nobody"
        assert "doubts" in client.request("GET", "/health", None, bearer(token(role="read-only"))).json


def test_open_paths(start_daemon):
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, JWT_SKIP_PATHS="/api/v1/push, /api/v1/resources/")
    with daemon.client() as client:
        assert client.post("/api/v1/push", {"items": [{"queue": "open", "payload": 1}]}).status == 201
        assert client.get("/api/v1/resources/queues").status == 200
        for path in ("/api/v1/pop/queue/open", "/api/v1/resources", "/api/v1/pushy"):
            assert client.get(path).status == 401
    with Caller(daemon, writer()) as caller:
        (message,) = caller.pop("open")
        assert message["producerSub"] is None
        caller.push("open", 2)
        caller.ack(message)
        assert caller.pop("open")[0]["producerSub"] is None, "an open path looks at no token"


def test_no_token_reaches_log_or_answer(start_daemon):
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, LOG_LEVEL="trace")
    good, bad = writer("someone"), token(key="y" * 40, role="admin", sub="someone-else")
    with daemon.client() as client:
        for text in (good, bad, bad + "x", "secret-word-of-mine", good.replace(".", "!")):
            for method, path, body in (("POST", "/api/v1/push", b"{"), ("GET", "/api/v1/resources/queues/none", None),
                                       ("GET", "/api/v1/pop?x=%", None)):
                answer = client.request(method, path, body, bearer(text))
                for part in [*text.split("."), SECRET]:
                    assert part.encode() not in answer.body
                    assert all(part not in value for value in answer.headers.values())
    daemon.stop()
    log = daemon.story() + "".join(map(str, daemon.log))
    for part in (*good.split(".")[1:], *bad.split(".")[1:], "secret-word-of-mine", SECRET):
        assert part not in log
