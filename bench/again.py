"""What it costs to send rows again that are stored: for each kind of id, alignment and number of partitions, the same
rows are pushed twice in one run, as Arrow. Prints a table with the ratio of the two times, which is to stay below 2.

    python bench/again.py [--url http://HOST:PORT] [--rows N] [--only uuid5,text]

Alignments: `same`: the same requests; `shifted`: requests that begin half a request later; `shuffled`: the rows of each
partition in another order.
"""
from __future__ import annotations

import argparse
import http.client
import io
import random
import time
import urllib.parse
import uuid

import pyarrow as pa

REQUEST = 10_000
HOUR = 3_600_000              # ms


def uuid7(ms: int, n: int) -> str:
    """The id of row n, of a moment: rows of one moment are in order."""
    return str(uuid.UUID(int=ms << 80 | 7 << 76 | (n & 0xfff) << 64 | 1 << 63 | random.getrandbits(62)))


KINDS = {
    "uuid4": lambda n, now: str(uuid.uuid4()),
    "uuid5": lambda n, now: str(uuid.uuid5(uuid.NAMESPACE_URL, str(n))),
    "text": lambda n, now: f"order {n}",
    "v7 timely": lambda n, now: uuid7(now + n // 1000, n),
    "v7 untimely": lambda n, now: uuid7(now - 24 * HOUR + 10 * n, n),
}


def arranged(rows: list[tuple], alignment: str) -> list[list[tuple]]:
    """The rows as requests."""
    if alignment == "shuffled":
        random.shuffle(rows)
        rows = sorted(rows, key=lambda row: row[0])
    first = REQUEST // 2 if alignment == "shifted" else REQUEST
    edges = [0, *range(first, len(rows), REQUEST), len(rows)]
    return [rows[a:b] for a, b in zip(edges, edges[1:], strict=False)]


def push(client: http.client.HTTPConnection, queue: str, rows: list[tuple]) -> None:
    partitions, ids, payloads = zip(*rows, strict=True)
    table = pa.table({"partition": partitions, "transactionId": ids, "payload": payloads})
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    client.request("POST", f"/api/v1/push?format=counts&queue={queue}", out.getvalue(),
                   {"Content-Type": "application/vnd.apache.arrow.stream"})
    answer = client.getresponse()
    text = answer.read()
    if answer.status != 201:
        raise SystemExit(f"bench: a push was answered with {answer.status}: {text[:200]!r}")


def timed(client: http.client.HTTPConnection, queue: str, requests: list[list[tuple]]) -> float:
    began = time.perf_counter()
    for rows in requests:
        push(client, queue, rows)
    return time.perf_counter() - began


def measure(client: http.client.HTTPConnection, kind: str, partitions: int, alignment: str,
            count: int) -> tuple[float, float]:
    """Seconds of the first time and of the second."""
    now = time.time_ns() // 1_000_000
    rows = [(f"c{n * partitions // count}", KINDS[kind](n, now), f'{{"n":{n}}}') for n in range(count)]
    queue = f"again-{uuid.uuid4().hex[:12]}"
    return timed(client, queue, arranged(rows, "same")), timed(client, queue, arranged(rows, alignment))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--url", default="http://127.0.0.1:6632")
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--only", default=",".join(KINDS), help="kinds of id, separated by commas")
    args = parser.parse_args()
    at = urllib.parse.urlsplit(args.url)
    client = http.client.HTTPConnection(at.hostname, at.port or 80, timeout=300)
    print("| ids | partitions | alignment | first, s | again, s | ratio |\n|---|---|---|---|---|---|")
    for kind in args.only.split(","):
        for partitions in 1, 4, 1000:
            for alignment in "same", "shifted", "shuffled":
                first, again = measure(client, kind, partitions, alignment, args.rows)
                print(f"| {kind} | {partitions} | {alignment} | {first:.2f} | {again:.2f} | {again / first:.2f} |",
                      flush=True)


if __name__ == "__main__":
    main()
