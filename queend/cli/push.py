"""queend push: stores messages from arguments, standard input or files."""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from ..wording import many
from .client import Server
from .lines import Bad, payloads, values
from .output import Format, Output, Progress
from .remote import USAGE, Stop, remote, seconds, tell
from .sending import Sender
from .server_names import queues

Delay = Annotated[Optional[str], typer.Option(metavar="DURATION", help="Deliver no sooner than after this "
                  "delay.")]
QUEUE_FIRST = "the queue comes first, then the payloads"


def is_json(name: str) -> bool:
    """Tells whether the name of a queue was probably meant as a payload."""
    return name[:1] in ("{", "[", '"')


@remote
def push(
    server: Server,
    queue: Annotated[str, typer.Argument(help="Name of the queue; created if it does not "
                                              "exist.", autocompletion=queues)],
    payload: Annotated[Optional[list[str]], typer.Argument(help="Payloads as JSON, one message each. Default, and for "
                       "-: read lines from standard input.")] = None,
    partition: Annotated[str, typer.Option("--partition", "-p", help="Partition of the messages.")] = "Default",
    partition_field: Annotated[Optional[str], typer.Option(metavar="FIELD", help="Take the partition from this field "
                               "of the payload.")] = None,
    file: Annotated[Optional[list[Path]], typer.Option("--file", "-f", help="File with one message, or with --lines "
                    "one per line.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Read one message per line of the files.")] = False,
    text: Annotated[bool, typer.Option("--text", help="Push payloads as text instead of JSON.")] = False,
    items: Annotated[bool, typer.Option("--items", help="Read lines as items with payload, partition, transactionId, "
                                                        "deliverAt, … (docs/push-formats.md).")] = False,
    transaction_id: Annotated[Optional[str], typer.Option(help="Transaction id, for a single message.")] = None,
    header: Annotated[Optional[list[str]], typer.Option("--header", "-H", metavar="NAME=VALUE", help="Header of the "
                      "messages. NAME:VALUE is an HTTP header of the push: traceparent, Idempotency-Key; ce-… headers "
                      "push a CloudEvent.")] = None,
    delay: Delay = None,
    deliver_at: Annotated[Optional[str], typer.Option(metavar="TIME", help="Deliver no sooner than at this time, ISO "
                          "8601 with a time zone.")] = None,
    output: Output = Format.table,
) -> None:
    """Push messages from arguments, standard input or files."""
    if delay and deliver_at:
        raise Stop("--delay and --deliver-at cannot be combined", USAGE)
    if payload == ["-"] and not text:
        payload = None
    several = len(payload or []) + len(file or []) != 1 or lines
    if payload and (file or items) or (transaction_id is not None and several):
        raise Stop("payloads as arguments cannot be combined with --file or --items; --transaction-id requires a "
                   "single payload", USAGE)
    every: dict[str, Any] = {"delayMs": round(seconds(delay, "--delay") * 1000)} if delay is not None else {}
    if deliver_at:
        every["deliverAt"] = deliver_at
    if transaction_id is not None:
        every["transactionId"] = transaction_id
    if not payload and not file and is_json(queue) and sys.stdin.isatty():
        raise Stop(f"a queue is required; {queue!r} looks like a payload", USAGE, QUEUE_FIRST)
    own, headers = headers_of(header or [])
    if own:
        every["headers"] = own
    if own and any(name.lower().startswith("ce-") for name in headers):
        raise Stop("-H NAME=VALUE cannot be combined with -H ce-…", USAGE, "an event takes its own attributes: -H "
                   "ce-NAME:VALUE")
    if several and "ce-id" in map(str.lower, headers):
        raise Stop("-H ce-id requires a single payload", USAGE, "pass it as the argument, or use -f - to read one "
                   "message from standard input")
    sender = Sender(server, queue, partition, partition_field, every, headers, output)
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
            raise Stop(f"{error}; {stored}", 1, QUEUE_FIRST if payload and is_json(queue) else "") from None
        except OSError as error:      # of standard output
            error.add_note(f"{sender.result()} before that")
            raise
        except BaseException:
            sender.tell()
            raise
    try:
        sender.tell(done=True)
        sys.stdout.flush()
    except OSError as error:
        error.add_note(sender.result())
        raise
    if not payload and not file and not sender.added and is_json(queue):
        tell(f"standard input is empty, and {queue!r} is the name of a queue", QUEUE_FIRST)


def headers_of(given: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Returns headers of the messages (NAME=VALUE) and of the request (NAME:VALUE); the first such sign decides."""
    own: dict[str, str] = {}
    found: dict[str, str] = {}
    for one in given:
        name, sign, value = one.partition("=")
        if sign and name and ":" not in name:
            if name in own:
                raise Stop(f"the header {name!r} is given twice", USAGE)
            own[name] = value
            continue
        name, sign, value = one.partition(":")
        if not sign or not name.strip() or not name.strip().isascii() or any(letter < " " for letter in one):
            raise Stop(f"invalid header {one!r}: expected NAME=VALUE, or NAME:VALUE for HTTP", USAGE)
        found[name.strip()] = value.strip()
    return own, found
