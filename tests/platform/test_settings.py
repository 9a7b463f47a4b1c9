"""Every setting has an effect that a test sees: here, in the file that ELSEWHERE names, or in the core's own tests
(CORE). A setting without one has to be among NO_EFFECT. Settings that do not disturb each other share a daemon."""
from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from support.client import Client, ack_of, pop_target
from support.daemon import Daemon
from support.flat import core_limit
from support.http import request
from support.ports import free_port
from support.postgres import running, stand
from support.tokens import SECRET, bearer, token
from support.wait import until

from queend.auth.token import Verifier
from queend.daemon.core_settings import core_settings
from queend.postgres import session
from queend.postgres.conninfo import conninfo
from queend.settings.load import load
from queend.settings.model import Settings
from queend.settings.sources import NO_EFFECT

TESTS = Path(__file__).parent.parent
SEEN: list[str] = []

# Where the test stands that would fail if the setting had no effect.
ELSEWHERE = {
    "auth/test_access.py": "JWT_ENABLED JWT_REQUIRE_QUEUES JWT_SECRET JWT_SKIP_PATHS",
    "auth/test_jwks.py": "JWT_JWKS_URL JWT_JWKS_REFRESH_INTERVAL QUEEND_JWT_JWKS_PAUSE_MS QUEEND_JWT_JWKS_PRIVATE",
    "auth/test_lifetime.py": "JWT_CLOCK_SKEW QUEEND_JWT_TOKENS",
    "auth/test_permits.py": "QUEEND_JWT_QUEUES_CLAIM",
    "auth/test_verify.py": "JWT_ALGORITHM JWT_PUBLIC_KEY JWT_REQUIRE_EXP",
    "e2e/test_adopt.py": "FILE_BUFFER_DIR",
    "e2e/test_bad_input.py": "QUEEND_MAX_BODY_BYTES",
    "e2e/test_bounds.py": "QUEEND_MAX_PARKED",
    "e2e/test_ephemeral.py": "QUEEND_EPHEMERAL_BYTES",
    "e2e/test_compressed_rows.py": "QUEEND_COMPRESS_FROM",
    "e2e/test_encryption.py": "QUEEND_ENCRYPTION_KEYS QUEEND_REFUSE_PLAIN QUEEN_ENCRYPTION_KEY",
    "e2e/test_failover_adoption.py": "QUEEND_BUFFER_ADOPT_MS",
    "e2e/test_failover_maintenance.py": "QUEEND_BUFFER_BYTES",
    "e2e/test_fence.py": "LIBQUEEN_INFLIGHT_DEADLINE_MS",
    "e2e/test_https.py": "QUEEND_TLS_CERT QUEEND_TLS_KEY QUEEND_TLS_CLIENT_CA QUEEND_TLS_CLIENT_REQUIRED",
    "e2e/test_idle_partitions.py": "PARTITION_CLEANUP_DAYS",
    "e2e/test_memory.py": "QUEEND_CACHE_BYTES",
    "e2e/test_name_bounds.py": "QUEEND_MAX_QUEUES QUEEND_MAX_PARTITIONS QUEEND_MAX_GROUPS",
    "e2e/test_peers.py": "QUEEN_UDP_PEERS QUEEN_UDP_NOTIFY_PORT QUEEN_SYNC_ENABLED QUEEN_SYNC_SECRET "
                         "QUEEN_SYNC_HEARTBEAT_MS QUEEN_SYNC_DEAD_THRESHOLD_MS QUEEN_PEERS PEER_NOTIFY_BATCH_MS",
    "e2e/test_queue_options.py": "QUEEND_PRIORITY_SHARE",
    "e2e/test_remembered_ids.py": "QUEEND_DEDUPE_BYTES",
    "e2e/test_slips.py": "QUEEND_STRICT",
    "e2e/test_stop.py": "QUEEND_SHUTDOWN_GRACE_MS",
    "e2e/test_storm.py": "QUEEND_MAX_QUEUED_JOBS",
    "e2e/test_verdict.py": "QUEEND_PATIENCE_MS",
    "e2e/test_workers.py": "NUM_WORKERS",
    "platform/test_config.py": "PG_HOST PG_PORT PG_DB PG_USER PG_PASSWORD QUEEND_DSN DATABASE_URL SIDECAR_POOL_SIZE",
    "platform/test_monitoring.py": "QUEEND_METRICS_QUEUES",
    "platform/test_metrics_history.py": (
        "METRICS_SAMPLE_INTERVAL_MS METRICS_AGGREGATE_INTERVAL_S METRICS_RETENTION_DAYS"),
    "platform/test_migration.py": "QUEEND_MIGRATION_TARGETS QUEEND_MIGRATION_STEP_MS",
    "platform/test_pages.py": "CORS_ORIGINS QUEEND_HOSTS HOST",
    "platform/test_request_log.py": "QUEEND_REQUEST_LOG QUEEND_REQUEST_LOG_SHARE",
    "platform/test_retention.py": "RETENTION_INTERVAL EVICTION_INTERVAL",
    "platform/test_secrecy.py": "QUEEND_CORE_DUMPS",
    "platform/test_serve.py": "PORT QUEEND_DATA_DIR",
    "platform/test_static.py": "WEBAPP_ROOT QUEEND_DASHBOARD",
    "platform/test_stats.py": "STATS_INTERVAL_MS STATS_RECONCILE_INTERVAL_MS",
    "platform/test_tls.py": "PG_USE_SSL PG_SSL_REJECT_UNAUTHORIZED",
    "platform/test_tracing.py": "QUEEND_OTLP_ENDPOINT QUEEND_OTLP_HEADERS QUEEND_OTLP_SHARE",
    "platform/test_watch.py": "QUEEND_STUCK_MS QUEEND_CONTROL_STUCK_MS",
}
# What needs half a minute or a broken client to be seen is tested in the core alone, with a core setting. Here: that
# this setting becomes that one.
CORE = {
    "QUEEND_MAX_CONNECTIONS": ("max_connections", "core/test_budgets_arriving.py"),
    "QUEEND_MAX_ARRIVING_BYTES": ("max_arriving", "core/test_budgets_arriving.py"),
    "QUEEND_MAX_UNTAKEN_BYTES": ("max_untaken", "core/test_budgets_answers.py"),
    "QUEEND_MAX_UNTAKEN_CONNECTION_BYTES": ("max_untaken_of_one", "core/test_budgets_answers.py"),
    "QUEEND_LEAST_RATE": ("least_rate", "core/test_budgets_arriving.py"),
}
# The same of what adapts a limit to the database: (setting, member of the limit, value, what becomes of it).
LIMITS = (
    ("QUEEN_CONCURRENCY_MODE", "mode", "static", 0), ("QUEEN_VEGAS_MIN_LIMIT", "min_limit", 2, 2),
    ("QUEEN_VEGAS_MAX_LIMIT", "max_limit", 5, 5),
    ("QUEEN_VEGAS_ALPHA", "alpha", 4, 4), ("QUEEN_VEGAS_BETA", "beta", 9, 9),
    ("QUEEN_VEGAS_RTT_WINDOW_SAMPLES", "window_samples", 20, 20),
    ("QUEEN_VEGAS_RTT_MIN_WINDOW_SEC", "fastest_window_us", 7, 7_000_000),
    ("QUEEN_VEGAS_UPDATE_INTERVAL_MS", "interval_us", 300, 300_000))


def sees(*names: str) -> Callable:
    """The test would fail if one of these settings had no effect."""
    SEEN.extend(names)
    return lambda test: test


@pytest.fixture
def start(start_daemon: Callable[..., Daemon]) -> Iterator[Callable[..., Daemon]]:
    """As `start_daemon`; they are stopped after the test, for the sake of connections."""
    daemons: list[Daemon] = []

    def one(*arguments: Any, **settings: Any) -> Daemon:
        daemons.append(start_daemon(*arguments, **settings))
        return daemons[-1]

    yield one
    for daemon in daemons:
        daemon.stop()


def calls(client: Client, kind: str) -> int:
    (line,) = (line for line in client.get("/metrics/prometheus").body.decode().splitlines()
               if line.startswith(f'queend_calls_total{{type="{kind}"}}'))
    return int(float(line.rsplit(" ", 1)[1]))


# ---- how requests share a call -------------------------------------------------------------------------------------

HELD = {f"QUEEN_{kind}_{name}": value for kind in ("PUSH", "POP", "ACK", "RENEW_LEASE", "KV")
        for name, value in (("MAX_HOLD_MS", 600_000), ("PREFERRED_BATCH_SIZE", 2), ("MAX_BATCH_SIZE", 2))}


def in_two_calls(daemon: Daemon, kind: str, requests: list[bytes]) -> list[Any]:
    """Four requests. One alone waits; with three more there are two calls of two: the first because there are enough
    for one, the second because more are not taken at once."""
    with daemon.client() as client, daemon.client() as alone, daemon.client() as others:
        before = calls(client, kind)
        alone.get("/livez"), others.get("/livez")
        alone.wire.send(requests[0])
        until(lambda: client.metric("queend_worker_jobs") == 1, "the first waits")
        assert calls(client, kind) == before
        others.wire.send(b"".join(requests[1:]))
        answers = [alone.receive(), *(others.receive() for _ in requests[1:])]
        assert calls(client, kind) == before + 2
        return [answer.json for answer in answers]


@sees(*HELD)
def test_jobs_are_held_until_there_are_enough_and_only_so_many_share_a_call(start: Callable[..., Daemon]) -> None:
    daemon = start(NUM_WORKERS=1, QUEEND_PUSH_STREAMS=1, QUEEND_CACHE_BYTES=0, **HELD)

    def post(path: str, body: Any) -> bytes:
        return request("POST", path, json.dumps(body).encode())
    in_two_calls(daemon, "push", [post("/api/v1/push", {"items": [{"queue": "q", "partition": f"p{i}",
                                                                   "payload": i}]}) for i in range(4)])
    popped = [answer["messages"][0] for answer in in_two_calls(daemon, "pop",
                                                               [request("GET",
                                                                        pop_target("q", f"p{i}")) for i in range(4)])]
    in_two_calls(daemon, "lease", [post(f"/api/v1/lease/{one['leaseId']}/extend", {}) for one in popped])
    in_two_calls(daemon, "kv", [post("/api/v1/kv", {"operations": [
        {"op": "put", "ns": "held", "key": f"k{i}", "value": i, "ttlSeconds": 60}]}) for i in range(4)])
    told = in_two_calls(daemon, "ack", [post("/api/v1/ack", ack_of(one, lease=False)) for one in popped])
    assert all(one[0]["success"] for one in told)


@sees("SIDECAR_MICRO_BATCH_WAIT_MS", "QUEEND_LISTEN_MODE")
def test_one_hold_of_all_types(start: Callable[..., Daemon]) -> None:
    """A second push releases the first. Besides: with `reuseport` every worker has a socket that listens."""
    daemon = start(NUM_WORKERS=3, QUEEND_PUSH_STREAMS=1, SIDECAR_MICRO_BATCH_WAIT_MS=600_000,
                   QUEEN_PUSH_PREFERRED_BATCH_SIZE=2,
                          QUEEND_LISTEN_MODE="reuseport")
    with daemon.client() as client, daemon.client() as one, daemon.client() as other:
        one.send("POST", "/api/v1/push", json.dumps({"items": [{"queue": "q", "payload": 1}]}).encode())
        until(lambda: client.metric("queend_worker_jobs") == 1, "the first waits")
        assert calls(client, "push") == 0
        other.push("q", 2)
        assert one.receive().status == 201 and calls(client, "push") == 1
    port = f"{daemon.port:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    assert sum(line[1].endswith(f":{port}") and line[3] == "0A" for line in lines) == 3


# ---- how many calls ------------------------------------------------------------------------------------------------

STREAM_CALLS = ("QUEEN_STREAMS_REGISTER_MAX_CONCURRENT", "QUEEN_STREAMS_CYCLE_MAX_CONCURRENT",
                "QUEEN_STREAMS_STATE_GET_MAX_CONCURRENT")
GAUGES = {"pop_limit": ("QUEEN_POP_MAX_CONCURRENT", 3), "ack_limit": ("QUEEN_ACK_MAX_CONCURRENT", 5),
          "slots": ("QUEEND_SLOTS", 12),
          "transaction_limit": ("QUEEN_TRANSACTION_MAX_CONCURRENT", 7),
          "lease_limit": ("QUEEN_RENEW_LEASE_MAX_CONCURRENT", 6),
          "kv_limit": ("QUEEN_KV_MAX_CONCURRENT", 2),
          "push_streams": ("QUEEN_PUSH_MAX_CONCURRENT", 1)}


@pytest.fixture(scope="module")
def bounded(start_daemon: Callable[..., Daemon]) -> Daemon:
    """Few calls at once."""
    return start_daemon(NUM_WORKERS=1, QUEEN_CONCURRENCY_MODE="static", QUEEND_PUSH_STREAMS=2, DB_POOL_SIZE=60,
                        DB_CONNECTION_TIMEOUT=600_000, DB_LOCK_TIMEOUT=600_000,
                        DEFAULT_BATCH_SIZE=3, DEFAULT_TIMEOUT=300,
                        DEFAULT_SUBSCRIPTION_MODE="new", QUEEND_CONFIGURE_REPLACES="true",
                        QUEEND_MAX_QUEUED_BYTES=1 << 20,
                        QUEEND_MAX_CONTROL_BODY_BYTES=4096, QUEEND_MAX_OPEN_BODY_BYTES=900_000,
                        QUEEND_MAX_CONNECTIONS_PER_ADDRESS=20,
                        **dict.fromkeys(STREAM_CALLS, 1), **dict(GAUGES.values()))


@sees(*(name for name, _ in GAUGES.values()), "QUEEND_PUSH_STREAMS")
def test_calls_at_once(bounded: Daemon, start: Callable[..., Daemon]) -> None:
    with bounded.client() as client:
        client.push("limits", 1)
        for gauge, (name, value) in GAUGES.items():
            assert client.metric(f"queend_worker_{gauge}") == value, name
    with start(QUEEND_PUSH_STREAMS=3).client() as client:
        client.push("q", 1)
        assert client.metric("queend_worker_push_streams") == 3


def waiting(seer: psycopg.Connection) -> int:
    ((n,),) = seer.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = "
                           "current_database()").fetchall()
    return n


@contextmanager
def at_once(daemon: Daemon, lock: str, method: str, path: str, bodies: list[Any]) -> Iterator[psycopg.Connection]:
    """All of them are sent while another session has run `lock`, and answered when it ends. Yields a connection that
    sees who waits."""
    clients = [daemon.client() for _ in bodies]
    try:
        with psycopg.connect(daemon.conninfo) as locks, psycopg.connect(daemon.conninfo, autocommit=True) as seer:
            locks.execute(lock)
            for client, body in zip(clients, bodies, strict=True):
                client.send(method, path, None if body is None else json.dumps(body).encode())
            until(lambda: waiting(seer), "one waits for it")
            yield seer
            locks.rollback()
        for client in clients:
            assert client.receive().status < 300
    finally:
        for client in clients:
            client.close()


@sees(*STREAM_CALLS)
def test_stream_calls_at_once(bounded: Daemon) -> None:
    with bounded.client() as client:
        client.configure("streams")
        made = [client.post("/streams/v1/queries", {"name": f"s{i}", "source_queue": "streams",
                                                    "config_hash": "h"}).json["query_id"] for i in range(3)]
        partition = client.push("streams", 1)[0]["partition_id"]
        for path, bodies in (
                ("queries", [{"name": f"t{i}", "source_queue": "streams", "config_hash": "h"} for i in range(3)]),
                ("cycle", [{"query_id": one, "partition_id": partition,
                            "state_ops": [{"type": "upsert", "key": "k", "value": 1}],
                            "push_items": []} for one in made]),
                ("state/get", [{"query_id": one, "partition_id": partition} for one in made])):
            with at_once(bounded, "LOCK TABLE queend.stream_queries, queend.stream_state", "POST",
                         f"/streams/v1/{path}", bodies) as seer:
                until(lambda: client.metric("queen_response_registry_size") >= 3, "all have arrived")
                assert waiting(seer) == 1, path


@sees("DB_POOL_SIZE", "DB_CONNECTION_TIMEOUT")
def test_connections_of_the_control_plane(bounded: Daemon, start: Callable[..., Daemon]) -> None:
    """A twentieth. Who finds all of them taken waits; at a daemon that is to wait less, who asks later gives up
    first."""
    hasty, path = start(bounded.conninfo, DB_POOL_SIZE=40, DB_CONNECTION_TIMEOUT=100), "/api/v1/resources/queues"
    with bounded.client() as client, hasty.client() as one, hasty.client() as other, hasty.client() as third, \
            at_once(bounded, "LOCK TABLE queend.queues", "GET", path, [None] * 5) as seer:
        until(lambda: waiting(seer) >= 3 and client.get("/metrics").json["database"]["waitingRequests"] >= 1,
              "the others wait for a connection")
        assert client.get("/metrics").json["database"]["poolSize"] == 3
        one.send("GET", path), other.send("GET", path)
        until(lambda: waiting(seer) >= 5, "its two are taken")
        assert third.get(path).status == 503


# sql/function/push.sql
LANES = "SELECT pg_advisory_xact_lock(1903519076, lane) FROM generate_series(0, 63) AS lane"


# ---- what one may send ---------------------------------------------------------------------------------------------

@sees("QUEEND_MAX_CONTROL_BODY_BYTES", "QUEEND_MAX_OPEN_BODY_BYTES", "QUEEND_MAX_QUEUED_BYTES",
      "QUEEND_MAX_CONNECTIONS_PER_ADDRESS")
def test_sizes_and_numbers(bounded: Daemon) -> None:
    def body(size: int) -> bytes:
        return json.dumps({"items": [{"queue": "sizes", "payload": "x" * size}]}).encode()
    with bounded.client() as client, bounded.client() as small:
        client.push("sizes", 1)
        for path, size, status in (("configure", 3000, 200), ("configure", 5000, 413), ("push", 850_000, 201),
                                   ("push", 950_000, 413)):
            sent = body(size) if path == "push" else json.dumps({"queue": "sizes", "other": "x" * size}).encode()
            assert client.request("POST", f"/api/v1/{path}", sent).status == status, (path, size)
        with at_once(bounded, LANES, "POST", "/api/v1/push", [json.loads(body(600_000))] * 3):
            until(lambda: client.metric("queend_worker_waited_room_total") >= 1, "the third waits for room")
            until(lambda: client.metric("queend_worker_jobs") == 2, "the others do not")
            small.send("POST", "/api/v1/push", body(10))
            until(lambda: client.metric("queend_worker_jobs") == 3, "a small one does not wait for room")
        assert small.receive().status == 201
    clients = [bounded.client() for _ in range(30)]
    try:
        answers = []
        for client in clients:
            try:
                answers.append(client.get("/livez").status)
            except OSError:
                answers.append(0)
        assert answers[:5] == [200] * 5 and answers[25:] == [429] * 5
    finally:
        for client in clients:
            client.close()


# ---- what is not said ----------------------------------------------------------------------------------------------

@sees("DEFAULT_BATCH_SIZE", "DEFAULT_TIMEOUT", "DEFAULT_SUBSCRIPTION_MODE", "QUEEND_CONFIGURE_REPLACES")
def test_defaults_of_requests(bounded: Daemon) -> None:
    with bounded.client(timeout=20) as client:
        client.push("defaults", *range(5), partition="p")
        assert len(client.pop("defaults", "p")) == 3
        assert client.pop("defaults", "p", wait=True) == [], "within 20 s: the default is 30"
        assert client.pop("defaults", "p", consumerGroup="late") == [], "it begins with new messages"
        client.configure("defaults", leaseTime=7)
        assert client.configure("defaults", retryLimit=1)["options"]["leaseTime"] == 300


# ---- services ------------------------------------------------------------------------------------------------------

@sees("EVICTION_BATCH_SIZE", "RETENTION_BATCH_SIZE")
@pytest.mark.parametrize(("kind", "options"), [
    ("EVICTION", {"maxWaitTimeSeconds": 1}), ("RETENTION", {"retentionEnabled": True, "retentionSeconds": 1})])
def test_rows_that_a_transaction_removes(start: Callable[..., Daemon], kind: str, options: dict[str, Any]) -> None:
    daemon = start(**{"EVICTION_INTERVAL": 3_600_000, "RETENTION_INTERVAL": 3_600_000, f"{kind}_INTERVAL": 100,
                      f"{kind}_BATCH_SIZE": 1})
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as database:
        database.execute("CREATE TABLE gone (at xid8)")
        database.execute("CREATE FUNCTION note_gone() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO "
                         "public.gone VALUES (pg_current_xact_id()); RETURN OLD; END'")
        database.execute("CREATE TRIGGER note_gone BEFORE DELETE ON queend.log FOR EACH ROW EXECUTE FUNCTION "
                         "note_gone()")
        client.configure("q", **options)
        client.push_items([{"queue": "q", "partition": f"p{i}", "payload": i} for i in range(4)])
        until(lambda: database.execute("SELECT count(*) FROM gone").fetchone() == (4,), "all are too old")
        most = "SELECT max(n) FROM (SELECT count(*) AS n FROM gone GROUP BY at) AS g"
        assert database.execute(most).fetchone() == (1,)


@sees("LOG_LEVEL")
def test_services(start: Callable[..., Daemon]) -> None:
    daemon = start(EVICTION_INTERVAL=100, STATS_INTERVAL_MS=100, STATS_RECONCILE_INTERVAL_MS=1000, LOG_LEVEL="debug")
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as database:
        client.configure("q", maxWaitTimeSeconds=1)
        client.push("q", 1, 2)
        until(lambda: daemon.line("retained"), "that is told, at this level")
        until(lambda: database.execute("SELECT sum(total) FROM queend.stat_queues").fetchone() == (0,), "it is counted")
        # A partition whose figures are wrong, and the sum with them: nothing changes it any more but a walk.
        database.execute("WITH one AS (UPDATE queend.stat_partitions SET total = total + 999 WHERE partition_id ="
                         " (SELECT min(partition_id) FROM queend.stat_partitions)) UPDATE queend.stat_queues SET total"
                         " = total + 999")
        until(lambda: database.execute("SELECT sum(total) FROM queend.stat_queues").fetchone() == (0,),
              "a walk puts it right")


@sees("FILE_BUFFER_FLUSH_MS")
def test_pauses_of_the_buffer(start: Callable[..., Daemon], tmp_path: Path) -> None:
    """What cannot be stored now is tried again after an hour: no more errors while retention looks five times."""
    daemon = start(QUEEND_BUFFER_BYTES=1 << 20, FILE_BUFFER_DIR=tmp_path, FILE_BUFFER_FLUSH_MS=3_600_000,
                   RETENTION_INTERVAL=100)
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as database:
        client.push("q", 1)
        client.post("/api/v1/system/maintenance", {"enabled": True})
        assert client.push("q", 2)[0]["status"] == "buffered"
        database.execute("CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE disk_full; END'")
        database.execute("CREATE TRIGGER full_disk BEFORE INSERT ON queend.log FOR EACH ROW EXECUTE FUNCTION "
                         "full_disk()")
        client.post("/api/v1/system/maintenance", {"enabled": False})

        def no_more_errors() -> bool:
            errors, runs = client.metric("queend_worker_db_errors_total"), client.metric("queend_retention_runs_total")
            until(lambda: client.metric("queend_retention_runs_total") >= runs + 5, "five runs")
            return 0 < errors == client.metric("queend_worker_db_errors_total")
        until(no_more_errors, "it is left alone")
        assert client.get("/api/v1/status/buffers").json["pending"] == 1
        database.execute("DROP TRIGGER full_disk ON queend.log")


@sees("FILE_BUFFER_MAX_BATCH", "FILE_BUFFER_EVENTS_PER_FILE")
def test_messages_of_a_file_and_of_a_drain(start: Callable[..., Daemon], tmp_path: Path) -> None:
    daemon = start(QUEEND_BUFFER_BYTES=1 << 20, FILE_BUFFER_DIR=tmp_path, FILE_BUFFER_MAX_BATCH=1,
                   FILE_BUFFER_EVENTS_PER_FILE=2)
    with daemon.client() as client:
        client.post("/api/v1/system/maintenance", {"enabled": True})
        for i in range(4):
            assert client.push("q", i)[0]["status"] == "buffered"
        assert len([file for file in tmp_path.rglob("*.seg") if file.stat().st_size]) == 2
        client.post("/api/v1/system/maintenance", {"enabled": False})
        until(lambda: client.get("/api/v1/status/buffers").json["pending"] == 0, "they are in the database")
        assert calls(client, "push") == 4


@sees("POP_WAIT_MAX_INTERVAL_MS")
def test_looks_for_what_others_stored(start: Callable[..., Daemon]) -> None:
    """Two daemons wait for what a third stores. The one that looks every 30 s has looked just now: a notice came."""
    producer = start()
    seldom = start(producer.conninfo, POP_WAIT_MAX_INTERVAL_MS=30_000)
    often = start(producer.conninfo, POP_WAIT_MAX_INTERVAL_MS=20)
    with producer.client() as client, seldom.client() as one, seldom.client() as beside, often.client() as other:
        client.push("q", "first", partition="first")
        for group, waits in (("one", one), ("other", other)):
            waits.pop("q", consumerGroup=group, autoAck=True, wait=True, subscriptionMode="all")
        one.send("GET", pop_target("q", consumerGroup="one", autoAck=True, wait=True))
        until(lambda: beside.parked() == 1, "the pop is parked")
        client.push("q", "second", partition="second")
        assert beside.post("/internal/api/notify", {"queue": "q"}).status == 200
        assert one.receive().json["messages"]
        other.pop("q", consumerGroup="other", autoAck=True, wait=True)
        one.send("GET", pop_target("q", consumerGroup="one", autoAck=True, wait=True))
        until(lambda: beside.parked() == 1, "the pop is parked again")
        client.push("q", "third", partition="third")
        assert other.pop("q", consumerGroup="other", autoAck=True, wait=True)
        assert beside.parked() == 1, "it has not looked again"


@sees("QUEEN_SYNC_RECV_BUFFER_MB")
def test_room_for_packets(start: Callable[..., Daemon]) -> None:
    """Of a daemon that reads none. The kernel counts twice the size, with what it needs for each; whoever may not have
    so much gets what `rmem_max` says."""
    port = free_port()
    daemon = start(QUEEN_UDP_NOTIFY_PORT=port, QUEEN_UDP_PEERS="127.0.0.1:9", QUEEN_SYNC_RECV_BUFFER_MB=1)
    stand(daemon.process.pid)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            for _ in range(8000):
                one.sendto(bytes(1400), ("127.0.0.1", port))
        lines = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()]
        (waiting,) = (int(line[4].split(":")[1], 16) for line in lines if line[1].endswith(f":{port:04X}"))
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    least = 2 * min(1 << 20, int(Path("/proc/sys/net/core/rmem_max").read_text()))
    assert 0.9 * least < waiting < 1.1 * (2 << 20)


# ---- tokens --------------------------------------------------------------------------------------------------------

@sees("JWT_ISSUER", "JWT_AUDIENCE", "JWT_ROLES_CLAIM", "JWT_ROLES_ARRAY_CLAIM", "JWT_ROLE_ADMIN", "JWT_ROLE_READ_WRITE",
      "JWT_ROLE_READ_ONLY")
def test_words_of_tokens(start: Callable[..., Daemon]) -> None:
    daemon = start(JWT_ENABLED="true", JWT_SECRET=SECRET, JWT_ISSUER="us", JWT_AUDIENCE="queues", JWT_ROLES_CLAIM="r",
                   JWT_ROLES_ARRAY_CLAIM="rs",
                          JWT_ROLE_ADMIN="boss", JWT_ROLE_READ_WRITE="clerk", JWT_ROLE_READ_ONLY="guest")
    with daemon.client() as client:
        def told(**claims: Any) -> tuple[int, int, int]:
            """Looking, writing, deleting."""
            allowed = bearer(token(**{"iss": "us", "aud": "queues", **claims}))
            return tuple(client.request(*what, headers=allowed).status for what in (  # type: ignore[return-value]
                ("GET", "/api/v1/resources/queues", None), ("POST", "/api/v1/configure", {"queue": "q"}),
                ("DELETE", "/api/v1/resources/queues/q", None)))
        assert (told(r="boss"), told(r="clerk"), told(r="guest"), told(r="admin"), told(role="boss")) == (
            (200, 200, 200), (200, 200, 403), (200, 403, 403), (403, 403, 403), (403, 403, 403))
        assert told(rs=["x", "clerk"]) == (200, 200, 403)
        assert told(r="boss", iss="others") == told(r="boss", aud="others") == (401, 401, 401)


@sees("JWT_JWKS_TIMEOUT_MS")
def test_time_for_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens after it is in auth/test_jwks.py."""
    for name, value in {"JWT_ENABLED": "true", "JWT_ALGORITHM": "auto", "JWT_JWKS_URL": "https://id.example/keys",
                        "JWT_JWKS_TIMEOUT_MS": "50"}.items():
        monkeypatch.setenv(name, value)
    assert Verifier(load(), lambda: None).set.timeout_s == 0.05


# ---- sessions of the database --------------------------------------------------------------------------------------

SESSION = {"DB_STATEMENT_TIMEOUT": ("statement_timeout", 7001), "DB_LOCK_TIMEOUT": ("lock_timeout", 7002),
           "DB_IDLE_TIMEOUT": ("idle_in_transaction_session_timeout", 7003)}
SOCKET = {"DB_TCP_USER_TIMEOUT_MS": (socket.TCP_USER_TIMEOUT, 7004), "DB_KEEPALIVES_IDLE": (socket.TCP_KEEPIDLE, 75),
          "DB_KEEPALIVES_INTERVAL": (socket.TCP_KEEPINTVL, 76), "DB_KEEPALIVES_COUNT": (socket.TCP_KEEPCNT, 7)}


@sees(*SESSION, *SOCKET)
def test_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """As every part of the daemon opens them."""
    with running(tcp=True) as server:
        monkeypatch.setenv("QUEEND_DSN", server.dsn())
        for name, (_, value) in {**SESSION, **SOCKET}.items():
            monkeypatch.setenv(name, str(value))
        monkeypatch.setenv("DB_CONNECTION_TIMEOUT", "7001")
        flat = core_settings(load())
        assert conninfo_to_dict(flat["conninfo"])["connect_timeout"] == "8", "whole seconds"
        with session.connect(conninfo(load())) as connection:
            for name, (word, value) in SESSION.items():
                assert connection.execute("SELECT setting::int FROM pg_settings WHERE name = %s",
                                          (word,)).fetchone() == (value,), name
                assert f"{value}" in flat["session"], "the data plane has the same"
            with socket.socket(fileno=connection.fileno()) as wire:
                for name, (option, value) in SOCKET.items():
                    assert wire.getsockopt(socket.IPPROTO_TCP, option) == value, name
                wire.detach()


# ---- settings of the core ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", CORE)
def test_a_setting_of_the_core(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    flat, file = CORE[name]
    assert f"{flat}=" in (TESTS / file).read_text()
    monkeypatch.setenv(name, str(200 << 20))
    assert core_settings(load())[flat] == 200 << 20


@pytest.mark.parametrize(("name", "member", "value", "becomes"), LIMITS)
def test_a_setting_of_the_limits(monkeypatch: pytest.MonkeyPatch, name: str, member: str, value: Any,
                                 becomes: int) -> None:
    """What they do is in core/test_limit.py."""
    before = core_limit()[member]
    monkeypatch.setenv(name, str(value))
    assert core_limit()[member] == becomes != before


# ---- all of them ---------------------------------------------------------------------------------------------------

def test_every_setting_is_seen_by_a_test() -> None:
    for file, names in ELSEWHERE.items():
        text = (TESTS / file).read_text().lower()
        for name in names.split():
            assert any(one in text for one in (name.lower(), name.lower().removeprefix("jwt_"),
                                               name.lower().removeprefix("jwt_jwks_"))), (file, name)
    seen = [*SEEN, *" ".join(ELSEWHERE.values()).split(), *CORE, *(one[0] for one in LIMITS)]
    assert len(seen) == len(set(seen)), "each once"
    there = {name.upper() for name in Settings.model_fields}
    assert set(seen) == there, "a setting that no test sees, or that is none"
    assert not there & set(NO_EFFECT)
