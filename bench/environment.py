"""Where and on what a figure was measured; it goes into every line of the report."""

import datetime
import os
import platform
import subprocess
from pathlib import Path

from cluster import SETTINGS, Cluster

ROOT = Path(__file__).resolve().parent.parent


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", ROOT, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def _first(path: str, key: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(key):
            return line.partition(":")[2].strip()
    return ""


def environment(cluster: Cluster | None, quick: bool) -> dict:
    commit = _git("rev-parse", "--short=12", "HEAD")
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit + ("+changes" if commit and _git("status", "--porcelain", "--untracked-files=no") else ""),
        "quick": quick,
        "cpu": _first("/proc/cpuinfo", "model name") or platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mb": int(_first("/proc/meminfo", "MemTotal").split()[0]) // 1024,
        "kernel": platform.release(),
        "postgres": cluster.one("SHOW server_version") if cluster else None,
        "postgres_settings": {key: cluster.one("SELECT current_setting(%s)", key) for key in SETTINGS}
        if cluster else None, "fsync_ms": round(cluster.fsync_ms(), 3) if cluster else None,
    }
