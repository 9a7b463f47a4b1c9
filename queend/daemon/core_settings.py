"""The settings of the core: a flat dictionary of numbers and strings, made of the daemon's settings."""
from __future__ import annotations

import resource
from collections.abc import Sequence
from typing import Any

from .. import log
from ..postgres import session
from ..postgres.conninfo import HOT_PLANS, conninfo
from ..postgres.edition import edition_in
from ..postgres.migrate import sql_folder
from ..settings.fields import JOB_TYPES
from ..settings.keyring import keyring
from ..settings.model import Settings

# Bytes of bodies that the control plane has not answered. The core and Python have one copy each, and all addresses may
# have twice as much together (net/budget).
BRIDGED_BYTES = 32 << 20
RESERVE = 256            # descriptors for files, services and what libraries open
LARGE_PATHS = (          # of the control plane, whose bodies may be as large as those of the data plane
    "/streams/v1/state/get",       # the route allows less (STATE_BODY_BYTES)
)


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
    "queend_dedupe_bytes", "queend_ephemeral_bytes", "queend_patience_ms", "queend_stuck_ms",
    "queend_control_stuck_ms", "queend_max_queues", "queend_max_partitions", "queend_max_groups", "queend_max_parked",
    "queend_least_rate", "queend_max_queued_jobs",
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
        "max_bridged_bytes": BRIDGED_BYTES,
        "max_control_body": min(settings.queend_max_control_body_bytes, body),
        "max_open_body": settings.queend_max_open_body_bytes or body, "large_paths": ",".join(LARGE_PATHS),
        "max_arriving": settings.queend_max_arriving_bytes or max(128 << 20, 2 * body), "buffer_dir": buffer_dir,
        "inflight_deadline_ms": deadline_ms(settings),
        "has_peers": int(bool(settings.queen_udp_peers or settings.queen_peers)),
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
