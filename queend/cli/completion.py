"""queend completion, and completion of names: those of the chosen server, if it answers at once."""
from __future__ import annotations

import enum
import os
import re
import shlex
from collections.abc import Iterable
from contextlib import suppress
from threading import Thread
from typing import Annotated, Any

import typer

PROGRAM, VARIABLE = "queend", "_QUEEND_COMPLETE"
NAMES, ANSWER_S = 100, 1.0
SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@+-]*")

OPTIONS = ("url", "context", "token_file", "ca")      # options that choose the server
# bash splits words at the characters of COMP_WORDBREAKS, among them the colon of a URL. COMP_LINE has the whole words.
BASH = f"""
_{PROGRAM}_completion() {{
    local IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="${{COMP_WORDS[*]}}" \\
                   COMP_CWORD=$COMP_CWORD \\
                   COMP_LINE="${{COMP_LINE:0:COMP_POINT}}" \\
                   {VARIABLE}=complete_bash $1 ) )
    return 0
}}

complete -o default -F _{PROGRAM}_completion {PROGRAM}
"""


class Shell(enum.StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")]) -> None:
    """Print what a shell reads to complete commands, options and names of queues, groups and saved servers."""
    from typer.completion import get_completion_script

    typer.echo(BASH if shell is Shell.bash else
               get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell.value))


def rejoin() -> None:
    """Sets COMP_WORDS and COMP_CWORD, which typer reads, to the words of COMP_LINE as bash runs them. Requires that
    COMP_LINE ends at the cursor."""
    line = os.environ.get("COMP_LINE")
    if not line:      # a script of an older version does not pass it
        return
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.commenters, words = True, "", []
    try:
        for word in lexer:
            words.append(word)
        ended = line[-1].isspace()
    except ValueError:      # a quote that is still open
        words.append(lexer.token)
        ended = False
    os.environ["COMP_WORDS"] = shlex.join(words)
    os.environ["COMP_CWORD"] = str(len(words) - (not ended))


def queues(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns queues whose names begin like this."""
    return _begin(ctx, incomplete, "/api/v1/resources/queues", search=incomplete or None, sort="name")


def groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns consumer groups whose names begin like this."""
    return _begin(ctx, incomplete, "/api/v1/consumer-groups", search=incomplete or None)


def contexts(incomplete: str) -> list[str]:
    from .saved import ContextError, load

    try:
        return _offered(incomplete, load()["contexts"])
    except ContextError:
        return []


def _offered(incomplete: str, names: Iterable[str]) -> list[str]:
    """Returns the names that begin like this, without those that a shell might run as a command or read as an option: a
    script of completion is evaluated by its shell, and the line it completes is run."""
    return sorted({name for name in names if name.startswith(incomplete) and SAFE.fullmatch(name)})


def named_server(ctx: Any) -> dict[str, str | None] | None:
    """Returns the options of the line that choose the server; those behind the command win over those in front of it.
    Returns None if one of them cannot be read: it stands behind an error of the line, or a shell would expand it."""
    found: dict[str, str | None] = dict.fromkeys(OPTIONS)
    while ctx is not None:
        found = {name: ctx.params.get(name) if value is None else value for name, value in found.items()}
        ctx = ctx.parent
    line = " ".join(os.environ.get(name, "") for name in ("COMP_WORDS", "_TYPER_COMPLETE_ARGS"))
    for name, value in found.items():
        if value is None and re.search(rf"--{name.replace('_', '-')}\b", line) or value and re.search(r"[$`]", value):
            return None
    return found


def _begin(ctx: typer.Context, incomplete: str, path: str, **query: str | None) -> list[str]:
    """Returns names of a list of the server. Offers nothing if the server cannot be asked or has not answered within
    ANSWER_S, whatever the reason. Prints nothing between two keys."""
    from .remote import connect

    words = named_server(ctx)
    if words is None:
        return []
    found: list[str] = []

    def ask() -> None:
        with suppress(Exception):
            answer = connect(**words, timeout=ANSWER_S).get(path, limit=NAMES, **query) or []
            rows = answer.get("queues", []) if isinstance(answer, dict) else answer
            found.extend(_offered(incomplete, [row["name"] for row in rows]))

    asking = Thread(target=ask, daemon=True)      # the process ends without it
    asking.start()
    asking.join(ANSWER_S)
    return list(found)
