"""Jobs on Spark's engine as plain functions; `queend spark` runs them from the command line (docs/spark.md)."""
from .aggregate import aggregate
from .archive import archive
from .backfill import backfill
from .dlq import report, revive
from .fault import JobError
from .lag import lag
from .read import read
from .replay import replay

__all__ = ["JobError", "aggregate", "archive", "backfill", "lag", "read", "replay", "report", "revive"]
