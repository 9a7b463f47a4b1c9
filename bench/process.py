"""What a process and everything it started has cost so far, read from /proc."""

import os
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


def _stat(pid: str) -> tuple[int, list[float]]:
    """(parent, [user, system, reaped children's user, system]) of one process, in seconds."""
    fields = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
    return int(fields[1]), [int(value) / TICK for value in fields[11:15]]


def _tree(root: int) -> dict[int, list[float]]:
    """CPU times of `root` and all its living descendants, by process id."""
    times, children = {}, {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parent, spent = _stat(name)
            except (FileNotFoundError, ProcessLookupError):
                continue
            times[int(name)] = spent
            children.setdefault(parent, []).append(int(name))
    if root not in times:
        raise RuntimeError(f"process {root} is gone")
    found, todo = {}, [root]
    while todo:
        pid = todo.pop()
        found[pid] = times[pid]
        todo += children.get(pid, [])
    return found


def descendants(root: int) -> list[int]:
    """`root` and all its living descendants."""
    return list(_tree(root))


def cpu_seconds(root: int) -> float:
    """CPU of `root` and all its descendants, living or reaped: an exited child is in its parent's cutime/cstime."""
    while True:
        tree = _tree(root)
        if _stat(str(root))[1][2:] == tree[root][2:]:  # else a child was reaped while we read, and may be missing
            return sum(sum(times) for times in tree.values())


def rss_mb(pid: int) -> float:
    for line in Path("/proc", str(pid), "status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no memory")


def busy_seconds() -> float:
    """CPU of everything on this machine so far, what the hypervisor took included."""
    user, nice, system, _, _, irq, softirq, steal = Path("/proc/stat").read_text().split(None, 9)[1:9]
    return sum(map(int, (user, nice, system, irq, softirq, steal))) / TICK
