"""queend migrate: brings the database to this version's schema and ends."""
from __future__ import annotations

from .common import database, settings_or_exit
from .remote import ending
from .terminal import say


@ending
def migrate() -> None:
    """Migrate the database to the schema of this version, then exit."""
    from ..postgres.migrate import migrate as apply

    settings = settings_or_exit()
    with database(settings) as (conninfo, _):
        applied = apply(conninfo)
    say(*[f"applied {name}" for name in applied] or ["up to date"])
