"""A stream from queue to queue on a standalone cluster: in each round a speculative copy of a task runs beside it, a
worker is killed, and the driver is killed and started again. Nothing is lost, doubled or overtaken."""
from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

from cluster import HOSTS, Cluster
from support.daemon import Daemon
from support.log import heads, stored
from support.ports import free_port
from support.wait import until

ROUNDS = int(os.environ.get("CLUSTER_ROUNDS", 1))
ROWS = int(os.environ.get("CLUSTER_ROWS", 20_000))
SEED = os.environ.get("FAULT_SEED", "cluster")
KEYS = 20
LONG = 900.0     # seconds
SLOW = "Python worker failed to connect back"    # Spark waits 10 s for a process to start, which may be short here


def test_a_cluster_that_loses_its_parts(start_daemon: Callable[..., Daemon], queue: str, tmp_path: Path) -> None:
    dice, step = random.Random(SEED), ROWS // (ROUNDS + 1)
    own = start_daemon(PORT=free_port())
    with own.client() as client:
        for at in range(0, ROWS, 5000):
            client.push_items([{"queue": queue, "partition": f"k{n % KEYS}", "payload": n}
                               for n in range(at, min(ROWS, at + 5000))])

    def done() -> int:
        with own.client() as client:
            return sum(heads(client, f"{queue}.out").values())

    cluster = Cluster(tmp_path)
    words = (own.url, queue, f"{queue}.out", str(tmp_path), str(max(400, step // 10)))
    driver = cluster.drive(*words)

    def awaited(look: Callable[[], object], what: str) -> None:
        """Waits while the driver lives. One that Spark ended because the machine is slow is started again."""
        nonlocal driver
        while True:
            until(lambda: not driver.lives() or look(), what, LONG)
            if driver.lives():
                return
            assert SLOW in driver.story(), driver.story()[-4000:]
            driver.kill()
            driver = cluster.drive(*words)

    def reached(goal: int) -> None:
        awaited(lambda: done() >= goal, f"{goal} rows")
        assert done() < ROWS, "all was done before"

    try:
        for number in range(ROUNDS):
            begin, copies = number * step, cluster.copies()
            reached(begin + dice.randrange(step // 5))
            (tmp_path / "arm").touch()
            awaited(lambda: cluster.copies() > copies  # noqa: B023
                    and len(list(tmp_path.glob("copied-*"))) > number, "a speculative copy")  # noqa: B023
            reached(begin + dice.randrange(step // 3, step // 2))
            host = dice.choice(HOSTS)
            cluster.workers[host].kill()
            cluster.start_worker(host)
            reached(begin + dice.randrange(2 * step // 3, step))
            driver.kill()
            driver = cluster.drive(*words)
        awaited(lambda: done() >= ROWS, "all rows")
        print(f"{ROUNDS} rounds, {ROWS} rows, {cluster.copies()} copies of tasks")
    finally:
        driver.kill()
        cluster.end()
    with own.client() as client:
        assert sum(heads(client, f"{queue}.out").values()) == ROWS
        for key in range(KEYS):
            assert stored(client, f"{queue}.out", f"k{key}") == list(range(key, ROWS, KEYS))
