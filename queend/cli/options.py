"""Arguments and options of several commands."""
from __future__ import annotations

from typing import Annotated, Optional

import typer

from .server_names import queues

Queue = Annotated[str, typer.Argument(help="The queue.", autocompletion=queues)]
OfQueue = Annotated[Optional[str], typer.Argument(help="Only of this queue.", autocompletion=queues)]
MessageId = Annotated[str, typer.Argument(metavar="PARTITION_ID/TRANSACTION_ID")]
MessageIds = Annotated[list[str], typer.Argument(metavar="PARTITION_ID/TRANSACTION_ID...")]
Partition = Annotated[Optional[str], typer.Option("--partition", "-p", help="Only of this partition.")]
Group = Annotated[Optional[str], typer.Option("--group", "-g", help="The consumer group.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="So many at most.")]
Payload = Annotated[bool, typer.Option("--payload", help="Print the payload alone, a line each.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
