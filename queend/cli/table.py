"""Tables: which columns a terminal has room for, and their lines. Names and numbers never wrap: the rows of a table
that is too wide are printed as records, one line per column."""
from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Sequence
from shutil import get_terminal_size

# Headings of the columns that may fold: sentences, payloads and values as JSON.
FOLDING = frozenset(("blocked", "data", "effective", "error", "payload", "text", "value", "what"))
# The narrowest column that folds, in signs; the width that one should have before a spare column gets room; the space
# between two columns.
FOLDED_WIDTH, READ_WIDTH, GAP = 12, 24, 3
NUMBER = re.compile(r"-|\d[\d.,]*(ms|[kMGTdhms])?(\d+(ms|[hms]))?", re.ASCII)      # 7, 1,234.5, 1.2M, 1h30m


def fitting(heads: list[str], cells: list[list[str]], spare: Sequence[str], room: int) -> list[int]:
    """Returns the columns to show in a terminal of this width, in their order. spare: headings of the columns that may
    be left out, the least important one first. The others are always shown. Among the spare ones, empty columns are
    the least important."""
    wanted = [min(width, READ_WIDTH) if head in FOLDING else width
              for head, width in zip(heads, widths(heads, cells), strict=True)]
    kept = [i for i, head in enumerate(heads) if head not in spare]
    left = room - sum(wanted[i] + GAP for i in kept)
    others = sorted((i for i in range(len(heads)) if i not in kept),
                    key=lambda i: (not any(line[i] for line in cells), -spare.index(heads[i])))
    for i in others:
        if wanted[i] + GAP <= left:
            kept.append(i)
            left -= wanted[i] + GAP
    return sorted(kept)


def widths(heads: list[str], cells: list[list[str]]) -> list[int]:
    return [max(breadth(line[i]) for line in [heads, *cells]) for i in range(len(heads))]


def least_width(heads: list[str], cells: list[list[str]], wide: bool = False) -> int:
    """Returns the width of the narrowest table at a terminal: columns of FOLDING fold, unless wide."""
    return sum((width if wide or head not in FOLDING else min(width, FOLDED_WIDTH)) + GAP
               for head, width in zip(heads, widths(heads, cells), strict=True))


def records(heads: list[str], cells: list[list[str]]) -> None:
    """Prints each row as a block of lines, a heading and a cell each; empty cells are left out. An empty line ends the
    block."""
    width = max(map(breadth, heads))
    for line in cells:
        for head, text in zip(heads, line, strict=True):
            if text:
                sys.stdout.write(head + " " * (width - breadth(head)) + f"  {text}\n")
        sys.stdout.write("\n")


def framed(heads: list[str], cells: list[list[str]], wide: bool) -> None:
    """Prints a table at a terminal. Columns of FOLDING fold, unless wide. A wide table may have lines longer than the
    terminal's."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for i, (head, width) in enumerate(zip(heads, widths(heads, cells), strict=True)):
        whole = wide or head not in FOLDING
        minimum = width if whole else min(width, FOLDED_WIDTH)
        table.add_column(head, justify="right" if _numeric(i, cells) else "left", overflow="fold", no_wrap=whole,
                         min_width=minimum)
    for line in cells:
        table.add_row(*(Text(text) for text in line))
    room = get_terminal_size()
    # rich uses 80 columns and cuts the lines if TERM is dumb and it is told no height.
    console = Console(highlight=False, width=max(room.columns, least_width(heads, cells, wide)), height=room.lines)
    console.print(table)


def aligned(heads: list[str] | None, cells: list[list[str]]) -> None:
    """Prints a table for a file, or a page of a long one; a page behind the first has no heads."""
    numbers = [_numeric(i, cells) for i in range(len(cells[0]))]
    room = widths(heads or cells[0], cells)
    for line in [*([heads] if heads else []), *cells]:
        parts = [" " * (width - breadth(text)) + text if number else text + " " * (width - breadth(text))
                 for text, width, number in zip(line, room, numbers, strict=True)]
        sys.stdout.write("  ".join(parts).rstrip() + "\n")


def _numeric(i: int, cells: list[list[str]]) -> bool:
    return all(not line[i] or NUMBER.fullmatch(line[i]) for line in cells)


def breadth(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1
               for sign in text)
