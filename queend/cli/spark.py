"""queend spark …: jobs on Spark's engine (queend/spark/jobs). Spark is imported only when a job runs."""
from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, Optional

import typer

from .common import fail
from .contexts import ContextError
from .remote import USAGE, Stop, given, like, meant, tell
from .terminal import say

spark = typer.Typer(no_args_is_help=True,
                    help="Jobs on Spark: archive, read, replay, dlq, aggregate, backfill (docs/spark.md).")

Url = Annotated[Optional[str], typer.Option(help="Addresses of daemons with commas between.")]
TokenFile = Annotated[Optional[str], typer.Option(help="A file that holds a bearer token.")]
Ca = Annotated[Optional[str], typer.Option(help="Certificates in PEM, for https.")]
Master = Annotated[Optional[str],
                   typer.Option(help="Where Spark runs: local[*], spark://host:7077, yarn, k8s://… Default: this "
                                     "machine.")]
Conf = Annotated[Optional[list[str]], typer.Option(help="A setting of Spark, name=value.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="With Spark's own log and the whole of an error.")]
EVERY: dict[str, Any] = {"url": Url, "token_file": TokenFile, "ca": Ca, "master": Master, "conf": Conf,
                         "verbose": Verbose}
Where = Annotated[Optional[str], typer.Option(help="A condition in SQL.")]
AllowGaps = Annotated[bool, typer.Option("--allow-gaps",
                                         help="What was removed before it was archived is passed over.")]
Job = Annotated[str, typer.Option(help="A name under which no row is stored twice.")]
Order = Annotated[Optional[list[str]], typer.Option(help="What rows of a key are ordered by.")]
Tasks = Annotated[Optional[int], typer.Option(min=1, help="Spark partitions the rows are dealt to, by key.")]


def link(url: str | None, token_file: str | None, ca: str | None) -> dict[str, str]:
    """Returns the connector's options for the server that every other command would use."""
    try:
        words = meant(url or given.get("url"), given.get("context"), token_file or given.get("token_file"),
                      ca or given.get("ca"))
    except (Stop, ContextError) as error:
        tell(str(error) if isinstance(error, ContextError) else error.text)
        raise typer.Exit(USAGE) from None
    return {name: word for name, word in zip(("url", "token", "tokenFile", "ca"), words, strict=True) if word}


class Run:
    """Common to every job: the daemon, the session, a readable end."""

    def __init__(self, name: str, url: str | None, token_file: str | None, ca: str | None, master: str | None,
                 conf: list[str] | None, verbose: bool):
        self.name, self.master, self.verbose, self.jar = name, master, verbose, None
        self.link = link(url, token_file, ca)
        pairs = [one.partition("=") for one in conf or []]
        if any(not equals for _, equals, _ in pairs):
            fail("--conf must be name=value")
        self.settings = {name: value for name, _, value in pairs}

    def __call__(self, job: Callable[..., dict[str, Any]], *arguments: Any, **more: Any) -> None:
        """Runs a job. Status 0 and a line of JSON, or status 1 and a line that says why; 130 after an interrupt."""
        from ..spark.jobs.fault import JobError, told
        from ..spark.jobs.session import session

        status = 0
        try:
            from ..spark.settings import LinkSettings, OptionError, Options

            LinkSettings.of(Options(self.link))    # before Spark takes ten seconds to start
            engine = session(self.name, self.master, self.settings, self.jar, self.verbose)
            say(json.dumps(job(engine, *arguments, **more, **self.link), ensure_ascii=False, default=str))
            sys.stdout.flush()
        except (JobError, OptionError) as error:
            if self.verbose:
                raise
            say(*f"queend: {error}".splitlines(), err=True)
            status = 1
        except KeyboardInterrupt:
            say(f"queend: {self.name} was interrupted; it can be run again", err=True)
            status = 130
        except Exception as error:  # noqa: BLE001 - a line, as for the others
            if self.verbose:
                raise
            say(*f"queend: {self.name}: {told(error)}".splitlines(), err=True)
            status = 1
        raise typer.Exit(status)    # Spark ends with the process


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Wraps a command of `queend spark` whose first argument runs its job: adds the options of every job."""

    def run(**arguments: Any) -> None:
        every = {name: arguments.pop(name) for name in EVERY}
        function(run=Run(function.__name__, **every), **arguments)

    return spark.command()(like(run, function, EVERY))


@spark.callback()
def _group() -> None:
    missing = _missing()
    if missing:
        fail(f'these jobs need {missing}: pip install "queend[spark]"')


def _missing() -> str | None:
    """Returns the missing package, without importing it: --help of a job starts no Spark."""
    from importlib.util import find_spec

    for name in ("pyspark", "pyarrow"):
        try:
            if find_spec(name) is None:
                return name
        except ValueError:    # another program put None in its place
            return name
    return None


@command
def archive(
    run: Run,
    queue: Annotated[str, typer.Argument(help="The queue.")],
    target: Annotated[str, typer.Argument(help="The folder: on this machine, hdfs://…")],
    group: Annotated[str, typer.Option(help="A consumer group that learns what is archived; empty: none.")] = "archive",
    allow_gaps: AllowGaps = False,
    batch_rows: Annotated[int, typer.Option(min=1, help="Rows of a batch, which counts whole or not at all.")]
        = 5_000_000,
    file_rows: Annotated[int, typer.Option(min=1, help="Rows of a file at most.")] = 500_000,
    compression: Annotated[str, typer.Option(help="zstd, snappy, gzip, lz4 or none.")] = "zstd",
) -> None:
    """A queue into Parquet, by queue and date, each record once; what is there already is passed over."""
    from ..spark.jobs import archive as work

    run(work, queue, target, group=group or None, allow_gaps=allow_gaps, batch_rows=batch_rows, file_rows=file_rows,
        compression=compression)


@command
def read(
    run: Run,
    queue: Annotated[str, typer.Argument(help="The queue.")],
    target: Annotated[str, typer.Argument(help="The folder of its archive.")],
    output: Annotated[Optional[str],
                      typer.Option(help="A new folder for what is read; without one it is counted.")] = None,
    format: Annotated[str, typer.Option(help="parquet, json, csv or orc.")] = "parquet", where: Where = None,
    cold: Annotated[bool, typer.Option("--cold", help="The archive alone; no daemon is asked.")] = False,
    allow_gaps: AllowGaps = False,
) -> None:
    """An archive and what is not archived yet as one space of offsets, without a gap and without an overlap."""
    from ..spark.jobs.read import export

    run(export, queue, target, output=output, format=format, where=where, hot=not cold, allow_gaps=allow_gaps)


@command
def replay(
    run: Run,
    to: Annotated[str, typer.Argument(help="The queue it goes into.")],
    job: Job,
    archive: Annotated[Optional[str], typer.Option(help="The folder of an archive.")] = None,
    queue: Annotated[Optional[str], typer.Option(help="Which queue of the archive.")] = None,
    sql: Annotated[Optional[str],
                   typer.Option(help="A query instead, like \"SELECT … FROM parquet.`/data/x`\".")] = None,
    where: Where = None,
    key: Annotated[Optional[str], typer.Option(help="The partition of a row, an expression.")] = None,
    value: Annotated[str, typer.Option(help="JSON text, or a struct; an expression.")] = "value",
    order: Order = None,
    hot: Annotated[bool, typer.Option("--hot", help="With what is not archived yet.")] = False,
    keep_ids: Annotated[bool, typer.Option("--keep-ids", help="Transaction ids stay what they were.")] = False,
    allow_gaps: AllowGaps = False, tasks: Tasks = None,
) -> None:
    """An archive, or any query, into a queue: in order per key, once however often it runs."""
    from ..spark.jobs import replay as work

    run(work, to, job, archive=archive, queue=queue, sql=sql, where=where, key=key, value=value,
        order=tuple(order or ()), hot=hot, keep_ids=keep_ids, allow_gaps=allow_gaps, tasks=tasks)


@command
def dlq(
    run: Run,
    queue: Annotated[Optional[str], typer.Argument(help="The queue; all of them without.")] = None,
    group: Annotated[Optional[str], typer.Option(help="Of this consumer group.")] = None, where: Where = None,
    redrive: Annotated[bool, typer.Option("--redrive", help="What --where finds becomes new messages.")] = False,
    to: Annotated[Optional[str], typer.Option(help="Into this queue instead of its own.")] = None,
    dry: Annotated[bool, typer.Option("--dry", help="Only say how many it would be.")] = False,
    most: Annotated[int, typer.Option(min=1, max=1_000_000, help="Look at the newest so many.")] = 1_000_000,
) -> None:
    """Dead letters counted by queue, group, error and age; or, with --redrive, those a condition finds stored again.

    Columns: queue, partition, group, error, retries, value, transactionId, id, producer, created, failed, age
    (seconds).
    """
    from ..spark.jobs import report, revive

    if not redrive:
        if to or dry:
            fail("--to and --dry belong to --redrive")
        return run(report, queue, group, where=where, most=most)
    if not where:
        fail("--redrive needs --where; all of them are --where true")
    return run(revive, where, queue, group, to=to, dry=dry, most=most)


@command
def aggregate(
    run: Run,
    queue: Annotated[str, typer.Argument(help="The queue that is read.")],
    checkpoint: Annotated[str, typer.Argument(help="A folder of this job alone: where it goes on.")],
    to: Annotated[Optional[str], typer.Option(help="The queue the windows go into.")] = None,
    table: Annotated[Optional[str], typer.Option(help="Or a folder of Parquet.")] = None,
    schema: Annotated[Optional[str],
                      typer.Option(help="Of the JSON, like \"customer string, cents long, at timestamp\".")] = None,
    time: Annotated[str, typer.Option(help="The time of an event; an expression. Default: when it was stored.")]
        = "timestamp",
    watermark: Annotated[str, typer.Option(help="How late an event may be.")] = "10 minutes",
    window: Annotated[Optional[str], typer.Option(help="Length of a window, like \"5 minutes\".")] = None,
    slide: Annotated[Optional[str], typer.Option(help="A new window begins every …")] = None,
    session: Annotated[Optional[str], typer.Option(help="Or windows that end with a pause so long.")] = None,
    by: Annotated[Optional[list[str]],
                  typer.Option(help="Groups within a window, like \"customer\".")] = None,
    select: Annotated[Optional[list[str]],
                      typer.Option(help="What is computed, like \"sum(cents) AS cents\".")] = None,
    where: Where = None,
    key: Annotated[Optional[str],
                   typer.Option(help="The partition of a result; an expression. Default: the first --by.")] = None,
    once: Annotated[bool, typer.Option("--once", help="End when what is there has been read.")] = False,
    most: Annotated[Optional[int], typer.Option(min=1, help="Records of a micro-batch.")] = None,
    group: Annotated[Optional[str], typer.Option(help="A consumer group whose lag shows the progress.")] = None,
) -> None:
    """Tumbling, sliding or session windows with a watermark, as a stream, into another queue or a table."""
    from ..spark.jobs import aggregate as work

    run(work, queue, checkpoint, to=to, table=table, schema=schema, time=time, watermark=watermark, window=window,
        slide=slide, session=session, by=tuple(by or ()), select=tuple(select or ("count(*) AS count",)),
        where=where, key=key, once=once, most=most, group=group)


@command
def backfill(
    run: Run,
    jdbc: Annotated[str, typer.Argument(help="jdbc:postgresql://host:5432/database")],
    table: Annotated[str, typer.Argument(help="A table, or (SELECT …) AS name.")],
    to: Annotated[str, typer.Argument(help="The queue it goes into.")],
    job: Job,
    id: Annotated[list[str], typer.Option(help="A column of the primary key.")],
    key: Annotated[Optional[str], typer.Option(help="The partition of a row; an expression.")] = None,
    order: Order = None,
    value: Annotated[Optional[str],
                     typer.Option(help="JSON text, or a struct; an expression. Default: the whole row.")] = None,
    where: Where = None,
    split: Annotated[Optional[str],
                     typer.Option(help="The column whose range is cut into parts. Default: the first number or time "
                                       "of --id.")] = None,
    parts: Annotated[Optional[int], typer.Option(min=1, help="How many parts are read at a time.")] = None,
    user: Annotated[Optional[str],
                    typer.Option(help="Of the database. Its password is taken from the environment: JDBC_PASSWORD.")]
        = None,
    driver: Annotated[str, typer.Option(help="Class of the driver.")] = "org.postgresql.Driver",
    jar: Annotated[Optional[str], typer.Option(help="Its file. Default: Debian's, of libpostgresql-jdbc-java.")] = None,
    tasks: Tasks = None,
) -> None:
    """A table over JDBC into a queue, in parts at a time, each row once by its primary key."""
    from ..spark.jobs import backfill as work
    from ..spark.jobs.backfill import jar as usual

    run.jar = jar or usual()
    run(work, jdbc, table, to, job, id=tuple(id), key=key, order=tuple(order or ()), value=value, where=where,
        split=split, parts=parts, user=user, password=os.environ.get("JDBC_PASSWORD"), driver=driver, tasks=tasks)
