"""What TLS costs: two daemons on one PostgreSQL, one plain and one with a certificate, loaded in turn.

    python bench/secure.py [--turns N] [--seconds N] [--rsa BITS] [--postgres MAJOR]

One JSON line per scenario: figures of both, each the median of its turns, and the median of the turns' ratios. push1,
push100 and latency are those of METHODOLOGY.md. `handshakes`: new connections a second, each with one request, from
this process; CPU of the daemon per connection. `resumed`: the same with a ticket; both in TLS 1.2 and 1.3. `idle`:
memory of the daemon per connection that has had one request."""

import argparse
import functools
import json
import signal
import socket
import ssl
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout's own queend

from cluster import open_cluster
from lab import Lab
from scenarios import PUSHES
from server import Daemon
from support.certificates import Authority, trusting

REQUEST = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
IDLE = 2000


class Side(Lab):
    """One daemon under load."""

    contexts: dict[str, ssl.SSLContext] = {}

    @property
    def context(self) -> ssl.SSLContext | None:
        return self.contexts.get("1.3")

    def connect(self, session: ssl.SSLSession | None = None, version: str = "1.3") -> socket.socket:
        """A connection that has had one answer."""
        one = socket.create_connection((self.server.host, self.server.port))
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.contexts:
            one = self.contexts[version].wrap_socket(one, server_hostname="localhost", session=session)
            assert one.session_reused == (session is not None)
        one.sendall(REQUEST)
        assert one.recv(4096).startswith(b"HTTP/1.1 200")
        return one

    def push(self, name: str, seconds: float) -> dict:
        queue = f"secure-{name}-{self.server.port}"
        self.prepare(queue, PUSHES[name]["partitions"])
        return self.point(0.5, seconds, dict(kind="push", name=name, queue=queue, count=10**8, **PUSHES[name]))

    def latency(self, seconds: float) -> dict:
        queue = f"secure-latency-{self.server.port}"
        self.prepare(queue, 1000)
        return self.point(0.5, seconds, dict(kind="pop", name="pop", queue=queue, conns=16, batch=50, wait=1,
                                             timeout=5000, delivery=1),
                          dict(kind="push", name="push", queue=queue, conns=64, items=1, partitions=1000, ids=7,
                               rate=200), of="pop")

    def handshakes(self, seconds: float, version: str, resumed: bool = False) -> dict:
        session = None
        if resumed and self.contexts:
            first = self.connect(version=version)
            session = first.session
            first.close()
        n, cpu, begin = 0, self.server.cpu_seconds(), time.monotonic()
        while (took := time.monotonic() - begin) < seconds:
            self.connect(session, version).close()
            n += 1
        return {"daemon_cpu_us": (self.server.cpu_seconds() - cpu) / n * 1e6, "per_s": n / took}

    def idle(self) -> dict:
        """KiB of a daemon that was just started, per connection."""
        self.connect().close()
        before = self.server.rss_mb()
        held = [self.connect() for _ in range(IDLE)]
        time.sleep(1)
        grown = self.server.rss_mb() - before
        for one in held:
            one.close()
        return {"kib": grown * 1024 / IDLE}


def median(points: list[dict], key: str) -> float:
    return round(statistics.median(point[key] for point in points), 3)


def line_of(name: str, turns: list[tuple[dict, dict]], keys: tuple[str, ...]) -> dict:
    """plain, tls: medians; ratio: median of the turns' ratios, and the middle half of them."""
    line: dict = {"scenario": name, "turns": len(turns)}
    for key in keys:
        ratios = sorted(secure[key] / plain[key] for plain, secure in turns if plain[key])
        line[key] = {"plain": median([plain for plain, _ in turns], key), "tls": median([tls for _, tls in turns], key)}
        if ratios:
            line[key] |= {"ratio": round(statistics.median(ratios), 3),
                          "half": [round(ratios[len(ratios) // 4], 3), round(ratios[len(ratios) * 3 // 4], 3)]}
    return line


def main() -> int:
    parser = argparse.ArgumentParser(description="What TLS costs.")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rsa", type=int, default=0, metavar="BITS", help="a key of RSA; default: P-256")
    parser.add_argument("--postgres", type=int, metavar="MAJOR")
    words = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        authority = Authority(folder)
        pair = authority.server(rsa_bits=words.rsa)
        cluster = open_cluster(words.postgres)
        stack.callback(cluster.stop)
        sides = []
        for ca, settings in ((None, {}), (authority.file, dict(QUEEND_TLS_CERT=pair.cert, QUEEND_TLS_KEY=pair.key))):
            server = Daemon(cluster, ca=ca, QUEEND_BUFFER_BYTES=0, **settings)
            stack.callback(server.stop)
            sides.append(Side(server, cluster))
        sides[1].contexts = {version: trusting(authority, minimum_version=number, maximum_version=number)
                             for version, number in (("1.2", ssl.TLSVersion.TLSv1_2), ("1.3", ssl.TLSVersion.TLSv1_3))}
        loads = {"push1": (lambda side: side.push("push1", words.seconds),
                           ("daemon_cpu_us_per_message", "cpu_us_per_message", "messages_per_s", "p50_ms",
                            "load_cpu_us_per_message")),
                 "push100": (lambda side: side.push("push100", words.seconds),
                             ("daemon_cpu_us_per_message", "cpu_us_per_message", "messages_per_s")),
                 "latency": (lambda side: side.latency(words.seconds), ("delivery_p50_ms", "delivery_p99_ms")),
                 **{f"{name} {version}": (functools.partial(Side.handshakes, seconds=words.seconds, version=version,
                                                            resumed=name == "resumed"), ("daemon_cpu_us", "per_s"))
                    for version in ("1.2", "1.3") for name in ("handshakes", "resumed")}}
        print(json.dumps(line_of("idle", [(sides[0].idle(), sides[1].idle())], ("kib",))), flush=True)
        found: dict[str, list[tuple[dict, dict]]] = {name: [] for name in loads}
        for number in range(words.turns):
            for name, (load, _) in loads.items():
                order = sides if number % 2 else sides[::-1]
                spent = {side: load(side) for side in order}
                found[name].append((spent[sides[0]], spent[sides[1]]))
        for name, (_, keys) in loads.items():
            print(json.dumps(line_of(name, found[name], keys)), flush=True)
        faults = [fault for side in sides for fault in side.faults]
        for fault in faults:
            print(f"FAULT {fault}", file=sys.stderr)
        return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
