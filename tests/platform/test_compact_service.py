"""The compaction service of running daemons: rows become fewer, clients cannot tell, one daemon works for all."""
from __future__ import annotations

import psycopg
from support.client import Client
from support.daemon import Daemon
from support.wait import until

PARTITIONS, EACH = 5, 30
LEAST = 8      # rows that are merged: what a pass that came early has left may be fewer


def rows(daemon: Daemon) -> int:
    with psycopg.connect(daemon.conninfo) as db:
        return db.execute("SELECT count(*) FROM queend.log").fetchone()[0]


def one_of(client: Client, other: Client, line: str) -> bool:
    return any(line in one.get("/metrics/prometheus").body.decode() for one in (client, other))


def test_two_daemons_merge_what_is_left_alone(start_daemon) -> None:
    first = start_daemon(QUEEND_COMPACT_AFTER=1)
    second = start_daemon(first.conninfo, QUEEND_COMPACT_AFTER=1)
    with first.client() as client, second.client() as other:
        sent = {f"p{p}": [client.push("q", {"n": n}, partition=f"p{p}", traceId="11111111-2222-4333-8444-555555555555")[0] for n in range(EACH)]
                for p in range(PARTITIONS)}
        until(lambda: rows(first) <= (LEAST + 1) * PARTITIONS, "the rows of a partition have become few")
        said = [[line for line in one.get("/metrics/prometheus").body.decode().splitlines() if line.startswith("queend_compact_")] for one in (client, other)]
        working = [any(line == "queend_compact_working 1.0" for line in lines) for lines in said]
        assert sorted(working) == [False, True]
        until(lambda: one_of(client, other, f"queend_compact_removed_rows_total {EACH * PARTITIONS - rows(first)}.0"), "what was removed is counted")
        for name, answers in sent.items():
            got = other.pop("q", name, batch=100, consumerGroup="g")
            assert [(m["id"], m["data"], m["transactionId"], m["traceId"]) for m in got] == [
                (a["message_id"], {"n": n}, a["transaction_id"], "11111111-2222-4333-8444-555555555555") for n, a in enumerate(answers)]
            assert [m["createdAt"] for m in got] == sorted({m["createdAt"] for m in got})
            again = client.push("q", 0, partition=name, transactionId=answers[7]["transaction_id"])
            assert (again[0]["status"], again[0]["message_id"]) == ("duplicate", answers[7]["message_id"])


def test_never_unless_asked(start_daemon) -> None:
    daemon = start_daemon()
    with daemon.client() as client:
        assert "queend_compact_passes_total 0.0" in client.get("/metrics/prometheus").body.decode()
