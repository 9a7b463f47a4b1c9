"""A session for a job on the command line: quiet, in UTC, on this machine unless a master is named."""
from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from .fault import JobError, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark ignores a configuration without an appender.
QUIET = ("status = off\nappender.none.type = Null\nappender.none.name = none\nrootLogger.level = off\n"
         "rootLogger.appenderRef.none.ref = none\n")
LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
USUAL = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.session.timeZone": "UTC",
         "spark.sql.python.filterPushdown.enabled": "true"}


def session(name: str, master: str | None = None, settings: dict[str, str] | None = None, jars: str | None = None,
            loud: bool = False) -> SparkSession:
    """Returns a session. settings: of Spark; they win over ours. loud: with Spark's own log."""
    from pyspark.sql import SparkSession

    given = dict(settings or {})
    chosen = master or given.get("spark.master") or os.environ.get("MASTER") or "local[*]"
    wanted = {**USUAL, **(LOCAL if chosen.startswith("local") else {}), **given}
    if chosen.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if jars:
        wanted["spark.jars"] = ",".join(one for one in (given.get("spark.jars"), jars) if one)
    if not loud:
        with tempfile.NamedTemporaryFile("w", prefix="queend-spark-", suffix=".properties", delete=False) as file:
            file.write(QUIET)
        option = "spark.driver.extraJavaOptions"
        wanted[option] = f"{wanted.get(option, '')} -Dlog4j2.configurationFile=file://{file.name}".strip()
        wanted.setdefault("spark.log.level", "OFF")
    builder = SparkSession.builder.master(chosen).appName(f"queend {name}")
    for key, value in wanted.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # noqa: BLE001
        raise JobError(f"Spark did not start on {chosen}: {told(error)}. Spark requires Java 17; use --verbose to see "
                       "its log") from error
    finally:
        if not loud:
            Path(file.name).unlink(missing_ok=True)
