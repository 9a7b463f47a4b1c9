"""The streams of the published SDK, unmodified, in both its generations, against the daemon."""
from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from support.daemon import Daemon
from support.ports import free_port
from support.wait import PATIENCE, until
from support.sdk import GENERATIONS, HERE, NEVER, TOKENS, bearer, documented, prepare, producers

CASES = 17


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_operator(start_daemon, generation: str) -> None:
    """Maps, filters, windows of every kind by the clock and by event time, gates, late messages, idle flush, another
    chain under the same name, reset, a stream that is stopped and resumed, cycles that are refused, several on one
    source; without tokens, and with."""
    sdk, (open_, guarded) = prepare(generation), (start_daemon(), start_daemon(**TOKENS))

    def run(one: Daemon, token: str) -> None:
        done = sdk.run("sdk_streams.py", one, token)
        assert sum(line.isidentifier() or "-" in line for line in done) >= CASES, done

    with ThreadPoolExecutor() as both:
        list(both.map(run, (open_, guarded), ("", bearer("read-write"))))
    assert producers(guarded) == {"the sdk"}
    open_.stop()
    guarded.stop()


def test_daemons_that_are_killed_under_a_stream(start_daemon) -> None:
    """SIGKILL in the middle, twice; the SDK goes on with the next one on the same port. Only the first and the last
    want its token."""
    one = start_daemon(NUM_WORKERS=1, PORT=free_port(), **TOKENS)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("QUEEN", "PYTHON", "LD_PRELOAD"))}
    with psycopg.connect(one.conninfo, autocommit=True) as connection, subprocess.Popen(
            [prepare("2").python, HERE / "sdk_streams.py", one.url, bearer("read-write"), "survives"], env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as script:

        def consumed() -> int:
            return connection.execute("SELECT coalesce(sum(committed + 1), 0)::int FROM queend.cursors k"
                                      " JOIN queend.consumer_groups g ON g.id = k.group_id"
                                      " WHERE g.name = 'streams.s-survives'").fetchone()[0]

        assert script.stdout.readline() == "runs\n", script.stderr.read()
        for least, settings in ((200, {}), (1000, TOKENS)):
            until(lambda least=least: consumed() >= least or script.poll() is not None, "the stream goes on")
            one.kill()
            one = start_daemon(one.conninfo, NUM_WORKERS=1, PORT=one.port, **settings)
        out, error = script.communicate(timeout=PATIENCE)
        assert script.returncode == 0, f"{out[-2000:]}{error[-3000:]}"
        assert consumed() == 2010
    one.stop()


@pytest.mark.parametrize("tokens", [{}, TOKENS], ids=["open", "tokens"])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_public_method_was_called(start_daemon, tmp_path, generation: str, tokens: dict) -> None:
    """By the scripts of this folder, of a daemon without tokens and of one with them; a script that did not run yet
    runs now."""
    sdk, token = prepare(generation), bearer() if tokens else ""
    options = json.dumps({"bearer_token": token or None})
    scripts = {"sdk_calls.py": (generation, options), "sdk_admin.py": (generation, options), "sdk_streams.py": (token,)}
    for script, arguments in scripts.items():
        if sdk.called(script, bool(tokens)) is None:
            one = start_daemon(QUEEND_BUFFER_BYTES=1 << 20, FILE_BUFFER_DIR=tmp_path / script, **tokens)
            sdk.run(script, one, *arguments)
            one.stop()
    called = set().union(*(sdk.called(script, bool(tokens)) for script in scripts))
    told = documented(generation)
    assert sdk.methods() - called == {name for name in sdk.methods() if told[name] in NEVER}


@pytest.mark.parametrize("generation", GENERATIONS)
def test_no_window_is_emitted_twice(start_daemon, generation: str) -> None:
    """The clients flush on a timer beside their main loop: both read a window before either closes it. WINDOW_RUNS=50:
    `make test-windows`."""
    runs = int(os.environ.get("WINDOW_RUNS", "5"))
    done = prepare(generation).run("sdk_windows.py", start_daemon(), "", str(runs))
    assert sorted(int(line) for line in done if line.isdigit()) == list(range(runs)), done
