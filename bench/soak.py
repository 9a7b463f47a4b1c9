"""A long run at full speed with retention on, while another session keeps a snapshot open for its middle third.

    python bench/soak.py [--minutes 30] [--keep 30] [--young] [--postgres MAJOR] [--out bench/out/soak] [--set
NAME=VALUE ...]

Checkpoints as the embedded server makes them, not the benchmark's. OUT.jsonl gets one line per second (latency), one
per sample (sizes, dead rows, CPU), one per event of the server and a summary; OUT-*.svg are drawn from them. It ends by
itself; exit 1 when an answer was wrong or what the answers called stored does not agree with the log's heads."""

import argparse
import json
import signal
import statistics
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout's own queend

import psycopg
from cluster import Cluster
from environment import environment
from generator import run_load
from pglog import events
from plot import chart
from report import shorten
from server import Daemon
from vacuums import Vacuums

from queend.postgres.embedded import EmbeddedError

QUEUE, PARTITIONS = "soak", 1000
SEGMENT = 16 << 20
TOLD = {"log_checkpoints": "on", "log_autovacuum_min_duration": "0"}
SIZES = """
SELECT c.relname, pg_relation_size(c.oid), pg_indexes_size(c.oid),
 coalesce(pg_total_relation_size(nullif(c.reltoastrelid, 0)), 0),
       pg_stat_get_dead_tuples(c.oid), coalesce(pg_stat_get_dead_tuples(c.reltoastrelid), 0)
  FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
 WHERE s.nspname = 'queend' AND c.relname IN ('log', 'late_ids', 'cursors', 'floors')"""
LIVE = """
SELECT coalesce(sum(queend.head(p.id)), 0), coalesce(sum(queend.head(p.id) - coalesce(f.floor, 0)), 0)
  FROM queend.partitions p LEFT JOIN queend.floors f ON f.partition_id = p.id"""


class Soak:
    def __init__(self, words: argparse.Namespace):
        self.words = words
        self.seconds = words.minutes * 60
        self.lines: list[dict] = []
        self.ended = threading.Event()
        settings = {**TOLD, **dict(one.split("=", 1) for one in words.set)}
        try:
            self.cluster = Cluster(words.postgres or 15, settings)
        except EmbeddedError:
            if words.postgres:
                raise
            self.cluster = Cluster(None, settings)
        self.daemon = None
        self.vacuums = Vacuums(self.cluster.dsn, self.ended)

    def reserve_wal(self) -> None:
        """Two gigabytes of WAL files for checkpoints to rename: a server in its first minutes makes each while a commit
        waits."""
        for _ in range((2 << 30) // SEGMENT):
            self.cluster.connection.execute("SELECT pg_logical_emit_message(false, 'soak', '')")
            self.cluster.connection.execute("SELECT pg_switch_wal()")
        self.cluster.connection.execute("CHECKPOINT")

    def run(self) -> int:
        words = self.words
        if not words.young:
            self.reserve_wal()
        self.daemon = Daemon(self.cluster, RETENTION_INTERVAL=str(max(1000, words.keep * 1000 // 6)))
        prepared = self.daemon.prepare(QUEUE, PARTITIONS)
        self.daemon.call("POST", "/api/v1/configure",
                         {"queue": QUEUE, "options": {"retentionEnabled": True, "retentionSeconds": words.keep}})
        self.add(kind="environment", minutes=words.minutes, keep=words.keep, **environment(self.cluster, False))
        threads = [threading.Thread(target=one)
                   for one in (self.sampler, self.reader, lambda: self.vacuums.watch(self.began))]
        self.stopped = 0.0
        report = run_load(self.daemon.host, self.daemon.port, 2.0, self.seconds, [
            dict(kind="push", name="push", queue=QUEUE, conns=words.pushers, items=words.items, partitions=PARTITIONS,
                 ids=7, rate=words.rate),
            dict(kind="pop", name="pop", queue=QUEUE, conns=16, batch=500, claim=50, wait=1, timeout=5000, delivery=1)],
            lambda: self.start(threads), self.ended.set, lambda part: self.add(kind="second", **part), every=1)
        for thread in threads:
            thread.join()
        stored, live = map(int, self.cluster.connection.execute(LIVE).fetchone())
        names = dict(self.cluster.connection.execute("SELECT 'pg_toast_' || c.oid::text, c.relname || '''s toast'"
                                                     " FROM pg_class c WHERE c.relkind = 'r'").fetchall())
        for event in events(self.cluster.embedded.log, names):
            if event.end > self.began:
                self.add(kind="event", what=event.what, at=event.begin - self.began, until=event.end - self.began,
                         detail=event.detail)
        for run in self.vacuums.told():
            self.add(kind="vacuum", **run)
        faults = [f"{name}: {role['errors']} errors, first: {role['error']}"
                  for name, role in report["roles"].items() if role["errors"]]
        if stored != prepared + report["roles"]["push"]["stored"]:
            faults.append(f"answers said {prepared + report['roles']['push']['stored']} stored, the heads say {stored}")
        self.add(kind="summary", faults=faults, live=live, **self.summary(report))
        for fault in faults:
            print(f"FAULT {fault}", file=sys.stderr)
        return 1 if faults else 0

    def stop(self) -> None:
        self.ended.set()
        if self.daemon is not None:
            self.daemon.stop()
        self.cluster.stop()

    # while it runs

    def start(self, threads: list[threading.Thread]) -> None:
        self.began = time.time()
        for thread in threads:
            thread.start()

    def add(self, **values) -> None:
        self.lines.append(values)

    def reader(self) -> None:
        """Another session's transaction that has read the log and stays open."""
        if self.ended.wait(self.seconds / 3):
            return
        with psycopg.connect(self.cluster.dsn) as other:
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT pg_current_xact_id(), (SELECT created_at FROM queend.log LIMIT 1)")
            self.add(kind="event", what="snapshot held", at=time.time() - self.began,
                     until=min(self.seconds, 2 * self.seconds / 3), detail="")
            self.ended.wait(self.seconds / 3)

    def sampler(self) -> None:
        step = max(1.0, self.seconds / 360)
        with psycopg.connect(self.cluster.dsn, autocommit=True, options="-c enable_seqscan=off") as db:
            while True:
                self.add(kind="sample", **self.sample(db))
                print(f"\r{time.time() - self.began:6.0f} s of {self.seconds:.0f}", end="", file=sys.stderr, flush=True)
                if self.ended.wait(step):
                    print(file=sys.stderr)
                    return

    def sample(self, db: psycopg.Connection) -> dict:
        stored, live = (int(x) for x in db.execute(LIVE).fetchone())
        wal = int(db.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()[0])
        files = [one.name for one in (self.cluster.embedded.data / "pg_wal").iterdir() if len(one.name) == 24]
        busy = sum(int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]) - int(
            Path("/proc/stat").read_text().split()[4])
        # The pages that the daemon reads once a second, when it looks for new messages.
        plan = db.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT partition_id, max(base + n) FROM queend.log"
                          " WHERE created_at >= (SELECT queend.now_us() - 2000000) GROUP BY 1").fetchone()[0][0]
        recent = plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
        own = dict(at=time.time() - self.began, stored=stored, live=live, wal=wal, recent_pages=recent,
                   recent_ms=plan["Execution Time"], wal_files=len(files), rss_mb=self.daemon.rss_mb(),
                   daemon_cpu=self.daemon.cpu_seconds(), postgres_cpu=self.cluster.cpu_seconds(),
                   machine_cpu=busy / 100)
        for name, heap, index, toast, dead, dead_toast in db.execute(SIZES).fetchall():
            own |= {f"{name}_heap": heap, f"{name}_index": index, f"{name}_toast": toast, f"{name}_dead": dead,
                    f"{name}_toast_dead": dead_toast}
        return own

    # afterwards

    def of(self, kind: str) -> list[dict]:
        return [line for line in self.lines if line["kind"] == kind]

    def summary(self, report: dict) -> dict:
        parts = self.of("second")
        usual = statistics.median(part["roles"]["push"]["p50_ms"] for part in parts if part["roles"]["push"]["p50_ms"])
        outliers = []
        for part in parts:
            worst = part["roles"]["push"]["max_ms"]
            if worst and worst > 5 * usual:
                outliers.append({"at": part["at"], "max_ms": worst, "p99_ms": part["roles"]["push"]["p99_ms"],
                                 "causes": self.causes(part["at"], part["at"] + part["seconds"])})
        spans = {what: [part for part in parts
                        if any(e["what"] == what and e["at"] < part["at"] + part["seconds"] and e["until"] > part["at"]
                               for e in self.of("event"))] for what in sorted({e["what"] for e in self.of("event")})}
        spans["none of these"] = [part for part in parts
                                  if not any(part in found for what, found in spans.items() if what != "snapshot held")]
        during = {what: {"seconds": len(found), **{f"push_{key}": shorten(statistics.median(
            p["roles"]["push"][key] or 0 for p in found)) for key in ("p50_ms", "p99_ms", "max_ms")}}
                  for what, found in spans.items() if found}
        thirds = {name: self.third(i) for i, name in enumerate(("before", "snapshot", "after"))}
        push, pop, recovery = report["roles"]["push"], report["roles"]["pop"], self.recovery(
            thirds["before"]["log_dead"])
        keys = ("p50_ms", "p99_ms", "p999_ms", "max_ms")
        return dict(seconds=report["seconds"], pushed=push["messages"], popped=pop["messages"],
                    push={key: push[key] for key in keys},
                    delivery={key: pop[f"delivery_{key}"] for key in keys}, usual_p50_ms=usual, thirds=thirds,
                    recovery=recovery, during=during, outliers=outliers)

    def recovery(self, usual: int) -> dict:
        """After the snapshot: seconds until no more of the log is dead than there was before it (None: never), and the
        vacuums of the log meanwhile and since."""
        end = 2 * self.seconds / 3
        back = next((one["at"] - end for one in self.of("sample") if one["at"] > end and one["log_dead"] <= usual),
                    None)
        return dict(seconds=None if back is None else shorten(back),
                    cancelled=sum(e["what"] == "autovacuum cancelled" and e["at"] > end for e in self.of("event")),
                    vacuums=[{key: run[key] for key in ("at", "until", "cpu", "phases", "waits", "index_passes",
                                                        "dead")} for run in self.of("vacuum")
                             if run["table"] == "log" and run["until"] > end])

    def third(self, number: int) -> dict:
        low, high = (self.seconds * (number + k) / 3 for k in (0, 1))
        samples = [one for one in self.of("sample") if low <= one["at"] <= high]
        parts = [part["roles"] for part in self.of("second") if low <= part["at"] < high]
        if len(samples) < 2 or not parts:
            sys.exit(f"a third of {self.seconds} s has too few samples on this machine: --minutes")
        first, last = samples[0], samples[-1]
        pushed = max(1, last["stored"] - first["stored"])

        def per_live(key: str) -> list[float]:
            return [shorten(min(v)),
                    shorten(max(v))] if (v := [one[key] / one["live"] for one in samples if one["live"]]) else []
        return dict(
            pushed_per_s=shorten(pushed / (last["at"] - first["at"])),
            popped_per_s=shorten(sum(p["pop"]["messages"] for p in parts) / max(1, len(parts))),
            postgres_us=shorten((last["postgres_cpu"] - first["postgres_cpu"]) / pushed * 1e6),
            daemon_us=shorten((last["daemon_cpu"] - first["daemon_cpu"]) / pushed * 1e6),
            wal_bytes=shorten((last["wal"] - first["wal"]) / pushed),
            push_p50_ms=statistics.median(p["push"]["p50_ms"] or 0 for p in parts),
            push_p99_ms_median=statistics.median(p["push"]["p99_ms"] or 0 for p in parts),
            push_max_ms=max(p["push"]["max_ms"] or 0 for p in parts),
            live=[min(one["live"] for one in samples), max(one["live"] for one in samples)],
            heap_per_live=per_live("log_heap"),
            toast_per_live=per_live("log_toast"), index_per_live=per_live("log_index"),
            log_dead=max(one["log_dead"] for one in samples),
            heap_mb=[first["log_heap"] >> 20, last["log_heap"] >> 20],
            toast_dead=max(one["log_toast_dead"] for one in samples),
            cursors_bytes=max(one["cursors_heap"] + one["cursors_index"] for one in samples),
            rss_mb=[shorten(first["rss_mb"]), shorten(last["rss_mb"])])

    def causes(self, begin: float, end: float) -> list[str]:
        """What the server did in that second, and who else used the machine."""
        found = [event["what"] for event in self.of("event") if event["at"] < end and event["until"] > begin
                 and event["what"] != "snapshot held"]
        around = [one for one in self.of("sample") if begin - 6 <= one["at"] <= end + 6]
        if len(around) > 1:
            first, last = around[0], around[-1]
            switches = last["wal"] // SEGMENT - first["wal"] // SEGMENT
            if last["wal_files"] > first["wal_files"]:
                found.append(f"{last['wal_files'] - first['wal_files']} WAL files created")
            elif switches:
                found.append("WAL switches")
        return sorted(set(found))

    def write(self, out: Path) -> None:
        out.parent.mkdir(parents=True, exist_ok=True)
        with open(out.with_suffix(".jsonl"), "w") as file:
            for line in self.lines:
                file.write(json.dumps(line) + "\n")
        samples, parts = self.of("sample"), self.of("second")
        minutes = [one["at"] / 60 for one in samples]

        def line(key, over=lambda one: 1.0):
            return [(m, one[key] / over(one)) for m, one in zip(minutes, samples) if over(one)]
        drawings = {
            "latency": ("Push latency per second", "ms", {
                name: [(part["at"] / 60, part["roles"]["push"][key]) for part in parts if part["roles"]["push"][key]]
                                                          for name, key in (("p50", "p50_ms"), ("p99", "p99_ms"),
                                                                            ("max", "max_ms"))}, True),
            "bytes": ("Bytes per live message", "bytes", {name: line(key, lambda one: one["live"]) for name, key in (
                ("heap", "log_heap"), ("indexes", "log_index"), ("toast", "log_toast"))}, False),
            "dead": ("Dead rows", "rows", {"log": line("log_dead"), "toast": line("log_toast_dead"),
                                           "cursors": line("cursors_dead")}, False),
            "rate": ("Messages per second", "messages/s",
                     {name: [(part["at"] / 60, part["roles"][name]["messages"] / part["seconds"]) for part in parts]
                      for name in ("push", "pop")}, False)}
        for name, (title, unit, data, log) in drawings.items():
            out.with_name(f"{out.name}-{name}.svg").write_text(
                chart(title, "minutes", unit, data, log_x=False, log_y=log))


def main() -> int:
    parser = argparse.ArgumentParser(description="Long run with retention.")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--keep", type=int, default=30, metavar="S", help="retentionSeconds")
    parser.add_argument("--items", type=int, default=100, help="messages per push request")
    parser.add_argument("--pushers", type=int, default=16, help="connections that push")
    parser.add_argument("--young", action="store_true", help="begin with a server that has no WAL files yet")
    parser.add_argument("--rate", type=float, default=0, metavar="N",
                        help="push requests per second on a fixed schedule; 0: as fast as they are answered")
    parser.add_argument("--postgres", type=int, metavar="MAJOR",
                        help="default: 15, or what queend takes where that is missing")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="a server setting besides those of the embedded server")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "out" / "soak")
    words = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped
    soak = Soak(words)
    try:
        status = soak.run()
    finally:
        soak.stop()
    soak.write(words.out)
    told = soak.lines[-1]
    print(json.dumps({**told, "outliers": len(told["outliers"])}, indent=1))
    return status


if __name__ == "__main__":
    sys.exit(main())
