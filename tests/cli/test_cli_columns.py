"""Tables at terminals of 80 and of 60 columns, and -o wide: names stay whole, columns give way by their importance."""
from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout

import pytest
from support.cli import Cli
from support.wait import until

from queend.cli import app
from queend.cli.table import fitting

LONG = "columns-payments-reconciliation"
NAMES = (LONG, "columns-orders")


@pytest.fixture(scope="module")
def filled(daemon):
    """A daemon with queues, partitions, groups, dead letters and traces. Returns the id of a message."""
    with daemon.client() as client:
        for name in NAMES:
            client.post("/api/v1/configure", {"queue": name, "namespace": "shop-of-europe", "task": "nightly-work",
                                              "options": {"retryLimit": 0}})
            client.push(name, 1, 2, 3, partition="customer-4711-of-the-north")
            (one,) = client.pop(name, consumerGroup="accounting-department", batch=1)
            client.post("/api/v1/ack", {"transactionId": one["transactionId"], "partitionId": one["partitionId"],
                                        "leaseId": one["leaseId"], "consumerGroup": "accounting-department",
                                        "status": "dlq", "error": "the amount of the invoice is not a number at all"})
            client.post("/api/v1/traces", {"transactionId": one["transactionId"], "partitionId": one["partitionId"],
                                           "traceNames": ["columns-trace"], "eventType": "info",
                                           "data": {"text": "the invoice was read"}})
            client.pop(name, consumerGroup="shipping", batch=1, leaseSeconds=3600)
        until(lambda: client.get("/api/v1/resources/queues?search=columns-payments").json["queues"][0]["messages"][
            "total"] == 3, "the figures are counted")
    return f"{one['partitionId']}/{one['transactionId']}"


class Terminal(io.StringIO):
    """What is printed here is printed as at a terminal."""

    def isatty(self) -> bool:
        return True


def shown(cli: Cli, width: int, monkeypatch, *words: str) -> list[str]:
    """What a terminal of this width gets, in this process: rows without the styles."""
    for name, value in {**cli.environment, "COLUMNS": str(width), "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    with redirect_stdout(Terminal()) as out, redirect_stderr(io.StringIO()):
        app(list(words), standalone_mode=False)
    return out.getvalue().splitlines()


TABLES = {
    # words: names that stand in one row, headings that are always there, headings that only a wide terminal has
    "queue list columns-*": ((LONG,), ("queue", "waiting"), ("namespace", "task")),
    f"queue show {LONG}": (("customer-4711-of-the-north",), ("partition", "waiting"), ("newest",)),
    f"group list --queue {LONG}": (("accounting-department",), ("group", "lag"), ("queue",)),
    f"group show accounting-department --queue {LONG}": (("customer-4711-of-the-north",), ("partition", "lag"),
                                                         ("queue", "head")),
    f"dlq list {LONG}": (("accounting-department",), ("failed", "error"), ("id",)),
    f"dlq errors {LONG}": (("accounting-department",), ("count", "error"), ("queue",)),
    f"lease list {LONG}": (("customer-4711-of-the-north",), ("partition", "ends in"), ("lease",)),
    f"message list {LONG}": (("customer-4711-of-the-north",), ("partition", "offset"), ("id",)),
    "trace named columns-trace": ((LONG,), ("queue", "event", "data"), ("message",)),
    "top columns-* --once": ((LONG,), ("queue", "backlog"), ("in flight",)),
}


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("words", TABLES)
def test_a_narrow_terminal_has_whole_names_and_the_columns_that_matter(cli, filled, monkeypatch, words, width):
    names, heads, others = TABLES[words]
    rows = shown(cli, width, monkeypatch, *words.split())
    row = next(i for i, one in enumerate(rows) if all(f"{name} " in f"{one} " for name in names))
    head = next(one for one in reversed(rows[:row]) if one.split()[:1] == [heads[0].split()[0]] or heads[0] in one)
    assert all(one in head for one in heads) and not all(one in head for one in others), rows
    assert len(rows[row]) <= width and len(head) <= width, rows


@pytest.mark.parametrize("words", TABLES)
def test_wide_shows_all_columns_without_folding(cli, filled, monkeypatch, words):
    names, heads, others = TABLES[words]
    rows = shown(cli, 60, monkeypatch, *words.split(), "-o", "wide")
    assert any(all(one in row for one in (*heads, *others)) for row in rows), rows
    assert any(all(name in row for name in names) for row in rows)
    if words.startswith("dlq"):
        assert any("the amount of the invoice is not a number at all" in row for row in rows)
    rows = cli.ok(*words.split()).out.splitlines()
    assert any(all(one in row for one in (*heads, *others)) for row in rows), "a file has all columns anyway"


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("words", ["status", f"queue show {LONG}", "queue --help", "dlq --help"])
def test_no_line_is_longer_than_the_terminal(cli, filled, monkeypatch, words, width):
    rows = shown(cli, width, monkeypatch, *words.split())
    assert rows and all(len(row) <= width for row in rows), rows
    assert not any(row.endswith("...") for row in rows if not row.startswith("Usage")), "a text of the help is cut"


def test_a_terminal_is_told_what_is_left_out(cli, filled, tmp_path):
    def at_terminal(columns: str) -> tuple[int, str]:
        return Cli(cli.environment["QUEEND_URL"], tmp_path, COLUMNS=columns).at_terminal("queue", "list", "columns-*")

    status, shown = at_terminal("60")
    assert status == 0 and "-o wide also shows: namespace, task, " in shown
    status, shown = at_terminal("250")
    assert status == 0 and "-o wide" not in shown and "shop-of-europe" in shown


@pytest.mark.parametrize("words", ["group list", "message list", "group show accounting-department",
                                   "lease list", "dlq errors"])
def test_rows_that_do_not_fit_are_blocks(cli, filled, monkeypatch, words):
    rows = shown(cli, 60, monkeypatch, *words.split())
    assert all(len(row) <= 60 for row in rows), rows
    assert any(row.split() == ["queue", LONG] for row in rows) and "" in rows
    assert any(len(row) > 60 for row in shown(cli, 60, monkeypatch, *words.split(), "-o", "wide"))


def test_columns_give_way_by_importance():
    heads, cells = ["name", "a", "b", "c"], [["x" * 20, "1", "22", ""]]
    assert fitting(heads, cells, ("a", "b", "c"), 40) == [0, 1, 2, 3]
    assert fitting(heads, cells, ("a", "b", "c"), 34) == [0, 1, 2], "an empty column first"
    assert fitting(heads, cells, ("a", "b", "c"), 28) == [0, 2]
    assert fitting(heads, cells, ("a", "b", "c"), 10) == [0]
    assert fitting(heads, cells, ("a",), 10) == [0, 2, 3], "others are never left out"
    assert fitting(["id", "text"], [["1", "word " * 30]], ("text",), 40) == [0, 1], "sentences may be folded"
