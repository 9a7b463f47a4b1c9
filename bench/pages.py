"""What the pages cost over 100 000 partitions and a million messages: python bench/pages.py [--postgres 15] [--partitions N]

One queue has all but 100 of the partitions, 100 queues have one each; two groups consumed some of it. Every page is asked for once to
warm it up, then TIMES times; told are the median and the worst time, the CPU the daemon and the server spent on one, and the size of
the answer. Then what keeping the figures costs: a walk through everything, and a look after 1000 partitions changed.
"""
from __future__ import annotations

import argparse
import http.client
import os
import signal
import statistics
import subprocess
import sys
import time
from urllib.parse import quote

import psycopg

from cluster import Cluster
from process import cpu_seconds

TIMES = 7
RECORDS = 10
LOAD = """
INSERT INTO queend.queues (name, namespace, task, created_at) SELECT 'q' || i, 'n' || i %% 7, 't' || i %% 3, now() + i * interval '1 ms' FROM generate_series(0, 100) AS i;
INSERT INTO queend.partitions (queue_id, name) SELECT q.id, 'p' || i FROM queend.queues q, generate_series(1, %(parts)s) AS i WHERE q.name = 'q0';
INSERT INTO queend.partitions (queue_id, name) SELECT q.id, 'Default' FROM queend.queues q WHERE q.name <> 'q0';
INSERT INTO queend.log (base, created_at, partition_id, n, high, odd, ids, body, meta)
SELECT 0, queend.now_us() - 7200000000 + p.id::bigint * 7200000000 / %(parts)s / 2, p.id, %(records)s, '00000000-0000-0000-0000-000000000000', false,
       decode(repeat(replace(gen_random_uuid()::text, '-', ''), %(records)s), 'hex'), decode('10' || repeat('07', %(records)s) || repeat('7b2261223a317d', %(records)s), 'hex'), ''
  FROM queend.partitions p ORDER BY p.id;
INSERT INTO queend.consumer_groups (queue_id, name, mode) SELECT q.id, g, 'all' FROM queend.queues q, unnest(ARRAY['__QUEUE_MODE__', 'other']) AS g;
INSERT INTO queend.cursors (committed, partition_id, group_id, consumed_at)
SELECT p.id %% %(records)s - CASE g.name WHEN 'other' THEN 1 ELSE 0 END, p.id, g.id, queend.now_us() - 3600000000 FROM queend.partitions p JOIN queend.consumer_groups g ON g.queue_id = p.queue_id;
INSERT INTO queend.trace_names (name, ord, partition_id, record_id, trace_id, created_at)
SELECT 'trace' || i %% 1000, i, i %% 1000 + 1, '\\x00', gen_random_uuid(), i FROM generate_series(1, %(parts)s) AS i;
"""
ACKNOWLEDGED = """UPDATE queend.cursors SET consumed_at = queend.now_us() WHERE partition_id % 100 = 0 AND group_id = (
    SELECT g.id FROM queend.consumer_groups g JOIN queend.queues q ON q.id = g.queue_id WHERE q.name = 'q0' AND g.name = 'other')"""
PAGES = (
    "/api/v1/resources/queues", "/api/v1/resources/queues/q0", "/api/v1/resources/queues/q1", "/api/v1/resources/queues/q0/depth?group=other",
    "/api/v1/resources/partitions", "/api/v1/resources/namespaces", "/api/v1/resources/tasks", "/api/v1/resources/overview", "/api/v1/status", "/api/v1/status?queue=q0",
    "/api/v1/status/queues", "/api/v1/status/queues/q0", "/api/v1/status/queues/q0/messages", "/api/v1/status/analytics", "/api/v1/consumer-groups",
    "/api/v1/consumer-groups/lagging", "/api/v1/consumer-groups/other", "/api/v1/traces/names", "/api/v1/messages", "/api/v1/analytics/system-metrics",
    "/api/v1/analytics/worker-metrics", "/api/v1/analytics/queue-lag", "/api/v1/analytics/queue-ops", "/api/v1/analytics/queue-parked-replicas",
    "/api/v1/analytics/retention", "/api/v1/analytics/postgres-stats", "/metrics/prometheus")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--postgres", type=int, default=None)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--port", type=int, default=6670)
    wanted = parser.parse_args()
    cluster = Cluster(wanted.postgres)
    environment = {**os.environ, "QUEEND_DSN": cluster.dsn, "HOST": "127.0.0.1", "PORT": str(wanted.port), "NUM_WORKERS": "1", "LOG_LEVEL": "warn",
                   "STATS_RECONCILE_INTERVAL_MS": "3600000"}
    daemon = None
    try:
        subprocess.run([sys.executable, "-m", "queend", "migrate"], env=environment, check=True, stdout=subprocess.DEVNULL)
        with psycopg.connect(cluster.dsn, autocommit=True) as connection:
            for statement in LOAD.split(";\n"):
                if statement.strip():
                    connection.execute(statement, {"parts": wanted.partitions, "records": RECORDS})
            connection.execute("VACUUM (ANALYZE) queend.log, queend.cursors, queend.partitions, queend.trace_names")
            daemon = subprocess.Popen([sys.executable, "-m", "queend", "serve"], env=environment)
            connect(wanted.port)
            began, cpu = time.perf_counter(), cluster.cpu_seconds()
            ask(wanted.port, "/api/v1/stats/refresh", "POST")
            print(f"| walk through everything | {(time.perf_counter() - began) * 1000:.0f} ms | {(cluster.cpu_seconds() - cpu) * 1000:.0f} ms of the server |")
            measure_looks(cluster, connection)
            print("\n| page | median | worst | CPU of the server | CPU of the daemon | bytes |\n|---|---|---|---|---|---|")
            for page in PAGES:
                status, size = ask(wanted.port, page)
                if status == 404:
                    continue
                times, server, own = [], cluster.cpu_seconds(), cpu_seconds(daemon.pid)
                for _ in range(TIMES):
                    began = time.perf_counter()
                    ask(wanted.port, page)
                    times.append((time.perf_counter() - began) * 1000)
                server, own = (cluster.cpu_seconds() - server) / TIMES * 1000, (cpu_seconds(daemon.pid) - own) / TIMES * 1000
                print(f"| `{page}` | {statistics.median(times):.1f} ms | {max(times):.1f} ms | {server:.1f} ms | {own:.1f} ms | {size} |", "" if status == 200 else status)
    finally:
        if daemon:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait()
        cluster.stop()


def measure_looks(cluster: Cluster, connection: psycopg.Connection) -> None:
    """A look that finds nothing, and one after 1000 partitions were acknowledged, as statements."""
    connection.execute("SELECT pg_sleep(3)")      # looks overlap by two seconds: what was loaded is out of sight
    for what, change in (("nothing changed", None), ("1000 partitions changed", ACKNOWLEDGED)):
        found, visited, cpu = [], [], 0.0
        for _ in range(TIMES):
            if change:
                connection.execute(change)
            before, began = cluster.cpu_seconds(), time.perf_counter()
            _, queues, parts = connection.execute("SELECT since, queues, parts FROM queend.stats_changed(1000000, true, true)").fetchone()
            found.append(time.perf_counter() - began)
            connection.execute("SELECT queend.stats_visit(%s::int[], %s::int[])", (queues or [], parts or []))
            visited.append(time.perf_counter() - began - found[-1])
            cpu += cluster.cpu_seconds() - before
        print(f"| look, {what} | found in {statistics.median(found) * 1000:.0f} ms, {len(parts or [])} visited in {statistics.median(visited) * 1000:.0f} ms | "
              f"{cpu / TIMES * 1000:.0f} ms of the server |")


def connect(port: int) -> None:
    for _ in range(600):
        try:
            if ask(port, "/health")[0] == 200:
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the daemon does not answer")


def ask(port: int, path: str, method: str = "GET") -> tuple[int, int]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(method, quote(path, safe="/?=&"))
    answer = connection.getresponse()
    size = len(answer.read())
    connection.close()
    return answer.status, size


if __name__ == "__main__":
    main()
