"""Rates of queues, as the server counts them by the minute: no clock of this machine is part of a rate."""
from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from . import server_clock
from .client import Server, ServerError


class Traffic(NamedTuple):
    """Messages per second, the average since the last whole minute began, and long polls that wait, the average of the
    newest minute. None: the server does not tell."""

    push: float | None = None
    pop: float | None = None
    ack: float | None = None
    parked: float | None = None


UNKNOWN, IDLE = Traffic(), Traffic(0.0, 0.0, 0.0, 0.0)


def traffic_of(server: Server, queue: str | None = None) -> dict[str, Traffic] | None:
    """Returns the traffic by queue; idle queues may be missing. Returns None if the server has no such figures, or the
    token may not see them. Requires an answer of the server, which tells its time."""
    since = server_clock.now().replace(second=0, microsecond=0) - timedelta(minutes=1)
    try:
        answer = server.get("/api/v1/analytics/queue-ops", from_=since.isoformat().replace("+00:00", "Z"),
                            queue=queue) or {}
    except ServerError as error:
        if error.code == 0:
            raise
        return None
    if "timeRange" not in answer:
        return None
    seconds = max(1.0, (datetime.fromisoformat(answer["timeRange"]["to"]) - since).total_seconds())
    counts: dict[str, list[float]] = {}
    for row in answer["series"]:      # oldest minute first
        sums = counts.setdefault(row["queueName"], [0, 0, 0, 0])
        for i, name in enumerate(("pushMessages", "popMessages", "ackSuccess")):
            sums[i] += row[name]
        sums[3] = row["parkedCount"]
    return {name: Traffic._make([*(round(count / seconds, 4) for count in sums[:3]), sums[3]])
            for name, sums in counts.items()}


def of(traffic: dict[str, Traffic] | None, queue: str) -> Traffic:
    """Returns the traffic of a queue from an answer of `traffic_of`."""
    return UNKNOWN if traffic is None else traffic.get(queue, IDLE)
