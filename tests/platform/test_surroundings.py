"""What others put into the database, or set for it, is told at the start and by the doctor."""
from __future__ import annotations

import subprocess
import uuid
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from support.client import data
from support.daemon import PACKAGE, Daemon
from support.forked import queend

SCHEMA = (Path(__file__).parents[1] / "support" / "queen_schema.sql").read_text()


def found(daemon: Daemon) -> list[dict]:
    with daemon.client() as client:
        return [one for one in client.get("/api/v1/system/doctor").json["findings"] if one["check"] == "surroundings"]


def test_the_tables_of_queen_mq(postgres, start_daemon, tmp_path) -> None:
    """They are told; their messages move within the database, and the views and functions are made when they are
    gone."""
    conninfo = postgres.empty_database()
    with psycopg.connect(conninfo, autocommit=True) as db:
        db.execute(SCHEMA)
        (queue,) = db.execute("INSERT INTO queen.queues (name) VALUES ('old') RETURNING id").fetchone()
        (part,) = db.execute("INSERT INTO queen.partitions (queue_id) VALUES (%s) RETURNING id", (queue,)).fetchone()
        db.execute("INSERT INTO queen.messages (id, transaction_id, partition_id, payload)"
                   " VALUES (%s, 't', %s, '7')", (uuid.uuid4(), part))
        daemon = start_daemon(conninfo)
        told = daemon.told("schema_of_another")
        assert told["level"] == "warn" and "messages of Queen MQ" in told["detail"]
        (finding,) = found(daemon)
        assert finding["level"] == "warning" and finding["title"] == "the schema queen belongs to another program"
        assert "docs/migration.md" in finding["advice"]
        daemon.stop()
        done = subprocess.run([*queend(), "import-queen", conninfo], cwd=tmp_path,
                              env={"PATH": "", "PYTHONPATH": str(PACKAGE), "QUEEND_DSN": conninfo}, text=True,
                              capture_output=True)
        assert done.returncode == 0 and "counts of both databases are equal" in done.stdout, done.stdout + done.stderr
        db.execute("DROP SCHEMA queen CASCADE")
        daemon = start_daemon(conninfo)
        assert found(daemon) == [] and daemon.line("schema_of_another") is None
        with daemon.client() as client:
            assert data(client.pop("old")) == [7]
        assert db.execute("SELECT payload FROM queen.messages").fetchall() == [(7,)]


@pytest.mark.parametrize("setting, value, event, level", [
    ("session_replication_role", "replica", "session_without_triggers", "critical"),
    ("transaction_timeout", "'10min'", "session_with_limit", "warning")])
def test_a_setting_that_a_session_cannot_set_back(postgres, start_daemon, setting, value, event, level) -> None:
    conninfo = postgres.database()
    name = conninfo_to_dict(conninfo)["dbname"]
    with postgres.connect() as db:
        if db.execute("SELECT 1 FROM pg_settings WHERE name = %s", (setting,)).fetchone() is None:
            pytest.skip(f"this PostgreSQL has no {setting}")
    postgres.execute(f"ALTER DATABASE {name} SET {setting} = {value}")
    daemon = start_daemon(conninfo)
    assert setting in daemon.told(event)["detail"]
    (finding,) = found(daemon)
    assert finding["level"] == level and setting in finding["evidence"]
