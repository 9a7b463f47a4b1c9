"""queend lease: list, extend, release."""
from __future__ import annotations

import datetime
import os

import psycopg
import pytest
from support.cli import AtTerminal, Cli
from support.tokens import SECRET, token

from queend.control.routes import leases


def ends(cli, queue: str) -> datetime.datetime:
    (one,) = cli.ok("lease", "list", queue, "-o", "json").json
    return datetime.datetime.fromisoformat(one["expiresAt"])


def test_a_lease_is_listed_extended_and_released(cli, client, queue):
    client.push(queue, 1, 2, 3, partition="p")
    assert cli.ok("lease", "list", queue).err == "no leases\n"
    taken = client.pop(queue, consumerGroup="g", batch=3, leaseSeconds=60)
    heads, row = cli.ok("lease", "list", queue, "-g", "g").out.splitlines()
    assert heads.split() == ["group", "queue", "partition", "messages", "idle", "ends", "in", "deliveries", "expired",
                             "lease"]
    address = f"{taken[0]['partitionId']}/{taken[0]['leaseId']}"
    assert row.split()[:4] == ["g", queue, "p", "3"] and row.split()[-1] == address
    assert cli.ok("lease", "list", queue, "-o", "names").out == f"{address}\n"
    before = ends(cli, queue)
    told = cli.ok("lease", "extend", address, "--for", "10m").out
    after = ends(cli, queue)
    assert after - before > datetime.timedelta(minutes=8)
    assert told.startswith(f"extended {taken[0]['leaseId']}: it ends at {after:%Y-%m-%dT%H:%M}")
    cli.ok("lease", "extend", taken[0]["leaseId"])
    assert ends(cli, queue) == after, "a lease is never shortened"
    what = f"{address}: 3 messages of the group g in p of {queue}\n"
    assert cli.ok("lease", "release", address, "--dry-run").out == f"would release {what}"
    refused = cli("lease", "release", address)
    assert refused.status == 2 and "use --yes" in refused.err
    assert cli.ok("lease", "release", address, "--yes").out == f"released {what}"
    assert cli.ok("lease", "list", queue, "-o", "json").json == []
    assert not client.ack(taken[0], group="g")["success"], "the consumer that had it"
    assert [one["data"] for one in client.pop(queue, consumerGroup="g", batch=3)] == [1, 2, 3]
    for words in (("extend", address), ("release", address, "--yes")):
        assert cli("lease", *words).status == 4, "the other lease is another one"


def test_a_lease_of_several_partitions(cli, client, queue):
    client.push_items([{"queue": queue, "partition": p, "payload": p} for p in "abc"])
    taken = client.pop(queue, batch=3, partitions=3)
    name = taken[0]["leaseId"]
    assert cli.ok("lease", "extend", name, "--for", "1h").out.endswith(", or later, in 3 partitions\n")
    one, *others = cli.ok("lease", "list", queue, "-o", "names").out.split()
    assert len(others) == 2
    cli.ok("lease", "release", one, "--yes", "--queue", queue)
    assert set(cli.ok("lease", "list", queue, "-o", "names").out.split()) == set(others)
    told = cli.ok("lease", "release", name, others[0], "--yes").out
    assert sorted(line.split()[1].rstrip(":") for line in told.splitlines()) == sorted(others), "each once"


def test_groups_order_and_limit(cli, client, queue):
    client.push(queue, 1, 2)
    for group, seconds in (("slow", 600), ("fast", 60)):
        client.pop(queue, consumerGroup=group, leaseSeconds=seconds)

    def groups(*words: str) -> list[str]:
        return [row["consumerGroup"] for row in cli.ok("lease", "list", queue, *words, "-o", "ndjson").lines]

    assert groups() == ["fast", "slow"] and groups("--sort", "idle") == ["slow", "fast"]
    assert groups("-n", "1") == ["fast"] and groups("-g", "slow") == ["slow"]
    assert cli("lease", "list", queue, "-g", "none").status == 4 == cli("lease", "list", f"{queue}-none").status


@pytest.mark.parametrize("words", ["extend /x", "extend p/", "release /x --yes", "extend x --for 1500ms",
                                   "extend x --for 0", "list --sort colour", "list -n 10001"])
def test_wrong_arguments(cli, words):
    assert cli("lease", *words.split()).status == 2


def test_a_lease_that_ends_before_its_release(cli, client, queue):
    """The other leases are released."""
    client.push_items([{"queue": queue, "partition": p, "payload": p} for p in "ab"])
    one, other = client.pop(queue, batch=2, partitions=2)
    with AtTerminal(cli, "lease", "release", one["leaseId"]) as terminal:
        terminal.shows("Release 2 leases with 2 messages")
        assert client.ack(one)["success"]
        os.write(terminal.terminal, b"y\n")
        assert terminal.ended() == 1
        text = "\n".join(terminal.rows())
    assert f"{one['partitionId']}/{one['leaseId']} has ended meanwhile" in text, text
    assert f"released {other['partitionId']}/{other['leaseId']}: 1 message" in text
    assert cli.ok("lease", "list", queue, "-o", "json").json == []


def test_a_token_that_is_limited_to_groups(start_daemon, tmp_path):
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="queues")
    full = Cli(daemon.url, tmp_path, QUEEND_TOKEN=token(role="admin"))
    page = Cli(daemon.url, tmp_path, QUEEND_TOKEN=token(role="read-write", queues={"*": ["read:page-*", "pop:page-*"]}))
    full.ok("push", "orders", "1")
    for group in ("page-1", "other"):
        full.ok("pop", "orders", "-g", group, "--from", "all")
    for words in ((), ("orders",), ("-g", "page-1")):
        assert [row["consumerGroup"] for row in page.ok("lease", "list", *words, "-o", "ndjson").lines] == ["page-1"]
    assert page("lease", "list", "-g", "other").status == 7
    theirs = full.ok("lease", "list", "-g", "other", "-o", "names").out.strip()
    assert page("lease", "release", theirs, "--yes").status == 4
    mine = page.ok("lease", "list", "-o", "names").out.strip()
    page.ok("lease", "extend", mine)
    page.ok("lease", "release", mine, "--yes")
    assert page.ok("lease", "list", "orders").err == "no leases\n"


def test_says_when_there_are_more_than_the_server_examines(start_daemon, tmp_path):
    daemon = start_daemon()
    cli = Cli(daemon.url, tmp_path)
    with daemon.client() as client:
        client.push("q", 1)
        client.pop("q")
    with psycopg.connect(daemon.conninfo, autocommit=True) as session:      # ends of leases in other partitions
        session.execute("INSERT INTO queend.stat_marks (partition_id, due) SELECT 1000000 + i, 4000000000000000 + i"
                        " FROM generate_series(1, %s) AS i", (leases.EXAMINED_MOST,))
    done = cli.ok("lease", "list")
    assert len(done.out.splitlines()) == 2 and "only the 10 000 partitions whose lease ends first" in done.err
