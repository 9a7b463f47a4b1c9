"""What every measurement needs: a server, its database, the load on them, and what a measured window of it cost."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster import ROOT, open_cluster
from generator import run_load
from profiler import Profile
from server import served


class Window:
    """Counters of the owner's processes between the start and the stop of a measured window; nothing when the server is
    not ours."""

    def __init__(self, server, cluster, profiled: str = ""):
        self.server, self.cluster, self.profiled, self.profile = server, cluster, profiled, None

    def _read(self):
        if self.cluster is None:
            return None
        return (self.server.cpu_seconds(), self.cluster.cpu_seconds(), self.cluster.wal_bytes(),
                self.cluster.transactions())

    def start(self):
        self.before = self._read()
        if self.profiled:
            self.profile = Profile(self.profiled, self.server.process.pid, self.cluster.embedded.pid)

    def stop(self):
        self.after = self._read()
        self.rss = self.server.rss_mb()
        if self.profile:
            self.profile.stop()

    def per(self, messages: int) -> dict:
        if self.before is None:
            return {}
        daemon, postgres, wal, transactions = (after - before for before, after in zip(self.before, self.after))
        spent = dict(rss_mb=self.rss, daemon_cpu_s=daemon, postgres_cpu_s=postgres)
        if messages:
            spent |= dict(daemon_cpu_us_per_message=daemon / messages * 1e6,
                          postgres_cpu_us_per_message=postgres / messages * 1e6,
                          wal_bytes_per_message=wal / messages, messages_per_commit=messages / max(transactions, 1))
        return spent


class Lab:
    """A server under load. `stored` and `faults` watch that no answer was wrong."""

    def __init__(self, server, cluster, profile: bool = False):
        self.server, self.cluster, self.profile = server, cluster, profile
        self.stored = {}   # queue: messages every answer so far called stored
        self.faults = []

    @classmethod
    @contextmanager
    def opened(cls, major: int | None, checkout: Path = ROOT, profile: bool = False,
               **settings: str) -> Iterator["Lab"]:
        """With a cluster and a daemon of its own."""
        with served(open_cluster(major), checkout, **settings) as (cluster, daemon):
            yield cls(daemon, cluster, profile)

    def prepare(self, queue: str, partitions: int) -> None:
        if queue not in self.stored:
            self.stored[queue] = self.server.prepare(queue, partitions)

    def load(self, warm: float, seconds: float, *roles: dict):
        """Runs a load; returns (report, what the window cost, disk grown)."""
        window = Window(self.server, self.cluster, roles[-1]["queue"] + "-" + roles[-1]["name"] if self.profile
                        and self.cluster else "")
        before = self.cluster.disk_bytes() if self.cluster else 0
        report = run_load(self.server.host, self.server.port, warm, seconds, list(roles), window.start, window.stop,
                          ca=self.server.ca)
        for role in roles:
            got = report["roles"][role["name"]]
            if role["kind"] == "push":
                self.stored[role["queue"]] = self.stored.get(role["queue"], 0) + got["stored"]
            if got["errors"]:
                self.faults.append(f"{role['name']}: {got['errors']} errors, first: {got['error']}")
        return report, window, self.cluster.disk_bytes() - before if self.cluster else None

    def point(self, warm: float, seconds: float, *roles: dict, of: str | None = None) -> dict:
        """One load as a point of a sweep: what `of` (a role's name; the last one's without) did and what it cost per
        message."""
        report, window, disk = self.load(warm, seconds, *roles)
        got = report["roles"][of or roles[-1]["name"]]
        messages, handled = got["messages"], max(got["stored"], got["taken"], 1)
        point = {key: got[key] for key in ("messages", "p50_ms", "p99_ms", "p999_ms", "max_ms", "delivery_p50_ms",
                                           "delivery_p99_ms", "delivery_max_ms", "errors")
                 if key in got}
        point |= dict(messages_per_s=messages / (report["seconds"] or 1e-9), disk_bytes_per_message=disk / handled,
                      seconds=report["seconds"], load_cpu_us_per_message=report["cpu_seconds"] / max(messages, 1) * 1e6)
        point |= window.per(messages)
        if messages:
            point["cpu_us_per_message"] = point["daemon_cpu_us_per_message"] + point["postgres_cpu_us_per_message"]
        return point | {"roles": {name: role["messages"] for name, role in report["roles"].items()}}

    def check(self, name: str, queue: str) -> None:
        """What the answers called stored must be in the log, no more and no less."""
        if self.cluster and self.cluster.stored(queue) != self.stored[queue]:
            self.faults.append(f"{name}: answers said {self.stored[queue]} stored in {queue},"
                               f" the log holds {self.cluster.stored(queue)}")
