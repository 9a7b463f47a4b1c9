"""Prints the manual page queend(1), made of the help texts of the commands."""
from __future__ import annotations

import datetime
import os
import re
import runpy
import shutil
import time
from pathlib import Path
from typing import Any

from typer import Context
from typer.main import get_command

from queend import __version__
from queend.cli import SECTIONS, app

CLI = runpy.run_path(str(Path(__file__).parent / "cli.py"))
FILES = {
    "/etc/queend/queend.toml": "settings of the daemon; reloaded by systemctl reload queend",
    "/etc/queend/queend.env": "settings as environment variables, which override queend.toml",
    "/var/lib/queend": "embedded PostgreSQL and the failover buffer",
    "$XDG_CONFIG_HOME/queend": "contexts.json: saved servers and their tokens",
}


def roff(text: str) -> str:
    """A text that is not to be read as a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in text.split("\n"))


def paragraphs(text: str) -> str:
    """Help of a command: blank lines part paragraphs, what is indented stays as it is."""
    out = []
    for part in re.split(r"\n\s*\n", re.sub(r"\n    ", "\n", text).strip()):
        keeps = any(line.startswith(" ") for line in part.split("\n"))
        out.append(f".nf\n{roff(part)}\n.fi" if keeps else roff(" ".join(part.split())))
    return "\n.PP\n".join(out)


def options(command: Any, context: Any, without: set[str]) -> list[str]:
    records = [record for parameter in command.params if not without.intersection(parameter.opts)
               and (record := parameter.get_help_record(context))]
    return [f".TP\n\\fB{roff(word)}\\fR\n{roff(' '.join(text.split()))}" for word, text in records]


def described(name: str, command: Any) -> str:
    context = Context(command, info_name=name)
    shared = {f"--{option.replace('_', '-')}" for option in CLI["SHARED"]} | {"--help"}
    usage = " ".join(command.collect_usage_pieces(context))
    return "\n".join([f".SS {roff(name)} {roff(usage)}", paragraphs(command.help or ""),
                      *options(command, context, shared)])


def page() -> str:
    shutil.get_terminal_size = lambda *_: (100, 40)      # type: ignore[assignment]
    root = get_command(app)
    context = Context(root, info_name="queend")
    when = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), datetime.UTC)
    parts = [f'.TH QUEEND 1 "{when:%Y-%m-%d}" "queend {__version__}" "User Commands"', ".SH NAME",
             "queend \\- a message queue daemon on PostgreSQL, and its command line", ".SH SYNOPSIS",
             ".B queend\n[\\fIoptions\\fR] \\fIcommand\\fR [\\fIarguments\\fR]", ".SH DESCRIPTION",
             paragraphs(root.help or ""), ".SH OPTIONS",
             "These options choose the server. They may come before or after the command.",
             *options(root, context, set())]
    for heading, names in SECTIONS.items():
        parts.append(f'.SH "COMMANDS: {heading.upper()}"')
        for name in names:
            parts += [described(*one) for one in CLI["commands"](root.commands[name], f"queend {name}")]
    parts.append('.SH "EXIT STATUS"')
    for row in re.findall(r"^\| (\d+) \| (.*) \|$", CLI["HEAD"], re.M):
        parts.append(f".TP\n\\fB{row[0]}\\fR\n{roff(row[1].replace('`', ''))}")
    parts.append(".SH FILES")
    parts += [f".TP\n\\fI{roff(path)}\\fR\n{roff(text)}" for path, text in FILES.items()]
    parts.append(".SH SEE ALSO\n.BR psql (1),\n.BR systemctl (1),\n.BR systemd.exec (5)\n(LoadCredential=)")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    print(page(), end="")
