"""What a read of the log by offset costs: CPU of the daemon and of PostgreSQL per million records, by format and shape
of the log.

python bench/reads.py [--postgres MAJOR] [--rounds N]
Processor time, not rates: what else runs on the machine hardly changes it. The cheapest of N rounds is the figure.
"""
from __future__ import annotations

import argparse
import http.client
import io
import json
import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

import pyarrow as pa  # noqa: E402
from cluster import Cluster  # noqa: E402
from server import Daemon  # noqa: E402

WORDS = ("gift no invoice inside express parcel standard return voucher customer service please call before delivery"
         " ring twice leave with "
         "neighbour fragile glass this side up cash card paid open pending shipped").split()
FORMS = {"JSON": "application/json", "NDJSON": "application/x-ndjson", "Arrow": "application/vnd.apache.arrow.stream"}
MIB = 1 << 20
# name: payload bytes, messages, partitions, items of one partition in a push
LOGS = {"131 B, 500 per row": (130, 200_000, 4, 500), "131 B, 1 per row": (130, 30_000, 1000, 1),
        "1 KB, 60 per row": (1024, 40_000, 4, 60)}
BUDGETS = {"131 B, 500 per row": (8 * MIB, 131_000)}      # the others: 8 MiB a call


def like_json(size: int) -> bytes:
    """What programs send: the benchmark's order, with as many words of text as the size asks for."""
    head = (b'{"order":"%08x","customer":"c-%04d","items":%d,"amount":%d,"currency":"USD","at":%d,"note":"'
            % (random.getrandbits(32), random.randrange(10000), random.randrange(1, 10), random.randrange(100000),
               time.time_ns() // 1000))
    note = ""
    while len(head) + len(note) < size - 2:
        note += random.choice(WORDS) + " "
    return head + note[:max(0, size - 2 - len(head))].encode() + b'"}'


def load(daemon: Daemon, queue: str, size: int, messages: int, partitions: int, run: int) -> None:
    payloads = [json.loads(like_json(size)) for _ in range(200)]
    at = 0
    while at < messages:
        items = [{"queue": queue, "partition": f"p{(at + i) // run % partitions}", "payload": payloads[(at + i) % 200]}
                 for i in range(min(1000, messages - at))]
        daemon.call("POST", "/api/v1/push", {"items": items})
        at += len(items)


class Reader:
    """Reads a whole queue by fetch."""

    def __init__(self, daemon: Daemon, cluster: Cluster):
        self.daemon, self.cluster = daemon, cluster
        self.connection = http.client.HTTPConnection(daemon.host, daemon.port, timeout=60)

    def ask(self, body: dict, form: str) -> bytes:
        self.connection.request("POST", "/api/v1/fetch", json.dumps(body),
                                {"Content-Type": "application/json", "Accept": FORMS[form]})
        return self.connection.getresponse().read()

    @staticmethod
    def marks(form: str, answer: bytes) -> tuple[int, list[int]]:
        """Records, and where each entry goes on."""
        if form == "JSON":
            entries = json.loads(answer)["entries"]
            return sum(len(e["records"])
                       for e in entries), [e["records"][-1]["offset"] + 1 if e["records"] else 0 for e in entries]
        if form == "NDJSON":
            lines = answer.splitlines()
            return len(lines) - 1, [e["nextOffset"] for e in json.loads(lines[-1])["entries"]]
        stream = pa.ipc.open_stream(io.BytesIO(answer))
        return stream.read_all().num_rows, [e["nextOffset"]
                                            for e in json.loads(stream.schema.metadata[b"queend.entries"])["entries"]]

    def read(self, queue: str, partitions: int, form: str, most: int) -> tuple[float, float, int, int, int]:
        """Seconds of daemon and PostgreSQL, records, calls, bytes of answers."""
        before = self.daemon.cpu_seconds(), self.cluster.cpu_seconds()
        records = calls = size = 0
        chunks = [[f"p{i}" for i in range(partitions)]] if partitions > 100 else [[f"p{i}"] for i in range(partitions)]
        for names in chunks:
            at = [0] * len(names)
            while True:
                body = {"entries": [{"queue": queue, "partition": n, "offset": o, "maxBytes": most}
                                    for n, o in zip(names, at)], "maxBytes": most}
                answer = self.ask(body, form)
                got, following = self.marks(form, answer)
                if got == 0:
                    break
                at = [max(a, b) for a, b in zip(at, following)]
                records, calls, size = records + got, calls + 1, size + len(answer)
        return self.daemon.cpu_seconds() - before[0], self.cluster.cpu_seconds() - before[1], records, calls, size


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--postgres", type=int, metavar="MAJOR")
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    random.seed(7)
    cluster = Cluster(given.postgres)
    daemon = None
    try:
        daemon = Daemon(cluster)
        idle = daemon.rss_mb()
        reader = Reader(daemon, cluster)
        print("| log | payload bytes a call | format | records a call | daemon s per 10^6 | PostgreSQL s per 10^6 |"
              " answer bytes per record |\n|---|---|---|---|---|---|---|")
        for number, (name, (size, messages, partitions, run)) in enumerate(LOGS.items()):
            load(daemon, f"q{number}", size, messages, partitions, run)
            for most in BUDGETS.get(name, (8 * MIB,)):
                for form in FORMS:
                    best = [1e9, 1e9]
                    for _ in range(given.rounds):
                        a, b, records, calls, answer = reader.read(f"q{number}", partitions, form, most)
                        assert records == messages, (records, messages)
                        best = [min(x, y / records * 1e6) for x, y in zip(best, (a, b))]
                    print(f"| {name} | {most} | {form} | {records // calls} | {best[0]:.2f} | {best[1]:.2f} |"
                          f" {answer // records} |", flush=True)
        print(f"\nMemory of the daemon: {idle:.0f} MB idle, {daemon.rss_mb():.0f} MB after these reads")
    finally:
        if daemon:
            daemon.stop()
        cluster.stop()


if __name__ == "__main__":
    main()
