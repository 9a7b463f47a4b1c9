"""Daemons with a failover buffer, and what their clients see of it."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from .client import Client, data
from .daemon import Daemon
from .postgres import Postgres
from .wait import until


@contextmanager
def buffering(postgres: Postgres, folder: Path, **usual: object) -> Iterator[Callable[..., Daemon]]:
    """Yields what starts a daemon with a buffer below `folder`; those that still run at the end are stopped. usual:
    settings of all of them."""
    running: list[Daemon] = []

    def start(conninfo: str | None = None, under: Sequence[str] = (), **more: object) -> Daemon:
        """under: a program that becomes the daemon."""
        settings = {"QUEEND_BUFFER_BYTES": 64 << 20, "FILE_BUFFER_DIR": folder, **usual, **more}
        conninfo = conninfo or postgres.database()
        running.append(Daemon.under(under, conninfo, **settings) if under else Daemon(conninfo, **settings))
        return running[-1]

    yield start
    for daemon in running:
        if daemon.process.poll() is None:
            daemon.stop()


@pytest.fixture
def server(postgres: Postgres, tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """Starts daemons with a buffer in this test's folder."""
    with buffering(postgres, tmp_path / "buffer") as start:
        yield start


def away(client: Client, queue: str) -> None:
    """Waits until the daemon has noticed that the database is gone."""
    until(lambda: client.post("/api/v1/push", {"items": [
        {"queue": queue, "partition": "probe", "payload": 0}]}).json[0]["status"] == "buffered", "pushes are buffered")


def buffered(client: Client) -> dict:
    answer = client.get("/api/v1/status/buffers")
    assert answer.status == 200
    return answer.json


def drained(client: Client) -> None:
    until(lambda: buffered(client)["pending"] == 0, "the buffer is empty")


def everything(client: Client, queue: str, partition: str | None = None) -> list:
    """Returns the payloads of all messages that can be popped, and acknowledges them."""
    result: list = []
    while messages := client.pop(queue, partition, batch=1000, partitions=100, autoAck=True):
        result += data(messages)
    return result
