"""queend completion, and which names a shell may be offered."""
from __future__ import annotations

import enum
import os
import re
import shlex
from collections.abc import Iterable
from typing import Annotated

import typer

PROGRAM, VARIABLE = "queend", "_QUEEND_COMPLETE"
SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@+-]*")

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


def completion(shell: Annotated[Shell, typer.Argument(help="Name of the shell.")]) -> None:
    """Print a shell completion script for commands, options and names of queues, groups and contexts."""
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


def contexts(incomplete: str) -> list[str]:
    from .contexts import ContextError, load

    try:
        return offered(incomplete, load()["contexts"])
    except ContextError:
        return []


def offered(incomplete: str, names: Iterable[str]) -> list[str]:
    """Returns the names that begin like this, without those that a shell might run as a command or read as an option: a
    script of completion is evaluated by its shell, and the line it completes is run."""
    return sorted({name for name in names if name.startswith(incomplete) and SAFE.fullmatch(name)})
