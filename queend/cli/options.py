"""Arguments and options of several commands."""
from __future__ import annotations

from typing import Annotated, Optional

import typer

from .server_names import queues

Queue = Annotated[str, typer.Argument(help="Name of the queue.", autocompletion=queues)]
OfQueue = Annotated[Optional[str], typer.Argument(help="Only this queue.", autocompletion=queues)]
MessageId = Annotated[str, typer.Argument(metavar="PARTITION_ID/TRANSACTION_ID")]
MessageIds = Annotated[list[str], typer.Argument(metavar="PARTITION_ID/TRANSACTION_ID...")]
Partition = Annotated[Optional[str], typer.Option("--partition", "-p", help="Only this partition.")]
Group = Annotated[Optional[str], typer.Option("--group", "-g", help="Consumer group.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of results.")]
Payload = Annotated[bool, typer.Option("--payload", help="Print only payloads, one per line.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would change, with counts, and change nothing.")]
