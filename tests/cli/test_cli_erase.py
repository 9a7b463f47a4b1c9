"""queend erase."""
from __future__ import annotations

import pytest
from support.client import data


def test_what_fits_is_counted_asked_for_and_erased(cli, client, queue):
    client.push_items([{"queue": queue, "partition": f"p{n % 2}", "transactionId": f"m{n}",
                        "payload": {"n": n, "who": ["eve", "bob"][n % 3 == 0], "tags": [n]}} for n in range(9)])
    assert cli.ok("erase", queue, "--where", "/who=eve", "--dry-run").out == "would erase 6 messages\n"
    refused = cli("erase", queue, "--where", "/who=eve")
    assert refused.status == 2 and "--yes" in refused.err
    assert cli.ok("erase", queue, "--where", "/who=eve", "-p", "p1", "--yes").out == "erased 3 messages\n"
    assert cli.ok("erase", queue, "--where", "/tags/0=3", "--yes").out == "erased 1 message\n"
    assert cli.ok("erase", queue, "--id", "m0", "--id", "m2", "--text", '"eve"', "--yes").out == "erased 1 message\n"
    assert cli.ok("tail", queue, "-n", "100", "-o", "ndjson").out.count('"payload"') == 4
    left = [one["n"] for one in data(client.pop(queue, "p0", batch=10, autoAck=True))]
    while more := client.pop(queue, "p0", batch=10, autoAck=True):
        left += [one["n"] for one in data(more)]
    assert left == [0, 4, 6, 8]
    assert cli.ok("erase", queue, "-p", "p0", "--yes").out == "erased 4 messages\n"
    assert cli.ok("erase", queue, "-p", "p0", "--yes").out == "erased 0 messages\n"


@pytest.mark.parametrize("words", [[], ["--where", "who=eve"], ["--where", "/who"], ["--text", ""], ["--id", ""]],
                         ids=str)
def test_what_says_nothing_is_refused(cli, client, queue, words):
    client.push(queue, "eve")
    assert cli("erase", queue, *words, "--yes").status == 2
    assert data(client.pop(queue)) == ["eve"]


def test_unknown_names(cli, queue, client):
    client.push(queue, 1)
    assert cli("erase", f"{queue}-none", "--text", "a", "--yes").status == 4
    assert cli("erase", queue, "-p", "none", "--yes").status == 4
