"""An import from beginning to end: moves the data, then counts it on both sides."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from ...wording import many
from .source import BEGINNING, ZERO, Cursor, Place, Source
from .target import Rows, Target

BATCH = 10_000       # messages per transaction
NAME_MOST = 255      # bytes
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
SHOWN = 50           # differences shown


class ImportRefused(Exception):
    """Nothing was moved; the message says why."""


@dataclass
class Summary:
    """Counts of moved data, and the differences found."""

    queues: int = 0
    partitions: int = 0
    groups: int = 0
    messages: int = 0
    dead_letters: int = 0
    differences: list[str] = field(default_factory=list)

    def differ(self, what: str) -> None:
        if len(self.differences) < SHOWN:
            self.differences.append(what)


def bring(source: Source, target: Target, everything: bool, only: list[str], compress_from: int,
          tell: Callable[[str], None]) -> Summary:
    """Moves queues, partitions, messages that some group has not consumed yet (everything: all messages), cursors and
    dead letters. Skips what an earlier import has moved. only: names of queues, empty: all."""
    wanted = [one for one in source.queues() if not only or one.name in only]
    if missing := sorted(set(only) - {one.name for one in wanted}):
        raise ImportRefused(f"there is no queue {', '.join(missing)}")
    if there := target.known([one.name for one in wanted]):
        raise ImportRefused(f"these queues already exist and were not created by an import: {', '.join(there)}")
    for queue in wanted:
        _names(1, queue.name, *(one.name for one in source.groups(queue)))
        for page, _ in source.partitions(queue):
            _names(0, *(one.name for one in page))
    summary = Summary()
    for queue in wanted:
        groups = source.groups(queue)
        ids = target.queue(queue, groups)
        summary.queues += 1
        summary.groups += len(groups)
        before = summary.messages
        for page, cursors in source.partitions(queue):
            progress = target.partitions(queue.name, page)
            for part in page:
                low = BEGINNING if everything else lowest(groups, cursors[part.id])
                summary.partitions += 1
                if progress[part.id].done:       # by an earlier import: it may be in use
                    summary.messages += progress[part.id].stored
                    continue
                _partition(source, target, progress[part.id], low, cursors[part.id], ids, compress_from)
                summary.messages += _check(
                    source, target, progress[part.id], low, cursors[part.id], ids, f"{queue.name}/{part.name}", summary)
        target.tell(queue.name)
        found = target.dead_letters(queue, source.dead_letters(queue), ids)
        summary.dead_letters += found
        tell(f"{queue.name}: {many(summary.messages - before, 'message')}, {many(found, 'dead letter')}")
    return summary


def lowest(groups: list[Any], cursors: list[Cursor]) -> Place:
    """Returns the lowest place of the groups: some group has not consumed the messages behind it. A group without a
    cursor in the partition stands at the start of its subscription."""
    places = {one.group: one.place for one in cursors}
    if not groups:
        return BEGINNING
    return min(places.get(one.name) or _start(one) for one in groups)


def _start(group: Any) -> Place:
    return BEGINNING if group.start_us is None else (EPOCH + timedelta(microseconds=group.start_us), ZERO)


def _names(least: int, *names: str) -> None:
    if odd := [name for name in names if not least <= len(name.encode()) <= NAME_MOST]:
        raise ImportRefused(f"names have {least} to {NAME_MOST} bytes: {', '.join(map(repr, odd))}")


def _partition(source: Source, target: Target, progress: Any, low: Place, cursors: list[Cursor], groups: dict[str, int],
               compress_from: int) -> None:
    # Cursors: (committed at the end, moment, group, retries).
    placed = [(source.count(progress.source_id, low, one.place) - 1, one.consumed_us, groups[one.group], one.retries)
              for one in cursors]
    after = low if progress.last_id is None else (progress.last_at, progress.last_id)
    rows, last = Rows(progress.stored, progress.high, progress.odd), None
    for n, last in enumerate(source.messages(progress.source_id, after), 1):
        rows.add(last, compress_from, target.now_us)
        if n % BATCH == 0:
            rows.close(compress_from)
            target.append(progress, rows, last, placed)
            rows = Rows(rows.base, rows.high, rows.odd)
    rows.close(compress_from)
    target.append(progress, rows, last, placed)
    target.done(progress)


def _check(source: Source, target: Target, progress: Any, low: Place, cursors: list[Cursor], groups: dict[str, int],
           name: str, summary: Summary) -> int:
    """Counts a partition on both sides. Returns the number of its messages."""
    there = source.count(progress.source_id, low)
    here, lags = target.figures(progress)
    if here != there:
        summary.differ(f"{name}: {many(there, 'message')} in the source, {here} here")
    for one in cursors:
        lag = source.count(progress.source_id, max(low, one.place))
        if lags.get(groups[one.group]) != lag:
            summary.differ(f"{name}, group {one.group}: {many(lag, 'unconsumed message')} in the source, "
                           f"{lags.get(groups[one.group])} here")
    return here
