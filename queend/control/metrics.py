"""GET /metrics (JSON) and GET /metrics/prometheus.

The families named queen_… are those dashboards of Queen MQ know; queend_… are ours and come straight from the core's
counters.
"""
from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from heapq import nlargest
from typing import Any

import psycopg
from fastapi import Request
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from psycopg_pool import PoolTimeout
from starlette.responses import Response

from ..auth.levels import READ
from ..service.retention import KINDS, Figures
from .answer import Json
from .backlogs import backlogs
from .counters import JOB, WORKER
from .maintenance import NONE, database_answers
from .prometheus import QUEUES, minutes, pools
from .route import Routes
from .shapes import integers
from .words import INTEGER, NUMBER, whole

router = Routes("health")

TEXT = "text/plain; version=0.0.4; charset=utf-8"
LIVE = ("connections", "requests", "jobs", "slots", "handles", "parked", "streams", "push_streams", "pop_limit",
        "ack_limit", "transaction_limit", "lease_limit",
        "turn_bytes")  # as it is now, or the most so far; the rest only grows
PAGE = os.sysconf("SC_PAGE_SIZE")
OUTBOX_MOST = 100_000      # counted
OUTBOX = f"""SELECT (SELECT count(*) FROM (SELECT FROM queend.outbox WHERE refused IS NULL LIMIT {OUTBOX_MOST}) AS o),
        (SELECT COALESCE(extract(epoch FROM clock_timestamp() - created_at), 0) FROM (SELECT min(id) AS id
        FROM queend.outbox WHERE refused IS NULL) AS f LEFT JOIN queend.outbox USING (id)), (SELECT count(*) FROM
        (SELECT FROM queend.outbox WHERE refused IS NOT NULL LIMIT {OUTBOX_MOST}) AS o)"""


@router.declare("GET /metrics", READ, whole(
    uptime=INTEGER, requests=whole(total=INTEGER, rate=NUMBER), messages=whole(total=INTEGER, rate=NUMBER),
    database=whole(**integers("poolSize", "idleConnections", "waitingRequests")),
    memory=whole(**integers("rss", "heapTotal", "heapUsed", "external", "arrayBuffers")),
    cpu=whole(**integers("user", "system"))))
async def metrics(request: Request) -> Json:
    """A few figures of this process as JSON."""
    control = request.app.state.control
    stats, usage, pool = control.core.stats(), resource.getrusage(resource.RUSAGE_SELF), control.pool.get_stats()
    uptime = time.time() - control.started
    requests = sum(job["requests"] for job in stats["jobs"].values())
    messages = sum(job["items"] for name, job in stats["jobs"].items() if name in ("push", "pop"))
    return Json({"uptime": int(uptime), "requests": {"total": requests, "rate": round(requests / max(uptime, 1), 2)},
                 "messages": {"total": messages, "rate": round(messages / max(uptime, 1), 2)},
                 "database": {"poolSize": pool["pool_size"], "idleConnections": pool["pool_available"],
                              "waitingRequests": pool["requests_waiting"]},
                 "memory": {"rss": memory()[1], "heapTotal": 0, "heapUsed": 0, "external": 0, "arrayBuffers": 0},
                 "cpu": {"user": int(usage.ru_utime * 1e6), "system": int(usage.ru_stime * 1e6)},})


@router.declare("GET /metrics/prometheus", READ, response_class=Response)
async def prometheus(request: Request) -> Response:
    """Prometheus exposition; what needs the database is left out while it does not answer."""
    control = request.app.state.control
    registry = CollectorRegistry(auto_describe=False)
    families = [*process(control), *engine(control.core.stats()), *database(control.core), *failover(control),
                *retention(control.retention.figures, control.settings.queend_metrics_queues),
                *await backlogs(control), *control.doctor.families(), *spans(control),
                *await store(control), *pools(control),
                *await minutes(control), *await outbox(control)]
    registry.register(type("Collected", (), {"collect": lambda self: iter(families)})())
    return Response(generate_latest(registry), headers={"content-type": TEXT, "cache-control": "no-cache"})


def memory() -> tuple[int, int]:
    """Virtual and resident size of this process in bytes."""
    with open("/proc/self/statm") as file:
        virtual, resident = file.read().split()[:2]
    return int(virtual) * PAGE, int(resident) * PAGE


def gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def process(control: Any) -> Iterator[Metric]:
    usage, pool = resource.getrusage(resource.RUSAGE_SELF), control.pool.get_stats()
    virtual, resident = memory()
    yield gauge("queen_uptime_seconds", "Seconds since the daemon started.", int(time.time() - control.started))
    yield CounterMetricFamily("queen_cpu_user_microseconds", "User CPU time of the process.",
                              value=int(usage.ru_utime * 1e6))
    yield CounterMetricFamily("queen_cpu_system_microseconds", "System CPU time of the process.",
                              value=int(usage.ru_stime * 1e6))
    yield gauge("queen_process_resident_memory_bytes", "Resident memory.", resident)
    yield gauge("queen_process_virtual_memory_bytes", "Virtual memory.", virtual)
    yield gauge("queen_db_pool_size", "Connections of the control plane's pool.", pool["pool_size"])
    yield gauge("queen_db_pool_idle", "Idle ones among them.", pool["pool_available"])
    yield gauge("queen_db_pool_active", "Busy ones among them.", pool["pool_size"] - pool["pool_available"])
    yield gauge("queen_maintenance_mode_enabled", "1 while pushes are buffered.", int(control.maintenance.on["push"]))
    yield gauge("queen_shared_state_enabled", "1 with peers.", int(control.peers.on))


def engine(stats: dict[str, Any]) -> Iterator[Metric]:
    """The core's counters: per job type with latency histograms, per worker, and the cluster families of this
    instance."""
    jobs, workers = stats["jobs"], stats["workers"]
    for key, text in JOB.items():
        family = CounterMetricFamily(f"queend_{key}", text, labels=["type"])
        for name, job in jobs.items():
            family.add_metric([name], job[key])
        yield family
    latency = HistogramMetricFamily("queend_request_latency_seconds", "From a complete request to its answer.",
                                    labels=["type"])
    for name, job in jobs.items():
        latency.add_metric([name], buckets(job["latency_us_buckets"]), job["latency_sum_us"] / 1e6)
    yield latency
    for name, text, key in (("queend_delivery_age_seconds", "Age of messages when they were delivered: of the oldest "
                                                            "row in each answer of a pop.", "age"),
                            ("queend_statement_latency_seconds", "From a statement of the data plane to the end of its "
                                                                 "answer.", "statement")):
        counts, total = stats["times"][key]
        yield HistogramMetricFamily(name, text, buckets=buckets(counts), sum_value=total / 1e6)
    remembered = GaugeMetricFamily("queend_remembered", "Queues, partitions, groups and cursors in memory; deleted "
                                                        "ones until they are given back.", labels=["kind"])
    for name, n in stats["catalog"].items():
        remembered.add_metric([name], n)
    yield remembered
    for key, text, kind in (("connections", "Connections of clients.", GaugeMetricFamily),
                            ("refused", "Connections that were refused: a bound was reached.", CounterMetricFamily),
                            ("arriving", "Bytes held for requests that have not arrived in whole.", GaugeMetricFamily),
                            ("untaken", "Bytes of answers that clients have not taken.", GaugeMetricFamily)):
        family = kind(f"queend_clients_{key}", text, labels=[])
        family.add_metric([], stats["clients"][key])
        yield family
    for key in workers[0]:
        kind = GaugeMetricFamily if key in LIVE else CounterMetricFamily
        family = kind(f"queend_worker_{key}", WORKER[key], labels=["worker"])
        for number, worker in enumerate(workers):
            family.add_metric([str(number)], worker[key])
        yield family
    registry = GaugeMetricFamily("queen_response_registry_size", "Requests in flight.", labels=["worker_id"])
    for number, worker in enumerate(workers):
        registry.add_metric([str(number)], worker["requests"])
    yield registry
    for name in ("push", "pop", "ack"):
        for unit, key in (("requests", "requests"), ("messages", "items")):
            yield cluster(f"queen_cluster_{name}_{unit}", f"{name}: {unit} of this instance since its start.",
                          jobs[name][key])
    yield cluster("queen_cluster_transactions", "Transactions of this instance since its start.",
                  jobs["transaction"]["requests"])
    for family, key in (("db_errors", "db_errors"), ("dlq", "dead_lettered")):
        yield cluster(f"queen_cluster_{family}", f"{WORKER[key].rstrip('.')}, of this instance since its start.",
                      sum(worker[key] for worker in workers))


def database(core: Any) -> Iterator[Metric]:
    """What is wrong with the database, and what its commits are worth."""
    seen = core.database()
    yield gauge("queend_database_doubts", "What is wrong with the database, in /health: how many things.",
                len(seen["doubts"]))
    yield gauge("queend_commits_may_be_lost", "1: a setting of the server lets a crash take what it has committed.",
                int(bool(seen["risks"])))
    yield CounterMetricFamily("queend_servers_met", "Lives of database servers this daemon was connected to.",
                              value=seen["server"])


def spans(control: Any) -> Iterator[Metric]:
    """Of traces: what became of those that the workers noted."""
    if control.settings.queend_otlp_endpoint:
        for name, text, value in (("queend_spans_sent", "Spans that the collector took.", control.tracing.sent),
                                  ("queend_spans_failed", "Spans that it did not take.", control.tracing.failed)):
            yield CounterMetricFamily(name, text, value=value)


def failover(control: Any) -> Iterator[Metric]:
    """The failover buffer: under the names the reference has for it, and in detail where there is one."""
    buffer = control.core.buffer()
    shown = buffer or NONE
    yield gauge("queen_file_buffer_pending", "Messages in the failover buffer.", shown["pending"])
    yield gauge("queen_file_buffer_failed", "Messages of it that could not be stored.", shown["failed"])
    yield gauge("queen_file_buffer_db_healthy", "1 while the database answers.", int(database_answers(control, shown)))
    if buffer is None:
        return
    yield gauge("queend_buffer_pending_messages", "Messages in the failover buffer.", buffer["pending"])
    yield gauge("queend_buffer_bytes", "Bytes of its files.", buffer["bytes"])
    yield gauge("queend_buffer_oldest_seconds", "Since when the oldest waits.",
                max(0.0, time.time() - buffer["oldest"]) if buffer["pending"] else 0)
    yield gauge("queend_buffer_quarantined", "Messages that could not be stored, and damaged pieces, since the start.",
                buffer["failed"])
    yield gauge("queend_buffer_healthy", "1: the last write succeeded.", int(buffer["healthy"]))
    yield CounterMetricFamily("queend_buffer_taken_messages", "Messages that went into it.", value=buffer["taken"])
    yield CounterMetricFamily("queend_buffer_drained_messages", "Messages of it that the database has.",
                              value=buffer["drained"])


def retention(figures: Figures, most: int) -> Iterator[Metric]:
    """What the retention service removed, and which idle groups hold back the rest: those that hold most of it."""
    removed = CounterMetricFamily("queend_retention_removed_messages", "Messages removed, by rule.", labels=["reason"])
    for reason in KINDS:
        removed.add_metric([reason], figures.removed[reason])
    yield removed
    yield CounterMetricFamily("queend_retention_removed_partitions", "Idle partitions removed.",
                              value=figures.partitions)
    yield CounterMetricFamily("queend_retention_removed_rows", "Rows of the log removed.", value=figures.rows)
    yield CounterMetricFamily("queend_retention_runs", "Runs of the service in this daemon.", value=figures.runs)
    yield gauge("queend_retention_working", "1 in the daemon that does the work for all.", int(figures.working))
    yield gauge("queend_retention_run_seconds", "Length of the last run.", figures.seconds)
    pinned = GaugeMetricFamily("queend_retention_pinned_messages", "Messages that stay only because a group has not "
                                                                   "consumed them.", labels=["queue", "group"])
    for (queue, group), count in nlargest(most, (figures.pinned or {}).items(), key=lambda one: one[1]):
        pinned.add_metric([queue, group], count)
    yield pinned


def buckets(counts: list[int]) -> list[tuple[str, int]]:
    """Cumulative (upper bound in seconds, count); bucket i of the core counts latencies below 2**i microseconds."""
    total, result = 0, []
    for i, count in enumerate(counts[:-1]):
        total += count
        result.append((repr(2**i / 1e6), total))
    return [*result, ("+Inf", total + counts[-1])]


def cluster(name: str, text: str, value: int) -> Metric:
    family = CounterMetricFamily(name, text, labels=["scope"])
    family.add_metric(["cluster"], value)
    return family


async def outbox(control: Any) -> list[Metric]:
    """What programs pushed inside their transactions and is not in its queue yet."""
    try:
        async with control.pool.connection() as connection:
            (depth, oldest, refused), = await (await connection.execute(OUTBOX)).fetchall()
    except (psycopg.Error, PoolTimeout):
        return []
    return [gauge("queend_outbox_messages", f"Committed messages that wait for their queue, at most {OUTBOX_MOST}.",
                  depth), gauge("queend_outbox_oldest_seconds", "How long the first of them waits.", float(oldest)),
            gauge("queend_outbox_refused_messages", "Messages that cannot be stored: queend.outbox.refused says why.",
                  refused), CounterMetricFamily(
                      "queend_outbox_moved_messages", "Messages this daemon moved into their queues.",
                      value=control.relay.figures.moved)]


async def store(control: Any) -> list[Metric]:
    """Kept figures, as fresh as those of the backlogs before."""
    try:
        async with control.pool.connection() as connection:
            rows = await (await connection.execute(
                "SELECT q.name, s.dead FROM queend.stat_queues s JOIN queend.queues q ON q.id = s.queue_id WHERE "
                "s.dead > 0 ORDER BY q.name LIMIT %s", (QUEUES,))).fetchall()
    except (psycopg.Error, PoolTimeout):
        return []
    depth = GaugeMetricFamily("queen_dlq_depth", "Dead letters.", labels=["scope"])
    depth.add_metric(["cluster"], sum(count for _, count in rows))
    by_queue = GaugeMetricFamily("queen_dlq_depth_by_queue", "Dead letters per queue.", labels=["queue"])
    for name, count in rows:
        by_queue.add_metric([name], count)
    return [depth, by_queue]
