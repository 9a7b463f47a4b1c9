"""Fan-out: 1, 2, 5, 10 consumer groups read what one producer writes. The shape is that of the reference's published
runs: 50 connections push 10 items per request over 1000 partitions; 50 connections of each group pop 100,
auto-acknowledged."""

import render

NAME, TITLE = "groups", "Consumer groups on one queue"
GROUPS = (0, 1, 2, 5, 10)


def run(lab, quick: bool):
    for groups in GROUPS:
        queue = f"groups{groups}"
        lab.prepare(queue, 1000)
        push = dict(kind="push", name="push", queue=queue, conns=50, items=10, partitions=1000, count=10_000_000)
        pops = [dict(kind="pop", name=f"g{i}", queue=queue, group=f"g{i}", conns=50, batch=100, wait=1, timeout=5000,
                     delivery=1) for i in range(groups)]
        # A group's first pops make its cursors, and it is behind by then: the window begins when it has caught up.
        point = lab.point((1.0 if quick else 2.0) + 0.5 * groups, 2.0 if quick else 7.0, push, *pops, of="push")
        taken = [point["roles"][pop["name"]] for pop in pops]
        point |= dict(groups=groups, deliveries_per_s=sum(taken) / point["seconds"], least=min(taken, default=None),
                      most=max(taken, default=None))
        if groups:
            point["fairness"] = min(taken) / max(max(taken), 1)
            point["behind"] = 1 - min(taken) / point["messages"]
        # everything that shares these processors, per message stored: what a consumer takes is missing to the producer
        point["all_cpu_us"] = point["cpu_us_per_message"] + point["load_cpu_us_per_message"]
        lab.check(NAME, queue)
        yield point


def _slowdown(points: list[dict], point: dict) -> float:
    """1: the producer kept exactly the share of the processors that the consumers left it; below: it lost more than
    that."""
    alone = next(p for p in points if p["groups"] == 0)
    return point["messages_per_s"] * point["all_cpu_us"] / (alone["messages_per_s"] * alone["all_cpu_us"])


def tables(points: list[dict]) -> str:
    points = [p | {"explained": _slowdown(points, p) if p["groups"] else None,
                   "delivery_us": p["cpu_us_per_message"] / (p["groups"] + 1)} for p in points]
    return render.table(points, [
        ("groups", "groups"), ("push msg/s", "messages_per_s"), ("push p50 ms", "p50_ms"), ("push p99 ms", "p99_ms"),
        ("deliveries/s", "deliveries_per_s"),
        ("least / most of a group", "fairness"), ("slowest group behind", "behind"),
        ("CPU us per message stored", "cpu_us_per_message"), ("busy processors against no groups", "explained")])


def plots(points: list[dict]) -> dict[str, str]:
    return {"throughput": render.chart("Fan-out", "consumer groups", "per second", {
        "deliveries": [(p["groups"], p["deliveries_per_s"]) for p in points if p["groups"]],
        "pushed": [(p["groups"], p["messages_per_s"]) for p in points if p["groups"]]})}


def aims(points: list[dict]) -> list[tuple]:
    worst = min((p for p in points if p["groups"] > 1), key=lambda p: p["fairness"])
    least = min((p for p in points if p["groups"]), key=lambda p: _slowdown(points, p))
    most = max(points, key=lambda p: p["deliveries_per_s"])
    return [("Groups are served alike: least / most", "≥ 0.95", worst["fairness"], worst["fairness"] >= 0.95,
             f"{worst['groups']} groups"),
            ("The producer slows by no more than the CPU consumers take", "≥ 0.95", _slowdown(points, least),
             _slowdown(points, least) >= 0.95,
             f"{least['groups']} groups; processors kept busy against those without groups"),
            ("Deliveries per second, fan-out (reference: 165 480 on 32 processors)", "", most["deliveries_per_s"], None,
             f"{most['groups']} groups, 2 processors")]
