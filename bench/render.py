"""Figures as Markdown tables and as charts, and where they go in a document: between `<!-- scale:NAME -->` and `<!--
/scale:NAME -->`."""

import re

from plot import chart  # noqa: F401  (the sweeps draw with it)
from report import shorten


def cell(value) -> str:
    """Three significant digits; thousands parted by a thin gap of a plain space."""
    if value is None:
        return ""
    if isinstance(value, float):
        value = round(value) if abs(value) >= 100 else float(f"{value:.3g}")
        value = int(value) if value == int(value) and abs(value) >= 10 else value
    return f"{value:,}".replace(",", " ") if isinstance(value, (int, float)) else str(value)


def table(points: list[dict], columns: list[tuple[str, str]]) -> str:
    """columns: (head, key); a key that a point lacks leaves its cell empty."""
    lines = ["| " + " | ".join(head for head, _ in columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(cell(point.get(key)) for _, key in columns) + " |" for point in points]
    return "\n".join(lines) + "\n"


def shortened(value):
    """The same figures with four significant digits, as they are kept in files."""
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shortened(item) for item in value]
    return shorten(value)


def place(document: str, name: str, text: str) -> str:
    """The document with `text` between the markers of `name`. Raises ValueError when they are not there once."""
    pattern = re.compile(rf"(<!-- scale:{name} -->\n).*?(<!-- /scale:{name} -->)", re.S)
    placed, n = pattern.subn(lambda found: found[1] + text.rstrip("\n") + "\n" + found[2], document)
    if n != 1:
        raise ValueError(f"the document has {n} places for {name}")
    return placed
