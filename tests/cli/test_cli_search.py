"""queend message: list, search, show."""
from __future__ import annotations

import json

from support.cli import Cli
from support.client import data
from support.proxy import CUT, Proxy


def test_a_search_says_what_it_found_and_how_far_it_came(cli, client, queue):
    client.push_items([{"queue": queue, "partition": f"p{n % 2}", "transactionId": f"order-{n}",
                        "payload": {"order": n, "text": "a\nb"}} for n in range(6)])
    done = cli.ok("message", "search", queue, '"order":4')
    assert "pending" in done.out and "order-4" in done.out and "order-3" not in done.out
    assert done.err == "1 found; searched 6 messages, the search is complete\n"
    done = cli.ok("message", "search", queue, "order", "-o", "names")
    names = done.out.split()
    assert len(names) == 6 and {name.partition("/")[2] for name in names} == {f"order-{n}" for n in range(6)}
    assert json.loads(cli.ok("message", "show", names[0], "-o", "json").out)["payload"]["text"] == "a\nb"
    assert cli.ok("message", "search", queue, "order", "-p", "p1", "-o", "json").json[0]["partition"] == "p1"
    # page by page
    done = cli.ok("message", "search", queue, "order", "-n", "4", "-o", "ndjson")
    assert len(done.lines) == 4 and "4 found; searched " in done.err
    place = done.err.partition("--after ")[2].split()[0]
    rest = cli.ok("message", "search", queue, "order", "--after", place, "-o", "ndjson")
    told = [one["transactionId"] for one in done.lines + rest.lines]
    assert len(told) == 6 and set(told) == {f"order-{n}" for n in range(6)}
    nothing = cli.ok("message", "search", queue, "none")
    assert nothing.out == "" and nothing.err == "none found; searched 6 messages, the search is complete\n"
    assert cli.ok("message", "search", queue, "none", "-o", "json").json == []


def test_a_search_ends_at_its_bound(cli, client, queue):
    for start in range(0, 30_000, 10_000):
        client.post("/api/v1/push?format=counts", {"items": [
            {"queue": queue, "payload": n} for n in range(start, start + 10_000)]})
    done = cli.ok("message", "search", queue, "29999", "--most", "1")
    assert len(done.out.splitlines()) == 2 and "back to 20" in done.err and "--after " in done.err
    assert cli.ok("message", "search", queue, "no such").err == (
        "none found; searched 30,000 messages, the search is complete\n")


def test_a_server_that_leaves_in_the_middle_loses_nothing_of_what_was_found(client, daemon, tmp_path, queue):
    for start in range(0, 20_000, 10_000):
        client.post("/api/v1/push?format=counts", {"items": [
            {"queue": queue, "payload": {"n": n}} for n in range(start, start + 10_000)]})
    proxy = Proxy(daemon.port)
    proxy.rule = lambda to_server, data: [CUT] if to_server and b"after=" in data else [data]
    cli = Cli(f"http://127.0.0.1:{proxy.port}", tmp_path)
    try:
        done = cli("message", "search", queue, "999}", "-n", "1000")
        proxy.rule = lambda to_server, data: [CUT] if to_server and b"search" in data else [data]
        nothing = cli("message", "search", queue, "999}")
    finally:
        proxy.close()
    assert done.status == 6 and len(done.out.splitlines()) == 11 and "10 found; searched 10," in done.err
    assert "was closed before the answer was complete" in done.err
    place = done.err.partition("--after ")[2].split()[0]
    rest = Cli(daemon.url, tmp_path).ok("message", "search", queue, "999}", "--after", place)
    assert "10 found" in rest.err and "the search is complete" in rest.err
    assert nothing.status == 6 and nothing.out == "" and "found" not in nothing.err


def test_messages_are_listed(cli, client, queue):
    client.push(queue, *range(5))
    client.ack(client.pop(queue)[0])
    done = cli.ok("message", "list", queue, "-o", "ndjson", "-n", "3")
    assert [one["offset"] for one in done.lines] == [4, 3, 2]
    assert [one["offset"] for one in cli.ok("message", "list", queue, "--status", "completed", "-o",
                                            "ndjson").lines] == [0]
    assert queue in cli.ok("message", "list", "-n", "1000").out
    refused = cli("message", "search", "none-such", "x")
    assert refused.status == 4 and refused.err == "queend: there is no queue 'none-such'\n"
    assert cli("message", "list", "none-such").status == 4
    assert cli("message", "search", queue, "x", "--after", "here").status == 1
    assert cli("message", "search", queue).status == 2
    assert cli("message", "show", "nothing").status == 2


def test_a_pattern_searches_several_queues(cli, client, queue):
    names = [f"{queue}-{name}" for name in "abc"]
    for name in names:
        client.push(name, {"who": "eve", "of": name})
    done = cli.ok("message", "search", f"{queue}-*", '"eve"', "-o", "ndjson")
    assert [one["queue"] for one in done.lines] == names
    assert names[1] in cli.ok("message", "search", f"{queue}-[ab]*", '"eve"').out
    done = cli.ok("message", "search", "*", f'"of":"{queue}', "-o", "ndjson")
    assert {one["queue"] for one in done.lines} == set(names)
    assert cli("message", "search", f"{queue}-x*", "eve").status == 4


def test_messages_are_moved_sent_back_and_deleted(cli, client, queue):
    client.push_items([{"queue": queue, "partition": "p", "transactionId": f"m{n}", "payload": n} for n in range(3)])
    first, second, third = sorted(cli.ok("message", "list", queue, "-o", "names").out.split())
    refused = cli("message", "dlq", first, "-g", "biling")
    assert refused.status == 4 and refused.err == f"queend: the queue of {first} has no group 'biling'\n"
    assert client.pop(queue, consumerGroup="g")
    assert cli.ok("message", "dlq", first, second, "-g", "g", "--error", "by hand").out == (
        f"moved {first}\nmoved {second}\n")
    assert cli.ok("message", "dlq", first).out == f"{first} was already a dead letter\n"
    assert [one["errorMessage"] for one in client.get(f"/api/v1/dlq?queue={queue}").json["messages"]] == ["by hand"] * 2
    assert cli.ok("message", "retry", first).out.startswith(f"redrove {first} as ")
    assert cli("message", "retry", third).status == 4 and cli("message", "dlq", f"{third}x").status == 4
    assert cli.ok("message", "delete", second, third, "--dry-run").out == (
        f"would delete {second}\nwould delete {third}\n")
    assert cli("message", "delete", third).status == 2
    assert cli.ok("message", "delete", second, third, "--yes").out == f"deleted {second}\ndeleted {third}\n"
    assert cli("message", "delete", third, "--yes").status == 4
    assert data(client.pop(queue, batch=10)) == [0] and client.dead(queue) == 0
