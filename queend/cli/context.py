"""queend context: saved servers: their addresses and tokens, and which one is meant."""
from __future__ import annotations

import os
from typing import Annotated, Optional

import typer

from .client import Server
from .contexts import chosen, load, path, save
from .output import Format, Output, show
from .remote import NOT_FOUND, CaFile, CertFile, Stop, ending, given
from .terminal import say

context = typer.Typer(no_args_is_help=True, help="Manage saved servers and their tokens.")
NONE = "`queend context list` shows all contexts"


@context.command("list")
@ending
def context_list(output: Output = Format.table) -> None:
    """List the contexts, without their tokens."""
    state = load()
    show(({"name": name, "url": one["url"], "current": name == state.get("current"),
           "token": "saved" if one.get("token") else one.get("tokenFile", "")}
          for name, one in sorted(state["contexts"].items())),
         {"": lambda one: "*" if one["current"] else "", "name": "name", "url": "url", "token": "token"}, output,
         none="no saved servers; add one with `queend context add`")


@context.command()
@ending
def add(
    name: Annotated[str, typer.Argument(help="Name of the context.")],
    url: Annotated[str, typer.Argument(help="URL of the server.")],
    token_file: Annotated[Optional[str], typer.Option(help="File with the token; read again for each command.")] = None,
    ask_token: Annotated[bool, typer.Option("--ask-token", help="Prompt for a token and save it.")] = False,
    ca: CaFile = None,
    cert: CertFile = None,
) -> None:
    """Save a server as a context, or change one. The first context becomes the current one. A token in QUEEND_TOKEN is
    saved with it; of --token-file, --ca and --cert, the names of the files."""
    state = load()
    one = {"url": Server(url).url}
    token = typer.prompt("Token", hide_input=True, err=True) if ask_token else os.environ.get("QUEEND_TOKEN", "")
    if not (token_file := token_file or given.get("token_file")) and token:
        one["token"] = token.strip()
    for key, file in (("tokenFile", token_file), ("ca", ca or given.get("ca")), ("cert", cert or given.get("cert"))):
        if file:
            one[key] = os.path.abspath(os.path.expanduser(file))
    state["contexts"][name] = one
    state["current"] = state.get("current") or name
    save(state)
    say(f"{name}: {one['url']}, saved in {path()}", err=True)


@context.command()
@ending
def use(name: Annotated[str, typer.Argument(help="Name of the context.")]) -> None:
    """Set the current context, which commands use by default."""
    state = load()
    if name not in state["contexts"]:
        raise Stop(f"there is no context {name!r}", NOT_FOUND, NONE)
    save({**state, "current": name})


@context.command("show")
@ending
def context_show(name: Annotated[Optional[str], typer.Argument(help="Name of the context. Default: the current "
                 "one.")] = None) -> None:
    """Print the URL of a context."""
    one = chosen(name)
    if one is None:
        raise Stop("no current context", NOT_FOUND, "add one with `queend context add`, or choose one with `queend "
                                                      "context use`")
    say(one["url"])


@context.command()
@ending
def remove(name: Annotated[str, typer.Argument(help="Name of the context.")]) -> None:
    """Delete a context and its token."""
    state = load()
    if state["contexts"].pop(name, None) is None:
        raise Stop(f"there is no context {name!r}", NOT_FOUND, NONE)
    save({**state, "current": None if state.get("current") == name else state.get("current")})
