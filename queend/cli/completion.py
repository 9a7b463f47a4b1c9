"""queend completion, and what completes names: those of the server that is meant, where it answers at once."""
from __future__ import annotations

import enum
from typing import Annotated

import typer

PROGRAM, VARIABLE = "queend", "_QUEEND_COMPLETE"
NAMES, ANSWER_S = 100, 1.0


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
        return sorted(name for name in load()["contexts"] if name.startswith(incomplete))
    except ContextError:
        return []


def _begin(incomplete: str, path: str, **query: str | None) -> list[str]:
    """A server that cannot be asked completes nothing: nobody waits, and nothing is printed between two keys."""
    from .client import ServerError
    from .remote import Stop, connect
    from .saved import ContextError

    try:
        server = connect(None, None, None, None, ANSWER_S)
        answer = server.get(path, limit=NAMES, **query) or []
        rows = answer.get("queues", []) if isinstance(answer, dict) else answer
        return sorted({row["name"] for row in rows if row["name"].startswith(incomplete)
                       and row["name"].isprintable()})
    except (ServerError, Stop, ContextError, KeyError, TypeError, AttributeError):
        return []
