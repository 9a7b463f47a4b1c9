"""Pages that are typed in from top to bottom: their Python in the published client, their commands beside it. (The
Spark of the tutorial: tests/spark/test_docs.py.)"""
from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess

import pytest
from support.daemon import PACKAGE, ROOT
from support.forked import queend
from support.sdk import HERE, prepare
from support.wait import PATIENCE

# How many outputs are compared, at least.
PAGES = {"tutorial.md": 14, "transactions.md": 5, "delays.md": 10, "streams.md": 6}
# A command goes on in lines that begin with two spaces.
COMMAND = re.compile(r"^\$ ([^\n]*(?:\n  [^\n]*)*)\n((?:(?!\$ ).*\n)*)", re.M)
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
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("QUEEN", "PYTHON", "LD_PRELOAD"))}
        self.url = daemon.url
        self.process = subprocess.Popen(["bash"], env={
            **environment, "QUEEND_URL": daemon.url, "PYTHONPATH": str(PACKAGE), "XDG_CONFIG_HOME": str(folder)},
            cwd="/", text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
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


@pytest.mark.parametrize("page", PAGES)
def test_it_does_what_it_says(start_daemon, tmp_path, page: str) -> None:
    daemon = start_daemon()
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("QUEEN", "PYTHON", "LD_PRELOAD"))}
    blocks = re.findall(r"^```([^\n]*)\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.M | re.S)
    shell, steps = Shell(daemon, tmp_path), 0
    with subprocess.Popen([prepare("2").python, HERE / "sdk_tutorial.py", daemon.url], env=clean, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as python:
        told = ""
        for kind, text in blocks:
            if kind == "python":
                python.stdin.write(f"{json.dumps(text)}\n")
                python.stdin.flush()
                answer = python.stdout.readline()
                assert answer, (text, python.stderr.read(), daemon.story())
                told = json.loads(answer)
            elif kind == "text":
                assert like(told, text), (told, text)
                steps += 1
            elif kind == "" and re.search(r"^\$ .*(queend |curl )", text, re.M):
                for command, promised in COMMAND.findall(text):
                    said = shell.type(command)
                    assert not promised or like(said, promised), (command, said)
                    steps += bool(promised)
        python.stdin.close()
        assert python.wait(PATIENCE) == 0 and steps >= PAGES[page], steps
    shell.close()


def test_a_consumer_that_stops_after_its_message(start_daemon, tmp_path) -> None:
    """Of docs/troubleshooting.md: SIGTERM comes while its handler runs."""
    daemon = start_daemon()
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/troubleshooting.md").read_text(), re.M | re.S)
    (tmp_path / "consumer.py").write_text(code.replace("http://localhost:6632", daemon.url))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("QUEEN", "PYTHON", "LD_PRELOAD"))}
    with daemon.client() as client:
        client.push("orders", {"n": 1})
        with subprocess.Popen([prepare("2").python, tmp_path / "consumer.py"], env=clean, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
            try:
                assert program.stdout.readline() == "billing {'n': 1}\n"
                program.send_signal(signal.SIGTERM)
                assert program.wait(PATIENCE) == 0
            finally:
                program.kill()
        (partition,) = client.get("/api/v1/consumer-groups/billing").json["orders"]["partitions"]
        assert (partition["offset"], partition["leaseActive"]) == (1, False)


def test_the_python_of_the_readme(daemon, tmp_path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    (tmp_path / "readme.py").write_text(code.replace("http://localhost:6632", daemon.url))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("QUEEN", "PYTHON", "LD_PRELOAD"))}
    done = subprocess.run([prepare("2").python, tmp_path / "readme.py"], env=clean, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("{'n': 1}\n"), done
    assert len(code.splitlines()) <= 12
