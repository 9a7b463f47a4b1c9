"""An interpreter that has imported the daemon and its libraries, and is forked for each daemon: to import them takes
longer than all else a daemon does until it is ready. Nothing of the daemon looks at its environment or begins anything
when it is imported; those that `Daemon.plain` starts import it themselves.

A second such interpreter has imported the commands (`queend`). It is forked for each command whose start is not what a
test is about: to import a command takes 0.3 s of the processor, `serve` 0.7 s.

Between an interpreter and what it is forked for stands a process that waits for the end and tells the status.
"""
from __future__ import annotations

import array
import ast
import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
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

import queend as package

PACKAGE = Path(package.__file__).parent.parent   # the build under test: in the checkout, or the sanitizers' one
IMPORTED = ("queend.cli.serve", "queend.daemon.supervisor", "prometheus_client")
MOST = 1 << 17      # bytes of an environment
# What counts when an interpreter starts; who has another one needs a new interpreter.
AT_START = ("LD_", "PYTHON", "MALLOC", "LANG", "LC_", "TZ")
COMMANDS = (*IMPORTED, "queend.client", "queend.control.options", "queend.services.backup",
            "queend.services.importing.run", "encodings.idna", "stringprep")      # besides the modules of queend.cli
STUB = Path(__file__).with_name("stub.py")
_lock = threading.Lock()
_asks: socket.socket | None = None
_commands: str = ""     # where the interpreter of the commands listens


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


def queend() -> list[str]:
    """Returns the beginning of a command line that does what `python -m queend` does, in a fork of the interpreter that
    has imported the commands. With variables that an interpreter reads when it starts, or another PYTHONPATH than that
    of the package under test, the process becomes `python -m queend` itself. SIGINT and SIGTERM reach the command, and
    SIGKILL ends it; limits and a controlling terminal do not reach it."""
    global _commands
    # Imported here: that file imports this one, and the benchmark, which imports this one, has no such folder.
    from .sanitizer import PRELOAD
    from .shared import SHARED
    if PRELOAD:      # the core needs the runtime of the sanitizer, the commands do not load the core
        return [sys.executable, "-m", "queend"]
    with _lock:
        if not _commands:
            _commands = str(SHARED / f"commands-{os.getpid()}")
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            listener.bind(_commands)
            listener.listen(64)
            ended, end = os.pipe()
            with listener:
                one = _interpreter(f"commands({listener.fileno()}, {ended})", listener.fileno(), ended)
            os.close(ended)
            atexit.register(lambda: (os.close(end), one.wait()))
    return [sys.executable, "-I", "-S", str(STUB), _commands, str(PACKAGE)]


def _interpreter(call: str, *ends: int) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", f"from support import forked; forked.{call}"], cwd="/",
                            pass_fds=ends, stdin=subprocess.DEVNULL,
                            env={**os.environ, "PYTHONPATH": f"{Path(__file__).parents[1]}:{PACKAGE}"})


def _opened() -> socket.socket:
    """The interpreter's end of the line; it ends with this process."""
    global _asks
    if _asks is None:
        _asks, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            one = _interpreter(f"main({theirs.fileno()})", theirs.fileno())
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


def commands(number: int, ended: int) -> None:
    """Forks for each connection to the listening socket `number`, until `ended` is closed."""
    listener = socket.socket(fileno=number)
    cli = importlib.import_module("queend.cli")
    for name in (*COMMANDS, *(f"queend.cli.{one.name}" for one in pkgutil.iter_modules(cli.__path__))):
        importlib.import_module(name)
    importlib.import_module("queend.control.routes").routers()   # imports all of its folder
    gc.freeze()
    signal.signal(signal.SIGCHLD, _reap)
    while ended not in select.select([listener, ended], [], [])[0]:
        asks, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            os.close(ended)
            _become(asks)
            return
        asks.close()


def _become(asks: socket.socket) -> None:
    """Returns in the process that is the command of this connection. The three standard files are made anew: how they
    buffer depends on what is behind them."""
    asked, ends, _, _ = socket.recv_fds(asks, MOST, 3)
    folder, words, environment = ast.literal_eval(asked.decode())
    pid = os.fork()
    if pid:
        for end in ends:
            os.close(end)
        asks.send(struct.pack("i", pid))
        ended = os.pidfd_open(pid)
        if ended not in select.select([asks, ended], [], [])[0]:
            os.kill(pid, signal.SIGKILL)      # the process that stands for the command was killed
        with contextlib.suppress(BrokenPipeError):
            asks.send(struct.pack("i", os.waitpid(pid, 0)[1]))
        os._exit(0)
    asks.close()
    for number, end in enumerate(ends):
        os.dup2(end, number)
        os.close(end)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)
    sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path[:3] = [os.getcwd(), str(PACKAGE)]      # before: the folder of -c, and that of these files
    sys.argv = ["queend", *words]
    try:
        runpy.run_module("queend", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        _end(ended.code or 0)
    else:
        _end(0)


def _end(status: int) -> None:
    """Ends the process as an interpreter ends, but leaves its objects alone: to free those of all imported modules
    copies their memory, which takes longer than most commands. If an output cannot be written, it ends as usual."""
    threading._shutdown()
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


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
