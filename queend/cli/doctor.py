"""queend doctor: prints what is wrong with a server or its database, or soon will be."""
from __future__ import annotations

import sys
import textwrap
from shutil import get_terminal_size

import typer

from .client import Server
from .output import Format, Output, show
from .remote import REFUSED, remote
from .terminal import say
from .watch import watched

WIDTH = 100      # of the lines of a text
COLOURS = {"critical": "red", "warning": "yellow", "notice": "cyan"}


@remote
@watched
def doctor(server: Server, output: Output = Format.table) -> None:
    """Find problems of the server and its database. Exits with 1 if a finding is critical."""
    answer = server.get("/api/v1/system/doctor", within=max(server.timeout, 60.0))
    findings = answer["findings"]
    width = min(WIDTH, get_terminal_size().columns) if sys.stdout.isatty() else WIDTH
    if not output.for_people:
        show(findings, {}, output, "check")
    else:
        for one in findings:
            say(f"{one['level']}: {one['title']}", fg=COLOURS.get(one["level"]), bold=True)
            for text in (one["evidence"], one["advice"]):
                say(*textwrap.wrap(text, width, initial_indent="    ", subsequent_indent="    "))
            if "run" in one:
                say(f"    $ {one['run']}" if one["run"].startswith("queend ") else f"    =# {one['run']}")
        if not findings:
            say(*textwrap.wrap(f"no problems found; checked {', '.join(answer['checks'])}", width))
    if answer["status"] == "critical":
        raise typer.Exit(REFUSED)
