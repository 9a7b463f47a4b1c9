"""What daemons of the last release ask, today's functions answer: the statements as they were, in a file that a release
adds."""
from __future__ import annotations

import hashlib
import json
from pathlib import Path

import psycopg
import pytest

from queend.postgres.edition import edition_in, edition_of
from queend.postgres.migrate import sql_folder

EDITION = edition_in(sql_folder())
STATEMENTS = json.loads((Path(__file__).parent / f"edition_{EDITION.serves}.json").read_text())


def test_the_functions_carry_their_edition(conninfo):
    with psycopg.connect(conninfo) as connection:
        assert edition_of(connection) == EDITION
    assert EDITION.serves <= EDITION.number


@pytest.fixture(scope="module")
def connection(conninfo):
    with psycopg.connect(conninfo, autocommit=True) as one:
        yield one


@pytest.mark.parametrize("statement", STATEMENTS, ids=[one["name"] for one in STATEMENTS])
def test_a_statement_of_the_edition_that_is_served_is_understood(connection, statement):
    """A signature that changes gets a function in sql/former, or the edition says that it serves the one before no
    more."""
    prepared = connection.pgconn.prepare(statement["name"].encode(), statement["text"].encode(), statement["types"])
    assert not prepared.error_message, prepared.error_message.decode()
    told = connection.pgconn.describe_prepared(statement["name"].encode())
    names = dict(connection.execute("SELECT oid, typname FROM pg_type").fetchall())
    columns = ", ".join(f"{told.fname(i).decode()} {names[told.ftype(i)]}" for i in range(told.nfields))
    assert columns.startswith(statement["columns"])      # columns that come after are not read


PAGES = json.loads((Path(__file__).parent / "edition_5.json").read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: hashlib.sha1(page["text"].encode()).hexdigest()[:8])
def test_a_page_of_a_daemon_before_is_shown(connection, page):
    """Statements of the control plane of edition 5, which read columns by their names."""
    prepared = connection.pgconn.prepare(b"", page["text"].encode())
    assert prepared.status == psycopg.pq.ExecStatus.COMMAND_OK, (page["text"], prepared.error_message.decode())
    told = connection.pgconn.describe_prepared(b"")
    assert set(page["columns"].split()) <= {told.fname(i).decode() for i in range(told.nfields)}, page["text"]
