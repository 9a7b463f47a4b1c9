"""The figures that the reference published or gave on a like machine, beside those of a run."""

import render

# where the reference's figures were taken
SUITE = "32 processors, 28-byte payloads, 15 min"
HERE = "Queen MQ 0.15.1 on two processors"


def _point(runs: dict, sweep: str, **where) -> dict:
    """The sweep's point with these values; {} where it was not measured."""
    return next((p for p in runs.get(sweep, {}).get("points", [])
                 if all(p.get(key) == value for key, value in where.items())), {})


def _said(point: dict, key: str, unit: str) -> str:
    return f"{render.cell(point[key])} {unit}" if point.get(key) is not None else ""


def table(runs: dict) -> str:
    one, ten, wide = _point(runs, "groups",
                            groups=1), _point(runs, "groups", groups=10), _point(runs, "shape", items=100, conns=64)
    few, many = _point(runs, "partitions", partitions=1000), _point(runs, "partitions", partitions=10_000)
    single = _point(runs, "shape", items=1, conns=64)
    latency = (runs.get("latency", {}).get("points") or [{}] * 2)[1]
    parked = (runs.get("parked", {}).get("points") or [{}])[-1]
    slower = f"{100 * ten['messages_per_s'] / one['messages_per_s'] - 100:+.0f} %" if one and ten else ""
    flat = (f"{100 * many['push_cpu_us_per_message'] / few['push_cpu_us_per_message'] - 100:+.0f} % CPU per message"
            if few and many else "")
    idle = (f"{render.cell(20 * (parked['idle_daemon_cpu'] + parked['idle_postgres_cpu']))} s"
            f" ({render.cell(parked['parked'])} parked)" if parked else "")
    rows = [
        ("push, 10 per request, 50 connections, one group consumes", "39 060 msg/s", SUITE,
         _said(one, "messages_per_s", "msg/s")),
        ("the same with 10 groups: push", "17 890 msg/s (-54 %)", SUITE,
         f"{_said(ten, 'messages_per_s', 'msg/s')} ({slower})"),
        ("the same: deliveries", "165 480 msg/s", SUITE, _said(ten, "deliveries_per_s", "msg/s")),
        ("push, 100 per request, 50 connections (here 64)", "104 400 msg/s", SUITE,
         _said(wide, "messages_per_s", "msg/s")),
        ("daemon CPU of it per million messages, without PostgreSQL", "182 s", SUITE,
         _said(wide, "daemon_cpu_us_per_message", "s")),
        ("push, 10 001 partitions instead of 2 (here 10 000 instead of 1000)", "-29 % msg/s", SUITE, flat),
        ("longest wait of a message while consumers keep up on average", "9 to 13 min", SUITE,
         _said(many, "cold_max_ms", "ms")),
        ("push, 1 per request, 64 connections: CPU per message, daemon and PostgreSQL", "296 us", HERE,
         _said(single, "cpu_us_per_message", "us")),
        ("push, 100 per request, 16 connections: the same", "77 us", HERE,
         _said(_point(runs, "shape", items=100, conns=16), "cpu_us_per_message", "us")),
        ("parked pops, CPU in 20 s", "8.8 s (5 000 parked)", HERE, idle),
        ("push to delivery of a parked pop, p50", "648 ms (idle)", HERE,
         f"{_said(latency, 'delivery_p50_ms', 'ms')} (a fifth of the load)"),
    ]
    return "\n".join(["| | reference | taken on | queend, this run |", "|---|---|---|---|"]
                     + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"
