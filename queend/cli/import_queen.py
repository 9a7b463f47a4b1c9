"""queend import-queen"""
from __future__ import annotations

from typing import Annotated

import psycopg
import typer

from ..config import ConfigError
from .common import fail, settings_or_exit
from .output import many


def import_queen(
    dsn: Annotated[str, typer.Argument(help="Connection string of the Queen MQ database; it is only read.")],
    schema: Annotated[str, typer.Option(help="Schema of its tables.")] = "queen",
    queue: Annotated[list[str] | None, typer.Option(help="Only this queue; may be given several times.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Messages that every group has consumed, too.")] = False,
) -> None:
    """Move queues, undelivered messages, group cursors and dead letters here from a Queen MQ database.

    Stop its server first, or switch its maintenance modes on. Can be stopped and run again: what was moved is not moved
    twice. Ends with status 3 when the counts of both sides do not agree.
    """
    from .. import connect
    from ..service.embedded import Embedded, EmbeddedError
    from ..service.importing.run import ImportRefused, bring
    from ..service.importing.source import Source, SourceError
    from ..service.importing.target import Target
    from ..service.migrate import MigrationError
    from ..service.migrate import migrate as apply
    from ..supervisor import uses_embedded

    settings, _ = settings_or_exit()
    cluster = Embedded(settings.queend_data_dir) if uses_embedded(settings) else None
    try:
        source = Source(dsn, schema)
        local = cluster.start() if cluster else None
        here = connect.conninfo(settings, local, options="-c statement_timeout=0 -c lock_timeout=0"
                                                         " -c idle_in_transaction_session_timeout=0")
        apply(here)
        target = Target(here)
        summary = bring(source, target, everything, queue or [], settings.queend_compress_from,
                        lambda text: typer.echo(text, err=True))
        target.close()
        source.close()
    except (ConfigError, EmbeddedError, MigrationError, SourceError, ImportRefused, RuntimeError,
            psycopg.Error) as error:
        fail(str(error).strip())
    finally:
        if cluster:
            cluster.stop()
    for difference in summary.differences:
        typer.echo(f"differs: {difference}", err=True)
    typer.echo(", ".join((many(summary.queues, "queue"), many(summary.partitions, "partition"),
                          many(summary.groups, "group"), many(summary.messages, "message"),
                          many(summary.dead_letters, "dead letter")))
               + ("" if summary.differences else "; counts agree"))
    if summary.differences:
        raise typer.Exit(3)
