"""Prints docs/api.md: the routes of /openapi.json as tables. A test compares the two."""
from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from queend.auth import levels
from queend.control.app import application
from queend.control.http.hot_routes import OWN
from queend.control.http.route import ROUTES
from queend.control.routes.openapi import whole_document

HEAD = """# HTTP routes

Generated from the OpenAPI document at `/openapi.json`, which also has schemas and examples of all bodies and answers.
[HTTP](http.md) describes the form of requests and errors. Level: the minimum level of the [token](auth.md), if tokens
are required; `own`: Queen MQ has no such route. Parameters belong to the query string; defaults are in brackets.
"""
TITLES = {"messages": "Messages", "queues": "Queues, partitions", "groups": "Consumer groups",
          "keys": "Keys and locks", "ephemeral": "Ephemeral queues", "dead letters": "Dead letters",
          "log": "Reading by offset", "streams": "Streams",
          "traces": "Traces",
          "status": "Status", "analytics": "Analytics", "system": "Daemon", "health": "Health and metrics",
          "migration": "Copying to another database"}
NAMES = ("public", "read", "write", "admin")


def document() -> str:
    bare = SimpleNamespace(settings=SimpleNamespace(webapp_root="", queend_dashboard=False))
    described = whole_document(application(bare).openapi())["paths"]
    found: dict[str, list[tuple[str, str, dict[str, Any]]]] = {tag: [] for tag in TITLES}
    for path, methods in described.items():
        for method, operation in methods.items():
            found[operation["tags"][0]].append((method.upper(), path, operation))
    parts = [HEAD]
    for tag, title in TITLES.items():
        parts.append(f"## {title}\n\n| route | level | what |\n|---|---|---|")
        parts += [f"| `{method} {path}` | {level(method, path)} | {what(operation)} |"
                  for method, path, operation in found[tag]]
        parts.append("")
        if tag == "messages":
            parts.append(pops(described["/api/v1/pop/queue/{queue}"]["get"]["parameters"]))
    return "\n".join(parts)


def level(method: str, path: str) -> str:
    own = path in OWN or (route := ROUTES.get(f"{method} {path}")) is not None and route.own
    return NAMES[levels.route_of(method, path.replace("{", "").replace("}", ""))[0].level] + (", own" if own else "")


def what(operation: dict[str, Any]) -> str:
    text = re.sub(r"\s+", " ", operation.get("description") or operation["summary"])
    asked = [f"`{one['name']}`{default(one)}" for one in operation.get("parameters", [])
             if one["in"] == "query" and not (one["name"] in POPS and "Pop messages" in operation["summary"])]
    return (text if text.endswith((".", "?")) else f"{text}.") + (f" Query: {', '.join(asked)}." if asked else "")


def default(one: dict[str, Any]) -> str:
    schema = one["schema"]
    return f" ({schema['default']})" if schema.get("default") not in (None, 0) else ""


POPS = ("batch", "partitions", "wait", "timeout", "consumerGroup", "leaseSeconds", "autoAck", "autopilot",
        "subscriptionMode", "subscriptionFrom", "format", "frames")


def pops(parameters: list[dict[str, Any]]) -> str:
    lines = ["### Parameters of a pop\n", "| parameter | value | meaning |", "|---|---|---|"]
    for one in parameters:
        if one["in"] == "query":
            schema = one["schema"]
            value = ", ".join(f"`{word}`" for word in schema["enum"]) if "enum" in schema else {
                "integer": "whole number", "boolean": "`true`, `false`", "string": "text"}[schema["type"]]
            value += f" from {schema['minimum']}" if "minimum" in schema else ""
            value += f" to {schema['maximum']}" if "maximum" in schema else ""
            lines.append(f"| `{one['name']}`{default(one)} | {value} | {one['description']} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    print(document(), end="")
