"""What PostgreSQL's own log tells about when it did what: checkpoints and automatic vacuums as spans of time."""

import datetime
import re
from dataclasses import dataclass
from pathlib import Path

LINE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) UTC \[\d+\] (?:LOG|ERROR):\s+(.*)")
CHECKPOINT = re.compile(r"checkpoint complete: wrote (\d+) buffers.*?(\d+) WAL file\(s\) added, (\d+) removed,"
                        r" (\d+) recycled; "
                        r"write=([\d.]+) s, sync=([\d.]+) s, total=([\d.]+) s")
VACUUM = re.compile(r'automatic (vacuum|analyze) of table "(?:\w+\.)?(?:queend|pg_toast|pg_catalog)\.(\w+)"')
FIGURES = re.compile(r"tuples: |pages: |index scan|WAL usage|buffer usage|avg read|index \"|frozen|system usage")
ELAPSED = re.compile(r"elapsed: ([\d.]+) s")


@dataclass
class Event:
    """Something the server did; moments in Unix seconds."""

    what: str
    begin: float
    end: float
    detail: str = ""


def events(path: Path, names: dict[str, str]) -> list[Event]:
    """In order of their ends. names: table name → what to call it (TOAST tables have numbers)."""
    found, pending = [], None
    for line in path.read_text(errors="replace").splitlines():
        head = LINE.match(line)
        if head:
            pending = None
            at = datetime.datetime.fromisoformat(head[1] + "+00:00").timestamp()
            if done := CHECKPOINT.search(head[2]):
                wrote, added, removed, recycled, write, sync, total = (float(x) for x in done.groups())
                found.append(Event("checkpoint write", at - total, at - total + write, f"{wrote:.0f} buffers;"
                                   f" WAL files {added:.0f} added, {removed:.0f} removed, {recycled:.0f} recycled"))
                found.append(Event("checkpoint sync", at - total + write, at, f"{sync:.2f} s"))
            elif head[2].startswith("canceling autovacuum task"):
                found.append(Event("autovacuum cancelled", at, at))
            elif done := VACUUM.search(head[2]):
                pending = Event(f"auto{done[1]} {names.get(done[2], done[2])}", at, at)
                found.append(pending)
        if pending and FIGURES.match(line.strip()):
            pending.detail += line.strip() + "; "
        if pending and (took := ELAPSED.search(line)):
            pending.begin, pending.detail, pending = pending.end - float(took[1]), f"{pending.detail}{took[1]} s", None
    return sorted(found, key=lambda event: event.end)
