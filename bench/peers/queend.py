"""queend itself, the same loads, by its own load generator: HTTP and JSON."""

import subprocess

from cluster import Cluster, open_cluster
from environment import ROOT
from generator import run_load
from server import Daemon

from peers.system import System

KEYS = 1000


class Queend(System):
    name = "queend"
    autopilot = True
    server: Daemon | None = None
    cluster: Cluster | None = None
    durability = "every answer after a commit, flushed (synchronous_commit = on); one commit stores what has gathered"

    def start(self) -> None:
        self.cluster = open_cluster(self.major)
        self.server = Daemon(self.cluster)
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True).stdout.strip()
        self.version = f"{commit}, PostgreSQL {self.cluster.one('SHOW server_version').split()[0]}"

    def create(self, queue: str) -> None:
        """The queue and its partitions; what made them is consumed."""
        self.server.prepare(queue, KEYS)
        self.run(queue, 0, 10, [dict(kind="pop", conns=1, items=1000, claim=KEYS, lease=0, count=KEYS)],
                 lambda: None, lambda: None)

    def count(self, queue: str) -> int:
        return self.cluster.stored(queue) - KEYS

    def run(self, queue: str, warm: float, seconds: float, roles: list[dict], start, stop) -> dict:
        translated = []
        for role in roles:
            role = dict(role, name=role["kind"], queue=queue)
            if role["kind"] == "push":
                role |= dict(partitions=KEYS, ids=7)
            else:
                role = dict(lease=1, wait=1, timeout=5000, delivery=1) | role
                role["batch"] = role.pop("items")
            translated.append(role)
        return run_load(self.server.host, self.server.port, warm, seconds, translated, start, stop)

    def cpu_seconds(self) -> dict[str, float]:
        return {"daemon": self.server.cpu_seconds(), "postgres": self.cluster.cpu_seconds()}

    def disk_bytes(self) -> int:
        return self.cluster.disk_bytes()

    def stop(self) -> None:
        for part in (self.server, self.cluster):
            if part:
                part.stop()
        super().stop()
