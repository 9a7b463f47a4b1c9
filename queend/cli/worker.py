"""queend worker: runs the workers of a program that uses queend.client."""
from __future__ import annotations

import importlib
import logging
import os
import sys
from typing import Annotated, Any, Optional

import typer

from .remote import USAGE, Stop, ending, given, seconds

LEVELS = {"trace": logging.DEBUG, "debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING,
          "error": logging.ERROR}


@ending
def worker(
    app: Annotated[str, typer.Argument(metavar="MODULE:APP", help="Module and variable of the App, for example "
                                                                  "shop.workers:app.")],
    names: Annotated[Optional[list[str]], typer.Argument(metavar="WORKER", help="Only these workers.")] = None,
    grace: Annotated[str, typer.Option(metavar="DURATION", help="Time that handlers have to end after SIGTERM or "
                                                                "SIGINT. A second signal ends them.")] = "25s",
    log_level: Annotated[str, typer.Option(help="Log level: debug, info, warn or error.")] = "info",
) -> None:
    """Run the workers of a Python program (docs/client.md).

    The program says which server it uses; by default it is the one of QUEEND_URL, with the token of QUEEND_TOKEN or
    QUEEND_TOKEN_FILE. The exit status is 1 if the server refuses the first request of a worker, or if handlers did not
    end in time. Later refusals and a missing token are errors in the log, and the request is sent again."""
    try:
        from ..client.run import Run
        from ..client.worker import App
    except ModuleNotFoundError as error:
        raise Stop(f"queend worker needs the package {error.name}", USAGE,
                   "install queend with its extra `client` (docs/install.md)") from None
    if unused := [name for name, value in given.items() if value is not None]:
        raise Stop(f"--{unused[0].replace('_', '-')} has no effect on queend worker", USAGE,
                   "set QUEEND_URL and QUEEND_TOKEN_FILE, or the arguments of App")
    if log_level not in LEVELS:
        raise Stop(f"{log_level!r} is no log level", USAGE, f"use one of {', '.join(LEVELS)}")
    logging.basicConfig(level=LEVELS[log_level], format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)     # it tells each request
    time_to_end = seconds(grace, "--grace", most=86400)
    found = _found(app)
    if not isinstance(found, App):
        raise Stop(f"{app} is a {type(found).__name__}, not a queend.client.App", USAGE)

    def stuck(status: int) -> None:
        logging.shutdown()
        os._exit(status)

    try:
        run = Run(found, names or [], time_to_end, stuck)
    except ValueError as error:
        raise Stop(str(error), USAGE) from None
    if status := run.run(signals=True):
        raise typer.Exit(status)


def _found(text: str) -> Any:
    """Returns what MODULE:NAME names. Modules of the current directory are found, too."""
    module, _, name = text.partition(":")
    if not module or not name:
        raise Stop(f"{text!r} is not of the form MODULE:APP", USAGE)
    sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise Stop(f"there is no module {error.name!r}", USAGE, "modules are searched in the current directory and in "
                                                                "PYTHONPATH") from None
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise Stop(f"the module {module} has no {name!r}", USAGE) from None
    return found
