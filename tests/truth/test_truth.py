"""Figures are true: in a random history all of them are what a count by hand says.

`make test-truth` takes TRUTH_STEPS steps from TRUTH_SEED on, TRUTH_SECONDS at most. TRUTH_EVERY steps run between two
comparisons (1: figures are compared after each). Each comparison is of all kept figures, each fifth one also of a few
pages and a view of SQL, each hundredth one of all pages, metrics, views and commands. What a failure prints begins with
the seed and the step.
"""
from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from support.cli import Cli
from support.client import Client
from support.daemon import Daemon
from support.figures import compared, glanced, told_by_commands
from support.steps import Steps
from support.wait import until

STEPS = int(os.environ.get("TRUTH_STEPS", "500"))
SECONDS = float(os.environ.get("TRUTH_SECONDS", "1e9"))
SEED = int(os.environ.get("TRUTH_SEED", "1"))
EVERY = int(os.environ.get("TRUTH_EVERY", "5"))
SOME, PAGES, WHOLE = 5, 3, 100      # comparisons with pages: each which one with some, how many; each which one whole
REPORTED = 10_000


@pytest.fixture(scope="module")
def daemons(start_daemon: Callable[..., Daemon]) -> list[Daemon]:
    one = start_daemon(RETENTION_INTERVAL=500)
    return [one, start_daemon(one.conninfo, RETENTION_INTERVAL=500)]


@pytest.fixture
def clients(daemons: list[Daemon]) -> Iterator[list[Client]]:
    opened = [daemon.client() for daemon in daemons]
    yield opened
    for one in opened:
        one.close()


@pytest.fixture
def database(daemons: list[Daemon]) -> Iterator[psycopg.Connection]:
    with psycopg.connect(daemons[0].conninfo, autocommit=True) as connection:
        yield connection


def test_a_random_history(clients: list[Client], database: psycopg.Connection, daemons: list[Daemon], tmp_path: Any
                          ) -> None:
    steps, done, truth = Steps(clients, database, SEED), Counter(), None
    cli, began = Cli(daemons[0].url, tmp_path), time.monotonic()

    def report() -> None:
        print(f"seed {SEED}: {steps.count} steps ({steps.refused} refused), {dict(done)},"
              f" {time.monotonic() - began:.0f} s", flush=True)

    with psycopg.connect(daemons[0].conninfo, autocommit=True) as beside:
        while steps.count < STEPS and time.monotonic() < began + SECONDS:
            steps.take(EVERY, truth)
            done["comparisons"] += 1
            client = steps.dice.choice(clients)
            if done["comparisons"] % WHOLE == 0:
                done["of everything"] += 1
                truth, found = compared(client, beside)
                found += told_by_commands(cli, beside)
            else:
                some = PAGES if done["comparisons"] % SOME == 0 else 0
                done["pages"] += some
                truth, found = glanced(client, beside, steps.dice, some)
            assert not found, "\n".join([f"seed {SEED}, step {steps.count}", *steps.did, *found])
            if steps.count % REPORTED < EVERY:
                report()
    report()


# A fault each: the function, what stands in it, what stands there instead.
FAULTS = {
    "groups are counted where they have a cursor": ("stats_visit", "(c.has_cursor OR c.lag > 0)", "c.has_cursor"),
    "groups that began new have everything": ("cursor_figures", "k.start_at IS NULL OR h.next IS NULL", "true"),
    "a message that is not due is late": ("cursor_figures", "v_due AND w.stored IS NOT NULL", "false"),
    "a delayed message is late": ("cursor_figures", "w.stored + l.delayed", "w.stored"),
    "deleted messages are counted": ("cursor_figures", "CASE WHEN v_holes THEN (", "CASE WHEN false THEN ("),
    "a queue that nobody reads is not old": ("stats_visit", "THEN c.since ELSE 0 END) AS unread",
                                             "THEN 0 ELSE 0 END) AS unread"),
    "leased messages are pending": ("stats_visit", "max(c.lag - c.leased) AS pending", "max(c.lag) AS pending"),
    "an expired lease holds": ("cursor_figures", "c.lease_until > v_now THEN", "c.lease_until > 0 THEN"),
    "what is done beyond a gap waits": ("cursor_figures", "ELSE k.beyond END AS done", "ELSE NULL END AS done"),
    "nobody tells of a deletion": ("stats_mark", "INSERT INTO queend.stat_marks (partition_id) SELECT DISTINCT u.id"
                                   " FROM unnest(p_parts) AS u (id)", "NULL"),
    "nobody tells of a deleted partition": ("partition_delete", "PERFORM queend.stats_mark(ARRAY[v_part])", "NULL"),
    "nobody tells of an erasure": ("messages_erase", "PERFORM queend.stats_mark(ARRAY[p_part])", "NULL"),
    "nobody tells of a cursor that found nothing": ("cursors_open", "FROM opened o", "FROM opened o WHERE false"),
    "a message is consumed though a group never came to it": ("group_did", "COALESCE(p_stored < p_start, false)",
                                                              "true"),
    "a lease holds all that waits": ("partition_groups", "THEN k.lease_end", "THEN 9999"),
    "a new group is not walked": ("stats_changed", "OR s.queue_id IN (SELECT u.queue_id FROM unlisted u)", ""),
}


def test_planted_faults_are_found(clients: list[Client], database: psycopg.Connection) -> None:
    """Every shape is there for each fault, and nothing is reported without one."""
    client = clients[0]

    def shapes(name: str) -> None:
        client.configure(f"{name}-delayed", delayedProcessing=3600)
        client.configure(f"{name}-lapsed", leaseTime=1)
        for one in (name, f"{name}-new", f"{name}-unread", f"{name}-delayed", f"{name}-lapsed", f"{name}-deleted",
                    f"{name}-late", f"{name}-erased", f"{name}-parted"):
            client.push(one, 1, 2, 3, partition="a")
        client.push(f"{name}-new", 1, partition="b")
        client.push(f"{name}-due", 1, partition="a", delayMs=3_600_000)
        client.pop(f"{name}-due", consumerGroup="g")
        client.pop(f"{name}-new", consumerGroup="g", subscriptionMode="new")
        client.pop(f"{name}-new", "b", consumerGroup="vain", subscriptionMode="new")
        client.pop(f"{name}-delayed", consumerGroup="g")
        client.pop(f"{name}-lapsed", consumerGroup="g", batch=2)
        one, two = client.pop(name, consumerGroup="g", batch=2)
        client.ack(two, group="g")
        client.get("/api/v1/consumer-groups")      # the figures are of now
        for queue in (name, f"{name}-late"):
            client.push(queue, 4, partition="never came to")
        client.pop(f"{name}-unread-no-more", consumerGroup="g")
        until(lambda: client.get("/api/v1/consumer-groups") and database.execute(
            "SELECT since > (SELECT max(created_at) FROM queend.log) FROM queend.stats").fetchone()[0],
            "looks do not go back to what was stored")
        message = client.get(f"/api/v1/messages?queue={name}-deleted").json["messages"][-1]
        client.request("DELETE", f"/api/v1/messages/{message['partitionId']}/{message['transactionId']}")
        assert client.post(f"/api/v1/queues/{name}-erased/erase", {"partition": "a"}).json["erased"] == 3
        assert client.request("DELETE", f"/api/v1/queues/{name}-parted/partitions/a").status == 200
        client.pop(f"{name}-late", "a", consumerGroup="late", batch=1)
        client.pop(f"{name}-new", "a", consumerGroup="vain", subscriptionMode="new")

    some = list(FAULTS.items())[:None if "TRUTH_STEPS" in os.environ else 3]      # all of them take minutes
    for number, (what, (function, right, wrong)) in enumerate(some):
        (source,) = database.execute("SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.proname = %s"
                                     " AND p.pronamespace = 'queend'::regnamespace", (function,)).fetchone()
        assert source.count(right) == 1, (what, source.count(right))
        database.execute(source.replace(right, wrong))
        try:
            shapes(f"fault-{number}")
            found = until(lambda: compared(client, database)[1], what, 10)      # one of them needs a lease that expires
        finally:
            database.execute(source)
        assert found, what
        until(lambda: "skipped" not in client.post("/api/v1/stats/refresh").json, "the figures are made anew")
        truth, found = compared(client, database)
        assert not found, (what, json.dumps(found, indent=1))
        for queue in truth.queues:
            client.delete(queue)
