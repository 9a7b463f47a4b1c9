"""`queend worker` as a process: signals, kills, a network that breaks. Nothing is lost, nothing is doubled, and no
lease is left longer than it may be."""
from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.both import Lossy
from support.client import Client as Plain
from support.daemon import PACKAGE, Daemon
from support.forked import queend
from support.wait import PATIENCE, until

PROGRAM = '''
import asyncio, pathlib, time
from queend.client import App

app = App(deadline=120, timeout=120)
folder = pathlib.Path(__file__).parent

def told(message, word):
    with (folder / word).open("a") as file:
        file.write(f"{message.data}\\n")

@app.worker("QUEUE", lease=LEASE, poll=0.1, concurrency=2)
async def waits(message, context):
    told(message, "begun")
    while not (folder / "go").exists():
        await asyncio.sleep(0.01)
    context.push("QUEUE-out", message.data, partition=message.partition)
    told(message, "ended")

@app.worker("QUEUE", lease=LEASE, poll=0.1)
def blocks(message):
    told(message, "begun")
    while not (folder / "go").exists():
        time.sleep(0.01)
    told(message, "ended")

@app.worker("QUEUE", lease=LEASE, poll=0.1)
async def deaf(message):
    told(message, "begun")
    while True:
        time.sleep(0.01)

@app.worker("QUEUE", lease=LEASE, poll=1, concurrency=3)
async def moves(message, context):
    context.push("QUEUE-out", message.data, partition=message.partition)
'''


class Program:
    """A program with workers in a folder of its own."""

    def __init__(self, folder: Path, queue: str, lease: int):
        self.folder, self.running = folder, []
        (folder / "shop.py").write_text(PROGRAM.replace("QUEUE", queue).replace("LEASE", str(lease)))

    def start(self, url: str, *words: str) -> subprocess.Popen[str]:
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE), "QUEEND_URL": url}
        one = subprocess.Popen([*queend(), "worker", *words], cwd=self.folder, text=True,
                               env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.running.append(one)
        return one

    def told(self, word: str) -> list[int]:
        file = self.folder / word
        return [int(line) for line in file.read_text().splitlines()] if file.exists() else []

    def await_begun(self, number: int = 1) -> None:
        until(lambda: len(self.told("begun")) >= number, f"{number} handlers have begun")

    def go(self) -> None:
        (self.folder / "go").touch()


@pytest.fixture
def program(tmp_path: Path, queue: str) -> Iterator[Callable[[int], Program]]:
    made: list[Program] = []

    def make(lease: int) -> Program:
        made.append(Program(tmp_path, queue, lease))
        return made[-1]

    yield make
    for one in made:
        for process in one.running:
            process.kill()
            process.communicate()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("worker", ["waits", "blocks"])
def test_a_signal_lets_handlers_end(program: Any, daemon: Daemon, client: Plain, queue: str, worker: str,
                                    number: int) -> None:
    one = program(600)
    client.push(queue, 1, 2, 3)
    process = one.start(daemon.url, "shop:app", worker)
    one.await_begun()
    process.send_signal(number)
    until(lambda: "stopping" in process.stdout.readline(), "the worker knows that it is to stop")
    one.go()
    assert ended(process)[0] == 0
    assert one.told("begun") == one.told("ended") == [1]
    assert [m["data"] for m in client.pop(queue, batch=9)] == [2, 3], "given back at once"


def test_an_idle_worker_stops(program: Any, daemon: Daemon, client: Plain, queue: str) -> None:
    client.push(queue, 1)
    one = program(600)
    one.go()
    process = one.start(daemon.url, "shop:app", "waits", "--grace", "100")
    until(lambda: one.told("ended") == [1], "the message is handled")
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 0 and client.pop(queue) == []
    client.push(queue, 2)
    assert [m["data"] for m in client.pop(queue)] == [2], "no pop of the worker waits any more"


@pytest.mark.parametrize("worker", ["waits", "blocks", "deaf"])
def test_a_second_signal_cuts_handlers_off(program: Any, daemon: Daemon, client: Plain, queue: str,
                                           worker: str) -> None:
    """The last one blocks the event loop of the handlers for ever."""
    one = program(600)
    client.push(queue, 1)
    process = one.start(daemon.url, "shop:app", worker, "--grace", "1000")
    one.await_begun()
    process.send_signal(signal.SIGTERM)
    until(lambda: "stopping" in process.stdout.readline(), "the worker knows that it is to stop")
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 1
    assert [m["data"] for m in client.pop(queue)] == [1], "given back at once"


def test_the_grace_is_bounded(program: Any, daemon: Daemon, client: Plain, queue: str) -> None:
    one = program(600)
    client.push(queue, 1)
    process = one.start(daemon.url, "shop:app", "waits", "--grace", "0.1")
    one.await_begun()
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 1
    assert [m["data"] for m in client.pop(queue)] == [1]


def test_a_killed_worker_leaves_its_lease_alone(program: Any, daemon: Daemon, client: Plain, queue: str) -> None:
    one = program(2)
    client.push(queue, 1)
    process = one.start(daemon.url, "shop:app", "waits")
    one.await_begun()
    process.kill()
    process.wait()
    (message,) = until(lambda: client.pop(queue), "the lease ends")
    assert message["data"] == 1 and client.pop(f"{queue}-out") == []


def test_a_network_that_breaks_while_a_handler_runs(program: Any, daemon: Daemon, network: Lossy, client: Plain,
                                                    queue: str) -> None:
    """The lease is kept by the connections that follow, and the answer to the transaction is lost."""
    one = program(600)
    client.push(queue, 1)
    process = one.start(network.url, "shop:app", "waits")
    one.await_begun()
    network.cut()
    network.lose("POST /api/v1/transaction", answers=True)
    one.go()
    until(lambda: network.lost == 1, "the answer is lost")
    until(lambda: client.get(f"/api/v1/resources/queues/{queue}/depth").json["pending"] == 0, "the message is done")
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 0
    assert one.told("begun") == [1] and [m["data"] for m in client.pop(f"{queue}-out", batch=9)] == [1]


def test_random_ends(program: Any, daemon: Daemon, network: Lossy, client: Plain, queue: str) -> None:
    """Workers move messages while they are killed and stopped, and while requests and answers are lost."""
    draw = random.Random(3)
    one = program(1)
    everything = range(300)
    for n in everything:
        client.push(queue, n, partition=f"p{n % 5}")
    lost = network.rule

    def rule(to_server: bool, data: bytes) -> list[Any]:
        if not network.left and draw.random() < 0.03:
            network.lose("", answers=draw.random() < 0.5)
        return lost(to_server, data)

    network.rule = rule

    def moved() -> int:
        return client.get(f"/api/v1/resources/queues/{queue}-out/depth").json.get("pending", 0)

    process = one.start(network.url, "shop:app", "moves")
    for step in range(4):
        goal = (step + 1) * 50
        until(lambda: moved() >= goal, f"{goal} messages have moved")
        process.send_signal(draw.choice([signal.SIGKILL, signal.SIGTERM]))
        ended(process)
        process = one.start(network.url, "shop:app", "moves")
    until(lambda: moved() >= len(everything), "all messages have moved")
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 0
    out = client.pop(f"{queue}-out", batch=1000, partitions=9)
    assert sorted(m["data"] for m in out) == list(everything)
    for part in range(5):
        numbers = [m["data"] for m in out if m["partition"] == f"p{part}"]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize(("words", "text"), [
    (["shop"], "not of the form MODULE:APP"), (["nothing:app"], "no module 'nothing'"),
    (["shop:none"], "has no 'none'"), (["shop:told"], "not a queend.client.App"),
    (["shop:app", "nobody"], "no worker 'nobody'"),
    (["shop:app", "--log-level", "loud"], "no log level")])
def test_slips_of_the_command_line(program: Any, words: list[str], text: str) -> None:
    status, output = ended(program(1).start("http://127.0.0.1:1", *words))
    assert status == 2 and text in output and "Traceback" not in output


def test_an_option_of_other_commands(program: Any) -> None:
    one = program(1)
    done = subprocess.run([sys.executable, "-m", "queend", "--url", "http://x", "worker", "shop:app"], cwd=one.folder,
                          env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True)
    assert done.returncode == 2 and "--url has no effect" in done.stderr


def test_without_httpx_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['httpx'] = None; sys.argv = ['queend', 'worker', 'shop:app']; " \
           "from queend.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE)},
                          capture_output=True, text=True)
    assert done.returncode == 2 and "install queend with its extra `client`" in done.stderr
