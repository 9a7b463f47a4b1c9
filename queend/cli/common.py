"""What the commands share: settings or a clear end."""
from __future__ import annotations

from typing import Any, NoReturn

import typer

from .. import log
from ..config import ConfigError, Settings, load


def settings_or_exit(**arguments: Any) -> tuple[Settings, dict[str, Any]]:
    """The settings and the command line arguments that were given; ends the process with status 2 if they are wrong."""
    given = {name: value for name, value in arguments.items() if value is not None}
    try:
        return load(**given), given
    except ConfigError as error:
        for problem in str(error).splitlines():
            typer.echo(f"queend: {problem}", err=True)
        raise typer.Exit(2) from None


def fail(text: str) -> NoReturn:
    typer.echo(f"queend: {log.masked(text)}", err=True)
    raise typer.Exit(1)
