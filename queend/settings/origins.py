"""Tells where the values of settings come from, which names have no effect, and whether a setting names the server."""
from __future__ import annotations

import os
from typing import Any

from .credentials import credentials
from .model import Settings
from .sources import NO_EFFECT, OLD_STREAMS, file_values

# Any of these names the PostgreSQL server. Without one the daemon starts its own server and uses no other.
EXTERNAL = ("queend_dsn", "database_url", "pg_host", "pg_port", "pg_user", "pg_password", "pg_db")


def origins(settings: Settings, arguments: dict[str, Any] | None = None) -> dict[str, str]:
    """Returns setting → `argument`, `credential`, `environment`, `file` or `default`."""
    environment = {name.lower() for name, value in os.environ.items() if value}
    file, arguments, (secret, _) = file_values(), arguments or {}, credentials(Settings.model_fields)
    return {name: "argument" if name in arguments else "credential" if name in secret
            else "environment" if name in environment else "file" if name in file
            else "default" for name in type(settings).model_fields}


def uses_embedded(settings: Settings, arguments: dict[str, Any] | None = None) -> bool:
    """Returns True if no setting names a server."""
    origin = origins(settings, arguments)
    return all(origin[name] == "default" or not getattr(settings, name) for name in EXTERNAL)


def without_effect() -> dict[str, str]:
    """Returns names that are set but have no effect → reason."""
    names = {name.upper() for name, value in {**os.environ, **file_values()}.items() if value != ""}
    return {name: why for name in sorted(names) if (why := NO_EFFECT.get(name))} | {
        name: NO_EFFECT["QUEUE_POLL_INTERVAL"] for name in sorted(names) if name.startswith(OLD_STREAMS)}
