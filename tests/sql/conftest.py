"""A migrated database per module, sessions on it, and names nobody else uses."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from sql.records import Session
from support.sessions import reset

_names = itertools.count(1)


@pytest.fixture(scope="module")
def conninfo(postgres) -> str:
    return postgres.database()


@pytest.fixture(scope="module")
def rested() -> Iterator[dict[str, list[Session]]]:
    """Sessions of tests of the module that have ended, by their connection string: a new one plans all anew."""
    sessions: dict[str, list[Session]] = {}
    yield sessions
    for one in sum(sessions.values(), []):
        one.close()


@pytest.fixture
def session(conninfo: str, rested: dict[str, list[Session]]) -> Iterator[Callable[[], Session]]:
    """Opens sessions, or hands out those of tests before, which have been reset."""
    free, opened = rested.setdefault(conninfo, []), []

    def open_session() -> Session:
        opened.append(free.pop() if free else Session(conninfo))
        return opened[-1]

    yield open_session
    for one in opened:
        if reset(one.connection):
            free.append(one)
        else:
            one.close()


@pytest.fixture
def db(session) -> Session:
    return session()


@pytest.fixture
def partitions(db: Session) -> Callable[[int], list[int]]:
    """Makes partitions of a new queue and returns their ids."""
    def make(count: int = 1) -> list[int]:
        queue = f"q{next(_names)}"
        rows = db.rows("SELECT * FROM queend.resolve(%s, %s)", [queue] * count, [f"p{i}" for i in range(count)])
        return [row.partition_id for row in sorted(rows)]
    return make


@pytest.fixture
def group(db: Session) -> Callable[..., int]:
    """Makes a consumer group on the queue of a partition and returns its id."""
    def make(part: int, name: str | None = None, mode: str = "all", start: int | None = None) -> int:
        queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
        return db.rows("SELECT * FROM queend.group_resolve(%s, %s, %s, %s)", queue, name or f"g{next(_names)}",
                       mode, start)[0].group_id
    return make


@pytest.fixture
def two(session) -> tuple[Session, Session, Session]:
    """A first session in a transaction it has to end, a second one, and one that watches."""
    first, second, watcher = session(), session(), session()
    first.rows("BEGIN")
    return first, second, watcher
