"""The failover buffers of daemons that ended: others store what is in them, once and in order."""
from __future__ import annotations

import os
import signal
import time

import pytest
from support.buffers import buffered, drained, everything, server  # noqa: F401 (fixture)
from support.ports import free_port
from support.wait import PATIENCE, until


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
