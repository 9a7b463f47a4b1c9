"""Who reaches a daemon without tokens: the network, the pages of other sites, and pages under names of their own."""
import socket

import pytest
from support.client import Client
from support.daemon import Daemon
from support.http import Answer
from support.prepared import data_folder
from support.wait import until

POP, PUSH, LIST = "/api/v1/pop/queue/private?autoAck=true", "/api/v1/push", "/api/v1/resources/queues"
ITEM = {"items": [{"queue": "private", "payload": 1}]}
CALLS = [("GET", POP, None), ("POST", PUSH, ITEM), ("GET", LIST, None),
         ("DELETE", "/api/v1/resources/queues/none", None), ("GET", "/metrics", None)]
CORS = {"access-control-allow-origin", "access-control-allow-methods", "access-control-allow-headers",
        "access-control-max-age"}


def asked(client: Client, method: str, target: str, body: object, **headers: str) -> Answer:
    return client.request(method, target, body, {name.replace("_", "-"): value for name, value in headers.items()})


@pytest.mark.parametrize("method, target, body", CALLS)
def test_a_page_of_another_site_is_refused(client: Client, daemon: Daemon, method: str, target: str,
                                           body: object) -> None:
    here = f"localhost:{daemon.port}"
    foreign = [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": ""},
               {"Origin": f"http://{here}.evil.example"}, {"Sec_Fetch_Site": "cross-site"},
               {"Sec_Fetch_Site": "same-site"}, {"Origin": f"http://localhost:{daemon.port + 1}"},
               {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"},
               {"Origin": f"http://{here}", "Sec_Fetch_Site": "cross-site"}, {"sec_fetch_SITE": "Cross-Site"},
               {"ORIGIN": "https://evil.example"}]
    for headers in foreign:
        answer = asked(client, method, target, body, **{"Host": here, **headers})
        assert answer.status == 403 and "CORS_ORIGINS" in answer.json["error"], (headers, answer)
        assert not CORS & answer.headers.keys()
    ours = [{}, {"Origin": f"http://{here}"}, {"Origin": f"https://{here}"},
            {"Origin": f"HTTP://LOCALHOST:{daemon.port}"}, {"Sec_Fetch_Site": "none"},
            {"Sec_Fetch_Site": "same-origin"}, {"Sec_Fetch_Site": "same-origin", "Origin": f"http://{here}"}]
    for headers in ours:
        answer = asked(client, method, target, body, **{"Host": here, **headers})
        assert answer.status != 403 and not CORS & answer.headers.keys(), (headers, answer)


def test_a_page_cannot_drain_a_queue(client: Client) -> None:
    client.push("kept", 1)
    answer = asked(client, "GET", "/api/v1/pop/queue/kept?autoAck=true", None, Sec_Fetch_Site="cross-site",
                   Sec_Fetch_Mode="no-cors")
    assert answer.status == 403
    assert [message["data"] for message in client.pop("kept")] == [1]


@pytest.mark.parametrize("method, target, body", CALLS)
def test_a_name_that_was_pointed_here_is_refused(client: Client, daemon: Daemon, method: str, target: str,
                                                 body: object) -> None:
    for host in ("evil.example", f"evil.example:{daemon.port}", "127.0.0.1.evil.example", "localhost.evil.example",
                 "10.0.0.1", "[::2]:1", "", ":80", "notlocalhost"):
        answer = asked(client, method, target, body, Host=host, Origin=f"http://{host}")
        assert answer.status == 403 and "QUEEND_HOSTS" in answer.json["error"], (host, answer)
    for host in ("localhost", "LocalHost:6632", "127.0.0.1", "127.1.2.3:1", "[::1]", "[::1]:6632", "queue.localhost",
                 socket.gethostname()):
        assert asked(client, method, target, body, Host=host).status != 403, host


def test_probes_and_links_pass(client: Client) -> None:
    for path in ("/livez", "/readyz"):
        assert asked(client, "GET", path, None, Host="node-7.cluster.example",
                     Sec_Fetch_Site="cross-site").status == 200
    assert asked(client, "GET", "/", None, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 200
    assert asked(client, "GET", "/assets/x", None, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors").status == 403
    assert asked(client, "POST", "/", {}, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 403


def test_origins_that_are_listed_may_ask_and_read(start_daemon) -> None:
    daemon = start_daemon(CORS_ORIGINS="https://app.example, http://localhost:5173/", QUEEND_HOSTS="queue.example")
    with daemon.client() as client:
        for origin in ("https://app.example", "http://localhost:5173"):
            for method, target, body in CALLS:
                answer = asked(client, method, target, body, Origin=origin, Sec_Fetch_Site="cross-site",
                               Host="queue.example")
                assert (answer.status != 403 and answer.headers["access-control-allow-origin"] == origin
                        and "Origin" in answer.headers["vary"].split(", ")), answer
            answer = asked(client, "OPTIONS", PUSH, None, Origin=origin)
            assert answer.status == 204 and answer.headers.keys() >= CORS
        answer = asked(client, "OPTIONS", PUSH, None, Origin="https://evil.example")
        assert answer.status == 204 and not CORS & answer.headers.keys()
        answer = asked(client, "GET", POP, None, Origin="https://app.example.evil.example")
        assert answer.status == 403 and not CORS & answer.headers.keys()


SENT = ("content-type", "authorization", "idempotency-key", "traceparent", "tracestate", "prefer", "if-none-match",
        "content-encoding", "ce-id", "ce-specversion", "ce-source", "ce-type", "ce-partitionkey")
READ = {"retry-after", "link", "etag", "idempotency-replayed", "www-authenticate"}


@pytest.mark.parametrize("origins", ["https://app.example", "*"])
def test_a_page_may_send_and_read_the_headers_that_are_documented(start_daemon, origins: str) -> None:
    page = {"Origin": "https://app.example"}
    with start_daemon(CORS_ORIGINS=origins).client() as client:
        for target in (PUSH, LIST, "/api/v1/configure", "/api/v1/events/orders"):
            answer = asked(client, "OPTIONS", target, None, Access_Control_Request_Headers=",".join(SENT), **page)
            allowed = [one.strip().lower() for one in answer.headers["access-control-allow-headers"].split(",")]
            assert answer.status == 204 and not set(SENT) - set(allowed)
            assert "access-control-expose-headers" not in answer.headers
        for method, target, body in [*CALLS, ("GET", "/health", None), ("GET", "/nowhere", None), ("POST", PUSH, {})]:
            answer = asked(client, method, target, body, **page)
            exposed = {one.strip().lower() for one in answer.headers["access-control-expose-headers"].split(",")}
            assert exposed >= READ, (method, target)
            assert "access-control-expose-headers" not in asked(client, method, target, body).headers


def test_any_origin_as_before(start_daemon) -> None:
    daemon = start_daemon(CORS_ORIGINS="*", QUEEND_HOSTS="*")
    with daemon.client() as client:
        for method, target, body in CALLS:
            answer = asked(client, method, target, body, Origin="https://any.example",
                           Sec_Fetch_Site="cross-site", Host="any.example")
            assert answer.status != 403 and answer.headers["access-control-allow-origin"] == "*"


def test_with_tokens_it_is_the_token_that_counts(start_daemon) -> None:
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET="s" * 32)
    with daemon.client() as client:
        for method, target, body in CALLS[:4]:
            answer = asked(client, method, target, body, Host="any.example", Origin="https://any.example",
                           Sec_Fetch_Site="cross-site")
            assert answer.status == 401 and not CORS & answer.headers.keys()


def test_without_tokens_it_listens_on_loopback_alone(tmp_path) -> None:
    with Daemon.own(data_folder(tmp_path), HOST="") as daemon:
        daemon.await_ready()
        assert daemon.told("ready")["detail"] == f"http://127.0.0.1:{daemon.port}"
        assert daemon.line("open_to_network") is None
        until(lambda: f"http://127.0.0.1:{daemon.port}" in "".join(daemon.greeting), "it has greeted")
        assert daemon.end() == 0
    with Daemon.own(tmp_path, HOST="0.0.0.0") as daemon:
        daemon.await_ready()
        assert daemon.told("ready")["detail"] == f"http://0.0.0.0:{daemon.port}"
        assert daemon.told("open_to_network")["level"] == "warn"
        with daemon.client() as client:      # a service's name in a container network
            assert asked(client, "GET", LIST, None, Host="queend:6632").status == 200
            assert asked(client, "GET", LIST, None, Host="queend:6632", Origin="https://evil.example").status == 403
        assert daemon.end() == 0


def test_with_tokens_it_listens_to_all(start_daemon) -> None:
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET="s" * 32, HOST="")
    assert daemon.told("ready")["detail"] == f"http://0.0.0.0:{daemon.port}" and daemon.line("open_to_network") is None
