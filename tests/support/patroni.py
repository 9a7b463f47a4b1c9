"""Three PostgreSQL servers that Patroni keeps with quorum commit, and the etcd it votes in."""
from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import yaml

from queend.postgres import binaries

from .guides import blocks
from .ports import free_port
from .wait import until

NODES = ("n1", "n2", "n3")
# The servers' account can run it, wherever ours lies; `make test-patroni` installs for it.
PYTHON = "/usr/bin/python3"
# Those of the page, with little memory and room for the connections of two daemons and their tests.
(PAGE,) = blocks("high-availability.md", "yaml")
SETTINGS = yaml.safe_load(PAGE)["bootstrap"]["dcs"]
SETTINGS["postgresql"]["parameters"] |= {
    "max_connections": 200, "shared_buffers": "64MB", "wal_level": "replica", "hot_standby": "on",
    "max_wal_senders": 10, "max_replication_slots": 10}


class Node:
    """One server and its Patroni, which starts PostgreSQL as a process of its own."""

    def __init__(self, name: str, data: Path):
        self.name, self.data, self.port, self.rest = name, data, free_port(), free_port()
        self.process: subprocess.Popen | None = None

    def servers(self) -> list[psutil.Process]:
        """The processes of PostgreSQL, the first one first."""
        with suppress(OSError, psutil.NoSuchProcess):
            main = psutil.Process(int((self.data / "postmaster.pid").read_text().split()[0]))
            if main.name() == "postgres":       # else the number is another process's now
                return [main, *main.children(recursive=True)]
        return []

    def kill_servers(self) -> None:
        """PostgreSQL alone: Patroni starts it again, or another node takes over."""
        servers = self.servers()
        assert servers, f"{self.name} has no server"
        send(servers, signal.SIGKILL)
        psutil.wait_procs(servers, timeout=30)

    def family(self) -> list[psutil.Process]:
        """Patroni, what it started, and PostgreSQL; none that has ended."""
        with suppress(psutil.NoSuchProcess):
            main = psutil.Process(self.process.pid)
            return [main, *main.children(recursive=True), *self.servers()]
        return self.servers()


class Patroni:
    """Running and whole when this returns. packages: the folder that `pip install --target` filled; folder: others may
    enter it."""

    def __init__(self, folder: Path, packages: Path):
        self.folder = folder
        self.account = binaries.account_for(folder / "data")
        self.programs = binaries.find(self.account).folder
        # The servers' account need not be able to enter the checkout.
        shutil.copytree(packages, folder / "packages")
        (folder / "data").mkdir(mode=0o755)
        if not self.account.is_self:
            os.chown(folder / "data", self.account.uid, self.account.gid)
        self.etcd_port, self.etcd_peer = free_port(), free_port()
        self.log = open(folder / "log", "ab")
        self.etcd = self._start_etcd()
        self.nodes = {name: Node(name, folder / "data" / name) for name in NODES}
        try:
            for node in self.nodes.values():
                self.start(node)
                until(lambda node=node: node.name in self.members(), f"{node.name} is a member", 120)
            self.await_whole()
        except BaseException:
            self.stop()
            raise

    def dsn(self, name: str = "postgres") -> str:
        """All three, of which the one that may be written to is taken."""
        nodes = self.nodes.values()
        return (f"host={','.join('127.0.0.1' for _ in nodes)} port={','.join(str(node.port) for node in nodes)}"
                f" user=postgres dbname={name}")

    def members(self) -> dict[str, dict[str, Any]]:
        """What the nodes say of each other, by name; nothing while none of them answers."""
        for node in self.nodes.values():
            with suppress(OSError, ValueError), urllib.request.urlopen(
                    f"http://127.0.0.1:{node.rest}/cluster", timeout=3) as answer:
                return {one["name"]: one for one in json.load(answer)["members"]}
        return {}

    def leader(self) -> Node:
        return until(self._leader, "there is a leader", 120)

    def _leader(self) -> Node | None:
        return next((self.nodes[name] for name, one in self.members().items()
                     if one["role"] == "leader" and one["state"] == "running"), None)

    def await_whole(self) -> None:
        """Until two standbys stream from a leader and commits are confirmed by one of them."""
        since = time.monotonic()

        def whole() -> bool:
            nonlocal since
            roles = sorted((one["role"], one["state"]) for one in self.members().values())
            if roles != [("leader", "running"), ("quorum_standby", "streaming"), ("quorum_standby", "streaming")]:
                since = time.monotonic()
            # what a node says of the others it saw when it looked last
            return time.monotonic() > since + 2 * SETTINGS["loop_wait"] + 1
        try:
            until(whole, "two standbys stream", 240)
        except AssertionError as late:
            told = (self.folder / "log").read_text(errors="replace")[-4000:]
            raise AssertionError(f"{late}\n{self.members()}\n{told}") from None

    def switch_over(self) -> None:
        """An orderly one: to whichever standby Patroni takes."""
        leader = self.leader()
        request = urllib.request.Request(f"http://127.0.0.1:{leader.rest}/switchover", method="POST",
                                         data=json.dumps({"leader": leader.name}).encode())
        with suppress(urllib.error.HTTPError), urllib.request.urlopen(request, timeout=60):
            pass

    def start(self, node: Node) -> None:
        config = {
            "scope": "queend", "name": node.name,
            "restapi": {"listen": f"127.0.0.1:{node.rest}", "connect_address": f"127.0.0.1:{node.rest}"},
            "etcd3": {"host": f"127.0.0.1:{self.etcd_port}"},
            "bootstrap": {"dcs": SETTINGS, "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums"]},
            "postgresql": {
                "listen": f"127.0.0.1:{node.port}", "connect_address": f"127.0.0.1:{node.port}",
                "data_dir": str(node.data), "bin_dir": str(self.programs),
                "pgpass": str(self.folder / "data" / f"{node.name}.pgpass"),
                "pg_hba": ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust",
                           "local all all trust"],
                "authentication": {who: {"username": "postgres", "password": "postgres"}
                                   for who in ("superuser", "replication", "rewind")},
                "parameters": {"unix_socket_directories": str(self.folder / "data")}}}
        path = self.folder / "data" / f"{node.name}.yml"    # JSON is YAML
        path.write_text(json.dumps(config))
        path.chmod(0o644)
        node.process = subprocess.Popen(
            [PYTHON, "-m", "patroni", str(path)], cwd=self.folder / "data", stdout=self.log,
            stderr=self.log, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(self.folder / "packages"), "LC_ALL": "C"},
            **self.account.become())

    def kill(self, node: Node) -> None:
        """All its processes at once, as a machine that loses its power."""
        family = node.family()
        send(family, signal.SIGSTOP)        # none of them sees another one go
        send(family, signal.SIGKILL)
        psutil.wait_procs(family, timeout=30)
        node.process.wait(30)

    def _start_etcd(self) -> subprocess.Popen:
        here, peers = (f"http://127.0.0.1:{port}" for port in (self.etcd_port, self.etcd_peer))
        return subprocess.Popen(
            ["etcd", "--data-dir", "etcd", "--listen-client-urls", here, "--advertise-client-urls", here,
             "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster",
             f"default={peers}"], cwd=self.folder / "data", stdout=self.log, stderr=self.log, **self.account.become())

    def lose_etcd(self, seconds: float) -> None:
        self.etcd.kill()
        self.etcd.wait()
        time.sleep(seconds)
        self.etcd = self._start_etcd()

    def stop(self) -> None:
        for node in self.nodes.values():
            if node.process is not None:
                self.kill(node)
        self.etcd.kill()
        self.etcd.wait()
        self.log.close()


def send(processes: list[psutil.Process], number: int) -> None:
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            one.send_signal(number)
