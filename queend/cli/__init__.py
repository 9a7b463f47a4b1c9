"""The command line: `queend serve`, `queend migrate`, `queend config`, `queend import-queen`, `queend failover`, `queend spark`."""
from __future__ import annotations

from typing import Annotated

import typer

from .. import __version__
from .config import config
from .failover import failover
from .import_queen import import_queen
from .migrate import migrate
from .serve import serve
from .spark import spark

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]})
app.command()(serve)
app.command()(migrate)
app.command()(config)
app.command()(import_queen)
app.add_typer(failover, name="failover")
app.add_typer(spark, name="spark")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"queend {__version__}")
        raise typer.Exit


@app.callback()
def queend(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False) -> None:
    """A message queue daemon on PostgreSQL. Settings come from the environment; see `queend config`."""


def main() -> None:
    app()
