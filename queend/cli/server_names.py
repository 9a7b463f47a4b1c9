"""Completion of names of queues and groups: those of the chosen server, if it answers at once."""
from __future__ import annotations

import os
import re
from contextlib import suppress
from threading import Thread
from typing import Any

import typer

from .completion import offered
from .remote import connect

NAMES, ANSWER_S = 100, 1.0
OPTIONS = ("url", "context", "token_file", "ca", "cert")      # options that choose the server


def queues(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns queues whose names begin like this."""
    return _begin(ctx, incomplete, "/api/v1/resources/queues", search=incomplete or None, sort="name")


def groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns consumer groups whose names begin like this."""
    return _begin(ctx, incomplete, "/api/v1/consumer-groups", search=incomplete or None)


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


def _begin(ctx: typer.Context, incomplete: str, path: str, **query: Any) -> list[str]:
    """Returns names of a list of the server. Offers nothing if the server cannot be asked or has not answered within
    ANSWER_S, whatever the reason. Prints nothing between two keys."""
    words = named_server(ctx)
    if words is None:
        return []
    found: list[str] = []

    def ask() -> None:
        with suppress(Exception):
            answer = connect(**words, timeout=f"{ANSWER_S}s").get(path, limit=NAMES, **query) or []
            rows = answer.get("queues", []) if isinstance(answer, dict) else answer
            found.extend(offered(incomplete, [row["name"] for row in rows]))

    asking = Thread(target=ask, daemon=True)      # the process ends without it
    asking.start()
    asking.join(ANSWER_S)
    return list(found)
