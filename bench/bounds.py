"""What clients can take from a daemon, and from those who share it: memory above its start, and how long a push of
others takes meanwhile.

python bench/bounds.py [--postgres MAJOR] [--rounds N] [--stay SECONDS] [--after SECONDS] [attack …]
The attacks are those of SECURITY.md in full size. One daemon with one worker each, default bounds; the attacker is this
process, the others another one that pushes to a queue of its own every 5 ms. Each attack comes, stands, and leaves,
several times: what is told of each of these times is of all rounds together. Memory is the peak of what is resident
(VmHWM, reset before), and what is resident --after seconds after the last round.

The floor is what the same pushes take while the same attacker sends the same to a server that only takes it
(bench/sink.py): what is left when nothing of the attack reaches the daemon, on processors that all of them share.
"""
from __future__ import annotations

import argparse
import base64
import gzip
import json
import multiprocessing
import os
import resource
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import gettempdir

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from bench import sink  # noqa: E402
from support.client import Client  # noqa: E402
from support.daemon import Daemon  # noqa: E402
from support.http import request  # noqa: E402
from support.postgres import running  # noqa: E402
from support.socket_feed import frame, handshake  # noqa: E402

MIB = 1 << 20
SETTINGS = {"QUEEND_BUFFER_BYTES": 0, "NUM_WORKERS": 1}
EVERY_S = 0.005
AIM_MIB, AIM_MS = 256, 50
RESET = struct.pack("ii", 1, 0)
GONE_S = 0.5
STATUS = b"HTTP/1.1 "
LEASED: dict[str, str] = {}
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


def push_of(items: list[dict]) -> bytes:
    return request("POST", "/api/v1/push", json.dumps({"items": items}).encode())


def exchange(address: Address, connections: list[list[bytes]]) -> list[socket.socket]:
    """Sends the requests of each connection in one piece, and reads all answers."""
    def send(one: socket.socket, data: bytes, wanted: int) -> None:
        sending = threading.Thread(target=send_all, args=([one], lambda one: one.sendall(data)))
        sending.start()
        rest, answered = b"", 0
        while answered < wanted and (more := one.recv(MIB)):
            answered += (rest + more).count(STATUS)
            rest = more[1 - len(STATUS):]
        sending.join()
    pieces = {connect(address): (b"".join(each), len(each)) for each in connections}
    send_all(list(pieces), lambda one: send(one, *pieces[one]))
    return list(pieces)


def pipelined(address: Address) -> list[socket.socket]:
    """One connection sends 10 MiB of pushes, each of 1000 messages for partitions that exist after the first."""
    push = push_of([{"queue": "old", "partition": str(i), "payload": "x" * 480} for i in range(1000)])
    return exchange(address, [[push] * 20])


def wide(address: Address) -> list[socket.socket]:
    """Two connections push 2000 messages twenty times, each message to a new partition. These stay in memory."""
    made = time.perf_counter_ns()
    return exchange(address, [[push_of([{"queue": "new", "partition": f"{made}-{one}-{push}-{i}", "payload": 1}
                                        for i in range(2000)]) for push in range(20)] for one in range(2)])


def acks(address: Address) -> list[socket.socket]:
    """100 connections send three batches of 1300 acknowledgments of one lease, of messages that it does not have."""
    batch = request("POST", "/api/v1/ack/batch", json.dumps({"acknowledgments": [
        {"transactionId": f"x{i}", "partitionId": LEASED["partitionId"], "leaseId": LEASED["leaseId"],
         "status": "completed"} for i in range(1300)]}).encode())
    return exchange(address, [[batch] * 3] * 100)


def lease(daemon: Daemon) -> None:
    with daemon.client() as client:
        client.push("leased", 1)
        LEASED.update(client.pop("leased", leaseSeconds=3000)[0])


def packed(address: Address) -> list[socket.socket]:
    """Eight connections send two pushes in gzip, each 60 MiB unpacked."""
    body = gzip.compress(json.dumps({"items": [{"queue": "packed", "payload": "x" * MIB}] * 60}).encode(), 1)
    push = request("POST", "/api/v1/push", body, {"Content-Type": "application/json", "Content-Encoding": "gzip",
                                                  "Content-Length": str(len(body))})
    return exchange(address, [[push] * 2] * 8)


def random(address: Address) -> list[socket.socket]:
    """Eight connections push 60 MiB that do not compress."""
    text = base64.b64encode(os.urandom(MIB * 3 // 4)).decode()
    return exchange(address, [[push_of([{"queue": "random", "payload": text}] * 60)]] * 8)


def fetched(address: Address) -> list[socket.socket]:
    """30 connections read 60 MiB of the log each."""
    fetch = request("POST", "/api/v1/fetch", json.dumps({"entries": [
        {"queue": "big", "partition": str(i), "offset": 0} for i in range(16)], "maxBytes": 60 * MIB}).encode())
    return exchange(address, [[fetch]] * 30)


def popped(address: Address) -> list[socket.socket]:
    """30 connections pop 10 MiB four times, each time for a new group."""
    made = time.perf_counter_ns()
    pop = "/api/v1/pop/queue/big?batch=10&subscriptionMode=all&consumerGroup="
    return exchange(address, [[request("GET", f"{pop}{made}-{one}-{turn}") for turn in range(4)] for one in range(30)])


def fragments(address: Address) -> list[socket.socket]:
    """1500 WebSockets with 250 KiB of a message that does not end."""
    piece = handshake("waited-for")[0] + frame(1, b"[" * (50 << 10), last=False) \
        + frame(0, b"[" * (50 << 10), last=False) * 4
    connections = [connect(address) for _ in range(1500)]
    for at in range(0, len(connections), 100):
        send_all(connections[at:at + 100], lambda one: one.sendall(piece))
    return connections


def at_once(*attacks: Attack) -> Attack:
    def attack(address: Address) -> list[socket.socket]:
        connections: list[socket.socket] = []
        threads = [threading.Thread(target=lambda one=one: connections.extend(one(address))) for one in attacks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return connections
    return attack


ATTACKS: dict[str, tuple[str, Attack, Callable[[Daemon], None] | None]] = {
    "bodies": ("30 unfinished bodies of 60 MiB", bodies, None),
    "unread": ("16 unread answers of 60 MiB", unread, fill),
    "values": ("4 bodies of 63 MiB `[[],[],…]` at once, pushed", values(b"/api/v1/push"), None),
    "control": ("the same, to configure", values(b"/api/v1/configure"), None),
    "cycle": ("the same, to a stream's cycle", values(b"/streams/v1/cycle"), None),
    "parked": ("10^5 parked pops", parked("waited-for"), None),
    "pipelined": ("10 MiB of pushes pipelined on one connection", pipelined, None),
    "wide": ("2 connections make 80 000 partitions each time", wide, None),
    "acks": ("100 connections, batches of 1300 acknowledgments", acks, lease),
    "packed": ("16 pushes in gzip, each 60 MiB unpacked", packed, None),
    "random": ("8 pushes of 60 MiB that do not compress", random, None),
    "fetched": ("30 reads of 60 MiB of the log", fetched, fill),
    "popped": ("120 pops of 10 MiB for new groups", popped, fill),
    "fragments": ("1500 WebSockets, each 250 KiB of an unfinished message", fragments, None),
    "three": ("new partitions, acknowledgments and gzip at once", at_once(wide, acks, packed), lease),
    "other-three": ("unfinished bodies, unread answers and parked pops at once",
                    at_once(bodies, unread, parked("waited-for")), fill),
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
    return {"pushes": len(all_), "failed": len(failed), "failures": failed[:3], "p99_ms": p99(all_),
            "most_ms": ms(max(all_)),
            "comes_s": round(sum(b - a for a, b, _ in times), 1), "comes_pushes": len(comes),
            "comes_p99_ms": p99(comes)}


def measure(name: str, conninfo: str, rounds: int, stay_s: float, after_s: float) -> dict[str, object]:
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
        time.sleep(after_s)
        after = resident(daemon.pid, "VmRSS")
    return {"attack": text, "start_mib": start, "above_mib": most - start, "after_mib": after - start, **row,
            "floor": {key: floor[key] for key in ("p99_ms", "most_ms", "comes_s", "comes_p99_ms")}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attacks", nargs="*", metavar="attack", help=", ".join(ATTACKS))
    parser.add_argument("--postgres", type=int, default=None, metavar="MAJOR")
    parser.add_argument("--stay", type=float, default=2.0, metavar="SECONDS",
                        help="how long the attack goes on once it stands")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="how often it comes")
    parser.add_argument("--after", type=float, default=60.0, metavar="SECONDS",
                        help="how long after it memory is looked at again")
    given = parser.parse_args()
    if unknown := set(given.attacks) - ATTACKS.keys():
        parser.error(f"no such attack: {', '.join(unknown)}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    good = True
    with running(given.postgres, below=gettempdir()) as server:
        for name in given.attacks or ATTACKS:
            row = measure(name, server.database(), given.rounds, given.stay, given.after)
            print(json.dumps(row, ensure_ascii=False), flush=True)
            good = good and row["above_mib"] <= AIM_MIB and row["p99_ms"] <= AIM_MS and not row["failed"]
    print(f"{'within' if good else 'NOT within'} {AIM_MIB} MiB and {AIM_MS} ms", file=sys.stderr)


if __name__ == "__main__":
    main()
