"""Long polls that wait: memory of each, CPU of all while nothing happens, and how fast they are answered when 1000
queues receive at once."""

import resource

import render

NAME, TITLE = "parked", "Parked pops"
QUEUES = 1000
BURSTS_PER_S = 2


def counts(quick: bool) -> list[tuple[int, int]]:
    """(connections, pops in flight on each): one per connection as far as the process may open files, then two, one
    behind the other."""
    room = resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 1000
    wanted = [3_000] if quick else [5_000, 15_000, 30_000]
    return [(n, 1) if n <= room else (n // 2, 2) for n in wanted]


def run(lab, quick: bool):
    for i in range(QUEUES):
        lab.server.call("POST", "/api/v1/configure", {"queue": f"parked{i:05}", "options": {}})
    # each queue exists, with its partition and group, before the first is measured
    push = dict(kind="push", name="push", queue="parked", queues=QUEUES, conns=1, items=QUEUES, partitions=1)
    pop = dict(kind="pop", name="pop", queue="parked", queues=QUEUES, batch=10, wait=1, timeout=300_000, delivery=1)
    lab.load(0, 3, push | {"count": QUEUES})
    lab.load(0, 30, pop | dict(conns=QUEUES, wait=0, count=QUEUES))
    for conns, depth in counts(quick):
        before = lab.server.rss_mb()
        still = lab.point(1.5, 1.5 if quick else 8.0, pop | dict(conns=conns, depth=depth))
        point = dict(parked=conns * depth, connections=conns,
                     bytes_per_pop=(still["rss_mb"] - before) * 2**20 / (conns * depth),
                     idle_daemon_cpu=still["daemon_cpu_s"] / still["seconds"],
                     idle_postgres_cpu=still["postgres_cpu_s"] / still["seconds"])
        woken = lab.point(1.5, 2.0 if quick else 8.0, push | {"rate": BURSTS_PER_S},
                          pop | dict(conns=conns, depth=depth))
        yield point | {f"wake_{key}": woken[f"delivery_{key}"] for key in ("p50_ms", "p99_ms", "max_ms")} | dict(
            woken=woken["messages"], wake_cpu_us=woken["cpu_us_per_message"])


def tables(points: list[dict]) -> str:
    points = [p | {"idle_daemon": p["idle_daemon_cpu"] * 100, "idle_postgres": p["idle_postgres_cpu"] * 100}
              for p in points]
    return render.table(points, [
        ("parked pops", "parked"), ("connections", "connections"), ("daemon bytes each", "bytes_per_pop"),
        ("idle: daemon % of a core", "idle_daemon"),
        ("PostgreSQL %", "idle_postgres"), ("1000 queues at once: p50 ms", "wake_p50_ms"), ("p99 ms", "wake_p99_ms"),
        ("max ms", "wake_max_ms"), ("CPU us per delivery", "wake_cpu_us")])


def plots(points: list[dict]) -> dict[str, str]:
    return {}


def aims(points: list[dict]) -> list[tuple]:
    last = points[-1]
    heaviest = max(points, key=lambda p: p["bytes_per_pop"])
    slowest = max(points, key=lambda p: p["wake_p99_ms"])
    idle = max(p["idle_daemon_cpu"] + p["idle_postgres_cpu"] for p in points)
    return [("Memory of a parked pop with its connection, bytes", "< 4 096", heaviest["bytes_per_pop"],
             heaviest["bytes_per_pop"] < 4096, f"up to {render.cell(last['parked'])} parked"),
            ("CPU while they wait, % of a core", "none", idle * 100, idle < 0.01, ""),
            ("1000 queues receive at once, start of the push to the pop's answer, p99 ms", "< 20",
             slowest["wake_p99_ms"], slowest["wake_p99_ms"] < 20, f"{render.cell(slowest['parked'])} parked")]
