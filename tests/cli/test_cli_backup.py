"""A backup of a daemon that serves, and its return: the message that was pushed before is popped afterwards."""
import json
import os
import shutil
import subprocess

import pytest
from psycopg.conninfo import make_conninfo
from support import forked
from support.client import data
from support.daemon import PACKAGE, Daemon
from support.prepared import data_folder
from support.wait import until

from queend.services import backup


def queend(folder, *words, **more):
    return subprocess.run([*forked.queend(), *words], cwd="/", capture_output=True, text=True, env={
        "PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE), "QUEEND_DATA_DIR": str(folder), **more})


def test_serve_push_backup_destroy_restore_pop(tmp_path):
    folder, kept = tmp_path / "data", tmp_path / "kept"
    with Daemon.own(folder) as daemon:
        daemon.await_ready()
        with daemon.client() as client:
            client.push("orders", 1, 2, 3, partition="a")
            client.ack(client.pop("orders", "a")[0])
            client.post("/api/v1/system/maintenance", {"enabled": True})
            assert client.push("orders", "buffered", partition="b")[0]["status"] == "buffered"
        done = queend(folder, "backup", str(kept))
        assert done.returncode == 0, done.stderr
        assert "1 folder of the failover buffer" in done.stdout
        again = queend(folder, "backup", str(kept))
        assert again.returncode == 1 and "already exists" in again.stderr
        refused = queend(folder, "restore", str(kept), "--replace", "--yes")
        assert refused.returncode == 1 and "in use by another queend" in refused.stderr
        assert daemon.end() == 0
    assert oct(kept.stat().st_mode & 0o777) == "0o700"
    shutil.rmtree(folder)
    done = queend(folder, "restore", str(kept))
    assert done.returncode == 0, done.stderr
    again = queend(folder, "restore", str(kept))
    assert again.returncode == 1 and "--replace" in again.stderr
    asked = queend(folder, "restore", str(kept), "--replace")
    assert asked.returncode == 2 and "--yes" in asked.stderr
    with Daemon.own(folder) as daemon:
        daemon.await_ready()
        with daemon.client() as client:
            assert data(client.pop("orders", "a", batch=10)) == [2, 3]
            client.post("/api/v1/system/maintenance", {"enabled": False})      # as it was at the backup
            drained = until(lambda: client.pop("orders", "b", wait=True, timeout=1000), "it is drained")
            assert data(drained) == ["buffered"]
        assert daemon.end() == 0
    done = queend(folder, "backup", str(tmp_path / "cold"))      # without a daemon
    assert done.returncode == 0 and json.loads((tmp_path / "cold/backup.json").read_text())["buffers"] == 0, done


def test_what_is_damaged_is_not_restored(tmp_path, start_daemon, postgres):
    with start_daemon().client() as client:
        client.push("orders", 1)
    source = postgres.database()
    done = queend(tmp_path / "none", "backup", str(tmp_path / "kept"), QUEEND_DSN=source)
    assert done.returncode == 0, done.stderr
    with open(tmp_path / "kept/database.dump", "r+b") as file:
        file.seek(1000)
        file.write(b"damage")
    target = postgres.empty_database()
    for folder, told in ((tmp_path / "kept", "is damaged"), (tmp_path, "is not a backup")):
        done = queend(tmp_path / "none", "restore", str(folder), QUEEND_DSN=target)
        assert done.returncode == 1 and told in done.stderr
    done = queend(tmp_path / "empty", "backup", str(tmp_path / "nothing"))
    assert done.returncode == 4 and not (tmp_path / "nothing").exists()


def test_a_database_that_does_not_answer_and_one_that_refuses(tmp_path, start_daemon):
    kept, conninfo = str(tmp_path / "kept"), start_daemon().conninfo
    done = queend(tmp_path, "backup", kept, QUEEND_DSN=conninfo)
    assert done.returncode == 0, done.stderr
    for words in (["backup", str(tmp_path / "new")], ["restore", kept], ["migrate"]):
        done = queend(tmp_path, *words, QUEEND_DSN=f"host={tmp_path} port=1")
        assert done.returncode == 6 and "Is the server running" in done.stderr, done
        done = queend(tmp_path, *words, QUEEND_DSN=make_conninfo(conninfo, dbname="none"))
        assert done.returncode == 1 and "does not exist" in done.stderr, done


def test_a_configured_database(tmp_path, start_daemon, postgres):
    daemon = start_daemon()
    with daemon.client() as client:
        client.push("orders", *range(10))
    done = queend(tmp_path / "none", "backup", str(tmp_path / "kept"), QUEEND_DSN=daemon.conninfo)
    assert done.returncode == 0, done.stderr
    target = postgres.empty_database()
    done = queend(tmp_path / "none", "restore", str(tmp_path / "kept"), QUEEND_DSN=target)
    assert done.returncode == 0, done.stderr
    with start_daemon(target).client() as client:
        assert data(client.pop("orders", batch=20)) == list(range(10))


def test_the_embedded_cluster_is_copied_by_pg_basebackup(tmp_path):
    from queend.postgres.binaries import clients

    with Daemon.own(data_folder(tmp_path / "data")) as daemon:
        daemon.await_ready()
        done = subprocess.run([clients(18).folder / "pg_basebackup", "-h", tmp_path / "data/pg", "-U", "postgres", "-D",
                               tmp_path / "copy", "-c", "fast"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert daemon.end() == 0
    assert (tmp_path / "copy/PG_VERSION").exists()


@pytest.mark.parametrize("before", [["5.seg"], []])
def test_a_segment_that_an_adopter_moves_meanwhile_is_copied(tmp_path, monkeypatch, before):
    """It moves to a folder that was read already, as services/buffer.adopt moves it."""
    root = tmp_path / "buffer"
    for folder, names in (("0", before), ("1", ["1.seg", "lock", "wanted", "adopter", "owner"])):
        (root / folder).mkdir(parents=True)
        for name in names:
            (root / folder / name).write_text(name)

    def adopting(_):
        yield root / "0"
        if (root / "1/1.seg").exists():
            (root / "1/1.seg").rename(root / "0/6.seg")
        yield root / "1"

    monkeypatch.setattr(backup, "folders", adopting)
    count, files = backup._copy_buffers(root, tmp_path / "copy")
    assert count == 1
    assert sorted(one["file"] for one in files) == [f"0/{name}" for name in [*before, "6.seg"]]
    assert (tmp_path / "copy/0/6.seg").read_text() == "1.seg"
