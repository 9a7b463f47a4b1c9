"""A cluster with queend's schema that is made once in a test run. To copy it takes a tenth of what initdb and the
migrations take of the processor."""
from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import psycopg

from queend.postgres.embedded import Embedded
from queend.postgres.migrate import migrate

from .shared import SHARED, alone

DATABASE = "prepared"      # the one that has the schema
# Copies share the identifier of their system. The seed tells their databases apart, as those of one cluster are told
# apart by their numbers.
OWN = "UPDATE queend.catalog SET seed = uuid_send(gen_random_uuid())"


def copy(folder: Path, major: int | None, room: Path | None) -> None:
    """Puts a copy into a folder without a cluster. major: its version; room: where the cluster is made, None: where
    temporary files are."""
    made = SHARED / f"prepared-{major or 'own'}"      # a link, which stands there when the cluster is complete
    if not made.exists():
        with alone():
            if not made.exists():
                made.symlink_to(_make(major, room))
    subprocess.run(["cp", "-a", made / "pg", folder / "pg"], check=True)
    (folder / "created").touch()


def data_folder(folder: Path) -> Path:
    """Puts a PostgreSQL with the schema, as a daemon makes its own, into an empty data folder, for tests that are not
    about the first start. Returns the folder."""
    made = SHARED / "prepared-folder"
    if not made.exists():
        with alone():
            if not made.exists():
                made.symlink_to(_make_folder())
    folder.mkdir(exist_ok=True)
    subprocess.run(["cp", "-a", f"{made}/.", folder], check=True)
    return folder


def _make_folder() -> str:
    folder = tempfile.mkdtemp(prefix="queend-prepared-")
    os.chmod(folder, 0o755)
    cluster = Embedded(Path(folder), {"fsync": "off"})
    try:
        migrate(cluster.start())
    finally:
        cluster.stop()
    return folder


def _make(major: int | None, room: Path | None) -> str:
    folder = tempfile.mkdtemp(prefix="queend-prepared-", dir=room)
    os.chmod(folder, 0o755)      # initdb 15 walks the path as its account
    cluster = Embedded(Path(folder), {"fsync": "off", "shared_buffers": "64MB"}, major)
    try:
        conninfo = cluster.start()
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")
        migrate(conninfo.replace("dbname=postgres", f"dbname={DATABASE}"))
    finally:
        cluster.stop()
    return folder
