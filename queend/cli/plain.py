"""Help in plain words: an option takes TEXT, a NUMBER or a FILE. typer would write `<list[str]>`, `<int range>`."""
from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any, get_args

VALUES = {int: "NUMBER", float: "NUMBER", Path: "FILE"}      # others take TEXT


def plain(command: Any) -> Any:
    """Returns the command after changing its help, and that of its subcommands, to such words."""
    for child in getattr(command, "commands", {}).values():
        plain(child)
        # click cuts the text of a list of commands after 45 signs, but not one that is given.
        child.short_help = child.short_help or first_sentence(child.help or "")
    for one in command.params:
        parameter(one)
    return command


def first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", " ".join(text.split()), maxsplit=1)[0]


def parameter(one: Any) -> None:
    kind = getattr(one, "type_descriptor", None)
    if kind is None:      # an older typer writes TEXT by itself
        return
    one._get_number_range_help_str = partial(_bounds, one.min, one.max)
    if one.param_type_name == "argument":
        one.display_type = lambda ctx: ""      # its name and the text suffice
    elif not one.is_flag:
        one.metavar = one.metavar or _value(kind)
        if kind.is_list:
            one.help = f"{one.help.removesuffix('.')}; may be repeated."


def _value(kind: Any) -> str:
    if kind.is_choice:
        return "|".join(one.value for one in kind.choices)
    return VALUES.get(get_args(kind.annotation)[0] if kind.is_list else kind.annotation, "TEXT")


def _bounds(least: float | None, most: float | None) -> str:
    if least is None:
        return "" if most is None else f"maximum {most:,}"
    return f"minimum {least:,}" if most is None else f"{least:,} to {most:,}"
