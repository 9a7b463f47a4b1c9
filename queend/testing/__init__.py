"""A plugin of pytest for applications: a real daemon with a PostgreSQL of its own for each session.

`pytest_plugins = ["queend.testing"]` in the conftest.py at the top has it loaded. It needs `pip install
'queend[client]'` and pytest."""
from __future__ import annotations

from collections.abc import Iterator

import pytest

from .daemon import Daemon, DaemonError
from .queues import Queues

__all__ = ["Daemon", "DaemonError", "Queues", "queend", "queend_daemon"]


@pytest.fixture(scope="session")
def queend_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that runs until the end of the session, and its data for as long. Each process of pytest-xdist has its
    own."""
    with Daemon(tmp_path_factory.mktemp("queend")) as daemon:
        yield daemon


@pytest.fixture
def queend(queend_daemon: Daemon, request: pytest.FixtureRequest) -> Iterator[Queues]:
    """A client of the daemon, and names of queues that no other test uses."""
    with Queues(queend_daemon.url, request.node.name) as queues:
        yield queues
