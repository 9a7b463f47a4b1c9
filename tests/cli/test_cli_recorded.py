"""docs/inside/terminals.md: what commands print at terminals of 60 and 80 columns, recorded anew."""
from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from support.daemon import ROOT, Daemon
from support.prepared import data_folder


@pytest.mark.daemon
def test_the_recorded_terminals_are_what_commands_print(tmp_path: Path) -> None:
    tool = runpy.run_path(str(ROOT / "tools/terminals.py"))
    with Daemon.own(data_folder(tmp_path / "data")) as daemon:
        daemon.await_ready()
        made = tool["document"](daemon.url)
        assert daemon.end() == 0
    assert (ROOT / "docs/inside/terminals.md").read_text() == made, "run: make documents"
