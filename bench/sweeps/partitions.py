"""10^3 to 10^6 partitions in one queue. Every push names 100 partitions, all different, from a fixed shuffle of all of
them, and every pop takes one message: so a commit writes as many rows, and a claim moves as many cursors, whatever the
number of partitions is. Creation, the cold scan of a group, push, wildcard pop, memory, and how long a quiet partition
waits while ten others always have work."""

import time

import render

NAME, TITLE = "partitions", "Partitions in one queue"
COUNTS = (1_000, 10_000, 100_000, 1_000_000)
# Makes a group that has consumed everything so far. One pop per partition would take longer than the sweep.
CAUGHT_UP = """
    WITH g AS (SELECT r.group_id FROM queend.queues q, queend.group_resolve(q.id, 'warm', 'all', NULL) r
     WHERE q.name = %s)
    INSERT INTO queend.cursors (partition_id, group_id, committed, row_base)
    SELECT l.partition_id, g.group_id, max(l.base + l.n) - 1, max(l.base + l.n)
      FROM g, queend.log l JOIN queend.partitions p ON p.id = l.partition_id JOIN queend.queues q ON q.id = p.queue_id
       AND q.name = %s
     GROUP BY l.partition_id, g.group_id"""


def run(lab, quick: bool):
    seconds = 1.0 if quick else 4.0
    for count in COUNTS[:-1] if quick else COUNTS:
        queue = f"parts{count}"
        lab.server.call("POST", "/api/v1/configure", {"queue": queue, "options": {"leaseTime": 300}})
        before = lab.server.rss_mb()
        push = dict(kind="push", name="push", queue=queue, conns=8, items=100, partitions=count, spread="cycle")
        pop = dict(kind="pop", name="pop", queue=queue, conns=64, batch=1, wait=1, timeout=2000)
        made = lab.point(0, 200, push | {"count": count})
        held = lab.server.rss_mb()
        first = lab.point(0, seconds / 2, pop | {"group": "first"})
        lab.cluster.connection.execute(CAUGHT_UP, (queue, queue))
        scan = _scan(lab, queue)
        stored = lab.point(0.3, seconds, push)
        taken = lab.point(0.3, seconds, pop | {"group": "warm"})
        point = dict(partitions=count, created_per_s=made["messages_per_s"], creation_cpu_us=made["cpu_us_per_message"],
                     creation_errors=made["errors"],
                     first_contact_cpu_us=first["cpu_us_per_message"], scan_s=scan[0],
                     scan_cpu_us=scan[1] / count * 1e6,
                     push_bytes_per_partition=(held - before) * 2**20 / count,
                     bytes_per_partition=(taken["rss_mb"] - before) * 2**20 / count)
        for name, figures in (("push", stored), ("pop", taken)):
            point |= {f"{name}_{key}": figures[key] for key in (
                "messages_per_s", "p50_ms", "p99_ms", "daemon_cpu_us_per_message", "postgres_cpu_us_per_message",
                "cpu_us_per_message", "messages_per_commit")}
        lab.check(NAME, queue)
        yield point | _starvation(lab, queue, count, seconds)


def _scan(lab, queue: str) -> tuple[float, float]:
    """(seconds, CPU seconds) until a group of which the daemon knows nothing is known to have nothing: the pop is
    answered empty then."""
    began, cpu = time.perf_counter(), lab.server.cpu_seconds() + lab.cluster.cpu_seconds()
    lab.server.call("GET", f"/api/v1/pop/queue/{queue}?consumerGroup=warm&autoAck=true")
    return time.perf_counter() - began, lab.server.cpu_seconds() + lab.cluster.cpu_seconds() - cpu


def _starvation(lab, queue: str, count: int, seconds: float) -> dict:
    """Ten partitions hold more than the consumers can take; 200 others per second get one message. How long do those
    wait?"""
    hot = f"hot{count}"
    lab.server.call("POST", "/api/v1/configure", {"queue": hot, "options": {"leaseTime": 300}})
    lab.load(0, 20, dict(kind="push", name="fill", queue=hot, conns=4, items=1000, partitions=10,
                         spread="block", count=1_000_000))
    point = lab.point(0.3, seconds,
                      dict(kind="push", name="cold", queue=hot, conns=16, items=1, partitions=min(count, 100_000),
                           spread="cycle", mark="c", rate=200),
                      dict(kind="pop", name="pop", queue=hot, conns=16, batch=50, wait=1, timeout=2000,
                           delivery=1, mark="c"))
    return dict(cold_p50_ms=point["delivery_p50_ms"], cold_p99_ms=point["delivery_p99_ms"],
                cold_max_ms=point["delivery_max_ms"])


def tables(points: list[dict]) -> str:
    return render.table(points, [
        ("partitions", "partitions"), ("push us", "push_cpu_us_per_message"),
        ("daemon", "push_daemon_cpu_us_per_message"),
        ("messages per commit", "push_messages_per_commit"), ("pop us", "pop_cpu_us_per_message"),
        ("daemon", "pop_daemon_cpu_us_per_message"),
        ("pops per commit", "pop_messages_per_commit"), ("first pop of a group us", "first_contact_cpu_us"),
        ("created/s", "created_per_s"), ("creation us", "creation_cpu_us"), ("cold scan s", "scan_s"),
        ("us each", "scan_cpu_us"),
        ("daemon B each, pushed", "push_bytes_per_partition"), ("with two groups", "bytes_per_partition"),
        ("quiet among hot: p50 ms", "cold_p50_ms"), ("max ms", "cold_max_ms")])


def plots(points: list[dict]) -> dict[str, str]:
    return {"cost": render.chart("CPU per message against partitions", "partitions", "µs, daemon and PostgreSQL", {
        name: [(p["partitions"], p[f"{name}_cpu_us_per_message"]) for p in points] for name in ("push", "pop")},
                                 log_y=False)}


def aims(points: list[dict]) -> list[tuple]:
    first, last = points[0], points[-1]
    found = []
    for name in ("push", "pop"):
        ratio = last[f"{name}_cpu_us_per_message"] / first[f"{name}_cpu_us_per_message"]
        found.append((f"{name} cost per message, {render.cell(last['partitions'])} partitions against 1 000", "≤ 1.2",
                      ratio, ratio <= 1.2, ""))
    burst = min(points, key=lambda p: p["created_per_s"])
    wait = max(points, key=lambda p: p["cold_max_ms"])
    return found + [
        ("New partitions in a minute, at the pace of the slowest burst", "≥ 100 000", burst["created_per_s"] * 60,
         burst["created_per_s"] * 60 >= 100_000, ""),
        ("A quiet partition among hot ones waits at most (ms)", "bounded", wait["cold_max_ms"], None,
         "ten partitions with endless work, 16 consumers")]
