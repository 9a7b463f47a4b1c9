"""queend as a data source of Spark: `spark.dataSource.register(QueendDataSource)`, then `format("queend")`
(docs/spark.md)."""
from .datasource import QueendDataSource

__all__ = ["QueendDataSource"]
