"""queend export and queend import: queues with their options, and the groups that consume them."""
from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from ..wording import QUEUE_MODE, group_name, many
from .client import Server
from .options import DryRun
from .output import Format, Output, Progress, dump, show
from .remote import REFUSED, USAGE, Stop, remote, tell
from .resources import found, groups_of, head_of, queues_of
from .server_names import queues as completed
from .terminal import say, write

VERSION = 1
SEALED = "encryptionEnabled"
LARGEST = 256 << 20


@remote
def export(
    server: Server,
    names: Annotated[Optional[list[str]], typer.Argument(help="Queues to export. Default: "
                     "all.", autocompletion=completed)] = None,
    file: Annotated[Optional[Path], typer.Option("--file", "-f", help="Write to this file instead of standard output.")]
        = None,
    output: Annotated[Format, typer.Option("-o", "--output", help="Output format; ndjson prints one queue per line.")]
        = Format.json,
) -> None:
    """Export queues, their configured options and their consumer groups, for `queend import`. Messages and cursors are
    not exported."""
    wanted = names or [row["name"] for row in queues_of(server)]
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in groups_of(server):
        if row["name"] != QUEUE_MODE or paused(row):
            groups.setdefault(row["queueName"], []).append(_group(row))
    silent = 0
    with Progress("reading", len(wanted), "queues") as progress:
        queues: list[dict[str, Any]] = []
        for name in sorted(wanted):
            head = found(server, name, limit=0)
            silent += "options" not in head
            queues.append({
                "name": name, "namespace": head.get("namespace") or "", "task": head.get("task") or "",
                "options": {option: value["value"] for option, value in sorted(head.get("options", {}).items())
                            if value.get("asked")},
                **({"paused": True} if head.get("paused") else {}), "groups": groups.get(name, [])})
            progress.add(1)
    if silent:
        tell(f"this server does not return the options of its queues: {many(silent, 'queue')} exported without options")
    text = (dump({"queend": "definitions", "version": VERSION, "queues": queues}, 1) + "\n"
            if output is Format.json or output.for_people else
            "".join((dump(one) if output is Format.ndjson else one["name"]) + "\n" for one in queues))
    if file is None:
        write(text)
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Stop(f"{file}: {error.strerror}") from None
    say(f"{many(len(queues), 'queue')} written to {file}", err=True)


def paused(row: dict[str, Any]) -> bool:
    """Returns whether the group itself is paused, whatever the state of its queue."""
    return bool(row.get("paused")) and row.get("pausedBy") != "queue"


def _group(row: dict[str, Any]) -> dict[str, Any]:
    """Describes a group: where it begins in a partition without a cursor, at the oldest message or after a moment; and
    whether it conflates."""
    return {"name": row["name"],
            **({"from": row["subscriptionTimestamp"]} if row.get("subscriptionTimestamp") else {}),
            **({"conflation": True} if row.get("conflation") else {}), **({"paused": True} if paused(row) else {})}


@remote
def import_(
    server: Server,
    file: Annotated[Path, typer.Argument(help="File that `queend export` wrote, as JSON or NDJSON; - reads standard "
                                              "input.")],
    replace: Annotated[bool, typer.Option("--replace", help="Reset options that the file does not contain to their "
                       "defaults.")] = False,
    dry_run: DryRun = False, output: Output = Format.table,
) -> None:
    """Create or update queues and consumer groups from a file that `queend export` wrote. Repeating an import changes
    nothing. Nothing is deleted. Prints the changes."""
    wanted = definitions(file)
    there: dict[str, dict[str, dict[str, Any]]] = {}
    for row in groups_of(server):
        there.setdefault(row["queueName"], {})[row["name"]] = row

    def steps() -> Iterator[dict[str, Any]]:
        with Progress("importing", len(wanted), "queues") as progress:
            for one in wanted:
                yield from _queue(server, one, there.get(one["name"], {}), replace, dry_run)
                progress.add(1)

    done = list(steps())
    show(done if not output.for_people else (row for row in done if row["action"] != "same"),
         {"": "action", "queue": "queue", "group": lambda row: group_name(row["group"]),
          "what": lambda row: dump(row["what"]) if row["what"] else ""}, output, "queue")
    count = sum(row["action"] != "same" for row in done)
    if output.for_people:
        say(f"{many(count, 'change')} to make" if dry_run else
            f"{many(count, 'change')} made, {many(len(done) - count, 'object')} unchanged", err=True)
    if refused := [row for row in done if row["action"] == "not possible"]:
        raise Stop(f"this server does not support {len(refused)} of the changes", REFUSED)


def definitions(file: Path) -> list[dict[str, Any]]:
    """Returns the queues of a file, checked. An error says what is wrong and where."""
    try:
        text = sys.stdin.buffer.read(LARGEST + 1) if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise Stop(f"{file}: {error.strerror}", USAGE) from None
    if len(text) > LARGEST:
        raise Stop(f"{file} is larger than {LARGEST >> 20} MiB", USAGE)
    try:
        try:
            whole = json.loads(text)
        except ValueError:
            whole = {"queues": [json.loads(line) for line in text.splitlines() if line.strip()]}
    except (ValueError, RecursionError) as error:
        raise Stop(f"{file} is not valid JSON: {error}", USAGE) from None
    if isinstance(whole, dict) and "queues" not in whole and "name" in whole:
        whole = {"queues": [whole]}
    if not isinstance(whole, dict) or not isinstance(whole.get("queues"), list) or not text.strip():
        raise Stop(f"{file} contains no queues; create such a file with `queend export`", USAGE)
    if whole.get("version", VERSION) != VERSION:
        raise Stop(f"{file} has version {whole['version']}; this queend supports version {VERSION}", USAGE)
    seen: set[str] = set()
    for number, one in enumerate(whole["queues"]):
        problem = _wrong(one) or ("is defined twice" if one["name"] in seen else "")
        if problem:
            raise Stop(f"{file}: queue {number} {problem}", USAGE)
        seen.add(one["name"])
    return whole["queues"]


def _wrong(one: Any) -> str:
    if not isinstance(one, dict) or not isinstance(one.get("name"), str) or not one["name"]:
        return "has no name"
    for word in ("namespace", "task"):
        if not isinstance(one.get(word, ""), str):
            return f"has a {word} that is not a string"
    if not isinstance(one.get("options", {}), dict):
        return "has options that are not an object"
    if not isinstance(one.get("groups", []), list) or any(
            not isinstance(group, dict) or not isinstance(group.get("name"), str) or not group["name"]
            or not isinstance(group.get("from", "-"), str) or group.get("from") == ""
            or not isinstance(group.get("conflation", False), bool) for group in one.get("groups", [])):
        return ("has invalid groups: expected a list of objects with a name; `from` must not be empty, `conflation` is "
                "true or false")
    return ""


def _queue(server: Server, one: dict[str, Any], groups: dict[str, dict[str, Any]], replace: bool,
           dry_run: bool) -> Iterator[dict[str, Any]]:
    head = head_of(server, one["name"])
    what = _differs(one, head, replace)
    row = {"queue": one["name"], "group": None}
    yield {**row, "action": "make" if head is None else "change" if what else "same", "what": what}
    if not dry_run and (head is None or what):
        options = {option: value for option, value in one.get("options", {}).items() if option != SEALED}
        if SEALED in one.get("options", {}):
            options["encryption"] = "on" if one["options"][SEALED] else "off"
        server.post("/api/v1/configure", body={
            "queue": one["name"], "namespace": one.get("namespace", ""), "task": one.get("task", ""),
            "options": options, **({"mode": "replace"} if replace else {})})
    yield from _paused(server, ("/api/v1/queues/{}/{}", one["name"]), row, one, head or {}, dry_run)
    for group in one.get("groups", []):
        yield from _group_made(server, one["name"], group, groups.get(group["name"]), dry_run)


def _differs(one: dict[str, Any], head: dict[str, Any] | None, replace: bool) -> dict[str, Any]:
    """Returns the options of a queue that must be set; all of them if the server does not return the current ones."""
    options = one.get("options", {})
    if head is None or "options" not in head:
        return {"namespace": one.get("namespace", ""), "task": one.get("task", ""), **options}
    was = {option: value["value"] for option, value in head["options"].items() if value.get("asked")}
    now = {word: one[word] for word in ("namespace", "task") if word in one and one[word] != head.get(word)}
    now |= {option: value for option, value in options.items()
            if option not in was or was[option] != value and not _filled(value, was[option])}
    return now | ({option: None for option in was if option not in options and option != SEALED} if replace else {})


def _filled(value: Any, was: Any) -> bool:
    """Returns whether two values are equal once the server has filled in defaults."""
    return isinstance(value, dict) and isinstance(was, dict) and {**was, **value} == was


def _group_made(server: Server, queue: str, group: dict[str, Any], there: dict[str, Any] | None,
                dry_run: bool) -> Iterator[dict[str, Any]]:
    row = {"queue": queue, "group": group["name"]}
    action = "same" if there is not None or group["name"] == QUEUE_MODE else "make"
    if action == "make" and not dry_run:
        # A group is created by its first pop. A pop from a partition that does not exist takes no message.
        server.get("/api/v1/pop/queue/{}/partition/{}", queue, f"none-{uuid.uuid4()}", consumerGroup=group["name"],
                   batch=1, subscriptionFrom=group.get("from"), conflation=group.get("conflation") or None)
        if not any(True for _ in groups_of(server, queue, group["name"])):
            action = "not possible"
    yield {**row, "action": action, "what": {"from": group["from"]} if group.get("from") and action != "same" else {}}
    yield from _paused(server, ("/api/v1/consumer-groups/{}/queues/{}/{}", group["name"], queue), row, group,
                       {"paused": paused(there or {})}, dry_run)


def _paused(server: Server, path: tuple[str, ...], row: dict[str, Any], wanted: dict[str, Any], was: dict[str, Any],
            dry_run: bool) -> Iterator[dict[str, Any]]:
    """Pauses a group, and resumes it only if the file says so."""
    if "paused" not in wanted or bool(wanted["paused"]) == bool(was.get("paused")):
        return
    verb = "pause" if wanted["paused"] else "resume"
    if not dry_run:
        server.post(*path, verb)
    yield {**row, "action": verb, "what": {}}
