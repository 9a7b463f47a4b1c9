"""Converts settings: to a libpq connection string, and to the flat dictionary of the core."""
from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from . import log, session
from .service.edition import edition_in
from .service.migrate import sql_folder
from .settings.dsn import dsn_words
from .settings.fields import JOB_TYPES
from .settings.keyring import keyring
from .settings.messages import ConfigError
from .settings.model import Settings

SYSTEM_ROOTS = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
RESERVE = 256            # descriptors for files, services and what libraries open
LARGE_PATHS = (          # of the control plane, whose bodies may be as large as those of the data plane
    "/streams/v1/state/get",       # 100 000 keys of 2 kB
)
# Plans of the hot functions are nested loops over primary keys, whatever the statistics say.
HOT_PLANS = ("-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off -c enable_sort=off "
             "-c jit=off -c enable_nestloop=on -c enable_indexscan=on -c enable_indexonlyscan=on")
# Options of the control plane. A statement ends a second after the connection of its waiting request was closed.
PAGES = "-c jit=off -c client_connection_check_interval=1000"
# Settings of every session, whatever ALTER DATABASE, ALTER ROLE or the DSN say: the functions are written for them. The
# operator keeps default_transaction_read_only, which forbids writing and is obeyed (docs/failover.md), and every
# setting that changes no result. lock_timeout, statement_timeout and idle_in_transaction_session_timeout have settings
# of their own.
SESSION = {
    # a push under its lanes must see what was committed while it waited for them
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "idle_session_timeout": "0",                          # connections wait for work
    "search_path": "pg_catalog",                          # all names of the functions are qualified
    "standard_conforming_strings": "on",                  # '\x10' in a function is one byte
    "array_nulls": "on",
    "transform_null_equals": "off",
    "bytea_output": "hex",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "1",
    # accepted messages are stored without a bound (sql/function/names.sql)
    "queend.max_queues": "0",
    "queend.max_partitions": "0",
    "queend.max_groups": "0",
}


def session_options() -> str:
    """Returns SESSION as libpq's `options`."""
    return " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in SESSION.items())


def bounds(settings: Settings) -> str:
    """Returns how many queues, partitions and groups a session of clients may create, as libpq's `options`."""
    return (f"-c queend.max_queues={settings.queend_max_queues} -c "
            f"queend.max_partitions={settings.queend_max_partitions} -c queend.max_groups={settings.queend_max_groups}")


def with_options(conninfo: str, *options: str) -> str:
    """Returns the connection string with these options after its own: the last one wins."""
    return make_conninfo(conninfo, options=" ".join(
        one for one in (conninfo_to_dict(conninfo).get("options") or "", *options) if one))


def conninfo(settings: Settings, local: str | None = None, **more: str) -> str:
    """Returns the connection string of the database in use. `local`: the embedded cluster's, which replaces the
    configured one.

    Raises ConfigError for a DSN libpq cannot read.
    """
    if local is not None:
        base = conninfo_to_dict(local)
    elif settings.queend_dsn or settings.database_url:
        base = dsn_words(settings)
    else:
        base = {"host": settings.pg_host, "port": settings.pg_port, "dbname": settings.pg_db, "user": settings.pg_user,
                "password": settings.pg_password, **tls(settings)}
    defaults = {
        "connect_timeout": max(2, -(-settings.db_connection_timeout // 1000)),  # libpq knows whole seconds, at least 2
        "tcp_user_timeout": settings.db_tcp_user_timeout_ms,
        "keepalives": 1,
        "keepalives_idle": settings.db_keepalives_idle,
        "keepalives_interval": settings.db_keepalives_interval,
        "keepalives_count": settings.db_keepalives_count,
        "application_name": "queend",
        "client_encoding": "UTF8",  # names cross the wire as UTF-8, whatever the encoding of the database
    }
    if "," in f"{base.get('host') or ''}{base.get('hostaddr') or ''}":
        defaults["target_session_attrs"] = "read-write"  # else a standby that is named first would refuse every push
    limits = (f"-c statement_timeout={settings.db_statement_timeout} -c lock_timeout={settings.db_lock_timeout}"
              f" -c idle_in_transaction_session_timeout={settings.db_idle_timeout}")
    options = " ".join(part for part in (limits, more.pop("options", ""), base.pop("options", ""),
                                         session_options()) if part)
    return make_conninfo(**{**defaults, **base, **more, "options": options})


def tls(settings: Settings) -> dict[str, str]:
    """Returns libpq's TLS words for PG_USE_SSL and PG_SSL_REJECT_UNAUTHORIZED (docs/inside/decisions/server.md)."""
    if not settings.pg_use_ssl:
        return {"sslmode": "disable"}
    if not settings.pg_ssl_reject_unauthorized:
        return {"sslmode": "require"}
    if root := roots():
        return {"sslmode": "verify-full", "sslrootcert": root}
    raise ConfigError("PG_SSL_REJECT_UNAUTHORIZED: no certificate authorities found on this system; set PGSSLROOTCERT")


def roots() -> str:
    """Returns the file of the trusted authorities; empty if there is none."""
    return os.environ.get("PGSSLROOTCERT") or next((path for path in SYSTEM_ROOTS if Path(path).exists()), "")


def verifies_server(settings: Settings) -> bool:
    """Returns False if TLS is requested, by setting or connection string, and the server's certificate is not
    checked."""
    if settings.queend_dsn or settings.database_url:
        return dsn_words(settings).get("sslmode") not in ("allow", "prefer", "require")
    return not settings.pg_use_ssl or tls(settings)["sslmode"] == "verify-full"


def connections(settings: Settings, slots: int) -> dict[str, int]:
    """Returns the limits on client connections. slots: connections of the data plane, which need descriptors as
    well."""
    most = settings.queend_max_connections
    if most is None:
        there = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = 2**31 - 1 if there == resource.RLIM_INFINITY else max(
            there // 2, there - slots - settings.db_pool_size - RESERVE)
    one = settings.queend_max_connections_per_address
    return {"max_connections": most, "max_per_address": -(-most // 2) if one is None else one}


def deadline_ms(settings: Settings) -> int:
    """Returns how long a connection may take to answer. Without a statement_timeout this is the only bound."""
    limit = settings.db_statement_timeout or Settings.model_fields["db_statement_timeout"].default
    return settings.libqueen_inflight_deadline_ms or min(limit + 5000, 2**31 - 1)


# Settings that the core takes unchanged, by the core's name.
CORE = {name.removeprefix("queend_").removeprefix("queen_"): name for name in (
    "port", "queend_listen_mode", "log_level", "queend_push_streams", "queend_cache_bytes", "queend_compress_from",
    "queend_dedupe_bytes", "queend_patience_ms", "queend_stuck_ms", "queend_control_stuck_ms", "queend_max_queues",
    "queend_max_partitions", "queend_max_groups", "queend_max_parked", "queend_least_rate", "queend_max_queued_jobs",
    "queend_max_queued_bytes", "queend_buffer_bytes", "queend_refuse_plain", "queend_strict", "queend_priority_share",
    "queen_concurrency_mode", "queen_vegas_min_limit", "queen_vegas_max_limit", "queen_vegas_alpha",
    "queen_vegas_beta", "queen_vegas_rtt_window_samples", "queen_vegas_rtt_min_window_sec",
    "queen_vegas_update_interval_ms", "queen_streams_cycle_max_concurrent", "queen_transaction_max_concurrent")} | {
    "workers": "num_workers", "max_body": "queend_max_body_bytes", "max_untaken": "queend_max_untaken_bytes",
    "max_untaken_of_one": "queend_max_untaken_connection_bytes", "buffer_records": "file_buffer_events_per_file",
    "buffer_chunk": "file_buffer_max_batch", "buffer_pause_ms": "file_buffer_flush_ms",
    "default_timeout_ms": "default_timeout", "default_batch": "default_batch_size",
    "look_ms": "pop_wait_max_interval_ms"}


def slots_of(settings: Settings) -> int:
    """Returns the number of connections to PostgreSQL per worker."""
    slots = settings.queend_slots
    if slots is None:
        every = settings.sidecar_pool_size
        slots = 8 if every is None else -(-every // settings.num_workers)
    return max(2, slots)


def changing(settings: Settings) -> dict[str, Any]:
    """Returns the core settings that may change while the core runs."""
    return {"log_level": settings.log_level, **connections(settings, slots_of(settings) * settings.num_workers)}


def core_settings(settings: Settings, local: str | None = None, buffer_dir: str = "",
                  sockets: Sequence[int] = ()) -> dict[str, Any]:
    """Returns the core's settings: flat, numbers and strings only. buffer_dir: this process's own; empty: no buffer.
    sockets: already listening; None: the core binds HOST and PORT."""
    slots = slots_of(settings)
    address, made = session.parted(conninfo(settings, local, options=HOT_PLANS))
    body, mode = settings.queend_max_body_bytes, settings.default_subscription_mode or "all"
    flat: dict[str, Any] = {name: getattr(settings, setting) for name, setting in CORE.items()}
    flat["trace_share"] = settings.queend_otlp_share if settings.queend_otlp_endpoint else 0
    flat["request_log"] = {"off": 0, "sampled": settings.queend_request_log_share, "all": 1}[
        settings.queend_request_log]
    flat |= connections(settings, slots * settings.num_workers) | {
        "host": settings.address(), "sockets": ",".join(map(str, sockets)), "conninfo": address,
        "session": session.statement(made),
        "slots_per_worker": slots, "hidden": log.hidden(), "edition": edition_in(sql_folder()).number,
        "max_control_body": min(settings.queend_max_control_body_bytes, body),
        "max_open_body": settings.queend_max_open_body_bytes or body, "large_paths": ",".join(LARGE_PATHS),
        "max_arriving": settings.queend_max_arriving_bytes or max(128 << 20, 2 * body), "buffer_dir": buffer_dir,
        "inflight_deadline_ms": deadline_ms(settings),
        "seal_keys": ",".join(f"{name}:{key.hex()}" for name, key in keyring(settings)),
        "grants": settings.queend_jwt_tokens if settings.jwt_enabled else 0,
        "guards_pages": int(not settings.jwt_enabled), "origins": ",".join(settings.origins()),
        "hosts": ",".join(settings.hosts()), "open_paths": ",".join(settings.open_paths()),
        "default_sub_mode": "new" if mode == "new-only" else mode}
    shared_hold = settings.sidecar_micro_batch_wait_ms or 0
    for job in JOB_TYPES:
        for name in ("preferred_batch_size", "max_hold_ms", "max_batch_size", "max_concurrent"):
            value = getattr(settings, f"queen_{job}_{name}")
            if value is not None or name == "max_hold_ms":
                flat[f"{job}_{name}"] = shared_hold if value is None else value
    return flat
