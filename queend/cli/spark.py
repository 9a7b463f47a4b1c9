"""queend spark …: jobs on Spark's engine (queend/spark/jobs). Spark is imported only when a job runs."""
from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, Optional

import typer

from ..duration import PART, WHOLE, exact, milliseconds
from .common import fail
from .contexts import ContextError
from .output import Format, Output, show, span
from .remote import USAGE, Stop, given, like, meant, tell
from .terminal import say

WORDS = {"d": "day", "h": "hour", "m": "minute", "s": "second", "ms": "millisecond"}
spark = typer.Typer(no_args_is_help=True,
                    help="Run Spark jobs: archive, read, replay, dlq, aggregate, backfill, lag (docs/spark.md).")

Url = Annotated[Optional[str], typer.Option(help="URLs of the daemons, separated by commas.")]
TokenFile = Annotated[Optional[str], typer.Option(help="File with a bearer token.")]
Ca = Annotated[Optional[str], typer.Option(help="CA certificates in PEM format, for https.")]
Cert = Annotated[Optional[str], typer.Option(help="Your certificate and its private key in PEM format, for "
                                                  "servers that ask for one.")]
Master = Annotated[Optional[str],
                   typer.Option(help="Spark master: local[*], spark://host:7077, yarn, k8s://… Default: this machine.")]
Conf = Annotated[Optional[list[str]], typer.Option(help="Spark setting as name=value.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print Spark's log, and errors with tracebacks.")]
EVERY: dict[str, Any] = {"url": Url, "token_file": TokenFile, "ca": Ca, "cert": Cert, "master": Master,
                         "conf": Conf, "verbose": Verbose}
Where = Annotated[Optional[str], typer.Option(help="Condition in SQL.")]
AllowGaps = Annotated[bool, typer.Option("--allow-gaps",
                                         help="Continue if retention removed messages before they were archived.")]
Job = Annotated[str, typer.Option(help="Unique name of the job; repeated runs store each row once.")]
Order = Annotated[Optional[list[str]], typer.Option(help="Expression that orders the rows of a key.")]
Tasks = Annotated[Optional[int], typer.Option(min=1, help="Number of Spark partitions that rows are distributed to by "
                  "key.")]


def link(url: str | None, token_file: str | None, ca: str | None, cert: str | None) -> dict[str, str]:
    """Returns the connector's options for the server that every other command would use."""
    try:
        words = meant(url or given.get("url"), given.get("context"), token_file or given.get("token_file"),
                      ca or given.get("ca"), cert or given.get("cert"))
    except (Stop, ContextError) as error:
        tell(str(error) if isinstance(error, ContextError) else error.text)
        raise typer.Exit(USAGE) from None
    return {name: word for name, word in zip(("url", "token", "tokenFile", "ca", "cert"), words, strict=True) if word}


class Run:
    """Common to every job: the daemon, the session, a readable end."""

    def __init__(self, name: str, url: str | None, token_file: str | None, ca: str | None, cert: str | None,
                 master: str | None, conf: list[str] | None, verbose: bool):
        self.name, self.master, self.verbose = name, master, verbose
        self.jar: str | None = None
        self.link = link(url, token_file, ca, cert)
        pairs = [one.partition("=") for one in conf or []]
        if any(not equals for _, equals, _ in pairs):
            fail("--conf must have the form name=value")
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
            say(f"queend: {self.name} was interrupted; run it again to continue", err=True)
            status = 130
        except Exception as error:  # noqa: BLE001 - a line, as for the others
            if self.verbose:
                raise
            say(*f"queend: {self.name}: {told(error)}".splitlines(), err=True)
            status = 1
        raise typer.Exit(status)    # Spark ends with the process


def interval(text: str | None) -> str | None:
    """Returns an interval in Spark's words: 10m becomes `10 minutes`, the same interval for a checkpoint that was made
    with these words."""
    length = milliseconds(text) if text and WHOLE.fullmatch(text) else None
    return text if length is None else " ".join(
        f"{number} {WORDS[unit]}{'' if number == '1' else 's'}" for number, unit in PART.findall(exact(length / 1000)))


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
        fail(f"the Spark jobs need {missing}: install queend with its extra `spark` (docs/install.md)")


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
    queue: Annotated[str, typer.Argument(help="Name of the queue.")],
    target: Annotated[str, typer.Argument(help="Directory of the archive: on this machine, hdfs://… or s3://…")],
    group: Annotated[str, typer.Option(help="Consumer group that follows the archived offsets; empty for "
                                            "none.")] = "archive",
    allow_gaps: AllowGaps = False,
    batch_rows: Annotated[int, typer.Option(min=1, help="Rows per batch; a batch is archived as a whole.")]
        = 5_000_000,
    file_rows: Annotated[int, typer.Option(min=1, help="Maximum rows per file.")] = 500_000,
    compression: Annotated[str, typer.Option(help="Compression: zstd, snappy, gzip, lz4 or none.")] = "zstd",
    table: Annotated[Optional[list[str]], typer.Option(help="Table format in which the archive can also be read: "
                                                            "delta or iceberg.")] = None,
    catalog: Annotated[Optional[str], typer.Option(help="Iceberg catalog of pyiceberg's configuration. Default: a "
                                                        "SQLite file in the archive.")] = None,
) -> None:
    """Archive a queue as Parquet, by queue and date, each record once. Archived records are skipped."""
    from ..spark.jobs import archive as work

    run(work, queue, target, group=group or None, allow_gaps=allow_gaps, batch_rows=batch_rows, file_rows=file_rows,
        compression=compression, table=table or (), catalog=catalog)


@command
def read(
    run: Run,
    queue: Annotated[str, typer.Argument(help="Name of the queue.")],
    target: Annotated[str, typer.Argument(help="Directory of the queue's archive.")],
    output: Annotated[Optional[str],
                      typer.Option(help="New directory for the result. Default: only count the rows.")] = None,
    format: Annotated[str, typer.Option(help="Format of the result: parquet, json, csv or "
                                             "orc.")] = "parquet", where: Where = None,
    cold: Annotated[bool, typer.Option("--cold", help="Read only the archive, without the daemon.")] = False,
    allow_gaps: AllowGaps = False,
) -> None:
    """Read an archive together with the records that are not archived yet, each offset once."""
    from ..spark.jobs.read import export

    run(export, queue, target, output=output, format=format, where=where, hot=not cold, allow_gaps=allow_gaps)


@command
def replay(
    run: Run,
    to: Annotated[str, typer.Argument(help="Queue to push to.")],
    job: Job,
    archive: Annotated[Optional[str], typer.Option(help="Directory of an archive.")] = None,
    queue: Annotated[Optional[str], typer.Option(help="Queue of the archive to replay.")] = None,
    sql: Annotated[Optional[str],
                   typer.Option(help="A query instead of an archive, like \"SELECT … FROM "
                                     "parquet.`/data/x`\".")] = None,
    where: Where = None,
    key: Annotated[Optional[str], typer.Option(help="Expression for the partition of a row.")] = None,
    value: Annotated[str, typer.Option(help="Expression for the payload: JSON text, or a struct.")] = "value",
    order: Order = None,
    hot: Annotated[bool, typer.Option("--hot", help="Also replay records that are not archived yet.")] = False,
    keep_ids: Annotated[bool, typer.Option("--keep-ids", help="Keep the transaction ids of the archive.")] = False,
    allow_gaps: AllowGaps = False, tasks: Tasks = None,
) -> None:
    """Push an archive or the result of a query to a queue, in order per key. Repeated runs store each row once."""
    from ..spark.jobs import replay as work

    run(work, to, job, archive=archive, queue=queue, sql=sql, where=where, key=key, value=value,
        order=tuple(order or ()), hot=hot, keep_ids=keep_ids, allow_gaps=allow_gaps, tasks=tasks)


@command
def dlq(
    run: Run,
    queue: Annotated[Optional[str], typer.Argument(help="Name of the queue. Default: all queues.")] = None,
    group: Annotated[Optional[str], typer.Option(help="Only dead letters of this consumer "
                                                      "group.")] = None, where: Where = None,
    redrive: Annotated[bool, typer.Option("--redrive", help="Push the dead letters that match --where as new "
                       "messages.")] = False,
    to: Annotated[Optional[str], typer.Option(help="Push to this queue instead of the original one.")] = None,
    dry: Annotated[bool, typer.Option("--dry", help="Only print the number of dead letters that match.")] = False,
    most: Annotated[int, typer.Option(min=1, max=1_000_000, help="Read only this many of the newest dead "
                    "letters.")] = 1_000_000,
) -> None:
    """Count dead letters by queue, group, error and age; with --redrive, push the ones that match a condition again.

    Columns: queue, partition, group, error, retries, value, transactionId, id, producer, created, failed, age
    (seconds).
    """
    from ..spark.jobs import report, revive

    if not redrive:
        if to or dry:
            fail("--to and --dry require --redrive")
        return run(report, queue, group, where=where, most=most)
    if not where:
        fail("--redrive requires --where; use --where true to redrive all dead letters")
    return run(revive, where, queue, group, to=to, dry=dry, most=most)


@command
def aggregate(
    run: Run,
    queue: Annotated[str, typer.Argument(help="Queue to read.")],
    checkpoint: Annotated[str, typer.Argument(help="Checkpoint directory, used by this job only.")],
    to: Annotated[Optional[str], typer.Option(help="Queue to push the results to.")] = None,
    table: Annotated[Optional[str], typer.Option(help="Write the results to this Parquet directory instead.")] = None,
    schema: Annotated[Optional[str],
                      typer.Option(help="Schema of the JSON payload, like \"customer string, cents long, at "
                                        "timestamp\".")] = None,
    time: Annotated[str, typer.Option(help="Expression for the event time. Default: the time of the push.")]
        = "timestamp",
    watermark: Annotated[str, typer.Option(metavar="DURATION", help="Watermark: maximum delay of an event.")]
        = "10m",
    window: Annotated[Optional[str], typer.Option(metavar="DURATION", help="Length of a window, like 5m.")] = None,
    slide: Annotated[Optional[str], typer.Option(metavar="DURATION", help="Interval between the starts of sliding "
                              "windows.")] = None,
    session: Annotated[Optional[str], typer.Option(metavar="DURATION", help="Gap that ends a session window, "
                                "instead of --window.")] = None,
    by: Annotated[Optional[list[str]],
                  typer.Option(help="Columns to group by within a window, like \"customer\".")] = None,
    select: Annotated[Optional[list[str]],
                      typer.Option(help="Aggregates, like \"sum(cents) AS cents\".")] = None,
    where: Where = None,
    key: Annotated[Optional[str],
                   typer.Option(help="Expression for the partition of a result. Default: the first --by.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop after the existing records have been read.")] = False,
    most: Annotated[Optional[int], typer.Option(min=1, help="Maximum records per micro-batch.")] = None,
    group: Annotated[Optional[str], typer.Option(help="Consumer group that reports the progress as lag.")] = None,
) -> None:
    """Aggregate a queue as a stream, in tumbling, sliding or session windows with a watermark, into a queue or a
    table."""
    from ..spark.jobs import aggregate as work

    run(work, queue, checkpoint, to=to, table=table, schema=schema, time=time, watermark=interval(watermark),
        window=interval(window), slide=interval(slide), session=interval(session), by=tuple(by or ()),
        select=tuple(select or ("count(*) AS count",)),
        where=where, key=key, once=once, most=most, group=group)


@command
def backfill(
    run: Run,
    jdbc: Annotated[str, typer.Argument(help="jdbc:postgresql://host:5432/database")],
    table: Annotated[str, typer.Argument(help="Table, or (SELECT …) AS name.")],
    to: Annotated[str, typer.Argument(help="Queue to push to.")],
    job: Job,
    id: Annotated[list[str], typer.Option(help="Column of the primary key.")],
    key: Annotated[Optional[str], typer.Option(help="Expression for the partition of a row.")] = None,
    order: Order = None,
    value: Annotated[Optional[str],
                     typer.Option(help="Expression for the payload: JSON text, or a struct. Default: the whole "
                                       "row.")] = None,
    where: Where = None,
    split: Annotated[Optional[str],
                     typer.Option(help="Column whose range is split into parts. Default: the first number or time of "
                                       "--id.")] = None,
    parts: Annotated[Optional[int], typer.Option(min=1, help="Number of parts that are read in parallel.")] = None,
    user: Annotated[Optional[str],
                    typer.Option(help="User of the database. The password comes from JDBC_PASSWORD.")]
        = None,
    driver: Annotated[str, typer.Option(help="Class of the JDBC driver.")] = "org.postgresql.Driver",
    jar: Annotated[Optional[str], typer.Option(help="JAR file of the JDBC driver. Default: the one of Debian's "
                                                    "libpostgresql-jdbc-java.")] = None,
    tasks: Tasks = None,
) -> None:
    """Push a table of another database (JDBC) to a queue, in parallel parts, each row once by its primary key."""
    from ..spark.jobs import backfill as work
    from ..spark.jobs.backfill import jar as usual

    run.jar = jar or usual()
    run(work, jdbc, table, to, job, id=tuple(id), key=key, order=tuple(order or ()), value=value, where=where,
        split=split, parts=parts, user=user, password=os.environ.get("JDBC_PASSWORD"), driver=driver, tasks=tasks)


@spark.command()
def lag(
    checkpoint: Annotated[str, typer.Argument(help="Checkpoint directory of the stream, or of the job aggregate: on "
                                                   "this machine, or s3://…")],
    url: Url = None, token_file: TokenFile = None, ca: Ca = None, cert: Cert = None, output: Output = Format.table,
) -> None:
    """Show how far a stream is behind: for each queue, the records that its checkpoint has not read."""
    from ..spark.jobs import JobError
    from ..spark.jobs import lag as work

    try:
        rows = work(checkpoint, **link(url, token_file, ca, cert))
    except JobError as error:
        fail(str(error))
    show(rows, {"queue": "queue", "partitions": "partitions", "behind": "partitionsBehind", "lag": "lag",
                "lost": "lost", "oldest": lambda row: span(row["oldestSeconds"]), "state": "state", "source": "source"},
         output, "queue", spare=("source", "state", "lost", "partitions"))
