"""queend pop: takes messages, and acknowledges them on request."""
from __future__ import annotations

import sys
import time
from typing import Annotated, Any, Optional

import typer

from ..duration import exact
from ..wording import many
from .client import Server
from .options import Group, Partition, Payload
from .output import Format, Output, age, dump, show
from .remote import NOTHING, USAGE, Foreign, Stop, remote, seconds, tell
from .server_names import queues
from .terminal import say, write

POLL_S = 30.0      # longest wait of one request


def acknowledgment(message: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    """Returns the acknowledgment of a popped message."""
    return {"transactionId": message["transactionId"], "partitionId": message["partitionId"], "status": status,
            **({"leaseId": message["leaseId"]} if message.get("leaseId") else {}), **more}


@remote
def pop(
    server: Server,
    queue: Annotated[Optional[str], typer.Argument(help="Name of the queue; omit it with --namespace or --task.",
                                                   autocompletion=queues)] = None,
    partition: Partition = None, group: Group = None,
    batch: Annotated[int, typer.Option("--batch", "-n", min=1, help="Maximum number of messages.")] = 1,
    partitions: Annotated[Optional[int], typer.Option(min=1, help="Maximum number of partitions to pop from.")] = None,
    wait: Annotated[str, typer.Option("--wait", "-w", metavar="DURATION", help="Wait up to this long for a "
                    "message.")] = "0s",
    follow: Annotated[bool, typer.Option("--follow", help="Keep popping until Ctrl-C.")] = False,
    ack: Annotated[bool, typer.Option("--ack", help="Acknowledge the messages after they are printed.")] = False,
    auto_ack: Annotated[bool, typer.Option("--auto-ack", help="Consume the messages with the delivery, without "
                        "acknowledgments.")] = False,
    lease: Annotated[Optional[str], typer.Option(metavar="DURATION", help="Duration of the lease, in whole "
                     "seconds.")] = None,
    beginning: Annotated[Optional[str], typer.Option("--from", metavar="WHERE", help="Start position of a new group: "
                         "new, all, or a time.")] = None,
    conflation: Annotated[bool, typer.Option("--conflation", help="Only the newest message of each partition: a "
                          "property of the group, set by its first pop.")] = False,
    namespace: Annotated[Optional[str], typer.Option(help="Pop from any queue in this namespace.")] = None,
    task: Annotated[Optional[str], typer.Option(help="Pop from any queue with this task.")] = None,
    payload: Payload = False, output: Output = Format.table,
) -> None:
    """Pop messages from a queue. Exits with 5 if there are none. Messages that are not acknowledged are delivered again
    when their lease ends."""
    if queue is None and partition is not None:
        raise Stop("--partition requires a queue", USAGE, "pass the name of the queue as an argument")
    if queue is None and namespace is None and task is None:
        raise Stop("a queue, --namespace or --task is required", USAGE)
    if queue is not None and (namespace is not None or task is not None):
        raise Stop("a queue cannot be combined with --namespace or --task", USAGE)
    if ack and auto_ack:
        raise Stop("--ack and --auto-ack cannot be combined", USAGE)
    if conflation and group is None:
        raise Stop("--conflation requires --group", USAGE)
    if conflation and auto_ack:
        raise Stop("--conflation and --auto-ack cannot be combined", USAGE)
    names = [name for name in (queue, partition) if name is not None]
    path = "/api/v1/pop" + ("/queue/{}" if queue is not None else "") + ("/partition/{}" if partition is not None
                                                                         else "")
    query: dict[str, Any] = {"batch": batch, "consumerGroup": group, "partitions": partitions,
                             "leaseSeconds": None if lease is None else _leased(lease), "autoAck": auto_ack or None,
                             "conflation": conflation or None, "namespace": namespace, "task": task}
    if beginning is not None:
        query |= {"subscriptionMode": beginning} if beginning in ("new", "all") else {"subscriptionFrom": beginning}
    patience = seconds(wait, "--wait")
    end = time.monotonic() + patience
    count, told = 0, False
    while True:
        left = POLL_S if follow else min(POLL_S, end - time.monotonic())
        waiting = {"wait": True, "timeout": max(1, int(left * 1000))} if left > 0 else {}
        answer = server.get(path, *names, within=server.timeout + max(0.0, left), **query, **waiting) or {}
        messages = answer.get("messages", [])
        if answer.get("conflationConflict") and not told:
            told = True
            tell(f"group {group!r} does not conflate: it began without --conflation",
                 f"delete the group (`queend group delete {group}`) and pop again")
        count += len(messages)
        server.changed = server.changed or auto_ack and bool(messages)
        ends = not follow and (bool(messages) or time.monotonic() >= end)
        if output is not Format.json or follow or payload:
            printed(messages, output, payload)
        elif ends:      # the whole of it: a loop without --follow ends with the first messages
            show(messages, {}, output)
        if messages and ack:
            sys.stdout.flush()
            acknowledge(server, messages, group)
        if ends:
            break
    if not count:
        why = {"paused": ": the queue or the group is paused", "leased": ": the next messages are leased",
               "queue_not_found": f": there is no queue {queue!r}",
               "partition_not_found": f": there is no partition {partition!r}"}
        known = ": pop maintenance is on" if answer.get("paused") else why.get(answer.get("reason", ""), "")
        tell("no message" + (f" in {exact(patience)}" if patience else "") + known)
        raise typer.Exit(NOTHING)
    if output.for_people and not payload and not (ack or auto_ack) and sys.stderr.isatty():
        tell("the messages are not acknowledged",
             "acknowledge them with `queend ack ID --lease LEASE`, or pop with --ack")


def _leased(text: str) -> int:
    length = seconds(text, "--lease", 1)
    if length != int(length):
        raise Stop(f"--lease {text} is not a number of whole seconds", USAGE)
    return int(length)


def printed(messages: list[dict[str, Any]], output: Format, payload: bool) -> None:
    if payload:
        for one in messages:
            write(dump(one["data"]) + "\n")
    elif output is Format.names:
        for one in messages:
            say(f"{one['partitionId']}/{one['transactionId']}")
    elif not output.for_people:
        show(messages, {}, Format.ndjson)
    elif messages:
        show(messages, {"partition": "partition", "offset": "offset", "age": lambda one: age(one["createdAt"]),
                        "attempt": "deliveryAttempt", "id": lambda one: f"{one['partitionId']}/{one['transactionId']}",
                        "lease": "leaseId", **({"headers": lambda one: dump(one["headers"]) if "headers" in one else ""}
                                               if any("headers" in one for one in messages) else {}),
                        "payload": lambda one: dump(one["data"])}, output)
    sys.stdout.flush()


def acknowledge(server: Server, messages: list[dict[str, Any]], group: str | None, status: str = "completed",
                **more: Any) -> None:
    body = {"acknowledgments": [acknowledgment(one, status, **more) for one in messages],
            **({"consumerGroup": group} if group else {})}
    answer = server.post("/api/v1/ack/batch", body=body)
    if not isinstance(answer, list) or len(answer) != len(messages):
        raise Foreign(server.url)
    if refused := [row for row in answer if not row.get("success")]:
        raise Stop(f"{len(refused)} of {many(len(messages), 'acknowledgment')} refused: {refused[0]['transactionId']}: "
                   f"{refused[0].get('error')}", 1)
