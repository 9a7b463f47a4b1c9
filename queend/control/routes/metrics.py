"""GET /metrics (JSON) and GET /metrics/prometheus.

Families named queen_… are those that dashboards of Queen MQ know; queend_… are ours and come from the core's counters.
"""
from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from heapq import nlargest
from typing import Any

import psycopg
from fastapi import Request
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from starlette.responses import Response

from ...auth.levels import READ
from ...services.metrics import memory
from ...services.retention import KINDS, Figures
from ...services.timers import Timers
from ..database import fetched
from ..http.answer import Json
from ..http.route import Routes
from ..http.schema import INTEGER, NUMBER, whole
from ..http.schemas import integers
from ..metrics.backlogs import backlogs
from ..metrics.counters import JOB, WORKER
from ..metrics.families import Families
from ..metrics.prometheus import QUEUES, minutes, pools
from .health import DOUBTS
from .maintenance import NONE, database_answers

router = Routes("health")

TEXT = "text/plain; version=0.0.4; charset=utf-8"
# gauges and maxima; the others only grow
LIVE = ("connections", "requests", "jobs", "slots", "connected", "handles", "parked", "held", "streams",
        "push_streams", "pop_limit", "ack_limit", "transaction_limit", "lease_limit", "kv_limit",
        "turn_bytes", "turn_delivered")
STORE_S = 1.5               # for all queries; a scrape is answered within 2 s
COMMITLESS = {"away", "silent", "commits_hang"}      # doubts with which the database is not queried
OUTBOX_MOST = 100_000      # largest count
OUTBOX = f"""SELECT (SELECT count(*) FROM (SELECT FROM queend.outbox WHERE refused IS NULL LIMIT {OUTBOX_MOST}) AS o)
            AS depth, (SELECT COALESCE(extract(epoch FROM clock_timestamp() - created_at), 0) FROM (SELECT min(id) AS id
        FROM queend.outbox WHERE refused IS NULL) AS f LEFT JOIN queend.outbox USING (id)) AS oldest, (SELECT count(*)
        FROM (SELECT FROM queend.outbox WHERE refused IS NOT NULL LIMIT {OUTBOX_MOST}) AS o) AS refused"""
DEAD = """SELECT q.name, s.dead, (sum(s.dead) OVER ())::bigint AS of_all FROM queend.stat_queues s
            JOIN queend.queues q ON q.id = s.queue_id WHERE s.dead > 0 ORDER BY q.name LIMIT %s"""


@router.declare("GET /metrics", READ, whole(
    uptime=INTEGER, requests=whole(total=INTEGER, rate=NUMBER), messages=whole(total=INTEGER, rate=NUMBER),
    database=whole(**integers("poolSize", "idleConnections", "waitingRequests")),
    memory=whole(**integers("rss", "heapTotal", "heapUsed", "external", "arrayBuffers")),
    cpu=whole(**integers("user", "system"))))
async def metrics(request: Request) -> Json:
    """Returns basic metrics of this process as JSON."""
    control = request.app.state.control
    stats, usage, pool = control.core.stats(), resource.getrusage(resource.RUSAGE_SELF), control.pool.get_stats()
    uptime = time.monotonic() - control.began
    requests = sum(job["requests"] for job in stats["jobs"].values())
    messages = sum(job["items"] for name, job in stats["jobs"].items() if name in ("push", "pop"))
    return Json({"uptime": int(uptime), "requests": {"total": requests, "rate": round(requests / max(uptime, 1), 2)},
                 "messages": {"total": messages, "rate": round(messages / max(uptime, 1), 2)},
                 "database": {"poolSize": pool["pool_size"], "idleConnections": pool["pool_available"],
                              "waitingRequests": pool["requests_waiting"]},
                 "memory": {"rss": memory()[1], "heapTotal": 0, "heapUsed": 0, "external": 0, "arrayBuffers": 0},
                 "cpu": {"user": int(usage.ru_utime * 1e6), "system": int(usage.ru_stime * 1e6)}})


@router.declare("GET /metrics/prometheus", READ, response_class=Response)
async def prometheus(request: Request) -> Response:
    """Returns metrics in the Prometheus format within 2 s. Metrics that need the database are left out while it does
    not answer or cannot commit."""
    control = request.app.state.control
    families = Families()
    process(families, control)
    engine(families, control.core.stats())
    database(families, control.core)
    ephemeral(families, control.core.ephemeral_figures())
    failover(families, control)
    retention(families, control.retention.figures, control.settings.queend_metrics_queues)
    timers(families, control.timers)
    control.doctor.tell(families)
    spans(families, control)
    pools(families, control)
    with contextlib.suppress(TimeoutError):      # reports what has arrived by then
        async with asyncio.timeout(STORE_S):
            if not COMMITLESS.intersection(control.core.database()["doubts"]):
                await backlogs(families, control)
                await store(families, control)
                await minutes(families, control)
                await outbox(families, control)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(type("Collected", (), {"collect": lambda self: iter(families)})())
    return Response(generate_latest(registry), headers={"content-type": TEXT, "cache-control": "no-cache"})


def process(families: Families, control: Any) -> None:
    usage, pool = resource.getrusage(resource.RUSAGE_SELF), control.pool.get_stats()
    virtual, resident = memory()
    families.gauge("queen_uptime_seconds", "Seconds since the daemon started.", int(time.monotonic() - control.began))
    families.counter("queen_cpu_user_microseconds", "User CPU time of the process.", int(usage.ru_utime * 1e6))
    families.counter("queen_cpu_system_microseconds", "System CPU time of the process.", int(usage.ru_stime * 1e6))
    for name, text, value in (
            ("process_resident_memory_bytes", "Resident memory of the process.", resident),
            ("process_virtual_memory_bytes", "Virtual memory of the process.", virtual),
            ("db_pool_size", "Connections of the control plane's pool.", pool["pool_size"]),
            ("db_pool_idle", "Idle connections of the control plane's pool.", pool["pool_available"]),
            ("db_pool_active", "Busy connections of the control plane's pool.",
             pool["pool_size"] - pool["pool_available"]),
            ("maintenance_mode_enabled", "1 while push maintenance is on: all pushes are buffered.",
             int(control.maintenance.on["push"])),
            ("shared_state_enabled", "1 if the daemon has peers.", int(control.peers.on))):
        families.gauge(f"queen_{name}", text, value)


def engine(families: Families, stats: dict[str, Any]) -> None:
    """Adds the core's counters: per job type with latency histograms, per worker, and the cluster families of this
    instance."""
    jobs, workers = stats["jobs"], stats["workers"]
    for key, text in JOB.items():
        families.each(f"queend_{key}", text, ("type",), [((name,), job[key]) for name, job in jobs.items()],
                      CounterMetricFamily)
    latency = families.all["queend_request_latency_seconds"] = HistogramMetricFamily(
        "queend_request_latency_seconds", "Time from a complete request to its answer.", labels=["type"])
    for name, job in jobs.items():
        latency.add_metric([name], buckets(job["latency_us_buckets"]), job["latency_sum_us"] / 1e6)
    for name, text, key in (("queend_delivery_age_seconds", "Age of messages at delivery, delays included: that of "
                                                            "the oldest row in each answer of a pop.", "age"),
                            ("queend_statement_latency_seconds", "Time from a statement of the data plane to the end "
                                                                 "of its answer.", "statement")):
        counts, total = stats["times"][key]
        families.all[name] = HistogramMetricFamily(name, text, buckets=buckets(counts), sum_value=total / 1e6)
    families.each("queend_remembered", "Queues, partitions, groups and cursors in memory, including deleted ones that "
                  "are not freed yet.", ("kind",), [((name,), n) for name, n in stats["catalog"].items()])
    clients = stats["clients"]
    families.gauge("queend_clients_connections", "Client connections.", clients["connections"])
    families.counter("queend_clients_refused", "Client connections refused because a limit was reached.",
                     clients["refused"])
    families.gauge("queend_clients_arriving", "Memory of requests that have not fully arrived.",
                   clients["arriving"])
    families.gauge("queend_clients_untaken", "Memory of answers that clients have not read.", clients["untaken"])
    for key in workers[0]:
        families.each(f"queend_worker_{key}", WORKER[key], ("worker",),
                      [((str(number),), worker[key]) for number, worker in enumerate(workers)],
                      GaugeMetricFamily if key in LIVE else CounterMetricFamily)
    families.each("queen_response_registry_size", "Requests that are not answered yet.", ("worker_id",),
                  [((str(number),), worker["requests"]) for number, worker in enumerate(workers)])
    for name in ("push", "pop", "ack"):
        for unit, key in (("requests", "requests"), ("messages", "items")):
            refused = ", including refused ones" if name == "push" else ""
            text = f"{unit.capitalize()} of type {name}, of this daemon since its start{refused}."
            cluster(families, f"{name}_{unit}", text, jobs[name][key])
    cluster(families, "transactions", "Transactions of this daemon since its start.", jobs["transaction"]["requests"])
    for family, key in (("db_errors", "db_errors"), ("dlq", "dead_lettered")):
        cluster(families, family, f"{WORKER[key].rstrip('.')}, of this daemon since its start.",
                sum(worker[key] for worker in workers))


def database(families: Families, core: Any) -> None:
    """Adds the doubts about the database, and how durable its commits are."""
    seen = core.database()
    families.gauge("queend_database_doubts", "Number of problems with the database (`doubts` in /health).",
                   len(seen["doubts"]))
    families.each("queend_database_doubt", "1 while the database has this problem.", ("doubt",),
                  [((doubt,), int(doubt in seen["doubts"])) for doubt in DOUBTS["items"]["enum"]])
    families.gauge("queend_commits_may_be_lost", "1 if a setting of the server allows a crash to lose committed data.",
                   int(bool(seen["risks"])))
    families.counter("queend_servers_met", "Database servers, and restarts of them, to which this daemon was "
                                           "connected.", seen["server"])


def ephemeral(families: Families, figures: dict[str, Any]) -> None:
    """Adds the ephemeral queues of this daemon."""
    families.gauge("queend_ephemeral_queues", "Ephemeral queues of this daemon.", figures["queues"])
    families.gauge("queend_ephemeral_bytes", "Memory of all ephemeral queues.", figures["bytes"])
    for name, text in (("pushed", "Messages pushed to ephemeral queues."),
                       ("popped", "Messages delivered from ephemeral queues, repeated deliveries included."),
                       ("acked", "Messages of ephemeral queues that were acknowledged, or whose last attempt failed."),
                       ("redelivered", "Messages of ephemeral queues that were returned for another delivery."),
                       ("refused", "Requests to ephemeral queues refused because a bound was reached.")):
        families.counter(f"queend_ephemeral_{name}", text, figures[name])
    families.each("queend_ephemeral_dropped", "Messages that ephemeral queues dropped: by dropOldest, at their age, or "
                  "after their last attempt.", ("reason",),
                  [((reason,), n) for reason, n in figures["dropped"].items()], CounterMetricFamily)


def spans(families: Families, control: Any) -> None:
    """Adds what became of the spans that workers recorded."""
    if control.settings.queend_otlp_endpoint:
        families.counter("queend_spans_sent", "Trace spans that the collector accepted.", control.tracing.sent)
        families.counter("queend_spans_failed", "Trace spans that the collector did not accept.",
                         control.tracing.failed)


def failover(families: Families, control: Any) -> None:
    """Adds the failover buffer: under the names of the reference, and in detail if there is one."""
    buffer = control.core.buffer()
    shown = buffer or NONE
    families.gauge("queen_file_buffer_pending", "Messages in the failover buffer.", shown["pending"])
    families.gauge("queen_file_buffer_failed", "Buffered messages that could not be stored in the database.",
                   shown["failed"])
    families.gauge("queen_file_buffer_db_healthy", "1 while the database answers.",
                   int(database_answers(control, shown)))
    if buffer is None:
        return
    for name, text, value in (
            ("pending_messages", "Messages in the failover buffer.", buffer["pending"]),
            ("bytes", "Size of the failover buffer's files.", buffer["bytes"]),
            ("oldest_seconds", "Time that the oldest message has waited in the failover buffer.",
             max(0.0, time.time() - buffer["oldest"]) if buffer["pending"] else 0),
            ("quarantined", "Buffered messages that could not be stored, and damaged pieces of files, since the start.",
             buffer["failed"]),
            ("healthy", "1 if the last write to the failover buffer succeeded.", int(buffer["healthy"]))):
        families.gauge(f"queend_buffer_{name}", text, value)
    families.counter("queend_buffer_taken_messages", "Messages written to the failover buffer.", buffer["taken"])
    families.counter("queend_buffer_drained_messages", "Messages moved from the failover buffer to the database.",
                     buffer["drained"])


def retention(families: Families, figures: Figures, most: int) -> None:
    """Adds what the retention service removed, and which idle groups hold back the rest: those that hold most of it."""
    families.each("queend_retention_removed_messages", "Messages removed by retention, by rule.", ("reason",),
                  [((reason,), figures.removed[reason]) for reason in KINDS], CounterMetricFamily)
    families.counter("queend_retention_removed_partitions", "Empty partitions removed.", figures.partitions)
    families.counter("queend_retention_removed_keys", "Expired keys removed.", figures.keys)
    families.counter("queend_retention_removed_rows", "Rows of the log removed by retention.", figures.rows)
    families.counter("queend_retention_runs", "Runs of retention in this daemon.", figures.runs)
    families.gauge("queend_retention_working", "1 if this daemon does the retention work for all daemons.",
                   int(figures.working))
    families.gauge("queend_retention_run_seconds", "Duration of the last run of retention.", figures.seconds)
    families.each("queend_retention_pinned_messages", "Messages kept only because a group has not consumed them.",
                  ("queue", "group"), nlargest(most, (figures.pinned or {}).items(), key=lambda one: one[1]))


def buckets(counts: list[int]) -> list[tuple[str, int]]:
    """Returns cumulative (upper bound in seconds, count); bucket i of the core counts latencies below 2**i
    microseconds."""
    total, result = 0, []
    for i, count in enumerate(counts[:-1]):
        total += count
        result.append((repr(2**i / 1e6), total))
    return [*result, ("+Inf", total + counts[-1])]


def cluster(families: Families, name: str, text: str, value: int) -> None:
    families.add(f"queen_cluster_{name}", text, {"scope": "cluster"}, value, CounterMetricFamily)


def timers(families: Families, service: Timers) -> None:
    families.counter("queend_timers_fired", "Timers that this daemon fired.", service.fired)
    families.counter("queend_timers_failed", "Failed attempts to fire a timer; GET /api/v1/timers has the reason.",
                     service.refused)
    families.counter("queend_timers_deleted", "Timers that were cancelled by DELETE.", service.deleted)
    families.gauge("queend_timers_late_seconds", "How late the latest timer of the last one to two minutes was.",
                   service.late_s())


async def outbox(families: Families, control: Any) -> None:
    """Adds messages that programs pushed inside their transactions and that are not in their queues yet."""
    try:
        ((depth, oldest, refused),) = await fetched(control.pool, OUTBOX, ())
    except psycopg.Error:
        return
    families.gauge("queend_outbox_messages", f"Messages in the outbox; counts at most {OUTBOX_MOST}.",
                   depth)
    families.gauge("queend_outbox_oldest_seconds", "Time that the oldest message has waited in the outbox.",
                   float(oldest))
    families.gauge("queend_outbox_refused_messages", "Messages of the outbox that cannot be stored; "
                                                     "queend.outbox.refused has the reason.",
                   refused)
    families.counter("queend_outbox_moved_messages", "Messages that this daemon moved from the outbox to their queues.",
                     control.relay.moved)


async def store(families: Families, control: Any) -> None:
    """Adds kept figures, as fresh as those of the backlogs before."""
    try:
        rows = await fetched(control.pool, DEAD, (QUEUES,))
    except psycopg.Error:
        return
    families.add("queen_dlq_depth", "Dead letters of all queues.", {"scope": "cluster"}, rows[0].of_all if rows else 0)
    families.each("queen_dlq_depth_by_queue", "Dead letters per queue.", ("queue",),
                  [((row.name,), row.dead) for row in rows])
