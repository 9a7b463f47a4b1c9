"""Output of answers: as a table for people; as JSON, lines of JSON or names for programs."""
from __future__ import annotations

import enum
import json
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import chain, islice
from typing import Annotated, Any

import typer

from ..duration import span
from . import server_clock
from .terminal import clean, say

RICH_ROWS = 500      # longer tables are aligned page by page, without rich
# Columns of a table: the longest text that counts as a name, the narrowest column that folds, the space between two.
NAME_WIDTH, FOLDED_WIDTH, GAP = 64, 12, 3
SIGNS = ("", "k", "M", "G", "T")
LEAST = 0.095      # smaller numbers would be 0 with one digit behind the point


class Format(enum.StrEnum):
    table = "table"
    json = "json"
    ndjson = "ndjson"
    names = "names"


Output = Annotated[Format, typer.Option("-o", "--output", help="Output format.")]
Column = str | Callable[[dict[str, Any]], Any]


def show(rows: Iterable[dict[str, Any]], columns: dict[str, Column], how: Format, name: str = "name",
         none: str = "") -> int:
    """Prints a list as it arrives, and returns its length. Prints nothing if there is an error before the first row.
    columns: a key or a function by heading. none: the text for an empty list."""
    count = 0
    if how is Format.table:
        count = _tables(iter(rows), columns)
        if not count and none:
            say(none, err=True)
        return count
    rest = iter(rows)
    first = list(islice(rest, 1))      # the first request: it may fail
    if how is Format.json:
        sys.stdout.write("[")
    for row in chain(first, rest):
        if how is Format.json:
            sys.stdout.write((",\n " if count else "\n ") + dump(row))
        else:
            sys.stdout.write((dump(row) if how is Format.ndjson else clean(row[name])) + "\n")
        count += 1
    if how is Format.json:
        sys.stdout.write("\n]\n" if count else "]\n")
    return count


def one(value: dict[str, Any], how: Format, lines: Callable[[], None], name: str = "name") -> None:
    """Prints one object; `lines` prints it for people."""
    if how is Format.table:
        lines()
    elif how is Format.names:
        sys.stdout.write(clean(value[name]) + "\n")
    else:
        sys.stdout.write(dump(value, 2 if how is Format.json else None) + "\n")


def facts(pairs: Iterable[tuple[str, Any]]) -> None:
    """Prints lines of a word and its value; pairs without a value are left out."""
    found = [(word, cell(value)) for word, value in pairs if value not in (None, "")]
    width = max((len(word) for word, _ in found), default=0)
    for word, value in found:
        sys.stdout.write(f"{word:<{width}}  {value}\n")


def _tables(rows: Iterator[dict[str, Any]], columns: dict[str, Column]) -> int:
    count = 0
    while page := list(islice(rows, RICH_ROWS + 1)):
        cells = [[cell(row.get(column) if isinstance(column, str) else column(row)) for column in columns.values()]
                 for row in page]
        numbers = [all(_number(line[i]) for line in cells) for i in range(len(columns))]
        if count == 0 and len(page) <= RICH_ROWS and sys.stdout.isatty():
            _rich(list(columns), cells, numbers)
            return len(page)
        _aligned(list(columns) if count == 0 else None, cells, numbers)
        count += len(page)
    return count


def _rich(heads: list[str], cells: list[list[str]], numbers: list[bool]) -> None:
    """Prints a table at a terminal. Names and numbers stay on one line: columns of sentences and of payloads fold. A
    table that is still too wide has lines longer than the terminal's."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    least = 0
    for i, (head, number) in enumerate(zip(heads, numbers, strict=True)):
        width = max(_width(line[i]) for line in [heads, *cells])
        whole = number or i == 0 or width <= NAME_WIDTH and not any(" " in line[i] for line in cells)
        minimum = width if whole else min(width, FOLDED_WIDTH)
        least += minimum + GAP
        table.add_column(head, justify="right" if number else "left", overflow="fold", no_wrap=whole,
                         min_width=minimum)
    for line in cells:
        table.add_row(*(Text(text) for text in line))
    console = Console(highlight=False)
    console.width = max(console.width, least)
    console.print(table)


def _aligned(heads: list[str] | None, cells: list[list[str]], numbers: list[bool]) -> None:
    every = [*([heads] if heads else []), *cells]
    widths = [max(_width(line[i]) for line in every) for i in range(len(numbers))]
    for line in every:
        parts = [" " * (width - _width(text)) + text if number else text + " " * (width - _width(text))
                 for text, width, number in zip(line, widths, numbers, strict=True)]
        sys.stdout.write("  ".join(parts).rstrip() + "\n")


def _number(text: str) -> bool:
    return not text or text[0].isdigit() or text == "-"


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1
               for sign in text)


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.1f}".removesuffix(".0") if abs(value) >= LEAST or not value else f"{value:.1g}"
    return clean(value if isinstance(value, str) else dump(value) if isinstance(value, (dict, list)) else str(value))


def dump(value: Any, indent: int | None = None) -> str:
    """Returns JSON that may go to a terminal; a program reads the same value."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))
    return "\n".join(map(clean, text.split("\n")))


def short(number: float | None) -> str:
    """Formats 1234567 as 1.2M."""
    if number is None:
        return ""
    value, sign = float(number), 0
    while value >= 999.5 and sign < len(SIGNS) - 1:
        value, sign = value / 1000, sign + 1
    text = f"{value:.0f}" if value >= 99.5 else cell(value)
    return text + SIGNS[sign]


def many(number: int, word: str, write: Callable[[int], str] = str) -> str:
    """Returns `1 message`, `2 messages`. write: formats the number."""
    return f"{write(number)} {word}{'' if number == 1 else 's'}"


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def moment(text: str) -> datetime:
    """Reads a time as the server writes times. Raises ValueError for any other text."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def age(text: str | None) -> str:
    """Formats how long ago a time was by the clock of the server, which wrote the time."""
    if not text:
        return ""
    try:
        then = moment(text)
    except ValueError:
        return text
    return span(max(0.0, (server_clock.now() - then).total_seconds()))


class Progress:
    """A bar on standard error if that is a terminal, with rate and, if the total is known, the time left."""

    def __init__(self, what: str, total: float | None = None, unit: str = "", bytes_: bool = False):
        self.what, self.total, self.unit, self.bytes = what, total, unit, bytes_
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich import progress
            from rich.console import Console

            speed = [progress.DownloadColumn(), progress.TransferSpeedColumn()] if self.bytes else [
                progress.TextColumn("{task.completed:,.0f} " + self.unit), _Rate(progress)]
            self._bar = progress.Progress(progress.TextColumn("{task.description}"), progress.BarColumn(), *speed,
                                          progress.TimeElapsedColumn(), progress.TimeRemainingColumn(),
                                          console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self.what, total=self.total)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def add(self, more: float) -> None:
        if self._bar:
            self._bar.advance(self._task, more)

    def now(self, what: str) -> None:
        if self._bar:
            self._bar.update(self._task, description=clean(what))


def _Rate(progress: Any) -> Any:
    class Rate(progress.ProgressColumn):
        def render(self, task: Any) -> Any:
            from rich.text import Text

            return Text(f"{short(task.finished_speed or task.speed)}/s" if task.speed else "")

    return Rate()
