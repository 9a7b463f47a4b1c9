"""The published Python SDK, unmodified, in both its generations, against the daemon."""
from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import psycopg
import pytest
from support.daemon import Daemon
from support.sdk import GENERATIONS, HERE, LEVELS, NEVER, TOKENS, WIRES, bearer, documented, prepare, producers


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_public_method_is_documented(generation: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LD_PRELOAD"))}
    there = subprocess.run([prepare(generation).python, HERE / "sdk_covered.py"], capture_output=True, text=True,
                           env=environment, check=True).stdout.split()
    told = documented(generation)
    assert sorted(told) == there and set(told.values()) <= {"equal", "different", "added", *NEVER}


@pytest.fixture
def daemon_of_its_own(start_daemon) -> Daemon:
    daemon = start_daemon()
    yield daemon
    daemon.stop()


ALL = [("0.15", "json"), *(("2", wire) for wire in WIRES)]


@pytest.mark.parametrize("generation, wire", ALL[:-1])      # all at once: with a token
def test_calls(daemon_of_its_own: Daemon, generation: str, wire: str) -> None:
    sdk = prepare(generation)
    assert len(sdk.run("sdk_calls.py", daemon_of_its_own, generation, json.dumps(WIRES[wire]))) >= 14


@pytest.mark.parametrize("generation, wire", [("0.15", "json"), ("2", "json"), ("2", "all")])
def test_calls_with_a_token(start_daemon, generation: str, wire: str) -> None:
    daemon = start_daemon(**TOKENS)
    options = {**WIRES[wire], "bearer_token": bearer()}
    assert len(prepare(generation).run("sdk_calls.py", daemon, generation, json.dumps(options))) >= 14
    assert producers(daemon) == {"the sdk"}, "every message tells who stored it"
    daemon.stop()


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("tokens", [{}, TOKENS], ids=["open", "tokens"])
def test_administration(start_daemon, tmp_path: Path, generation: str, tokens: dict) -> None:
    """With tokens: what a token of every level, and none, is refused of it, too."""
    daemon, sdk = start_daemon(QUEEND_BUFFER_BYTES=1 << 20, FILE_BUFFER_DIR=tmp_path, **tokens), prepare(generation)
    assert len(sdk.run("sdk_admin.py", daemon, generation,
                       json.dumps({"bearer_token": bearer()} if tokens else {}))) >= 8
    if tokens:
        assert sdk.run("sdk_refused.py", daemon, generation,
                       json.dumps({"": None, **{role: bearer(role) for role in LEVELS}}))[-1] == "refused"
    daemon.stop()


@pytest.mark.parametrize("generation, wire", [("0.15", "json"), ("2", "json"), ("2", "all")])
def test_load(daemon_of_its_own: Daemon, generation: str, wire: str, request: pytest.FixtureRequest) -> None:
    """20 messages in each of 300 partitions, 40 over the binary wires: a client compresses no fewer of a partition.
    With --sdk-tests 1000 partitions, and 100 messages in each of the newer client. Nothing lost, nothing twice, nothing
    out of order inside a partition: the script sees to the last two."""
    sdk, whole = prepare(generation), request.config.getoption("--sdk-tests")
    partitions = 1000 if whole else 300
    each = 40 if wire == "all" else 100 if whole and generation == "2" else 20
    seen = json.loads(sdk.run("sdk_scenario.py", daemon_of_its_own, str(sdk.batch), str(partitions), str(each),
                              json.dumps(WIRES[wire]))[-1])
    print(seen)
    assert seen["crashed"] > 0 and seen["left"] == 0
    assert [seen[key] for key in ("queued", "workers", "movers", "moved", "replay")] == [partitions * each] * 5
    assert framed_rows(daemon_of_its_own) == (
        "push_compression" in WIRES[wire]), "rows are stored as the client framed them"


def framed_rows(daemon: Daemon) -> bool:
    with psycopg.connect(daemon.conninfo) as connection:
        return connection.execute("SELECT EXISTS (SELECT 1 FROM queend.log"
                                  " WHERE get_byte(body, 0) = 18)").fetchone() == (True,)
