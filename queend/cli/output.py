"""Output of answers: as a table for people; as JSON, lines of JSON or names for programs."""
from __future__ import annotations

import enum
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice
from shutil import get_terminal_size
from typing import Annotated, Any

import typer

from ..duration import span
from . import server_clock
from .table import aligned, fitting, framed, least_width, records
from .terminal import clean, say

PAGE_ROWS = 500      # longer tables are aligned page by page
SIGNS = ("", "k", "M", "G", "T")
LEAST = 0.095      # smaller numbers would be 0 with one digit behind the point


class Format(enum.StrEnum):
    table = "table"
    wide = "wide"
    json = "json"
    ndjson = "ndjson"
    names = "names"

    @property
    def for_people(self) -> bool:
        return self in (Format.table, Format.wide)


Output = Annotated[Format, typer.Option("-o", "--output", help="Output format.")]
Column = str | Callable[[dict[str, Any]], Any]


def show(rows: Iterable[dict[str, Any]], columns: dict[str, Column], how: Format, name: str = "name",
         none: str = "", spare: Sequence[str] = ()) -> int:
    """Prints a list as it arrives, and returns its length. Prints nothing if there is an error before the first row.
    columns: a key or a function by heading. none: the text for an empty list. spare: headings of the columns that a
    narrow terminal leaves out, the least important one first; `-o wide` shows all columns."""
    count = 0
    if how.for_people:
        count = _tables(iter(rows), columns, () if how is Format.wide else spare, how is Format.wide)
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
    if how.for_people:
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


def _tables(rows: Iterator[dict[str, Any]], columns: dict[str, Column], spare: Sequence[str], wide: bool) -> int:
    """Prints a table, page by page if it is long. The first page decides which columns a terminal has room for, and
    whether the rows are printed as records."""
    heads, kept = list(columns), list(range(len(columns)))
    count, too_wide = 0, False
    while page := list(islice(rows, PAGE_ROWS + 1)):
        cells = [[cell(row.get(column) if isinstance(column, str) else column(row)) for column in columns.values()]
                 for row in page]
        if count == 0 and sys.stdout.isatty() and not wide:
            kept = fitting(heads, cells, spare, get_terminal_size().columns)
            too_wide = least_width([heads[i] for i in kept],
                                   [[line[i] for i in kept] for line in cells]) > get_terminal_size().columns
        shown = [[line[i] for i in kept] for line in cells]
        if too_wide:
            records([heads[i] for i in kept], shown)
        elif count == 0 and len(page) <= PAGE_ROWS and sys.stdout.isatty():
            framed([heads[i] for i in kept], shown, wide)
        else:
            aligned([heads[i] for i in kept] if count == 0 else None, shown)
        count += len(page)
        left = [head for i, head in enumerate(heads) if i not in kept and any(line[i] for line in cells)]
        if left and count == len(page):
            sys.stdout.flush()
            note = f"-o wide also shows: {', '.join(left)}"
            say(*textwrap.wrap(note, get_terminal_size().columns), err=True, dim=True)
    return count


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


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def age(text: str | None) -> str:
    """Formats how long ago a time was by the clock of the server, which wrote the time."""
    if not text:
        return ""
    try:
        then = datetime.fromisoformat(text)
    except ValueError:
        return text
    return span(max(0.0, (server_clock.now() - then).total_seconds()))


class Progress:
    """A bar on standard error if that is a terminal, with rate and, if the total is known, the time left. No bar is
    drawn into a result of --watch."""

    def __init__(self, what: str, total: float | None = None, unit: str = "", bytes_: bool = False):
        self.what, self.total, self.unit, self.bytes = what, total, unit, bytes_
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty() and not getattr(sys.stderr, "captured", False):
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
