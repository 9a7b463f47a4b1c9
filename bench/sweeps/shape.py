"""Push: how many items a request carries against how many connections send."""

import render

NAME, TITLE = "shape", "Batch size and connections"
ITEMS, CONNS = (1, 10, 100, 1000), (1, 4, 16, 64, 256)

MOST_IN_FLIGHT = 64_000  # messages; more would only measure how long one round of all connections takes


def run(lab, quick: bool):
    queue = "shape"
    lab.prepare(queue, 1000)
    for items in ITEMS:
        for conns in CONNS[::2] if quick else CONNS:
            if items * conns > MOST_IN_FLIGHT or quick and items == 10:
                continue
            role = dict(kind="push", name="push", queue=queue, conns=conns, items=items,
                        partitions=1000, count=4_000_000)
            yield dict(items=items, conns=conns) | lab.point(0.2, 0.6 if quick else 2.5, role)
    lab.check(NAME, queue)


def tables(points: list[dict]) -> str:
    return render.table(points, [
        ("items", "items"), ("connections", "conns"), ("msg/s", "messages_per_s"), ("p50 ms", "p50_ms"),
        ("p99 ms", "p99_ms"),
        ("daemon us", "daemon_cpu_us_per_message"), ("PostgreSQL us", "postgres_cpu_us_per_message"),
        ("sum us", "cpu_us_per_message"),
        ("WAL B", "wal_bytes_per_message"), ("disk B", "disk_bytes_per_message"),
        ("messages per commit", "messages_per_commit")])


def plots(points: list[dict]) -> dict[str, str]:
    def lines(key):
        return {f"{items} per request": [(p["conns"], p[key]) for p in points if p["items"] == items]
                for items in ITEMS}
    return {"throughput": render.chart("Push throughput", "connections", "messages per second",
                                       lines("messages_per_s")),
            "latency": render.chart("Push latency, p50 (closed loop)", "connections", "ms", lines("p50_ms")),
            "tail": render.chart("Push latency, p99 (closed loop)", "connections", "ms", lines("p99_ms")),
            "cost": render.chart("CPU per message, daemon and PostgreSQL", "connections", "µs",
                                 lines("cpu_us_per_message"))}


def aims(points: list[dict]) -> list[tuple]:
    full = [p for p in points if p["conns"] >= 16 and p["p50_ms"]]
    worst = max(full, key=lambda p: p["p99_ms"] / p["p50_ms"])
    return [("p99 / p50 of a push under full load, worst of the sweep", "≤ 5", worst["p99_ms"] / worst["p50_ms"],
             worst["p99_ms"] <= 5 * worst["p50_ms"], f"{worst['items']} items × {worst['conns']} connections")]
