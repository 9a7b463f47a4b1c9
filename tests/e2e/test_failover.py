"""The failover buffer: what is pushed while the database is away is kept, stored once, and in order."""
from __future__ import annotations

import itertools
import json
import os
import signal
import threading
import time
from contextlib import nullcontext

import psycopg
import pytest
from support.client import Client, data
from support.crowd import Crowd
from support.daemon import Daemon
from support.http import Wire, request
from support.ports import free_port
from support.postgres import Postgres
from support.wait import PATIENCE, until

SHARED = ("/api/v1/system/shared-state", "/internal/api/shared-state/stats", "/internal/api/inter-instance/stats")
KEY = "5a" * 32


@pytest.fixture
def server(postgres: Postgres, tmp_path):
    """Starts daemons with a buffer in this test's folder; they end with the test."""
    running: list[Daemon] = []

    def start(conninfo: str | None = None, **more) -> Daemon:
        settings = {"QUEEND_BUFFER_BYTES": 64 << 20, "FILE_BUFFER_DIR": tmp_path / "buffer", "QUEEND_SLOTS": 4, **more}
        running.append(Daemon(conninfo or postgres.database(), **settings))
        return running[-1]

    yield start
    for daemon in running:
        if daemon.process.poll() is None:
            daemon.stop()


def away(client: Client, queue: str) -> None:
    """Until the daemon has noticed that the database is gone."""
    until(lambda: client.post("/api/v1/push", {"items": [
        {"queue": queue, "partition": "probe", "payload": 0}]}).json[0]["status"] == "buffered", "pushes are buffered")


def buffered(client: Client) -> dict:
    answer = client.get("/api/v1/status/buffers")
    assert answer.status == 200
    return answer.json


def drained(client: Client) -> None:
    until(lambda: buffered(client)["pending"] == 0, "the buffer is empty")


def everything(client: Client, queue: str, partition: str | None = None) -> list:
    result: list = []
    while messages := client.pop(queue, partition, batch=1000, partitions=100, autoAck=True):
        result += data(messages)
    return result


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
            assert client.metric("queend_database_doubt") == client.metric("queend_database_doubts") > 0
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


def test_maintenance_buffers_everything_and_nothing_arrives_until_it_ends(server, queue):
    daemon = server()
    with daemon.client() as client:
        assert client.get("/api/v1/system/maintenance").json["maintenanceMode"] is False
        answer = client.post("/api/v1/system/maintenance", {"enabled": True})
        assert (answer.status, answer.json["maintenanceMode"], answer.json["bufferHealthy"]) == (200, True, True)
        items = client.push(queue, *range(500), partition="p")
        assert {item["status"] for item in items} == {"buffered"}
        counts = client.post("/api/v1/push?format=counts",
                             {"items": [{"queue": queue, "partition": "p", "payload": 500}]}).json
        assert counts["buffered"] == counts["count"] == 1 and counts["queued"] == 0
        assert client.pop(queue, batch=10) == []
        assert client.transaction({"type": "push", "items": [{"queue": f"{queue}-direct", "payload": 1}]})["success"]
        state = client.get("/api/v1/system/maintenance").json
        assert state["bufferedMessages"] == state["bufferStats"]["pendingCount"] == 501
        assert state["bufferStats"]["dbHealthy"] is True
        assert client.metric("queend_buffer_pending_messages") == 501
        assert client.post("/api/v1/system/maintenance", {"enabled": False}).json["maintenanceMode"] is False
        drained(client)
        assert client.get("/api/v1/system/maintenance").json["bufferedMessages"] == 0
        assert everything(client, queue, "p") == list(range(501))
        assert client.push(queue, "after", partition="p")[0]["status"] == "queued"
        for body in ({"enabled": 1}, {"enabled": "true"}, {}, []):
            assert client.post("/api/v1/system/maintenance", body).status == 400
            assert client.post("/api/v1/system/maintenance/pop", body).status == 400


def test_the_switches_are_shown_wherever_a_daemon_tells_its_state(server):
    daemon = server()
    with daemon.client() as client:
        for push, pop in ((False, False), (True, False), (True, True), (False, True)):
            client.post("/api/v1/system/maintenance", {"enabled": push})
            client.post("/api/v1/system/maintenance/pop", {"enabled": pop})
            assert client.metric("queen_maintenance_mode_enabled") == push
            for told in (client.get("/health").json["shared_state"], *(client.get(path).json for path in SHARED)):
                assert (told["maintenance_mode"], told["pop_maintenance_mode"]) == (push, pop)


def test_a_bad_item_is_refused_in_maintenance_too(server, queue):
    daemon = server()
    with daemon.client() as client:
        client.post("/api/v1/system/maintenance", {"enabled": True})
        assert client.post("/api/v1/push",
                           {"items": [{"queue": queue, "payload": 1}, {"queue": "", "payload": 1}]}).status == 400
        assert buffered(client)["pending"] == 0


def test_maintenance_is_for_every_daemon_and_survives_a_restart(server, postgres, queue):
    conninfo = postgres.database()
    one, two = server(conninfo), server(conninfo)
    with one.client() as a, two.client() as b:
        a.post("/api/v1/system/maintenance", {"enabled": True})
        a.post("/api/v1/system/maintenance/pop", {"enabled": True})
        until(lambda: b.get("/api/v1/system/maintenance").json["maintenanceMode"], "the other daemon obeys")
        until(lambda: b.get("/api/v1/system/maintenance/pop").json["popMaintenanceMode"], "the other daemon obeys")
        assert b.push(queue, 1)[0]["status"] == "buffered"
    two.kill()
    three = server(conninfo)
    with three.client() as c, one.client() as a:
        assert c.push(queue, 2)[0]["status"] == "buffered"      # from the first request on
        assert buffered(c)["pending"] == 2
        assert c.pop_answer(queue).json == {"messages": [], "paused": True}
        a.post("/api/v1/system/maintenance/pop", {"enabled": False})
        a.post("/api/v1/system/maintenance", {"enabled": False})
        until(lambda: not c.get("/api/v1/system/maintenance").json["maintenanceMode"], "the other daemon obeys")
        drained(c)
        until(lambda: not c.get("/api/v1/system/maintenance/pop").json["popMaintenanceMode"], "the other daemon obeys")
        assert everything(c, queue) == [1, 2]


def test_pop_maintenance_holds_who_would_wait(server, queue):
    daemon = server()
    with daemon.client() as client, daemon.client() as waiting, daemon.client() as gone:
        client.push(queue, 1)
        assert client.post("/api/v1/system/maintenance/pop", {"enabled": True}).json["popMaintenanceMode"] is True
        answer = client.pop_answer(queue, batch=1)
        assert (answer.status, answer.json) == (200, {"messages": [], "paused": True})
        answer = client.pop_answer(queue, wait=True, timeout=50)
        assert (answer.status, answer.json) == (200, {"messages": [], "paused": True})
        waiting.send("GET", f"/api/v1/pop/queue/{queue}?wait=true&timeout=100000&autoAck=true")
        gone.send("GET", f"/api/v1/pop/queue/{queue}?wait=true&timeout=100000")
        until(lambda: client.metric("queend_worker_jobs") >= 2, "two pops are held")
        gone.close()
        client.post("/api/v1/system/maintenance/pop", {"enabled": False})
        answer = waiting.receive()
        if answer.json.get("paused"):      # held for its second before maintenance ended
            answer = waiting.pop_answer(queue, wait=True, timeout=100000, autoAck=True)
        assert data(answer.json["messages"]) == [1]


def test_later_pushes_of_a_partition_stay_behind_those_that_wait(server, queue):
    """While the buffer drains, producers go on: each partition has every producer's messages in order."""
    daemon = server(FILE_BUFFER_MAX_BATCH=50, FILE_BUFFER_EVENTS_PER_FILE=300)
    with daemon.client() as client:
        client.post("/api/v1/system/maintenance", {"enabled": True})
        enough, seen, numbers = threading.Event(), set(), [itertools.count() for _ in range(6)]

        def produce(who: int) -> None:
            with daemon.client() as mine:
                while not enough.is_set():
                    items = [{"queue": queue, "partition": str(n % 3), "payload": [who, n]}
                             for n in itertools.islice(numbers[who], 20)]
                    seen.update(item["status"] for item in mine.push_items(items))

        crowd = Crowd()
        crowd.all(produce, range(6))
        until(lambda: buffered(client)["pending"] > 3000 or crowd.failures, "much is buffered")
        client.post("/api/v1/system/maintenance", {"enabled": False})
        until(lambda: "queued" in seen or crowd.failures, "pushes are stored again")
        enough.set()
        crowd.join()
        drained(client)
        for partition in range(3):
            got = everything(client, queue, str(partition))
            for who in range(6):
                mine = [n for producer, n in got if producer == who]
                assert mine == [n for n in range(next(numbers[who])) if n % 3 == partition][:len(mine)]
                assert mine == sorted(set(mine))
        assert seen == {"buffered", "queued"}


def test_full_is_said_and_nothing_of_it_is_kept(server, queue):
    daemon = server(QUEEND_BUFFER_BYTES=20_000)
    with daemon.client() as client:
        client.post("/api/v1/system/maintenance", {"enabled": True})
        client.push(queue, "a" * 10_000)
        answer = client.post("/api/v1/push",
                             {"items": [{"queue": queue, "payload": "b"}, {"queue": queue, "payload": "b" * 15_000}]})
        assert answer.status == 503 and "retry-after" in answer.headers and "full" in answer.json["error"]
        client.push(queue, "c")
        client.post("/api/v1/system/maintenance", {"enabled": False})
        drained(client)
        assert everything(client, queue) == ["a" * 10_000, "c"]


def test_one_address_cannot_fill_the_buffer_for_others(server, queue):
    """The last quarter is for other addresses. An empty buffer counts anew."""
    daemon = server(QUEEND_BUFFER_BYTES=1 << 20)

    def fill(wire, name) -> list[str]:
        """Pushes until a push is refused. Returns the statuses, and the refusal."""
        seen: list[str] = []
        for number in itertools.count():
            wire.send(request("POST", "/api/v1/push", json.dumps({"items": [
                {"queue": queue, "partition": name, "payload": f"{number}" + "x" * 20_000}]}).encode()))
            answer = wire.receive()
            if answer.status == 503:
                return [*seen, answer.json["error"]]
            seen.append(answer.json[0]["status"])

    with daemon.client() as client, Wire(daemon.address) as greedy, Wire(daemon.address, source="127.0.0.2") as other:
        client.post("/api/v1/system/maintenance", {"enabled": True})
        *mine, refusal = fill(greedy, "greedy")
        assert "keeps its last quarter for clients of other addresses" in refusal
        assert set(mine) == {"buffered"} and 36 <= len(mine) <= 40, len(mine)
        assert client.get("/health").json["doubts"] == ["buffer_full"]      # nobody else has used it
        other.send(request("POST", "/api/v1/push", b'{"items":[{"queue":"%s","payload":1}]}' % queue.encode()))
        assert other.receive().json[0]["status"] == "buffered"
        assert fill(greedy, "greedy") == [refusal]
        assert client.get("/readyz").status == 200 and client.get("/health").json["doubts"] == []
        *theirs, refusal = fill(other, "other")
        assert "is full" in refusal and set(theirs) == {"buffered"} and 11 <= len(theirs) <= 14, len(theirs)
        client.post("/api/v1/system/maintenance", {"enabled": False})
        drained(client)
        assert len(everything(client, queue)) == len(mine) + 1 + len(theirs)
        client.post("/api/v1/system/maintenance", {"enabled": True})
        assert len(fill(greedy, "greedy")) == len(mine) + 1
        client.post("/api/v1/system/maintenance", {"enabled": False})
        drained(client)


def test_a_damaged_record_goes_into_the_quarantine_and_blocks_nothing(server, postgres, queue, tmp_path):
    conninfo = postgres.database()
    daemon = server(conninfo)
    with daemon.client() as client:
        client.post("/api/v1/system/maintenance", {"enabled": True})
        for n in range(10):
            client.push(queue, f"payload {n}")
    daemon.kill()
    (file,) = (tmp_path / "buffer" / "0").glob("*.seg")
    file.write_bytes(file.read_bytes().replace(b"payload 4", b"pAyload 4"))
    again = server(conninfo)
    with again.client() as client:
        client.post("/api/v1/system/maintenance", {"enabled": False})
        drained(client)
        assert everything(client, queue) == [f"payload {n}" for n in range(10) if n != 4]
        assert buffered(client)["failed"] == 1
        assert again.told("buffer_record_bad")
    again.stop()
    with server(conninfo).client() as client:
        assert buffered(client)["failed"] == 1
    assert b"pAyload 4" in (tmp_path / "buffer" / "0" / "quarantine").read_bytes()


def test_what_the_database_refuses_goes_into_the_quarantine_and_blocks_nothing(server, postgres, queue, tmp_path):
    import psycopg

    conninfo = postgres.database()
    daemon = server(conninfo)
    with daemon.client() as client, psycopg.connect(conninfo, autocommit=True) as db:
        client.push(queue, "first")
        client.post("/api/v1/system/maintenance", {"enabled": True})
        client.push(queue, *range(40), "poison")
        client.push(queue, "last")
        db.execute("ALTER TABLE queend.log ADD CONSTRAINT poison CHECK (position('poison'::bytea IN body) = 0)")
        client.post("/api/v1/system/maintenance", {"enabled": False})
        drained(client)
        assert everything(client, queue) == ["first", *range(40), "last"]
        assert buffered(client)["failed"] == 1
    assert b'"poison"' in (tmp_path / "buffer" / "0" / "quarantine").read_bytes()


def test_two_daemons_share_no_folder_and_the_next_one_drains_what_was_left(server, postgres, queue, tmp_path):
    conninfo = postgres.database()
    one, two = server(conninfo), server(conninfo)
    with one.client() as a, two.client() as b:
        a.post("/api/v1/system/maintenance", {"enabled": True})
        until(lambda: b.get("/api/v1/system/maintenance").json["maintenanceMode"], "the other daemon obeys")
        b.push(queue, "left behind")
        assert (buffered(a)["pending"], buffered(b)["pending"]) == (0, 1)
        two.kill()
        three = server(conninfo)
        with three.client() as c:
            assert buffered(c)["pending"] == 1
            a.post("/api/v1/system/maintenance", {"enabled": False})
            drained(c)
            assert everything(c, queue) == ["left behind"]


def test_one_daemon_drains_what_several_left_behind(server, postgres, queue, tmp_path):
    """Two are killed with messages in their buffers, one of them half drained; a third, which runs all the time, stores
    the rest: once, and each buffer in its order. The folder of one that lives is let alone."""
    conninfo = postgres.database()
    kept = server(conninfo, QUEEND_BUFFER_ADOPT_MS=50)
    left = [server(conninfo, FILE_BUFFER_MAX_BATCH=5, FILE_BUFFER_EVENTS_PER_FILE=300) for _ in range(3)]
    with kept.client() as a:
        a.post("/api/v1/system/maintenance", {"enabled": True})
        for number, one in enumerate(left):
            with one.client() as client:
                until(lambda client=client: client.get("/api/v1/system/maintenance").json["maintenanceMode"],
                      "it obeys")
                for start in range(0, 1000, 100):
                    client.push(queue, *range(start, start + 100), partition=f"p{number}")
                assert buffered(client)["pending"] == 1000
        left[2].process.send_signal(signal.SIGSTOP)      # it lives, and has its folder
        left[0].kill()
        a.post("/api/v1/system/maintenance", {"enabled": False})
        with left[1].client() as client:
            # On a busy machine it may be all of it: then there is one buffer less to adopt.
            until(lambda: buffered(client)["pending"] < 900, "a part of it is drained")
        left[1].kill()
        until(lambda: not [*(tmp_path / "buffer").glob("[12]/*.seg")], "both folders are empty")
        drained(a)
        for number in (0, 1):
            assert everything(a, queue, f"p{number}") == list(range(1000))
        assert everything(a, queue, "p2") == []
        left[2].process.send_signal(signal.SIGCONT)
        with left[2].client() as client:
            drained(client)
        assert everything(a, queue, "p2") == list(range(1000))


@pytest.mark.parametrize("kept", ["drains its own buffer", "starts later"])
def test_a_folder_whose_owner_was_killed_while_it_asked_for_it(server, postgres, queue, tmp_path, kept):
    """The file `wanted` stays. It ends neither adoption nor what the next owner may do."""
    conninfo, wanted = postgres.database(), tmp_path / "buffer/0/wanted"
    left, other = server(conninfo), server(conninfo, QUEEND_BUFFER_ADOPT_MS=50)
    with left.client() as client:
        client.post("/api/v1/system/maintenance", {"enabled": True})
        client.push(queue, "left behind")
        if kept == "starts later":
            other.kill()
        left.kill()
        wanted.touch()
        os.utime(wanted, (time.time() - 3600,) * 2)
    if kept == "starts later":
        other = server(conninfo)
        assert not wanted.exists()
    with other.client() as client:
        client.post("/api/v1/system/maintenance", {"enabled": False})
        until(lambda: everything(client, queue) == ["left behind"], "it is stored")


@pytest.mark.parametrize("adopter", ["lives", "is killed"])
def test_a_daemon_that_returns_goes_on_behind_its_own_buffer(server, postgres, queue, adopter):
    """Another one was adopting it. What is pushed from then on is stored behind what was buffered before."""
    conninfo, port, before = postgres.database(), free_port(), 1500
    adopts = {"PORT": free_port(), "QUEEND_BUFFER_ADOPT_MS": 50}
    returns = {"PORT": port, "FILE_BUFFER_MAX_BATCH": 10, "FILE_BUFFER_EVENTS_PER_FILE": 10}
    other, left = server(conninfo, **adopts), server(conninfo, **returns)
    with other.client() as a, left.client() as b:
        a.post("/api/v1/system/maintenance", {"enabled": True})
        until(lambda: b.get("/api/v1/system/maintenance").json["maintenanceMode"], "it obeys")
        for n in range(0, before, 10):
            b.push(queue, *range(n, n + 10), partition="p")
        left.kill()
        a.post("/api/v1/system/maintenance", {"enabled": False})
        until(lambda: a.metric("queend_buffer_drained_messages_total") > 0, "some of it is adopted")
    if adopter == "is killed":
        other.kill()
        other = server(conninfo, **adopts)
    back = server(conninfo, **returns)
    with back.client() as client, other.client() as a:
        client.push(queue, "new", partition="p")
        drained(a)
        drained(client)
        seen: list = []
        until(lambda: seen.extend(everything(client, queue, "p")) or len(seen) > before, "all of it is stored")
        assert seen == [*range(before), "new"]


def test_a_daemon_that_starts_beside_two_left_folders_says_so_and_drains_both(server, postgres, queue):
    conninfo = postgres.database()
    left = [server(conninfo), server(conninfo)]
    with left[0].client() as a, left[1].client() as b:
        a.post("/api/v1/system/maintenance", {"enabled": True})
        until(lambda: b.get("/api/v1/system/maintenance").json["maintenanceMode"], "the other daemon obeys")
        a.push(queue, 1, partition="one")
        b.push(queue, 2, partition="two")
        left[0].kill()
        left[1].kill()
    third = server(conninfo, QUEEND_BUFFER_ADOPT_MS=50)
    assert third.told("buffer_left_behind")["detail"].endswith(
        "this daemon does so after 0.05 s, when its own buffer is empty")
    with third.client() as client:
        client.post("/api/v1/system/maintenance", {"enabled": False})
        drained(client)
        for partition, value in (("one", 1), ("two", 2)):
            seen: list[int] = []
            until(lambda seen=seen, partition=partition: seen.extend(everything(client, queue, partition)) or seen,
                  "what was left behind is stored")
            assert seen == [value]


def test_messages_for_another_database_are_left_alone(server, postgres, queue):
    """A copy is another one. A daemon that began without its database finds out when it comes, and the next one goes
    on."""
    mine, other = postgres.database(), postgres.database()
    first = server(mine)
    with first.client() as client:
        client.post("/api/v1/system/maintenance", {"enabled": True})
        client.push(queue, "mine")
    first.kill()
    with postgres.away():
        second = server(other)
        with second.client() as client:
            assert client.push(queue, "for the other")[0]["status"] == "buffered"
    assert second.process.wait(PATIENCE) == 1 and second.told("buffer_parted")
    second.kill()
    assert "another database" in second.other[-1]
    third = server(other)
    with third.client() as client:
        drained(client)
        assert everything(client, queue) == ["for the other"]
        assert third.told("buffer_of_another_database") and buffered(client)["otherDatabases"] == 1
    fourth = server(mine)
    with fourth.client() as client:
        assert (buffered(client)["pending"], buffered(client)["otherDatabases"]) == (1, 0)
        client.post("/api/v1/system/maintenance", {"enabled": False})
        drained(client)
        assert everything(client, queue) == ["mine"]


def test_a_disk_that_is_full_refuses_and_recovers(server, postgres, queue, tmp_path):
    """RLIMIT_FSIZE stands for it: the write fails half-way."""
    import resource

    daemon = server(postgres.database())
    with daemon.client() as client:
        client.post("/api/v1/system/maintenance", {"enabled": True})
        client.push(queue, "kept")
        _, hard = resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (5_000, hard))
        answer = client.post("/api/v1/push", {"items": [{"queue": queue, "payload": "x" * 20_000}]})
        assert answer.status == 503 and "retry-after" in answer.headers
        assert client.get("/api/v1/system/maintenance").json["bufferHealthy"] is False
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (hard, hard))
        client.push(queue, "kept too")
        assert client.get("/api/v1/system/maintenance").json["bufferHealthy"] is True
        client.post("/api/v1/system/maintenance", {"enabled": False})
        drained(client)
        assert everything(client, queue) == ["kept", "kept too"]


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
    import psycopg

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
    daemon = server(LIBQUEEN_INFLIGHT_DEADLINE_MS=4000, QUEEND_PUSH_STREAMS=2)
    with daemon.client() as client, psycopg.connect(daemon.conninfo) as holder:
        client.push(queue, 0, partition="p")
        number, = holder.execute("SELECT p.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id"
                                 " WHERE q.name = %s", (queue,)).fetchone()
        holder.execute("SELECT pg_advisory_xact_lock(1903519076, %s)", (number & 63,))
        answer = client.post("/api/v1/push", {"items": [{"queue": queue, "partition": "p", "payload": 1}]})
        assert answer.status == 503 and client.get("/readyz").status == 200
        holder.rollback()
        assert client.push(queue, 2, partition="p")[0]["status"] == "queued"
