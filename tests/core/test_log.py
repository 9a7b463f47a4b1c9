"""Log lines are for machines too: one JSON object per line whatever the detail says, never longer than promised."""
import json
import os
import re
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from queend._core import probe_log
from support.forked import PACKAGE
from support.sanitizer import preloaded
from support.wait import PATIENCE

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(TEXT, st.integers(1, 400))
@example("é", 2000)
@example("x€", 1000)
@example('"', 3000)
@example("\\", 3000)
@example("a\U0001f600", 1000)
@example(" \n", 1)
def test_every_detail_makes_one_valid_line(capfd, text, times):
    detail = text * times
    probe_log(b"warn", b"something_happened", detail.encode())
    line = capfd.readouterr().err
    assert line.endswith("}\n") and line.count("\n") == 1 and len(line.encode()) <= 2048
    told = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told["time"])
    assert (told["level"], told["event"]) == ("warn", "something_happened")
    smooth = re.sub(r"[\x01-\x20\x7f]+", " ", re.sub(r"\n+\Z", "", detail))
    assert smooth.startswith(told["detail"])
    if len(json.dumps(smooth, ensure_ascii=False).encode()) < 1900:
        assert told["detail"] == smooth


@pytest.mark.parametrize("blanks", [0, 1500])
def test_a_secret_is_hidden_where_the_detail_is_cut_within_it_too(capfd, blanks):
    secret, before = "correct horse battery staple", "x" * (2030 - blanks)
    for detail in (f"a {secret} b", " " * blanks + before + secret):
        probe_log(b"warn", b"something_happened", detail.encode(), secret.encode())
        told = json.loads(capfd.readouterr().err)["detail"]
        assert "corr" not in told and told.startswith("a *" if detail[0] == "a" else " x"[not blanks])


@pytest.mark.parametrize("text, times", [("x\n\n\n\U0001f600", 300), ("\n\n\u20ac", 500), ("\u00e9", 1024)])
def test_a_detail_that_is_cut_ends_with_a_whole_character(capfd, text, times):
    probe_log(b"warn", b"something_happened", (text * times).encode(), b"secret")
    told = json.loads(capfd.readouterr().err)["detail"]
    assert re.sub(r"\n+", " ", text * times).startswith(told) and len(told) > 700


def test_a_line_without_detail(capfd):
    probe_log(b"info", b"began", None)
    assert json.loads(capfd.readouterr().err).keys() == {"time", "level", "event"}


@pytest.mark.parametrize("level,written",
                         [("trace", False), ("debug", False), ("info", True), ("warn", True), ("error", True)])
def test_levels_from_info_on_are_written(capfd, level, written):
    probe_log(level.encode(), b"noise", None)
    assert (capfd.readouterr().err != "") == written


WRITES = """
import sys
from queend._core import log_write
write = lambda n, ms: log_write(b"%d" % n + b"x" * 4000 + b"\\n", ms)
for n in range(100):     # more than a pipe takes
    write(n, 0)
print("full", flush=True)
write(100, 170000)
"""


def test_a_line_that_waits_for_its_reader_comes_behind_the_number_of_those_that_were_dropped():
    with subprocess.Popen([sys.executable, "-c", WRITES], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=preloaded({**os.environ, "PYTHONPATH": str(PACKAGE)})) as process:
        assert process.stdout.readline() == "full\n"
        lines = process.stderr.readlines()
        assert process.wait(PATIENCE) == 0
    *taken, dropped, last = lines
    assert [int(line.rstrip("x\n")) for line in taken] == list(range(len(taken))) and last.startswith("100x")
    assert json.loads(dropped).items() >= {"event": "log_lines_dropped", "lines": 100 - len(taken)}.items()
