"""The client needs httpx and the standard library alone, and nothing else of queend, so it could be published alone.
A middleware needs opentelemetry; the client does not import it."""
from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CLIENT = Path(__file__).resolve().parents[2] / "queend" / "client"
FILES = sorted(CLIENT.glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_file_imports_what_is_allowed(file: Path) -> None:
    nodes = list(ast.walk(ast.parse(file.read_text())))
    found = {name.name.partition(".")[0] for node in nodes if isinstance(node, ast.Import) for name in node.names}
    found |= {(node.module or "").partition(".")[0] for node in nodes
              if isinstance(node, ast.ImportFrom) and node.level == 0}
    optional = {file.stem} & {"opentelemetry"}
    assert found - sys.stdlib_module_names <= {"httpx"} | optional
    assert all(node.level <= 1 for node in nodes if isinstance(node, ast.ImportFrom))


def test_a_copy_of_another_name_works(tmp_path: Path) -> None:
    shutil.copytree(CLIENT, tmp_path / "queend_client", ignore=shutil.ignore_patterns("__pycache__"))
    code = "import sys, queend_client as q; q.Client(); print([n for n in sys.modules if n.startswith('queend.')])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_importing_it_does_not_import_the_core() -> None:
    code = ("import sys, queend.client; "
            "print(*(name in sys.modules for name in ('queend._core', 'typer', 'opentelemetry')))")
    done = subprocess.run([sys.executable, "-c", code], cwd=CLIENT.parents[1], capture_output=True, text=True,
                          check=True)
    assert done.stdout == "False False False\n"


def test_it_says_that_it_is_typed() -> None:
    assert (CLIENT / "py.typed").exists()
