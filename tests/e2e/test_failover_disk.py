"""The failover buffer on a disk without room: what is in it is stored all the same, which makes room.

RLIMIT_FSIZE of the daemon stands for the disk: with 0 it writes no byte into a file.
"""
from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from support.buffers import buffered, buffering, drained, everything
from support.client import Client
from support.daemon import Daemon
from support.ports import free_port
from support.postgres import Postgres
from support.wait import until

CHUNK = 4
WITHOUT_ROOM = ["prlimit", "--fsize=0:unlimited"]


@pytest.fixture
def server(postgres: Postgres, tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """Starts daemons with a buffer in this test's folder, which they drain CHUNK messages at a time."""
    with buffering(postgres, tmp_path / "buffer", FILE_BUFFER_MAX_BATCH=CHUNK) as start:
        yield start


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "buffer" / "0"


def room(daemon: Daemon, size: int) -> None:
    """From now on the daemon can write so many bytes into a file."""
    _, hard = resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (size, hard))


def switch(client: Client, on: bool) -> None:
    assert client.post("/api/v1/system/maintenance", {"enabled": on}).status == 200


def segments(folder: Path) -> list[Path]:
    return list(folder.glob("*.seg"))


def test_it_is_drained_although_no_position_can_be_noted(server, postgres, queue, folder):
    daemon = server(postgres.database())
    with daemon.client() as client:
        switch(client, True)
        for n in range(30):
            client.push(queue, n, partition="p")
        room(daemon, 0)
        switch(client, False)
        drained(client)
        assert everything(client, queue) == list(range(30))
        assert "draining goes on" in daemon.told("buffer_not_noted")["detail"]
        until(lambda: not segments(folder), "the segment is deleted")
        assert (folder / "position").stat().st_size == 0
        daemon.stop()      # nothing is left to be noted


def test_what_a_killed_daemon_drained_without_a_position_is_not_stored_twice(server, postgres, queue, folder):
    conninfo = postgres.database()
    daemon = server(conninfo)
    with daemon.client() as client, psycopg.connect(conninfo, autocommit=True) as db:
        switch(client, True)
        for n in range(30):
            client.push(queue, n if n != 20 else "stuck", partition="p")
        db.execute("CREATE FUNCTION stuck() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                   " IF position('stuck'::bytea IN NEW.body) > 0 THEN RAISE 'not now'; END IF; RETURN NEW; END $$")
        db.execute("CREATE TRIGGER stuck BEFORE INSERT ON queend.log FOR EACH ROW EXECUTE FUNCTION stuck()")
        room(daemon, 0)
        switch(client, False)
        until(lambda: buffered(client)["pending"] <= 10 + CHUNK, "messages before the one that is refused are stored")
        daemon.kill()
        db.execute("DROP TRIGGER stuck ON queend.log")
    assert (folder / "position").stat().st_size == 0
    with server(conninfo).client() as client:
        drained(client)
        assert everything(client, queue) == [*range(20), "stuck", *range(21, 30)]


def test_a_refused_message_that_the_quarantine_has_no_room_for_blocks_nothing(server, postgres, queue, folder):
    """Its segment and later ones stay until the quarantine has it. A daemon that ends before finds it there again."""
    conninfo = postgres.database()
    daemon = server(conninfo, FILE_BUFFER_EVENTS_PER_FILE=5)
    with daemon.client() as client, psycopg.connect(conninfo, autocommit=True) as db:
        switch(client, True)
        for n in range(20):
            client.push(queue, n if n != 3 else "poison", partition="p")
        db.execute("ALTER TABLE queend.log ADD CONSTRAINT poison CHECK (position('poison'::bytea IN body) = 0)")
        room(daemon, 0)
        switch(client, False)
        drained(client)
        daemon.told("buffer_not_noted")
        assert len(segments(folder)) == 4 and (folder / "quarantine").stat().st_size == 0
        daemon.stop()
    daemon = server(conninfo)
    with daemon.client() as client:
        until(lambda: not segments(folder), "the segment is deleted")
        assert b'"poison"' in (folder / "quarantine").read_bytes()
        assert everything(client, queue) == [n for n in range(20) if n != 3]


def test_there_is_room_for_the_quarantine_again(server, postgres, queue, folder):
    conninfo = postgres.database()
    daemon = server(conninfo)
    with daemon.client() as client, psycopg.connect(conninfo, autocommit=True) as db:
        switch(client, True)
        client.push(queue, 1, "poison", partition="p")
        db.execute("ALTER TABLE queend.log ADD CONSTRAINT poison CHECK (position('poison'::bytea IN body) = 0)")
        room(daemon, 0)
        switch(client, False)
        drained(client)
        daemon.told("buffer_not_noted")
        room(daemon, 1 << 20)
        until(lambda: not segments(folder), "the segment is deleted")
        assert b'"poison"' in (folder / "quarantine").read_bytes()


def test_a_daemon_starts_there_with_a_torn_end(server, postgres, queue, folder):
    """No room for its name, nor for a copy of the end that was being written when the daemon before it was killed."""
    conninfo = postgres.database()
    daemon = server(conninfo)
    with daemon.client() as client:
        switch(client, True)
        for n in range(10):
            client.push(queue, n, partition="p")
        daemon.kill()
    (segment,) = segments(folder)
    with segment.open("ab") as file:
        file.write(b"QRec\xff\x00\x00\x00half")
    daemon = server(conninfo, WITHOUT_ROOM, PORT=free_port())
    with daemon.client() as client:
        daemon.told("buffer_not_marked")
        switch(client, False)
        drained(client)
        assert everything(client, queue) == list(range(10))
        room(daemon, 1 << 20)
        until(lambda: not segments(folder), "the segment is deleted")
        assert b"half" in (folder / "quarantine").read_bytes() and buffered(client)["failed"] == 1


def test_what_an_ended_daemon_left_there_is_adopted(server, postgres, queue, tmp_path):
    conninfo = postgres.database()
    one = server(conninfo)
    other = server(conninfo, WITHOUT_ROOM, QUEEND_BUFFER_ADOPT_MS=1)
    with one.client() as left, other.client() as client:
        switch(left, True)
        for n in range(10):
            left.push(queue, n, partition="p")
        one.kill()
        switch(client, False)
        until(lambda: not segments(tmp_path / "buffer" / "0") and not segments(tmp_path / "buffer" / "1"),
              "the segment is stored")
        assert everything(client, queue) == list(range(10))


def test_the_switches_are_remembered_once_there_is_room(server, postgres, folder):
    daemon = server(postgres.database())
    file = folder / "maintenance.json"
    with daemon.client() as client:
        room(daemon, 0)
        switch(client, True)
        daemon.told("maintenance_not_remembered")
        assert not file.exists()
        room(daemon, 1 << 20)
        until(file.exists, "the switches are remembered")
        assert json.loads(file.read_text()) == {"push": True, "pop": False}
        room(daemon, 0)
        switch(client, False)
        until(lambda: not file.exists(), "both are off: no file")


@pytest.mark.parametrize(("most", "said"), [
    (64 << 20, "cannot be written (File too large)"), (2000, "is full")], ids=["disk", "bound"])
def test_a_refused_push_says_why_it_was_not_kept(server, postgres, queue, most, said):
    daemon = server(postgres.database(), QUEEND_BUFFER_BYTES=most)

    def refused() -> str:
        answer = client.post("/api/v1/push", {"items": [{"queue": queue, "payload": "x" * 2000}]})
        assert answer.status == 503 and "retry-after" in answer.headers
        return answer.json["error"]

    with daemon.client() as client:
        switch(client, True)
        room(daemon, 1000)
        assert refused() == f"Push maintenance is on and the failover buffer {said}; nothing is stored, try again"
        switch(client, False)
        with postgres.away():
            until(lambda: buffered(client)["dbHealthy"] is False, "the database is away")
            assert refused() == (f"The database is not reachable and the failover buffer {said}; nothing is stored, "
                                 "try again")
