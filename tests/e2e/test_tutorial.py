"""Pages that are typed in from top to bottom: their Python, and their commands beside it. Streams need the published
client. (The Spark of the tutorial: tests/spark/test_docs.py.)"""
from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from support.daemon import PACKAGE, ROOT
from support.forked import queend
from support.sdk import HERE, prepare
from support.wait import PATIENCE

# How many outputs are compared, at least.
PAGES = {"tutorial.md": 15, "transactions.md": 5, "delays.md": 10, "streams.md": 6, "languages.md": 3,
         "kv.md": 3, "headers.md": 4, "locks.md": 2, "conflation.md": 3, "ephemeral.md": 6, "timers.md": 3}
PUBLISHED = {"streams.md"}     # its Python uses the published client
# A command goes on in lines that begin with two spaces.
COMMAND = re.compile(r"^\$ ([^\n]*(?:\n  [^\n]*)*)\n((?:(?!\$ ).*\n)*)", re.M)
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("QUEEN", "PYTHON", "LD_PRELOAD"))}
OWN = {**CLEAN, "PYTHONPATH": str(PACKAGE)}
# What the shell of a page knows. Each command is followed by a line with its status.
SHELL = """queend() {{ {queend} "$@"; }}
curl() {{ command curl -sS "$@"; }}
"""
END = "end of the command, status"


def like(got: str, promised: str) -> bool:
    return bool(re.fullmatch(".*".join(map(re.escape, promised.strip().split("…"))), got.strip(), re.S))


class Shell:
    """A shell that keeps its variables from command to command."""

    def __init__(self, daemon, folder) -> None:
        self.url = daemon.url
        self.process = subprocess.Popen(["bash"], env={
            **OWN, "QUEEND_URL": daemon.url, "XDG_CONFIG_HOME": str(folder)}, cwd="/", text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.process.stdin.write(SHELL.format(queend=shlex.join(queend())))

    def type(self, command: str) -> str:
        """Returns the output of a command that ends with status 0."""
        typed = command.replace("localhost:6632", self.url.removeprefix("http://"))
        self.process.stdin.write(f'{{ {typed}\n}} < /dev/null\nS=$?; echo; echo "{END} $S"\n')
        self.process.stdin.flush()
        lines: list[str] = []
        for line in self.process.stdout:
            if line.startswith(END):
                assert line == f"{END} 0\n", (command, lines)
                return "".join(lines)
            lines.append(line)
        raise AssertionError((command, lines))

    def close(self) -> None:
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0


@contextmanager
def running(words: list[object], folder: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen]:
    """A program that is killed at the end of the block, if it still runs."""
    with subprocess.Popen(list(map(str, words)), cwd=folder, env=environment, text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        try:
            yield program
        finally:
            program.kill()


def stop(program: subprocess.Popen) -> None:
    program.send_signal(signal.SIGTERM)
    assert program.wait(PATIENCE) == 0


@pytest.mark.parametrize("page", PAGES)
def test_it_does_what_it_says(start_daemon, tmp_path, page: str) -> None:
    daemon = start_daemon()
    interpreter, environment = (prepare("2").python, CLEAN) if page in PUBLISHED else (sys.executable, OWN)
    blocks = re.findall(r"^```([^\n]*)\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.M | re.S)
    shell, steps, workers = Shell(daemon, tmp_path), 0, []
    with ExitStack() as programs:
        python = programs.enter_context(running([interpreter, HERE / "sdk_tutorial.py", daemon.url], tmp_path,
                                                environment))
        told = ""
        for kind, text in blocks:
            if kind == "python" and (file := re.match(r"# (\S+\.py)\n", text)):
                (tmp_path / file[1]).write_text(text.replace("http://localhost:6632", daemon.url))
            elif kind == "python":
                python.stdin.write(f"{json.dumps(text)}\n")
                python.stdin.flush()
                answer = python.stdout.readline()
                assert answer, (text, daemon.story())
                told = json.loads(answer)
            elif kind == "text":
                assert like(told, text), (told, text)
                steps += 1
            elif kind == "" and (command := re.match(r"\$ queend (worker .*)\n", text)):
                workers.append(programs.enter_context(running([*queend(), *command[1].split()], tmp_path, OWN)))
            elif kind == "" and re.search(r"^\$ .*(queend |curl )", text, re.M):
                for command, promised in COMMAND.findall(text):
                    said = shell.type(command)
                    assert not promised or like(said, promised), (command, said)
                    steps += bool(promised)
        for worker in workers:
            stop(worker)
        python.stdin.close()
        assert python.wait(PATIENCE) == 0 and steps >= PAGES[page], steps
    shell.close()


def program_of(page: str, place: int = 0) -> str:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)[place]


@pytest.mark.parametrize("kind", ["own", "published"])
def test_a_consumer_that_stops_after_its_message(start_daemon, tmp_path, kind: str) -> None:
    """Of docs/troubleshooting.md: SIGTERM comes while its handler runs."""
    daemon, published = start_daemon(), kind == "published"
    code = program_of("docs/troubleshooting.md", published)
    (command,) = re.findall("^queend worker .*", (ROOT / "docs/troubleshooting.md").read_text(), re.M)
    (tmp_path / "billing.py").write_text(code.replace("http://localhost:6632", daemon.url))
    words = [prepare("2").python, "billing.py"] if published else [*queend(), *command.split()[1:]]
    with daemon.client() as client:
        client.push("orders", {"n": 1})
        with running(words, tmp_path, CLEAN if published else OWN) as program:
            assert program.stdout.readline() == "billing {'n': 1}\n"
            stop(program)
        (partition,) = client.get("/api/v1/consumer-groups/billing").json["orders"]["partitions"]
        assert (partition["offset"], partition["leaseActive"]) == (1, False)


def test_the_python_of_the_readme(daemon, tmp_path) -> None:
    (tmp_path / "readme.py").write_text(program_of("README.md").replace("http://localhost:6632", daemon.url))
    done = subprocess.run([sys.executable, tmp_path / "readme.py"], env=OWN, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "{'n': 1}\n", done
    assert len(program_of("README.md").splitlines()) <= 12
