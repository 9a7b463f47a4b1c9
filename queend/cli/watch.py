"""--watch: a command that only reads is run again and again, in place at a terminal."""
from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from shutil import get_terminal_size
from typing import Annotated, Any, Optional

import typer

from ..duration import exact
from ..wording import many
from . import server_clock
from .client import Server, ServerError
from .output import Format
from .remote import UNREACHABLE, USAGE, Stop, like, seconds, tell
from .table import breadth
from .terminal import clean

Watch = Annotated[bool, typer.Option("--watch", help="Print the result again and again until Ctrl-C; a terminal is "
                                                     "redrawn.")]
Interval = Annotated[Optional[str], typer.Option("--interval", metavar="DURATION", help="Pause between two results of "
                                                 "--watch. Default: 2s.")]
OPTIONS: dict[str, Any] = {"watch": Watch, "interval": Interval}
PAUSE = "2s"
STYLE = re.compile("\x1b\\[[0-9;]*m")


def watched(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a command that only reads, and whose first argument is the server: adds --watch and --interval."""

    def run(server: Server, **arguments: Any) -> Any:
        watch, interval = arguments.pop("watch"), arguments.pop("interval")
        if not watch:
            if interval is not None:
                raise Stop("--interval requires --watch", USAGE)
            return function(server=server, **arguments)
        return again(lambda: function(server=server, **arguments), pause_of(interval), arguments["output"])

    return like(run, function, OPTIONS)


def pause_of(interval: str | None) -> float:
    return seconds(interval or PAUSE, "--interval", 0.1, 86400)


def again(draw: Callable[[], Any], pause: float, output: Format) -> None:
    """Prints what `draw` prints, again after each pause, until an interrupt. The first result must succeed. Later on a
    server that is away is waited for; any other error ends the command."""
    screen = Screen(pause) if output.for_people and sys.stdout.isatty() else Pages(pause, output)
    first = True
    with suppress(KeyboardInterrupt):
        while True:
            try:
                text = screen.captured(draw)
            except ServerError as error:
                if first or not (error.status == UNREACHABLE or error.code == 429 or error.code >= 500):
                    raise
                screen.away(error.text)
            else:
                screen.show(text)
            first = False
            time.sleep(pause)


def stamp() -> str:
    """Returns the time of the server."""
    return f"{server_clock.now():%Y-%m-%d %H:%M:%S}Z"


class Pages:
    """Results one after the other, for a file or a program."""

    def __init__(self, pause: float, output: Format):
        self.pause, self.output = pause, output
        self.count, self.gone = 0, False

    def captured(self, draw: Callable[[], Any]) -> str:
        """Returns what `draw` prints; notes go to standard error at once. A part of a result is not printed."""
        with redirect_stdout(io.StringIO()) as text, suppress(typer.Exit):
            draw()
        return text.getvalue()

    def show(self, text: str) -> None:
        if self.gone:
            tell("the server answers again")
        self.gone = False
        if self.output.for_people:
            sys.stdout.write(("\n" if self.count else "") + stamp() + "\n")
        sys.stdout.write(text)
        sys.stdout.flush()
        self.count += 1

    def away(self, why: str) -> None:
        if not self.gone:
            tell(why, f"trying again every {exact(self.pause)}")
        self.gone = True


class Terminal(io.StringIO):
    """What is printed here is printed as at a terminal. captured: bars of progress are left out."""

    captured = True

    def isatty(self) -> bool:
        return True


class Screen:
    """A result that replaces the one before it. rows: rows of the terminal that the last one takes."""

    def __init__(self, pause: float):
        self.pause, self.rows = pause, 0
        self.text = self.at = ""

    def captured(self, draw: Callable[[], Any]) -> str:
        """Returns what `draw` prints, with its notes."""
        with redirect_stdout(Terminal()) as text, redirect_stderr(text), suppress(typer.Exit):
            draw()
        return text.getvalue()

    def show(self, text: str) -> None:
        self.text, self.at = text, stamp()
        self._draw(f"{self.at}, every {exact(self.pause)}; Ctrl-C ends")

    def away(self, why: str) -> None:
        self._draw(f"{clean(why)}; trying again every {exact(self.pause)}; this is the state of {self.at}", fg="red")

    def _draw(self, head: str, **style: Any) -> None:
        columns, room = get_terminal_size()
        lines = [typer.style(head, **style or {"dim": True}), *self.text.rstrip("\n").split("\n")]
        heights = [max(1, -(-breadth(STYLE.sub("", line)) // columns)) for line in lines]
        shown = len(lines)
        if sum(heights) >= room:      # the cursor needs a row, and so does the note
            while shown > 1 and sum(heights[:shown]) > room - 2:
                shown -= 1
            lines[shown:], heights[shown:] = [f"… {many(len(lines) - shown, 'more line')}"], [1]
        up = f"\x1b[{self.rows}A\r" if self.rows else ""
        sys.stdout.write(up + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        sys.stdout.flush()
        self.rows = sum(heights)
