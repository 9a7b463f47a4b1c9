"""What it takes to wait: from push to delivery, and the daemon's processor time per message, while so many connections
wait for messages as long polls, as server-sent events and as WebSockets, in turns of one run.

python bench/live.py [--connections N] [--rate N] [--seconds N] [--rounds N] [--postgres MAJOR]
All wait in one group with autoAck; each message is pushed alone, to a partition of its own turn, and goes to one of
them. The pushes come from a process of their own; times are of the clock both share.
"""
from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import resource
import select
import socket
import sys
import time
from pathlib import Path
from tempfile import gettempdir

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from bench.process import cpu_seconds  # noqa: E402
from support.client import Client, pop_target  # noqa: E402
from support.daemon import Daemon  # noqa: E402
from support.feed import stream_target  # noqa: E402
from support.http import request  # noqa: E402
from support.postgres import running  # noqa: E402
from support.socket_feed import handshake  # noqa: E402
from support.wait import until  # noqa: E402

SENT = re.compile(rb'"t": ?(\d+)')
PARTITIONS = 64
QUEUE = "live"


def asked(way: str) -> bytes:
    if way == "long poll":
        return request("GET", pop_target(QUEUE, wait=True, timeout=110_000, autoAck=True))
    if way == "events":
        return request("GET", stream_target(QUEUE, autoAck=True, batch=1))
    return handshake(QUEUE, autoAck=True, batch=1)[0]


def pushes(address: tuple[str, int], rate: int, seconds: int) -> None:
    with Client(address) as client:
        began = time.monotonic()
        for n in range(rate * seconds):
            time.sleep(max(0.0, began + n / rate - time.monotonic()))
            client.push(QUEUE, {"t": time.monotonic_ns()}, partition=f"p{n % PARTITIONS}")


def measure(daemon: Daemon, way: str, connections: int, rate: int, seconds: int) -> dict:
    text, took = asked(way), []
    began = time.monotonic()
    waiting = {}
    poller = select.epoll()
    with daemon.client() as client:
        for _ in range(connections):
            one = socket.create_connection(daemon.address)
            one.sendall(text)
            waiting[one.fileno()] = one
            poller.register(one, select.EPOLLIN)
        until(lambda: client.metric("queend_worker_parked") >= connections, "all wait", 300)
    opened = time.monotonic() - began
    for fd, _ in poller.poll(0, connections):
        waiting[fd].recv(1 << 16)     # heads of the streams
    cpu = cpu_seconds(daemon.pid)
    pusher = multiprocessing.Process(target=pushes, args=(daemon.address, rate, seconds))
    pusher.start()
    deadline = time.monotonic() + 60 + seconds
    while len(took) < rate * seconds and time.monotonic() < deadline:
        for fd, _ in poller.poll(0.5, 256):
            data = waiting[fd].recv(1 << 16)
            now = time.monotonic_ns()
            took += [(now - int(sent)) / 1e6 for sent in SENT.findall(data)]
            if way == "long poll" and data:
                waiting[fd].sendall(text)
    cpu = cpu_seconds(daemon.pid) - cpu
    pusher.join()
    for one in waiting.values():
        one.close()
    with daemon.client() as client:
        until(lambda: client.metric("queend_worker_parked") == 0, "they are gone", 120)
    took.sort()
    return {"way": way, "connections": connections, "messages": len(took), "lost": rate * seconds - len(took),
            "p50_ms": round(took[len(took) // 2], 2), "p99_ms": round(took[len(took) * 99 // 100], 2),
            "cpu_us_per_message": round(cpu * 1e6 / len(took), 1), "opened_s": round(opened, 1)}


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--connections", type=int, default=10_000)
    options.add_argument("--rate", type=int, default=200)
    options.add_argument("--seconds", type=int, default=10)
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--postgres", type=int, default=None)
    args = options.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with running(args.postgres, below=gettempdir()) as server, \
            Daemon(server.database(), NUM_WORKERS=1, QUEEND_MAX_CONNECTIONS=args.connections + 100,
                   QUEEND_MAX_CONNECTIONS_PER_ADDRESS=0) as daemon:
        with daemon.client() as client:
            for n in range(PARTITIONS):
                client.push(QUEUE, 0, partition=f"p{n}")
                client.pop(QUEUE, f"p{n}", autoAck=True)
        for _ in range(args.rounds):
            for way in ("long poll", "events", "socket"):
                print(json.dumps(measure(daemon, way, args.connections, args.rate, args.seconds)), flush=True)


if __name__ == "__main__":
    main()
