"""Families of /metrics/prometheus from the minutes that daemons write: per queue and per worker, and the sums over all
daemons."""
from __future__ import annotations

from typing import Any

import psycopg
from prometheus_client.core import CounterMetricFamily
from psycopg.rows import namedtuple_row

from ...services.minute import COUNTS, MINUTE_US
from ..routes.shared_state import REFUSED, dropped
from .families import Families
from .history import LEVELS, average, lag_ms, or_zero

FRESH_US = 300_000_000       # queues and workers idle for so long are left out
QUEUES = 10_000              # most queues
TOTALS = "SELECT t.counts FROM queend.metric_totals t"
ENDED = "FILTER (WHERE m.bucket = %(last)s)"      # of the last complete minute
SUMS = ", ".join(f"coalesce(sum(m.{name}) {ENDED}, 0)::bigint AS {name}" for name in (
    "push_requests", "push_messages", "pop_messages", "pop_empty", "ack_done", "ack_failed", "transactions", "lag_us",
    "lag_n"))
# Queues active in the last FRESH_US.
BY_QUEUE = f"""
SELECT q.name, {SUMS}, coalesce(max(m.lag_most_us) {ENDED}, 0) AS lag_most_us,
       coalesce(sum(m.parked::float8 / greatest(m.samples, 1)) {ENDED}, 0) AS parked
  FROM queend.queues q JOIN queend.metric_queues m ON m.queue_id = q.id AND m.bucket >= %(since)s
 GROUP BY q.name ORDER BY q.name LIMIT {QUEUES}"""
STANDING = """
SELECT queue, name, count(*) AS partitions, greatest((queend.now_us() - min(since)) / 1e6, 0)::float8 AS seconds
  FROM queend.standing_list(NULL)
 GROUP BY queue, name ORDER BY partitions DESC, queue, name LIMIT %s"""
COUNTED = ", ".join(f"coalesce(w.counts[{i}], 0) AS {name}" for i, name in enumerate(COUNTS, 1))
LEVEL = """ARRAY(SELECT e::float8 FROM jsonb_array_elements_text(
               coalesce(m.levels->'{0}', '[null, null, null, null, null]')) AS e) AS {0}"""
# Counts of the last complete minute, levels of the newest. After the clock was set back, the table has minutes of
# the future: they are left out.
BY_WORKER = f"""
SELECT DISTINCT ON (m.hostname, m.port, m.worker) m.hostname, m.worker, m.pid, {COUNTED},
       greatest((queend.now_us() - m.seen_at) / 1000000, 0) AS age,
       {", ".join(map(LEVEL.format, LEVELS))}
  FROM queend.metric_workers m
  LEFT JOIN queend.metric_workers w
    ON w.bucket = %(last)s AND (w.hostname, w.port, w.worker) = (m.hostname, m.port, m.worker)
 WHERE m.bucket BETWEEN %(since)s AND %(last)s + {MINUTE_US}
 ORDER BY m.hostname, m.port, m.worker, m.bucket DESC"""
TALLIES = (      # of Core.tallies, in its order
    ("push_requests", "Pushes"), ("push_messages", "Messages pushed, including duplicates"), ("pop_requests", "Pops"),
    ("pop_messages", "Messages delivered"),
    ("pop_empty", "Pops that returned no messages"), ("ack_requests", "Acknowledgments"),
    ("acked_messages", "Acknowledged messages"),
    ("ack_failed_messages", "Messages whose acknowledgment was refused"), ("transactions", "Transactions"))

# Values without peers.
ALONE: dict[str, Any] = {"senders": [], "refused": dict.fromkeys(REFUSED, 0),
         **dict.fromkeys(("sent", "posted", "taken", "told", "heard", "looks"), 0)}


def pools(families: Families, control: Any) -> None:
    """Adds what this process has beside the core's own counters, under the names of the reference."""
    workers, pool = control.core.stats()["workers"], control.pool.get_stats()
    jobs = sum(one["jobs"] - one["parked"] for one in workers)
    for name, size, queued in (("db", sum(one["slots"] for one in workers), jobs),
                               ("system", pool["pool_size"], pool["requests_waiting"])):
        families.add("queen_threadpool_size", "Connections to PostgreSQL: `db` of the data plane, `system` of the "
                                              "control plane.",
                     {"pool": name}, size)
        families.add("queen_threadpool_queue_size", "Requests that use a connection of the pool, or wait for one.",
                     {"pool": name}, queued)
    operations = control.core.operations()
    for op in ("push", "pop", "ack"):
        count, items, us = (sum(worker[op][i] for worker in operations) for i in (0, 1, 3))
        families.add("queen_sidecar_op_count", "Requests since the daemon's start.", {"op": op}, count)
        families.add("queen_sidecar_op_latency_microseconds", "Average time from request to answer since the daemon's "
                                                              "start.", {"op": op},
                     us // count if count else 0)
        families.add("queen_sidecar_op_items", "Messages or acknowledgments in requests since the daemon's start.",
                     {"op": op}, items)
    waiting = control.core.parked()
    families.gauge("queen_queue_backoff_groups", "Long polls that wait for messages.",
                   sum(parked for _, _, parked in waiting))
    families.gauge("queen_queue_backoff_queues", "Queues on which long polls wait.", len(waiting))
    families.gauge("queen_queue_backoff_avg_interval_milliseconds", "Always 0: commits wake waiting pops, without "
                                                                    "polling.", 0)
    _peers(families, control.peers.figures())
    if (left := control.secured.expires_s()) is not None:
        families.gauge("queend_certificate_expires_seconds", "Time until the certificate of the port expires; negative "
                                                             "after its expiry.", round(left))


def _peers(families: Families, peers: dict[str, Any] | None) -> None:
    """Adds counts of notices between daemons (docs/peers.md); zero without peers."""
    peers = peers or ALONE
    senders = peers["senders"]
    for state in ("alive", "dead"):
        families.add("queen_servers", "Peer daemons that have sent packets, by state.", {"state": state},
                     sum(one["alive"] is (state == "alive") for one in senders))
    for way, number in {"sent": peers["sent"] + peers["posted"], "received": peers["taken"],
                        "dropped": dropped(peers)}.items():
        families.add("queen_transport_messages", "Packets exchanged with peer daemons.",
                     {"dir": way}, number, CounterMetricFamily)
    for why, number in peers["refused"].items():
        families.add("queend_peer_refused", "Packets of peer daemons that were refused, by reason.",
                     {"why": why}, number, CounterMetricFamily)
    for name, text, value in (
            ("lost", "Packets of peer daemons that were lost.", sum(one["lost"] for one in senders)),
            ("restarts", "Restarts of peer daemons that were noticed.", sum(one["restarts"] for one in senders)),
            ("told", "Notices sent to peer daemons: a partition has new messages, or a lease ended.", peers["told"]),
            ("heard", "Notices of peer daemons that were used.", peers["heard"]),
            ("looks", "Queries of the database caused by notices of peer daemons.", peers["looks"])):
        families.counter(f"queend_peer_{name}", text, value)


async def minutes(families: Families, control: Any) -> None:
    """Adds the families of the database; none while the database does not answer."""
    most = control.settings.queend_metrics_queues
    try:
        await control.metrics.fresh()
        last = control.metrics.minute() - MINUTE_US
        times = {"last": last, "since": last + MINUTE_US - FRESH_US}
        async with control.pool.connection() as connection, connection.cursor(row_factory=namedtuple_row) as cursor:
            totals = dict(zip(COUNTS, (await (await cursor.execute(TOTALS)).fetchone()).counts, strict=False))
            queues = await (await cursor.execute(BY_QUEUE, times)).fetchall()
            workers = await (await cursor.execute(BY_WORKER, times)).fetchall()
            standing = await (await cursor.execute(STANDING, (most,))).fetchall()
    except psycopg.Error:
        return
    for result, key in (("success", "ack_done"), ("failed", "ack_failed")):
        families.add("queen_cluster_ack", "Acknowledgments of all daemons since the database was created.",
                     {"scope": "cluster", "result": result}, totals.get(key, 0), CounterMetricFamily)
    for one in queues:
        if one.name:
            _queue(families, one, round((control.metrics.time.now_us() - last) / 1e6))
    for one in workers:
        _worker(families, one)
    for queue, counts in sorted(control.metrics.totals.items())[:most]:
        for (name, text), value in zip(TALLIES, counts, strict=False):
            families.add(f"queend_queue_{name}", f"{text}, by this daemon.", {"queue": queue}, value,
                         CounterMetricFamily)
    labels = ("queue", "group")
    families.each("queend_standing_partitions", "Blocked partitions: leases with the same first message expire "
                  "again and again.", labels, [((one.queue, one.name), one.partitions) for one in standing])
    families.each("queend_standing_seconds", "Time since the oldest blocked partition was blocked.", labels,
                  [((one.queue, one.name), one.seconds) for one in standing])


def _queue(families: Families, one: Any, age: int) -> None:
    of = {"queue": one.name}
    for name, text, value in (
            ("pop_messages_per_minute", "Messages delivered in the last complete minute.", one.pop_messages),
            ("push_requests_per_minute", "Pushes in the last complete minute.", one.push_requests),
            ("push_messages_per_minute", "Messages pushed in the last complete minute, including duplicates.",
             one.push_messages),
            ("pop_empty_per_minute", "Pops that returned no messages, in the last complete minute.", one.pop_empty),
            ("transactions_per_minute", "Transactions in the last complete minute.", one.transactions),
            ("parked_consumers", "Average number of waiting long polls in the last complete minute.",
             round(one.parked, 2)),
            ("metrics_age_seconds", "Time since the start of the minute that the other metrics cover.", age)):
        families.add(f"queen_queue_{name}", text, of, value)
    for stat, value in zip(("avg", "max"), lag_ms(one).values(), strict=True):
        families.add("queen_queue_pop_lag_milliseconds", "Age of messages at delivery, delays included.",
                     {**of, "stat": stat}, value)
    for result, value in (("success", one.ack_done), ("failed", one.ack_failed)):
        families.add("queen_queue_ack_per_minute", "Acknowledgments in the last complete minute.",
                     {**of, "result": result}, value)


def _worker(families: Families, one: Any) -> None:
    of = {"hostname": one.hostname, "worker_id": str(one.worker), "pid": str(one.pid)}
    for name, text, values in (
        ("event_loop_lag_milliseconds", "Delay of the control plane's event loop.",
         {"avg": or_zero(average(one.loop_lag_ms)), "max": or_zero(one.loop_lag_ms[3])}),
        ("free_slots", "Unused connections to PostgreSQL.",
         {"avg": or_zero(average(one.free)), "min": or_zero(one.free[2])}),
        ("job_queue_size", "Requests that are not answered yet.",
         {"avg": or_zero(average(one.jobs)), "max": or_zero(one.jobs[3])}),
        ("lag_milliseconds", "Age of messages at delivery, delays included.",
         dict(zip(("avg", "max"), lag_ms(one).values(), strict=True)))):
        for stat, value in values.items():
            families.add(f"queen_worker_{name}", text, {**of, "stat": stat}, value)
    for op in ("push", "pop", "ack"):
        families.add("queen_worker_requests_per_minute", "Requests in the last complete minute.",
                     {**of, "op": op}, getattr(one, f"{op}_requests"))
        families.add("queen_worker_messages_per_minute", "Messages or acknowledgments in requests of the last "
                                                         "complete minute.", {**of, "op": op},
                     getattr(one, f"{op}_messages"))
    families.add("queen_worker_requests_per_minute", "", {**of, "op": "transaction"}, one.transactions)
    for result, value in (("success", one.ack_done), ("failed", one.ack_failed)):
        families.add("queen_worker_ack_per_minute", "Acknowledgments in the last complete minute.",
                     {**of, "result": result}, value)
    for name, text, value in (
            ("db_connections", "Connections to PostgreSQL.", or_zero(one.slots[4])),
            ("backoff_size", "Long polls that wait for messages.", or_zero(one.parked[4])),
            ("jobs_done_per_minute", "Requests answered in the last complete minute.", one.requests),
            ("db_errors_per_minute", "Failed statements in the last complete minute.", one.db_errors),
            ("dlq_per_minute", "Messages that became dead letters in the last complete minute, except by hand or in "
                               "SQL.", one.dead_lettered),
            ("metrics_age_seconds", "Time since the worker last reported.", one.age)):
        families.add(f"queen_worker_{name}", text, of, value)
