"""queend migrate"""
from __future__ import annotations

import psycopg
import typer

from ..config import ConfigError
from .common import fail, settings_or_exit


def migrate() -> None:
    """Bring the database the daemon would use to this version's schema and end."""
    from .. import connect
    from ..service.embedded import Embedded, EmbeddedError
    from ..service.migrate import MigrationError
    from ..service.migrate import migrate as apply
    from ..supervisor import uses_embedded

    settings, _ = settings_or_exit()
    cluster = Embedded(settings.queend_data_dir) if uses_embedded(settings) else None
    try:
        local = cluster.start() if cluster else None
        applied = apply(connect.conninfo(settings, local, options="-c statement_timeout=0 -c lock_timeout=0"))
    except (ConfigError, EmbeddedError, MigrationError, psycopg.OperationalError) as error:
        fail(str(error).strip())
    finally:
        if cluster:
            cluster.stop()
    typer.echo("\n".join(f"applied {name}" for name in applied) or "up to date")
