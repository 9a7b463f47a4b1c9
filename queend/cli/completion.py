"""queend completion, and what completes names: those of the server that is meant, where it answers at once."""
from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from typing import Annotated

import typer

PROGRAM, VARIABLE = "queend", "_QUEEND_COMPLETE"
NAMES, ANSWER_S = 100, 1.0
SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@+-]*")


class Shell(enum.StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")]) -> None:
    """Print what a shell reads to complete commands, options and names of queues, groups and saved servers."""
    from typer.completion import get_completion_script

    typer.echo(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell.value))


def queues(incomplete: str) -> list[str]:
    """Queues whose names begin like this."""
    return _begin(incomplete, "/api/v1/resources/queues", search=incomplete or None, sort="name")


def groups(incomplete: str) -> list[str]:
    return _begin(incomplete, "/api/v1/consumer-groups", search=incomplete or None)


def contexts(incomplete: str) -> list[str]:
    from .saved import ContextError, load

    try:
        return _offered(incomplete, load()["contexts"])
    except ContextError:
        return []


def _offered(incomplete: str, names: Iterable[str]) -> list[str]:
    """Returns the names that begin like this, without those that a shell might run as a command or read as an option:
    a script of completion is evaluated by its shell, and the line it completes is run."""
    return sorted({name for name in names if name.startswith(incomplete) and SAFE.fullmatch(name)})


def _begin(incomplete: str, path: str, **query: str | None) -> list[str]:
    """A server that cannot be asked completes nothing: nobody waits, and nothing is printed between two keys."""
    from .client import ServerError
    from .remote import Stop, connect
    from .saved import ContextError

    try:
        server = connect(None, None, None, None, ANSWER_S)
        answer = server.get(path, limit=NAMES, **query) or []
        rows = answer.get("queues", []) if isinstance(answer, dict) else answer
        return _offered(incomplete, (row["name"] for row in rows))
    except (ServerError, Stop, ContextError, KeyError, TypeError, AttributeError):
        return []
