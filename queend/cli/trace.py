"""queend trace: prints the traces that programs recorded about messages."""
from __future__ import annotations

from typing import Annotated, Any

import typer

from ..wording import group_name
from .ack import address
from .client import Server
from .options import MessageId
from .output import Format, Output, age, show
from .remote import remote
from .watch import watched

trace = typer.Typer(no_args_is_help=True, help="Show traces that programs recorded about messages.")
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of results.")]
COLUMNS: dict[str, Any] = {"recorded": lambda row: age(row["created_at"]), "event": "event_type",
                           "group": lambda row: group_name(row["consumer_group"]), "data": "data"}


@trace.command("list")
@remote
@watched
def trace_list(server: Server, limit: Limit = 50, output: Output = Format.table) -> None:
    """List the names of traces, newest first."""
    rows = (server.get("/api/v1/traces/names", limit=limit) or {}).get("trace_names", [])
    show(rows, {"name": "trace_name", "traces": "trace_count", "messages": "message_count",
                "last": lambda row: age(row["last_seen"])}, output, "trace_name",
         none="no traces")


@trace.command()
@remote
@watched
def named(server: Server, name: Annotated[str, typer.Argument(help="A name.")], limit: Limit = 100,
          output: Output = Format.table) -> None:
    """List the traces with a name, oldest first."""
    rows = (server.get("/api/v1/traces/by-name/{}", name, limit=limit) or {}).get("traces") or []
    show(rows, {"queue": "queue_name", "partition": "partition_name", "message": "transaction_id", **COLUMNS}, output,
         "id", f"no traces with the name {name!r}",
         ("partition", "group", "recorded", "message"))


@trace.command("show")
@remote
@watched
def trace_show(server: Server, id_: MessageId, output: Output = Format.table) -> None:
    """List the traces of a message, oldest first."""
    show((server.get("/api/v1/traces/{}/{}", *address(id_)) or {}).get("traces", []), COLUMNS, output, "id",
         "no traces of this message")
