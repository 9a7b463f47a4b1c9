"""examples/ do what they say, against a real daemon. Others: tests/spark; test_guides.py for FastAPI and Django."""
from __future__ import annotations

import os
import re
import subprocess
import sys

import psycopg
from psycopg.conninfo import conninfo_to_dict
from support.client import data
from support.daemon import PACKAGE, ROOT
from support.wait import until

EXAMPLES = ROOT / "examples"


def run(daemon, *command: object, **more: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("QUEEN", "PYTHON", "LD_PRELOAD", "PG"))}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300,
                          env={**environment, "QUEEND_URL": daemon.url, **more})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_curl(daemon, queue) -> None:
    assert run(daemon, "sh", EXAMPLES / "orders.sh", queue) == (
        "first push:  queued\nsecond push: duplicate\npopped:      order-17\nextended:    120 s\nacknowledged\n")


def test_python(daemon, queue) -> None:
    told = run(daemon, sys.executable, EXAMPLES / "orders.py", queue, f"{queue}-bills", PYTHONPATH=str(PACKAGE))
    assert told.splitlines() == [
        "stored: ['queued', 'queued', 'queued']", "statistics: 600 cents", "dead letters: [(1, 'no such account')]",
        "bills: [2, 3]"]


def test_javascript(daemon, queue) -> None:
    assert run(daemon, "node", EXAMPLES / "orders.mjs", queue) == "customer-7: 1\ncustomer-7: 3\ncustomer-8: 2\n"


def test_psql(daemon, client) -> None:
    words = conninfo_to_dict(daemon.conninfo)
    given = {f"PG{name}": str(words[key]) for key, name in (
        ("host", "HOST"), ("port", "PORT"), ("dbname", "DATABASE"), ("user", "USER"), ("password", "PASSWORD"))
        if words.get(key)}
    told = run(daemon, "psql", "-X", "-v", "ON_ERROR_STOP=1", "-f", EXAMPLES / "outbox.sql", **given)
    assert re.findall("order-1[78]", told) == ["order-17", "order-18"] and "ROLLBACK" in told
    seen: list[dict] = []
    until(lambda: seen.extend(data(client.pop("orders-by-psql", autoAck=True, batch=10))) or seen, "it is moved")
    assert seen == [{"order": 17}]
    with psycopg.connect(daemon.conninfo) as connection:
        assert connection.execute("SELECT count(*) FROM queend.outbox").fetchone() == (0,)


def test_each_is_in_the_list() -> None:
    told = set(re.findall(r"^\| `([\w.]+)`", (EXAMPLES / "README.md").read_text(), re.M))
    assert told == {one.name for one in EXAMPLES.iterdir() if one.suffix != ".md" and one.name != "__pycache__"}
