"""Streams of PySpark 4.0 and 4.1, which ask for the newest offset without a start and without a limit."""
from __future__ import annotations

from typing import Any

from pyspark.sql.types import StructType

from .compat import VERSION, InputPartition
from .plain import plain
from .position import packed, unpacked
from .settings import OptionError
from .source import StreamReader
from .wanted import SourceSettings


@plain("partitions")
class UnlimitedReader(StreamReader):
    """Reads all new records in each micro-batch. Remembers the end of the one before; after a restart, Spark tells the
    start only with the next micro-batch."""

    def __init__(self, settings: SourceSettings, schema: StructType):
        if settings.most or settings.least:
            name = "maxOffsetsPerTrigger" if settings.most else "minOffsetsPerTrigger"
            raise OptionError(f'option "{name}" needs PySpark 4.2: PySpark {VERSION} has no limits for Python sources. '
                              "Without it, each micro-batch reads all new records")
        super().__init__(settings, schema)
        self._reached: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_reached": None}

    def initialOffset(self) -> dict[str, Any]:
        self._reached = super().initialOffset()
        return self._reached

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        self._reached = super().latestOffset(self._reached or packed({}, {}), None)
        return self._reached

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Raises DataLost with failOnDataLoss if the end, which was found without the start, is before it."""
        begin, behind = self._still_there(start), unpacked(end)
        for queue, offsets in begin.items():
            for number, offset in offsets.items():
                last = behind.get(queue, {}).get(number, offset)
                if last < offset:
                    self._lost(f"queue {queue!r}: a partition ends at {last}, before {offset}, where the stream is")
        self._reached = end
        return super().partitions(start, end)
