"""queend config: checks the daemon's settings and prints them, secrets masked."""
from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ..settings.model import Settings
from ..settings.origins import origins
from ..settings.redact import masked
from .common import settings_or_exit
from .terminal import clean, say


def spelled(value: Any) -> str:
    """Returns a value as the environment and the configuration file have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def config(
    show_origin: Annotated[bool, typer.Option("--show-origin", help="Also print the origin of each value.")] = False,
    changed: Annotated[bool, typer.Option("--changed", help="Print only settings that differ from the "
                       "default.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check the daemon's settings and print them; secrets are masked."""
    settings = settings_or_exit()
    origin = origins(settings)
    shown: dict[str, Any] = {}
    for name, field in Settings.model_fields.items():
        if not changed or origin[name] != "default" and getattr(settings, name) != field.default:
            shown[name] = masked(settings, name)
    if as_json:
        say(*json.dumps({name.upper(): {"value": value, "origin": origin[name]} if show_origin else value
                         for name, value in shown.items()}, indent=1, default=str).split("\n"))
        return
    table = Table("setting", "value", *(["origin"] if show_origin else []), box=None, pad_edge=False)
    for name, value in shown.items():
        table.add_row(name.upper(), clean(spelled(value)), *([origin[name]] if show_origin else []))
    console = Console(soft_wrap=True, highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 200
    console.print(table)
