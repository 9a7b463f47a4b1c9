"""Functions of commands that run beside the daemon: they load its settings and reach its database, or end with a clear
message."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import psycopg
import typer

from .. import log
from ..postgres import session
from ..settings.load import load
from ..settings.messages import ConfigError
from ..settings.model import Settings
from .remote import NOT_FOUND, REFUSED, UNREACHABLE, USAGE, Stop
from .terminal import say


def settings_or_exit(**arguments: Any) -> Settings:
    """Returns the settings; ends the process with status 2 if they are wrong."""
    try:
        return load(**arguments)
    except ConfigError as error:
        refuse(error)


def refuse(error: ConfigError) -> NoReturn:
    """Prints a line for each invalid setting, and ends the process."""
    for problem in str(error).splitlines():
        say(f"queend: {log.masked(problem)}", err=True)
    raise typer.Exit(USAGE)


def fail(text: str, status: int = REFUSED) -> NoReturn:
    say(*f"queend: {log.masked(text)}".splitlines(), err=True)
    raise typer.Exit(status)


def place(conninfo: str) -> str:
    """Describes a database, for a question."""
    words = psycopg.conninfo.conninfo_to_dict(conninfo)
    return f"{words.get('dbname') or ''} at {words.get('host') or 'the default address'}"


@contextmanager
def database(settings: Settings, running: bool = False,
             also: tuple[type[Exception], ...] = ()) -> Iterator[tuple[str, bool]]:
    """Yields the connection string of the database that a daemon would use, and whether it is embedded. running: uses
    the server of a running daemon; otherwise starts the server and stops it again. Prints failures meanwhile, and
    errors of `also`."""
    from ..postgres.conninfo import conninfo
    from ..postgres.embedded import Embedded, EmbeddedError
    from ..postgres.migrate import MigrationError
    from ..services.backup import BackupError
    from ..services.buffer import FolderError
    from ..settings.origins import uses_embedded

    failures: tuple[type[Exception], ...] = (
        EmbeddedError, BackupError, FolderError, MigrationError, OSError, *also)
    cluster, target = None, ""
    try:
        cluster = Embedded(settings.queend_data_dir) if uses_embedded(settings) else None
        local = None
        if cluster:
            if running and not (cluster.folder / "created").exists():
                raise Stop(f"there is no database in {cluster.folder}", NOT_FOUND,
                           "set QUEEND_DATA_DIR to the daemon's data directory")
            try:
                local = cluster.start()
            except EmbeddedError as error:
                if not running or "is in use by another queend" not in str(error):
                    raise
                local = cluster.conninfo()
        target = conninfo(settings, local, options=session.UNHURRIED)
        yield target, bool(cluster)
    except ConfigError as error:
        refuse(error)
    except psycopg.Error as error:
        fail(session.told(error), UNREACHABLE if _away(error, target) else REFUSED)
    except failures as error:
        fail(str(error).strip())
    finally:
        if cluster:
            cluster.stop()


def _away(error: psycopg.Error, target: str) -> bool:
    """Returns whether no server answered at `target`, or it could not serve. Asks it once more, because libpq has the
    same error for a server that refuses the password."""
    from .._core import refusal, verdict

    return (isinstance(error, psycopg.OperationalError) and verdict(error.sqlstate) == "away"
            and not refusal(session.parted(target)[0], 5000))
