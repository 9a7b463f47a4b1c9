"""Pieces of configuration that a page of docs/ shows, for the tests that use them."""
from __future__ import annotations

import re
import subprocess

from .daemon import ROOT


def blocks(page: str, language: str) -> list[str]:
    """Returns the page's code blocks of this language."""
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.M | re.S)


def settings_in(block: str) -> dict[str, str]:
    """Returns the assignments of a block as a shell reads them."""
    names = re.findall(r"^(\w+)=", block, re.M)
    text = subprocess.run(["bash", "-c", block + "\n".join(f"echo ${name}" for name in names)], capture_output=True,
                          text=True, check=True, env={}).stdout
    return dict(zip(names, text.splitlines(), strict=True))
