"""queend as a data source of Spark, which Spark finds by itself for `format("queend")`, and as functions, which also
run on PySpark 3.5 (docs/spark.md)."""
from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .batch import batch_writer, read_batch, write_batch
    from .datasource import QueendDataSource

__all__ = ["QueendDataSource", "batch_writer", "read_batch", "write_batch"]

# Spark starts its Python workers by this name. The default is python3, often an interpreter without the connector.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

if find_spec("pyspark_queend") is None:    # a checkout: a wheel installs the module beside queend
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).with_name("found")), *filter(None, [os.environ.get("PYTHONPATH")])])


def __getattr__(name: str) -> Any:
    """Imports a name when it is used: Spark imports this package to look for data sources (datasource.py)."""
    if name == "QueendDataSource":
        from .datasource import QueendDataSource

        return QueendDataSource
    if name in __all__:
        from . import batch

        return getattr(batch, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
