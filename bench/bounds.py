"""What clients can take from a daemon, and from those who share it: memory above its start, and how long a push of
others takes meanwhile.

python bench/bounds.py [--postgres MAJOR] [--rounds N] [--stay SECONDS] [attack …]
The attacks are those of SECURITY.md in full size. One daemon with one worker each, default bounds; the attacker is this
process, the others another one that pushes to a queue of its own every 5 ms. Each attack comes, stands, and leaves,
several times: what is told of each of these times is of all rounds together. Memory is the peak of what is resident
(VmHWM, reset before).

The floor is what the same pushes take while the same attacker sends the same to a server that only takes it
(bench/sink.py): what is left when nothing of the attack reaches the daemon, on processors that all of them share.
"""
from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from bench import sink  # noqa: E402
from support.client import Client  # noqa: E402
from support.daemon import Daemon  # noqa: E402
from support.postgres import running  # noqa: E402

MIB = 1 << 20
SETTINGS = {"QUEEND_BUFFER_BYTES": 0, "NUM_WORKERS": 1}
EVERY_S = 0.005
AIM_MIB, AIM_MS = 256, 50
RESET = struct.pack("ii", 1, 0)
GONE_S = 0.5
Address = tuple[str, int]
Attack = Callable[[Address], list[socket.socket]]


def resident(pid: int, which: str) -> int:
    """VmRSS or VmHWM in MiB."""
    return next(int(line.split()[1]) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
                if line.startswith(which)) // 1024


def others(address: Address, over: multiprocessing.synchronize.Event,
           told: multiprocessing.connection.Connection) -> None:
    """Pushes until it is over; tells when each began and how long it took (s), and what failed."""
    took, failed = [], []
    with Client(address) as client:
        while not over.is_set():
            began = time.perf_counter()
            answer = client.post("/api/v1/push", {"items": [{"queue": "others", "payload": 1}]})
            took.append((began, time.perf_counter() - began))
            if answer.status != 201:
                failed.append(f"{answer.status} {answer.body[:80].decode()}")
            time.sleep(EVERY_S)
    told.send((took, failed))


def connect(address: Address) -> socket.socket:
    one = socket.create_connection(address)
    one.settimeout(60)
    return one


def send_all(connections: list[socket.socket], send: Callable[[socket.socket], None]) -> None:
    """Side by side. Who is refused half-way stops."""
    def work(one: socket.socket) -> None:
        try:
            send(one)
        except OSError:
            pass
    threads = [threading.Thread(target=work, args=(one,)) for one in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def bodies(address: Address) -> list[socket.socket]:
    """30 requests of 60 MiB of which the last MiB does not come."""
    def send(one: socket.socket) -> None:
        one.sendall(b"POST /api/v1/push HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (60 * MIB))
        for _ in range(59):
            one.sendall(b"x" * MIB)
    connections = [connect(address) for _ in range(30)]
    send_all(connections, send)
    return connections


def values(path: bytes) -> Attack:
    """Four bodies of 63 MiB at once, all of them `[[],[],…]`."""
    def attack(address: Address) -> list[socket.socket]:
        body = b"[" + b"[]," * (21 * MIB - 1) + b"[]]"

        def send(one: socket.socket) -> None:
            one.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length:"
                        b" %d\r\n\r\n" % (path, len(body)))
            for at in range(0, len(body), MIB):
                one.sendall(body[at:at + MIB])
            one.recv(400)
        connections = [connect(address) for _ in range(4)]
        send_all(connections, send)
        return connections
    return attack


def parked(queue: str) -> Attack:
    """10^5 long polls on 2000 connections."""
    def attack(address: Address) -> list[socket.socket]:
        connections = [connect(address) for _ in range(2000)]
        for one in connections:
            one.sendall(f"GET /api/v1/pop/queue/{queue}?wait=true&timeout=115000&consumerGroup=w HTTP/1.1\r\nHost:"
                        " localhost\r\n\r\n".encode() * 50)
        return connections
    return attack


def fill(daemon: Daemon) -> None:
    """16 partitions of 60 MiB."""
    with daemon.client(120) as client:
        for partition in range(16):
            for _ in range(2):
                items = [{"queue": "big", "partition": str(partition), "payload": "x" * MIB} for _ in range(30)]
                assert client.post("/api/v1/push", {"items": items}).status == 201


def unread(address: Address) -> list[socket.socket]:
    """16 pops of 60 MiB each whose answers are not taken."""
    connections = [connect(address) for _ in range(16)]
    for partition, one in enumerate(connections):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.sendall(f"GET /api/v1/pop/queue/big/partition/{partition}?batch=100&consumerGroup=g HTTP/1.1\r\nHost:"
                    " localhost\r\n\r\n".encode())
    return connections


ATTACKS: dict[str, tuple[str, Attack, Callable[[Daemon], None] | None]] = {
    "bodies": ("30 unfinished bodies of 60 MiB", bodies, None),
    "unread": ("16 unread answers of 60 MiB", unread, fill),
    "values": ("4 bodies of 63 MiB `[[],[],…]` at once, pushed", values(b"/api/v1/push"), None),
    "control": ("the same, to configure", values(b"/api/v1/configure"), None),
    "cycle": ("the same, to a stream's cycle", values(b"/streams/v1/cycle"), None),
    "parked": ("10^5 parked pops", parked("waited-for"), None),
    "woken": ("10^5 parked pops of the queue that others push to", parked("others"), None),
}


def ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def p99(took: list[float]) -> float:
    return ms(sorted(took)[int(len(took) * 0.99)]) if took else 0.0


def under(attack: Attack, address: Address, daemon: Daemon, rounds: int, stay_s: float) -> dict[str, object]:
    """What pushes to the daemon take while the attack is on the address, round by round."""
    spawn = multiprocessing.get_context("spawn")
    over, (heard, told) = spawn.Event(), spawn.Pipe(False)
    watch = spawn.Process(target=others, args=(daemon.address, over, told))
    watch.start()
    time.sleep(1)
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        connections = attack(address)
        stands = time.perf_counter()
        time.sleep(stay_s)
        for one in connections:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            one.close()
        time.sleep(GONE_S)
        times.append((began, stands, time.perf_counter()))
    over.set()
    took, failed = heard.recv()
    watch.join()
    comes = [one for at, one in took if any(began <= at < stands for began, stands, _ in times)]
    all_ = [one for at, one in took if at >= times[0][0]]
    return {"pushes": len(all_), "failed": failed[:3], "p99_ms": p99(all_), "most_ms": ms(max(all_)),
            "comes_s": round(sum(b - a for a, b, _ in times), 1), "comes_pushes": len(comes),
            "comes_p99_ms": p99(comes)}


def measure(name: str, conninfo: str, rounds: int, stay_s: float) -> dict[str, object]:
    text, attack, prepare = ATTACKS[name]
    if prepare:
        with Daemon(conninfo, **SETTINGS) as daemon:
            prepare(daemon)
    with Daemon(conninfo, **SETTINGS) as daemon:
        with daemon.client() as client:
            client.push("others", 0)
            client.push("waited-for", 0)
            client.pop("waited-for", consumerGroup="w", autoAck=True)
        with sink.running() as address:
            floor = under(attack, address, daemon, rounds, stay_s)
        start = resident(daemon.pid, "VmRSS")
        Path(f"/proc/{daemon.pid}/clear_refs").write_text("5")
        row = under(attack, daemon.address, daemon, rounds, stay_s)
        most = resident(daemon.pid, "VmHWM")
    return {"attack": text, "start_mib": start, "above_mib": most - start, **row,
            "floor": {key: floor[key] for key in ("p99_ms", "most_ms", "comes_s", "comes_p99_ms")}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attacks", nargs="*", metavar="attack", help=", ".join(ATTACKS))
    parser.add_argument("--postgres", type=int, default=None, metavar="MAJOR")
    parser.add_argument("--stay", type=float, default=2.0, metavar="SECONDS",
                        help="how long the attack goes on once it stands")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="how often it comes")
    given = parser.parse_args()
    if unknown := set(given.attacks) - ATTACKS.keys():
        parser.error(f"no such attack: {', '.join(unknown)}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    good = True
    with running(given.postgres) as server:
        for name in given.attacks or ATTACKS:
            row = measure(name, server.database(), given.rounds, given.stay)
            print(json.dumps(row, ensure_ascii=False), flush=True)
            good = good and row["above_mib"] <= AIM_MIB and row["p99_ms"] <= AIM_MS and not row["failed"]
    print(f"{'within' if good else 'NOT within'} {AIM_MIB} MiB and {AIM_MS} ms", file=sys.stderr)


if __name__ == "__main__":
    main()
