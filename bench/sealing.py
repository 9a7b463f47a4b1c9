"""What an encrypted queue costs: CPU per payload sealed and opened, and CPU of the daemon per message pushed and popped beside a plain queue.

python bench/sealing.py [--postgres MAJOR] [--rounds N] [--requests N]
Processor time, not rates; the cheapest of N rounds is the figure.
"""
from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench"), str(ROOT / "tests")]

from cluster import Cluster  # noqa: E402
from server import Daemon  # noqa: E402
from support.client import Client  # noqa: E402
from tokens import spent_ns  # noqa: E402

from queend._core import probe_seal_keys, probe_seal_time  # noqa: E402

KEY = bytes(range(32)).hex()
SIZES = (100, 1_000, 10_000, 1_000_000)
ITEMS = 100                    # messages per push and pop
PAYLOAD = {"order": 12345678, "customer": "c-0042", "items": 3, "amount": 4711, "currency": "EUR", "note": "leave it at the door, ring twice"}


def alone(rounds: int) -> list[tuple[int, float, float]]:
    """(bytes, us to seal, us to open) without anything around it."""
    probe_seal_keys(f"a:{KEY}")
    figures = []
    for size in SIZES:
        payload, times = b'"' + b"x" * (size - 2) + b'"', max(20, 20_000_000 // (size + 1000))
        best = [min(one) for one in zip(*(probe_seal_time(payload, times) for _ in range(rounds)), strict=True)]
        figures.append((size, *(one / times * 1e6 for one in best)))
    probe_seal_keys("")
    return figures


def around(client: Client, daemon: Daemon, queue: str, requests: int) -> tuple[float, float]:
    """us of the daemon's CPU per message: pushed, popped."""
    body = json.dumps({"items": [{"queue": queue, "payload": PAYLOAD}] * ITEMS}).encode()
    spent = []
    for method, target, content in ("POST", "/api/v1/push?format=counts", body), ("GET", f"/api/v1/pop/queue/{queue}?batch={ITEMS}&autoAck=true", None):
        before = spent_ns(daemon.process.pid)
        for _ in range(requests):
            answer = client.request(method, target, content)
            assert answer.status in (200, 201) and (method == "POST" or len(answer.json["messages"]) == ITEMS), answer.body
        spent.append((spent_ns(daemon.process.pid) - before) / requests / ITEMS / 1000)
    return spent[0], spent[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--postgres", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=200)
    given = parser.parse_args()
    print("| payload, bytes | seal, us | open, us |\n|---|---|---|")
    for size, seal, open_ in alone(given.rounds):
        print(f"| {size} | {seal:.2f} | {open_:.2f} |")
    cluster = Cluster(given.postgres)
    try:
        daemon = Daemon(cluster, NUM_WORKERS="1", QUEEND_ENCRYPTION_KEYS=f"a:{KEY}")
        try:
            with Client((daemon.host, daemon.port)) as client:
                client.configure("sealed", encryptionEnabled=True)
                client.configure("plain")
                for queue in ("plain", "sealed"):
                    around(client, daemon, queue, 5)
                figures = {queue: [around(client, daemon, queue, given.requests) for _ in range(given.rounds)] for queue in ("plain", "sealed")}
        finally:
            daemon.stop()
    finally:
        cluster.stop()
    print(f"\n{len(json.dumps(PAYLOAD))} bytes of payload, {ITEMS} messages per request\n\n| queue | push, us | pop, us |\n|---|---|---|")
    for queue, values in figures.items():
        push, pop = (min(one) for one in zip(*values, strict=True))
        print(f"| {queue} | {push:.2f} | {pop:.2f} |")


if __name__ == "__main__":
    main()
