"""queend as a data source of Spark: `spark.dataSource.register(QueendDataSource)`, then `format("queend")`
(docs/spark.md)."""
import os
import sys

from .datasource import QueendDataSource

__all__ = ["QueendDataSource"]

# Spark starts its Python workers by this name. The default is python3, often an interpreter without the connector.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
