"""Lag of a stream: the newest finished micro-batch of its checkpoint, against the heads of its queues. Needs no session
of Spark."""
from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyarrow import fs

from ..link import ARROW, Link, reach
from ..marks import Marks
from ..position import Position, metrics, numbers_of, unpacked
from ..settings import LinkSettings, OptionError, Options
from ..wanted import SourceSettings
from .fault import JobError, asking

LOG_VERSION, EMPTY = "v1", "-"    # of Spark's log of offsets; a source without an offset
ENTRIES, OLDEST_MOST = 1024, 10_240    # of one call; partitions whose first unread record is asked for
PATIENCE = "10000"    # ms
State = dict[str, Any]


def lag(checkpoint: str, **link: str) -> list[dict[str, Any]]:
    """Returns a row for each queue of each source `queend` of the stream: source, queue, partitions, partitionsBehind,
    lag (records), the metrics of Kafka's source, lost (unread records that retention deleted), oldestSeconds (age of
    the oldest unread record; None if there is none, or if more than OLDEST_MOST partitions are behind), state (`ok`,
    `deleted`, `recreated`). checkpoint: the folder of a stream or of the job `aggregate`, or a URL that pyarrow reads.
    Raises JobError."""
    try:
        settings = LinkSettings.of(Options({"retryTimeoutMs": PATIENCE, **link}))
        with asking(), Link(settings) as wire:
            states = list(_states(checkpoint))
            reach(settings)
            return [row for source, state in states for row in _source(wire, source, state)]
    except OptionError as error:
        raise JobError(str(error)) from None


def _states(checkpoint: str) -> Iterator[tuple[int, State]]:
    """Yields the positions of the stream's sources `queend` after its newest finished micro-batch, each with the number
    of the source."""
    try:
        system, folder = fs.FileSystem.from_uri(checkpoint) if ":/" in checkpoint else (fs.LocalFileSystem(),
                                                                                       checkpoint)
        folder = folder.rstrip("/")
        if not _numbers(system, f"{folder}/offsets") and _numbers(system, f"{folder}/stream/offsets"):
            folder += "/stream"
        planned, finished = (_numbers(system, f"{folder}/{name}") for name in ("offsets", "commits"))
        if not planned:
            raise JobError(f"{checkpoint!r} is no checkpoint of a stream: it has no offsets")
        if not planned & finished:
            raise JobError(f"the stream of {checkpoint!r} has not finished a micro-batch yet")
        text = system.open_input_stream(f"{folder}/offsets/{max(planned & finished)}").readall().decode()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise JobError(f"the checkpoint {checkpoint!r} cannot be read: {error}") from None
    version, _, *lines = text.splitlines()
    if version != LOG_VERSION:
        raise JobError(f"the checkpoint {checkpoint!r} has offsets in Spark's format {version!r}; this command reads "
                       f"{LOG_VERSION!r}")
    found = [(number, json.loads(line)) for number, line in enumerate(lines) if line.strip() not in ("", EMPTY)]
    ours = [(number, state) for number, state in found if isinstance(state, dict) and "queues" in state]
    if not ours:
        raise JobError(f"the stream of {checkpoint!r} has no source queend")
    yield from ours


def _numbers(system: fs.FileSystem, folder: str) -> set[int]:
    """Returns the numbers of the micro-batches that have a file in a folder."""
    files = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return {int(one.base_name) for one in files if one.base_name.isdecimal()}


def _source(link: Link, source: int, state: State) -> Iterator[dict[str, Any]]:
    try:
        position, numbers = unpacked(state), numbers_of(state)
    except ValueError as error:
        raise JobError(str(error)) from None
    options = Options({"subscribe": "any"})
    settings = replace(SourceSettings.of(options, streaming=True), link=link.settings, queues=tuple(position))
    marks = Marks(link, settings)
    marks.refresh()
    for queue in sorted(position):
        now = marks.numbers.get(queue)
        if now is None:
            yield {"source": source, "queue": queue, "partitions": 0, "partitionsBehind": 0, "lag": 0, **metrics([]),
                   "lost": 0, "oldestSeconds": None, "state": "deleted"}
        else:
            recreated = numbers.get(queue, now) != now
            yield _row(link, source, queue, {} if recreated else position[queue], marks, bool(state.get("assigned")),
                       recreated)


def _row(link: Link, source: int, queue: str, read: dict[int, int], marks: Marks, assigned: bool,
         recreated: bool) -> dict[str, Any]:
    """Returns the row of a queue. assigned: the stream reads only the partitions that it knows; otherwise it will read
    the others from their oldest record."""
    known = {number: one for number, one in marks.known[queue].items() if not assigned or number in read}
    begins = {number: read.get(number, one.floor) for number, one in known.items()}
    unread = {number: max(0, one.head - max(begins[number], one.floor)) for number, one in known.items()}
    behind: Position = {queue: {number: max(begins[number], known[number].floor)
                                for number, count in unread.items() if count}}
    return {"source": source, "queue": queue, "partitions": len(known), "partitionsBehind": len(behind[queue]),
            "lag": sum(unread.values()), **metrics(unread.values()),
            "lost": sum(max(0, one.floor - begins[number]) for number, one in known.items()),
            "oldestSeconds": _oldest(link, queue, behind[queue], marks), "state": "recreated" if recreated else "ok"}


def _oldest(link: Link, queue: str, begins: dict[int, int], marks: Marks) -> float | None:
    """Returns the age of the oldest record at these offsets, by the database's clock."""
    if not begins or len(begins) > OLDEST_MOST:
        return None
    entries = [{"queue": queue, "partition": marks.known[queue][number].name, "number": number, "offset": offset,
                "end": offset + 1, "maxBytes": 1} for number, offset in begins.items()]
    times: list[datetime] = []
    for at in range(0, len(entries), ENTRIES):
        wanted = {"entries": entries[at:at + ENTRIES], "maxBytes": 32 << 20, "columns": ["ts"]}
        with pa.ipc.open_stream(link.ask("/api/v1/fetch", wanted, ARROW)) as stream:
            times += [one for one in stream.read_all().column("ts").to_pylist() if one is not None]
    now = datetime.fromisoformat(marks.safe_time(queue))
    return round(max(0.0, (now - min(times)).total_seconds()), 3) if times else None
