"""The connection strings of the daemon: from its settings to libpq, with the settings of every session."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ..settings.dsn import dsn_words
from ..settings.messages import ConfigError
from ..settings.model import Settings

SYSTEM_ROOTS = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
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
        one for one in (str(conninfo_to_dict(conninfo).get("options") or ""), *options) if one))


def conninfo(settings: Settings, local: str | None = None, **more: str) -> str:
    """Returns the connection string of the database in use. `local`: the embedded cluster's, which replaces the
    configured one.

    Raises ConfigError for a DSN libpq cannot read.
    """
    base: dict[str, Any]
    if local is not None:
        base = conninfo_to_dict(local)
    elif settings.queend_dsn or settings.database_url:
        base = dsn_words(settings)
    else:
        base = {"host": settings.pg_host, "port": settings.pg_port, "dbname": settings.pg_db, "user": settings.pg_user,
                "password": settings.pg_password, **tls(settings)}
    defaults: dict[str, Any] = {
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
    options = " ".join(part for part in (limits, more.pop("options", ""), str(base.pop("options", "")),
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
    raise ConfigError("PG_SSL_REJECT_UNAUTHORIZED: this system has no CA certificates; set PGSSLROOTCERT")


def roots() -> str:
    """Returns the file of the trusted authorities; empty if there is none."""
    return os.environ.get("PGSSLROOTCERT") or next((path for path in SYSTEM_ROOTS if Path(path).exists()), "")


def verifies_server(settings: Settings) -> bool:
    """Returns False if TLS is requested, by setting or connection string, and the server's certificate is not
    checked."""
    if settings.queend_dsn or settings.database_url:
        return dsn_words(settings).get("sslmode") not in ("allow", "prefer", "require")
    return not settings.pg_use_ssl or tls(settings)["sslmode"] == "verify-full"
