"""The database's clock, which dates what is stored, is wrong by an hour. That of whoever runs a job decides nothing."""
from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession
from support.daemon import Daemon
from support.wait import until

from queend.spark.jobs import archive, read
from queend.spark.link import Link
from queend.spark.marks import Marks
from queend.spark.settings import Options
from queend.spark.wanted import SourceSettings

HOUR = 3_600_000_000


class Clock:
    """The database's, as everything in it reads it (queend.now_us)."""

    def __init__(self, conninfo: str):
        self.connection = psycopg.connect(conninfo, autocommit=True)

    def move(self, us: int) -> None:
        """So far from the true time."""
        self.connection.execute(f"""CREATE OR REPLACE FUNCTION queend.now_us() RETURNS bigint LANGUAGE sql VOLATILE AS
                                    $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + {us} $$""")

    def floors(self) -> int:
        return self.connection.execute("SELECT COALESCE(sum(floor), 0) FROM queend.floors").fetchone()[0]


@pytest.fixture
def own(start_daemon: Callable[..., Daemon]) -> Daemon:
    return start_daemon(RETENTION_INTERVAL=100)


@pytest.fixture
def clock(own: Daemon) -> Iterator[Clock]:
    one = Clock(own.conninfo)
    yield one
    one.connection.close()


def test_a_stream_sees_what_is_written_after_the_clock_was_set_back(own: Daemon, clock: Clock, queue: str) -> None:
    settings = SourceSettings.of(Options({"url": own.url, "subscribe": queue}), streaming=True)

    def heads() -> dict[str, int]:
        marks.refresh()
        return {one.name: one.head for one in marks.known[queue].values()}

    with own.client() as client, Link(settings.link) as link:
        marks = Marks(link, settings)
        client.push(queue, 1, partition="a")
        assert heads() == {"a": 1}
        clock.move(-HOUR)
        client.push(queue, 1, partition="b")
        assert heads() == {"a": 1, "b": 1}
        client.push(queue, 2, partition="a")
        client.push(queue, 1, partition="c")
        assert heads() == {"a": 2, "b": 1, "c": 1}
        clock.move(HOUR)
        client.push(queue, 2, partition="b")
        assert heads() == {"a": 2, "b": 2, "c": 1}
        clock.move(0)
        client.push(queue, 2, 3, partition="c")
        assert heads() == {"a": 2, "b": 2, "c": 3}


def test_what_is_archived_under_wrong_clocks(spark: SparkSession, own: Daemon, clock: Clock, queue: str,
                                             tmp_path: Path) -> None:
    """Retention by a clock that jumps, and is an hour from that of the job, takes what is archived and nothing else."""
    cold, quiet = str(tmp_path / "cold"), lambda text: None
    with own.client() as client:
        client.configure(queue, completedRetentionSeconds=600, retentionEnabled=True)
        client.push(queue, *range(10))
        archive(spark, queue, cold, say=quiet, url=own.url)
        client.push(queue, *range(10, 20))
        clock.move(HOUR)
        until(lambda: clock.floors() == 10, "what is archived is taken")
        client.push(queue, *range(20, 30))
        did = archive(spark, queue, cold, say=quiet, url=own.url)
        assert (did["rows"], did["lost"]) == (20, 0)
        clock.move(-HOUR)
        client.push(queue, *range(30, 40))
        archive(spark, queue, cold, say=quiet, url=own.url)
        clock.move(0)
        client.push(queue, *range(40, 50))
        found = read(spark, queue, cold, url=own.url).select("offset", "value").collect()
    assert sorted((row.offset, json.loads(row.value)) for row in found) == [(n, n) for n in range(50)]
