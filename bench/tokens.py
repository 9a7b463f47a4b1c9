"""What a token costs: CPU of the daemon per pop of an empty queue, the cheapest request there is, pipelined on one connection.

python bench/tokens.py [--postgres MAJOR] [--rounds N] [--requests N]
Nanoseconds of processor time from the scheduler, not rates. The cheapest of N rounds is the figure.
"""
from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench"), str(ROOT / "tests")]

from cluster import Cluster  # noqa: E402
from server import Daemon  # noqa: E402
from support.http import Wire, request  # noqa: E402
from support.tokens import SECRET, bearer, pem, rsa_key, token  # noqa: E402

DEPTH = 50                     # requests in one write
ITEM = b'{"items":[{"queue":"empty","payload":1}]}'


def cases() -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """Name → settings, headers."""
    on = {"JWT_ENABLED": "true", "JWT_SECRET": SECRET}
    public = {"JWT_ENABLED": "true", "JWT_ALGORITHM": "RS256", "JWT_PUBLIC_KEY": pem(rsa_key())}
    small = bearer(token(sub="svc", role="read-write"))
    large = bearer(token("RS256", rsa_key(), sub="svc", role="read-write", exp=3600, iss="https://id.example", name="x" * 100))
    queues = {**{f"other-{i}.*": "*" for i in range(9)}, "e*": "*"}
    limited = bearer(token(sub="svc", role="read-write", queues=queues))
    return {"off, no header": ({}, {}), "off, a token of 600 bytes sent for nothing": ({}, large), "on, HS256, 150 bytes": (on, small),
            "on, RS256, 600 bytes": (public, large), "on, HS256, limited by 10 patterns": ({**on, "QUEEND_JWT_QUEUES_CLAIM": "queues"}, limited)}


def spent_ns(pid: int) -> int:
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path("/proc", str(pid), "task").iterdir())


def per_request(daemon: Daemon, headers: dict[str, str], requests: int) -> float:
    with Wire((daemon.host, daemon.port)) as wire:
        for one in request("POST", "/api/v1/push", ITEM, headers), request("GET", "/api/v1/pop/queue/empty?autoAck=true", None, headers):
            wire.send(one)
            assert wire.receive().status < 300
        many = request("GET", "/api/v1/pop/queue/empty", None, headers) * DEPTH
        for round_ in range(1 + requests // DEPTH):
            if round_ == 1:
                before = spent_ns(daemon.process.pid)
            wire.send(many)
            assert {wire.receive().status for _ in range(DEPTH)} == {200}
        return (spent_ns(daemon.process.pid) - before) / (requests // DEPTH * DEPTH) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--postgres", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=30_000)
    given = parser.parse_args()
    cluster = Cluster(given.postgres)
    daemons = []
    try:
        all_cases = cases()
        daemons = [Daemon(cluster, NUM_WORKERS="1", **settings) for settings, _ in all_cases.values()]
        figures = [[per_request(daemon, headers, given.requests) for daemon, (_, headers) in zip(daemons, all_cases.values(), strict=True)]
                   for _ in range(given.rounds)]
    finally:
        for daemon in daemons:
            daemon.stop()
        cluster.stop()
    print("| | us |\n|---|---|")
    for name, values in zip(all_cases, zip(*figures, strict=True), strict=True):
        print(f"| {name} | {min(values):.2f} |")


if __name__ == "__main__":
    main()
