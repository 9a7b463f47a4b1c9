"""How long a vacuum of the log takes when much has died at once, beside pushes.

python bench/vacuum.py [--postgres MAJOR] [--rows MILLIONS] [--rate REQUESTS] [--set NAME=VALUE ...]   makes and deletes rows by SQL,
then vacuums them while 16 connections push 100 messages per request (--rate per second; by default more than can be
answered). Prints seconds, CPU, what was waited for once a second, and the server's own account. About a minute per 3 million.
"""
import argparse
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout's own queend

import psycopg
from cluster import Cluster
from generator import run_load
from server import Daemon
from vacuums import Vacuums

QUEUE, PARTITIONS, DEAD = "vacuum", 1000, 1_000_000      # DEAD: partitions that die are numbered from there on
FILL = f"""INSERT INTO queend.log SELECT b, queend.now_us() - 100000000, {DEAD} + p, 1, '00000000-0000-0000-0000-000000000000', false, uuid_send(gen_random_uuid()),
                  decode('108601' || repeat('41', 134), 'hex'), '' FROM generate_series(1, %s) AS b, generate_series(1, {PARTITIONS}) AS p"""


def vacuum(cluster: Cluster, told: list[str]) -> None:
    with psycopg.connect(cluster.dsn, autocommit=True) as db:
        db.add_notice_handler(lambda notice: told.append(notice.message_detail or notice.message_primary))
        db.execute("SET maintenance_work_mem = '256MB'")
        db.execute("VACUUM (TRUNCATE OFF, PARALLEL 0, PROCESS_TOAST OFF, VERBOSE) queend.log")


def measure(cluster: Cluster, daemon: Daemon, words: argparse.Namespace) -> None:
    db, told, ended = cluster.connection, [], threading.Event()
    daemon.prepare(QUEUE, PARTITIONS)
    db.execute("ALTER TABLE queend.log SET (autovacuum_enabled = off)")
    db.execute(FILL, (int(words.rows * 1000),))
    db.execute(f"DELETE FROM queend.log WHERE partition_id > {DEAD}")
    db.execute("CHECKPOINT")
    print("MB of heap and key:", *db.execute("SELECT pg_relation_size('queend.log') >> 20, pg_relation_size('queend.log_pkey') >> 20").fetchone())
    vacuums = Vacuums(cluster.dsn, ended, least=0)
    watcher = threading.Thread(target=vacuums.watch, args=(time.time(),))
    worker = threading.Thread(target=vacuum, args=(cluster, told))
    roles = [dict(kind="push", name="push", queue=QUEUE, conns=16, items=100, partitions=PARTITIONS, ids=7, rate=words.rate)]
    watcher.start()
    report = run_load(daemon.host, daemon.port, 2.0, max(3.0, words.rows * 5), roles, worker.start, lambda: None)
    worker.join()
    ended.set()
    watcher.join()
    for run in vacuums.told():
        print("phase: [seconds, CPU seconds]", {phase: [round(x, 1) for x in spent] for phase, spent in run["phases"].items()}, "looks", run["waits"])
    print("\n".join(told))
    print("pushed meanwhile:", report["roles"]["push"]["messages"], "in", report["seconds"], "s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--postgres", type=int, default=15, metavar="MAJOR")
    parser.add_argument("--rows", type=float, default=6.0, metavar="MILLIONS")
    parser.add_argument("--rate", type=float, default=3000.0, metavar="N", help="push requests per second")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a server setting besides those of the embedded server")
    words = parser.parse_args()
    cluster, daemon = Cluster(words.postgres, dict(one.split("=", 1) for one in words.set)), None
    try:
        daemon = Daemon(cluster)
        measure(cluster, daemon, words)
    finally:
        if daemon is not None:
            daemon.stop()
        cluster.stop()


if __name__ == "__main__":
    main()
