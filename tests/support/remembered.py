"""What the daemon has in memory of queues, partitions, groups and cursors; of deleted ones until it is given back."""
from __future__ import annotations

from .client import Client

NOTHING = {"queues": 0, "partitions": 0, "groups": 0, "cursors": 0}


def remembered(client: Client) -> dict[str, int]:
    lines = client.figures()
    return {line.split('"')[1]: int(float(line.rsplit(" ", 1)[1])) for line in lines
            if line.startswith("queend_remembered{")}
