"""What daemons and queues did: counted where it happens, written a minute at a time, shown by range."""
from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from support.client import Client, ack_of
from support.clock import clock_of, set_back
from support.daemon import Daemon
from support.postgres import running
from support.wait import until


def operations(client: Client, queue: str) -> dict[str, int]:
    """Sums over the buckets of the last hour."""
    answer = client.get(f"/api/v1/analytics/queue-ops?queue={quote(queue, safe='')}").json
    assert set(answer["queues"]) <= {queue}
    return {key: sum(one[key] or 0 for one in answer["series"]) for key in (
        "pushRequests", "pushMessages", "popMessages", "popEmpty", "ackRequests", "ackSuccess",
        "ackFailed", "transactions")}


def shown(client: Client, queue: str, expected: dict[str, int]) -> None:
    until(lambda: operations(client, queue) == expected, f"{operations(client, queue)} is {expected}")


def test_what_a_queue_did(client: Client, queue: str) -> None:
    client.push(queue, 1, 2, 3)
    client.push(queue, 4)
    messages = client.pop(queue, batch=3)
    client.ack_batch([ack_of(one) for one in messages[:2]])
    client.request("POST", "/api/v1/ack", {**ack_of(messages[2]), "leaseId": "00000000-0000-4000-8000-000000000000"})
    client.pop(queue, "nothing")
    done = {"pushRequests": 2, "pushMessages": 4, "popMessages": 3, "popEmpty": 0, "ackRequests": 2, "ackSuccess": 2,
            "ackFailed": 1, "transactions": 0}
    seen = until(lambda: (one := operations(client, queue))["ackFailed"] and one, "it is shown")
    assert {**seen, "popEmpty": 0} == done
    lag = client.get(f"/api/v1/analytics/queue-lag?queue={queue}").json
    assert sum(one["popCount"] for one in lag) == 3
    assert all(one["maxLagMs"] >= 0 and one["queueName"] == queue for one in lag)


def test_an_automatic_acknowledgment_counts(client: Client, queue: str) -> None:
    client.push(queue, 1, 2)
    client.pop(queue, batch=2, autoAck="true")
    until(lambda: operations(client, queue)["ackSuccess"] == 2, "both are counted")


def test_everything_has_what_its_queues_have(client: Client, queue: str) -> None:
    """Messages of transactions and duplicates count in a queue, so they do in the sum of all."""
    def pushed(query: str) -> tuple[int, int]:
        return (sum(one["ingested"] for one in client.get(f"/api/v1/status?{query}").json["throughput"]),
                sum(one["messages"] for one in client.get(f"/api/v1/status/analytics?{query}").json["dataPoints"]))

    before = pushed("")
    client.push(queue, 1, 2)
    for _ in range(2):
        client.push(queue, 3, transactionId="twice")
    assert client.post("/api/v1/transaction", {"operations": [
        {"type": "push", "items": [{"queue": queue, "payload": n} for n in range(3)]}]}).json["success"]
    until(lambda: pushed(f"queue={queue}") == (7, 7), "the queue has all of them")
    assert tuple(now - was for now, was in zip(pushed(""), before, strict=True)) == (7, 7)


def test_the_status_adds_up(client: Client, queue: str) -> None:
    client.push(queue, *range(5))
    client.ack_batch([ack_of(one) for one in client.pop(queue, batch=5)])
    status = until(lambda: (one := client.get(f"/api/v1/status?queue={queue}").json)["throughput"]
                   and sum(t["processed"] for t in one["throughput"]) == 5 and one, "it is shown")
    assert sum(one["ingested"]
               for one in status["throughput"]) == sum(one["popMessages"] for one in status["throughput"]) == 5
    assert [(one["name"], one["totalConsumed"]) for one in status["queues"]] == [(queue, 5)]
    assert {one["workerId"] for one in status["workers"]} == {0, 1}
    assert status["pointCount"] == len(status["throughput"]) and 0 <= status["statsAge"] < 60
    assert sum(one["messages"]
               for one in client.get(f"/api/v1/status/analytics?queue={queue}&interval=minute").json["dataPoints"]) == 5
    overview = client.get("/api/v1/resources/overview").json
    assert overview["messages"]["completed"] >= 5 and overview["messages"]["total"] >= 5
    assert overview["throughput"]["ingestedPerSecond"] > 0


@pytest.mark.parametrize("target", [
    "/api/v1/status?from=yesterday", "/api/v1/analytics/queue-ops?to=x", "/api/v1/status/analytics?interval=fortnight",
    "/api/v1/status/analytics?interval=minute&from=2020-01-01T00:00:00Z"])
def test_a_range_that_cannot_be_shown_is_refused(client: Client, target: str) -> None:
    answer = client.get(target)
    assert answer.status == 400 and answer.json["code"] in ("invalid_time", "invalid_request")


def test_the_refused_interval_names_each_choice_once(client: Client) -> None:
    error = client.get("/api/v1/status/analytics?interval=fortnight").json["error"]
    assert error.endswith("must be one of hour, minute, day, week")


def test_ranges_have_buckets(client: Client) -> None:
    for hours, minutes in ((1, 1), (5, 5), (20, 15), (100, 60), (1000, 360)):
        answer = client.get(f"/api/v1/analytics/queue-ops?from=2026-01-01T00:00:00Z&to={until_hours(hours)}").json
        assert answer["bucketMinutes"] == minutes and answer["series"] == []


def until_hours(hours: int) -> str:
    return f"2026-{1 + hours // 24 // 28:02}-{1 + hours // 24 % 28:02}T{hours % 24:02}:00:00Z"


def test_daemons_write_side_by_side_and_counts_outlive_them(start_daemon: Callable[..., Daemon]) -> None:
    one = start_daemon(METRICS_SAMPLE_INTERVAL_MS=100, METRICS_AGGREGATE_INTERVAL_S=1)
    two = start_daemon(one.conninfo, METRICS_SAMPLE_INTERVAL_MS=100, METRICS_AGGREGATE_INTERVAL_S=1)
    with one.client() as here, two.client() as there:
        for i in range(4):
            here.push("q", i)
            there.push("q", i)
        until(lambda: operations(here, "q")["pushMessages"] == 8 == operations(there, "q")["pushMessages"],
              "each shows what both did")
        replicas = until(lambda: (found := here.get("/api/v1/analytics/system-metrics").json)["replicaCount"] == 2
                         and found["replicas"], "both are there")
        assert {replica["port"] for replica in replicas} == {one.port, two.port}
        sample = replicas[0]["timeSeries"][-1]
        assert sample["sampleCount"] >= 1 and sample["metrics"]["memory"]["rss_bytes"]["last"] > 1 << 20
        workers = here.get("/api/v1/analytics/worker-metrics").json
        assert workers["summary"]["totalPushMessages"] == 8
        assert all(worker["dbConnections"] > 0 for worker in workers["workers"])
        there.push("q", "last")
    two.stop()
    with one.client() as here:
        assert operations(here, "q")["pushMessages"] == 9, "what it did last was written as it ended"


def test_samples_and_writes_come_as_often_as_they_are_asked_for(start_daemon: Callable[..., Daemon]) -> None:
    """Unasked, a sample is taken once a second, and a minute is written when it is over."""
    daemon = start_daemon(METRICS_SAMPLE_INTERVAL_MS=100, METRICS_AGGREGATE_INTERVAL_S=1)
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as database:
        def written() -> bool:
            client.push("q", 1)
            return bool(database.execute("SELECT FROM queend.metric_queues WHERE push_messages > 0"
                                         " AND bucket + 60000000 > queend.now_us()").fetchall())
        until(written, "this minute")
        until(lambda: any(minute["sampleCount"] > 65 for replica in
                          client.get("/api/v1/analytics/system-metrics").json["replicas"]
                          for minute in replica["timeSeries"]), "more samples than a minute has seconds")


def test_parked_pops_are_an_average_of_every_range(client: Client, daemon: Daemon, queue: str) -> None:
    """Of two daemons of one machine, in buckets of a minute, of five minutes, of an hour."""
    client.configure(queue)
    with psycopg.connect(daemon.conninfo, autocommit=True) as database:
        database.execute("""
        INSERT INTO queend.metric_queues (bucket, queue_id, port, worker, hostname, push_requests, push_messages,
               pop_requests, pop_messages, pop_empty, ack_requests, ack_done, ack_failed, transactions, lag_us, lag_n,
               lag_most_us, parked, samples)
        SELECT queend.now_us() / 60000000 * 60000000 - n * 60000000::bigint, q.id, d.port, 0, 'one', 0, 0, 0, 0, 0,
               0, 0, 0, 0, 0, 0, 0, d.parked * d.samples, d.samples
          FROM queend.queues q, generate_series(-5, 400) AS n,
               (VALUES (1, 5, 60), (2, 3, 12)) AS d (port, parked, samples)
         WHERE q.name = %s""", (queue,))
    for hours, minutes in ((0.9, 1), (3, 5), (100, 60)):
        start = datetime.fromtimestamp(time.time() - hours * 3600, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
        done = client.get(f"/api/v1/analytics/queue-ops?queue={quote(queue)}&from={start}").json
        assert done["bucketMinutes"] == minutes
        whole = [one["parkedCount"] for one in done["series"]][1:]      # the first one is not full
        assert whole and set(whole) == {8}
        waited = client.get(f"/api/v1/analytics/queue-parked-replicas?queue={quote(queue)}&from={start}").json
        assert waited["replicas"] == [{"hostname": "one", "port": port, "workerId": 0} for port in (1, 2)]
        assert {(one["port"], one["parkedCount"]) for one in waited["series"][2:]} == {(1, 5), (2, 3)}


# Lets a minute pass in the history of backlogs. Two steps: no row may take the place of another meanwhile.
MINUTE_LATER = ("LOCK TABLE queend.metric_backlogs", "UPDATE queend.metric_backlogs SET bucket = -bucket",
                "UPDATE queend.metric_backlogs SET bucket = -bucket - 60000000")


def test_the_backlog_of_each_minute(start_daemon: Callable[..., Daemon]) -> None:
    """Of a queue only where it changed, of all queues together in every minute. A minute without a record is left
    out."""
    daemon = start_daemon(STATS_INTERVAL_MS=100)
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as database:
        def history(query: str = "") -> list[tuple[int, int]]:
            series = client.get(f"/api/v1/analytics/queue-backlog?{query}").json["series"]
            assert series == sorted(series, key=lambda one: one["bucket"])
            return [(one["pending"], one["processing"]) for one in series]

        def minute_later(expected: tuple[int, int]) -> None:
            client.get("/api/v1/resources/queues")      # looks at what changed
            before = len(history())
            with database.transaction():
                for statement in MINUTE_LATER:
                    database.execute(statement)
            until(lambda: len(history()) > before and history()[-1] == expected, f"{expected} is recorded")

        until(history, "the first look")
        client.push("q", 1, 2, 3)
        minute_later((3, 0))
        client.push("other", *range(5))
        client.pop("q", batch=2)
        minute_later((6, 2))
        minute_later((6, 2))
        seen = history("queue=q")
        assert [one for one, before in zip(seen, [None, *seen], strict=False) if one != before] == [
            (0, 0), (3, 0), (1, 2)] and 4 <= len(seen) <= len(history())      # a minute may begin between the two
        assert history("queue=other")[-1] == (5, 0) and history("queue=none") == []
        assert database.execute("SELECT count(*) FROM queend.metric_backlogs m JOIN queend.queues q"
                                " ON q.id = m.queue_id WHERE q.name = 'q'").fetchone() == (2,)
        client.configure("drained")      # while no daemon ran: its last record is older than 12 hours
        database.execute("INSERT INTO queend.metric_backlogs (bucket, queue_id, pending, processing)"
                         " SELECT (SELECT max(bucket) FROM queend.metric_backlogs) - 13 * 3600000000, id, 5, 0"
                         " FROM queend.queues WHERE name = 'drained'")
        assert set(history("queue=drained")) == {(0, 0)}
        database.execute("DELETE FROM queend.metric_backlogs WHERE queue_id = 0 AND bucket < (SELECT max(bucket) FROM"
                         " queend.metric_backlogs)")
        assert history("queue=q") in ([(1, 2)], [(1, 2)] * 2)      # a minute may have begun


def test_daemons_of_one_machine_are_told_apart(start_daemon: Callable[..., Daemon]) -> None:
    one = start_daemon(NUM_WORKERS=1, METRICS_SAMPLE_INTERVAL_MS=100, METRICS_AGGREGATE_INTERVAL_S=1)
    other = start_daemon(one.conninfo, NUM_WORKERS=1, METRICS_SAMPLE_INTERVAL_MS=100, METRICS_AGGREGATE_INTERVAL_S=1)
    with one.client() as client:
        for page in ("status", "analytics/worker-metrics"):
            until(lambda page=page: {row["port"] for row in client.get(f"/api/v1/{page}").json["workers"]}
                  == {one.port, other.port}, "both are shown")


def test_parked_pops_are_shown(start_daemon: Callable[..., Daemon]) -> None:
    daemon = start_daemon(METRICS_SAMPLE_INTERVAL_MS=100)
    with daemon.client() as waiting, daemon.client() as client:
        client.push("q", 1)
        client.pop("q", batch=1)
        waiting.send("GET", "/api/v1/pop/queue/q?wait=true&timeout=30000")
        series = until(lambda: client.get("/api/v1/analytics/queue-parked-replicas?queue=q").json["series"],
                       "it is sampled")
        assert series[0]["queueName"] == "q" and 0 < series[0]["parkedCount"] <= 1
        client.push("q", 2, partition="another")
        assert waiting.receive().json["messages"]


def test_old_minutes_go(start_daemon: Callable[..., Daemon]) -> None:
    daemon = start_daemon(METRICS_RETENTION_DAYS=1, METRICS_SAMPLE_INTERVAL_MS=100)
    with daemon.client() as client:
        client.push("q", 1)
        until(lambda: operations(client, "q")["pushMessages"] == 1, "it is written")
    daemon.stop()
    with psycopg.connect(daemon.conninfo, autocommit=True) as database:
        database.execute("UPDATE queend.metric_queues SET bucket = bucket - 2 * 86400000000::bigint")
        database.execute("INSERT INTO queend.metric_backlogs (bucket, queue_id, pending, processing)"
                         " SELECT min(bucket), 0, 1, 0 FROM queend.metric_queues")
        database.execute("DELETE FROM queend.metric_partitions")
        database.execute("INSERT INTO queend.metric_partitions (bucket, queue_id, partitions)"
                         " SELECT min(m.bucket) - n * 60000000, id, 10 - n FROM queend.metric_queues m,"
                         " unnest(ARRAY[m.queue_id, 4711]) id, generate_series(0, 2) n GROUP BY id, n")
        start_daemon(daemon.conninfo, METRICS_RETENTION_DAYS=1, METRICS_SAMPLE_INTERVAL_MS=100)
        for table, rest in {"metric_queues": [], "metric_backlogs": [], "metric_partitions": [(10,)]}.items():
            found = "partitions" if rest else "bucket"      # of 4711, which is no queue, nothing stays
            until(lambda table=table, rest=rest, found=found: database.execute(
                f"SELECT {found} FROM queend.{table} WHERE bucket < queend.now_us() - 86400000000::bigint").fetchall()
                == rest, "it is gone")


def test_retention_is_shown(client: Client, daemon: Daemon, queue: str) -> None:
    client.push(queue, 1)
    with psycopg.connect(daemon.conninfo, autocommit=True) as database:
        # A range ends at the time of the database as the daemon knows it, which may be late: by half of the time in
        # which the database told it.
        database.execute("INSERT INTO queend.retention_history (queue_id, kind, messages, executed_at) SELECT q.id, k,"
                         " n, now() - interval '1 min' FROM queend.queues q,"
                         " (VALUES ('retention', 3), ('completed_retention', 4), ('max_wait_time_eviction', 5)) v (k,"
                         " n) WHERE q.name = %s", (queue,))
    answer = client.get(f"/api/v1/analytics/retention?queue={queue}").json
    assert answer["totals"] == {"retentionMsgs": 3, "completedRetentionMsgs": 4, "evictionMsgs": 5,
                                "totalMsgs": 12, "eventCount": 3}
    assert client.get("/api/v1/analytics/retention?queue=another").json["totals"]["totalMsgs"] == 0


def test_postgres_tells_of_itself(client: Client) -> None:
    answer = client.get("/api/v1/analytics/postgres-stats").json
    assert set(answer) == {"timestamp", "database", "databaseCache", "tableCache", "indexCache", "cacheSummary",
                           "deadTuples", "hotUpdates", "activeQueries",
                           "autovacuumStatus", "bufferConfig", "bufferUsage", "tableSizes"}
    assert (any(one["table"] == "log" for one in answer["tableSizes"]) and int(answer["bufferConfig"]["sharedBuffers"])
            // 128 == int(answer["bufferConfig"]["sharedBuffersSize"].removesuffix(" MB")))


FAMILIES = """
uptime_seconds cpu_user_microseconds_total cpu_system_microseconds_total process_resident_memory_bytes
process_virtual_memory_bytes db_pool_size db_pool_idle db_pool_active threadpool_size threadpool_queue_size
response_registry_size maintenance_mode_enabled sidecar_op_count sidecar_op_latency_microseconds sidecar_op_items
queue_backoff_groups queue_backoff_queues queue_backoff_avg_interval_milliseconds shared_state_enabled servers
transport_messages_total cluster_push_requests_total cluster_pop_requests_total cluster_ack_requests_total
cluster_transactions_total cluster_push_messages_total cluster_pop_messages_total cluster_ack_messages_total
cluster_db_errors_total cluster_dlq_total cluster_ack_total queue_pop_messages_per_minute queue_push_requests_per_minute
queue_push_messages_per_minute queue_pop_empty_per_minute queue_transactions_per_minute queue_parked_consumers
queue_metrics_age_seconds queue_pop_lag_milliseconds queue_ack_per_minute worker_event_loop_lag_milliseconds
worker_job_queue_size worker_lag_milliseconds worker_free_slots worker_requests_per_minute worker_messages_per_minute
worker_ack_per_minute worker_db_connections worker_backoff_size worker_jobs_done_per_minute worker_db_errors_per_minute
worker_dlq_per_minute worker_metrics_age_seconds dlq_depth dlq_depth_by_queue"""


def test_every_family_is_there(client: Client, queue: str) -> None:
    client.post("/api/v1/configure", {"queue": queue, "options": {"retryLimit": 0}})
    client.push(queue, 1, 2)
    client.request("POST", "/api/v1/ack", {**ack_of(client.pop(queue)[0]), "status": "dlq"})
    answer = until(lambda: (one := client.get("/metrics/prometheus"))
                   and f'queen_queue_ack_per_minute{{queue="{queue}"' in one.body.decode() and one, "the queue is told")
    lines = answer.body.decode().splitlines()
    told = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    assert {f"queen_{name}" for name in FAMILIES.split()} <= told
    assert f'queen_dlq_depth_by_queue{{queue="{queue}"}} 1.0' in lines
    assert len(lines) == len(set(lines)), "nothing is told twice"


def test_a_notice_wakes_who_waits(start_daemon: Callable[..., Daemon]) -> None:
    """A daemon that looks for foreign messages once a minute, a message stored by another one."""
    slow = start_daemon(POP_WAIT_INITIAL_INTERVAL_MS=60_000, POP_WAIT_MAX_INTERVAL_MS=60_000)
    other = start_daemon(slow.conninfo)
    with slow.client() as waiting, slow.client() as client, other.client() as producer:
        producer.push("q", "first", partition="p")
        # a daemon asks for names that nobody knows five times a second at most, and has just asked for all
        until(lambda: client.pop("q", "p", autoAck="true"), "the queue of the other daemon is known")
        waiting.send("GET", "/api/v1/pop/queue/q?wait=true&timeout=60000")
        until(lambda: client.parked() > 0, "the pop is parked")
        producer.push("q", "second", partition="new")
        assert client.post("/internal/api/notify", {"queue": "q", "partition": "new"}).json == {"status": "ok"}
        assert [one["data"] for one in waiting.receive().json["messages"]] == ["second"]
    for body, error in (({}, "queue is required"), ({"queue": 1}, "queue is required"),
                        ({"queue": "q", "partition": 1}, "partition must be text")):
        with slow.client() as client:
            answer = client.post("/internal/api/notify", body)
            assert (answer.status, answer.json["error"]) == (400, error)


def test_counts_belong_to_the_minute_they_happened_in(start_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    """Its clock jumps by an hour, the database's does not: what was counted stays in a minute that was."""
    clock = tmp_path / "clock"
    clock.write_text("+0\n")
    daemon = start_daemon(METRICS_SAMPLE_INTERVAL_MS=100, METRICS_AGGREGATE_INTERVAL_S=3600, **clock_of(clock))
    with daemon.client() as client:
        before = int(time.time()) // 60 * 60
        client.push("minutes", 1, 2, 3)
        clock.write_text("+3600\n")

        with psycopg.connect(daemon.conninfo, autocommit=True) as session:
            rows = until(lambda: session.execute("SELECT m.bucket / 1000000, m.push_messages FROM queend.metric_queues"
                                                 " m JOIN queend.queues q ON q.id = m.queue_id"
                                                 " WHERE q.name = 'minutes' AND m.push_messages > 0").fetchall(),
                         "the minute is written when it ends")
        # A minute ends a little late, and a push that went to the failover buffer counts when it leaves it.
        assert [count for _, count in rows] == [3] and before - 60 <= rows[0][0] <= time.time(), rows


def test_prometheus_counts_and_tells_of_whole_minutes(start_daemon: Callable[..., Daemon]) -> None:
    with start_daemon().client() as client:
        client.push("whole", 1, 2, 3)
        client.push("whole", 4)

        def told() -> dict[str, float]:
            lines = client.scrape()
            return {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in lines if 'queue="whole"' in line
                    and 'stat="' not in line and 'result="' not in line}

        seen = until(lambda: (one := told()).get("queend_queue_push_messages_total") == 4 and one, "they are counted")
        assert seen["queend_queue_push_requests_total"] == 2
        assert seen["queen_queue_push_messages_per_minute"] in (0, 4)
        assert 60 <= seen["queen_queue_metrics_age_seconds"] <= 121


def test_figures_of_workers_are_of_now_after_the_clock_was_set_back(start_daemon: Callable[..., Daemon]) -> None:
    """The database's clock is set back by ten minutes: the minutes written before are ahead of it."""
    daemon = start_daemon(METRICS_SAMPLE_INTERVAL_MS=100)
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as database:
        def ages() -> list[float]:
            lines = client.scrape()
            return [float(line.rpartition(" ")[2]) for line in lines
                    if line.startswith("queen_worker_metrics_age_seconds{")]

        until(lambda: len(ages()) == 2, "both workers are told")
        set_back(database, 600)
        assert all(age >= 0 for age in ages())
        until(lambda: len(found := ages()) == 2 and max(found) < 60, "minutes of the new time are told")
        assert all(age >= 0 for age in ages())


def test_counters_of_queues_survive_a_restart_of_the_database(request) -> None:
    """The daemon forgets its queues with the server, and counts on; a counter of a deleted queue goes."""
    def pushed(client: Client) -> dict[str, float]:
        found = {}
        for line in client.scrape():
            if line.startswith("queend_queue_push_messages_total{"):
                found[line.split('"')[1]] = float(line.rpartition(" ")[2])
        return found

    with running(request.config.getoption("--postgres")) as server:
        daemon = Daemon(server.database())
        with daemon.client() as client:
            client.push("kept", 1, 2, 3)
            client.push("deleted", 1)
            until(lambda: pushed(client) == {"kept": 3, "deleted": 1}, "both are counted")
            server.restart()
            until(lambda: daemon.line("server_changed") and client.get("/health").status == 200, "it is back")
            assert pushed(client) == {"kept": 3, "deleted": 1}
            until(lambda: client.request("DELETE", "/api/v1/resources/queues/deleted").status == 200, "it is deleted")
            client.push("kept", 4)
            until(lambda: pushed(client).get("kept") == 4, "it counts on")
            client.push("deleted", 2)
            client.request("DELETE", "/api/v1/resources/queues/deleted")
            until(lambda: pushed(client) == {"kept": 4}, "the counter of a deleted queue goes")
        daemon.stop()
