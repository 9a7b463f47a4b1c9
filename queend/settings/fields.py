"""Every setting of the daemon: its name, type, default and meaning, in one place.

Names without QUEEND_ are those of Queen MQ, so that a deployment can be switched over unchanged. `sources` says where
values come from, `checks` which values fit together.
"""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from pydantic_settings import BaseSettings

LOG_LEVELS = ("trace", "debug", "info", "warn", "error")
# Job types whose jobs share a call: preferred batch size, largest batch (None: as many as fit), calls at once.
JOB_TYPES: dict[str, tuple[int, int | None, int]] = {
    "push": (50, None, 24), "pop": (20, 500, 16), "ack": (50, 500, 16), "renew_lease": (10, 100, 2)}
# Job types whose requests have a call each: calls at once.
ALONE = {"transaction": 16, "streams_register": 2, "streams_cycle": 16, "streams_state_get": 16}


def setting(default: Any, text: str, unit: str = "", secret: bool = False, live: bool = False, **limits: Any) -> Any:
    """Declares a setting. live: it may change while the daemon runs (queend/daemon/reload.py)."""
    return Field(default, description=text, json_schema_extra={"unit": unit, "secret": secret, "live": live}, **limits)


def count(default: int | None, text: str, unit: str = "", ge: int = 0, le: int = 2**31 - 1, **more: Any) -> Any:
    return setting(default, text, unit, ge=ge, le=le, **more)


def size(default: int | None, text: str, ge: int = 0, **more: Any) -> Any:
    """Declares a number of bytes, up to what the core can count."""
    return count(default, text, "bytes", ge, 1 << 50, **more)


class Server(BaseSettings):
    host: str | None = setting(None, "address to listen on; default: 0.0.0.0 with JWT_ENABLED, else 127.0.0.1, which "
                                     "only this machine reaches")
    port: int = count(6632, "HTTP port; 0 takes a free one", le=65535)
    num_workers: int = count(max(1, (os.cpu_count() or 2) // 2),
                             "worker threads, each with its own loop and connections", ge=1, le=256)
    log_level: Literal[LOG_LEVELS] = setting("info", "the log has lines of this level and above",
                                             live=True)  # type: ignore[valid-type]
    queend_request_log: Literal["off", "sampled", "all"] = setting(
        "off", "a line in the log for each answer, without payloads: of none, of some and of those with status 500 and "
               "above, of all")
    queend_request_log_share: int = count(100, "sampled: one in so many", "requests", ge=1)
    queend_otlp_endpoint: str = setting("", "collector of OpenTelemetry, http://host:4318: spans of pushes, "
                                            "deliveries, acknowledgments, transactions and cycles of sampled traces go "
                                            "there")
    queend_otlp_headers: str = setting("", "headers for it, name=value with commas", secret=True)
    queend_otlp_share: int = count(1, "of sampled traces one in so many", "traces", ge=1)
    webapp_root: str = setting("", "folder of a web application, served below /; default: webapp/dist, here or up to "
                                   "two folders above, if there is one")
    queend_dashboard: bool = setting(True, "the dashboard of docs/dashboard.md, served below / where there is no "
                                           "WEBAPP_ROOT or other folder of a web application")
    cors_origins: str = setting("", "pages of which origins (`https://app.example`, with commas; `*`: any) may ask and "
                                    "read; without JWT_ENABLED others are refused")
    queend_hosts: str = setting("", "while only this machine reaches the port and nobody needs a token: further names, "
                                    "with commas, that Host may have; `*`: any")
    queend_data_dir: Path = setting(Path(".queend"), "folder of the embedded PostgreSQL and its lock; "
                                                     "a relative one is below the folder in which the daemon starts")
    queend_listen_mode: Literal["acceptor", "reuseport"] = setting(
        "acceptor", "who accepts: one thread that hands sockets out in turn, or every worker")
    queend_max_body_bytes: int = count(64 << 20, "largest request body; beyond: 413", "bytes", ge=1024)
    queend_max_queued_jobs: int = count(100_000, "requests waiting for PostgreSQL; beyond: 503", "jobs", ge=1)
    queend_max_queued_bytes: int = size(128 << 20, "memory for requests that are not answered yet, of all workers in "
                                        "equal shares; beyond: large ones wait unread", ge=1 << 20)
    queend_stuck_ms: int = count(30_000, "a worker whose loop has not turned for so long is stuck: /livez is 503, and "
                                         "the watchdog is not fed; 0: never", "ms")
    queend_control_stuck_ms: int = count(600_000, "the same of the control plane's loop; 0: never", "ms")
    queend_shutdown_grace_ms: int = count(10_000, "time for requests in flight at shutdown", "ms", live=True)


class Clients(BaseSettings):
    """Limits on what all clients together may take (SECURITY.md)."""

    queend_max_connections: int | None = count(None, "connections of clients; beyond: 503; default: as many as the "
                                                     "process may have descriptors, less those it needs itself",
                                               "connections", ge=1, live=True)
    queend_max_connections_per_address: int | None = count(
        None, "the same of one address (IPv6: of one /64); beyond: 429; default: half of QUEEND_MAX_CONNECTIONS; 0: no "
              "bound of its own", "connections", live=True)
    queend_max_control_body_bytes: int = count(1 << 20, "largest request body of what is no push, acknowledgment, "
                                                        "transaction, stream cycle or question for state; beyond: 413",
                                               "bytes", ge=1024)
    queend_max_open_body_bytes: int | None = count(None, "largest request body where no token is asked for: without "
                                                         "JWT_ENABLED, and of JWT_SKIP_PATHS; beyond: 413; default: "
                                                   "no bound of its own", "bytes", ge=1024)
    queend_max_arriving_bytes: int | None = size(None, "memory for requests that have not arrived in whole; beyond: "
                                                       "503; default: 128 MiB, at least twice QUEEND_MAX_BODY_BYTES",
                                                 ge=1 << 20)
    queend_max_untaken_bytes: int = size(128 << 20, "memory for answers that clients have not taken; beyond: pops "
                                                    "are 503, and connections that take too little are closed",
                                         ge=1 << 20)
    queend_max_untaken_connection_bytes: int = size(
        64 << 20, "the same of one connection, where they are of more than one answer; beyond: it is closed",
        ge=1 << 20)
    queend_max_queues: int = count(200_000, "queues of the database; one more: 409; 0: no bound", "queues")
    queend_max_partitions: int = count(2_000_000, "partitions of a queue; one more: 409; 0: no bound", "partitions")
    queend_max_groups: int = count(10_000, "consumer groups of a queue; one more: 409; 0: no bound", "groups")
    queend_max_parked: int = count(65_536, "long polls that wait; beyond: 503", "pops")
    queend_least_rate: int = count(1024, "a request body that comes more slowly for half a minute is given up: 408; so "
                                         "is a connection that takes its "
                                      "answers more slowly for a minute; 0: no bound", "bytes/s")


class Database(BaseSettings):
    queend_dsn: str = setting("", "libpq connection string or URI; replaces PG_HOST to PG_DB and PG_USE_SSL",
                              secret=True)
    database_url: str = setting("", "the same, where QUEEND_DSN is not set", secret=True)
    pg_host: str = setting("localhost", "server name, address or socket folder")
    pg_port: int = count(5432, "server port", ge=1, le=65535)
    pg_db: str = setting("postgres", "database")
    pg_user: str = setting("postgres", "user")
    pg_password: str = setting("postgres", "password", secret=True)
    pg_use_ssl: bool = setting(False, "true: TLS or no connection; false: no TLS")
    pg_ssl_reject_unauthorized: bool = setting(True, "with TLS: check the server's certificate and name "
                                                     "(docs/inside/decisions/server.md); false: whoever answers is "
                                                     "believed")
    db_pool_size: int = count(150, "a twentieth of it is the upper bound of the control plane's pool, a tenth that of "
                                   "its calls of streams; of each at least 2", "connections", ge=1, le=10_000)
    db_idle_timeout: int = count(30_000, "idle_in_transaction_session_timeout; 0: none", "ms")
    db_connection_timeout: int = count(2_000, "time to connect to the server (whole seconds, at least 2), and for a "
                                             "request to wait for a connection of the control plane", "ms", ge=1)
    db_statement_timeout: int = count(30_000, "statement_timeout; 0: none, and LIBQUEEN_INFLIGHT_DEADLINE_MS alone "
                                              "ends what takes too long", "ms")
    db_lock_timeout: int = count(10_000, "lock_timeout; 0: none", "ms")
    db_tcp_user_timeout_ms: int = count(30_000, "how long the server may leave sent data unconfirmed before the "
                                                "connection counts as lost; 0: as the system has it", "ms")
    db_keepalives_idle: int = count(60, "TCP keepalive: idle time", "s", ge=1, le=32_767)
    db_keepalives_interval: int = count(10, "TCP keepalive: interval", "s", ge=1, le=32_767)
    db_keepalives_count: int = count(3, "TCP keepalive: probes", ge=1, le=127)
    libqueen_inflight_deadline_ms: int | None = count(None, "a connection that has not answered for so long is "
                                                            "replaced; default: DB_STATEMENT_TIMEOUT + 5000, "
                                                            "35000 where that is 0", "ms",
                                                            ge=2000)


class Engine(BaseSettings):
    queend_slots: int | None = count(None, "PostgreSQL connections per worker; default: SIDECAR_POOL_SIZE / "
                                           "NUM_WORKERS, at least 2", "connections", ge=2, le=1000)
    queend_push_streams: int = count(1, "push streams of the process, each with one batch in flight", ge=1, le=64)
    queend_cache_bytes: int = count(32 << 20, "memory for the newest messages, from which consumers that keep up are "
                                              "served; 0: none", "bytes")
    queend_compress_from: int = count(1024, "rows of the log with so much payload are compressed (zstd; SQL cannot "
                                            "read their payloads); 0: never", "bytes")
    queend_dedupe_bytes: int = size(256 << 20, "memory for stored ids that are not UUIDs of version 7, so that the "
                                               "database need not look for them")
    queend_patience_ms: int = count(10000, "how long a request waits for a database that is away", "ms", ge=1)
    sidecar_pool_size: int | None = count(None, "PostgreSQL connections of all workers together, where QUEEND_SLOTS is "
                                                "not set; default: 8 for each worker", "connections", ge=1, le=10_000)
    sidecar_micro_batch_wait_ms: int | None = count(None, "longest hold of every job type that has no setting of its "
                                                          "own; default: 0", "ms")
    queen_concurrency_mode: Literal["vegas", "static"] = setting(
        "vegas", "how many calls are in flight at once: adapted or fixed")
    queen_vegas_min_limit: int = count(1, "least calls in flight", ge=1)
    queen_vegas_max_limit: int = count(32, "most calls in flight", ge=1)
    queen_vegas_alpha: int = count(3, "queueing below which the limit grows")
    queen_vegas_beta: int = count(12, "queueing above which it shrinks")
    queen_vegas_rtt_window_samples: int = count(50, "samples of the round-trip average", ge=1)
    queen_vegas_rtt_min_window_sec: int = count(30, "how long a smallest round trip is believed", "s", ge=1)
    queen_vegas_update_interval_ms: int = count(1000, "time between two changes of the limit", "ms", ge=1)


class Policies(BaseSettings):
    """QUEEN_<TYPE>_… of every job type; built from JOB_TYPES and ALONE."""

    __annotations__ = {}
    for _type, (_preferred, _most, _calls) in JOB_TYPES.items():
        for _name, _setting in (
                ("preferred_batch_size", count(_preferred, f"{_type}: with so many a hold ends", "jobs", ge=1)),
                ("max_hold_ms", count(None, f"{_type}: hold, from the first job on; default: 0, no longer than while a "
                                            f"call is in flight", "ms")),
                ("max_batch_size", count(_most, f"{_type}: most jobs of one call" + ("" if _most
                    else "; default: as many as fit"), "jobs", ge=1)),
                ("max_concurrent", count(_calls, f"{_type}: calls at once per worker" if _type != "push" else
                                         "push: streams at most, whatever QUEEND_PUSH_STREAMS says", "calls", ge=1))):
            __annotations__[f"queen_{_type}_{_name}"] = "int | None" if _setting.default is None else "int"
            locals()[f"queen_{_type}_{_name}"] = _setting
    for _type, _calls in ALONE.items():
        __annotations__[f"queen_{_type}_max_concurrent"] = "int"
        locals()[f"queen_{_type}_max_concurrent"] = count(_calls, f"{_type}: calls at once per worker", "calls", ge=1)
    del _type, _preferred, _most, _calls, _name, _setting


class Queues(BaseSettings):
    default_timeout: int = count(30_000, "long poll without timeout", "ms")
    default_batch_size: int = count(1, "pop without batch", "messages", ge=1, le=100_000)
    default_subscription_mode: Literal["", "all", "new", "new-only"] = setting("", "mode of groups that ask for none")
    queend_configure_replaces: bool = setting(False, "true: a configure returns every option that it does not name to "
                                                     "its default, as Queen MQ does; "
                                              "false: what it does not name stays", live=True)
    queend_strict: bool = setting(True, "true: a value that is none, a push item without payload, a name that is a "
                                        "known one but for its case or one letter, and, in POST /api/v1/configure, an "
                                        "option that stands beside `options`, are 400; false: they count as not given, "
                                        "as with Queen MQ")
    queend_priority_share: int = count(10, "pops of a namespace or task: of so many, one goes to queues of lower "
                                           "priority; 0: none", "pops")
    pop_wait_max_interval_ms: int = count(1_000, "while pops are parked: time between two looks for what other daemons "
                                                 "and SQL programs "
                                          "stored, from 20 to 30000; what is beyond counts as these", "ms", ge=1)


class Keeping(BaseSettings):
    retention_interval: int = count(300_000, "time between two looks for what retentionSeconds and "
                                             "completedRetentionSeconds let go", "ms", ge=100, live=True)
    retention_batch_size: int = count(1000, "removed per transaction", "log rows", ge=1, le=100_000, live=True)
    eviction_interval: int = count(60_000, "time between two looks for what waited longer than maxWaitTimeSeconds, or "
                                           "outlived its ttl", "ms", ge=100, live=True)
    eviction_batch_size: int = count(1000, "removed per transaction", "log rows", ge=1, le=100_000, live=True)
    partition_cleanup_days: int = count(30, "partitions that are empty and were left alone for so long are removed; 0: "
                                            "never", "days", le=36_500, live=True)


class Figures(BaseSettings):
    """Figures on pages."""

    stats_interval_ms: int = count(10_000, "figures of queues and groups: time between two looks for what changed",
                                   "ms", ge=100, live=True)
    stats_reconcile_interval_ms: int = count(120_000, "the same: time between two walks through everything", "ms",
                                             ge=1000, live=True)
    metrics_sample_interval_ms: int = count(1000, "metrics: time between two samples of a daemon", "ms", ge=100,
                                            live=True)
    metrics_aggregate_interval_s: int = count(60, "metrics: time between two writes of what was sampled", "s", ge=1,
                                              live=True)
    metrics_retention_days: int = count(90, "metrics: kept for", "days", ge=1, le=36_500, live=True)
    queend_metrics_queues: int = count(1000, "/metrics/prometheus tells of so many queues and so many groups by name, "
                                             "those furthest behind", "queues", le=100_000, live=True)


class Failover(BaseSettings):
    """The failover buffer (docs/failover.md)."""

    queend_buffer_bytes: int = size(1 << 30, "failover buffer: space on the disk; beyond: 503; 0: no buffer")
    file_buffer_dir: Path | None = setting(None, "failover buffer: folder; default: `buffer` in QUEEND_DATA_DIR. Each "
                                                 "daemon takes a folder of its own in it")
    file_buffer_flush_ms: int = count(100, "failover buffer: time between two tries to drain it", "ms", ge=1)
    file_buffer_max_batch: int = count(4000, "failover buffer: drained at once", "messages", ge=1, le=20_000)
    queend_buffer_adopt_ms: int = count(30_000, "failover buffer: what a daemon left behind that is gone for so long "
                                                "is drained by another of the same folder; 0: "
                                        "only by one that is started there", "ms", ge=0)
    file_buffer_events_per_file: int = count(100_000, "failover buffer: a file with so many is not written to any more",
                                             "messages", ge=1)


class Copying(BaseSettings):
    """Copying to another database (docs/migration.md)."""

    queend_migration_targets: str = setting("", "where /api/v1/migration may copy everything to: `host:port/database`, "
                                                "with commas, `host:port/*` for all of a server; empty: nowhere",
                                            live=True)
    queend_migration_step_ms: int = count(60_000, "how long a step of it may take in which nothing happens", "ms",
                                          ge=100)


class Sealing(BaseSettings):
    """Keys of encrypted queues (docs/encryption.md)."""

    queend_encryption_keys: str = setting("", "`id:hex,id:hex` of 64 digits each, the first seals, all open; or the "
                                              "path of a file with a key per line", secret=True)
    queend_refuse_plain: bool = setting(False, "true: a payload that is not sealed, in an encrypted queue, is not "
                                               "given to consumers; false: it is, and the log is told")
    queend_core_dumps: bool = setting(False, "true: the process may leave core dumps and be traced though it has keys")
    queen_encryption_key: str = setting("", "one key, 64 hexadecimal digits; seals where QUEEND_ENCRYPTION_KEYS has "
                                            "none, else only opens", secret=True)


class Telling(BaseSettings):
    """Notices between daemons of one database about what they committed (docs/peers.md)."""

    queen_udp_peers: str = setting("", "daemons of the same database, `host` or `host:port` with commas, this one may "
                                       "be among them: told over UDP what is committed here; empty: nobody is")
    queen_udp_notify_port: int = count(6633, "UDP port on which they are heard, and of those that are named without "
                                             "one", ge=1, le=65535)
    queen_peers: str = setting("", "the same over HTTP, for networks without UDP: `http://host:6632` with commas")
    peer_notify_batch_ms: int = count(10, "over HTTP: least time between two requests to one of them", "ms", ge=1,
                                      le=60_000)
    queen_sync_enabled: bool = setting(True, "false: QUEEN_UDP_PEERS and QUEEN_PEERS count as empty")
    queen_sync_secret: str = setting("", "64 characters that all of them have: what is said without them is not heeded",
                                     secret=True)
    queen_sync_heartbeat_ms: int = count(1000, "who has nothing to tell says that it lives", "ms", ge=10, le=60_000)
    queen_sync_dead_threshold_ms: int = count(5000, "who is silent for so long counts as dead", "ms", ge=20,
                                              le=3_600_000)
    queen_sync_recv_buffer_mb: int = count(8, "memory of the kernel for packets that were not read yet", "MiB", ge=1,
                                           le=1024)


class Tokens(BaseSettings):
    """Bearer tokens (docs/auth.md)."""

    jwt_enabled: bool = setting(False, "true: every request needs a token; false: none is looked at")
    jwt_algorithm: Literal["HS256", "RS256", "EdDSA", "auto"] = setting(
        "HS256", "HS256, RS256, EdDSA or auto: what the token says, of those that have a key", live=True)
    jwt_secret: str = setting("", "HS256 secret", secret=True, live=True)
    jwt_public_key: str = setting("", "PEM of RS256 or EdDSA, wins over the key set", live=True)
    jwt_jwks_url: str = setting("", "key set, https", live=True)
    jwt_jwks_refresh_interval: int = count(3600, "key set: fetched again after", "s", ge=1, live=True)
    jwt_jwks_timeout_ms: int = count(5000, "key set: time limit of a fetch", "ms", ge=1, live=True)
    jwt_issuer: str = setting("", "iss, checked if set", live=True)
    jwt_audience: str = setting("", "aud, checked if set", live=True)
    jwt_clock_skew: int = count(30, "how far clocks may be apart in exp, nbf and iat", "s", live=True)
    jwt_require_exp: bool = setting(True, "true: a token without exp is refused; false: it is good for ever, as with "
                                          "Queen MQ", live=True)
    jwt_skip_paths: str = setting(
        "/health,/metrics,/", "paths without token, and all below those that end with a slash; with "
                              "`/metrics/prometheus` whoever reaches the port reads the figures of all queues")
    jwt_roles_claim: str = setting("role", "claim with a role", live=True)
    jwt_roles_array_claim: str = setting("roles", "claim with a list of roles", live=True)
    jwt_role_admin: str = setting("admin", "role that may do everything", live=True)
    jwt_role_read_write: str = setting("read-write", "role that may produce, consume and configure", live=True)
    jwt_role_read_only: str = setting("read-only", "role that may look", live=True)
    queend_jwt_queues_claim: str = setting("", "claim with queue permissions; empty: no claim is one", live=True)
    jwt_require_queues: bool = setting(False, "true: a token without the claim that QUEEND_JWT_QUEUES_CLAIM names may "
                                              "use no queue; false: it may use all of them", live=True)
    queend_jwt_tokens: int = count(16384, "verified tokens remembered", "tokens", ge=8, le=1 << 24)
    queend_jwt_jwks_pause_ms: int = count(10_000, "key set: least time between fetches for unknown keys", "ms",
                                          live=True)
    queend_jwt_jwks_private: bool = setting(False, "key set: may be at an address that is not public", live=True)
