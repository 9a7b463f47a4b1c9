"""Where settings come from: a credential (`credentials`), an environment variable, or a key of the TOML file named by
QUEEND_CONFIG, which is the setting's name in lower case. The first of these wins.

Names without effect here (NO_EFFECT) are accepted and logged at start. A wrong value, an unknown key or a name that is
one letter from one of ours (JWT_ENABELD) stops the daemon (`load`)."""
from __future__ import annotations

import os
from typing import Any

from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from .early import toml
from .fields import ALONE
from .messages import ConfigError

# Read while building or testing, or by the commands, not by the daemon.
NOT_SETTINGS = {"QUEEND_CONFIG", "QUEEND_BENCH_DIR", "QUEEND_SANITIZE", "QUEEND_BUILD_DIR", "QUEEND_ANNOTATE",
                # of the command line: which server to call
                "QUEEND_URL", "QUEEND_TOKEN", "QUEEND_TOKEN_FILE", "QUEEND_CONTEXT"}
# Names of the reference server without effect here, by reason: accepted, logged at start if they are set.
NO_EFFECT = {name: why for why, names in {
    "New messages wake a parked pop; it does not poll. Use POP_WAIT_MAX_INTERVAL_MS instead.":
        "POP_WAIT_INITIAL_INTERVAL_MS POP_WAIT_BACKOFF_THRESHOLD POP_WAIT_BACKOFF_MULTIPLIER "
        "QUEUE_BACKOFF_CLEANUP_THRESHOLD",
    "Each of these requests is a call of its own. Use QUEEN_…_MAX_CONCURRENT instead.":
        " ".join(f"QUEEN_{alone.upper()}_{word}" for alone in ALONE for word in ("PREFERRED_BATCH_SIZE", "MAX_HOLD_MS",
            "MAX_BATCH_SIZE")),
    "There are no jobs of this type. The control plane answers such requests; DB_POOL_SIZE limits its calls.":
        "QUEEN_CUSTOM_PREFERRED_BATCH_SIZE QUEEN_CUSTOM_MAX_HOLD_MS QUEEN_CUSTOM_MAX_BATCH_SIZE "
        "QUEEN_CUSTOM_MAX_CONCURRENT",
    "Queen MQ reads it and does not use it.":
        "SIDECAR_MAX_ITEMS_PER_TX SIDECAR_MAX_BATCH_SIZE SIDECAR_MAX_PENDING_COUNT STATS_HISTORY_RETENTION_DAYS",
    "Answers are written as soon as they are "
    "ready.": "RESPONSE_TIMER_INTERVAL_MS RESPONSE_BATCH_SIZE RESPONSE_BATCH_MAX",
    "Metrics identify a daemon by host and port, and workers by number.": "WORKER_ID",
    "There is no thread pool.": "DB_THREAD_POOL_SERVICE_THREADS",
    "There is no separate lookup table of partitions.":
        "PARTITION_LOOKUP_RECONCILE_INTERVAL_MS PARTITION_LOOKUP_RECONCILE_LOOKBACK_SECONDS",
    "The catalog of queues is refreshed once a second, with or without peers.":
        "QUEEN_CACHE_REFRESH_INTERVAL_MS QUEEN_CACHE_PARTITION_MAX QUEEN_CACHE_PARTITION_TTL_MS",
    "Settings of older versions of Queen MQ.":
        "MAX_PARTITION_CANDIDATES POLL_DB_INTERVAL POLL_WORKER_COUNT POLL_WORKER_INTERVAL "
        "QUEUE_BACKOFF_MULTIPLIER QUEUE_BACKOFF_THRESHOLD QUEUE_MAX_POLL_INTERVAL QUEUE_POLL_INTERVAL",
}.items() for name in names.split()}
OLD_STREAMS = "STREAM_POLL_"      # prefix of names, also of older versions
# Names of other programs that are one letter from one of ours.
STRANGERS = {"PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "LOGLEVEL"}
NOT_UTF8 = "[\udc80-\udcff]"      # bytes of the environment that are not UTF-8


class Given(PydanticBaseSettingsSource):
    """Supplies the TOML file, or the credentials; a key that is not a setting reaches the model, which forbids it."""

    def __init__(self, settings_cls: type[BaseSettings], values: dict[str, Any]):
        super().__init__(settings_cls)
        self.values = values

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return self.values.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return self.values


def file_values() -> dict[str, Any]:
    """Returns the keys of the file that QUEEND_CONFIG names, an empty dictionary without one. Raises ConfigError if the
    file cannot be read."""
    try:
        return toml()
    except (OSError, ValueError) as error:
        path = os.environ["QUEEND_CONFIG"]
        raise ConfigError(f"QUEEND_CONFIG: {path}: {getattr(error, 'strerror', error)}") from None
