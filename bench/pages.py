"""What the pages cost over 100 000 partitions and a million messages: python bench/pages.py [--postgres 15]
[--partitions N]

One queue has nearly all of the partitions, one a thousand, 100 queues have one each; two groups consumed some of it;
everything was stored within the last hour. There are as many dead letters and traces as partitions, and a day of
minutes of every queue. Every page is asked for once to warm it up, then TIMES times. Printed are the tables of
bench/results/pages.md: the median and the worst time, the CPU that PostgreSQL and the daemon spent on one, the size of
the answer; and what keeping the figures costs.
"""
from __future__ import annotations

import argparse
import datetime
import http.client
import json
import os
import statistics
import time
from urllib.parse import quote

import psycopg

from cluster import Cluster
from process import cpu_seconds
from server import Daemon

TIMES, MOST_MS = 20, 5000      # a page is asked for so often, or so long
RECORDS = 10
WIDE = 1000      # partitions of the queue that has many, but not most
LOAD = """
INSERT INTO queend.queues (name, namespace, task, created_at)
 SELECT 'q' || i, 'n' || i %% 7, 't' || i %% 3, now() + i * interval '1 ms' FROM generate_series(0, 100) AS i;
INSERT INTO queend.queues (name) VALUES ('wide');
INSERT INTO queend.partitions (queue_id, name) SELECT q.id, 'p' || i
 FROM queend.queues q, generate_series(1, %(parts)s) AS i WHERE q.name = 'q0';
INSERT INTO queend.partitions (queue_id, name) SELECT q.id, 'w' || i
 FROM queend.queues q, generate_series(1, %(wide)s) AS i WHERE q.name = 'wide';
INSERT INTO queend.partitions (queue_id, name) SELECT q.id, 'Default' FROM queend.queues q
 WHERE q.name NOT IN ('q0', 'wide');
INSERT INTO queend.log (base, created_at, partition_id, n, high, odd, ids, body, meta)
SELECT 0, queend.now_us() - 3500000000 + p.id::bigint * 3400000000 / %(parts)s, p.id, %(records)s,
 '00000000-0000-0000-0000-000000000000', false,
       decode(repeat(replace(gen_random_uuid()::text, '-', ''), %(records)s), 'hex'), decode('10' || repeat('07',
        %(records)s) || repeat('7b2261223a317d', %(records)s), 'hex'), ''
  FROM queend.partitions p ORDER BY p.id;
INSERT INTO queend.consumer_groups (queue_id, name, mode) SELECT q.id, g, 'all'
 FROM queend.queues q, unnest(ARRAY['__QUEUE_MODE__', 'other']) AS g;
INSERT INTO queend.cursors (committed, partition_id, group_id, consumed_at)
SELECT p.id %% %(records)s - CASE g.name WHEN 'other' THEN 1 ELSE 0 END, p.id, g.id, queend.now_us() - 3600000000
 FROM queend.partitions p JOIN queend.consumer_groups g ON g.queue_id = p.queue_id;
INSERT INTO queend.dead_letters (queue_id, partition_id, group_id, record_offset, record_id, transaction_id, payload,
 error, retry_count, created_at, failed_at)
SELECT p.queue_id, p.id, g.id, 1, substr(l.ids, 17, 16), 'dead' || p.id, '{"a":1}', 'error ' || p.id %% 20, 3,
 l.created_at, l.created_at + 1000000
  FROM queend.partitions p JOIN queend.log l ON l.partition_id = p.id
   JOIN queend.consumer_groups g ON g.queue_id = p.queue_id AND g.name = 'other' WHERE p.queue_id = 1;
INSERT INTO queend.traces (partition_id, record_id, transaction_id, group_name, event_type, worker_id, data, names,
 created_at)
SELECT l.partition_id, substr(l.ids, 1, 16), 'traced', 'other', 'info', 'w', '{"a":1}',
 ARRAY['trace' || l.partition_id %% 1000], l.created_at FROM queend.log l;
INSERT INTO queend.trace_names (name, ord, partition_id, record_id, trace_id, created_at)
 SELECT t.names[1], t.ord, t.partition_id, t.record_id, t.id, t.created_at FROM queend.traces t;
INSERT INTO queend.metric_queues (bucket, queue_id, port, worker, hostname, push_requests, push_messages, pop_requests,
 pop_messages, pop_empty, ack_requests, ack_done, ack_failed,
                                  transactions, lag_us, lag_n, lag_most_us, parked, samples)
SELECT %(minute)s - i * 60000000::bigint, q.id, 1, 0, 'somewhere', 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14
 FROM queend.queues q, generate_series(1, 1440) AS i;
INSERT INTO queend.metric_workers (bucket, port, worker, pid, hostname, seen_at, counts, levels)
SELECT %(minute)s - i * 60000000::bigint, 1, 0, 1, 'somewhere', %(minute)s - i * 60000000::bigint, array_fill(5,
 ARRAY[14]),
       (SELECT jsonb_object_agg(name, '[50, 10, 1, 9, 5]'::jsonb) FROM unnest(%(levels)s::text[]) AS name)
        FROM generate_series(1, 1440) AS i;
"""
VACUUM = ("VACUUM (ANALYZE) queend.log, queend.cursors, queend.partitions, queend.dead_letters, queend.traces,"
          " queend.trace_names, queend.metric_queues, queend.metric_workers")
ACKNOWLEDGED = """UPDATE queend.cursors SET consumed_at = queend.now_us() WHERE partition_id % 100 = 0 AND group_id = (
    SELECT g.id FROM queend.consumer_groups g JOIN queend.queues q ON q.id = g.queue_id WHERE q.name = 'q0'
     AND g.name = 'other')"""
PAGES = (
    "/api/v1/resources/queues", "/api/v1/resources/queues/q0", "/api/v1/resources/queues/q0?offset=90000",
    "/api/v1/resources/queues/q1",
    "/api/v1/resources/queues/q0/depth?group=other", "/api/v1/resources/partitions",
    "/api/v1/resources/partitions?offset=90000",
    "/api/v1/resources/partitions?queue=q0", "/api/v1/resources/namespaces", "/api/v1/resources/tasks",
    "/api/v1/resources/overview", "/api/v1/status",
    "/api/v1/status?from=DAY", "/api/v1/status?queue=q0", "/api/v1/status/queues", "/api/v1/status/queues/q0",
    "/api/v1/status/queues/q0/messages",
    "/api/v1/status/queues/wide/messages", "/api/v1/status/queues/q1/messages", "/api/v1/status/analytics",
    "/api/v1/status/analytics?interval=minute",
    "/api/v1/consumer-groups", "/api/v1/consumer-groups/lagging?minLagSeconds=60", "/api/v1/consumer-groups/other",
    "/api/v1/messages", "/api/v1/messages?queue=q0", "/api/v1/messages?queue=wide", "/api/v1/messages?queue=q1",
    "/api/v1/messages?queue=q0&partition=p7",
    "/api/v1/messages?ns=n1", "/api/v1/messages?queue=q0&offset=2000", "/api/v1/messages?queue=q0&status=pending",
    "/api/v1/messages?queue=q0&status=completed",
    "/api/v1/messages?queue=q0&status=processing", "/api/v1/messages?queue=q0&status=dead_letter",
    "/api/v1/messages?queue=wide&status=dead_letter",
    "/api/v1/messages/MESSAGE", "/api/v1/dlq", "/api/v1/dlq?queue=q0", "/api/v1/dlq?queue=q0&partition=p7",
    "/api/v1/dlq?consumerGroup=other",
    "/api/v1/traces/names", "/api/v1/traces/by-name/trace1", "/api/v1/traces/MESSAGE",
    "/api/v1/analytics/system-metrics", "/api/v1/analytics/system-metrics?from=DAY",
    "/api/v1/analytics/worker-metrics", "/api/v1/analytics/worker-metrics?from=DAY", "/api/v1/analytics/queue-lag",
    "/api/v1/analytics/queue-lag?queue=q0",
    "/api/v1/analytics/queue-ops", "/api/v1/analytics/queue-ops?from=DAY",
    "/api/v1/analytics/queue-ops?queue=q0&from=DAY", "/api/v1/analytics/queue-parked-replicas",
    "/api/v1/analytics/retention", "/api/v1/analytics/postgres-stats", "/metrics/prometheus")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--postgres", type=int, default=None)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--port", type=int, default=6670)
    parser.add_argument("--only", default="", help="pages whose path has this")
    wanted = parser.parse_args()
    from queend.control.history import LEVELS
    from queend.service.migrate import migrate
    cluster = Cluster(wanted.postgres)
    daemon = None
    try:
        migrate(cluster.dsn)
        with psycopg.connect(cluster.dsn, autocommit=True) as connection:
            for statement in LOAD.split(";\n"):
                if statement.strip():
                    connection.execute(statement, {"parts": wanted.partitions, "wide": WIDE, "records": RECORDS,
                                                   "levels": list(LEVELS),
                                                   "minute": int(time.time() // 60 * 60_000_000)})
            connection.execute(VACUUM)
            messages = connection.execute("SELECT count(*) * %s FROM queend.log", (RECORDS,)).fetchone()[0]
            daemon = Daemon(cluster, PORT=str(wanted.port), NUM_WORKERS="1", STATS_RECONCILE_INTERVAL_MS="3600000")
            began, cpu = time.perf_counter(), cluster.cpu_seconds()
            ask(wanted.port, "/api/v1/stats/refresh", "POST")
            walk = (f"| a walk through everything, {(time.perf_counter() - began):.1f} s |"
                    f" {(cluster.cpu_seconds() - cpu) * 1000:.0f} ms |")
            version = connection.execute("SHOW server_version").fetchone()[0]
            print(f"PostgreSQL {version}, {messages // RECORDS} partitions in 102 queues, {messages} messages,"
                  f" load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors.\n")
            print("| page | median | worst | CPU of PostgreSQL | CPU of the daemon | bytes"
                  " |\n|---|---|---|---|---|---|")
            day = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
            one = json.loads(ask(wanted.port, "/api/v1/messages?queue=q0&partition=p7")[1])["messages"][-1]
            for page in PAGES:
                if wanted.only in page:
                    measure(wanted.port, page, page.replace("DAY", day)
                            .replace("MESSAGE", f"{one['partitionId']}/{one['transactionId']}"), cluster,
                            daemon.process.pid)
            print("\n| keeping the figures | CPU of PostgreSQL |\n|---|---|")
            measure_looks(cluster, connection)
            print(walk)
    finally:
        if daemon:
            daemon.stop()
        cluster.stop()


def measure(port: int, page: str, path: str, cluster: Cluster, daemon: int) -> None:
    status, body = ask(port, path)
    times, server, own = [], cluster.cpu_seconds(), cpu_seconds(daemon)
    while len(times) < TIMES and sum(times) < MOST_MS:
        began = time.perf_counter()
        ask(port, path)
        times.append((time.perf_counter() - began) * 1000)
    server, own = ((after - before) / len(times) * 1000
                   for before, after in ((server, cluster.cpu_seconds()), (own, cpu_seconds(daemon))))
    print(f"| `{page}` | {statistics.median(times):.1f} ms | {max(times):.1f} ms | {server:.1f} ms | {own:.1f} ms |"
          f" {len(body)} |" + ("" if status == 200 else f" {status}"), flush=True)


def measure_looks(cluster: Cluster, connection: psycopg.Connection) -> None:
    """A look that finds nothing, and one after 1000 partitions were acknowledged, as statements."""
    connection.execute("SELECT pg_sleep(3)")      # looks overlap by two seconds: what was loaded is out of sight
    for what, change in (("a look that finds nothing", None),
                         ("a look after 1000 partitions were acknowledged", ACKNOWLEDGED)):
        cpu = 0.0
        for _ in range(TIMES):
            if change:
                connection.execute(change)
            before = cluster.cpu_seconds()
            _, queues, parts = connection.execute("SELECT since, queues, parts"
                                                  " FROM queend.stats_changed(1000000, true, true)").fetchone()
            connection.execute("SELECT queend.stats_visit(%s::int[], %s::int[])", (queues or [], parts or []))
            cpu += cluster.cpu_seconds() - before
        print(f"| {what} | {cpu / TIMES * 1000:.0f} ms |")


def ask(port: int, path: str, method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(method, quote(path, safe="/?=&:"))
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


if __name__ == "__main__":
    main()
