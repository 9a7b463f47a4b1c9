"""docs/high-availability.md: its Patroni settings, its daemons, and its HAProxy before both.

One daemon reaches the servers by a list of hosts, the other one through HAProxy. Producers push through HAProxy and to
each daemon while servers and daemons fail. Prints how long no push was stored."""
from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from support.daemon import Daemon
from support.guides import blocks, settings_in
from support.patroni import Patroni, send
from support.ports import free_port
from support.wait import until

PAGE, PROGRAM, QUEUE = "high-availability.md", "/usr/sbin/haproxy", "orders"
ACCEPTED = ("queued", "buffered", "duplicate")


class Producer(threading.Thread):
    """Pushes one message after another to a port, each until it is accepted."""

    def __init__(self, name: str, port: int):
        super().__init__(name=name, daemon=True)
        self.port, self.over = port, threading.Event()
        self.told: list[tuple[float, float, str]] = []      # begin, end, what the push was told
        self.accepted: list[str] = []

    def run(self) -> None:
        number = 0
        while not self.over.is_set():
            number += 1
            key, said = f"{self.name}-{number}", ""
            while said not in ACCEPTED:
                begin = time.monotonic()
                said = self.push(key)
                self.told.append((begin, time.monotonic(), said))
                self.over.wait(0.02)
            self.accepted.append(key)

    def push(self, key: str) -> str:
        """Returns the status of the message, else that of the answer, else `cut`."""
        body = json.dumps({"items": [{"queue": QUEUE, "partition": self.name, "payload": key, "transactionId": key}]})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", "/api/v1/push", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            return json.loads(text)[0]["status"] if answer.status == 201 else str(answer.status)
        except (OSError, http.client.HTTPException):
            return "cut"
        finally:
            connection.close()

    def figures(self, begin: float, end: float) -> str:
        """Between two moments: how long nothing was stored, the longest push, and how many were not accepted."""
        told = [one for one in self.told if begin <= one[1] <= end]
        stored = [begin, *(now for _, now, said in told if said in ("queued", "duplicate")), end]
        gap = max(b - a for a, b in zip(stored, stored[1:], strict=False))
        longest = max(now - asked for asked, now, _ in told)
        return (f"{self.name}: nothing stored for {gap:.1f} s, longest push {longest:.1f} s, "
                f"{len(self.refused(begin))} refused")

    def refused(self, since: float) -> list[str]:
        return [said for _, now, said in self.told if now >= since and said not in ACCEPTED]


class Setup:
    def __init__(self, folder: Path, packages: Path):
        self.folder, self.cluster = folder, Patroni(folder, packages)
        with psycopg.connect(self.cluster.dsn() + " target_session_attrs=read-write", autocommit=True) as session:
            session.execute("CREATE ROLE queend LOGIN")
            session.execute("CREATE DATABASE queend OWNER queend")
        self.front, self.ports = free_port(), [free_port(), free_port()]
        self.pooled, self.notices = free_port(), [free_port(), free_port()]
        self.haproxy = self._start_haproxy()
        self.daemons = [self.start(place) for place in range(2)]
        until(lambda: Producer("first", self.front).push("first") == "queued", "HAProxy has found the daemons")

    def start(self, place: int) -> Daemon:
        """With the settings of the page. The first daemon has the list of hosts, the second one HAProxy."""
        told = settings_in(blocks(PAGE, "sh")[0])
        hosts = ",".join("127.0.0.1" for _ in self.cluster.nodes)
        ports = ",".join(str(node.port) for node in self.cluster.nodes.values())
        listed = told["QUEEND_DSN"].replace("pg1,pg2,pg3", hosts).replace("5432", ports)
        assert listed == f"host={hosts} port={ports} dbname=queend user=queend"
        pooled = f"host=127.0.0.1 port={self.pooled} dbname=queend user=queend"
        more = {**told, "HOST": "127.0.0.1", "QUEEND_DSN": pooled if place else listed,
                "QUEEN_UDP_NOTIFY_PORT": self.notices[place],
                "QUEEN_UDP_PEERS": ",".join(f"127.0.0.1:{port}" for port in self.notices)}
        return Daemon("", **more, PORT=self.ports[place], FILE_BUFFER_DIR=self.folder / f"buffer-{place}")

    def _start_haproxy(self) -> subprocess.Popen:
        front, servers = blocks(PAGE, "haproxy")
        front = front.replace("bind :6632", f"bind 127.0.0.1:{self.front}")
        for place, port in enumerate(self.ports, 1):
            front = front.replace(f"queend{place}:6632", f"127.0.0.1:{port}")
        servers = servers.replace("bind 127.0.0.1:5432", f"bind 127.0.0.1:{self.pooled}")
        for name, node in zip(("pg1", "pg2", "pg3"), self.cluster.nodes.values(), strict=True):
            servers = servers.replace(f"{name}:5432", f"127.0.0.1:{node.port} port {node.rest}")
        text = f"{front}\n{servers}"
        assert not re.search(r"pg\d:|queend\d:|:5432|:6632", text)
        (self.folder / "haproxy.cfg").write_text(text)
        log = open(self.folder / "haproxy.log", "wb")
        return subprocess.Popen([PROGRAM, "-f", self.folder / "haproxy.cfg"], stdout=log, stderr=log)

    def end(self) -> None:
        for daemon in self.daemons:
            if daemon.process.poll() is None:
                daemon.kill()
        self.haproxy.kill()
        self.haproxy.wait()
        self.cluster.stop()


@pytest.fixture
def setup(request: pytest.FixtureRequest) -> Iterator[Setup]:
    packages = Path(request.config.getoption("--patroni")).resolve()
    # Not below pytest's own folder: the servers' account walks the path.
    with tempfile.TemporaryDirectory(prefix="queend-ha-") as name:
        os.chmod(name, 0o755)
        one = Setup(Path(name), packages)
        try:
            yield one
        finally:
            one.end()


def test_pushes_are_accepted_while_servers_and_daemons_fail(setup: Setup) -> None:
    cluster = setup.cluster
    producers = [Producer("haproxy", setup.front), *(Producer(f"daemon-{n}", port)
                                                     for n, port in enumerate(setup.ports))]
    for one in producers:
        one.start()

    def trouble(name: str, *which: Producer) -> None:
        cluster.await_whole()
        time.sleep(5.0)
        end = time.monotonic()
        print(f"{name}:", *(one.figures(begin, end) for one in producers), sep="\n    ", flush=True)
        for one in which:
            assert not one.refused(begin), (name, one.name, one.refused(begin)[:5])

    for _ in range(2):
        time.sleep(3.0)
        begin = time.monotonic()
        cluster.switch_over()
        trouble("switch over", *producers)
    node, begin = cluster.leader(), time.monotonic()
    cluster.kill(node)
    time.sleep(30.0)
    cluster.start(node)
    trouble("kill the primary", *producers)
    family, begin = cluster.leader().family(), time.monotonic()
    send(family, signal.SIGSTOP)
    time.sleep(30.0)
    send(family[::-1], signal.SIGCONT)
    trouble("freeze the primary", *producers)
    begin = time.monotonic()
    setup.daemons[0].kill()
    time.sleep(10.0)
    setup.daemons[0] = setup.start(0)
    trouble("kill a daemon", producers[2])
    assert set(producers[0].refused(begin)) <= {"cut", "502"}, "those under way are cut"
    for one in producers:
        one.over.set()
        one.join(60)
    with setup.daemons[1].client() as client:
        wanted, found = sorted(key for one in producers for key in one.accepted) + ["first"], []
        until(lambda: found.extend(message["data"] for message in client.pop(
            QUEUE, batch=1000, partitions=10, autoAck="true", consumerGroup="all", subscriptionMode="all"))
            or len(found) >= len(wanted), "all are delivered", 60)
    assert sorted(found) == sorted(wanted), "each once"
