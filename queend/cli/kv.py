"""queend kv: reads, writes and lists keys."""
from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Optional

import orjson
import typer

from .client import Server, ServerError
from .options import Yes
from .output import Format, Output, age, show, span
from .remote import NOT_FOUND, REFUSED, USAGE, Stop, remote, seconds, sure
from .server_clock import now
from .terminal import say
from .watch import watched

kv = typer.Typer(no_args_is_help=True, help="Manage keys and values: get, put, delete, list, namespaces (docs/kv.md).")
LONGEST_S = 3_153_600_000
PAGE = 1000
Namespace = Annotated[str, typer.Argument(metavar="NAMESPACE", help="Namespace of the key.")]
Key = Annotated[str, typer.Argument(help="The key.")]
Expect = Annotated[Optional[int], typer.Option(metavar="VERSION", min=0, help="Only if the key has this version; 0: "
                                               "only if it does not exist.")]
REASONS = {"exists": "it exists", "absent": "it does not exist", "version": "it has another version"}


@kv.command("get")
@remote
def kv_get(server: Server, namespace: Namespace, key: Key,
           whole: Annotated[bool, typer.Option("--whole", help="Print version and times, too, as JSON.")] = False,
           ) -> None:
    """Print the value of a key as JSON. Exits with 4 if the key does not exist."""
    (got,) = _run(server, {"op": "get", "ns": namespace, "key": key})
    if not got["found"]:
        raise Stop(f"there is no key {key!r} in the namespace {namespace!r}", NOT_FOUND)
    said = {name: value for name, value in got.items() if name not in ("index", "op", "found")}
    say(json.dumps(said if whole else got["value"], ensure_ascii=False))


@kv.command("put")
@remote
def kv_put(
    server: Server, namespace: Namespace, key: Key,
    value: Annotated[str, typer.Argument(help="The value as JSON; `-` reads it from standard input.")],
    ttl: Annotated[Optional[str], typer.Option("--ttl", metavar="DURATION", help="Time until the key expires, in whole "
                                               "seconds. Default: it never does.")] = None,
    expect: Expect = None,
    text: Annotated[bool, typer.Option("--text", help="Store the value as text instead of JSON.")] = False,
) -> None:
    """Write a key. Exits with 1 if --expect does not hold, and nothing is written."""
    given = sys.stdin.read() if value == "-" else value
    if not text:
        try:
            json.loads(given)
        except ValueError as error:
            raise Stop(f"the value is not JSON: {error}", USAGE, "use --text for plain text") from None
    life: dict[str, Any] = {"forever": True}
    if ttl is not None:
        length = seconds(ttl, "--ttl", 1, LONGEST_S)
        if length != int(length):
            raise Stop(f"--ttl {ttl} is not a number of whole seconds", USAGE)
        life = {"ttlSeconds": int(length)}
    (done,) = _run(server, {"op": "put", "ns": namespace, "key": key, **life,
                            "value": given if text else orjson.Fragment(given.encode()),
                            **({} if expect is None else {"expect": expect})})
    _applied(done, key)
    say(f"version {done['version']}")


@kv.command("delete")
@remote
def kv_delete(server: Server, namespace: Namespace, key: Key, expect: Expect = None, yes: Yes = False) -> None:
    """Delete a key. Exits with 4 if it does not exist, and with 1 if --expect does not hold."""
    sure(f"Delete the key {key!r} in the namespace {namespace!r} at {server.url}?", yes)
    (done,) = _run(server, {"op": "delete", "ns": namespace, "key": key,
                            **({} if expect is None else {"expect": expect})})
    _applied(done, key)
    say(f"deleted {key}")


@kv.command("list")
@remote
@watched
def kv_list(
    server: Server, namespace: Namespace,
    prefix: Annotated[str, typer.Argument(help="Only keys that begin with this text.")] = "",
    values: Annotated[bool, typer.Option("--values", help="List values, too.")] = False,
    expired: Annotated[bool, typer.Option("--expired", help="Also expired keys that were not removed yet.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of results.")] = 100,
    output: Output = Format.table,
) -> None:
    """List the keys of a namespace, in their order."""
    columns: dict[str, Any] = {"key": "key", "version": "version", "bytes": "bytes", "ends in": _left,
                               "written": lambda row: age(row["updatedAt"])}
    if values:
        columns["value"] = lambda row: json.dumps(row.get("value"), ensure_ascii=False)
    show(islice(_rows(server, namespace, prefix, limit, keysOnly=not values, includeExpired=expired), limit), columns,
         output, "key", "no keys", ("bytes", "written", "version"))


@kv.command()
@remote
@watched
def namespaces(
    server: Server,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of results.")] = 1000,
    output: Output = Format.table,
) -> None:
    """List the namespaces that have keys, with the number of their keys (up to 10 000)."""
    show(islice(_namespaces(server), limit), {"namespace": "namespace", "keys": "keys"}, output, "namespace",
         "no keys")


def _run(server: Server, *operations: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        return server.post("/api/v1/kv", body=orjson.dumps({"operations": list(operations)}))["results"]
    except ServerError as error:
        detail = error.body.get("detail") if isinstance(error.body, dict) else None
        if detail and error.code in (400, 413):
            raise Stop(detail.removesuffix(" (operation 0)"), REFUSED) from None
        raise


def _applied(done: dict[str, Any], key: str) -> None:
    if not done["applied"]:
        reason = done["reason"]
        version = f", {done['version']}" if reason == "version" else ""
        raise Stop(f"{key!r} was left as it is: {REASONS.get(reason, reason)}{version}",
                   NOT_FOUND if reason == "absent" else REFUSED)


def _rows(server: Server, namespace: str, prefix: str, limit: int, **more: Any) -> Iterator[dict[str, Any]]:
    after = None
    while True:
        page = server.post("/api/v1/resources/kv/list", body={"namespace": namespace, "prefix": prefix, "after": after,
                                                              "limit": min(limit, PAGE), **more})
        yield from page["rows"]
        if (after := page["nextAfter"]) is None:
            return


def _namespaces(server: Server) -> Iterator[dict[str, Any]]:
    query: dict[str, Any] = {}
    while True:
        page = server.get("/api/v1/resources/kv/namespaces", limit=PAGE, **query)
        yield from page["namespaces"]
        if page["nextAfter"] is None:
            return
        query = {"after": page["nextAfter"]}


def _left(row: dict[str, Any]) -> str:
    if row["expiresAt"] is None:
        return "never"
    return "expired" if row["expired"] else span(max(0.0, (datetime.fromisoformat(row["expiresAt"])
                                                           - now()).total_seconds()))
