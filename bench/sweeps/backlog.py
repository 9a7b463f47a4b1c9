"""10^4 to 10^7 messages wait in one queue: does the next pop, or its acknowledgement, cost more? And is catching up
faster than falling behind?"""

import render

NAME, TITLE = "backlog", "Backlog"
# what the daemon still has in memory is cheaper, and of a small backlog that is all
DAEMON = {"QUEEND_CACHE_BYTES": "0"}
COUNTS = (10_000, 100_000, 1_000_000, 10_000_000)
# read at each size, by several groups one after another where one does not find so much: windows of like length
MOST = 400_000
GROUPS = 10     # at most
FIGURES = ("p50_ms", "p99_ms", "daemon_cpu_us_per_message", "postgres_cpu_us_per_message", "cpu_us_per_message")


def run(lab, quick: bool):
    queue, stored = "backlog", 0
    lab.server.call("POST", "/api/v1/configure", {"queue": queue, "options": {"leaseTime": 300}})
    for count in COUNTS[:-1] if quick else COUNTS:
        push = dict(kind="push", name="push", queue=queue, conns=8, items=100, partitions=100, spread="block",
                    count=count - stored)
        filled = lab.point(0, 120, push)
        stored = lab.stored[queue]
        # groups of their own, so that each finds the whole backlog; without long polls, so that they end when it is
        # drained
        take = dict(kind="pop", queue=queue, conns=16, batch=50)
        point = dict(backlog=stored, filled_per_s=filled["messages_per_s"], filled_cpu_us=filled["cpu_us_per_message"])
        each = min(MOST, stored * 9 // 10)
        for name, more in (("pop", {}), ("cycle", {"lease": 1})):
            rounds = [lab.point(0, 10, take | more | dict(name=name, group=f"{name}{count}.{i}", count=each))
                      for i in range(min(GROUPS, MOST // each))]
            point |= {f"{name}_{key}": figure for key, figure in together(rounds).items()}
        yield point
    lab.check(NAME, queue)
    caught = lab.point(0, 2 if quick else 30, dict(kind="pop", name="all", queue=queue, group="all", conns=16,
                                                   batch=1000, claim=1, count=stored))
    yield dict(backlog=stored, catch_up=True, grew_per_s=point["filled_per_s"]) | {key: caught[key] for key in (
        "messages", "messages_per_s", "cpu_us_per_message", "p50_ms", "p99_ms")}


def together(rounds: list[dict]) -> dict[str, float]:
    """Rounds as one: means by message, the rate by the time they took together."""
    messages = sum(one["messages"] for one in rounds)
    return {key: sum(one[key] * one["messages"] for one in rounds) / messages for key in FIGURES} | {
        "messages": messages,
        "messages_per_s": messages / sum(one["messages"] / one["messages_per_s"] for one in rounds)}


def tables(points: list[dict]) -> str:
    *sizes, caught = points
    return render.table(sizes, [
        ("messages waiting", "backlog"), ("pop us", "pop_cpu_us_per_message"),
        ("PostgreSQL", "pop_postgres_cpu_us_per_message"), ("pop msg/s", "pop_messages_per_s"),
        ("pop + ack us", "cycle_cpu_us_per_message"), ("PostgreSQL", "cycle_postgres_cpu_us_per_message"),
        ("cycle msg/s", "cycle_messages_per_s"),
        ("filled at msg/s", "filled_per_s")]) + (
        f"\nCatching up: {render.cell(caught['messages'])} of {render.cell(caught['backlog'])} messages at"
        f" {render.cell(caught['messages_per_s'])} msg/s\n"
        f"(batch 1000, 16 connections; {render.cell(caught['cpu_us_per_message'])} us each);"
        f" the backlog had grown at {render.cell(caught['grew_per_s'])} msg/s.\n")


def plots(points: list[dict]) -> dict[str, str]:
    names = {"pop": "pop 50", "cycle": "pop 50 and ack"}
    return {"cost": render.chart("CPU per message against backlog", "messages waiting", "µs, daemon and PostgreSQL", {
        text: [(p["backlog"], p[f"{name}_cpu_us_per_message"]) for p in points[:-1]] for name, text in names.items()},
                                 log_y=False)}


def aims(points: list[dict]) -> list[tuple]:
    *sizes, caught = points
    first, last = sizes[1], sizes[-1]  # 10^4 is over in 30 ms: too short to count processor time by ticks
    found = []
    for name, text in (("pop", "pop"), ("cycle", "pop and ack")):
        ratio = last[f"{name}_cpu_us_per_message"] / first[f"{name}_cpu_us_per_message"]
        found.append((f"{text} cost per message, backlog {render.cell(last['backlog'])} against"
                      f" {render.cell(first['backlog'])}", "≤ 1.2", ratio, ratio <= 1.2, ""))
    faster = caught["messages_per_s"] / caught["grew_per_s"]
    return found + [("Catching up / falling behind, messages per second", "> 1", faster, faster > 1, "")]
