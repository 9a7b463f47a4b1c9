"""docs/limits.md: its values are those of the code, and a daemon answers what it says beyond them."""
from __future__ import annotations

import json
import re
from typing import Any

import pytest
from support.daemon import ROOT

from queend.control.options import BACKOFF
from queend.settings.model import Settings

TEXT = (ROOT / "docs/limits.md").read_text()
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "s": 1000}
# The rows of the page: what is limited → limit, effect, setting.
ROWS = {row[0]: row[1:] for row in re.findall(r"^\| ([^|]+?) \| ([^|]+?) \| ([^|]*?) ?\| ([^|]*?) ?\|$", TEXT, re.M)
        if row[0] not in ("what", "---")}


def constant(file: str, name: str) -> int:
    """Returns a number that a source file gives this name."""
    found = re.findall(rf"\b{name} = ([\d_ <*]+)", (ROOT / "queend" / file).read_text())
    assert len(found) == 1, (file, name, found)
    return eval(found[0], {})


def one_of(file: str, name: str, place: int) -> int:
    """Returns a number of a line `A, B = 1, 2`."""
    (line,) = re.findall(rf"^[A-Z_, ]*\b{name}\b[A-Z_, ]* = (.*)", (ROOT / "queend" / file).read_text(), re.M)
    return eval(line.partition("#")[0], {"MIB": 1 << 20})[place]


def core_default(name: str) -> int:
    """Returns the default of a setting that the core has and the daemon does not."""
    (text,) = re.findall(rf'setting_int\(d, "{name}", ([^,]+),', (ROOT / "queend/core/state/settings.pyx").read_text())
    return eval(text, {})


EPHEMERAL = "core/state/ephtypes.pyx"
REQS, POPS = "core/state/reqs.pyx", "core/state/popjob.pyx"
FIXED = {
    "name of a queue, a partition, a consumer group": constant(REQS, "NAME_MAX"),
    "namespace, task": constant(REQS, "NAME_MAX"),
    "`transactionId`": constant(REQS, "TXID_MAX"),
    "`Idempotency-Key`": constant("core/route/ident.pyx", "KEY_MOST"),
    "names of one trace": one_of("control/routes/traces.py", "NAMES_MOST", 0),
    "attributes of a CloudEvent": constant("core/route/eventitem.pyx", "EVENT_ATTRIBUTES"),
    "all attributes of a CloudEvent, as JSON": constant("core/route/eventitem.pyx", "EVENT_BYTES"),
    "largest message: its payload as JSON": 64 << 20,
    "request line and headers together": core_default("max_head"),
    "number of headers": constant("core/http/head.pyx", "HEADERS_MAX"),
    "request target": core_default("max_target"),
    "depth of JSON": constant("core/json/json.pyx", "JSON_DEPTH"),
    "depth of JSON of a request to the control plane": constant("control/http/body.py", "DEPTH"),
    "values in the JSON of a request to the control plane": constant("core/json/json.pyx", "VALUES_MOST"),
    "items of a push, acknowledgments of a batch, operations of a transaction": core_default("max_items"),
    "state operations of a stream cycle": constant("core/route/cyclebody.pyx", "CYCLE_OPS"),
    "messages of a stream cycle": constant("core/route/cyclebody.pyx", "CYCLE_ITEMS"),
    "key of a stream's state": constant("core/route/cyclebody.pyx", "CYCLE_KEY"),
    "value of a stream's state": constant("core/route/cyclebody.pyx", "CYCLE_VALUE"),
    "operations of a call of `/api/v1/kv`": constant("core/state/kvtypes.pyx", "KV_OPS_MOST"),
    "keys that such a call names": constant("core/state/kvtypes.pyx", "KV_KEYS_MOST"),
    "value of a key": constant("core/state/kvtypes.pyx", "KV_VALUE_MOST"),
    "operations of a call of `/api/v1/locks`": constant("core/state/kvtypes.pyx", "LOCK_OPS_MOST"),
    "messages of a push or pop of an ephemeral queue": constant(EPHEMERAL, "EPH_ITEMS_MOST"),
    "payloads of one pop of an ephemeral queue": constant(EPHEMERAL, "EPH_ANSWER_MOST"),
    "`timeout` of a pop of an ephemeral queue": constant(EPHEMERAL, "EPH_TIMEOUT_MS"),
    "ephemeral queues": constant(EPHEMERAL, "EPH_QUEUES_MOST"),
    "partitions of an ephemeral queue": constant(EPHEMERAL, "EPH_PARTITIONS_MOST"),
    "groups of an ephemeral queue": constant(EPHEMERAL, "EPH_GROUPS_MOST"),
    "groups times partitions of an ephemeral queue": constant(EPHEMERAL, "EPH_CURSORS_MOST"),
    "operations of a call of `/api/v1/timers`": constant("core/state/timertypes.pyx", "TIMER_OPS_MOST"),
    "delay of a timer": constant(REQS, "DELAY_DAYS"),
    "payload of a timer": constant("core/state/timertypes.pyx", "TIMER_PAYLOAD_MOST"),
    "headers of a message": constant("core/route/itemheaders.pyx", "HEADERS_MOST"),
    "all headers of a message, as JSON": constant("core/route/itemheaders.pyx", "HEADERS_BYTES"),
    "name of a header": constant("core/route/itemheaders.pyx", "HEADERS_NAME"),
    "delay of a message": constant(REQS, "DELAY_DAYS"),
    "steps of a `retryBackoff`": BACKOFF["oneOf"][0]["maxItems"],
    "unanswered requests of one connection": core_default("max_pipeline"),
    "requests that wait for the control plane": core_default("max_bridged"),
    "`batch` of a pop, `credit` and `window` of a stream": constant(REQS, "BATCH_MAX"),
    "`partitions` of a pop": constant(POPS, "POP_MAX_PARTITIONS"),
    "payloads of one pop": constant(POPS, "CLAIM_BYTES"),
    "`timeout` of a long poll": constant(REQS, "MAX_TIMEOUT_MS"),
    "`leaseSeconds`": 1000 * constant(REQS, "LEASE_MAX"),
    "`heartbeat` of a stream": 1000 * constant(REQS, "FEED_BEAT_MOST_S"),
    "message that a client sends over a WebSocket": constant("core/feed/websocket.pyx", "SOCKET_MOST"),
    "tickets for streams that wait to be used": constant("core/auth/grants.pyx", "TICKETS_MOST"),
    "time until the head of a request is complete": core_default("head_timeout_ms"),
    "time without a byte of a body": core_default("body_timeout_ms"),
    "time in which a client reads nothing of its answer": core_default("write_timeout_ms"),
    "time without a request on a connection": core_default("idle_timeout_ms"),
    "memory of requests that have not fully arrived": 128 << 20,
    "`limit` of a list of queues or groups": 10_000,
    "`limit` of a list of dead letters": constant("control/routes/dead_letters.py", "PAGE_MOST"),
    "dead letters that one request sends back": constant("control/routes/dead_letters.py", "REDRIVE_MOST"),
    "messages that one request searches": constant("control/routes/search.py", "RECORDS"),
    "payloads that one request searches": constant("control/routes/search.py", "BYTES"),
    "text of a search": constant("control/routes/search.py", "TEXT_MOST"),
    "`transactionIds` of an erasure": constant("control/routes/wanted.py", "IDS_MOST"),
    "queues that a search names": constant("control/routes/search.py", "NAMED"),
    "entries of a read by offset": constant("control/http/read_request.py", "ENTRIES_MOST"),
    "`maxBytes` of an entry of a read by offset": one_of("control/routes/log_read.py", "ENTRY_MOST", 1),
    "`maxBytes` of a read by offset": one_of("control/routes/log_read.py", "CALL_MOST", 1),
    "`maxWaitMs` of a read by offset": constant("control/routes/log_read.py", "WAIT_MOST_MS"),
    "reads by offset that wait": constant("control/long_reads.py", "READS_MOST"),
    "size of a token": constant("auth/token.py", "TOKEN_BYTES"),
    "`sub` of a token": constant("auth/token.py", "SUBJECT_BYTES"),
    "patterns of queues and groups in a token": one_of("auth/permits.py", "RULES_MOST", 0),
    "keys of a key set": constant("auth/jwks.py", "KEYS_MOST"),
    "encryption keys": constant("settings/keyring.py", "KEYS_MOST"),
    "failover buffers below one `FILE_BUFFER_DIR`": constant("services/buffer.py", "MOST"),
    "addresses of peers": constant("services/peers.py", "MOST"),
    "hosts in `QUEEND_DSN`": constant("core/pg/address.pyx", "ADDRESS_HOSTS"),
}
# limits that are no numbers, or not exact ones
WORDS = {"connections of clients", "connections of one address", "timers of a database"}


def number(cell: str) -> int:
    """The first number of a cell; times in ms, sizes in bytes."""
    match = re.match(r"(\d+(?: \d{3})*)(?: (\w+))?", cell)
    assert match, cell
    return int(match[1].replace(" ", "")) * UNITS.get(match[2], 1)


@pytest.mark.parametrize("row", ROWS)
def test_a_limit_is_that_of_the_code(row):
    limit, _, setting = ROWS[row]
    if row in WORDS:
        return
    if row in FIXED:
        assert number(limit) == FIXED[row]
    else:
        (name,) = re.findall(r"`(\w+)`", setting)
        assert number(limit) == Settings.model_fields[name.lower()].default


def test_rows_are_known():
    assert set(FIXED) | WORDS <= set(ROWS) and len(ROWS) > 65
    names = {name.lower() for _, _, setting in ROWS.values() for name in re.findall(r"`(\w+)`", setting)}
    assert names <= set(Settings.model_fields)
    told = (ROOT / "docs/limits.md").read_text()
    assert {name.upper() for name in Settings.model_fields if name.startswith("queend_max_")} <= set(
        re.findall(r"QUEEND_MAX_\w+", told))


def push(**item: Any) -> tuple:
    return "POST", "/api/v1/push", {"items": [{"queue": "q", "payload": 1, **item}]}


EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
JSON_EVENT = {"Content-Type": "application/cloudevents+json"}
ACK = {"transactionId": "t", "partitionId": "4fe9646a-8d14-8b27-b925-fd5f2e542300", "status": "completed"}
SEARCH = "/api/v1/messages/search?"
BEYOND = [
    ("name of a queue, a partition, a consumer group", push(queue="n" * 256)),
    ("name of a queue, a partition, a consumer group", push(partition="n" * 256)),
    ("name of a queue, a partition, a consumer group", ("GET", "/api/v1/pop/queue/q?consumerGroup=" + "n" * 256)),
    ("namespace, task", ("POST", "/api/v1/configure", {"queue": "q", "namespace": "n" * 256})),
    ("`transactionId`", push(transactionId="n" * 256)),
    ("`Idempotency-Key`", (*push(), {"Idempotency-Key": "k" * 256})),
    ("attributes of a CloudEvent", ("POST", "/api/v1/events/q", {**EVENT, **{f"a{n}": "" for n in range(65)}},
                                    JSON_EVENT)),
    ("all attributes of a CloudEvent, as JSON", ("POST", "/api/v1/events/q", {**EVENT, "large": "x" * 32768},
                                                 JSON_EVENT)),
    ("body of any other request", ("POST", "/api/v1/configure", {"queue": "q", "more": "x" * (1 << 20)})),
    ("request line and headers together", ("GET", "/livez", None, {"X-Large": "x" * 32768})),
    ("number of headers", ("GET", "/livez", None, {f"X-{n}": "" for n in range(101)})),
    ("request target", ("GET", "/livez?" + "x" * 8192)),
    ("depth of JSON", ("POST", "/api/v1/push",
                       b'{"items":[{"queue":"q","payload":' + b"[" * 512 + b"]" * 512 + b"}]}")),
    ("depth of JSON of a request to the control plane", ("POST", "/api/v1/traces", (
        b'{"transactionId":"x","partitionId":"y","data":' + b"[" * 254 + b"]" * 254 + b"}"))),
    ("depth of JSON of a request to the control plane", ("POST", "/api/v1/configure", (
        b'{"queue":"q","options":{"retryBackoff":' + b"[" * 253 + b"]" * 253 + b"}}"))),
    ("values in the JSON of a request to the control plane", ("POST", "/api/v1/configure",
                                                              b'{"queue":"q","more":[' + b"1," * 250_000 + b"1]}")),
    ("items of a push, acknowledgments of a batch, operations of a transaction",
     ("POST", "/api/v1/push", {"items": 10_001 * [{"queue": "q", "payload": 1}]})),
    ("items of a push, acknowledgments of a batch, operations of a transaction",
     ("POST", "/api/v1/ack/batch", {"acknowledgments": 10_001 * [ACK]})),
    ("items of a push, acknowledgments of a batch, operations of a transaction",
     ("POST", "/api/v1/transaction", {"operations": 10_001 * [{"type": "ack", **ACK}]})),
    ("delay of a timer", ("POST", "/api/v1/timers", {"operations": [{
        "op": "schedule", "queue": "q", "timerKey": "k", "payload": "MQ==", "delayMs": 367 * 86_400_000}]})),
    ("operations of a call of `/api/v1/timers`", ("POST", "/api/v1/timers", {"operations": [{
        "op": "cancel", "queue": "q", "timerKey": str(n)} for n in range(257)]})),
    ("delay of a message", push(delayMs=367 * 86_400_000)),
    ("steps of a `retryBackoff`", ("POST", "/api/v1/configure", {
        "queue": "q", "options": {"retryBackoff": 33 * [1000]}})),
    ("`batch` of a pop, `credit` and `window` of a stream", ("GET", "/api/v1/pop/queue/q?batch=10001")),
    ("`batch` of a pop, `credit` and `window` of a stream", ("GET", "/api/v1/stream/q?credit=10001")),
    ("`batch` of a pop, `credit` and `window` of a stream", ("GET", "/api/v1/stream/q?window=10001")),
    ("`partitions` of a pop", ("GET", "/api/v1/pop/queue/q?partitions=1001")),
    ("`timeout` of a long poll", ("GET", "/api/v1/pop/queue/q?timeout=115001")),
    ("`leaseSeconds`", ("GET", "/api/v1/pop/queue/q?leaseSeconds=86401")),
    ("`heartbeat` of a stream", ("GET", "/api/v1/stream/q?heartbeat=601")),
    ("`limit` of a list of queues or groups", ("GET", "/api/v1/resources/queues?limit=10001")),
    ("`limit` of a list of queues or groups", ("GET", "/api/v1/consumer-groups?limit=10001")),
    ("`limit` of a list of dead letters", ("GET", "/api/v1/dlq?limit=1001")),
    ("dead letters that one request sends back", ("POST", "/api/v1/dlq/redrive", {"queue": "q", "limit": 10_001})),
    ("text of a search", ("GET", f"{SEARCH}text=" + "x" * 1001)),
    ("queues that a search names", ("GET", f"{SEARCH}text=x&" + "&".join(f"queue=q{n}" for n in range(101)))),
    ("`transactionIds` of an erasure", ("POST", "/api/v1/queues/q/erase", {"transactionIds": 1001 * ["t"]})),
    ("entries of a read by offset", ("POST", "/api/v1/fetch", {
        "entries": 1025 * [{"queue": "q", "partition": "p", "offset": 0}]})),
    ("`maxWaitMs` of a read by offset", ("POST", "/api/v1/fetch", {
        "entries": [{"queue": "q", "partition": "p", "offset": 0}], "maxWaitMs": 30_001})),
]


@pytest.mark.parametrize("row, request_", BEYOND, ids=[f"{n}-{row[:30]}" for n, (row, _) in enumerate(BEYOND)])
def test_beyond_a_limit(daemon, row, request_):
    method, target, *rest = request_
    body, headers = [*rest, None, None][:2]
    with daemon.client() as client:
        if isinstance(body, dict):
            body, headers = json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})}
        answer = client.request(method, target, body, headers)
        (status,) = re.findall(r"\b[45]\d\d\b", ROWS[row][1])
        assert answer.status == int(status), answer.body[:300]


def test_at_a_limit(daemon):
    """The largest values are taken."""
    name = "n" * 255
    with daemon.client() as client:
        assert client.request(*push(queue=name, partition=name, transactionId=name)).status == 201
        assert client.request("POST", "/api/v1/push", {"items": 10_000 * [{"queue": "q", "payload": 1}]}).status == 201
        for query in ("batch=10000", "partitions=1000", "timeout=115000", "leaseSeconds=86400"):
            assert client.request("GET", f"/api/v1/pop/queue/q?{query}").status == 200, query
