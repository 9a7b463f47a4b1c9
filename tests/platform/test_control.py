"""The control plane over HTTP, through the core's bridge, on a real database."""
import re
import socket

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.daemon import Daemon
from support.prepared import data_folder
from support.wait import PATIENCE

from queend.control.options import BY_NAME

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TS3 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
DEFAULTS = {"priority": 0, "leaseTime": 300, "retryLimit": 3, "retryDelay": 1000, "maxSize": 0, "ttl": 3600,
            "deadLetterQueue": False,
            "dlqAfterMaxRetries": False, "delayedProcessing": 0, "windowBuffer": 0, "retentionSeconds": 0,
            "completedRetentionSeconds": 0,
            "retentionEnabled": False, "encryptionEnabled": False, "maxWaitTimeSeconds": 0}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Daemon.own(data_folder(tmp_path_factory.mktemp("data"))) as daemon:
        yield daemon.await_ready()
        assert daemon.end() == 0


@pytest.fixture
def queue(request) -> str:
    return f"q-{request.node.name}"


def configure(daemon, **body):
    return daemon.request("POST", "/api/v1/configure", body)


def push(daemon, queue, *partitions):
    status, _, results = daemon.request("POST", "/api/v1/push",
                                        {"items": [{"queue": queue, "partition": p, "payload": p} for p in partitions]})
    assert status == 201, results
    return results


def test_configure_creates_with_defaults(daemon, queue):
    status, _, answer = configure(daemon, queue=queue)
    assert status == 200
    assert UUID.fullmatch(answer.pop("queueId")) and UUID.fullmatch(answer.pop("partitionId"))
    assert answer == {"configured": True, "queue": queue, "namespace": "", "task": "", "options": DEFAULTS}


SENT = {name: 7 if isinstance(value, int) and not isinstance(value, bool) else True for name, value in DEFAULTS.items()}


def test_configure_again_leaves_alone_what_it_does_not_name(daemon, queue):
    _, _, first = configure(daemon, queue=queue, namespace="n", task="t", options=SENT)
    assert first["options"] == SENT and (first["namespace"], first["task"]) == ("n", "t")
    for body in ({}, {"options": {}}, {"namespace": None, "task": None, "options": None},
                 {"mode": "merge", "options": {"unknown": 1}}):
        assert configure(daemon, queue=queue, **body)[2] == first
    _, _, then = configure(daemon, queue=queue, task="",
                           options={"leaseTime": "60", "deadLetterQueue": "false", "ttl": None})
    assert then == {**first, "task": "",
                    "options": {**SENT, "leaseTime": 60, "deadLetterQueue": False, "ttl": DEFAULTS["ttl"]}}


def test_configure_in_place_of_all_there_was(daemon, queue):
    _, _, first = configure(daemon, queue=queue, namespace="n", task="t", options=SENT)
    _, _, second = configure(daemon, queue=queue, mode="replace", options={"leaseTime": 60})
    assert second == {**first, "namespace": "", "task": "",
                      "options": {**DEFAULTS, "leaseTime": 60, "encryptionEnabled": True}}
    status, _, answer = configure(daemon, queue=queue, mode="renew")
    assert status == 400 and answer["error"] == "mode must be merge or replace"


def test_encryption_is_turned_off_by_its_own_name_alone(daemon, queue):
    """What the published clients send with every call, their default, turns nothing off."""
    assert configure(daemon, queue=queue,
                     options={"encryptionEnabled": True})[2]["options"]["encryptionEnabled"] is True
    for options in ({"encryptionEnabled": False}, {"encryptionEnabled": None}, {}):
        assert configure(daemon, queue=queue, options=options)[2]["options"]["encryptionEnabled"] is True
    assert configure(daemon, queue=queue, options={"encryption": "off"})[2]["options"]["encryptionEnabled"] is False
    assert configure(daemon, queue=queue, options={"encryption": "on"})[2]["options"]["encryptionEnabled"] is True
    status, _, answer = configure(daemon, queue=queue, options={"encryption": False})
    assert status == 400 and answer["error"] == 'options.encryption must be "on" or "off"'


def test_every_option_says_its_unit_and_whether_it_was_asked_for(daemon, queue):
    configure(daemon, queue=queue, options={"leaseTime": 300, "retryBackoff": [1, 2], "ttl": 5})
    configure(daemon, queue=queue, options={"ttl": None})
    _, _, shown = daemon.request("GET", f"/api/v1/resources/queues/{queue}")
    assert set(shown["options"]) == set(BY_NAME) > {*DEFAULTS, "retryBackoff", "deliveryLimit"}
    assert shown["options"]["leaseTime"] == {"value": 300, "inForce": 300, "unit": "s", "default": 300,
                                              "asked": True}
    assert shown["options"]["retryBackoff"] == {"value": [1, 2], "inForce": [1, 2], "unit": "ms",
                                                 "default": None, "asked": True}
    assert shown["options"]["ttl"] == {"value": 3600, "inForce": None, "unit": "s", "default": 3600,
                                        "asked": False}
    assert [name for name, option in shown["options"].items() if option["asked"]] == ["leaseTime", "retryBackoff"]


@pytest.mark.parametrize("name, value", [
    ("leaseTime", -5), ("leaseTime", "abc"), ("leaseTime", 1.5), ("leaseTime", True), ("leaseTime", 2**31),
    ("leaseTime", "9" * 30),
    ("leaseTime", "٣"), ("leaseTime", []), ("deadLetterQueue", 1), ("deadLetterQueue", "yes"), ("deadLetterQueue", {}),
])
def test_configure_names_the_bad_option(daemon, queue, name, value):
    status, _, answer = configure(daemon, queue=queue, options={name: value})
    assert status == 400 and answer["success"] is False and answer["error"].startswith(f"options.{name} must be ")
    assert daemon.request("GET", f"/api/v1/resources/queues/{queue}")[0] == 404


@pytest.mark.parametrize("body, error", [
    (b"", "Empty request body"), (b'{"queue":', "Invalid JSON: "),
    (b'{"queue":"\xff"}', "Invalid JSON: invalid UTF-8 at byte 10"), (b"[]", "queue is required"),
    (b"null", "queue is required"), (b'{"queue":5}', "queue is required"), (b'{"queue":""}', "queue is required"),
    (b'{"queue":"a\\u0000"}', "queue must have at most 255 bytes and no NUL"),
    (b'{"queue":"' + b"a" * 256 + b'"}', "queue must have"),
    (b'{"queue":"a","options":[]}', "options must be an object"),
    (b'{"queue":"a","task":"' + b"a" * 256 + b'"}', "task must have"),
])
def test_configure_refuses(daemon, body, error):
    status, _, answer = daemon.request("POST", "/api/v1/configure", body)
    assert status == 400 and answer["error"].startswith(error)


def test_a_message_that_two_groups_gave_up_is_two_dead_letters(daemon, queue):
    """Every page counts letters: the queue's, that of its partitions, and the list of letters."""
    push(daemon, queue, "a")
    for group in ("one", "two"):
        _, _, found = daemon.request("GET", f"/api/v1/pop/queue/{queue}?consumerGroup={group}")
        message = found["messages"][0]
        daemon.request("POST", "/api/v1/ack", {
            **{key: message[key] for key in ("transactionId", "partitionId", "leaseId")},
            "consumerGroup": group, "status": "dlq"})
    _, _, one = daemon.request("GET", f"/api/v1/resources/queues/{queue}")
    _, _, letters = daemon.request("GET", f"/api/v1/dlq?queue={queue}")
    assert (one["totals"]["deadLetter"], one["partitions"][0]["stats"]["deadLetter"], letters["total"]) == (2, 2, 2)


def test_queue_resources_tell_live_figures(daemon, queue):
    push(daemon, queue, "a", "a", "b")
    status, _, leased = daemon.request("GET", f"/api/v1/pop/queue/{queue}/partition/a")
    assert status == 200 and len(leased["messages"]) == 1
    status, _, one = daemon.request("GET", f"/api/v1/resources/queues/{queue}")
    assert status == 200 and (one["name"], one["namespace"], one["task"]) == (queue, queue, "")
    assert [(p["name"], p["stats"]) for p in one["partitions"]] == [
        ("a", {"total": 2, "pending": 1, "processing": 1, "completed": 0, "failed": 0, "deadLetter": 0}),
        ("b", {"total": 1, "pending": 1, "processing": 0, "completed": 0, "failed": 0, "deadLetter": 0})]
    assert one["partitions"][0]["id"] == leased["partitionId"]
    assert all(TS3.fullmatch(p[key]) for p in one["partitions"]
               for key in ("createdAt", "oldestMessage", "newestMessage"))
    assert one["totals"] == {"total": 3, "pending": 2, "processing": 1, "completed": 0, "failed": 0, "deadLetter": 0}
    message = leased["messages"][0]
    daemon.request("POST", "/api/v1/ack", {key: message[key] for key in ("transactionId", "partitionId", "leaseId")})
    _, _, listed = daemon.request("GET", "/api/v1/resources/queues")
    entry = next(entry for entry in listed["queues"] if entry["name"] == queue)
    assert (entry["id"], entry["partitions"]) == (one["id"], 2)
    assert entry["messages"] == {"total": 3, "pending": 2, "processing": 0}


def test_queues_are_listed_newest_first(daemon, queue):
    configure(daemon, queue=queue + "-1")
    configure(daemon, queue=queue + "-2")
    names = [entry["name"] for entry in daemon.request("GET", "/api/v1/resources/queues")[2]["queues"]]
    assert names.index(queue + "-2") < names.index(queue + "-1")


@pytest.mark.parametrize("encoded, name", [("a%2Fb%20c%3F%C3%BC", "a/b c?ü"), ("a+b%2525", "a+b%25")])
def test_names_are_decoded_once(daemon, encoded, name):
    push(daemon, name, "p")
    assert daemon.request("GET", f"/api/v1/resources/queues/{encoded}")[2]["name"] == name
    assert daemon.request("DELETE",
                          f"/api/v1/resources/queues/{encoded}")[2] == {"deleted": True, "queue": name, "existed": True}


@pytest.mark.parametrize("encoded", ["%ff", "a%00b"])
def test_a_name_that_is_no_text_is_refused(daemon, encoded):
    assert daemon.request("GET", f"/api/v1/resources/queues/{encoded}")[0] == 400


def test_delete_is_idempotent_and_a_new_queue_starts_empty(daemon, queue):
    push(daemon, queue, "a")
    path = f"/api/v1/resources/queues/{queue}"
    assert daemon.request("DELETE", path)[2] == {"deleted": True, "queue": queue, "existed": True}
    assert daemon.request("DELETE", path)[2] == {"deleted": True, "queue": queue, "existed": False}
    status, _, answer = daemon.request("GET", path)
    assert (status, answer["error"]) == (404, "Queue not found")
    push(daemon, queue, "a")
    assert len(daemon.request("GET", f"/api/v1/pop/queue/{queue}?batch=10")[2]["messages"]) == 1


@pytest.mark.parametrize("method, path",
                         [("GET", "/nope"), ("GET", "/api/v1/nope"), ("POST", "/health"), ("PUT", "/api/v1/configure"),
                          ("GET", "/health/"), ("GET", "/docs")])
def test_unknown_routes_are_told(daemon, method, path):
    status, _, answer = daemon.request(method, path)
    assert (status, answer["code"]) == (404, "no_such_route") and answer["error"].startswith("Not found")


def test_health(daemon):
    status, _, answer = daemon.request("GET", "/health")
    assert status == 200
    assert (answer["status"], answer["database"], answer["server"]) == ("healthy", "connected", "queend")


def test_probes(daemon):
    assert daemon.request("GET", "/livez")[0] == 200
    assert daemon.request("GET", "/readyz")[0] == 200


def test_metrics_json(daemon):
    status, _, answer = daemon.request("GET", "/metrics")
    assert status == 200 and set(answer) == {"uptime", "requests", "messages", "database", "memory", "cpu"}
    assert answer["memory"]["rss"] > 1 << 20


def scrape(daemon) -> dict:
    status, headers, text = daemon.request("GET", "/metrics/prometheus")
    assert status == 200 and headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert headers["cache-control"] == "no-cache" and "access-control-allow-origin" not in headers
    return {(sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text) for sample in family.samples}


def test_prometheus_counts_what_happened(daemon, queue):
    before = scrape(daemon)
    push(daemon, queue, "a", "b", "c")
    after = scrape(daemon)

    def grown(*key):
        return after[key] - before[key]

    assert grown("queen_cluster_push_requests_total", ("scope", "cluster")) == 1
    assert grown("queen_cluster_push_messages_total", ("scope", "cluster")) == 3
    assert grown("queend_request_latency_seconds_count", ("type", "push")) == 1
    assert grown("queend_request_latency_seconds_bucket", ("le", "+Inf"), ("type", "push")) == 1
    assert grown("queen_dlq_depth", ("scope", "cluster")) == 0


def test_many_requests_on_one_connection_are_answered_in_order(daemon):
    one = b"GET /api/v1/nope HTTP/1.1\r\nhost: localhost\r\n\r\nGET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=PATIENCE) as connection:
        connection.sendall(one * 20)
        received = b""
        while received.count(b"HTTP/1.1 ") < 40 or not received.endswith(b"}"):
            part = connection.recv(65536)
            assert part, received[-500:]
            received += part
    assert re.findall(rb"HTTP/1\.1 (\d+)", received) == [b"404", b"200"] * 20
