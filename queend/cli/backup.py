"""queend backup and queend restore: the database and the failover buffer into a folder, and back."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .common import database, place, settings_or_exit
from .options import Yes
from .output import Progress, size
from .remote import Stop, ending, sure

Folder = Annotated[Path, typer.Argument(help="The folder of the backup.")]


@ending
def backup(
    target: Folder,
    everything: Annotated[bool, typer.Option("--all", help="Of a database that others use, too: everything in "
                                             "it.")] = False,
) -> None:
    """Write a backup of the database the daemon uses, and of its failover buffer, into a new folder.

    The daemon may run meanwhile; messages that were answered before the backup began are in it. Run it where the daemon
    runs, with its settings and as its account. Settings and encryption keys are not part of it.
    """
    from ..service.backup import make
    from ..service.buffer import root_of

    settings = settings_or_exit()
    with database(settings, running=True) as (conninfo, ours), Progress("dumping", bytes_=True) as progress:
        made = make(target, conninfo, root_of(settings), everything or ours, progress.add)
    buffers = f", {made['buffers']} folders of the failover buffer" if made["buffers"] else ""
    typer.echo(f"{target}: {size(made['bytes'])} of PostgreSQL {made['postgres']}{buffers}")


@ending
def restore(
    source: Folder,
    replace: Annotated[bool, typer.Option("--replace", help="Drop what queend has in the database first.")] = False,
    yes: Yes = False,
) -> None:
    """Bring a backup into the database the daemon would use.

    It is brought to the schema of this version. No daemon may run on it meanwhile. A database that has tables of queend
    already is refused, unless --replace says that they may go.
    """
    from ..service import backup as work
    from ..service.buffer import root_of
    from ..service.migrate import identity_of, migrate

    settings = settings_or_exit()
    try:
        made: dict[str, Any] = work.told(source)
        with Progress("checking", made["bytes"], bytes_=True) as progress:
            work.whole(source, made, progress.add)
    except (work.BackupError, OSError) as error:
        raise Stop(str(error)) from None
    with database(settings, running=False) as (conninfo, _):
        if work.holds(conninfo):
            if not replace:
                raise Stop("the database has tables of queend already", 1, "--replace drops them first")
            sure(f"Drop all that queend has in the database {place(conninfo)}?", yes)
            work.empty(conninfo)
        with Progress("restoring", made["bytes"], bytes_=True) as progress:
            work.restore(source, conninfo, progress.add)
        migrate(conninfo)
        buffers = work.restore_buffers(source, root_of(settings), identity_of(conninfo))
    drained = f", and {buffers} folders of the failover buffer; the next daemon stores them" if buffers else ""
    typer.echo(f"restored what was kept at {made['made']}{drained}")
