"""queend push: stores messages from arguments, standard input or files."""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from .client import Server
from .lines import Bad, payloads, values
from .output import Format, Output, Progress, many
from .remote import USAGE, Stop, remote
from .sending import Sender
from .server_names import queues

Delay = Annotated[Optional[str], typer.Option(metavar="DURATION", help="Deliver it no sooner: 1500ms, 10s, 5m, "
                                              "2h, 1d.")]
UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(text: str) -> int:
    """Parses a duration; a number without a unit counts seconds."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    try:
        return round(float(number) * UNITS[text[len(number):] or "s"])
    except (ValueError, KeyError, OverflowError):
        raise Stop(f"{text!r} is no duration: 1500ms, 10s, 5m, 2h, 1d", USAGE) from None


@remote
def push(
    server: Server,
    queue: Annotated[str, typer.Argument(help="The queue; made where there is none.", autocompletion=queues)],
    payload: Annotated[Optional[list[str]], typer.Argument(help="JSON, a message each; without any, lines of standard "
                                                           "input.")] = None,
    partition: Annotated[str, typer.Option("--partition", "-p", help="Its partition.")] = "Default",
    partition_field: Annotated[Optional[str], typer.Option(metavar="FIELD", help="The partition is this member of "
                               "the payload.")] = None,
    file: Annotated[Optional[list[Path]], typer.Option("--file", "-f", help="A file: one message, or with --lines one "
                                                       "a line.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Each line of the files is a message.")] = False,
    text: Annotated[bool, typer.Option("--text", help="Payloads are text, not JSON.")] = False,
    items: Annotated[bool, typer.Option("--items", help="Lines are items: payload, partition, transactionId, "
                                        "deliverAt, … (docs/push-formats.md).")] = False,
    transaction_id: Annotated[Optional[str], typer.Option(help="The message's own id; only for a single one.")] = None,
    header: Annotated[Optional[list[str]], typer.Option("--header", "-H", metavar="NAME:VALUE", help="A header of "
                      "the push: traceparent, Idempotency-Key; with ce-… it is a CloudEvent.")] = None,
    delay: Delay = None,
    deliver_at: Annotated[Optional[str], typer.Option(metavar="TIME", help="Deliver it no sooner; ISO 8601 with its "
                                                      "zone.")] = None,
    output: Output = Format.table,
) -> None:
    """Store messages: from arguments, standard input or files."""
    if delay and deliver_at:
        raise Stop("--delay and --deliver-at exclude each other", USAGE)
    several = len(payload or []) + len(file or []) != 1 or lines
    if payload and (file or items) or (transaction_id is not None and several):
        raise Stop("payloads are arguments, or come from files or standard input; --transaction-id is for one", USAGE)
    every: dict[str, Any] = {"delayMs": milliseconds(delay)} if delay else {}
    if deliver_at:
        every["deliverAt"] = deliver_at
    if transaction_id is not None:
        every["transactionId"] = transaction_id
    sender = Sender(server, queue, partition, partition_field, every, headers_of(header or []), output)
    if payload:
        source = values([one.encode(errors="surrogateescape") for one in payload], text)
    else:
        source = payloads(file or [], lines or items or not file, text)
    with Progress("pushing", source.size, bytes_=True) as progress:
        try:
            for one in source:
                sender.add(one, items)
                progress.add(one.taken)
            sender.flush()
        except Bad as error:
            sender.flush()
            stored = f"{many(sender.stored, 'message')} before it {'was' if sender.stored == 1 else 'were'} stored"
            hint = "the queue comes first, then the payloads" if payload and queue[:1] in ("{", "[", '"') else ""
            raise Stop(f"{error}; {stored}", 1, hint) from None
        except BaseException:
            sender.tell()
            raise
    sender.tell()
    sys.stdout.flush()


def headers_of(given: list[str]) -> dict[str, str]:
    found = {}
    for one in given:
        name, colon, value = one.partition(":")
        if not colon or not name.strip() or not name.strip().isascii() or any(sign < " " for sign in one):
            raise Stop(f"{one!r} is not of the form NAME: VALUE", USAGE)
        found[name.strip()] = value.strip()
    return found
