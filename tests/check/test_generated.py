"""Files that are generated from the code say what the code says."""
from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("tool, page", [("configuration", "configuration"), ("api", "api"), ("cli", "cli"),
                                        ("sql_reference", "sql-reference")])
def test_references_are_what_the_code_says(tool: str, page: str) -> None:
    """In a process of its own: routes come in the order in which modules are imported."""
    made = subprocess.run([sys.executable, ROOT / "tools" / f"{tool}.py"], check=True, capture_output=True, text=True,
                          env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}).stdout
    assert (ROOT / "docs" / f"{page}.md").read_text() == made, "run: make documents"


def test_what_is_made_of_the_queue_options_is_what_the_code_says() -> None:
    for name, make in runpy.run_path(str(ROOT / "tools" / "options.py"))["MADE"].items():
        assert (ROOT / name).read_text() == make(), "run: python tools/options.py"


def test_the_dashboards_of_grafana_are_what_their_table_says() -> None:
    made = runpy.run_path(str(ROOT / "tools/grafana.py"))["dashboards"]()
    stored = {file.name: file.read_text() for file in (ROOT / "monitoring").glob("grafana-*.json")}
    assert stored == made, "run: python tools/grafana.py"


def test_the_types_of_the_typescript_client_are_made_of_the_routes() -> None:
    """Their first line has the hash of what they were made of. `make test-typescript` compares the whole file."""
    code = "import runpy; tool = runpy.run_path('tools/typescript.py'); print(tool['head'](tool['document']()), end='')"
    head = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert (ROOT / "clients/typescript/src/api.ts").read_text().startswith(head), "run: make typescript"
