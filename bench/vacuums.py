"""What vacuum does while a load runs: looked at once a second, told per run and phase."""

import threading
import time
from pathlib import Path

import psycopg
from process import TICK

# Names and units of the columns differ between major versions: the row as it is.
RUNNING = """
SELECT to_jsonb(p) || jsonb_build_object('table', p.relid::regclass::text, 'wait', a.wait_event, 'began',
                                        extract(epoch FROM a.query_start), 'query', a.query)
  FROM pg_stat_progress_vacuum p JOIN pg_stat_activity a USING (pid) ORDER BY p.pid"""


def _io(pid: int) -> tuple[float, int, int]:
    """CPU seconds, bytes read from and written to files so far; zeros if the process is gone or belongs to others."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        io = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
        return (int(fields[11]) + int(fields[12])) / TICK, int(io["rchar"]), int(io["wchar"])
    except (OSError, KeyError):
        return 0.0, 0, 0


class Vacuums:
    """Runs seen so far, each {table, at, until, phases: {phase: [seconds, CPU seconds]}, waits: {event: looks}, …};
    moments in seconds since `began`."""

    def __init__(self, dsn: str, ended: threading.Event, least: float = 2.0):
        self.dsn, self.ended, self.least = dsn, ended, least
        self.runs: dict[tuple, dict] = {}

    def watch(self, began: float) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as db:
            while not self.ended.wait(1.0):
                now = time.time() - began
                for (row,) in db.execute(RUNNING).fetchall():
                    self._look(now, began, row)

    def _look(self, now: float, began: float, row: dict) -> None:
        cpu, read, written = _io(row["pid"])
        key = row["pid"], row["table"], row["began"]
        run = self.runs.get(key)
        if run is None:
            run = self.runs[key] = dict(table=row["table"].removeprefix("queend."),
                                        by=row["query"].split("(")[0].split(":")[0].strip(), at=row["began"] - began,
                                        phases={}, waits={}, first=(cpu, read, written),
                                        seen=(row["began"] - began, cpu))
        seconds, spent = run["phases"].get(row["phase"], (0.0, 0.0))
        run["phases"][row["phase"]] = (seconds + now - run["seen"][0], spent + cpu - run["seen"][1])
        wait = row["wait"] or "none"
        run["waits"][wait] = run["waits"].get(wait, 0) + 1
        run.update(until=now, seen=(now, cpu), cpu=cpu - run["first"][0], read=read - run["first"][1],
                   written=written - run["first"][2],
                   pages=row["heap_blks_total"], scanned=row["heap_blks_scanned"], cleared=row["heap_blks_vacuumed"],
                   index_passes=row["index_vacuum_count"],
                   dead=row.get("num_dead_tuples", row.get("num_dead_item_ids")))

    def told(self) -> list[dict]:
        """Runs that took at least `least` seconds, in order."""
        return [{key: value for key, value in run.items() if key not in ("first", "seen")}
                for run in sorted(self.runs.values(), key=lambda run: run["at"])
                if run["until"] - run["at"] >= self.least]
