"""What a message costs the daemon in each form of a push: the same messages, 1000 in a request, built beforehand, forms
in turns.

    python bench/ingest.py [--items N] [--only "json;arrow"] [--requests N] [--rounds N]

Prints a table: CPU of the daemon and of PostgreSQL in microseconds per message, and how many times the messages per
daemon CPU of JSON."""

import argparse
import http.client
import random
import signal
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout's own queend

from run import open_cluster
from server import Daemon

NOTES = ["leave it at the door", "ring the bell twice", "call before delivery", "signature is required",
         "gift, no invoice inside", "fragile, keep upright", "deliver after 6 pm", "pick-up at the counter"]
JSON, LINES, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
CONNECTIONS, PARTITIONS = 8, 10


def payload(rng: random.Random, n: int) -> str:
    """As bench/load/payload.c builds them."""
    return (f'{{"order":"{n:08}","customer":"c-{rng.randrange(10000):04}","items":{rng.randrange(9) + 1},'
            f'"amount":{rng.randrange(100000)},"currency":"EUR",'
            f'"at":{1763700000000000 + n},"note":"{rng.choice(NOTES)}"}}')


def identifier(rng: random.Random, base_ms: int, n: int) -> str:
    """Version 7, rising with n."""
    at = base_ms + n // 4096
    return (f"{at >> 16:08x}-{at & 0xffff:04x}-7{n % 4096:03x}"
            f"-{0x8000 | rng.getrandbits(14):04x}-{rng.getrandbits(48):012x}")


def as_json(queue, part, rows):
    return "", JSON, ('{"items":[' + ",".join(items(queue, rows)) + "]}").encode()


def items(queue, rows):
    return [f'{{"queue":"{queue}","partition":"{part}","transactionId":"{uid}","payload":{text}}}'
            for part, uid, text in rows]


def as_lines(queue, part, rows):
    return "?format=counts", LINES, "\n".join(items(queue, rows)).encode()


def as_payloads(queue, part, rows):
    return (f"?queue={queue}&partition={part}&payload=line&format=counts", LINES,
            "\n".join(text for *_, text in rows).encode())


def as_arrow(queue, part, rows, columns=("partition", "transactionId", "payload")):
    parts, ids, texts = zip(*rows)
    every = {"partition": pa.array(parts).dictionary_encode(), "transactionId": pa.array(ids),
             "payload": pa.array(texts)}
    batch = pa.record_batch({name: every[name] for name in columns})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write(batch)
    return f"?queue={queue}&partition={part}&format=counts", ARROW, sink.getvalue().to_pybytes()


FORMS = {
    "json": as_json,
    "json counts": lambda *given: ("?format=counts", *as_json(*given)[1:]),
    "ndjson items": as_lines,
    "ndjson payloads": as_payloads,
    "arrow": as_arrow,
    "arrow, ids made here": lambda *given: as_arrow(*given, columns=("partition", "payload")),
    "arrow payloads": lambda *given: as_arrow(*given, columns=("payload",)),
}


def bodies(form: str, items_each: int, count: int, rng: random.Random) -> list[bytes]:
    """Whole requests, all different."""
    out, base_ms = [], int(time.time() * 1000)
    for k in range(count):
        rows = [(f"p{rng.randrange(PARTITIONS):05}", identifier(rng, base_ms, n), payload(rng, n))
                for n in range(k * items_each, (k + 1) * items_each)]
        out.append(FORMS[form]("bench-ingest", f"p{k % PARTITIONS:05}", rows))
    return out[::-1]  # taken from the end


def send(server, requests: list) -> int:
    """Every request once, over CONNECTIONS connections; how many messages were stored."""
    stored, lock = [0], threading.Lock()

    def client() -> None:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=20)
        while True:
            with lock:
                if not requests:
                    break
                query, kind, body = requests.pop()
            connection.request("POST", "/api/v1/push" + query, body, {"Content-Type": kind})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 201:
                raise SystemExit(f"bench: {answer.status} {text[:200]!r}")
            count = text.count(b'"status":"queued"') if text[:1] == b"[" else int(
                text.partition(b'"queued":')[2].partition(b",")[0])
            with lock:
                stored[0] += count
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return stored[0]


def main() -> int:
    parser = argparse.ArgumentParser(description="Cost of a message in each form of a push.")
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=250, help="per form and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="",
                        help="forms with semicolons between; the first is what others are compared with")
    words = parser.parse_args()
    forms = [name.strip() for name in words.only.split(";") if name] or list(FORMS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped
    cluster, server = open_cluster(None), None
    try:
        server = Daemon(cluster)
        server.prepare("bench-ingest", PARTITIONS)
        rng = random.Random(1)
        spent = {form: [] for form in forms}
        for _ in range(words.rounds + 1):
            for form in forms:
                requests = bodies(form, words.items, words.requests, rng)
                before = server.cpu_seconds(), cluster.cpu_seconds()
                stored = send(server, requests)
                after = server.cpu_seconds(), cluster.cpu_seconds()
                if stored != words.items * words.requests:
                    raise SystemExit(f"bench: {form}: {stored} stored of {words.items * words.requests}")
                spent[form].append([(b - a) / stored * 1e6 for a, b in zip(before, after)])
        # the first round warms up
        best = {form: [min(column) for column in zip(*rounds[1:])] for form, rounds in spent.items()}
        base = best[forms[0]][0]
        print("| form | daemon us | PostgreSQL us | messages per daemon CPU |\n|---|---|---|---|")
        for form, (daemon, postgres) in best.items():
            print(f"| {form} | {daemon:.3f} | {postgres:.2f} | {base / daemon:.1f} |")
        return 0
    finally:
        if server is not None:
            server.stop()
        cluster.stop()


if __name__ == "__main__":
    sys.exit(main())
