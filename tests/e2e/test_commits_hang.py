"""A database that answers and commits nothing: its synchronous standby is missing."""
from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest
from support.client import Client, data, pop_target
from support.postgres import Postgres, running
from support.standbys import STANDBYS, hanging, name_standbys
from support.wait import until

from queend.postgres import binaries

NOWHERE = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    with running(request.config.getoption("--postgres"), tcp=True, synchronous_commit="on") as server:
        yield server


@pytest.fixture
def standbys(cluster: Postgres) -> Iterator[Callable[[str], None]]:
    """Names the standbys that commits wait for."""
    yield functools.partial(name_standbys, cluster)
    name_standbys(cluster, "")


def findings(client: Client, check: str) -> dict[str, str]:
    """Level and evidence of each finding of a check, by its title."""
    return {one["title"]: f"{one['level']}: {one['evidence']}" for one in
            client.get("/api/v1/system/doctor").json["findings"] if one["check"] == check}


def test_it_is_told_and_ends_without_another_push(start_daemon, cluster, standbys, queue):
    daemon = start_daemon(cluster.database(), LIBQUEEN_INFLIGHT_DEADLINE_MS=600_000)
    with daemon.client() as client, daemon.client() as pushing:
        client.push(queue, 1, partition="p")
        standbys("missing")
        pushing.send("POST", "/api/v1/push",
                     b'{"items": [{"queue": "%s", "partition": "p", "payload": 2}]}' % queue.encode())
        until(lambda: hanging(cluster) > 1, "the push waits for the standby")
        until(lambda: client.get("/health").json["doubts"] == ["commits_hang"], "it is told")
        assert client.get("/health").status == 503
        assert client.get("/readyz").json["error"] == "The database commits nothing"
        until(lambda: daemon.line("commits_hang"), "the log tells it")
        scrape = client.get("/metrics/prometheus").body.decode()
        assert 'queend_database_doubt{doubt="commits_hang"} 1.0' in scrape
        assert 'queend_database_doubt{doubt="away"} 0.0' in scrape
        assert hanging(cluster) > 0, "the scrape has not waited for it"
        assert client.get("/api/v1/status").status == 200, "what needs no commit is shown"
        told = findings(client, "standbys")["commits wait for a synchronous standby"]
        assert told.startswith("critical: ") and "SyncRep" in told
        assert f"{STANDBYS} = 'missing'; streaming standbys: none" in told
        assert findings(client, "daemon")["the database commits nothing"].startswith("critical: ")
        assert findings(client, "lanes") == {}, "a lane that is held until its commit is through is not crowded"
        standbys("")
        assert pushing.receive().status == 201
        until(lambda: client.get("/health").status == 200 and client.get("/readyz").status == 200, "it is over")
        daemon.told("commits_work")
        assert data(client.pop(queue, "p", batch=10, autoAck=True)) == [1, 2]


def test_a_statement_that_changed_nothing_leaves_it(start_daemon, cluster, standbys, queue):
    """Each is answered, because it has nothing to commit. What makes the doubt is a pop, so that no lane is held. One
    worker: it looks for work, too, so it has answers."""
    daemon = start_daemon(cluster.database(), NUM_WORKERS=1, LIBQUEEN_INFLIGHT_DEADLINE_MS=600_000)
    known = {"queue": queue, "partition": "p", "payload": 1, "transactionId": "known"}
    twin = {"type": "push", "items": [{**known, "payload": 2}]}
    with daemon.client() as client, daemon.client() as popping:
        client.push_items([known, {**known, "transactionId": "next"}])
        assert len(client.pop(queue, "p", autoAck=True)) == 1, "the consumer group is made"
        query = client.post("/streams/v1/queries", {"name": queue, "source_queue": queue, "config_hash": "1"})
        standbys("missing")
        popping.send("GET", pop_target(queue, "p", autoAck=True))
        until(lambda: client.get("/health").json["doubts"] == ["commits_hang"], "it is told")
        refused = client.transaction(twin)
        assert not refused["success"] and "uplicate" in str(refused), refused
        lease = client.transaction({**twin, "items": [{**known, "transactionId": "new"}]}, requiredLeases=[
            f"{NOWHERE[:-1]}1"])
        assert not lease["success"], lease
        cycle = client.post("/streams/v1/cycle", {"query_id": query.json["query_id"], "partition_id": NOWHERE,
                                                  "consumer_group": "g", "push_items": twin["items"],
                                                  "state_ops": [{"type": "upsert", "key": "k", "value": 1}]})
        assert cycle.status >= 400 or not cycle.json["success"], cycle.body
        assert client.push_items([known])[0]["status"] == "duplicate"
        assert client.get("/health").json["doubts"] == ["commits_hang"] and not daemon.line("commits_work")
        standbys("")
        assert popping.receive().status == 200
        assert client.transaction({**twin, "items": [{**known, "transactionId": "new"}]})["success"]
        until(lambda: client.get("/health").status == 200, "it is over")


def test_pushes_are_buffered_meanwhile(start_daemon, cluster, standbys, queue, tmp_path):
    daemon = start_daemon(cluster.database(), QUEEND_BUFFER_BYTES=1 << 20, FILE_BUFFER_DIR=tmp_path,
                          LIBQUEEN_INFLIGHT_DEADLINE_MS=600_000)
    with daemon.client() as client, daemon.client() as pushing:
        client.push(queue, 1, partition="p")
        client.push(queue, 1, partition="q")
        standbys("missing")
        pushing.send("POST", "/api/v1/push",
                     b'{"items": [{"queue": "%s", "partition": "p", "payload": 2}]}' % queue.encode())
        until(lambda: client.get("/health").json["doubts"] == ["commits_hang"], "it is told")
        answer = client.get("/readyz")
        assert (answer.status, answer.json) == (200, {"status": "buffering", "reason": "The database commits nothing"})
        assert daemon.told("buffering")["detail"] == "the database commits nothing"
        assert client.push(queue, 2, partition="q")[0]["status"] == "buffered"
        assert pushing.receive().json[0]["status"] == "buffered", "it had no answer"
        assert hanging(cluster) > 0 and client.get("/api/v1/status/buffers").json["pending"] == 2
        standbys("")
        until(lambda: client.get("/api/v1/status/buffers").json["pending"] == 0, "the buffer is empty")
        until(lambda: client.get("/readyz").json == {"status": "ready"}, "all is well")
        assert data(client.pop(queue, "p", batch=10, autoAck=True)) == [1, 2]
        assert data(client.pop(queue, "q", batch=10, autoAck=True)) == [1, 2]


def test_a_push_without_an_answer_is_buffered(start_daemon, cluster, standbys, queue, tmp_path):
    """The database answers others, and commits nothing for them either: to split the push, or send it again, is in
    vain."""
    daemon = start_daemon(cluster.database(), QUEEND_BUFFER_BYTES=1 << 20, FILE_BUFFER_DIR=tmp_path)
    with daemon.client() as client:
        client.push(queue, 1, partition="p")
        standbys("missing")
        assert [one["status"] for one in client.push(queue, 2, 3, partition="p")] == ["buffered", "buffered"]
        standbys("")
        until(lambda: client.get("/api/v1/status/buffers").json["pending"] == 0, "the buffer is empty")
        assert data(client.pop(queue, "p", batch=10, autoAck=True)) == [1, 2, 3]


def test_a_push_of_a_new_partition_is_buffered(start_daemon, cluster, standbys, queue, tmp_path):
    """The partition cannot be made: the statement that makes it has no answer."""
    daemon = start_daemon(cluster.database(), QUEEND_BUFFER_BYTES=1 << 20, FILE_BUFFER_DIR=tmp_path)
    with daemon.client() as client:
        client.push(queue, 1, partition="p")
        standbys("missing")
        assert client.push(queue, 1, partition="new")[0]["status"] == "buffered"
        assert client.push(queue, 2, partition="new")[0]["status"] == "buffered"
        standbys("")
        until(lambda: client.get("/api/v1/status/buffers").json["pending"] == 0, "the buffer is empty")
        assert data(client.pop(queue, "new", batch=10, autoAck=True)) == [1, 2]


def test_a_new_group_is_refused(start_daemon, cluster, standbys, queue):
    """Its pop has an answer, whether commits were known to hang when it came or not. A group that is there is found."""
    database = cluster.database()
    with start_daemon(database).client() as other:
        other.push(queue, 1, partition="p")
        daemon = start_daemon(database)
        with daemon.client() as client:
            client.pop(queue, "p", consumerGroup="first")
            other.pop(queue, "p", consumerGroup="there")
            standbys("missing")
            for group in ("second", "third"):
                answer = client.pop_answer(queue, "p", consumerGroup=group, wait=True, timeout=100_000)
                assert (answer.status, answer.json["error"]) == (
                    503, "The names could not be looked up: the database commits nothing; try again")
            assert client.pop(queue, "no partition", consumerGroup="there") == []
            standbys("")
            until(lambda: client.get("/health").status == 200, "it is over")
            assert data(client.pop(queue, "p", consumerGroup="second", subscriptionMode="all")) == [1]


def test_workers_that_hear_nothing_do_not_hide_it(start_daemon, cluster, standbys, queue):
    """Each waits for the commit of a push, and has no other statement. The first one looks for work and is answered."""
    old = ("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'queend'"
           " AND clock_timestamp() - query_start > interval '8 s'")
    daemon = start_daemon(cluster.database(), NUM_WORKERS=4, QUEEND_PUSH_STREAMS=8,
                          LIBQUEEN_INFLIGHT_DEADLINE_MS=600_000)
    with daemon.client() as client, ExitStack() as stack:
        pushing = [stack.enter_context(daemon.client()) for _ in range(16)]
        for number in range(16):
            client.push(queue, 1, partition=f"{number}")
        standbys("missing")
        for number, one in enumerate(pushing):
            one.send("POST", "/api/v1/push",
                     b'{"items": [{"queue": "%s", "partition": "%d", "payload": 2}]}' % (queue.encode(), number))
        until(lambda: cluster.execute(old)[0][0] >= 4, "pushes wait for the standby")
        assert client.get("/health").json["doubts"] == ["commits_hang"]
        assert client.get("/readyz").json["error"] == "The database commits nothing"
        standbys("")
        assert {one.receive().status for one in pushing} == {201}


def test_a_lock_is_told_apart(start_daemon, cluster, queue):
    """Nothing is stored while the only statement that changes something waits for a lock. The commit that the daemon
    makes to see whether any can be made is through at once."""
    old = ("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'queend'"
           " AND clock_timestamp() - query_start > interval '8 s'")
    database = cluster.database()
    daemon = start_daemon(database, DB_STATEMENT_TIMEOUT=0, DB_LOCK_TIMEOUT=0, LIBQUEEN_INFLIGHT_DEADLINE_MS=600_000)
    with daemon.client() as client, daemon.client() as pushing, psycopg.connect(database) as holder:
        client.push(queue, 1)
        holder.execute("LOCK TABLE queend.log IN EXCLUSIVE MODE")
        pushing.send("POST", "/api/v1/push", b'{"items": [{"queue": "%s", "payload": 2}]}' % queue.encode())
        until(lambda: cluster.execute(old)[0][0] > 0, "the push waits")
        assert not daemon.line("commits_hang") and "commits_hang" not in client.get("/health").json["doubts"]
        holder.rollback()
        assert pushing.receive().status == 201


def test_the_doctor_knows_standbys(start_daemon, cluster, standbys):
    with start_daemon(cluster.database()).client() as client:
        standbys("missing")
        until(lambda: any("missing" in one for one in findings(client, "standbys").values()), "the setting was seen")
        standbys("")
        (title, told), = until(lambda: findings(client, "standbys"), "it is told").items()
        assert title == f"{STANDBYS} was set and is now empty" and told.startswith("warning: it was 'missing'")


def test_a_standby_that_lags_is_told(request, start_daemon, cluster, tmp_path):
    """What reads the WAL here is pg_receivewal, which stands still."""
    major = request.config.getoption("--postgres")
    tool = binaries.find(binaries.account_for(cluster.cluster.folder), major).folder / "pg_receivewal"
    streams = "SELECT count(*) FROM pg_stat_replication WHERE application_name = 'slow' AND state = 'streaming'"
    with start_daemon(cluster.database()).client() as client:
        reader = subprocess.Popen([tool, "-D", tmp_path, "-d", cluster.dsn(dbname="", application_name="slow"),
                                   "--synchronous"], stderr=subprocess.DEVNULL)
        try:
            until(lambda: cluster.execute(streams) == [(1,)], "it streams")
            assert findings(client, "standbys") == {}
            reader.send_signal(19)      # SIGSTOP
            cluster.execute("SELECT count(pg_logical_emit_message(false, 'x', repeat('x', 1 << 20)))"
                            " FROM generate_series(1, 70)")
            told = until(lambda: findings(client, "standbys"), "it is told")
            assert list(told) == ["the standby slow lags"] and told["the standby slow lags"].startswith("warning: ")
        finally:
            reader.kill()
            reader.wait()
