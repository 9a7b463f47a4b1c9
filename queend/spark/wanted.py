"""The queues to read, from where, to where. Names and meaning follow Kafka's source."""
from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from .position import asked
from .settings import FORMATS, MIB, SINK, SOURCE, STREAMS_ONLY, LinkSettings, OptionError, Options

STRATEGY = "startingOffsetsByTimestampStrategy"
DELAY = 900.0    # seconds, the default of maxTriggerDelay
Places = dict[str, dict[str, int]]


@dataclass(frozen=True)
class Edge:
    """One end of the range to read: by keyword, by partition, or by time. The last one that is set wins. strict: a
    time after the last record is an error."""

    word: str
    places: Places | None = None
    times: Places | None = None    # ms, by partition
    time: int | None = None        # ms, for all partitions
    strict: bool = False

    @classmethod
    def of(cls, options: Options, side: str, word: str) -> Edge:
        text = options.text(f"{side}Offsets", word) or word
        places = None
        if text.lower() in ("earliest", "latest"):
            word = text.lower()
        else:
            places = asked(f"{side}Offsets", text)
        strict = options.choice(STRATEGY, "error", "latest") == "error"
        return cls(word, places, asked(f"{side}OffsetsByTimestamp", options.text(f"{side}OffsetsByTimestamp")),
                   options.maybe(f"{side}Timestamp"), strict and side == "starting")

    @staticmethod
    def check_time(queue: str, moment: int, later: Collection[str], names: Iterable[str] | None) -> None:
        """Raises OptionError if nothing is to be read from a time on. later: partitions with a record stored then or
        later. names: partitions each of which must be among them; None: the queue must have any. Partitions are keys,
        so most of them may be idle."""
        if names is None:
            missing = None if later else f"queue {queue!r}"
        else:
            there = set(later)
            missing = next((f"partition {name!r} of queue {queue!r}" for name in names if name not in there), None)
        if missing:
            option = "startingTimestamp" if names is None else "startingOffsetsByTimestamp"
            raise OptionError(f'option "{option}": {missing} has no record stored at or after {_shown(moment)}; '
                              f"{STRATEGY}=latest begins at the head then")


def _shown(moment: int) -> str:
    """Returns a time in ms since 1970 as it was given, and as a date if it is one."""
    try:
        return f"{moment} ({datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec='milliseconds')})"
    except (ValueError, OverflowError, OSError):
        return str(moment)


@dataclass(frozen=True)
class SourceSettings:
    """How queues are read. most, least: records of a micro-batch; delay: seconds that a micro-batch may wait for
    `least` records; format: one of FORMATS."""

    link: LinkSettings
    queues: tuple[str, ...]
    pattern: str | None
    assigned: dict[str, tuple[str, ...]] | None
    start: Edge
    end: Edge
    most: int | None
    least: int | None
    delay: float
    tasks: int | None
    rows: int | None
    strict: bool
    headers: bool
    group: str | None
    bytes: int
    format: str

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
        most, least = options.maybe("maxOffsetsPerTrigger", 1), options.maybe("minOffsetsPerTrigger", 1)
        if streaming and most and least and least > most:
            raise OptionError(f'option "minOffsetsPerTrigger" must be at most "maxOffsetsPerTrigger", which is {most}, '
                              f"not {least}")
        ours = [name for name in SINK if name not in SOURCE and (given or name != "queue")]
        options.ineffective([*ours, *options.dotted()], "on a read")
        if not streaming:
            options.ineffective(STREAMS_ONLY, "on a batch")
        elif not least:
            options.ineffective(["maxTriggerDelay"], "without minOffsetsPerTrigger")
        if start.time is None and start.times is None:
            options.ineffective([STRATEGY], "without startingTimestamp or startingOffsetsByTimestamp")
        return cls(LinkSettings.of(options), queues, pattern, assigned, start, end, most, least,
                   options.seconds("maxTriggerDelay", DELAY), options.maybe("minPartitions", 1),
                   options.maybe("maxRecordsPerPartition", 1), options.flag("failOnDataLoss", True),
                   options.flag("includeHeaders", False), options.text("commitGroup"),
                   options.whole("fetchBytes", 8 * MIB, 1024, 32 * MIB), options.choice("valueFormat", *FORMATS))
