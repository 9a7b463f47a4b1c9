"""Runs a program the way a unit file confines it, where there is no systemd: the same system calls, no capabilities, a
user namespace of its own, /proc of its own processes only, nothing writable but one folder.

    python confined.py UNIT FOLDER PROGRAM [ARGUMENT …]

For root. The program sees itself as another account, as PostgreSQL wants it. What is asked of the unit:
SystemCallFilter, SystemCallErrorNumber, ProtectProc, ProcSubset, PrivateUsers, ProtectSystem, NoNewPrivileges,
MemoryDenyWriteExecute, CapabilityBoundingSet, UMask."""
from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from pathlib import Path

NEWNS, NEWUSER = 0x20000, 0x10000000
CAPBSET_DROP, SET_NO_NEW_PRIVS, SET_MDWE = 24, 38, 65
SEEN_AS = 65534
ALLOW, ERRNO = 0x7FFF0000, 0x50000
LIBC = ctypes.CDLL(None, use_errno=True)


def settings(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not name.startswith(("#", "[")):
            found.setdefault(name, []).append(value)
    return found


def members(name: str) -> set[str]:
    """The system calls of a set of systemd's, or the one of that name."""
    if not name.startswith("@"):
        return {name}
    told = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", name], check=True,
                          capture_output=True, text=True).stdout
    words = [line.strip() for line in told.splitlines()[1:]]
    return set().union(*(members(word) for word in words if word and not word.startswith("#")))


def allowed(filters: list[str]) -> set[str]:
    calls: set[str] = set()
    for one in filters:
        named = set().union(*(members(word) for word in one.removeprefix("~").split()))
        calls = calls - named if one.startswith("~") else calls | named
    return calls | members("@default")


def checked(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno() or -result, os.strerror(ctypes.get_errno() or -result))


def mount(*words: object) -> None:
    subprocess.run(["mount", *map(str, words)], check=True)


def confine(unit: Path, folder: Path) -> None:
    said = settings(unit)
    calls = allowed(said["SystemCallFilter"])
    seccomp = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    seccomp.seccomp_init.restype = ctypes.c_void_p
    checked(LIBC.unshare(NEWNS))
    mount("--make-rprivate", "/")
    mount("--bind", folder, folder)
    mount("-t", "proc", "-o", f"subset={said['ProcSubset'][0]},hidepid={said['ProtectProc'][0]}", "proc", "/proc")
    if said["ProtectSystem"] == ["strict"]:
        mount("-o", "remount,bind,ro", "/")
    os.umask(int(said["UMask"][0], 8))
    for capability in range(64) if said["CapabilityBoundingSet"] == [""] else ():
        if LIBC.prctl(CAPBSET_DROP, capability, 0, 0, 0) and ctypes.get_errno() == errno.EINVAL:
            break
    assert said["PrivateUsers"] == ["yes"]
    user, group = os.getuid(), os.getgid()
    checked(LIBC.unshare(NEWUSER))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/gid_map").write_text(f"{SEEN_AS} {group} 1")
    Path("/proc/self/uid_map").write_text(f"{SEEN_AS} {user} 1")
    if said["MemoryDenyWriteExecute"] == ["yes"]:
        LIBC.prctl(SET_MDWE, 1, 0, 0, 0)      # from Linux 6.3 on
    checked(LIBC.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    context = ctypes.c_void_p(
        seccomp.seccomp_init(ctypes.c_uint32(ERRNO | getattr(errno, said["SystemCallErrorNumber"][0]))))
    for name in calls:
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:
            checked(seccomp.seccomp_rule_add(context, ctypes.c_uint32(ALLOW), number, 0))
    checked(seccomp.seccomp_load(context))


if __name__ == "__main__":
    confine(Path(sys.argv[1]), Path(sys.argv[2]))
    os.execvp(sys.argv[3], sys.argv[3:])
