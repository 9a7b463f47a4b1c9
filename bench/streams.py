"""What a cycle of a stream costs: CPU of the daemon and of PostgreSQL per cycle, beside a transaction that acknowledges and stores the same.

python bench/streams.py [--postgres MAJOR] [--rounds N] [--partitions N]
Processor time, not rates; the cheapest of N rounds is the figure. Also how many updates of state stayed on their page.
"""
from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench"), str(ROOT / "tests")]

from cluster import open_cluster  # noqa: E402
from server import Daemon  # noqa: E402
from support.client import Client, ack_of  # noqa: E402
from support.streams import Stream  # noqa: E402
from tokens import spent_ns  # noqa: E402

MESSAGES = 10      # per delivery
STATE = {"acc": {"count": 3, "sum": 4711, "min": 1, "max": 99}, "windowStart": 1_800_000_000_000, "windowEnd": 1_800_000_060_000}
KINDS = ("transaction", "cycle, no state", "cycle, 1 key", "cycle, 20 keys", "state/get, 20 keys")


def deliveries(client: Client, queue: str, group: str, partitions: int) -> list[list[dict]]:
    for first in range(0, partitions, 100):
        client.push_items([{"queue": queue, "partition": str(p), "payload": {"n": n}} for p in range(first, min(partitions, first + 100)) for n in range(MESSAGES)])
    return [client.pop(queue, str(p), consumerGroup=group, batch=MESSAGES) for p in range(partitions)]


def calls(client: Client, stream: Stream, kind: str, given: list[list[dict]]) -> list[tuple[str, dict]]:
    """(path, body) per delivery."""
    sink = [{"queue": f"{stream.source}-sink", "partition": "p", "payload": {"sum": 3}}]
    if kind == "transaction":
        return [("/api/v1/transaction", {"operations": [{"type": "ack", "consumerGroup": stream.group, **ack_of(one)} for one in messages] + [{"type": "push", "items": sink}]})
                for messages in given]
    if kind.startswith("state"):
        return [("/streams/v1/state/get", {"query_id": stream.id, "partition_id": messages[0]["partitionId"], "keys": []}) for messages in given]
    keys = {"cycle, no state": 0, "cycle, 1 key": 1, "cycle, 20 keys": 20}[kind]
    sets = {f"tumb:60\x1f2027-01-15T08:00:00.000Z\x1fcustomer-{n}": STATE for n in range(keys)}
    return [("/streams/v1/cycle", stream.body(messages, sets, sink)) for messages in given]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--postgres", type=int)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--partitions", type=int, default=300)
    given = parser.parse_args()
    cluster = open_cluster(given.postgres)
    figures: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    try:
        daemon = Daemon(cluster, NUM_WORKERS="1")
        try:
            with Client((daemon.host, daemon.port)) as client:
                stream = Stream(client, "bench", "source")
                for _ in range(given.rounds + 1):      # the first one warms up
                    for kind in KINDS:
                        bodies = calls(client, stream, kind, deliveries(client, "source", stream.group, given.partitions) if not kind.startswith("state") else last)
                        before, database = spent_ns(daemon.process.pid), cluster.cpu_seconds()
                        for path, body in bodies:
                            answer = client.post(path, body)
                            assert answer.status == 200 and answer.json["success"], answer.body
                        figures[kind].append(((spent_ns(daemon.process.pid) - before) / 1000 / len(bodies), (cluster.cpu_seconds() - database) * 1e6 / len(bodies)))
                        last = [[{"partitionId": body["partition_id"]}] for _, body in bodies] if kind.startswith("cycle") else None
        finally:
            daemon.stop()
        cluster.connection.execute("SELECT pg_stat_clear_snapshot()")
        updated, hot = cluster.connection.execute("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'stream_state'").fetchone()
    finally:
        cluster.stop()
    print("| per call | daemon, us | PostgreSQL, us |\n|---|---|---|")
    for kind, rounds in figures.items():
        print(f"| {kind} | {min(one[0] for one in rounds[1:]):.0f} | {min(one[1] for one in rounds[1:]):.0f} |")
    print(f"\n{updated} updates of state, {hot / max(1, updated):.1%} of them on their page")


if __name__ == "__main__":
    main()
