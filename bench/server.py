"""The server under load: our own daemon, started for the run, or whatever answers at a URL."""

import json
import socket
import subprocess
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster import ROOT, Cluster
from process import cpu_seconds, rss_mb
from support import daemon

from queend import dial


class Server:
    """Any server that speaks the protocol. What only its owner can know is None."""

    ca: Path | None = None      # the authorities of its certificate, if it speaks TLS

    def __init__(self, url: str):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != ("https" if self.ca else "http") or not parts.hostname:
            raise SystemExit(f"bench: URL must look like http://HOST:PORT, not {url!r}")
        self.host = socket.gethostbyname(parts.hostname)
        self.port = parts.port or 80

    def call(self, method: str, path: str, body=None) -> object:
        connection = dial.connection(f"{'https' if self.ca else 'http'}://{self.host}:{self.port}", 60,
                                     cafile=self.ca and str(self.ca))
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None,
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status >= 300:
                raise SystemExit(f"bench: {method} {path} answered {answer.status}: {text[:200]!r}")
            return json.loads(text) if text else None
        finally:
            connection.close()

    def prepare(self, queue: str, partitions: int) -> int:
        """Creates the queue and its partitions p00000... by one message in each; returns how many messages that
        stored."""
        self.call("POST", "/api/v1/configure", {"queue": queue, "options": {"leaseTime": 300}})
        names = [f"p{i:05}" for i in range(partitions)]
        for at in range(0, partitions, 500):
            items = [{"queue": queue, "partition": name, "payload": {"prepared": True}} for name in names[at:at + 500]]
            answer = self.call("POST", "/api/v1/push", {"items": items})
            if [item["status"] for item in answer] != ["queued"] * len(items):
                raise SystemExit(f"bench: could not create the partitions of {queue}: {str(answer)[:200]}")
        return partitions

    def cpu_seconds(self):
        return None

    def rss_mb(self):
        return None

    def stop(self) -> None:
        pass


class Daemon(Server):
    """`queend serve` on a free port of the loopback, against the cluster of this run."""

    def __init__(self, cluster: Cluster, checkout: Path = ROOT, ca: Path | None = None, **settings: object):
        """`checkout`: whose queend; it must be built there. ca: the authorities of the certificate in its settings."""
        self.ca = ca
        try:
            self.daemon = daemon.Daemon.plain(cluster.dsn, PYTHONPATH=checkout, **settings)
        except AssertionError as error:
            raise SystemExit(f"bench: the daemon did not get ready:\n{error}") from None
        self.process = self.daemon.process
        super().__init__(self.daemon.url)

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.process.pid)

    def rss_mb(self) -> float:
        return rss_mb(self.process.pid)

    def stop(self) -> None:
        try:
            self.daemon.end()
        except subprocess.TimeoutExpired:
            self.daemon.kill()


@contextmanager
def served(cluster: Cluster, checkout: Path = ROOT, **settings: str) -> Iterator[tuple[Cluster, Daemon]]:
    """A cluster and a daemon on it, both stopped at the end."""
    daemon = None
    try:
        daemon = Daemon(cluster, checkout, **settings)
        yield cluster, daemon
    finally:
        if daemon is not None:
            daemon.stop()
        cluster.stop()
