"""queend migrate"""
from __future__ import annotations

import psycopg
import typer

from ..config import ConfigError
from .common import fail, settings_or_exit


def migrate() -> None:
    """Bring the configured database to this version's schema and end."""
    from .. import connect
    from ..service.migrate import MigrationError
    from ..service.migrate import migrate as apply

    settings, _ = settings_or_exit()
    try:
        applied = apply(connect.conninfo(settings, options="-c statement_timeout=0 -c lock_timeout=0"))
    except (ConfigError, MigrationError, psycopg.OperationalError) as error:
        fail(str(error).strip())
    typer.echo("\n".join(f"applied {name}" for name in applied) or "up to date")
