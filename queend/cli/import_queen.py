"""queend import-queen: moves in from a Queen MQ database."""
from __future__ import annotations

from typing import Annotated

import typer

from ..wording import many
from .common import database, settings_or_exit
from .remote import DIFFERS, ending
from .terminal import say


@ending
def import_queen(
    dsn: Annotated[str, typer.Argument(help="Connection string of the Queen MQ database, which is only read.")],
    schema: Annotated[str, typer.Option(help="Schema of the Queen MQ tables.")] = "queen",
    queue: Annotated[list[str] | None, typer.Option(help="Import only this queue.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also import messages that every group has "
                          "consumed.")] = False,
) -> None:
    """Import queues, undelivered messages, consumer group cursors and dead letters from a Queen MQ database.

    Stop the Queen MQ server first, or switch its maintenance modes on. An interrupted import can be run again: imported
    messages are skipped. Exits with 3 if the counts of both databases differ.
    """
    from ..postgres.migrate import migrate
    from ..services.importing.run import ImportRefused, bring
    from ..services.importing.source import Source, SourceError
    from ..services.importing.target import Target

    settings = settings_or_exit()
    with database(settings, also=(SourceError, ImportRefused, RuntimeError)) as (here, _):
        source = Source(dsn, schema)
        migrate(here)
        target = Target(here)
        summary = bring(source, target, everything, queue or [], settings.queend_compress_from,
                        lambda text: say(text, err=True))
        target.close()
        source.close()
    for difference in summary.differences:
        say(*f"difference: {difference}".splitlines(), err=True)
    say(", ".join((many(summary.queues, "queue"), many(summary.partitions, "partition"),
                          many(summary.groups, "group"), many(summary.messages, "message"),
                          many(summary.dead_letters, "dead letter")))
               + ("" if summary.differences else "; the counts of both databases are equal"))
    if summary.differences:
        raise typer.Exit(DIFFERS)
