"""The streams of the published SDK, unmodified, in both its generations, against the daemon."""
from __future__ import annotations

import json
import os
import subprocess

import psycopg
import pytest
from support.wait import until
from test_sdk import CALLED, GENERATIONS, HERE, METHODS, NEVER, TOKENS, bearer, documented, prepare

CASES = 16


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_operator(start_daemon, generation: str) -> None:
    """Maps, filters, windows of every kind by the clock and by event time, gates, late messages, idle flush, another chain under
    the same name, reset, a stream that is stopped and resumed, several on one source."""
    one = start_daemon()
    done = prepare(generation).run("sdk_streams.py", one)
    assert sum(line.isidentifier() or "-" in line for line in done) >= CASES, done
    one.stop()


def test_daemons_that_are_killed_under_a_stream(start_daemon) -> None:
    """SIGKILL in the middle, twice; the SDK goes on with the next one on the same port."""
    one = start_daemon(NUM_WORKERS=1)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("QUEEN", "PYTHON", "LD_PRELOAD"))}
    with psycopg.connect(one.conninfo, autocommit=True) as connection, subprocess.Popen(
            [prepare("2").python, HERE / "sdk_streams.py", one.url, "survives"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as script:

        def consumed() -> int:
            return connection.execute("SELECT coalesce(sum(committed + 1), 0)::int FROM queend.cursors k JOIN queend.consumer_groups g ON g.id = k.group_id"
                                      " WHERE g.name = 'streams.s-survives'").fetchone()[0]

        assert script.stdout.readline() == "runs\n", script.stderr.read()
        for least in (200, 1000):
            until(lambda least=least: consumed() >= least or script.poll() is not None, "the stream goes on", 60)
            one.kill()
            one = start_daemon(one.conninfo, NUM_WORKERS=1, PORT=one.port)
        out, error = script.communicate(timeout=120)
        assert script.returncode == 0, f"{out[-2000:]}{error[-3000:]}"
        assert consumed() == 2010
    one.stop()


@pytest.mark.parametrize("tokens", [{}, TOKENS], ids=["open", "tokens"])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_public_method_was_called(start_daemon, tmp_path, generation: str, tokens: dict) -> None:
    """By the scripts of this folder, of a daemon without tokens and of one with them; a script that did not run in this session yet runs now."""
    sdk, options = prepare(generation), json.dumps({"bearer_token": bearer()} if tokens else {})
    scripts = {"sdk_calls.py": (generation, options), "sdk_admin.py": (generation, options)} | ({} if tokens else {"sdk_streams.py": ()})
    for script, arguments in scripts.items():
        if (generation, script, bool(tokens)) not in CALLED:
            one = start_daemon(QUEEND_BUFFER_BYTES=1 << 20, FILE_BUFFER_DIR=tmp_path / script, **tokens)
            sdk.run(script, one, *arguments)
            one.stop()
    called = set().union(*(names for (of, _, on), names in CALLED.items() if (of, on) == (generation, bool(tokens))))
    asked = {name for name in METHODS[generation] if not (tokens and name.startswith("Stream."))}
    told = documented(generation)
    assert asked - called == {name for name in asked if told[name] in NEVER}
