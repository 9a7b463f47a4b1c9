"""Fixtures of the client's tests: each runs with the client that waits and with the one for asyncio."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.both import KINDS, Lossy
from support.daemon import Daemon
from support.workers import LONG

from queend.client import App


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> type:
    return KINDS[request.param]


@pytest.fixture
def q(daemon: Daemon, kind: type) -> Iterator[Any]:
    """A client of the daemon."""
    one = kind(daemon.url, deadline=LONG, timeout=LONG)
    yield one
    one.close()


@pytest.fixture
def network(daemon: Daemon) -> Iterator[Lossy]:
    one = Lossy(daemon.port)
    yield one
    one.close()


@pytest.fixture
def lossy(network: Lossy, kind: type) -> Iterator[Any]:
    """A client whose requests go through `network`."""
    one = kind(network.url, deadline=LONG, timeout=LONG)
    yield one
    one.close()


@pytest.fixture
def app(daemon: Daemon) -> App:
    """An app without workers, for the daemon."""
    return App(daemon.url, deadline=LONG, timeout=LONG)
