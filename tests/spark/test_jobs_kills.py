"""Jobs that store records, killed at random moments with all of Spark, and their daemon too: nothing is lost, nothing
is stored twice."""
from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from support.daemon import Daemon
from support.log import heads, stored
from support.ports import free_port

from kills import KILLS, Victim

ROWS = int(os.environ.get("SPARK_ROWS", 300_000))
KEYS = 20
START = 1_700_000_000 // 3600 * 3600
CUSTOMERS, WINDOW, WINDOWS = 4, 20, 24 * (2 * KILLS + 1)
MOST = 8 * WINDOW    # records of a micro-batch: it spans eight windows


def test_replay(start_daemon: Callable[..., Daemon], queue: str, tmp_path: Path) -> None:
    query = f"SELECT concat('k', id % {KEYS}) AS key, CAST(id AS string) AS value, id AS at FROM range(0, {ROWS}, 1, 4)"
    victim = Victim(start_daemon, start_daemon(PORT=free_port()), tmp_path, queue, ROWS,
                    "replay", queue, "--job", "again", "--sql", query, "--order", "at")
    victim.killed()
    assert victim.finished()["offsets"]["to"] == ROWS
    with victim.daemon.client() as client:
        assert heads(client, queue) == {f"k{key}": len(range(key, ROWS, KEYS)) for key in range(KEYS)}
        for key in range(KEYS):
            assert stored(client, queue, f"k{key}") == list(range(key, ROWS, KEYS))


def test_aggregate(start_daemon: Callable[..., Daemon], queue: str, tmp_path: Path) -> None:
    """An event a second, of each customer in turn. A window has five events of each."""
    daemon, seconds, out = start_daemon(PORT=free_port()), WINDOW * WINDOWS, f"{queue}.out"
    with daemon.client() as client:
        for at in range(0, seconds, 5000):
            client.push_items([{"queue": queue, "partition": f"c{n % CUSTOMERS}", "payload": {"n": n, "at": START + n}}
                               for n in range(at, min(seconds, at + 5000))])
    victim = Victim(start_daemon, daemon, tmp_path, out, CUSTOMERS * WINDOWS,
                    "aggregate", queue, str(tmp_path / "checkpoint"), "--to", out, "--schema", "n long, at long",
                    "--time", "timestamp_seconds(at)", "--watermark", "10s", "--window", f"{WINDOW}s", "--by",
                    "partition", "--select", "sort_array(collect_list(n)) AS events", "--most", str(MOST))
    victim.killed()
    victim.finished("--once")
    with victim.daemon.client() as client:    # the watermark passes all windows
        client.push(queue, {"n": -1, "at": START + 10 * seconds}, partition="end")
    assert victim.finished("--once")["late"] == 0
    with victim.daemon.client() as client:
        assert heads(client, out) == {f"c{customer}": WINDOWS for customer in range(CUSTOMERS)}
        for customer in range(CUSTOMERS):
            events = [window["events"] for window in stored(client, out, f"c{customer}")]
            assert sorted(events) == [list(range(at + customer, at + WINDOW, CUSTOMERS))
                                      for at in range(0, seconds, WINDOW)]
