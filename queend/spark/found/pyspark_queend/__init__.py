"""The module by which Spark finds the data source `queend`: in each Python that runs its workers, Spark imports all
top-level modules with names like pyspark_…, and takes their class DefaultSource."""
try:
    from queend.spark.datasource import QueendDataSource as DefaultSource
except ImportError:    # no PySpark; an error here would hide the sources of other packages, too
    pass
else:
    __all__ = ["DefaultSource"]
