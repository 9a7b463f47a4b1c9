"""queend backup and queend restore: the database and the failover buffer into a folder, and back."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..plural import many
from .common import database, place, settings_or_exit
from .options import Yes
from .output import Progress, size
from .remote import Stop, ending, sure
from .terminal import say

Folder = Annotated[Path, typer.Argument(help="Directory of the backup.")]


@ending
def backup(
    target: Folder,
    everything: Annotated[bool, typer.Option("--all", help="Back up the whole database, including tables of other "
                          "programs.")] = False,
) -> None:
    """Back up the daemon's database and its failover buffer to a new directory.

    The daemon may keep running. The backup contains every message whose push was answered before the backup began.
    Run the command on the daemon's machine, with its settings and its account. Settings and encryption keys are not
    backed up.
    """
    from ..services.backup import make
    from ..services.buffer import root_of

    settings = settings_or_exit()
    with database(settings, running=True) as (conninfo, ours), Progress("dumping", bytes_=True) as progress:
        made = make(target, conninfo, root_of(settings), everything or ours, progress.add)
    buffers = f", {many(made['buffers'], 'folder')} of the failover buffer" if made["buffers"] else ""
    say(f"{target}: {size(made['bytes'])} from PostgreSQL {made['postgres']}{buffers}")


@ending
def restore(
    source: Folder,
    replace: Annotated[bool, typer.Option("--replace", help="First drop queend's objects in the database, and every "
                       "other object that the backup contains.")] = False,
    yes: Yes = False,
) -> None:
    """Restore a backup into the daemon's database, in one transaction.

    If the restore fails or is killed, the database stays unchanged. After the restore the schema is migrated to this
    version. Stop all daemons of the database first. A database that already has queend tables is refused without
    --replace. A backup runs as SQL with the daemon's rights: restore only backups that you trust.
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
            raise Stop("the database already has queend tables", 1, "use --replace to drop them first")
        plan = work.plan(source, made, conninfo, replace)
        if there or plan.cleans:
            others = ", and every other object that the backup contains" if plan.cleans else ""
            sure(f"Drop all objects of queend in the database {place(conninfo)}{others}?", yes)
        with copied(folders, root_of(settings)) as copies, \
                Progress("restoring", made["bytes"], bytes_=True) as progress:
            buffers = work.run(plan, copies, progress.add)
    drained = f", and {many(buffers, 'folder')} of the failover buffer, which the next daemon stores" if buffers else ""
    say(f"restored the backup of {made['made']}{drained}")
