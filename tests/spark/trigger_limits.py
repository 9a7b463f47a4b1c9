"""Limits of a micro-batch, which Spark asks a Python source for since 4.2."""
import pytest

from queend.spark.compat import LIMITS

if LIMITS:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
else:
    ReadAllAvailable = ReadMaxRows = None

needs_limits = pytest.mark.skipif(not LIMITS, reason="PySpark before 4.2 asks no Python source for limits")
__all__ = ["ReadAllAvailable", "ReadMaxRows", "needs_limits"]
