"""The failover buffer in maintenance: what is in it is stored once and in order; what cannot be stored blocks
nothing."""
from __future__ import annotations

import itertools
import json
import resource
import threading

import psycopg
from support.buffers import buffered, drained, everything, server  # noqa: F401 (fixture)
from support.client import data
from support.crowd import Crowd
from support.http import Wire, request
from support.wait import until

SHARED = ("/api/v1/system/shared-state", "/internal/api/shared-state/stats", "/internal/api/inter-instance/stats")


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


def test_a_disk_that_is_full_refuses_and_recovers(server, postgres, queue, tmp_path):
    """RLIMIT_FSIZE stands for it: the write fails half-way."""
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
