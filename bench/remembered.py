"""What a daemon that just started pays for a partition full of random ids, and what others pay meanwhile.

python bench/remembered.py [--postgres MAJOR] [--stored 1000000]

One partition with so many version-4 ids in rows of 100. A daemon starts; the first transaction with a random id (it learns), 20 more,
20 with an id from the middle of the log. A daemon starts; the first push to the partition, while another connection pushes to a
small partition of its own, one after the other. Processor time of PostgreSQL and of the daemon; the longest of the small pushes.
"""
from __future__ import annotations

import argparse
import sys
import threading
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cluster import Cluster  # noqa: E402
from server import Daemon  # noqa: E402


def fill(cluster: Cluster, stored: int) -> None:
    daemon = Daemon(cluster)
    for part in ("large", "small"):
        daemon.call("POST", "/api/v1/push", {"items": [{"queue": "q", "partition": part, "payload": 0}]})
    daemon.stop()
    db = cluster.connection
    part, = db.execute("SELECT id FROM queend.partitions WHERE name = 'large'").fetchone()
    db.execute("DELETE FROM queend.log WHERE partition_id = %s", (part,))
    db.execute("""INSERT INTO queend.log (base, created_at, partition_id, n, high, odd, ids, body, meta)
                  SELECT b, (SELECT queend.now_us() - 60000000), %s, 100, '00000000-0000-0000-0000-000000000000', false, string_agg(uuid_send(gen_random_uuid()), ''),
                         decval.body, '' FROM generate_series(0, %s - 100, 100) AS b, generate_series(1, 100), (SELECT decode('10' || repeat('01', 100) || repeat('30', 100), 'hex') AS body) AS decval
                   GROUP BY b, decval.body""", (part, stored))
    db.execute("INSERT INTO queend.unlisted VALUES (%s, 0)", (part,))
    db.execute("VACUUM ANALYZE")


class Cost:
    """What happened between two looks, per call."""

    def __init__(self, cluster: Cluster, daemon: Daemon):
        self.cluster, self.daemon = cluster, daemon
        self.before = cluster.cpu_seconds(), daemon.cpu_seconds(), time.perf_counter()

    def say(self, what: str, calls: int = 1) -> None:
        time.sleep(0.05)          # a backend's time is counted when it rests
        postgres, own, clock = (a - b for a, b in zip((self.cluster.cpu_seconds(), self.daemon.cpu_seconds(), time.perf_counter() - 0.05), self.before))
        print(f"{what:50} PostgreSQL {postgres / calls * 1e3:9.2f} ms  daemon {own / calls * 1e3:8.2f} ms  clock {clock / calls * 1e3:9.1f} ms", flush=True)


def item(part: str, transaction: str | None = None) -> dict:
    return {"queue": "q", "partition": part, "transactionId": transaction or str(uuid.uuid4()), "payload": 0}


def transactions(cluster: Cluster) -> None:
    daemon = Daemon(cluster)
    old, = cluster.connection.execute("SELECT substr(l.ids, 1, 16) FROM queend.log l JOIN queend.partitions p ON p.id = l.partition_id WHERE p.name = 'large'"
                                      " ORDER BY base OFFSET 3000 LIMIT 1").fetchone()
    for what, calls, one in [("first transaction", 1, None), ("a transaction with a new id", 20, None), ("a transaction with an old id", 20, str(uuid.UUID(bytes=old)))]:
        cost = Cost(cluster, daemon)
        for _ in range(calls):
            answer = daemon.call("POST", "/api/v1/transaction", {"operations": [{"type": "push", **item("large", one)}]})
            assert answer["success"] is (one is None), answer
        cost.say(what, calls)
    print(f"the daemon's memory: {daemon.rss_mb():.0f} MB", flush=True)
    daemon.stop()


def learning(cluster: Cluster) -> None:
    daemon = Daemon(cluster)
    daemon.call("POST", "/api/v1/push", {"items": [item("small")]})
    done = threading.Event()

    def first() -> None:
        daemon.call("POST", "/api/v1/push", {"items": [item("large")]})
        done.set()

    thread = threading.Thread(target=first)
    cost = Cost(cluster, daemon)
    thread.start()
    times = []
    while not done.is_set():
        began = time.perf_counter()
        daemon.call("POST", "/api/v1/push", {"items": [item("small")]})
        times.append(time.perf_counter() - began)
    thread.join()
    cost.say("first push")
    print(f"pushes to another partition meanwhile: {len(times)}, the longest {max(times) * 1e3:.1f} ms", flush=True)
    daemon.stop()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--postgres", type=int, metavar="MAJOR")
    arguments.add_argument("--stored", type=int, default=1000000)
    given = arguments.parse_args()
    cluster = Cluster(given.postgres)
    try:
        fill(cluster, given.stored)
        transactions(cluster)
        learning(cluster)
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
