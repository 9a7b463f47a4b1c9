"""queend status: prints what a server does: health, messages, rates, backlog."""
from __future__ import annotations

from typing import Any

import typer

from ..plural import many
from .client import Server, ServerError
from .output import Format, Output, facts, one, short, size, span
from .remote import FORBIDDEN, REFUSED, UNREACHABLE, remote, tell
from .watch import watched


def asked(server: Server, path: str, refused: list[str], **query: Any) -> dict[str, Any]:
    """Returns what a route says; nothing if the server lacks it or refuses us, which is added to `refused`."""
    try:
        return server.get(path, **query) or {}
    except ServerError as error:
        if error.code == 0 or error.status == UNREACHABLE:
            raise
        if error.status == FORBIDDEN:
            refused.append(error.text)
        return {}


@remote
@watched
def status(server: Server, output: Output = Format.table) -> None:
    """Show health, message counts, rates and lag of the server. Exits with 1 if the server is not healthy."""
    try:
        health = server.get("/health") or {}
    except ServerError as error:
        if error.code != 503 or not isinstance(error.body, dict):
            raise
        health = error.body
    there = health.get("status") == "healthy"
    refused: list[str] = []
    overview = asked(server, "/api/v1/resources/overview", refused) if there else {}
    buffers = asked(server, "/api/v1/status/buffers", refused)
    modes = health.get("shared_state", {})
    messages, rates, late = overview.get("messages", {}), overview.get("throughput", {}), overview.get("lag", {})
    whole = {"url": server.url, "health": health, "overview": overview, "buffers": buffers}

    def lines() -> None:
        facts([
            ("server", f"{server.url}, {health.get('server', 'a server')} {health.get('version', '')}"),
            ("health", health.get("status", "unknown")), ("why", health.get("reason")),
            ("database", ", ".join([health.get("database", "unknown"), *health.get("doubts", [])])),
            ("commits", "MAY BE LOST: " + ", ".join(health["commitsMayBeLost"])
             if health.get("commitsMayBeLost") else ""),
            ("maintenance", " and ".join(name for name, key in (("push", "maintenance_mode"),
                                                                ("pop", "pop_maintenance_mode")) if modes.get(key))),
            *([("queues", f"{overview['queues']} with {many(overview['partitions'], 'partition', short)}"),
               ("waiting", f"{many(messages['pending'], 'message', short)}, {short(messages['processing'])} in flight"),
               ("dead letters", f"{short(messages['deadLetter'])} of all time" if messages["deadLetter"]
                else ""),
               ("rates", f"{short(rates['ingestedPerSecond'])}/s pushed, "
                         f"{short(rates['processedPerSecond'])}/s acknowledged (5-minute average)"),
               ("lag", f"max {span(late['time']['max'])}, median {span(late['time']['median'])}")]
              if messages and rates and late else []),
            ("buffered", f"{many(buffers['pending'], 'message')}, {size(buffers.get('bytes', 0))}, oldest "
                         f"{span(buffers.get('oldestAgeSeconds'))} ago" if buffers.get("pending") else ""),
            ("quarantined", buffers.get("failed") or ""),
            ("buffers", f"{buffers['otherDatabases']} of other databases; see `queend failover adopt`"
             if buffers.get("otherDatabases") else ""),
        ])

    one({**whole, "name": server.url}, output, lines)
    if refused:
        tell("only the public fields are shown", refused[0])
    if not there:
        raise typer.Exit(REFUSED)
