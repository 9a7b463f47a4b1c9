"""queend backup and queend restore: the database and the failover buffer into a folder, and back."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .common import database, place, settings_or_exit
from .options import Yes
from .output import Progress, size
from .remote import Stop, ending, sure
from .terminal import say

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
    from ..services.backup import make
    from ..services.buffer import root_of

    settings = settings_or_exit()
    with database(settings, running=True) as (conninfo, ours), Progress("dumping", bytes_=True) as progress:
        made = make(target, conninfo, root_of(settings), everything or ours, progress.add)
    buffers = f", {made['buffers']} folders of the failover buffer" if made["buffers"] else ""
    say(f"{target}: {size(made['bytes'])} of PostgreSQL {made['postgres']}{buffers}")


@ending
def restore(
    source: Folder,
    replace: Annotated[bool, typer.Option("--replace", help="Drop what queend has in the database first, and whatever "
                                          "else the backup holds.")] = False,
    yes: Yes = False,
) -> None:
    """Bring a backup into the database the daemon would use, all of it or nothing.

    It happens in one transaction: if it fails, or is killed, the database is as it was. Then the tables are brought to
    this version. No daemon may run on the database. A database that has tables of queend already is refused, unless
    --replace says that they may go. A backup runs as SQL with the daemon's rights: trust it like a program.
    """
    from ..services import restore as work
    from ..services.backup import BackupError, told, whole
    from ..services.buffer import root_of
    from ..services.buffer_restore import checked, copied

    settings = settings_or_exit()
    try:
        made: dict[str, Any] = told(source)
        size_of_all = made["bytes"] + sum(file["bytes"] for file in made.get("buffer", []))
        with Progress("checking", size_of_all, bytes_=True) as progress:
            folders = checked(source, made, progress.add)
            whole(source, made, progress.add)
    except BackupError as error:
        raise Stop(str(error)) from None
    with database(settings, running=False) as (conninfo, _):
        there = work.holds(conninfo)
        if there and not replace:
            raise Stop("the database has tables of queend already", 1, "--replace drops them first")
        plan = work.plan(source, made, conninfo, replace)
        if there or plan.cleans:
            others = ", and everything else that the backup holds" if plan.cleans else ""
            sure(f"Drop all that queend has in the database {place(conninfo)}{others}?", yes)
        with copied(folders, root_of(settings)) as copies, \
                Progress("restoring", made["bytes"], bytes_=True) as progress:
            buffers = work.run(plan, copies, progress.add)
    drained = f", and {buffers} folders of the failover buffer; the next daemon stores them" if buffers else ""
    say(f"restored what was kept at {made['made']}{drained}")
