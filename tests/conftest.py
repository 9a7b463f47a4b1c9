"""Fixtures of every test that needs a database or a daemon. All parts are real; all are gone after the session."""
from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.client import Client
from support.daemon import Daemon
from support.postgres import Postgres, running
from support.seeds import DRAWN
from support.wait import until

from queend import log

SPARK = Path(__file__).parent / "spark"
DASHBOARD = Path(__file__).parent / "dashboard"
PACKAGES = Path(__file__).parent / "packages"
FINDINGS = Path(__file__).parent / "findings"
PATRONI = Path(__file__).parent / "patroni"
GENERATED = Path(__file__).parent / "generated"
TYPESCRIPT = Path(__file__).parent / "typescript"

# Where this is set for whoever runs the tests, no command could be forked of one that has imported it (support/forked).
os.environ.pop("PYTHONUNBUFFERED", None)

# How long an example takes says more about the machine than about what is tested.
settings.register_profile("queend", deadline=None, derandomize=not DRAWN,
                          suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("queend")
_clusters: list[Postgres] = []      # the cluster of the session, once a test needed one
_scopes: list[str] = []             # of the fixtures that are being set up, the innermost last
_daemons: list[Daemon] = []         # those that the running test started, or a fixture of its own


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--postgres", type=int, default=None, metavar="MAJOR",
                     help="PostgreSQL major version to test on; default: the one the daemon takes by itself")
    parser.addoption("--schema-calls", type=int, default=0,
                     help="tests/schema: at least so many calls of schemathesis along the links of the document")
    parser.addoption("--sdk-tests", action="store_true",
                     help="tests/e2e: all of the SDK's own tests and its whole load, minutes instead of seconds")
    parser.addoption("--spark", action="store_true", help="tests/spark too: `make test-spark`")
    parser.addoption("--dashboard", action="store_true", help="tests/dashboard too: `make test-dashboard`")
    parser.addoption("--packages", action="store_true", help="tests/packages too: `make test-packages`")
    parser.addoption("--generated", action="store_true", help="tests/generated too: `make test-generated`")
    parser.addoption("--typescript", action="store_true", help="tests/typescript too: `make test-typescript`")
    parser.addoption("--findings", metavar="FOLDER", help="tests/findings: scripts that print OK or FAULT")
    parser.addoption("--patroni", metavar="FOLDER",
                     help="tests/patroni too, with the packages in this folder: `make test-patroni`")
    parser.addoption("--clean-folder", metavar="FOLDER",
                     help="tests/packages: a Debian that debootstrap made, instead of a new one")
    parser.addoption("--debian", metavar="RELEASE", help="tests/packages: its codename, instead of this machine's")
    parser.addoption("--print-differences", action="store_true",
                     help="tests/golden: print how the answers differ from the recorded ones")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without --spark nothing of tests/spark is even imported: the other tests need no Spark. So with the browser."""
    return True if (collection_path == SPARK and not config.getoption("--spark")
                    or collection_path == DASHBOARD and not config.getoption("--dashboard")
                    or collection_path == GENERATED and not config.getoption("--generated")
                    or collection_path == TYPESCRIPT and not config.getoption("--typescript")
                    or collection_path == PACKAGES and not config.getoption("--packages")
                    or collection_path == FINDINGS and not config.getoption("--findings")
                    or collection_path == PATRONI and not config.getoption("--patroni")) else None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "daemon: starts a daemon; `-m 'not daemon'` leaves these out")
    config.addinivalue_line("markers", "counted: counts instructions under callgrind; those of the core may judge an"
                            " optimized build alone")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "start_daemon" in getattr(item, "fixturenames", ()):
            item.add_marker("daemon")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Long bytes are named by their place, not by their content: that may differ from one process to the next (random
    ids, moments)."""
    return argname if isinstance(val, bytes) and len(val) > 24 else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of tests are no garbage: to look for some among them takes a third of the time, and again later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    from support.scheduler import Scheduler    # workers have no need of it

    return Scheduler(config, log)


@pytest.fixture(autouse=True)
def own_hidden_words() -> Iterator[None]:
    """A process hides the words of every connection string it has read from what it writes, for as long as it lives.
    Tests share a process: the password `p` of one would be hidden from the errors of all that follow."""
    before, log._hidden = log._hidden, {}
    yield
    log._hidden = before


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    """The cluster of the session."""
    with running(request.config.getoption("--postgres")) as server:
        _clusters.append(server)
        yield server
        _clusters.remove(server)


@pytest.fixture(scope="module", autouse=True)
def dropped_databases() -> Iterator[None]:
    """Drops the module's databases in the cluster of the session, when all else of the module has ended."""
    yield
    for server in _clusters:
        server.drop_databases()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef) -> Iterator[object]:
    _scopes.append(fixturedef.scope)
    try:
        return (yield)
    finally:
        _scopes.pop()


def stopped(daemons: list[Daemon]) -> None:
    """Stops the daemons that still run, and checks them."""
    while daemons:
        if (daemon := daemons.pop(0)).process.poll() is None:
            daemon.stop()


@pytest.fixture(autouse=True)
def daemons_of_the_test() -> Iterator[None]:
    """Stops at the end of a test what it started itself: an idle daemon and its connections take 1.5 % of a core."""
    yield
    stopped(_daemons)


@pytest.fixture(scope="module")
def start_daemon(postgres: Postgres) -> Iterator[Callable[..., Daemon]]:
    """Starts daemons, each with a new database unless told a conninfo. Those still running at the end are stopped and
    checked: at the end of the module if a fixture of the module starts them, else at the end of the test."""
    running: list[Daemon] = []

    def start(conninfo: str | None = None, **settings: object) -> Daemon:
        daemon = Daemon(conninfo or postgres.database(), **settings)
        (_daemons if not _scopes or _scopes[-1] == "function" else running).append(daemon)
        return daemon

    yield start
    stopped(running)


@pytest.fixture(scope="module")
def daemon(start_daemon: Callable[..., Daemon]) -> Daemon:
    """A daemon with default settings, shared by the module's tests: each uses queues of its own."""
    return start_daemon()


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    """Tests count pops that wait: those of clients of the test before have to be withdrawn first."""
    with daemon.client() as one:
        until(lambda: one.parked() == 0, "pops of the test before are withdrawn")
        yield one


@pytest.fixture(scope="module")
def lenient_daemon(start_daemon: Callable[..., Daemon]) -> Daemon:
    return start_daemon(QUEEND_STRICT="false")


@pytest.fixture
def lenient(lenient_daemon: Daemon) -> Iterator[Client]:
    """Of a daemon that takes what it cannot read for not given."""
    with lenient_daemon.client() as one:
        yield one


@pytest.fixture(scope="module")
def peer(daemon: Daemon, start_daemon: Callable[..., Daemon]) -> Daemon:
    """A second daemon on the database of the first."""
    return start_daemon(daemon.conninfo)


@pytest.fixture
def other(peer: Daemon) -> Iterator[Client]:
    with peer.client() as one:
        yield one


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A queue name no other test uses."""
    return request.node.name.replace("/", "-")[:200]
