"""Sizes of the dashboard come from the two scales of dashboard/src/style.css: type and spacing."""
from __future__ import annotations

import re

from support.tree import ROOT, tracked

SCALE = re.compile(r"--(font|space|round)(?:-\w+)?: ([\d.]+)rem")
SIZED = re.compile(r"(?<![\w-])((?:row-|column-)?gap|(?:padding|margin)(?:-[a-z]+)*|font|font-size|border-radius|inset"
                   r"|top|right|bottom|left): *([^;}]+)")
LITERAL = re.compile(r"(?<![\w.-])-?(?!0\b)\d*\.?\d+(?:rem|em|px|pt)\b")
OFF_SCREEN = "-99rem"


def literals(text: str) -> list[str]:
    """Returns each declaration of a type size, a space or a radius that has a length of its own."""
    found = [(name, value) for name, value in SIZED.findall(text) if LITERAL.search(value)]
    return [f"{name}: {value}" for name, value in found if value.strip() != OFF_SCREEN]


def test_no_style_has_a_size_of_its_own() -> None:
    files = tracked("dashboard/src/*.css", "dashboard/src/**/*.css")
    assert len(files) >= 10
    assert {file: found for file in files if (found := literals((ROOT / file).read_text()))} == {}


def test_no_element_has_a_style_or_a_font_of_its_own() -> None:
    files = tracked("dashboard/src/*.tsx", "dashboard/src/**/*.tsx")
    assert len(files) >= 25
    assert [file for file in files if re.search(r"\bstyle=|font(?:Size)?: *[\"'`]\d", (ROOT / file).read_text())] == []


def test_a_size_that_is_not_of_a_scale_is_seen() -> None:
    assert literals("a { padding: var(--space-2) .6rem; font: 12px/1.5 x; margin: 0 auto; height: 3rem }") == [
        "padding: var(--space-2) .6rem", "font: 12px/1.5 x"]
    assert literals("a { border-radius: 50%; gap: calc(2 * var(--space-6)); left: -99rem; top: 0 }") == []


def test_the_scales_are_short() -> None:
    sizes: dict[str, list[float]] = {}
    for name, size in SCALE.findall((ROOT / "dashboard/src/style.css").read_text()):
        sizes.setdefault(name, []).append(float(size))
    assert {name: len(of) for name, of in sizes.items()} == {"font": 4, "space": 6, "round": 3}
    assert sizes["font"] == sorted(sizes["font"]) and sizes["space"] == sorted(sizes["space"])
