"""A throw-away PostgreSQL for one benchmark run: the cluster that `queend serve` makes, in a folder that is removed
afterwards."""

import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # the checkout's own queend, and what starts it

from process import cpu_seconds  # noqa: E402
from queend.postgres.embedded import EmbeddedError  # noqa: E402
from queend.postgres.server_settings import server_settings  # noqa: E402
from support.postgres import running  # noqa: E402

# A scenario's figures must not depend on whether a checkpoint happens to fall into it: METHODOLOGY.md.
OWN_SETTINGS = {"max_wal_size": "32GB", "checkpoint_timeout": "1h"}
SETTINGS = sorted({**server_settings(),
                   **OWN_SETTINGS}.keys() - {"unix_socket_directories", "port", "log_line_prefix", "log_checkpoints"})


def fsync_ms(folder: Path) -> float:
    """Median of 200 times 8 kB written and fdatasync'ed in a folder: what one commit there waits for."""
    path, times = folder / "fsync", []
    with open(path, "wb", buffering=0) as file:
        os.pwrite(file.fileno(), bytes(8192 * 200), 0)
        os.fsync(file.fileno())
        for i in range(200):
            began = time.perf_counter()
            os.pwrite(file.fileno(), b"x" * 8192, i * 8192)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    path.unlink()
    return sorted(times)[100] * 1000


class Cluster:
    def __init__(self, major: int | None = None, settings: dict[str, str] | None = None):
        """`major`: which PostgreSQL; None takes what queend itself would take. `settings`: instead of those that keep
        checkpoints away."""
        self._life = ExitStack()
        server = self._life.enter_context(running(major, plain=True, below=os.environ.get("QUEEND_BENCH_DIR"),
                                                  **(OWN_SETTINGS if settings is None else settings)))
        self.embedded, self.home, self.dsn = server.cluster, server.cluster.folder, server.conninfo
        try:
            self.connection = self._life.enter_context(server.connect())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self._life.close()

    def one(self, query: str, *values):
        return self.connection.execute(query, values).fetchone()[0]

    def cpu_seconds(self) -> float:
        """The postmaster and every backend it has or had."""
        return cpu_seconds(self.embedded.pid)

    def wal_bytes(self) -> int:
        return int(self.one("SELECT pg_current_wal_insert_lsn() - '0/0'"))

    def transactions(self) -> int:
        """Transactions that wrote, so far: exact at once, unlike the statistics views, which lag by a second."""
        return int(self.one("SELECT pg_snapshot_xmax(pg_current_snapshot())::text"))

    def disk_bytes(self) -> int:
        """Tables of schema queend with their indexes and TOAST."""
        return int(self.one("SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c"
                            " JOIN pg_namespace s ON s.oid = c.relnamespace WHERE s.nspname = 'queend'"
                            " AND c.relkind IN ('r', 'm')"))

    def stored(self, queue: str) -> int:
        return int(self.one("SELECT coalesce(sum(l.n), 0) FROM queend.log l JOIN queend.partitions p"
                            " ON p.id = l.partition_id"
                            " JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s", queue))

    def fsync_ms(self) -> float:
        return fsync_ms(self.home)


def open_cluster(major: int | None) -> Cluster:
    """PostgreSQL 15 unless told otherwise: figures compare with each other, and the embedded one lacks lz4."""
    if major is not None:
        return Cluster(major)
    try:
        return Cluster(15)
    except EmbeddedError:
        return Cluster(None)
