"""Copies a table of a database, read over JDBC in several parts at a time, into a queue: each row once, by its primary
key."""
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .fault import JobError, told
from .frames import NULLS, as_messages, row_id, tasks_for
from .progress import Progress, Say
from .replay import send

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CUT = {"byte", "short", "integer", "long", "float", "double", "decimal", "date", "timestamp", "timestamp_ntz"}
JAR = "/usr/share/java/postgresql.jar"    # Debian's libpostgresql-jdbc-java


def jar() -> str | None:
    """Returns PostgreSQL's driver in Debian's place."""
    return JAR if Path(JAR).exists() else None


def backfill(spark: SparkSession, jdbc: str, table: str, to: str, job: str, *, id: tuple[str, ...],
             key: str | None = None, order: tuple[str, ...] = (), value: str | None = None, where: str | None = None,
             split: str | None = None, parts: int | None = None, user: str | None = None, password: str | None = None,
             driver: str = "org.postgresql.Driver", fetch: int = 10_000, tasks: int | None = None,
             say: Say | None = None, **link: str) -> dict[str, Any]:
    """Copies a table. table: a name, or a query in brackets followed by a name. id: the columns that identify its rows.
    job: the name under which no id is stored twice. key, order and value are expressions; the default value is the
    whole row. split: a column of numbers, dates or times whose range is read in `parts` at a time (by default the first
    of id if that is a number)."""
    from pyspark.sql import functions as F

    progress = Progress(spark, f"backfill {job}", say)
    if not id:
        raise JobError("name the columns of the primary key with --id: without them a second run would store all rows "
                       "again")
    connection = {"url": jdbc, "driver": driver, "fetchsize": str(fetch), **({"user": user} if user else {}),
                  **({"password": password} if password else {})}
    try:
        schema = spark.read.format("jdbc").options(**connection, dbtable=table).load().schema
        for name in (*id, *((split,) if split else ())):
            if name not in schema.names:
                raise JobError(f'the table has no column "{name}"; its columns are {", ".join(schema.names)}')
        if split and not _number(schema, (split,)):
            raise JobError(f'the column "{split}" is {schema[split].dataType.simpleString()}: only numbers, dates and '
                           'times can be split into parts')
        rows = _read(spark, connection, table, where, split or _number(schema, id),
                     parts or spark.sparkContext.defaultParallelism)
        progress.say(f"{table} is read in {rows.rdd.getNumPartitions()} parts")
        texts = F.to_json(F.struct("*"), NULLS) if value is None else F.expr(value)
        made = rows.select((F.expr(key).cast("string") if key else F.lit("Default")).alias("partition"),
                           texts.alias("value"),
                           *(F.expr(one).alias(f"_o{n}") for n, one in enumerate(order)),
                           row_id(job, *(F.col(one) for one in id)).alias("transactionId"))
        made = as_messages(made, value or "*", **NULLS)
        if order:    # rows of a key together; without an order there is none to keep
            made = made.repartition(tasks_for(spark, tasks), "partition")
            made = made.sortWithinPartitions("partition", *[f"_o{n}" for n in range(len(order))], "transactionId")
        return send(progress, made.select("partition", "value", "transactionId"), to, job, link, "backfill",
                    table=table)
    except JobError:
        raise
    except Exception as error:  # noqa: BLE001
        text = told(error)
        if "ClassNotFound" in text or driver in text:
            text = (f"the JDBC driver {driver} was not found: use --jar to name its JAR file (Debian's "
                    f"libpostgresql-jdbc-java has {JAR})")
        raise JobError(f"table {table}: {text}") from error


def _number(schema: Any, id: tuple[str, ...]) -> str | None:
    return next((name for name in id if schema[name].dataType.typeName() in CUT), None)


def _read(spark: SparkSession, connection: dict[str, str], table: str, where: str | None, split: str | None,
          parts: int) -> DataFrame:
    """Reads the table. Queries the bounds first: Spark uses them only for the cuts and leaves out no row beyond
    them."""
    from pyspark.sql import functions as F

    def reader(**options: str) -> DataFrame:
        frame = spark.read.format("jdbc").options(**connection, dbtable=table, **options).load()
        return frame.where(where) if where else frame

    if split is None or parts < 2:
        return reader()
    low, high = reader().select(F.min(split), F.max(split)).first() or (None, None)
    if low is None or low == high:
        return reader()
    return reader(partitionColumn=split, lowerBound=str(low), upperBound=str(high), numPartitions=str(parts))
