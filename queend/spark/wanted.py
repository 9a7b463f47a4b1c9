"""The queues to read, from where, to where. Names and meaning follow Kafka's source."""
from __future__ import annotations

import json
import re
from dataclasses import dataclass

from .position import asked
from .settings import MIB, LinkSettings, OptionError, Options

Places = dict[str, dict[str, int]]


@dataclass(frozen=True)
class Edge:
    """One end of the range to read: by keyword, by partition, or by time. The last field that is set wins."""

    word: str
    places: Places | None = None
    times: Places | None = None    # ms, by partition
    time: int | None = None        # ms, for all partitions

    @classmethod
    def of(cls, options: Options, side: str, word: str) -> Edge:
        text = options.text(f"{side}Offsets", word) or word
        places = None
        if text.lower() in ("earliest", "latest"):
            word = text.lower()
        else:
            places = asked(f"{side}Offsets", text)
        return cls(word, places, asked(f"{side}OffsetsByTimestamp", options.text(f"{side}OffsetsByTimestamp")),
                   options.maybe(f"{side}Timestamp"))


@dataclass(frozen=True)
class SourceSettings:
    """How queues are read."""

    link: LinkSettings
    queues: tuple[str, ...]
    pattern: str | None
    assigned: dict[str, tuple[str, ...]] | None
    start: Edge
    end: Edge
    most: int | None
    tasks: int | None
    rows: int | None
    strict: bool
    headers: bool
    group: str | None
    bytes: int

    def covers(self, queue: str) -> bool:
        """Returns whether a queue of this name is read."""
        return queue in self.queues if self.pattern is None else bool(re.fullmatch(self.pattern, queue))

    @classmethod
    def of(cls, options: Options, streaming: bool) -> SourceSettings:
        given = [name for name in ("subscribe", "subscribePattern", "assign") if options.text(name)]
        if len(given) > 1:
            raise OptionError(f'options "{given[0]}" and "{given[1]}" cannot be combined')
        queues = tuple(one.strip() for one in (options.text("subscribe") or "").split(",") if one.strip())
        if not given and options.text("queue"):
            queues = (options.text("queue") or "",)
        elif not given:
            raise OptionError('no queue is given: set the option "subscribe" (names separated by commas), '
                              '"subscribePattern" or "assign"')
        pattern, assigned = options.text("subscribePattern"), None
        if pattern:
            try:
                re.compile(pattern)
            except re.error as error:
                raise OptionError(f'option "subscribePattern" is not a regular expression: {error}') from None
        if options.text("assign"):
            try:
                values = json.loads(options.text("assign") or "")
                assigned = {queue: tuple(str(one) for one in list(partitions)) for queue, partitions in values.items()}
            except (ValueError, AttributeError, TypeError):
                raise OptionError('option "assign" must be like {"orders": ["customer-7"]}') from None
            queues = tuple(assigned)
        if streaming:
            for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
                if options.text(name):
                    raise OptionError(f'option "{name}" is for batches: a stream has no end')
        start = Edge.of(options, "starting", "latest" if streaming else "earliest")
        end = Edge.of(options, "ending", "latest")
        if not streaming and start.word == "latest" and start.places is None:
            raise OptionError('option "startingOffsets" cannot be latest in a batch: nothing would be read')
        if end.word == "earliest":
            raise OptionError('option "endingOffsets" cannot be earliest: nothing would be read')
        rows = options.maybe("maxRecordsPerPartition", 1)
        return cls(LinkSettings.of(options), queues, pattern, assigned, start, end,
                   options.maybe("maxOffsetsPerTrigger", 1), options.maybe("minPartitions", 1), rows,
                   options.flag("failOnDataLoss", True), options.flag("includeHeaders", False),
                   options.text("commitGroup"), options.whole("fetchBytes", 8 * MIB, 1024, 32 * MIB))
