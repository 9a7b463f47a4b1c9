"""--watch and queend top: in place at a terminal, one result after the other in a file; a server that is away."""
from __future__ import annotations

import json
import re
import signal
import subprocess

import pytest
from support.cli import AtTerminal, Cli
from support.wait import PATIENCE, until

from queend.cli.watch import Screen

STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"


def test_a_terminal_is_redrawn_in_place(cli, client, queue):
    client.push(queue, 1)
    words = ("queue", "list", queue, "--watch", "--interval", "100ms")
    with AtTerminal(cli, *words, COLUMNS="80", LINES="24") as terminal:
        terminal.shows(queue)
        client.push(queue, 2, 3, 4, 5, 6, 7)
        terminal.shows("\x1b[")
        until(lambda: terminal.read() or any(row.split()[:1] == [queue] and "7" in row.split()
                                             for row in terminal.rows()), "the new figures are drawn")
        rows = terminal.rows()
        assert re.fullmatch(rf"{STAMP}, every 100ms; Ctrl-C ends", rows[0]) and rows[1].split()[0] == "queue"
        assert sum(row.split()[0] == queue for row in rows) == 1, "the last picture was replaced"
        terminal.interrupt()
        assert terminal.ended() == 0


def test_results_follow_each_other_in_a_file(cli, client, queue):
    client.push(queue, 1)
    with cli.process("queue", "list", queue, "--watch", "--interval", "0.1", stdout=subprocess.PIPE,
                     text=True) as watching:
        lines = [watching.stdout.readline().rstrip("\n") for _ in range(7)]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(PATIENCE) == 0
    assert re.fullmatch(STAMP, lines[0]) and re.fullmatch(STAMP, lines[4]) and lines[3] == ""
    assert lines[1] == lines[5] and lines[2].split()[0] == lines[6].split()[0] == queue


def test_programs_get_one_object_after_the_other(cli, client, queue):
    client.push(queue, 1)
    with cli.process("queue", "list", queue, "--watch", "--interval", "0.1", "-o", "ndjson", stdout=subprocess.PIPE,
                     text=True) as watching:
        assert [json.loads(watching.stdout.readline())["name"] for _ in range(3)] == [queue] * 3
        watching.send_signal(signal.SIGINT)
        assert watching.wait(PATIENCE) == 0


def test_a_server_that_is_away_for_a_while(start_daemon, tmp_path):
    daemon = start_daemon()
    cli = Cli(daemon.url, tmp_path)
    cli.ok("push", "watched", "1")
    words = ("queue", "list", "--watch", "--interval", "100ms")
    pages = tmp_path / "pages"
    with AtTerminal(cli, *words, COLUMNS="120", LINES="24") as terminal, pages.open("w") as out, cli.process(
            *words, stdout=out, stderr=subprocess.PIPE, text=True) as watching:
        terminal.shows("watched")
        until(lambda: "watched" in pages.read_text(), "the other one has its first result as well")
        daemon.stop()
        terminal.shows("trying again every 100ms")
        assert any(row.split()[0] == "watched" for row in terminal.rows()), "the last state stays"
        assert "this is the state of " in terminal.rows()[0]
        told = [watching.stderr.readline()]
        while "trying again" not in told[-1]:
            assert told[-1], told
            told.append(watching.stderr.readline())
        assert str(daemon.port) in told[0] and told[-1].strip() == "trying again every 100ms"
        start_daemon(daemon.conninfo, PORT=daemon.port)
        terminal.shows("Ctrl-C ends")
        assert watching.stderr.readline() == "queend: the server answers again\n"
        terminal.interrupt()
        assert terminal.ended() == 0
        watching.send_signal(signal.SIGINT)
        assert watching.wait(PATIENCE) == 0


def test_a_picture_fits_into_its_terminal(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("LINES", "8")
    screen = Screen(2.0)
    screen.show("\n".join(f"row {i}" for i in range(20)))
    assert [line for line in capsys.readouterr().out.split("\x1b[K\n") if line.startswith(("row", "…"))] == [
        "row 0", "row 1", "row 2", "row 3", "row 4", "… 15 more lines"]
    screen.show("x" * 100 + "\nlast\n")
    assert capsys.readouterr().out.startswith("\x1b[7A\r")
    screen.show("last\n")
    assert capsys.readouterr().out.startswith("\x1b[4A\r"), "a heading, a line of two rows, and the last"


def test_what_cannot_be_watched(cli, queue):
    refused = cli("queue", "list", "--interval", "1s")
    assert refused.status == 2 and "--interval requires --watch" in refused.err
    assert cli("queue", "show", queue, "--watch").status == 4
    assert cli("status", "--watch", "--interval", "10ms").status == 2
    assert cli("status", "--watch", "--url", "http://127.0.0.1:9").status == 6
    assert cli("top", "--once", "--interval", "1s").status == 2


def test_a_search_is_redrawn_without_a_bar_in_it(cli, client, queue):
    client.push(queue, "needle-1")
    with AtTerminal(cli, "message", "search", queue, "needle", "--watch", "--interval", "100ms", COLUMNS="80",
                    LINES="24") as terminal:
        terminal.shows("1 found; searched 1 message, the search is complete")
        client.push(queue, "needle-2")
        terminal.shows("2 found; searched 2 messages, the search is complete")
        terminal.read()
        assert not any("searching" in row for row in terminal.rows()), terminal.rows()
        terminal.interrupt()
        assert terminal.ended() == 0
    assert "\x1b[2K" not in terminal.shown, "how a bar erases itself"


def test_doctor_goes_on_beside_a_critical_finding(cli):
    assert cli("doctor").status == 1
    with AtTerminal(cli, "doctor", "--watch", "--interval", "100ms", COLUMNS="60", LINES="24") as terminal:
        terminal.shows("fsync is not on")
        until(lambda: terminal.read(1.0) or re.search(r"\x1b\[\d+A", terminal.shown), "it is drawn again")
        texts = [row for row in terminal.rows() if row.startswith("    ") and "=# " not in row]
        assert texts and all(len(row) <= 60 for row in texts), "a command stays whole"
        terminal.interrupt()
        assert terminal.ended() == 0


@pytest.mark.parametrize("words", ["queue list", "queue show", "group list", "group show", "dlq list", "dlq show",
                                   "message list", "message show", "message search", "lease list", "dlq errors",
                                   "doctor", "trace list", "trace named", "trace show", "status"])
def test_commands_that_show_something_may_be_watched(cli, words):
    told = cli.ok(*words.split(), "--help").out
    assert "--watch" in told and "--interval DURATION" in told


def test_top_shows_the_busiest_queues(cli, client, queue):
    names = [f"{queue}-{kind}" for kind in ("idle", "busy", "full")]
    client.post("/api/v1/configure", {"queue": names[0], "options": {}})
    client.push(names[1], *range(300))
    client.pop(names[1], batch=300, autoAck="true")
    client.push(names[2], *range(20))
    client.pop(names[2], consumerGroup="g", batch=1)
    (message,) = client.pop(names[2], batch=1)
    cli.ok("ack", f"{message['partitionId']}/{message['transactionId']}", "--lease", message["leaseId"], "--status",
           "dlq")

    def top(*words: str) -> list[dict]:
        return cli.ok("top", f"{queue}-*", "--once", "-o", "json", *words).json

    def counted() -> dict[str, dict] | None:
        rows = {row["name"]: row for row in top()}
        busy = rows[names[1]]
        done = rows[names[2]]["deadLetters"] == 1 and busy["pushPerSecond"] > 0 and busy["popPerSecond"] > 0
        return rows if done else None
    # statistics and rates are counted at most once a second, and not in the same moment
    rows = until(counted, "the figures are counted")
    assert rows[names[2]]["pending"] == 19 or rows[names[2]]["pending"] == 20
    assert rows[names[2]]["maxTimeLag"] >= 0 and rows[names[0]]["pushPerSecond"] == 0
    assert [row["name"] for row in top()] == [names[1], names[2], names[0]]
    assert [row["name"] for row in top("--sort", "backlog")][0] == names[2]
    assert [row["name"] for row in top("--sort", "dead", "--limit", "1")] == [names[2]]
    assert [row["name"] for row in top("--sort", "name")] == sorted(names)
    heads, first, *_ = cli.ok("top", f"{queue}-*", "--once").out.splitlines()
    assert heads.split()[:4] == ["queue", "push/s", "pop/s", "ack/s"] and first.split()[0] == names[1]
    assert cli.ok("top", "no-such-*", "--once").err == "no matching queues\n"


def test_top_of_a_queue_with_waiting_pops(cli, client, queue):
    client.push(queue, 1)
    client.pop(queue, autoAck="true")
    with cli.process("pop", queue, "--wait", "10m", stderr=subprocess.DEVNULL) as waiting:
        until(lambda: (cli.ok("top", queue, "--once", "-o", "json").json or [{}])[0].get("waitingPops"),
              "the pop is counted")
        waiting.send_signal(signal.SIGINT)
        waiting.wait(PATIENCE)


def test_top_is_redrawn(cli, client, queue):
    client.push(queue, 1)
    with AtTerminal(cli, "top", queue, "--interval", "0.1s", COLUMNS="60", LINES="12") as terminal:
        terminal.shows(queue)
        terminal.shows("\x1b[")
        until(lambda: terminal.read() or len(terminal.rows()) > 3, "a whole picture")
        assert all(len(row) <= 60 for row in terminal.rows()), terminal.rows()
        terminal.interrupt()
        assert terminal.ended() == 0
