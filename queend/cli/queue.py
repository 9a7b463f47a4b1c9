"""queend queue: queues listed, shown, created, configured, paused, resumed, cleared, deleted."""
from __future__ import annotations

import fnmatch
import json
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Annotated, Any, Optional

import typer

from ..control.options import BY_NAME, SWITCH
from ..duration import UNITS, exact, milliseconds
from ..wording import many
from .client import Server, ServerError
from .options import DryRun, Yes
from .output import Format, Output, age, cell, facts, one, short, show
from .remote import NOT_FOUND, REFUSED, USAGE, Stop, remote, sure
from .resources import LONG_S, found, groups_of, head_of, partition_of, queues_of
from .server_names import queues
from .terminal import say
from .traffic import Traffic, of, traffic_of
from .watch import watched

queue = typer.Typer(no_args_is_help=True, help="Manage queues: list, show, create, configure, pause, resume, "
                                                  "clear, delete.")
Name = Annotated[str, typer.Argument(help="A queue.", autocompletion=queues)]
# Columns that a narrow terminal leaves out, the least important one first.
SPARE = ("task", "namespace", "stored", "partitions", "in flight", "dead letters", "out/s", "in/s")
SPARE_OF_PARTITIONS = ("newest", "stored", "dead letters", "oldest", "in flight")
Names = Annotated[list[str], typer.Argument(help="Names of the queues.", autocompletion=queues)]


@queue.command("list")
@remote
@watched
def queue_list(
    server: Server,
    pattern: Annotated[Optional[str], typer.Argument(help="Only queues whose name matches this pattern: "
                       "order*.")] = None,
    namespace: Annotated[Optional[str], typer.Option(help="Only queues in this namespace.")] = None,
    task: Annotated[Optional[str], typer.Option(help="Only queues with this task.")] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only queues with waiting messages.")] = False,
    limit: Annotated[Optional[int], typer.Option(min=1, help="Maximum number of queues to list.")] = None,
    output: Output = Format.table,
) -> None:
    """List queues, newest first, with depths and with rates of the last one to two minutes."""
    def wanted() -> Iterator[dict[str, Any]]:
        traffic: dict[str, Traffic] | None = {}
        for number, row in enumerate(queues_of(server)):
            if number == 0 and output is not Format.names:
                traffic = traffic_of(server)
            if pattern is not None and not fnmatch.fnmatchcase(row["name"], pattern):
                continue
            if namespace in (None, row["namespace"]) and task in (None, row["task"]) and (
                    not waiting or row["messages"]["pending"]):
                rate = of(traffic, row["name"])
                yield {**row, "inPerSecond": rate.push, "outPerSecond": rate.pop}

    rows = wanted()
    show(islice(rows, limit and min(limit, sys.maxsize)), {"queue": "name", "namespace": "namespace", "task": "task",
                    "partitions": lambda row: short(row["partitions"]),
                    "waiting": lambda row: short(row["messages"]["pending"]),
                    "in flight": lambda row: short(row["messages"]["processing"]),
                    "stored": lambda row: short(row["messages"]["total"]),
                    "dead letters": lambda row: short(row.get("deadLetters") or None),
                    "in/s": lambda row: short(row["inPerSecond"]), "out/s": lambda row: short(row["outPerSecond"]),
                    "": lambda row: "paused" if row.get("paused") else ""}, output,
         none="no queues; the first push creates one"
         if (pattern, namespace, task, waiting) == (None, None, None, False) else "no matching queues", spare=SPARE)
    if limit is not None and next(rows, None):
        say(f"there are more than {many(limit, 'queue')}", err=True)


@queue.command("show")
@remote
@watched
def queue_show(server: Server, name: Name,
               limit: Annotated[int, typer.Option(min=0, help="Maximum number of partitions to show.")] = 20,
               output: Output = Format.table) -> None:
    """Show a queue with its totals, options and partitions."""
    head = found(server, name, limit=limit)
    rate = of(traffic_of(server, name), name)

    def lines() -> None:
        totals = head["totals"]
        facts([("queue", head["name"]), ("namespace", head["namespace"]), ("task", head["task"]),
               ("state", "paused" if head.get("paused") else ""),
               ("created", f"{head['createdAt']}, {age(head['createdAt'])} ago"),
               ("waiting", f"{totals['pending']:,}"), ("in flight", f"{totals['processing']:,}"),
               ("completed", f"{totals['completed']:,}"), ("stored", f"{totals['total']:,}"),
               ("dead letters", f"{totals['deadLetter']:,}" if totals["deadLetter"] else ""),
               ("rates", "" if rate.push is None else f"{short(rate.push)}/s in, {short(rate.pop)}/s out "
                         "(over 1m to 2m)")])
        asked = {option: value for option, value in head.get("options", {}).items() if value.get("asked")}
        if asked:
            say("")
            show(({"option": option, **value} for option, value in asked.items()),
                 {"option": "option", "value": lambda row: _told(row["option"], row["value"]),
                  "unit": lambda row: "" if _timed(row["option"], row["value"]) else row["unit"],
                  "effective": lambda row: "no effect" if row.get("inForce") is None else
                  _told(row["option"], row["inForce"])}, output)
        if head["partitions"]:
            say("")
            show(head["partitions"], {"partition": "name", "waiting": lambda row: row["stats"]["pending"],
                                      "in flight": lambda row: row["stats"]["processing"],
                                      "stored": lambda row: row["stats"]["total"],
                                      "dead letters": lambda row: row["stats"]["deadLetter"],
                                      "oldest": lambda row: age(row["oldestMessage"]),
                                      "newest": lambda row: age(row["newestMessage"])}, output,
                 spare=SPARE_OF_PARTITIONS)

    one(head, output, lines)


OptionWords = Annotated[Optional[list[str]], typer.Argument(
    metavar="OPTION=VALUE", help="Options, like leaseTime=60 or leaseTime=1m; null resets an option to its default "
                                 "(docs/queue-options.md).")]


@queue.command()
@remote
def create(
    server: Server,
    name: Name,
    options: OptionWords = None,
    unordered: Annotated[bool, typer.Option("--unordered", help="Messages that name no partition have no order: as "
                         "many workers as wait process them at once.")] = False,
    namespace: Annotated[Optional[str], typer.Option(help="Namespace of the queue.")] = None,
    task: Annotated[Optional[str], typer.Option(help="Task of the queue.")] = None,
    output: Output = Format.table,
) -> None:
    """Create a queue. A push creates a missing queue too, with the default options."""
    given = _given(options) | ({"ordered": False} if unordered else {})
    if head_of(server, name) is not None:
        raise Stop(f"the queue {name!r} exists", REFUSED, f"queend queue configure {name} changes its options")
    answer = server.post("/api/v1/configure", body=_body(name, given, namespace, task))
    stored = answer["options"]
    one({"name": name, **answer}, output, lambda: _configured(given, stored))


@queue.command()
@remote
def configure(
    server: Server,
    name: Name,
    options: OptionWords = None,
    namespace: Annotated[Optional[str], typer.Option(help="Namespace of the queue.")] = None,
    task: Annotated[Optional[str], typer.Option(help="Task of the queue.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Reset options that are not given to their "
                       "defaults.")] = False,
    dry_run: DryRun = False, output: Output = Format.table,
) -> None:
    """Configure a queue; creates it if it does not exist."""
    given = _given(options)
    body = {**_body(name, given, namespace, task), **({"mode": "replace"} if replace else {}),
            **({"dryRun": True} if dry_run else {})}
    was = head_of(server, name) if dry_run else None
    answer = server.post("/api/v1/configure", body=body)
    stored = answer["options"]
    if dry_run:
        if answer["configured"]:
            raise Stop(f"{server.url} does not support --dry-run: the queue {name!r} was configured", REFUSED)
        one({"name": name, **answer}, output, lambda: _would(name, was, answer))
        return
    one({"name": name, **answer}, output, lambda: _configured(given, stored))


def _given(options: list[str] | None) -> dict[str, Any]:
    """Returns the options of a command line. Raises Stop for one that no queue has."""
    given: dict[str, Any] = {}
    for word in options or []:
        option, equals, text = word.partition("=")
        if not equals or not option:
            raise Stop(f"invalid option {word!r}: expected OPTION=VALUE", USAGE)
        if option not in (*BY_NAME, SWITCH):      # servers ignore unknown options
            meant = get_close_matches(option, BY_NAME, 1)
            raise Stop(f"unknown option {option!r}", USAGE, f"{meant[0]}?" if meant else
                       f"the options are {', '.join(BY_NAME)}")
        try:
            given[option] = json.loads(text)
        except ValueError:
            given[option] = _counted(option, text)
    return given


def _body(name: str, given: dict[str, Any], namespace: str | None, task: str | None) -> dict[str, Any]:
    """Returns the body of a request to configure."""
    return {"queue": name, "options": given, **({"namespace": namespace} if namespace is not None else {}),
            **({"task": task} if task is not None else {})}


def _configured(given: dict[str, Any], stored: dict[str, Any]) -> None:
    """Prints the options that were given, or all of them."""
    facts((option, _told(option, stored.get(option))) for option in given or stored)


def _counted(option: str, text: str) -> Any:
    """Returns a duration like 5m as a number in the unit of its option; any other text as it is."""
    unit = UNITS.get(BY_NAME[option].unit) if option in BY_NAME else None
    read = milliseconds(text)
    return text if unit is None or read is None or read % unit else int(read) // unit


def _timed(option: str, value: Any) -> bool:
    """Returns whether a value of an option is a number of seconds or milliseconds."""
    return isinstance(value, int) and option in BY_NAME and BY_NAME[option].unit in UNITS


def _told(option: str, value: Any) -> Any:
    """Returns a value of an option as people read it: a time as a duration."""
    return exact(value * UNITS[BY_NAME[option].unit] / 1000) if _timed(option, value) else value


def _would(name: str, was: dict[str, Any] | None, answer: dict[str, Any]) -> None:
    """Prints what a configuration would change. was: the queue as it is; answer: as it would be."""
    before = {} if was is None else {"namespace": was["namespace"], "task": was["task"],
                                     **{option: value["value"] for option, value in was["options"].items()}}
    after = {"namespace": answer["namespace"], "task": answer["task"], **answer["options"]}
    changed = [(word, value) for word, value in after.items() if word in before and before[word] != value]
    if was is None:
        say(f"would create {name}")
        facts((word, _told(word, value)) for word, value in after.items())
    elif changed:
        say(f"would change {name}")
        facts((word, " → ".join(cell(_told(word, one)) or "-" for one in (before[word], value)))
              for word, value in changed)
    else:
        say(f"nothing of {name} would change")


@queue.command()
@remote
def pause(server: Server, names: Names) -> None:
    """Pause delivery from queues. Pops return no messages, and waiting pops keep waiting. Pushes and acknowledgments
    still work."""
    switch(server, names, "pause")


@queue.command()
@remote
def resume(server: Server, names: Names) -> None:
    """Resume delivery from paused queues."""
    switch(server, names, "resume")


def switch(server: Server, names: list[str], verb: str) -> None:
    for name in names:
        switched(server, verb, name, f"queue {name!r}", "/api/v1/queues/{}/{}", name)


def switched(server: Server, verb: str, shown: str, what: str, path: str, *names: str) -> None:
    """Pauses or resumes a queue or a group, and prints that."""
    try:
        done = server.post(path, *names, verb)
    except ServerError as error:
        if error.status == NOT_FOUND and error.text in ("Queue not found", "Consumer group not found"):
            raise Stop(f"there is no {what}", NOT_FOUND) from None
        raise
    say(f"{verb}d {shown}" if done["changed"] else f"{shown} was already {verb}d")


@queue.command()
@remote
def clear(server: Server, name: Name,
          partition: Annotated[Optional[str], typer.Option("--partition", "-p", help="Only this partition.")] = None,
          yes: Yes = False, dry_run: DryRun = False) -> None:
    """Delete all messages of a queue, consumed or not. The queue, its partitions and its groups are kept."""
    if partition is None:
        count = found(server, name, limit=1)["totals"]["total"]
    else:
        count = partition_of(server, name, partition)["stats"]["total"]
    what = f"the queue {name!r}" if partition is None else f"the partition {partition!r} of {name!r}"
    if dry_run:
        say(f"would remove {many(count, 'message')} of {what}")
        return
    sure(f"Remove {many(count, 'message')} of {what} at {server.url}?", yes)
    done = server.delete("/api/v1/queues/{}/clear", name, partition=partition, within=LONG_S)
    say(f"removed {many(done['count'], 'message')}")


@queue.command()
@remote
def delete(server: Server, names: Names,
           partition: Annotated[Optional[str], typer.Option("--partition", "-p", help="Delete only this "
                                "partition.")] = None,
           yes: Yes = False, dry_run: DryRun = False) -> None:
    """Delete queues with everything in them, or one partition of a queue."""
    if partition is not None:
        if len(names) > 1:
            raise Stop("--partition requires exactly one queue", USAGE)
        _delete_partition(server, names[0], partition, yes, dry_run)
        return
    heads = [found(server, name, limit=1) for name in names]
    for head in heads:
        totals, depth = head["totals"], server.get("/api/v1/resources/queues/{}/depth", head["name"], limit=0)
        say(f"{'would delete ' if dry_run else ''}{head['name']}: {many(totals['total'], 'message')}, "
            f"{depth['pending']} not consumed, {many(totals['deadLetter'], 'dead letter')}, "
            f"{many(sum(1 for _ in groups_of(server, head['name'])), 'group')}", err=not dry_run)
    if dry_run:
        return
    sure(f"Delete {'this queue' if len(heads) == 1 else f'these {len(heads)} queues'} at {server.url}?", yes)
    for name in names:
        server.delete("/api/v1/resources/queues/{}", name, within=LONG_S)
        say(f"deleted {name}")


def _delete_partition(server: Server, name: str, partition: str, yes: bool, dry_run: bool) -> None:
    stats = partition_of(server, name, partition)["stats"]
    what = (f"the partition {partition!r} of {name!r}: {many(stats['total'], 'message')}, {stats['pending']} waiting, "
            f"{stats['processing']} in flight, {many(stats['deadLetter'], 'dead letter')}")
    if dry_run:
        say(f"would delete {what}")
        return
    say(what, err=True)
    sure(f"Delete this partition at {server.url}?", yes)
    server.delete("/api/v1/queues/{}/partitions/{}", name, partition, within=LONG_S)
    say(f"deleted {partition} of {name}")
