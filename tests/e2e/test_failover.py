"""The failover buffer while the database is away: what is pushed is kept, stored once, and in order."""
from __future__ import annotations

from contextlib import nullcontext

import psycopg
import pytest
from support.buffers import away, buffered, drained, everything, server  # noqa: F401 (fixture)
from support.client import data
from support.wait import until

KEY = "5a" * 32


def test_pushes_without_a_database_are_kept_and_stored_in_order(server, postgres, queue):
    daemon = server()
    with daemon.client() as client:
        assert client.push(queue, "before", partition="p")[0]["status"] == "queued"
        with postgres.away():
            away(client, queue)
            for n in range(20):
                (item,) = client.push(queue, n, partition="p", transactionId=f"id{n}",
                                      traceId="0190a2b4-1111-7000-8000-000000000001")
                assert item["status"] == "buffered" and item["queue"] == queue and item["partition"] == "p"
                assert item["transactionId"] == item["transaction_id"] == f"id{n}" and "message_id" not in item
            (item,) = client.push(queue, "mine", partition="p")
            assert "transactionId" not in item and item["transaction_id"]
            state = buffered(client)
            assert state["pending"] >= 21 and state["failed"] == 0 and state["dbHealthy"] is False
            assert state["worker"] == 0
            assert state["bytes"] > 0 and state["oldestAgeSeconds"] >= 0
        drained(client)
        messages = client.pop(queue, "p", batch=100)
        assert data(messages) == ["before", *range(20), "mine"]
        assert [one["transactionId"]
                for one in messages[1:]] == [*(f"id{n}" for n in range(20)), item["transaction_id"]]
        assert messages[1]["traceId"] == "0190a2b4-1111-7000-8000-000000000001"
        assert client.push(queue, 3, partition="p", transactionId="id3")[0]["status"] == "duplicate"
        state = buffered(client)
        assert state["dbHealthy"] is True and state["bytes"] == 0


def test_the_daemon_is_killed_and_started_again(server, postgres, queue, tmp_path):
    conninfo = postgres.database()
    daemon = server(conninfo)
    with postgres.away():
        with daemon.client() as client:
            away(client, queue)
            client.push(queue, *range(300), partition="p")
            client.push(queue, "x" * 100_000, partition="p")
        daemon.kill()
        files = list((tmp_path / "buffer" / "0").glob("*.seg"))
        assert files and all(one.stat().st_mode & 0o777 == 0o600 for one in files)
        # cut off while a record was written: it was never answered
        with files[-1].open("ab") as file:
            file.write(b"QRec\xff\x00\x00\x00half")
    again = server(conninfo)
    with again.client() as client:
        drained(client)
        assert everything(client, queue, "p") == [*range(300), "x" * 100_000]
        assert buffered(client)["failed"] == 1


def test_the_daemon_starts_without_its_database(server, postgres, queue):
    """Not even the schema is there yet. What a run before kept goes first."""
    conninfo = postgres.empty_database()
    with postgres.away():
        before = server(conninfo)
        with before.client() as client:
            assert {item["status"] for item in client.push(queue, *range(20), partition="p")} == {"buffered"}
        before.kill()
        daemon = server(conninfo)
        with daemon.client() as client:
            until(lambda: daemon.line("database_unreachable") and daemon.line("without_database"), "both are told")
            assert {item["status"] for item in client.push(queue, *range(20, 40), partition="p")} == {"buffered"}
            state = buffered(client)
            assert (state["pending"], state["dbHealthy"]) == (40, False)
            for target in (f"/api/v1/pop/queue/{queue}", f"/api/v1/pop/queue/{queue}?wait=true",
                           "/api/v1/resources/queues", "/api/v1/status", "/metrics"):
                answer = client.get(target)
                assert answer.status == (200 if target == "/metrics" else 503) and (
                    answer.status == 200 or "retry-after" in answer.headers), target
            answer = client.get("/health")
            assert (answer.status, answer.json["database"]) == (503, "disconnected")
            answer = client.get("/readyz")
            assert (answer.status, answer.json) == (
                200, {"status": "buffering", "reason": "The database is not reachable"}), "pushes are accepted"
            assert (client.get("/livez").status, client.get("/metrics/prometheus").status) == (200, 200)
            until(lambda: client.metric("queend_database_doubt") == client.metric("queend_database_doubts") > 0,
                  "both count the same doubts")
            assert client.post("/api/v1/configure", {"queue": queue}).status == 503
    with daemon.client() as client:
        drained(client)
        assert everything(client, queue, "p") == list(range(40))
        assert client.push(queue, "after")[0]["status"] == "queued"
        until(lambda: client.get("/health").status == 200, "the control plane has connections")
        assert daemon.told("migrated") and daemon.told("database_taken_up")


def test_a_daemon_that_never_saw_its_database_stops_in_order(server, postgres, queue):
    conninfo = postgres.database()
    with postgres.away():
        daemon = server(conninfo)
        with daemon.client() as client:
            assert client.push(queue, 1)[0]["status"] == "buffered"
        daemon.stop()


def test_a_database_that_hangs(server, postgres, queue):
    """Its processes are stopped: connections stay open and nothing answers."""
    daemon = server(LIBQUEEN_INFLIGHT_DEADLINE_MS=2000, QUEEND_PUSH_STREAMS=1)
    with daemon.client() as client:
        client.push(queue, 0, partition="p")
        with postgres.frozen():
            assert client.push(queue, 1, partition="p", transactionId="hung")[0]["status"] == "buffered"
            assert client.push(queue, 2, partition="p")[0]["status"] == "buffered"
        drained(client)
        assert everything(client, queue, "p") == [0, 1, 2]


def test_without_a_buffer_a_database_that_is_away_is_told(server, postgres, queue):
    daemon = server(QUEEND_BUFFER_BYTES=0, QUEEND_PATIENCE_MS=200)
    with daemon.client() as client:
        assert "note" in buffered(client)
        assert client.post("/api/v1/system/maintenance", {"enabled": True}).status == 400
        with postgres.away():
            answer = client.post("/api/v1/push", {"items": [{"queue": queue, "payload": 1}]})
            assert answer.status == 503 and "retry-after" in answer.headers


def test_messages_of_encrypted_queues_are_not_written_in_clear(server, queue, tmp_path):
    daemon, plain = server(QUEEN_ENCRYPTION_KEY=KEY), f"{queue}-plain"
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as db:
        client.configure(queue, encryptionEnabled=True)
        client.push(queue, "known")
        client.push(plain, "known")
        client.post("/api/v1/system/maintenance", {"enabled": True})
        client.push(queue, "a secret", *(f"a secret {n}" for n in range(200)))
        client.push(plain, "a secret of another daemon", transactionId="t")
        files = list((tmp_path / "buffer" / "0").glob("*.seg"))
        assert files and not any(b"secret" in one.read_bytes() for one in files)
        client.post("/api/v1/system/maintenance", {"enabled": False})
        drained(client)
        assert everything(client, queue) == ["known", "a secret", *(f"a secret {n}" for n in range(200))]
        (message,) = client.pop(plain, batch=9, autoAck=True)[1:]
        assert (message["data"], message["transactionId"]) == ("a secret of another daemon", "t")
        # and is stored as any other of its queue
        assert db.execute("SELECT count(*) FROM queend.log"
                          " WHERE position('a secret'::bytea IN body) > 0").fetchone() == (1,)


@pytest.mark.parametrize("why", ["away", "maintenance"])
def test_an_encrypted_queue_that_the_daemon_does_not_know(server, postgres, queue, tmp_path, why):
    """Another daemon made it. What may be for an encrypted queue is sealed, and delivered in clear, also if it is
    plain."""
    conninfo = postgres.database()
    daemon, other = server(conninfo,
                           QUEEN_ENCRYPTION_KEY=KEY), server(conninfo, QUEEND_BUFFER_BYTES=0, QUEEN_ENCRYPTION_KEY=KEY)
    with daemon.client() as client, other.client() as elsewhere:
        if why == "maintenance":
            client.post("/api/v1/system/maintenance", {"enabled": True})
        elsewhere.configure(queue, encryptionEnabled=True)
        with postgres.away() if why == "away" else nullcontext():
            secrets = [f"a secret {n}" for n in range(200)]
            for name in (queue, f"{queue}-plain"):
                assert {one["status"] for one in client.push(name, *secrets, partition="p")} == {"buffered"}
                lines = b"\n".join([b'{"payload":"a secret line"}'] * 50)
                answer = client.request("POST", f"/api/v1/push?queue={name}&partition=l", lines,
                                        {"Content-Type": "application/x-ndjson"})
                assert {one["status"] for one in answer.json} == {"buffered"}
            files = list((tmp_path / "buffer" / "0").glob("*.seg"))
            assert files and not any(b"secret" in one.read_bytes() for one in files)
        if why == "maintenance":
            client.post("/api/v1/system/maintenance", {"enabled": False})
        drained(client)
        for name in (queue, f"{queue}-plain"):
            assert everything(client, name, "p") == secrets
            assert everything(client, name, "l") == ["a secret line"] * 50


def test_one_statement_that_hangs_is_no_database_that_is_away(server, postgres, queue):
    """A push waits for its lane, which another session holds. The looks for work are answered meanwhile."""
    daemon = server(LIBQUEEN_INFLIGHT_DEADLINE_MS=4000, QUEEND_PUSH_STREAMS=2, QUEEND_PATIENCE_MS=2000)
    with daemon.client() as client, psycopg.connect(daemon.conninfo) as holder:
        client.push(queue, 0, partition="p")
        number, = holder.execute("SELECT p.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id"
                                 " WHERE q.name = %s", (queue,)).fetchone()
        holder.execute("SELECT pg_advisory_xact_lock(1903519076, %s)", (number & 63,))
        answer = client.post("/api/v1/push", {"items": [{"queue": queue, "partition": "p", "payload": 1}]})
        assert answer.status == 503 and client.get("/readyz").status == 200
        holder.rollback()
        assert client.push(queue, 2, partition="p")[0]["status"] == "queued"
