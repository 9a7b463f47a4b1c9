"""A cluster of two executors, which runs as a program of its own: the session of the other tests is on threads."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support.client import Client
from support.daemon import PACKAGE, Daemon
from support.log import stored

ROWS, PARTS, KEYS = 9000, 3, 5


def test_two_executors_and_speculation(daemon: Daemon, client: Client, queue: str, tmp_path: Path) -> None:
    """A task and its copy in the other executor store the same rows at the same time."""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PYSPARK_PYTHON": sys.executable,
                   "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(tmp_path / "work")}
    program = str(Path(__file__).with_name("executors.py"))
    run = subprocess.run([sys.executable, program, daemon.url, queue, str(tmp_path), str(ROWS)], env=environment,
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr[-3000:]
    said = json.loads(run.stdout.strip().splitlines()[-1])
    assert (tmp_path / "half-0").exists() and (tmp_path / "half-1").exists()    # both ran
    assert said["executors"] == 2 and said["tasks"] == 4
    assert sorted(int(value) for _, value, _ in said["rows"]) == list(range(ROWS))
    for part in range(PARTS):
        mine = range(part * ROWS // PARTS, (part + 1) * ROWS // PARTS)
        for key in range(KEYS):
            assert stored(client, queue, f"{part}-{key}") == [n for n in mine if n % KEYS == key]
