"""Latency in commits: at a fifth of the load the server can carry, and tails at full load. A commit is one row inserted
and committed by one client over the same socket, on the same machine, just before."""

import time

import psycopg

import render

NAME, TITLE = "latency", "Latency"


def commit_ms(dsn: str, rounds: int = 400) -> float:
    """Median of one synchronous one-row transaction, seen by its client."""
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute("CREATE TABLE IF NOT EXISTS public.commits (n int)")
        times = []
        for i in range(rounds):
            began = time.perf_counter()
            db.execute("INSERT INTO public.commits VALUES (%s)", (i,), prepare=True)
            times.append(time.perf_counter() - began)
    return sorted(times)[rounds // 2] * 1000


def run(lab, quick: bool):
    queue, seconds = "latency", 1.0 if quick else 8.0
    lab.prepare(queue, 1000)
    push = dict(kind="push", name="push", queue=queue, conns=64, items=1, partitions=1000)
    pop = dict(kind="pop", name="pop", queue=queue, conns=32, batch=50, wait=1, timeout=5000, delivery=1)
    lab.load(0, 10, pop | dict(wait=0, count=1000))
    full = lab.point(0.5, seconds, push)
    yield dict(load="full, 64 connections, no consumer", commit_ms=commit_ms(lab.cluster.dsn)) | _keep(full, "push")
    # Another queue: what is left of the first would be delivered late, and counted.
    push, pop = push | dict(queue="latency-both"), pop | dict(queue="latency-both")
    lab.prepare("latency-both", 1000)
    lab.load(0, 10, pop | dict(wait=0, count=1000))
    rate = full["messages_per_s"] / 5
    commit = commit_ms(lab.cluster.dsn)
    report, _, _ = lab.load(0.5, seconds, push | dict(rate=rate), pop)
    yield dict(load="a fifth of it, on a schedule, 32 parked consumers", commit_ms=commit, rate=rate) | _roles(report)
    both = lab.load(0.5, seconds, push, pop | dict(conns=16))[0]
    yield dict(load="full, 64 producers and 16 consumers", commit_ms=commit) | _roles(both)


def _keep(point: dict, name: str) -> dict:
    return {f"{name}_{key}": point[key] for key in ("messages_per_s", "p50_ms", "p99_ms", "p999_ms", "max_ms")}


def _roles(report: dict) -> dict:
    push, pop = report["roles"]["push"], report["roles"]["pop"]
    return dict(push_messages_per_s=push["messages"] / report["seconds"],
                pop_messages_per_s=pop["messages"] / report["seconds"]) | {
        f"push_{key}": push[key] for key in ("p50_ms", "p99_ms", "p999_ms", "max_ms")} | {
        key: pop[key] for key in ("delivery_p50_ms", "delivery_p99_ms", "delivery_max_ms")}


def tables(points: list[dict]) -> str:
    return render.table(points, [
        ("load", "load"), ("push msg/s", "push_messages_per_s"), ("commit ms", "commit_ms"),
        ("push p50 ms", "push_p50_ms"), ("p99 ms", "push_p99_ms"),
        ("p99.9 ms", "push_p999_ms"), ("max ms", "push_max_ms"), ("push to delivery p50 ms", "delivery_p50_ms"),
        ("p99 ms", "delivery_p99_ms"), ("max ms", "delivery_max_ms")])


def plots(points: list[dict]) -> dict[str, str]:
    return {}


def aims(points: list[dict]) -> list[tuple]:
    full, fifth, both = points
    push, delivery = fifth["push_p50_ms"] / fifth["commit_ms"], fifth["delivery_p50_ms"] / fifth["commit_ms"]
    tail = max(p["push_p99_ms"] / p["push_p50_ms"] for p in (full, both))
    return [("Push p50 at a fifth of the load, in commits", "≤ 1.5", push, push <= 1.5,
             f"a commit: {render.cell(fifth['commit_ms'])} ms"),
            ("Push to delivery p50 at a fifth of the load, in commits", "≤ 2.5", delivery, delivery <= 2.5, ""),
            ("p99 / p50 of single pushes under full load", "≤ 5", tail, tail <= 5, "with and without consumers")]
