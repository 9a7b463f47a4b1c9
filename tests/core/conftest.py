"""What the tests of the data plane share: a real server, and pools of slots that must leave nothing behind."""
import threading
from collections.abc import Iterator

import pytest

import support.sanitizer  # noqa: F401  before any server is started
from support.postgres import Postgres, running
from support.proxy import Proxy
from support.wait import PATIENCE, until

from queend._core import SlotProbe



@pytest.fixture(scope="session")
def cluster(request) -> Iterator[Postgres]:
    """A server for the tests of the wire: over TCP, stopped and started at will. Roles: postgres and keeper (password
    `right`)."""
    with running(request.config.getoption("--postgres"), tcp=True, max_connections=40) as cluster:
        cluster.execute("CREATE ROLE keeper LOGIN PASSWORD 'right'")
        cluster.execute("CREATE SCHEMA queend")
        cluster.execute("GRANT USAGE ON SCHEMA queend TO PUBLIC")
        yield cluster


@pytest.fixture
def proxy(cluster):
    proxy = Proxy(cluster.port)
    yield proxy
    proxy.close()


class Pool:
    """A SlotProbe on its thread. `call` waits for the answer and returns it as an Answer."""

    def __init__(self, dsn, slots, statements):
        self.slots = slots
        self.probe = SlotProbe(dsn.encode(), slots, statements)
        self.failure = None
        self.tickets = 0
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            self.probe.run()
        except BaseException as error:
            self.failure = error

    def begin(self, statement, *values, deadline_ms=20_000, chain=0, decode=False):
        self.tickets += 1
        self.probe.submit(self.tickets, statement, list(values), deadline_ms, chain, decode)
        return self.tickets

    def end(self, ticket, timeout=PATIENCE):
        return Answer(*self.probe.answer(ticket, timeout))

    def call(self, statement, *values, **more):
        return self.end(self.begin(statement, *values, **more))

    def until(self, what, timeout=PATIENCE):
        """Waits until what() is true; it looks at the pool or at the server."""
        def look():
            assert self.failure is None, (self.failure, self.probe.states())
            return what()
        until(look, "the pool or the server", timeout)

    def until_ready(self, n=None):
        self.until(lambda: self.probe.ready() == (self.slots if n is None else n))

    def stop(self):
        if self.thread.is_alive():
            self.probe.stop()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive() and self.failure is None, self.failure
        live, handles, _ = self.probe.counters()
        assert (live, handles) == (0, 0)


class Answer:
    """outcome: ok, error, lost or deadline; rows; state and message of the error, None when the server sent none."""

    def __init__(self, outcome, rows, error, callbacks, statement):
        self.outcome = ["ok", "error", "lost", "deadline"][outcome]
        self.rows = rows
        self.state, self.message = error or (None, None)
        self.callbacks = callbacks
        self.statement = statement

    def __repr__(self):
        return f"{self.outcome} {self.rows} {self.state} {self.message}"


@pytest.fixture
def open_pool(cluster):
    """open_pool(dsn=…, slots=…, statements=[(name, signature)] or None for the real table): stopped at the end, and
    nothing may be left of it."""
    pools = []

    def open_one(dsn=None, slots=1, statements=(), ready=True):
        pool = Pool(dsn or cluster.dsn(), slots, None if statements is None else list(statements))
        pools.append(pool)
        if ready:
            pool.until_ready()
        return pool

    yield open_one
    for pool in pools:
        pool.stop()
