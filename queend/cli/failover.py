"""queend failover: the failover buffer's folders, where they were filled for a database that has moved."""
from __future__ import annotations

import time
from typing import Annotated

import psycopg
import typer

from ..wording import many
from .common import database, fail, place, settings_or_exit
from .options import Yes
from .remote import ending
from .terminal import say

failover = typer.Typer(no_args_is_help=True, help="Manage the failover buffer.")


@failover.callback()
def _group() -> None:
    pass


@failover.command()
@ending
def adopt(
    yes: Yes = False,
    strange: Annotated[bool, typer.Option("--strange", help="Also adopt folders of databases that are not related to "
                       "the configured one.")]
        = False,
) -> None:
    """Store messages that were buffered for another database in the configured one.

    After pg_upgrade, or a dump and a restore, PostgreSQL has a new identity, and daemons do not store the messages that
    were buffered for the old one. Stop the daemons that use the old database first. The daemon that runs or starts on
    this machine stores the adopted messages.
    """
    from ..postgres.identity import identity_of
    from ..services.adopt import adopt as take, find
    from ..services.buffer import root_of

    settings = settings_or_exit()
    with database(settings) as (target, _):
        try:
            identity = identity_of(target)
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            fail("the database has no queend tables: restore it first, or run `queend migrate`")
        found = find(root_of(settings), identity)
        if not found:
            say(f"{root_of(settings)} contains no messages of other databases")
            return
        for one in found:
            since = (time.strftime(", the oldest from %Y-%m-%d %H:%M:%S UTC", time.gmtime(one.oldest_us / 1e6))
                     if one.oldest_us else "")
            origin = {True: "from a database that this one descends from", False: "from an UNRELATED database",
                      None: "from an unknown database"}[one.moved]
            say(f"{one.path}: {many(one.messages, 'message')}{since}; {origin}")
        if any(one.moved is False for one in found) and not strange:
            fail("a folder belongs to a database that is not related to this one; use --strange to adopt it anyway")
        if not yes and not typer.confirm(f"Store these messages in the database {place(target)}? This cannot be "
                                         "undone."):
            fail("nothing was adopted")
        for one in found:
            take(one, identity)
        say("adopted; the daemon that runs or starts on this machine stores the messages")
