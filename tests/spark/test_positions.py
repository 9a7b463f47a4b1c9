"""How far a stream is, and where it begins: minimum and maximum of a trigger, times, progress. Asked of the reader
itself, without a session of Spark."""
from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from support.client import Client
from support.daemon import Daemon
from support.wait import until
from trigger_limits import ReadAllAvailable, ReadMaxRows, needs_limits

from queend.spark.plan import batch_ranges, Bounds
from queend.spark.link import Link
from queend.spark.position import same, unpacked
from queend.spark.records import usual
from queend.spark.settings import OptionError, Options
from queend.spark.source import StreamReader
from queend.spark.wanted import SourceSettings

Stream = Callable[..., StreamReader]
HOUR = 3_600_000


@pytest.fixture
def stream(daemon: Daemon, queue: str) -> Stream:
    def made(**options: str) -> StreamReader:
        given = {"url": daemon.url, "subscribe": queue, "startingOffsets": "earliest", **options}
        return StreamReader(SourceSettings.of(Options(given), streaming=True), usual(False))
    return made


def step(reader: StreamReader, start: dict) -> tuple[dict, int]:
    """The position after a trigger as Spark asks for it, and the number of records that it moved."""
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    return end, total(end) - total(start)


def total(position: dict) -> int:
    return sum(sum(offsets.values()) for offsets in unpacked(position).values())


# -- minOffsetsPerTrigger, maxTriggerDelay -----------------------------------------------------------------------------

@needs_limits
def test_a_trigger_waits_for_the_minimum(stream: Stream, client: Client, queue: str) -> None:
    client.push(queue, *range(3), partition="a")
    reader = stream(minOffsetsPerTrigger="10")
    at, moved = step(reader, reader.initialOffset())
    assert moved == 3      # the first one never waits, as with Kafka's source
    client.push(queue, *range(6), partition="a")
    client.push(queue, *range(3), partition="new")
    assert step(reader, at) == (at, 0)
    client.push(queue, 1, partition="a")
    at, moved = step(reader, at)
    assert moved == 10
    assert step(reader, at) == (at, 0)


@needs_limits
def test_minimum_and_maximum_together(stream: Stream, client: Client, queue: str) -> None:
    reader = stream(minOffsetsPerTrigger="4", maxOffsetsPerTrigger="6")
    client.push(queue, *range(15))
    at, moves = reader.initialOffset(), []
    for _ in range(4):
        at, moved = step(reader, at)
        moves.append(moved)
    assert moves == [6, 6, 0, 0]      # the last 3 wait


@needs_limits
def test_a_trigger_waits_no_longer_than_its_delay(stream: Stream, client: Client, queue: str) -> None:
    client.push(queue, 1)
    reader = stream(minOffsetsPerTrigger="1000", maxTriggerDelay="1s")
    began = time.monotonic()
    at, _ = step(reader, reader.initialOffset())
    client.push(queue, 2)
    found = until(lambda: (moved := step(reader, at))[1] and moved, "the delay is over")
    assert found[1] == 1 and time.monotonic() - began >= 1


@needs_limits
def test_a_reader_of_a_restarted_query_does_not_wait(stream: Stream, client: Client, queue: str) -> None:
    client.push(queue, 1)
    reader = stream(minOffsetsPerTrigger="1000")
    at, _ = step(reader, reader.initialOffset())
    client.push(queue, 2)
    assert step(reader, at) == (at, 0)
    assert step(stream(minOffsetsPerTrigger="1000"), at)[1] == 1


@needs_limits
def test_what_is_available_now_has_no_minimum(stream: Stream, client: Client, queue: str) -> None:
    client.push(queue, *range(10))
    reader = stream(minOffsetsPerTrigger="4", maxOffsetsPerTrigger="4")
    at = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    client.push(queue, "later")
    moves = []
    for _ in range(4):
        at, moved = step(reader, at)
        moves.append(moved)
    assert moves == [4, 4, 2, 0]


@needs_limits
def test_a_trigger_of_all_records_has_no_minimum(stream: Stream, client: Client, queue: str) -> None:
    """Spark asks so for trigger(once=True)."""
    client.push(queue, 1)
    reader = stream(minOffsetsPerTrigger="1000")
    at, _ = step(reader, reader.initialOffset())
    client.push(queue, 2)
    assert total(reader.latestOffset(at, ReadAllAvailable())) == 2


@needs_limits
def test_a_limit_without_options_is_none(stream: Stream, client: Client, queue: str) -> None:
    client.push(queue, 1)
    assert isinstance(stream().getDefaultReadLimit(), ReadAllAvailable)
    assert stream(maxOffsetsPerTrigger="7").getDefaultReadLimit() == ReadMaxRows(7)


# -- times -------------------------------------------------------------------------------------------------------------

def test_a_time_after_the_newest_record(stream: Stream, client: Client, queue: str) -> None:
    client.push(queue, *range(5), partition="a")
    later = str(int(time.time() * 1000) + HOUR)
    option = f"option \"startingTimestamp\": queue '{queue}' has no record stored at or after {later} (2"
    with pytest.raises(OptionError) as caught:
        stream(startingTimestamp=later).initialOffset()
    assert option in str(caught.value) and "startingOffsetsByTimestampStrategy=latest" in str(caught.value)
    lax = stream(startingTimestamp=later, startingOffsetsByTimestampStrategy="latest").initialOffset()
    assert total(lax) == 5
    assert total(stream(startingTimestamp="1").initialOffset()) == 0


def test_idle_keys_are_no_error_of_a_time_for_all(stream: Stream, client: Client, queue: str) -> None:
    client.push(queue, 1, partition="idle")
    first = int(time.time() * 1000) + 1
    until(lambda: int(time.time() * 1000) > first, "the next millisecond")
    client.push(queue, 2, partition="busy")
    assert total(stream(startingTimestamp=str(first)).initialOffset()) == 1
    times = f'{{"{queue}": {{"busy": {first}, "idle": {first}}}}}'
    with pytest.raises(OptionError, match=f"\"startingOffsetsByTimestamp\": partition 'idle' of queue '{queue}' has no "
                                          f"record stored at or after {first}"):
        stream(startingOffsetsByTimestamp=times).initialOffset()
    both = stream(startingOffsetsByTimestamp=times, startingOffsetsByTimestampStrategy="latest").initialOffset()
    assert total(both) == 1
    busy = f'{{"{queue}": {{"busy": {first}}}}}'
    assert total(stream(startingOffsetsByTimestamp=busy).initialOffset()) == 0


def test_an_end_in_the_future_is_the_head(daemon: Daemon, client: Client, queue: str) -> None:
    client.push(queue, *range(5))
    later = str(int(time.time() * 1000) + HOUR)
    for option, value in (("endingTimestamp", later), ("endingOffsetsByTimestamp",
                                                       f'{{"{queue}": {{"Default": {later}}}}}')):
        settings = SourceSettings.of(Options({"url": daemon.url, "subscribe": queue, option: value}), streaming=False)
        with Link(settings.link) as link:
            assert [one[2:4] for one in batch_ranges(link, settings, Bounds())] == [(0, 5)]


# -- progress ----------------------------------------------------------------------------------------------------------

@needs_limits
def test_progress_is_told_in_numbers(stream: Stream, client: Client, queue: str) -> None:
    client.push(queue, *range(10), partition="a")
    client.push(queue, *range(2), partition="b")
    reader = stream(maxOffsetsPerTrigger="6")
    assert reader.reportLatestOffset() is None
    end, _ = step(reader, reader.initialOffset())
    assert end["read"] == {queue: {"partitions": 2, "offsets": 6}}
    said = reader.reportLatestOffset()
    assert said["read"] == {queue: {"partitions": 2, "offsets": 12, "behind": 6}}
    least, most = sorted(10 - n if n > 2 else 2 - n for n in next(iter(unpacked(end).values())).values())
    assert (said["minOffsetsBehindLatest"], said["maxOffsetsBehindLatest"]) == (least, most)
    assert said["avgOffsetsBehindLatest"] == 3.0
    end, _ = step(reader, end)
    assert end["read"][queue]["offsets"] == 12
    assert reader.reportLatestOffset()["read"][queue]["behind"] == reader.reportLatestOffset()["maxOffsetsBehindLatest"]


@needs_limits
def test_a_checkpoint_of_an_older_connector_goes_on(stream: Stream, client: Client, queue: str) -> None:
    client.push(queue, *range(4))
    reader = stream()
    end, _ = step(reader, reader.initialOffset())
    older = {name: end[name] for name in ("version", "queues", "numbers")}
    assert reader.latestOffset(older, ReadAllAvailable()) == older      # another text would be an empty micro-batch
    client.push(queue, 5)
    newer = reader.latestOffset(older, ReadAllAvailable())
    assert newer["read"][queue]["offsets"] == 5 and not same(older, newer)
    assert [one[2:4] for task in reader.partitions(older, newer) for one in task.value] == [(4, 5)]
