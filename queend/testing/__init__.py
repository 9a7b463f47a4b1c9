"""A plugin of pytest for applications: a real daemon with a PostgreSQL of its own for each session.

If queend is installed, pytest loads it by itself. If it is a checkout that is not installed,
`pytest_plugins = ["queend.testing"]` in the conftest.py at the top loads it. It needs queend's extra `client`
and pytest. Until a test asks for a fixture it imports pytest alone, because it is loaded in every run of pytest where
queend is installed."""
from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .daemon import Daemon, DaemonError
    from .queues import Queues

__all__ = ["Daemon", "DaemonError", "Queues", "queend", "queend_daemon"]
PLACES = {"Daemon": ".daemon", "DaemonError": ".daemon", "Queues": ".queues"}


def __getattr__(name: str) -> Any:
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(PLACES[name], __name__), name)


@pytest.fixture(scope="session")
def queend_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that runs until the end of the session, and its data for as long. Each process of pytest-xdist has its
    own."""
    from .daemon import Daemon
    with Daemon(tmp_path_factory.mktemp("queend")) as daemon:
        yield daemon


@pytest.fixture
def queend(queend_daemon: Daemon, request: pytest.FixtureRequest) -> Iterator[Queues]:
    """A client of the daemon, and names of queues that no other test uses."""
    from .queues import Queues
    with Queues(queend_daemon.url, request.node.name) as queues:
        yield queues
