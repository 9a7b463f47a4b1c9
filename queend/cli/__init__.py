"""The command line. Each command stands in a file of its own; only the called one is imported."""
from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from keyword import iskeyword
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from .. import __version__
from .aliases import hint
from .completion import VARIABLE, rejoin
from .plain import parameter, plain
from .remote import CaFile, CertFile, Context, Timeout, TokenFile, Url, given, unwritten
from .terminal import clean

# by heading: the name of each command, its file below queend/cli, its purpose
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Daemon": {
        "serve": ("serve", "Run the daemon, with the configured PostgreSQL or with an embedded one."),
        "migrate": ("migrate", "Migrate the database to the schema of this version, then exit."),
        "config": ("config", "Check the daemon's settings and print them; secrets are masked."),
        "import-queen": ("import_queen", "Import queues, undelivered messages, consumer group cursors and dead letters "
                                         "from a Queen MQ database."),
        "failover": ("failover", "Manage the failover buffer."),
        "backup": ("backup", "Back up the daemon's database and its failover buffer to a new directory."),
        "restore": ("backup", "Restore a backup into the daemon's database."),
    },
    "Administration": {
        "status": ("status", "Show health, message counts, rates and lag of the server."),
        "top": ("top", "Show the busiest queues, redrawn every two seconds."),
        "doctor": ("doctor", "Find problems of the server and its database."),
        "queue": ("queue", "Manage queues: list, show, create, configure, pause, resume, clear, delete."),
        "group": ("group", "Manage consumer groups: list with lag, show, seek, pause, resume, delete."),
        "export": ("definitions", "Export queues, their configured options and their consumer groups, for `queend "
                                  "import`."),
        "import": ("definitions", "Create or update queues and consumer groups from a file that `queend export` "
                                  "wrote."),
        "bench": ("bench", "Measure push and pop rates and latencies."),
    },
    "Messages": {
        "push": ("push", "Push messages from arguments, standard input or files."),
        "pop": ("pop", "Pop messages from a queue."),
        "ack": ("ack", "Acknowledge messages."),
        "tail": ("tail", "Print messages as they are stored, oldest first, without consuming them."),
        "message": ("message", "Manage stored messages: list, search, show, delete, retry, dlq."),
        "lease": ("lease", "Manage leases: list, extend, release."),
        "timer": ("timer", "Manage timers: list, show, schedule, cancel."),
        "dlq": ("dlq", "Manage dead letters: list, errors, show, redrive, edit, purge."),
        "trace": ("trace", "Show traces that programs recorded about messages."),
        "kv": ("kv", "Manage keys and values: get, put, delete, list, namespaces."),
        "erase": ("erase", "Overwrite messages permanently, consumed and deleted ones included, with their dead "
                           "letters and traces."),
    },
    "Other": {
        "context": ("context", "Manage saved servers and their tokens."),
        "token": ("token", "Create and inspect tokens: mint, inspect."),
        "completion": ("completion", "Print a shell completion script for commands, options and names of queues, "
                                     "groups and contexts."),
        "worker": ("worker", "Run the workers of a Python program (docs/client.md)."),
        "spark": ("spark", "Run Spark jobs: archive, read, replay, dlq, aggregate, backfill, lag (docs/spark.md)."),
    },
}
REWORDED = ((r"^Value error, ", ""), (r", unable to (parse|interpret).*", ""), (r"^Input should be ", "it must be "))
COMMANDS = {name: place for section in SECTIONS.values() for name, place in section.items()}


class Commands(dict[str, Any]):
    """The commands by name, each imported at its first use."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COMMANDS))

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        if found is None:
            module = importlib.import_module(f".{COMMANDS[name][0]}", __name__)
            word = name.replace("-", "_")
            made = getattr(module, f"{word}_" if iskeyword(word) else word)
            one = made if isinstance(made, typer.Typer) else typer.Typer()
            if one is not made:
                one.command(name)(made)
            one._add_completion, one.rich_markup_mode = False, None      # as `queend` itself has it
            self[name] = found = plain(get_command(one))
            found.name = name
        return found

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default

    def values(self) -> Any:
        return [self[name] for name in self]

    def items(self) -> Any:
        return [(name, self[name]) for name in self]


@contextmanager
def spoken() -> Iterator[None]:
    """Rewords refusals of pydantic, which typer uses, as sentences for people."""
    try:
        yield
    except Exception as raised:
        error: Any = raised
        if hasattr(error, "format_message") and isinstance(getattr(error, "message", None), str):
            for pattern, instead in REWORDED:
                error.message = re.sub(pattern, instead, error.message)
            if meant := hint(error.message, getattr(error, "ctx", None)):
                error.message = f"{error.message.removesuffix('.')}. {meant}"
            helps = type(error).__name__ == "NoArgsIsHelpError"      # its message is the help of a group, many lines
            error.message = "\n".join(map(clean, error.message.split("\n"))) if helps else clean(error.message)
        raise


class Root(TyperGroup):
    """The command `queend` itself. Its help is made of the table above, so that nothing is imported for it."""

    def __init__(self, **attributes: Any):
        super().__init__(**attributes)
        self.commands = Commands()
        for one in self.params:
            parameter(one)

    def make_context(self, *words: Any, **more: Any) -> Any:
        with spoken():
            return super().make_context(*words, **more)

    def invoke(self, ctx: Any) -> Any:
        with spoken():
            return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        with formatter.section("Options"):
            formatter.write_dl([record for parameter in self.get_params(ctx)
                                if (record := parameter.get_help_record(ctx))])
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()])


app = typer.Typer(cls=Root, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
                  rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"queend {__version__}")
        raise typer.Exit


@app.callback()
def queend(url: Url = None, context: Context = None, token_file: TokenFile = None, ca: CaFile = None,
           cert: CertFile = None, timeout: Timeout = None,
           version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True,
                                                 help="Print the version and exit.")] = False) -> None:
    """A message queue daemon on PostgreSQL. The daemon reads its settings from the environment; see `queend config`."""
    given.clear()
    given.update(url=url, context=context, token_file=token_file, ca=ca, cert=cert, timeout=timeout)


def main() -> None:
    # Streams that were closed behave like empty ones.
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")
    if VARIABLE in os.environ:      # a shell asks for completions
        from typer.completion import completion_init

        completion_init()
        rejoin()
    try:
        app(prog_name="queend")
    except OSError as error:
        sys.exit(unwritten(error))
