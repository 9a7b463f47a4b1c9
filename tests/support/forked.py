"""An interpreter that has imported the daemon and its libraries, and is forked for each daemon: to import them takes
longer than all else a daemon does until it is ready. Nothing of the daemon looks at its environment or begins anything
when it is imported; those that `Daemon.plain` starts import it themselves.

Between it and a daemon stands a process that waits for the daemon's end and tells its status.
"""
from __future__ import annotations

import array
import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import queend

PACKAGE = Path(queend.__file__).parent.parent   # the build under test: in the checkout, or the sanitizers' one
IMPORTED = ("queend.cli.serve", "queend.daemon.supervisor", "prometheus_client")
MOST = 1 << 17      # bytes of an environment
# What counts when an interpreter starts; who has another one needs a new interpreter.
AT_START = ("LD_", "PYTHON", "MALLOC", "LANG", "LC_", "TZ")
_lock = threading.Lock()
_asks: socket.socket | None = None


def fits(environment: dict[str, str]) -> bool:
    """May a daemon with this environment be forked? One of another package has to import it."""
    def early(names: dict[str, str]) -> dict[str, str]:
        return {name: names[name] for name in names if name.startswith(AT_START) and name != "PYTHONPATH"}
    return environment["PYTHONPATH"] == str(PACKAGE) and early(environment) == early(dict(os.environ))


class Forked:
    """`python -m queend` with `words`, as subprocess.Popen would start it with text in and out."""

    def __init__(self, words: list[str], environment: dict[str, str]):
        ours: list[int] = []
        theirs: list[int] = []
        for _ in range(3):
            for side, end in zip((ours, theirs), os.pipe()):
                side.append(end)
        asked = json.dumps([words, environment]).encode()
        assert len(asked) <= MOST
        with _lock:
            _opened().sendmsg([asked], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", theirs))])
        for end in theirs:
            os.close(end)
        self.stdout, self.stderr = (open(end, errors="replace") for end in ours[:2])
        self._told = open(ours[2], "rb", buffering=0)
        self.returncode: int | None = None
        self.pid, = struct.unpack("i", self._told.read(4))

    def poll(self) -> int | None:
        with _lock:
            if self.returncode is None and select.select([self._told], [], [], 0)[0]:
                self.returncode = os.waitstatus_to_exitcode(*struct.unpack("i", self._told.read(4)))
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        end = time.monotonic() + timeout if timeout is not None else None
        while (status := self.poll()) is None:
            left = end - time.monotonic() if end is not None else None
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired("queend", timeout)
            select.select([self._told], [], [], left)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _opened() -> socket.socket:
    """The interpreter's end of the line; it ends with this process."""
    global _asks
    if _asks is None:
        _asks, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            one = subprocess.Popen([sys.executable, "-c", f"from support.forked import main; main({theirs.fileno()})"],
                                   cwd="/", pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                                   env={**os.environ, "PYTHONPATH": f"{Path(__file__).parents[1]}:{PACKAGE}"})
        atexit.register(lambda: (_asks.close(), one.wait()))
    return _asks


# ---- in that interpreter -------------------------------------------------------------------------------------------

def main(number: int) -> None:
    asks = socket.socket(fileno=number)
    for name in IMPORTED:
        importlib.import_module(name)
    importlib.import_module("queend.control.routes").routers()   # imports all of its folder
    gc.freeze()
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        asked, ends, _, _ = socket.recv_fds(asks, MOST, 3)
        if not asked:
            return
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            asks.close()
            _stand_between(*json.loads(asked), *ends)
            return
        for end in ends:
            os.close(end)


def _reap(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _stand_between(words: list[str], environment: dict[str, str], out: int, err: int, told: int) -> None:
    """Returns in the process that was the daemon."""
    pid = os.fork()
    if pid:
        os.close(out)
        os.close(err)
        os.write(told, struct.pack("i", pid))
        os.write(told, struct.pack("i", os.waitpid(pid, 0)[1]))
        os._exit(0)
    os.close(told)
    for end, number in ((out, 1), (err, 2)):
        os.dup2(end, number)
        os.close(end)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:3] = [environment["PYTHONPATH"]]      # before: the folder of -c, and that of these files
    sys.argv = ["queend", *words]
    runpy.run_module("queend", run_name="__main__", alter_sys=True)
