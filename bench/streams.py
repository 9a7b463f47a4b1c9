"""What a Python program gets of a stream by server-sent events (`queend.client`) and by a WebSocket (the package
`websockets`), in turns of one run against one daemon: how fast a backlog is consumed, with each way of acknowledging,
and how long a message takes from its push to the program.

python bench/streams.py [--messages N] [--rate N] [--seconds N] [--rounds N] [--postgres MAJOR]
Acknowledged: `never` (autoAck); `each`, whose answer is waited for; `hundreds`, in one request each.
"""
from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from websockets.sync.client import ClientConnection, connect

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import queend.client as own  # noqa: E402
from support.client import Client  # noqa: E402
from support.daemon import Daemon  # noqa: E402
from support.postgres import running  # noqa: E402

QUEUE, CREDIT, HUNDRED = "streams", 1000, 100
WAYS = ("socket", "events", "events without httpx")
ACKED = {"never": 0, "each": 1, "hundreds": HUNDRED}      # messages of an acknowledgment


class Socket:
    """A stream over a WebSocket with the messages as dictionaries: less than a client would do for each."""

    def __init__(self, connection: ClientConnection):
        self.connection, self.early = connection, deque()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while True:
            yield self.early.popleft() if self.early else self._read()["message"]

    def _read(self) -> dict[str, Any]:
        return json.loads(self.connection.recv())

    def ack(self, messages: list[dict[str, Any]]) -> None:
        """Waits for the answer, as `queend.client` does to raise LeaseLost. Messages that come before it are kept."""
        items = [{"transactionId": one["transactionId"], "partitionId": one["partitionId"], "leaseId": one["leaseId"],
                  "status": "completed"} for one in messages]
        self.connection.send(json.dumps({"ack": {"acknowledgments": items, "consumerGroup": messages[0][
            "consumerGroup"]}}))
        while "ack" not in (said := self._read()):
            self.early.append(said["message"])
        assert said["status"] == 200 and all(one["success"] for one in said["ack"]), said


class Feed:
    """The same by server-sent events, with the client's own messages."""

    def __init__(self, client: own.Client, messages: Iterator[own.Message]):
        self.client, self.messages = client, messages

    def __iter__(self) -> Iterator[own.Message]:
        return self.messages

    def ack(self, messages: list[own.Message]) -> None:
        self.client.ack(messages)


class Bare(Feed):
    """Acknowledges on a connection without httpx: which part of the difference is that library's."""

    def __init__(self, bare: Client, messages: Iterator[own.Message]):
        self.bare, self.messages = bare, messages

    def ack(self, messages: list[own.Message]) -> None:
        done = self.bare.ack_batch([{"transactionId": one.id, "partitionId": one.partition_id, "leaseId": one.lease,
                                     "status": "completed"} for one in messages], messages[0].group)
        assert all(one["success"] for one in done), done


@contextmanager
def stream(way: str, url: str, group: str, auto_ack: bool) -> Iterator[Feed | Socket]:
    with ExitStack() as stack:
        if way != "socket":
            client = stack.enter_context(own.Client(url))
            messages = stack.enter_context(client.stream(QUEUE, group=group, credit=None if auto_ack else CREDIT,
                                                         auto_ack=auto_ack, start="all"))
            place = urlsplit(url)
            yield Feed(client, messages) if way == "events" else Bare(
                stack.enter_context(Client((place.hostname, place.port))), messages)
        else:
            query = f"consumerGroup={group}&subscriptionMode=all" + (
                "&autoAck=true" if auto_ack else f"&credit={CREDIT}")
            yield Socket(stack.enter_context(connect(f"{url.replace('http', 'ws')}/api/v1/stream/{QUEUE}?{query}",
                                                     compression=None, max_size=None)))


def drained(url: str, way: str, acked: str, count: int, group: str) -> dict[str, Any]:
    """A backlog of so many messages."""
    size, open_ = ACKED[acked], []
    began, cpu = time.monotonic(), time.process_time()
    with stream(way, url, group, not size) as feed:
        for number, one in enumerate(feed, 1):
            open_.append(one)
            if size and (len(open_) == size or number == count):
                feed.ack(open_)
                open_ = []
            if number == count:
                break
        took, cpu = time.monotonic() - began, time.process_time() - cpu
    return {"way": way, "acknowledged": acked, "messages": count, "per_second": round(count / took),
            "client_cpu_us_per_message": round(cpu / count * 1e6)}


def pushes(address: tuple[str, int], rate: int, seconds: int) -> None:
    with Client(address) as client:
        began = time.monotonic()
        for n in range(rate * seconds):
            time.sleep(max(0.0, began + n / rate - time.monotonic()))
            client.push(QUEUE, {"t": time.monotonic_ns()}, partition=f"p{n % 8}")


def delayed(daemon: Daemon, way: str, acked: str, rate: int, seconds: int, group: str) -> dict[str, Any]:
    """From push to program; acknowledged meanwhile."""
    took = []
    with stream(way, daemon.url, group, not ACKED[acked]) as feed:
        pusher = multiprocessing.Process(target=pushes, args=(daemon.address, rate, seconds))
        pusher.start()
        for one in feed:
            data = one.data if isinstance(one, own.Message) else one["data"]
            if isinstance(data, dict):
                took.append((time.monotonic_ns() - data["t"]) / 1e6)
                if len(took) == rate * seconds:
                    break
            if ACKED[acked]:
                feed.ack([one])
        pusher.join()
    took.sort()
    return {"way": way, "acknowledged": acked, "pushed_per_second": rate, "p50_ms": round(took[len(took) // 2], 2),
            "p99_ms": round(took[len(took) * 99 // 100], 2)}


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--messages", type=int, default=20_000)
    options.add_argument("--rate", type=int, default=200)
    options.add_argument("--seconds", type=int, default=8)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--postgres", type=int, default=None)
    args = options.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with running(args.postgres) as server, Daemon(server.database(), NUM_WORKERS=1) as daemon:
        with daemon.client() as client:
            for start in range(0, args.messages, 1000):
                client.push_items([{"queue": QUEUE, "partition": f"p{n % 8}", "payload": n}
                                   for n in range(start, min(args.messages, start + 1000))])
        for turn in range(args.rounds):
            for acked in ACKED:
                for way in WAYS[::-1 if turn % 2 else 1]:
                    count = args.messages if acked != "each" else args.messages // 5
                    group = f"{WAYS.index(way)}-{acked}-{turn}"
                    print(json.dumps(drained(daemon.url, way, acked, count, group)), flush=True)
        for turn in range(args.rounds):
            for acked in ("never", "each"):
                for way in WAYS[::-1 if turn % 2 else 1]:
                    group = f"late-{WAYS.index(way)}-{acked}-{turn}"
                    with daemon.client() as client:      # the group begins here
                        client.pop(QUEUE, consumerGroup=group, subscriptionMode="new")
                    print(json.dumps(delayed(daemon, way, acked, args.rate, args.seconds, group)), flush=True)


if __name__ == "__main__":
    main()
