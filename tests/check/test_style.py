"""Style of every source: ruff for Python, and the length of lines where ruff does not read."""
from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from support.tree import ROOT, tracked

from queend.postgres.migrate import FUNCTION, sql_folder

SQL = sorted(path for name in ("function", "queen") for path in (sql_folder() / name).glob("*.sql"))
LONGEST = 120


def too_long(files: list[str]) -> list[str]:
    """Returns file:line of each line that is longer than 120 columns. Directives of Cython cannot be broken."""
    return [f"{file}:{number}" for file in files
            for number, line in enumerate((ROOT / file).read_text().splitlines(), 1)
            if len(line) > LONGEST and not line.startswith("# cython:")]


def test_python_is_what_ruff_expects() -> None:
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "--no-cache", "--quiet", "--output-format", "concise",
                           "."], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout + done.stderr == ""


def test_no_line_of_cython_c_or_sql_is_too_long() -> None:
    files = tracked("*.pyx", "*.pxd", "*.pxi", "queend/*.h", "sql/function/*.sql", "sql/queen/*.sql",
                    "sql/former/*.sql", "systemd/*")
    assert len(files) > 250
    assert too_long(files) == []


def test_a_line_that_is_too_long_is_seen(tmp_path: Path) -> None:
    (tmp_path / "long.pyx").write_text("# cython: " + "x" * 200 + "\nshort\n" + "x" * 121 + "\n" + "x" * 120 + "\n")
    assert too_long([str(tmp_path / "long.pyx")]) == [f"{tmp_path}/long.pyx:3"]
    (tmp_path / "long.py").write_text(f"value = {'1' * 120}\nmissing()\n")
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "--no-cache", "--config", ROOT / "pyproject.toml",
                           "--output-format", "concise", "long.py"], cwd=tmp_path, capture_output=True, text=True)
    assert "long.py:1:121: E501" in done.stdout and "long.py:2:1: F821" in done.stdout


@pytest.mark.parametrize("path", SQL, ids=[f"{path.parent.name}/{path.stem}" for path in SQL])
def test_a_file_of_sql_opens_with_what_it_holds(path: Path) -> None:
    assert path.read_text().startswith("-- ")


@pytest.mark.parametrize("path", SQL, ids=[f"{path.parent.name}/{path.stem}" for path in SQL])
def test_a_literal_of_sql_means_the_same_in_every_session(path: Path) -> None:
    """With standard_conforming_strings off, a backslash in a literal without E begins an escape. Bodies of functions
    are read by the sessions that call them; comments of functions by the daemon's alone."""
    code = re.sub(r"^COMMENT ON .*?';$", "", path.read_text(), flags=re.M | re.S)
    literals = re.findall(r"--[^\n]*|(\b[eE])?('(?:[^']|'')*')", code)
    assert [text for escaped, text in literals if "\\" in text and not escaped] == []


def test_a_function_of_the_daemon_stands_in_one_place() -> None:
    places = Counter(name for path in SQL for schema, name in FUNCTION.findall(path.read_text())
                     if schema == "queend")
    assert [name for name, count in places.items() if count > 1] == []
