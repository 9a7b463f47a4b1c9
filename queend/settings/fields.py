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
    "push": (50, None, 24), "pop": (20, 500, 16), "ack": (50, 500, 16), "renew_lease": (10, 100, 2),
    "kv": (50, 200, 4)}
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
    host: str | None = setting(None, "Address to listen on. Default: 0.0.0.0 with JWT_ENABLED, else 127.0.0.1 (this "
                                     "machine only).")
    port: int = count(6632, "HTTP port; 0 picks a free port.", le=65535)
    queend_tls_cert: Path | None = setting(None, "File with the certificate of the port in PEM format, followed by "
                                                 "those between it and its authority. With it, the port speaks TLS "
                                                 "only (docs/production.md). A changed file is used within "
                                                 "a minute, and at SIGHUP.")
    queend_tls_key: Path | None = setting(None, "File with the private key of QUEEND_TLS_CERT in PEM format, without a "
                                                "password.")
    queend_tls_client_ca: Path | None = setting(None, "File with the authorities of client certificates in PEM format. "
                                                      "The certificate of a client names the producer of what it "
                                                      "pushes. Default: clients are not asked for a certificate.")
    queend_tls_client_required: bool = setting(False, "true: clients without a certificate of QUEEND_TLS_CLIENT_CA are "
                                                      "refused; false: a client may have none.")
    num_workers: int = count(max(1, (os.cpu_count() or 2) // 2),
                             "Number of worker threads; each has its own event loop and connections.", ge=1, le=256)
    log_level: Literal[LOG_LEVELS] = setting(      # type: ignore[valid-type]
        "info", "Log level: lines of this level and above are written.", live=True)
    queend_request_log: Literal["off", "sampled", "all"] = setting(
        "off", "Access log: off; sampled (one of QUEEND_REQUEST_LOG_SHARE answers, and every 5xx); all. Payloads are "
               "never logged.")
    queend_request_log_share: int = count(100, "Sampling of the access log: one of this many answers is "
                                               "logged.", "requests", ge=1)
    queend_otlp_endpoint: str = setting("", "URL of an OpenTelemetry collector, like http://host:4318. It receives "
                                            "spans of pushes, deliveries, acknowledgments, transactions and stream "
                                            "cycles of sampled traces.")
    queend_otlp_headers: str = setting("", "HTTP headers for the collector: name=value, separated by "
                                           "commas.", secret=True)
    queend_otlp_share: int = count(1, "Sampling of traces: one of this many sampled traces is "
                                      "exported.", "traces", ge=1)
    webapp_root: str = setting("", "Directory of a web application, served below /. Default: webapp/dist in the "
                                   "working directory or up to two directories above, if it exists.")
    queend_dashboard: bool = setting(True, "Serve the built-in dashboard (docs/dashboard.md) below /, unless a web "
                                           "application is served (WEBAPP_ROOT).")
    cors_origins: str = setting("", "Origins whose pages may send requests and read answers: `https://app.example`, "
                                    "separated by commas; `*`: any. Without JWT_ENABLED, requests from other origins "
                                    "are refused.")
    queend_hosts: str = setting("", "Additional names allowed in the Host header, separated by commas; `*`: any. "
                                    "Checked while the daemon listens on this machine only and requires no tokens.")
    queend_data_dir: Path = setting(Path(".queend"), "Directory of the embedded PostgreSQL and its lock. A relative "
                                                     "path starts at the working directory.")
    queend_listen_mode: Literal["acceptor", "reuseport"] = setting(
        "acceptor", "How connections are accepted: by one thread that distributes them to the workers in turn, or by "
                    "every worker.")
    queend_max_body_bytes: int = count(64 << 20, "Maximum size of a request body; beyond: 413.", "bytes", ge=1024)
    queend_max_queued_jobs: int = count(100_000, "Maximum number of requests of one worker that wait for PostgreSQL; "
                                                 "beyond: 503.", "jobs", ge=1)
    queend_max_queued_bytes: int = size(128 << 20, "Memory for requests that are not answered yet, shared equally "
                                                   "among the workers. Beyond, the bodies of large requests are not "
                                                   "read until there is room.", ge=1 << 20)
    queend_stuck_ms: int = count(30_000, "A worker whose event loop has not run for this time is stuck: /livez answers "
                                         "503, and the systemd watchdog is no longer notified; 0: never.", "ms")
    queend_control_stuck_ms: int = count(600_000, "The event loop of the control plane is stuck after this time: "
                                                  "/livez answers 503, and the systemd watchdog is no longer notified; "
                                                  "0: never.", "ms")
    queend_shutdown_grace_ms: int = count(10_000, "Grace period for running requests at shutdown.", "ms", live=True)


class Clients(BaseSettings):
    """Limits on what all clients together may take (SECURITY.md)."""

    queend_max_connections: int | None = count(None, "Maximum number of client connections; beyond: 503. Default: the "
                                                     "limit of file descriptors, minus those that the daemon needs "
                                                     "itself.",
                                               "connections", ge=1, live=True)
    queend_max_connections_per_address: int | None = count(
        None, "Maximum number of client connections per IP address (IPv6: per /64); beyond: 429. Default: half of "
              "QUEEND_MAX_CONNECTIONS; 0: no separate limit.", "connections", live=True)
    queend_max_control_body_bytes: int = count(1 << 20, "Maximum size of a request body of all other routes: not "
                                                        "pushes, acknowledgments, transactions, stream cycles and "
                                                        "state queries; beyond: 413.",
                                               "bytes", ge=1024)
    queend_max_open_body_bytes: int | None = count(None, "Maximum size of a request body that needs no token: without "
                                                   "JWT_ENABLED, and on JWT_SKIP_PATHS; beyond: 413. Default: no "
                                                   "separate limit.", "bytes", ge=1024)
    queend_max_arriving_bytes: int | None = size(None, "Memory for requests that have not fully arrived; beyond: 503. "
                                                       "Default: 128 MiB, or twice QUEEND_MAX_BODY_BYTES if that is "
                                                       "more. Half of it while unread answers fill their own bound.",
                                                 ge=1 << 20)
    queend_max_untaken_bytes: int = size(128 << 20, "Memory for answers that clients have not read. Beyond, pops are "
                                                    "refused with 503, and connections that read too little are "
                                                    "closed. Half of it while requests that arrive fill their bound.",
                                         ge=1 << 20)
    queend_max_untaken_connection_bytes: int = size(
        64 << 20, "Memory for unread answers per connection, if there is more than one answer; beyond: the connection "
                  "is closed.",
        ge=1 << 20)
    queend_max_queues: int = count(200_000, "Maximum number of queues in the database; beyond: 409; 0: no "
                                            "limit.", "queues")
    queend_max_partitions: int = count(2_000_000, "Maximum number of partitions per queue; beyond: 409; 0: no "
                                                  "limit.", "partitions")
    queend_max_groups: int = count(10_000, "Maximum number of consumer groups per queue; beyond: 409; 0: no "
                                           "limit.", "groups")
    queend_max_parked: int = count(65_536, "Maximum number of parked long polls; beyond: 503.", "pops")
    queend_least_rate: int = count(1024, "Minimum transfer rate. A request body that arrives more slowly for 30 s is "
                                         "refused with 408; a connection that reads its answers more slowly for 60 s "
                                         "is closed; 0: no limit.", "bytes/s")


class Database(BaseSettings):
    queend_dsn: str = setting("", "libpq connection string or URI. Replaces PG_HOST to PG_DB and PG_USE_SSL.",
                              secret=True)
    database_url: str = setting("", "libpq connection string or URI, used if QUEEND_DSN is not set.", secret=True)
    pg_host: str = setting("localhost", "Name, address or socket directory of the PostgreSQL server.")
    pg_port: int = count(5432, "Port of the PostgreSQL server.", ge=1, le=65535)
    pg_db: str = setting("postgres", "database")
    pg_user: str = setting("postgres", "user")
    pg_password: str = setting("postgres", "password", secret=True)
    pg_use_ssl: bool = setting(False, "true: require TLS; false: do not use TLS.")
    pg_ssl_reject_unauthorized: bool = setting(True, "true: verify the server's certificate and host name "
                                                     "(docs/inside/decisions/server.md); false: accept any "
                                                     "certificate.")
    db_pool_size: int = count(150, "Size of the control plane's connection pool: at most a twentieth of this number, "
                                   "and a tenth for stream calls; at least 2 each.", "connections", ge=1, le=10_000)
    db_idle_timeout: int = count(30_000, "idle_in_transaction_session_timeout of PostgreSQL; 0: none.", "ms")
    db_connection_timeout: int = count(2_000, "Timeout of a connection attempt (whole seconds, at least 2), and of the "
                                              "wait for a connection of the control plane's pool.", "ms", ge=1)
    db_statement_timeout: int = count(30_000, "statement_timeout of PostgreSQL; 0: none, only "
                                              "LIBQUEEN_INFLIGHT_DEADLINE_MS ends long statements.", "ms")
    db_lock_timeout: int = count(10_000, "lock_timeout of PostgreSQL; 0: none.", "ms")
    db_tcp_user_timeout_ms: int = count(30_000, "TCP_USER_TIMEOUT: a connection is lost if sent data is not confirmed "
                                                "for this time; 0: the system's default.", "ms")
    db_keepalives_idle: int = count(60, "TCP keepalive: idle time before the first probe.", "s", ge=1, le=32_767)
    db_keepalives_interval: int = count(10, "TCP keepalive: interval between probes.", "s", ge=1, le=32_767)
    db_keepalives_count: int = count(3, "TCP keepalive: number of probes.", ge=1, le=127)
    libqueen_inflight_deadline_ms: int | None = count(None, "A connection without an answer for this time is replaced. "
                                                      "Default: DB_STATEMENT_TIMEOUT + 5000, or 35000 if that is "
                                                      "0.", "ms",
                                                            ge=2000)


class Engine(BaseSettings):
    queend_slots: int | None = count(None, "PostgreSQL connections per worker. Default: SIDECAR_POOL_SIZE / "
                                           "NUM_WORKERS, at least 2.", "connections", ge=2, le=1000)
    queend_push_streams: int = count(1, "Push streams of the daemon; each has one batch in flight.", ge=1, le=64)
    queend_cache_bytes: int = count(32 << 20, "Memory for the newest messages, which serves consumers without lag from "
                                              "memory; 0: none.", "bytes")
    queend_compress_from: int = count(1024, "Rows of the log with at least this much payload are compressed with zstd; "
                                            "SQL cannot read their payloads; 0: never.", "bytes")
    queend_dedupe_bytes: int = size(256 << 20, "Memory for stored transaction ids that are not UUIDs of version 7. It "
                                               "saves lookups of duplicates in the database.")
    queend_ephemeral_bytes: int = size(64 << 20, "Memory of all ephemeral queues together; beyond: 429; 0: no "
                                                 "ephemeral queues.")
    queend_patience_ms: int = count(10000, "How long a request waits for an unavailable database before it is "
                                           "refused.", "ms", ge=1)
    sidecar_pool_size: int | None = count(None, "PostgreSQL connections of all workers together, used if QUEEND_SLOTS "
                                                "is not set. Default: 8 per worker.", "connections", ge=1, le=10_000)
    sidecar_micro_batch_wait_ms: int | None = count(None, "Maximum linger of every job type without a setting of its "
                                                    "own. Default: 0.", "ms")
    queen_concurrency_mode: Literal["vegas", "static"] = setting(
        "vegas", "Limit of concurrent calls: adapted to the latency, or fixed.")
    queen_vegas_min_limit: int = count(1, "Minimum number of concurrent calls.", ge=1)
    queen_vegas_max_limit: int = count(32, "Maximum number of concurrent calls.", ge=1)
    queen_vegas_alpha: int = count(3, "The limit grows while the estimated queue is shorter than this.")
    queen_vegas_beta: int = count(12, "The limit shrinks while the estimated queue is longer than this.")
    queen_vegas_rtt_window_samples: int = count(50, "Number of samples in the average round trip.", ge=1)
    queen_vegas_rtt_min_window_sec: int = count(30, "How long the smallest measured round trip is used.", "s", ge=1)
    queen_vegas_update_interval_ms: int = count(1000, "Minimum time between two changes of the limit.", "ms", ge=1)


class Policies(BaseSettings):
    """QUEEN_<TYPE>_… of every job type; built from JOB_TYPES and ALONE."""

    __annotations__ = {}
    for _type, (_preferred, _most, _calls) in JOB_TYPES.items():
        for _name, _setting in (
                ("preferred_batch_size", count(_preferred, f"{_type}: number of jobs that end the "
                 "linger", "jobs", ge=1)),
                ("max_hold_ms", count(None, f"{_type}: maximum linger, counted from the first job. Default: 0, linger "
                                            "only while a call is in flight", "ms")),
                ("max_batch_size", count(_most, f"{_type}: maximum number of jobs per call" + ("" if _most
                    else ". Default: as many as fit"), "jobs", ge=1)),
                ("max_concurrent", count(_calls, f"{_type}: maximum number of concurrent calls per "
                                                 "worker" if _type != "push" else
                                         "push: maximum number of push streams; limits "
                                         "QUEEND_PUSH_STREAMS", "calls", ge=1))):
            __annotations__[f"queen_{_type}_{_name}"] = "int | None" if _setting.default is None else "int"
            locals()[f"queen_{_type}_{_name}"] = _setting
    for _type, _calls in ALONE.items():
        __annotations__[f"queen_{_type}_max_concurrent"] = "int"
        locals()[f"queen_{_type}_max_concurrent"] = count(_calls, f"{_type}: maximum number of concurrent calls per "
                                                          "worker", "calls", ge=1)
    del _type, _preferred, _most, _calls, _name, _setting


class Queues(BaseSettings):
    default_timeout: int = count(30_000, "Timeout of a long poll that names none.", "ms")
    default_batch_size: int = count(1, "Batch size of a pop that names none.", "messages", ge=1, le=100_000)
    default_subscription_mode: Literal["", "all", "new", "new-only"] = setting("", "Subscription mode of groups that "
                                                                               "name none.")
    queend_configure_replaces: bool = setting(False, "true: a configure request resets every option that it does not "
                                                     "name, like Queen MQ; false: such options keep their "
                                                     "values.", live=True)
    queend_strict: bool = setting(True, "true: answer 400 to invalid values, push items without payload, names that "
                                        "differ from a known one in case, `_`, `-` or one letter, and options beside "
                                        "`options` in POST /api/v1/configure; false: ignore them, like Queen MQ, "
                                        "except for invalid values of `leaseSeconds`, `credit`, `heartbeat` "
                                        "and `window`.")
    queend_priority_share: int = count(10, "Pops by namespace or task: one of this many pops takes from queues of "
                                           "lower priority; 0: none.", "pops")
    pop_wait_max_interval_ms: int = count(1_000, "Interval between two looks for messages of other daemons and SQL "
                                                 "clients while pops are parked. Values below 20 count as 20, values "
                                                 "above 30000 as 30000.", "ms", ge=1)


class Keeping(BaseSettings):
    retention_interval: int = count(300_000, "Interval between two passes of retention (retentionSeconds and "
                                             "completedRetentionSeconds).", "ms", ge=100, live=True)
    retention_batch_size: int = count(1000, "Retention: maximum number of rows removed per "
                                            "transaction.", "log rows", ge=1, le=100_000, live=True)
    eviction_interval: int = count(60_000, "Interval between two passes that remove messages older than "
                                           "maxWaitTimeSeconds or their ttl.", "ms", ge=100, live=True)
    eviction_batch_size: int = count(1000, "Removal by maxWaitTimeSeconds and ttl: maximum number of rows removed per "
                                           "transaction.", "log rows", ge=1, le=100_000, live=True)
    partition_cleanup_days: int = count(30, "Empty partitions without activity for this time are removed; 0: "
                                            "never.", "days", le=36_500, live=True)


class Figures(BaseSettings):
    """Figures on pages."""

    stats_interval_ms: int = count(10_000, "Statistics of queues and groups: interval between two looks for changes.",
                                   "ms", ge=100, live=True)
    stats_reconcile_interval_ms: int = count(120_000, "Statistics of queues and groups: interval between two complete "
                                                      "recounts.", "ms",
                                             ge=1000, live=True)
    metrics_sample_interval_ms: int = count(1000, "Metrics history: interval between two samples of a "
                                                  "daemon.", "ms", ge=100,
                                            live=True)
    metrics_aggregate_interval_s: int = count(60, "Metrics history: interval between two writes of the "
                                                  "samples.", "s", ge=1,
                                              live=True)
    metrics_retention_days: int = count(90, "Metrics history: retention.", "days", ge=1, le=36_500, live=True)
    queend_metrics_queues: int = count(1000, "/metrics/prometheus lists this many queues and this many groups by name, "
                                             "those with the highest lag.", "queues", le=100_000, live=True)


class Failover(BaseSettings):
    """The failover buffer (docs/failover.md)."""

    queend_buffer_bytes: int = size(1 << 30, "Failover buffer: maximum disk space; beyond: 503; one client address can "
                                             "use three quarters of it; 0: no buffer.")
    file_buffer_dir: Path | None = setting(None, "Failover buffer: directory. Default: `buffer` in QUEEND_DATA_DIR. "
                                                 "Each daemon uses a subdirectory of its own.")
    file_buffer_flush_ms: int = count(100, "Failover buffer: interval between two attempts to drain it.", "ms", ge=1)
    file_buffer_max_batch: int = count(4000, "Failover buffer: messages drained per "
                                             "batch.", "messages", ge=1, le=4000)
    queend_buffer_adopt_ms: int = count(30_000, "Failover buffer: another daemon with the same directory drains what a "
                                                "stopped daemon left behind after this time; 0: only a daemon that "
                                                "starts there does.", "ms", ge=0)
    file_buffer_events_per_file: int = count(100_000, "Failover buffer: maximum number of messages per file.",
                                             "messages", ge=1)


class Copying(BaseSettings):
    """Copying to another database (docs/migration.md)."""

    queend_migration_targets: str = setting("", "Databases to which /api/v1/migration may copy: `host:port/database`, "
                                                "separated by commas; `host:port/*` allows all databases of a server; "
                                                "empty: none.",
                                            live=True)
    queend_migration_step_ms: int = count(60_000, "A step of a copy that makes no progress for this time fails.", "ms",
                                          ge=100)


class Sealing(BaseSettings):
    """Keys of encrypted queues (docs/encryption.md)."""

    queend_encryption_keys: str = setting("", "Keys as `id:hex,id:hex` with 64 hexadecimal digits each, or the path of "
                                              "a file with one key per line. The first key encrypts; all keys "
                                              "decrypt.", secret=True)
    queend_refuse_plain: bool = setting(False, "true: do not deliver unencrypted payloads of an encrypted queue; "
                                               "false: deliver them and write a log line.")
    queend_core_dumps: bool = setting(False, "true: allow core dumps and tracing of the process although it holds "
                                             "keys.")
    queen_encryption_key: str = setting("", "One key of 64 hexadecimal digits. It encrypts if QUEEND_ENCRYPTION_KEYS "
                                            "has no key; otherwise it only decrypts.", secret=True)


class Telling(BaseSettings):
    """Notices between daemons of one database about what they committed (docs/peers.md)."""

    queen_udp_peers: str = setting("", "Daemons of the same database: `host` or `host:port`, separated by commas; this "
                                       "daemon may be in the list. They are notified over UDP of commits here; empty: "
                                       "none.")
    queen_udp_notify_port: int = count(6633, "UDP port to receive notices on, and the default port of "
                                             "QUEEN_UDP_PEERS.", ge=1, le=65535)
    queen_peers: str = setting("", "Daemons of the same database that are notified over HTTP, for networks without "
                                   "UDP: `http://host:6632`, separated by commas. One without a scheme "
                                   "is reached as this daemon is.")
    peer_notify_batch_ms: int = count(10, "Minimum interval between two notices to the same peer over "
                                          "HTTP.", "ms", ge=1,
                                      le=60_000)
    queen_sync_enabled: bool = setting(True, "false: ignore QUEEN_UDP_PEERS and QUEEN_PEERS.")
    queen_sync_secret: str = setting("", "Shared secret of the peers, 64 characters; notices without it are ignored.",
                                     secret=True)
    queen_sync_heartbeat_ms: int = count(1000, "Interval of heartbeats to peers when there is nothing to "
                                               "report.", "ms", ge=10, le=60_000)
    queen_sync_dead_threshold_ms: int = count(5000, "A peer that sends nothing for this time counts as "
                                                    "dead.", "ms", ge=20,
                                              le=3_600_000)
    queen_sync_recv_buffer_mb: int = count(8, "Size of the socket buffer for received UDP packets.", "MiB", ge=1,
                                           le=1024)


class Tokens(BaseSettings):
    """Bearer tokens (docs/auth.md)."""

    jwt_enabled: bool = setting(False, "true: every request needs a token; false: tokens are not checked.")
    jwt_algorithm: Literal["HS256", "RS256", "EdDSA", "auto"] = setting(
        "HS256", "Signature algorithm: HS256, RS256, EdDSA; auto accepts the algorithm that the token names, if a key "
                 "for it is set.", live=True)
    jwt_secret: str = setting("", "Secret for HS256.", secret=True, live=True)
    jwt_public_key: str = setting("", "Public key for RS256 or EdDSA in PEM format. Takes precedence over "
                                      "JWT_JWKS_URL.", live=True)
    jwt_jwks_url: str = setting("", "URL (https) of the JSON Web Key Set.", live=True)
    jwt_jwks_refresh_interval: int = count(3600, "Key set: interval between two fetches.", "s", ge=1, live=True)
    jwt_jwks_timeout_ms: int = count(5000, "Key set: timeout of a fetch.", "ms", ge=1, live=True)
    jwt_issuer: str = setting("", "Expected issuer (iss); not checked if empty.", live=True)
    jwt_audience: str = setting("", "Expected audience (aud); not checked if empty.", live=True)
    jwt_clock_skew: int = count(30, "Allowed clock skew for exp, nbf and iat.", "s", live=True)
    jwt_require_exp: bool = setting(True, "true: refuse tokens without exp; false: such tokens never expire, like with "
                                          "Queen MQ.", live=True)
    jwt_skip_paths: str = setting(
        "/health,/metrics,/", "Paths that need no token, separated by commas; a path that ends with a slash includes "
                              "all paths below it. With `/metrics/prometheus`, everyone who reaches the port can read "
                              "the metrics of all queues.")
    jwt_roles_claim: str = setting("role", "Claim with one role.", live=True)
    jwt_roles_array_claim: str = setting("roles", "Claim with a list of roles.", live=True)
    jwt_role_admin: str = setting("admin", "Name of the role with all rights.", live=True)
    jwt_role_read_write: str = setting("read-write", "Name of the role that may push, consume and "
                                                     "configure.", live=True)
    jwt_role_read_only: str = setting("read-only", "Name of the role that may only read.", live=True)
    queend_jwt_queues_claim: str = setting("", "Claim with permissions per queue; empty: none.", live=True)
    jwt_require_queues: bool = setting(False, "true: a token without the claim of QUEEND_JWT_QUEUES_CLAIM may use no "
                                              "queue; false: it may use all queues.", live=True)
    queend_jwt_tokens: int = count(16384, "Maximum number of verified tokens in memory.", "tokens", ge=8, le=1 << 24)
    queend_jwt_jwks_pause_ms: int = count(10_000, "Key set: minimum interval between two fetches because of unknown "
                                                  "keys.", "ms",
                                          live=True)
    queend_jwt_jwks_private: bool = setting(False, "true: the key set may be at an address that is not "
                                                   "public.", live=True)
