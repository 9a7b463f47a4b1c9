"""pgmq: its SQL, as the client package on PyPI carries it, in a cluster with the settings that queend's has."""

import importlib.util
from pathlib import Path

from cluster import Cluster, open_cluster

from peers.system import System


class Pgmq(System):
    name, wire = "pgmq", "pgmq"
    cluster: Cluster | None = None
    durability = "every call is a commit, flushed (synchronous_commit = on)"

    def start(self) -> None:
        package = importlib.util.find_spec("pgmq")
        if package is None:
            raise SystemExit("bench: pgmq's SQL is missing: pip install --no-deps pgmq")
        sql = Path(package.submodule_search_locations[0], "sql")
        self.cluster = open_cluster(self.major)
        self.version = (f"{(sql / 'VERSION').read_text().strip()},"
                        f" PostgreSQL {self.cluster.one('SHOW server_version').split()[0]}")
        self.host = self.cluster.dsn
        self.cluster.connection.execute((sql / "pgmq.sql").read_text())

    def cpu_seconds(self) -> dict[str, float]:
        return {"postgres": self.cluster.cpu_seconds()}

    def disk_bytes(self) -> int:
        return int(self.cluster.one("SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c"
                                    " JOIN pg_namespace s ON s.oid = c.relnamespace"
                                    " WHERE s.nspname = 'pgmq' AND c.relkind = 'r'"))

    def stop(self) -> None:
        if self.cluster:
            self.cluster.stop()
        super().stop()
