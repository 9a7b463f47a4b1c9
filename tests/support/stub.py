"""Stands for `python -m queend`: hands its words, folder, environment and standard files to an interpreter that has
imported the commands, and ends as the command does (support/forked.py). It imports only what is compiled in.

Usage: stub.py SOCKET PACKAGE WORDS.
"""
import os
import sys

import _signal
import _socket

SOCKET, PACKAGE, *WORDS = sys.argv[1:]
INT = 4


def fits() -> bool:
    """Returns True if an interpreter that is running already can be used with this environment. Where LANG is missing,
    this interpreter has set LC_CTYPE, as that of the command would (PEP 538)."""
    early = {name: value for name, value in os.environ.items()
             if name.startswith(("LD_", "PYTHON", "MALLOC", "LC_", "TZ", "LANG")) and name != "PYTHONDONTWRITEBYTECODE"}
    locales = {early.pop(name, "C.UTF-8") for name in ("LANG", "LC_CTYPE")}
    return locales == {"C.UTF-8"} and early == {"PYTHONPATH": PACKAGE}


def pass_on(number: int, _: object = None) -> None:
    """Sends a signal to the command, later if there is none yet."""
    try:
        early.append(number) if pid is None else os.kill(pid, number)
    except ProcessLookupError:
        pass


if not fits():
    os.execv(sys.executable, [sys.executable, "-m", "queend", *WORDS])
pid, early = None, []
for number in (_signal.SIGINT, _signal.SIGTERM):
    if _signal.getsignal(number) != _signal.SIG_IGN:
        _signal.signal(number, pass_on)
line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
line.connect(SOCKET)
files = b"".join(end.to_bytes(INT, sys.byteorder) for end in (0, 1, 2))
line.sendmsg([ascii((os.getcwd(), WORDS, dict(os.environ))).encode()],
             [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
for end in (0, 1, 2):      # who reads them sees their end as soon as the command closes them
    os.close(end)
pid = int.from_bytes(line.recv(INT), sys.byteorder)
for number in early:
    pass_on(number)
status = int.from_bytes(line.recv(INT), sys.byteorder)
if os.WIFSIGNALED(status):
    _signal.signal(os.WTERMSIG(status), _signal.SIG_DFL)
    os.kill(os.getpid(), os.WTERMSIG(status))
os._exit(os.waitstatus_to_exitcode(status))
