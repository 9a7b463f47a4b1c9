"""Checks that concern several settings, or the form of a text."""
from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from .certificates import named
from .keyring import keyring
from .lists import LISTS, listed, peers_read, urls_read
from .messages import traits, veiled

if TYPE_CHECKING:
    from .model import Settings


def check(settings: Settings) -> None:
    """Raises ValueError, naming the setting, for the first value that is invalid or contradicts another setting."""
    try:
        settings.migration_targets()
    except ValueError as error:
        raise ValueError(f"QUEEND_MIGRATION_TARGETS: {error}") from None
    if settings.queend_dsn or settings.database_url:
        from .dsn import dsn_words  # here: it needs libpq, which the other checks do not

        dsn_words(settings)
    _check_peers(settings)
    fields = type(settings).model_fields
    for name, (form, what) in LISTS.items():
        for one in listed(getattr(settings, name)):
            if not re.fullmatch(form, one, re.IGNORECASE):
                shown = "one" if traits(fields[name])["secret"] else veiled(one)
                raise ValueError(f"{name.upper()}: {shown} is not a valid {what}")
    arriving = settings.queend_max_arriving_bytes
    if arriving is not None and arriving < settings.queend_max_body_bytes:
        raise ValueError("QUEEND_MAX_ARRIVING_BYTES must not be less than QUEEND_MAX_BODY_BYTES")
    if settings.webapp_root and not os.path.isdir(settings.webapp_root):
        raise ValueError(f"WEBAPP_ROOT: {settings.webapp_root} is not a directory")
    collector = re.fullmatch(r"https?://[^/\s@?#:]+(?::(\d{1,5}))?(/[^\s?#]*)?", settings.queend_otlp_endpoint)
    if settings.queend_otlp_endpoint and not (collector and 1 <= int(collector[1] or 80) <= 65535):
        raise ValueError("QUEEND_OTLP_ENDPOINT is not the URL of a collector; expected a value like "
                         "`http://localhost:4318`")
    if settings.queend_slots is None and (settings.sidecar_pool_size or 0) > 1000 * settings.num_workers:
        raise ValueError("SIDECAR_POOL_SIZE must not be more than 1000 connections per worker (NUM_WORKERS)")
    if settings.queen_vegas_min_limit > settings.queen_vegas_max_limit:
        raise ValueError("QUEEN_VEGAS_MIN_LIMIT must not be greater than QUEEN_VEGAS_MAX_LIMIT")
    if settings.jwt_require_queues and not settings.queend_jwt_queues_claim:
        raise ValueError("JWT_REQUIRE_QUEUES requires QUEEND_JWT_QUEUES_CLAIM, the name of the claim, like "
                         "`queues`")
    if settings.jwt_enabled:
        from ..auth.keys import usable  # here: only this check needs the libraries for keys

        usable(settings)
    keyring(settings)
    named(settings)


def _check_peers(settings: Settings) -> None:
    try:
        peers_read(settings.queen_udp_peers, settings.queen_udp_notify_port)
    except ValueError as error:
        raise ValueError(f"QUEEN_UDP_PEERS: {error}") from None
    try:
        urls = urls_read(settings.queen_peers)
    except ValueError as error:
        raise ValueError(f"QUEEN_PEERS: {error}") from None
    secret = settings.queen_sync_secret
    if secret and not re.fullmatch(r"[!-~]{64}", secret):
        raise ValueError(f"QUEEN_SYNC_SECRET must have 64 ASCII characters without spaces, not {len(secret)}; "
                         "create one with `openssl rand -hex 32`")
    if urls and settings.queen_sync_enabled and settings.jwt_enabled and not secret:
        raise ValueError("QUEEN_PEERS with JWT_ENABLED requires QUEEN_SYNC_SECRET: daemons have no token for each "
                         "other")
    if settings.queen_sync_dead_threshold_ms <= settings.queen_sync_heartbeat_ms:
        raise ValueError("QUEEN_SYNC_DEAD_THRESHOLD_MS is not above QUEEN_SYNC_HEARTBEAT_MS")
