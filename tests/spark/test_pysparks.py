"""Every version of PySpark does what the table of docs/spark.md says. `make test-spark-versions` installs them; without
an installation its tests are skipped."""
from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon import PACKAGE, Daemon

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.5", "4.0", "4.1", "4.2", "4.3")
# Row of the table → what tests/spark/versions.py tried for it, by the kind of session.
ROWS = {
    "`format(\"queend\")` in batches": ("classic", "found"),
    "streams out of queues and into them": ("classic", "streams"),
    "`maxOffsetsPerTrigger`": ("classic", "limits"),
    "tables of SQL": ("classic", "sql"),
    "filters pushed down": ("classic", "filters"),
    "`read_batch`, `write_batch`": ("classic", "functions"),
    "`batch_writer` in `foreachBatch`": ("classic", "for_each_batch"),
    "Spark Connect: batches": ("connect", "found"),
    "Spark Connect: streams": ("connect", "streams"),
    "Spark Connect: tables of SQL": ("connect", "sql"),
    "Spark Connect: `read_batch`, `write_batch`": ("connect", "functions"),
    "Spark Connect: `batch_writer`": ("connect", "for_each_batch"),
}


def told() -> dict[str, list[str]]:
    """Returns the cells of the table of versions by the first one of each row."""
    text = (ROOT / "docs/spark.md").read_text().split("## Versions of Spark", 1)[1].split("\n## ", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", text, re.M)]
    return {name: cells for name, *cells in rows}


@pytest.fixture(scope="module")
def results() -> Iterator[dict[str, dict[str, dict[str, str]]]]:
    """Collects what each version did, and prints it as the table of the document (-s)."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    yield found
    print("\n| |", " | ".join(found), "|")
    for row, (kind, tried) in ROWS.items():
        print(f"| {row} |", " | ".join(one.get(kind, {}).get(tried, "no") for one in found.values()), "|")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_does_what_the_document_says(version: str, results: dict, daemon: Daemon, tmp_path: Path) -> None:
    """3.5 has no Connect here: its functions need the context of a session."""
    python = ROOT / f"build/spark-{version}/bin/python"
    if not python.exists():
        pytest.skip("make test-spark-versions installs it")
    results[version] = {}
    for kind in ("classic",) if version == "3.5" else ("classic", "connect"):
        results[version][kind] = tried(python, kind, daemon, tmp_path)
    column = told()[""].index(version)
    assert {row: cells[column] for row, cells in told().items() if row in ROWS} == {
        row: results[version].get(kind, {}).get(name, "no") for row, (kind, name) in ROWS.items()}


def tried(python: Path, kind: str, daemon: Daemon, folder: Path) -> dict[str, str]:
    """Runs the program in an environment that names no interpreter and no module."""
    program = str(Path(__file__).with_name("versions.py"))
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": str(PACKAGE),
                   "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run([python, program, daemon.url, str(folder), kind], cwd=folder, env=environment,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_the_table_has_every_version() -> None:
    assert told()[""] == list(VERSIONS) and set(ROWS) <= set(told())
