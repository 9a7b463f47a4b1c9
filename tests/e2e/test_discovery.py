"""What others committed is found by a wildcard pop, whoever was told of it: commits that take long, consumers that are
away, clocks that are wrong."""
from __future__ import annotations

import json
from collections.abc import Callable

import psycopg
import pytest
from support.client import Client, data
from support.clock import other_clock
from support.daemon import Daemon
from support.wait import until

PUSH = "SELECT queen.push_messages_v3(%s::jsonb)"
AWAY_S = 4.5  # longer than anything looks back


def stored(partition: str, payload: str) -> str:
    return json.dumps([{"queue": "q", "partition": partition, "payload": payload, "transactionId": payload}])


def popped(client: Client, group: str, count: int) -> list[str]:
    """Payloads of wildcard pops until there are so many, or a pop waits in vain."""
    found: list[str] = []
    while len(found) < count:
        messages = client.pop("q", batch=10, partitions=10, autoAck=True, consumerGroup=group,
                              wait=True, timeout=100_000)
        if not messages:
            break
        found += data(messages)
    return sorted(found)


@pytest.fixture(scope="module")
def daemons(start_daemon: Callable[..., Daemon]) -> dict[str, Daemon]:
    one = start_daemon()
    two = {name: start_daemon(one.conninfo, **settings) for name, settings in {
        "other": {}, "ahead": other_clock("+1h"), "behind": other_clock("-1h")}.items()}
    return {"one": one, **two}


def test_commits_that_nobody_looked_at(daemons: dict[str, Daemon]):
    clients = {name: daemon.client() for name, daemon in daemons.items()}
    clients["one"].push("q", "known", partition="slow")
    clients["one"].push("q", "known too", partition="quick")
    for name, client in clients.items():
        assert popped(client, name, 2) == ["known", "known too"]
    conninfo = daemons["one"].conninfo
    with psycopg.connect(conninfo) as slow, psycopg.connect(conninfo, autocommit=True) as quick:
        slow.execute(PUSH, [stored("slow", "committed late")])
        quick.execute(PUSH, [stored("quick", "committed at once")])
        quick.execute("SELECT queen.push('q', 'outbox', '\"from the outbox\"'::jsonb)")
        began = quick.execute("SELECT clock_timestamp()").fetchone()[0]
        until(lambda: quick.execute("SELECT clock_timestamp() - %s > make_interval(secs => %s)", [began, AWAY_S])
              .fetchone()[0], "nobody has looked for a while")
        slow.commit()
    for name, client in clients.items():
        assert popped(client, name, 3) == ["committed at once", "committed late", "from the outbox"], name


def test_looks_go_on_while_nobody_waits(start_daemon: Callable[..., Daemon]):
    """The first pop after a quiet time does not wait: what others stored meanwhile must have been found before it.
    Behind the answer to each look comes the question whose pauses end, which is seen until the next look begins."""
    daemon = start_daemon(POP_WAIT_MAX_INTERVAL_MS=100)
    seen = set()
    with psycopg.connect(daemon.conninfo, autocommit=True) as database:
        def many() -> bool:
            seen.update(at for (at,) in database.execute(
                "SELECT query_start FROM pg_stat_activity WHERE application_name = 'queend' AND datname = "
                "current_database() AND query LIKE '%queend.waking(%'"))
            return len(seen) >= 20
        until(many, "twenty looks")


def test_commits_under_long_polls(daemons: dict[str, Daemon]):
    """The same while somebody waits all the time: looks that found nothing must not pass the open transaction over."""
    clients = {name: daemon.client() for name, daemon in daemons.items()}
    with psycopg.connect(daemons["one"].conninfo) as slow:
        slow.execute(PUSH, [stored("slow", "later")])
        for client in clients.values():
            assert not client.pop("q", consumerGroup="waits", autoAck=True, partition="nowhere",
                                  wait=True, timeout=1200)
        slow.commit()
    for name, client in clients.items():
        assert popped(client, name, 1) == ["later"], name


def test_a_head_that_one_group_has_seen_is_told_to_the_others(daemons: dict[str, Daemon]):
    """A pop that names the partition finds what was stored elsewhere before any look does: other groups hear of it all
    the same."""
    one = daemons["one"].client()
    one.push("told", "known", partition="p")
    for group in ("first", "second"):
        assert data(one.pop("told", autoAck=True, consumerGroup=group, wait=True, timeout=100_000)) == ["known"]
    with psycopg.connect(daemons["one"].conninfo, autocommit=True) as sql:
        sql.execute(PUSH,
                    [json.dumps([{"queue": "told", "partition": "p", "payload": "news", "transactionId": "news"}])])
    assert data(one.pop("told", partition="p", autoAck=True, consumerGroup="first")) == ["news"]
    assert data(one.pop("told", autoAck=True, consumerGroup="second", wait=True, timeout=100_000)) == ["news"]


def test_a_repeated_push_tells_where_the_partition_ends(start_daemon: Callable[..., Daemon]):
    """What another stored is found to be there by a push of the same: parked pops hear of it from the answer."""
    daemon = start_daemon()
    with daemon.client() as client, daemon.client() as waiting:
        client.push("q", "known", partition="p")
        assert data(client.pop("q", autoAck=True, consumerGroup="g", wait=True, timeout=100_000)) == ["known"]
        with psycopg.connect(daemon.conninfo, autocommit=True) as sql:
            sql.execute(PUSH, [stored("p", "twice")])
        (answer,) = client.push("q", "twice", partition="p", transactionId="twice")
        assert answer["status"] == "duplicate"
        assert data(waiting.pop("q", autoAck=True, consumerGroup="g")) == ["twice"]


def test_a_commit_to_thousands_of_partitions(daemons: dict[str, Daemon], queue: str):
    """A look takes them into memory in slices; a group that was read before hears of each."""
    many = 3500
    items = [{"queue": queue, "partition": str(n), "payload": n} for n in range(many)]
    with daemons["one"].client() as client, psycopg.connect(daemons["one"].conninfo, autocommit=True) as database:
        client.push(queue, "known", partition="known")
        assert data(client.pop(queue, autoAck=True)) == ["known"]
        for made in range(2):                 # partitions that are new, then such that are known
            database.execute(PUSH, [json.dumps(items)])
            found: list[int] = []
            while len(found) < many and (messages := client.pop(queue, batch=1000, partitions=1000, autoAck=True,
                                                                wait=True, timeout=100_000)):
                found += data(messages)
            assert sorted(found) == list(range(many)), made
