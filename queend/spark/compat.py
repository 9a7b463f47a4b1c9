"""What versions of PySpark lack: classes that stand in for theirs, and what can be asked of each version
(docs/spark.md)."""
from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pyspark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

VERSION = ".".join(pyspark.__version__.split(".")[:2])
PUSHDOWN = "pyspark.sql.worker.data_source_pushdown_filters"


class _Absent:
    """Stands in for a class that this PySpark lacks. No object of Spark is one."""

    def __init__(self, value: Any = None):
        self.value = value


try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamReader,
        InputPartition,
        WriterCommitMessage,
    )
    DATA_SOURCES = True
except ImportError:    # 3.5: the same classes serve plain functions (batch.py)
    DATA_SOURCES = False
    DataSource = DataSourceArrowWriter = DataSourceReader = DataSourceStreamReader = _Absent  # type: ignore
    InputPartition = WriterCommitMessage = _Absent  # type: ignore

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:
    if DATA_SOURCES:    # 4.0: a worker hands Arrow batches to any writer that is a DataSourceArrowWriter
        from pyspark.sql.datasource import DataSourceStreamWriter

        class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):  # type: ignore
            """A writer of streams that takes Arrow batches."""
    else:
        DataSourceStreamArrowWriter = _Absent  # type: ignore

try:
    from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual
    FILTERS = True
except ImportError:    # 4.0
    FILTERS = False
    EqualTo = Filter = GreaterThan = GreaterThanOrEqual = In = LessThan = LessThanOrEqual = _Absent  # type: ignore

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
    LIMITS = True
except ImportError:    # 4.0, 4.1
    LIMITS = False
    ReadAllAvailable = ReadLimit = ReadMaxRows = _Absent  # type: ignore

    class SupportsTriggerAvailableNow:  # type: ignore
        """Spark ends the stream by itself, after one micro-batch."""


def arrow_schema(schema: StructType) -> pa.Schema:
    """Returns the schema in which Spark takes batches: times are in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:    # before 4.2, times are in UTC anyway
        return to_arrow_schema(schema)


def takes_filters() -> bool:
    """Returns whether this process plans a read with filters. Spark fails a query whose reader takes filters if the
    session does not push them down; it tells the reader only by the worker that asks. A PySpark whose worker has
    another name gives no filters: the read is slower, and right."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return FILTERS and (PUSHDOWN in sys.modules or getattr(main, "name", None) == PUSHDOWN)
