"""queend timer: list, show, schedule, cancel."""
from __future__ import annotations

import pytest
from support.wait import until


def test_a_timer_is_scheduled_listed_shown_and_cancelled(cli, client, queue):
    assert cli.ok("timer", "list", queue).err == "no timers\n"
    told = cli.ok("timer", "schedule", queue, "a/b", '{"n": 1}', "--delay", "2h", "-p", "p", "--transaction-id",
                  "t").out
    assert told.startswith("scheduled a/b: it is due at 2") and told.endswith(", with the transaction id t\n")
    assert cli.ok("timer", "schedule", queue, "a/b", '{"n": 2}', "--delay", "1h").out.startswith("rescheduled a/b: ")
    for n in range(3):
        cli.ok("timer", "schedule", queue, f"c:{n}", "5", "--delay", "1h")
    heads, row, *others = cli.ok("timer", "list", queue).out.splitlines()
    assert heads.split()[0] == "key" and row.split()[0] == "a/b" and len(others) == 3
    assert cli.ok("timer", "list", queue, "--prefix", "c:", "-n", "2", "-o", "names").out == "c:0\nc:1\n"
    shown = cli.ok("timer", "show", queue, "a/b")
    assert '"n": 2' in shown.out and "Default" in shown.out
    assert cli.ok("timer", "show", queue, "a/b", "-o", "json").json["timerKey"] == "a/b"
    assert cli.ok("timer", "cancel", queue, "a/b", "none", "--dry-run").out == "would cancel a/b\n"
    refused = cli("timer", "cancel", queue, "a/b")
    assert refused.status == 2 and "use --yes" in refused.err
    assert cli.ok("timer", "cancel", queue, "a/b", "c:0", "--yes").out == "cancelled a/b\ncancelled c:0\n"
    assert cli("timer", "cancel", queue, "a/b", "--yes").status == 4 == cli("timer", "show", queue, "a/b").status
    assert cli("timer", "cancel", queue, "a/b", "c:1", "--yes").status == 1


def test_it_is_delivered(cli, client, queue):
    cli.ok("timer", "schedule", queue, "k", '"text"', "--delay", "0")
    popped: list = []
    until(lambda: popped.extend(client.pop(queue)) or popped, "it is delivered")
    assert popped[0]["data"] == "text"


@pytest.mark.parametrize("words", [["schedule", "k", "{", "--delay", "1h"], ["schedule", "k", "1", "--delay", "400d"],
                                   ["schedule", "k", "1"], ["schedule", "k", "1", "--delay", "soon"]])
def test_wrong_arguments(cli, queue, words):
    assert cli("timer", words[0], queue, *words[1:]).status == 2
