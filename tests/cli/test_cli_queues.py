"""queend status, queue and group, against one daemon."""
import glob
import json
import re
import subprocess

import pytest
from support.cli import Cli
from support.clock import other_clock
from support.wait import PATIENCE, until

from queend.cli.output import cell, short

STRANGE = ["with space", "with/slash", "grüße-漢字-🚀", "100%", "a?b#c&d=e", "-dash", "..", 'quote"\'', "tab\there",
           "esc\x1b[31m"]


def test_status_tells_health_and_backlog(cli, client, queue):
    client.push(queue, 1)
    told = cli.ok("status").out
    assert "healthy" in told and "connected" in told and "waiting" in told
    assert re.search(r"^rates +[\d.]+/s pushed, [\d.]+/s acknowledged \(over 5m\)$", told, re.M), told
    assert cli.ok("status", "-o", "json").json["health"]["status"] == "healthy"


def test_list_in_every_form(cli, client, queue):
    client.push(queue, 1, 2, 3)
    client.pop(queue)
    heads, row = cli.ok("queue", "list", queue).out.splitlines()
    assert heads.split()[0] == "queue" and row.split()[0] == queue
    (one,) = cli.ok("queue", "list", queue, "-o", "json").json
    assert one["messages"] == {"total": 3, "pending": 2, "processing": 1} and "inPerSecond" in one
    (again,) = cli.ok("queue", "list", queue, "-o", "ndjson").lines
    assert again.keys() == one.keys()
    assert {**again, "inPerSecond": 0, "outPerSecond": 0} == {**one, "inPerSecond": 0, "outPerSecond": 0}, (
        "the same, but for rates, which change meanwhile")
    assert cli.ok("queue", "list", queue, "-o", "names").out == f"{queue}\n"
    assert cli.ok("queue", "list", "no-such-*", "-o", "json").json == []
    assert cli("queue", "list", "-o", "yaml").status == 2


def test_a_limit_beyond_all_bounds_lists_all(cli, client, queue):
    client.push(queue, 1)
    assert cli.ok("queue", "list", queue, "--limit", "9" * 20, "-o", "names").out == f"{queue}\n"


@pytest.mark.parametrize("offset", ["-1h", "+1h"])
def test_ages_and_rates_are_those_of_the_server_clock(cli, client, queue, offset):
    """The clock of this machine is off: what is told is told by the clock of the server."""
    client.push(queue, *range(500))
    def told(*words: str) -> str:
        with cli.process("queue", *words, stdout=subprocess.PIPE, text=True, environment=other_clock(offset)) as done:
            return done.communicate(timeout=PATIENCE)[0]

    out = told("show", queue)
    created = re.search(r"^created .*, (\d+)(s|m)\w* ago$", out, re.M)
    assert created and (created[2] == "s" or int(created[1]) < 30), out
    # Figures of a page may be those of a second ago.
    until(lambda: float(re.search(r"^rates +([\d.]+)/s in", told("show", queue), re.M)[1]) > 0, "the rate is told")
    assert json.loads(told("list", glob.escape(queue), "-o", "ndjson"))["inPerSecond"] > 0


def test_ages_and_rates_are_right_if_the_clock_of_the_daemon_is_not(start_daemon, queue, tmp_path):
    """Times are the database's. The header Date, which shows that clocks differ, is the daemon's."""
    daemon = start_daemon(**other_clock("+1h"))
    with daemon.client() as client:
        client.push(queue, 1)
    cli = Cli(daemon.url, tmp_path)
    shown = cli.ok("queue", "show", queue).out
    created = re.search(r"^created .*, (\d+)(s|m)\w* ago$", shown, re.M)
    assert created and (created[2] == "s" or int(created[1]) < 30), shown
    assert not re.search(r"^rates +0/s in", shown, re.M), shown


def test_a_small_rate_is_not_shown_as_none():
    assert [short(rate) for rate in (0, 0.0033, 0.04, 0.5, 1, 10, 100)] == ["0", "0.003", "0.04", "0.5", "1", "10",
                                                                            "100"]
    assert cell(0.04) == "0.04" and cell(1234.0) == "1,234"


@pytest.mark.parametrize("name", STRANGE, ids=[f"name{i}" for i in range(len(STRANGE))])
def test_any_name_goes_through_every_command(cli, name):
    cli.ok("push", "--partition", name, "--", name, '{"n":1}')
    assert cli.ok("queue", "show", "-o", "json", "--", name).json["name"] == name
    printed = cli.ok("queue", "list", "-o", "names").out.splitlines()
    shown = name.replace("\t", "\\t").replace("\x1b", "\\u001b")
    assert shown in printed and "\x1b" not in cli.ok("queue", "list").out
    (message,) = cli.ok("pop", "-g", name, "-p", name, "--ack", "-o", "json", "--", name).json
    assert message["data"] == {"n": 1} and message["partition"] == name
    assert cli.ok("group", "show", "-o", "json", "--queue", name, "--", name).json[0]["offsetLag"] == 0
    cli.ok("group", "seek", "--beginning", "--yes", "--partition", name, "--", name, name)
    assert cli.ok("tail", "-o", "ndjson", "--", name).lines[0]["partition"] == name
    cli.ok("group", "delete", "--yes", "--", name)
    cli.ok("queue", "clear", "--yes", "--partition", name, "--", name)
    cli.ok("queue", "delete", "--yes", "--", name)
    assert cli("queue", "show", "--", name).status == 4


def test_configure_sets_and_returns_options(cli, queue):
    told = cli.ok("queue", "configure", queue, "leaseTime=60", "retryBackoff=[1000,5000]", "--namespace", "shop").out
    assert "leaseTime     1m" in told
    shown = cli.ok("queue", "show", queue, "-o", "json").json
    assert shown["namespace"] == "shop" and shown["options"]["retryBackoff"]["value"] == [1000, 5000]
    assert "retryBackoff" in cli.ok("queue", "show", queue).out
    cli.ok("queue", "configure", queue, "leaseTime=null")
    shown = cli.ok("queue", "show", queue, "-o", "json").json
    assert not shown["options"]["leaseTime"]["asked"] and shown["options"]["retryBackoff"]["asked"]
    refused = cli("queue", "configure", queue, "leaseTime=soon")
    assert refused.status == 1 and "leaseTime must be an integer" in refused.err
    assert cli("queue", "configure", queue, "leaseTime").status == 2


def test_a_dry_run_of_configure_changes_nothing(cli, client, queue):
    told = cli.ok("queue", "configure", queue, "leaseTime=60", "--dry-run").out
    assert told.startswith(f"would create {queue}\n") and "leaseTime" in told
    assert cli("queue", "show", queue).status == 4
    cli.ok("queue", "configure", queue, "leaseTime=60", "retryLimit=7")
    told = cli.ok("queue", "configure", queue, "leaseTime=90", "retryLimit=7", "--task", "mail", "--dry-run").out
    assert [line.split() for line in told.splitlines()] == [
        ["would", "change", queue], ["task", "-", "→", "mail"], ["leaseTime", "1m", "→", "1m30s"]]
    told = cli.ok("queue", "configure", queue, "leaseTime=60", "--dry-run", "--replace").out
    assert "retryLimit" in told and "leaseTime" not in told
    assert cli.ok("queue", "configure", queue, "leaseTime=60", "--dry-run").out == f"nothing of {queue} would change\n"
    answer = cli.ok("queue", "configure", queue, "leaseTime=1", "--dry-run", "-o", "json").json
    assert answer["options"]["leaseTime"] == 1
    refused = cli("queue", "configure", queue, "retryBackoff=[1,-1]", "--dry-run")
    assert refused.status == 1 and "retryBackoff" in refused.err
    options = cli.ok("queue", "show", queue, "-o", "json").json["options"]
    assert options["leaseTime"]["value"] == 60 and options["retryLimit"]["value"] == 7
    answer = client.post("/api/v1/configure", {"queue": f"{queue}-new", "dryRun": True})
    assert answer.json["configured"] is False and "queueId" not in answer.json
    assert client.post("/api/v1/configure", {"queue": queue, "dryRun": 1}).status == 400


def test_pause_and_resume(cli, client, queue):
    client.push(queue, 1)
    client.pop(queue, consumerGroup="g", autoAck="true")
    assert cli.ok("queue", "pause", queue).out == f"paused {queue}\n"
    assert cli.ok("queue", "pause", queue).out == f"{queue} was already paused\n"
    assert "paused" in cli.ok("queue", "show", queue).out and "paused" in cli.ok("queue", "list", queue).out
    popped = cli("pop", queue)
    assert (popped.status, popped.err) == (5, "queend: no message: the queue or the group is paused\n")
    assert cli.ok("queue", "resume", queue).out == f"resumed {queue}\n"
    assert cli.ok("group", "pause", "g", "--queue", queue).out == f"paused g of {queue}\n"
    assert "Paused" in cli.ok("group", "list", "--queue", queue).out
    assert cli("pop", queue, "-g", "g").status == 5 and cli.ok("pop", queue, "--ack", "-o", "json").json
    assert cli.ok("group", "resume", "g", "--queue", queue).out == f"resumed g of {queue}\n"
    for words in (("queue", "pause", "no-such"), ("group", "pause", "g", "--queue", "no-such"),
                  ("group", "resume", "no-such"), ("group", "pause", "no-such", "--queue", queue)):
        refused = cli(*words)
        assert refused.status == 4 and "there is no" in refused.err


def test_clear_and_delete_say_first_what_they_do(cli, client, queue):
    client.push(queue, 1, 2, partition="a")
    client.push(queue, 3, partition="b")
    client.pop(queue, consumerGroup="g", batch=10)
    assert cli.ok("queue", "clear", queue, "--dry-run").out == f"would remove 3 messages of the queue '{queue}'\n"
    assert cli.ok("queue", "clear", queue, "--dry-run", "--partition", "a").out.startswith("would remove 2 messages")
    assert cli("queue", "clear", queue, "--dry-run", "--partition", "c").status == 4
    refused = cli("queue", "clear", queue)
    assert refused.status == 2 and "--yes" in refused.err
    assert cli.ok("queue", "show", queue, "-o", "json").json["totals"]["total"] == 3
    assert cli.ok("queue", "clear", queue, "-y", "--partition", "b").out == "removed 1 message\n"
    told = cli.ok("queue", "delete", queue, "--dry-run").out
    assert told == f"would delete {queue}: 2 messages, 2 not consumed, 0 dead letters, 1 group\n"
    assert cli("queue", "delete", queue).status == 2
    assert cli("queue", "delete", queue, "no-such", "--yes").status == 4      # none is deleted then
    cli.ok("queue", "delete", queue, "--yes")
    assert cli("queue", "show", queue).status == 4


def test_questions_at_a_terminal(cli, client, queue):
    client.push(queue, 1)
    status, shown = cli.at_terminal("queue", "delete", queue, answer="n")
    assert status == 1 and "[y/N]" in shown and "nothing was changed" in shown
    assert cli.ok("queue", "show", queue)
    status, shown = cli.at_terminal("queue", "delete", queue, answer="y")
    assert status == 0 and f"deleted {queue}" in shown
    assert cli("queue", "show", queue).status == 4


def test_a_table_at_a_terminal(cli, client, queue):
    client.push(queue, 1)
    status, shown = cli.at_terminal("queue", "list", queue)
    assert status == 0 and queue in shown and "─" in shown


def test_a_seek_of_one_partition_names_what_waits_there(cli, client, queue):
    for partition, count in (("a", 3), ("b", 2), ("done", 1)):
        client.push(queue, *range(count), partition=partition)
    client.pop(queue, "done", consumerGroup="g", autoAck=True)
    for partition, count in (("a", "3 messages"), ("b", "2 messages"), ("done", "0 messages")):
        words = ("group", "seek", "g", queue, "--end", "--partition", partition)
        assert cli.ok(*words, "--dry-run").out == (
            f"would move 'g' to the end in {partition!r} of {queue!r}, now {count} behind\n")
    nowhere = cli("group", "seek", "g", queue, "--end", "--partition", "no-such", "--dry-run")
    assert (nowhere.status, nowhere.err) == (4, f"queend: there is no partition 'no-such' in {queue!r}\n")
    shown = cli.ok("group", "show", "g", "--queue", queue, "--limit", "2")
    assert shown.err == f"queend: only the first 2 partitions of {queue!r} are shown; use --limit to show more\n"
    assert cli.ok("group", "show", "g", "--queue", queue, "--limit", "4").err == ""


def test_groups_lag_seek_delete(cli, client, queue):
    client.push(queue, *range(5))
    popped = client.pop(queue, consumerGroup="readers", batch=2)
    for one in popped:
        client.ack(one, group="readers")
    row = next(row for row in cli.ok("group", "list", "--queue", queue, "-o", "ndjson").lines)
    assert (row["name"], row["totalLag"]) == ("readers", 3)
    (place,) = cli.ok("group", "show", "readers", "--queue", queue, "-o", "json").json
    assert (place["offset"], place["head"], place["offsetLag"]) == (2, 5, 3)
    assert cli.ok("group", "seek", "readers", queue, "--end", "--dry-run").out.endswith("now 3 messages behind\n")
    assert cli("group", "seek", "readers", queue, "--end").status == 2
    assert cli("group", "seek", "readers", queue, "--yes").status == 2
    for words, offset in ((["--end"], 5), (["--beginning"], 0), (["--offset", "4"], 4),
                          (["--to", "2100-01-01T00:00:00Z"], 5)):
        cli.ok("group", "seek", "readers", queue, "--yes", *words)
        assert cli.ok("group", "show", "readers", "--queue", queue, "-o", "json").json[0]["offset"] == offset, words
    assert cli("group", "seek", "readers", queue, "--to", "tomorrow", "--yes").status == 1
    assert cli("group", "seek", "nobody", queue, "--end", "--yes").status == 4
    assert "would delete readers" in cli.ok("group", "delete", "readers", "--dry-run").out
    cli.ok("group", "delete", "readers", "--queue", queue, "--yes")
    assert cli("group", "show", "readers", "--queue", queue).status == 4


def test_many_queues_come_page_by_page(cli, client):
    names = {f"many-{i:05}" for i in range(2500)}
    items = [{"queue": name, "payload": 1} for name in sorted(names)]
    for at in range(0, len(items), 1000):
        client.push_items(items[at:at + 1000])
    assert set(cli.ok("queue", "list", "many-*", "-o", "names").out.split()) == names
    assert len(cli.ok("queue", "list", "many-*").out.splitlines()) == len(names) + 1
    some = cli.ok("queue", "list", "many-*", "--limit", "3", "-o", "names")
    assert len(some.out.split()) == 3 and "there are more than 3 queues" in some.err
    assert cli.ok("queue", "list", "many-*", "--limit", "2500", "-o", "names").err == ""
    assert {row["name"] for row in cli.ok("queue", "list", "many-*", "-o", "json").json} == names


def test_a_reader_that_leaves_ends_it_quietly(cli, client):
    client.push_items([{"queue": f"pipe-{i:04}", "payload": 1} for i in range(1000)])
    listing = cli.process("queue", "list", "-o", "ndjson", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    json.loads(listing.stdout.readline())
    listing.stdout.close()
    assert listing.stderr.read() == b"" and listing.wait(PATIENCE) == 141


def test_one_is_told_as_one(cli, client, queue):
    client.push(queue, 1, partition="a")
    client.pop(queue, consumerGroup="readers", subscriptionMode="all")
    until(lambda: [row["members"] for row in cli.ok("group", "list", "--queue", queue, "-o", "ndjson").lines] == [1],
          "the figures have the group")
    assert cli.ok("queue", "clear", queue, "--dry-run").out == f"would remove 1 message of the queue '{queue}'\n"
    assert cli.ok("queue", "delete", queue, "--dry-run").out.endswith(
        ": 1 message, 1 not consumed, 0 dead letters, 1 group\n")
    assert cli.ok("group", "delete", "readers", "--queue", queue, "--dry-run").out.endswith(
        ": 1 partition, 1 message behind\n")
    assert cli.ok("group", "seek", "readers", queue, "--end", "--dry-run").out.endswith(
        f"in all partitions of '{queue}', now 1 message behind\n")


def test_what_one_group_holds_and_another_waits_for_is_counted_once(cli, client, queue):
    client.push(queue, *range(4))
    assert len(client.pop(queue, consumerGroup="a", batch=3)) == 3
    assert client.pop(queue, consumerGroup="b", partition="none") == []
    assert cli.ok("queue", "delete", queue, "--dry-run").out.endswith(
        ": 4 messages, 4 not consumed, 0 dead letters, 2 groups\n")


def test_one_partition_is_deleted(cli, client, queue):
    for name in ("a", "b"):
        client.push(queue, 1, 2, partition=name)
    assert cli.ok("queue", "delete", queue, "--partition", "a", "--dry-run").out == (
        f"would delete the partition 'a' of {queue!r}: 2 messages, 2 waiting, 0 in flight, 0 dead letters\n")
    assert cli("queue", "delete", queue, "--partition", "a").status == 2
    assert cli.ok("queue", "delete", queue, "--partition", "a", "--yes").out == f"deleted a of {queue}\n"
    assert [one["name"] for one in client.show(queue).json["partitions"]] == ["b"]
    assert cli("queue", "delete", queue, "--partition", "a", "--yes").status == 4
    assert cli("queue", "delete", queue, queue, "--partition", "b", "--yes").status == 2
