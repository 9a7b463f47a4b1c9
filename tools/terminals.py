"""Prints docs/inside/terminals.md: what commands print at terminals of 60 and 80 columns. A test compares the two.

    python tools/terminals.py

Starts a daemon with a PostgreSQL of its own in a folder that is removed, and fills it with a fixed scene. Moments, ids
and rates of its answers are replaced by fixed ones before the commands read them."""
from __future__ import annotations

import io
import json
import os
import re
import runpy
import time
import urllib.request
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click

from queend.cli import app, server_clock
from queend.cli import queue as queue_commands
from queend.cli import top as top_command
from queend.cli.client import Server
from queend.cli.traffic import Traffic

HEAD = """# Terminals

What commands print at terminals of 60 and 80 columns. `make documents` records it against a daemon with a fixed scene.
Moments, ids and rates are fixed.
"""
COMMANDS = ("queue list", "status", "group list", "dlq list", "doctor", "top --once")
WIDTHS = (60, 80)
NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
AGES = {"failedAt": 7500.0}      # s; other moments: 95
RATES = {"orders": Traffic(1240.0, 1180.0, 1180.0, 2.0), "mail.newsletter": Traffic(0.4, 0.0, 0.0, 1.0)}
NUMBERS = {"maxTimeLag": 95, "oldestAgeSeconds": 95, "bytes": 2048, "ingestedPerSecond": 1240.0,
           "processedPerSecond": 1180.0}
LAG = {"max": 95, "median": 12}
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)")
STYLE = re.compile("\x1b\\[[\\d;]*m")
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Checks whose findings depend on the machine.
MACHINE = {"disk", "server", "tables", "lanes", "plans", "horizon", "slots", "statements"}


def fill(url: str) -> None:
    """Makes the scene: three queues, two groups, leases, dead letters, a pause, messages in the failover buffer."""
    def ask(path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(url + path, data)) as answer:
            return json.loads(answer.read() or b"null")

    queues = {"orders": ("shop", "", 1000), "payments-reconciliation": ("shop-of-europe", "nightly", 40),
              "mail.newsletter": ("mail", "", 12)}
    for name, (namespace, task, count) in queues.items():
        ask("/api/v1/configure", {"queue": name, "namespace": namespace, "task": task, "options": {"retryLimit": 0}})
        ask("/api/v1/push", {"items": [
            {"queue": name, "partition": f"customer-{n % 4}", "transactionId": f"{name}-{n}", "payload": {"n": n}}
            for n in range(count)]})
    for name, group, batch, dead in (("orders", "billing", 100, 2), ("orders", "accounting-department", 250, 0),
                                     ("payments-reconciliation", "billing", 5, 1)):
        found = ask(f"/api/v1/pop/queue/{name}/partition/customer-1?consumerGroup={group}&batch={batch}"
                    "&subscriptionMode=all")["messages"]
        for n, one in enumerate(found):
            body = {key: one[key] for key in ("transactionId", "partitionId", "leaseId")}
            error = {"error": "the amount of the invoice is not a number"} if n < dead else {}
            ask("/api/v1/ack", {**body, "consumerGroup": group, "status": "dlq" if n < dead else "completed", **error})
    ask("/api/v1/pop/queue/orders/partition/customer-2?consumerGroup=billing&batch=7&leaseSeconds=3600")
    ask("/api/v1/queues/mail.newsletter/pause", {})
    deadline = time.monotonic() + 60
    while True:
        ask("/api/v1/stats/refresh", {})
        counted = {one["name"]: one["messages"]["total"] for one in ask("/api/v1/resources/queues")["queues"]}
        if counted == {name: count for name, (_, _, count) in queues.items()}:
            break
        if time.monotonic() > deadline:
            raise SystemExit(f"the figures are not counted: {counted}")
        time.sleep(0.1)
    ask("/api/v1/system/maintenance", {"enabled": True})
    ask("/api/v1/push", {"items": [{"queue": "orders", "payload": {"n": n}} for n in range(20)]})


def fixed(value: Any, key: str = "", ids: dict[str, str] | None = None) -> Any:
    """Returns an answer with fixed moments, ids and rates."""
    ids = {} if ids is None else ids
    if isinstance(value, list):
        return [fixed(one, key, ids) for one in value if not (key == "findings" and one["check"] in MACHINE)]
    if isinstance(value, dict):
        if key == "time":
            return {**value, **LAG}
        return {name: fixed(one, name, ids) for name, one in value.items()}
    if isinstance(value, str):
        if TIME.fullmatch(value):
            return (NOW - timedelta(seconds=AGES.get(key, 95.0))).isoformat()
        value = UUID.sub(lambda match: ids.setdefault(match[0], f"0195d4e2-7c1a-8000-8000-{len(ids) + 1:012x}"), value)
        return re.sub(r"waits \d+s$", "waits 1m35s", value) if key == "evidence" else value
    return value if value is None else NUMBERS.get(key, value)


class Terminal(io.StringIO):
    """Takes what is printed, as a terminal."""

    def isatty(self) -> bool:
        return True


def recorded(url: str, words: str, width: int) -> str:
    """Returns what a command prints at a terminal of a width."""
    read = Server.read
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QUEEND_")}
    environment |= {"QUEEND_URL": url, "COLUMNS": str(width), "LINES": "40", "NO_COLOR": "1", "TERM": "dumb",
                    "XDG_CONFIG_HOME": os.devnull}
    with (patch.dict(os.environ, environment, clear=True), patch.object(server_clock, "now", lambda: NOW),
          patch.object(Server, "read", lambda self, *rest: fixed(read(self, *rest))),
          patch.object(queue_commands, "traffic_of", lambda _: RATES),
          patch.object(top_command, "traffic_of", lambda _: RATES), redirect_stdout(Terminal()) as shown,
          redirect_stderr(shown)):
        try:
            app(words.split(), standalone_mode=False)
        except (click.exceptions.Exit, SystemExit):      # a command that found something
            pass
    text = STYLE.sub("", shown.getvalue()).replace(url, "http://127.0.0.1:6632")
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def document(url: str) -> str:
    """Returns the page. Requires a daemon without queues."""
    fill(url)
    parts = [HEAD]
    for words in COMMANDS:
        parts.append(f"## {words.removesuffix(' --once')}\n")
        parts += [f"{width} columns:\n\n```text\n$ queend {words}\n{recorded(url, words, width)}```\n"
                  for width in WIDTHS]
    return "\n".join(parts)


if __name__ == "__main__":
    with runpy.run_path(str(Path(__file__).with_name("metrics.py")))["daemon"]() as base:
        print(document(base), end="")
