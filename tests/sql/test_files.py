"""The SQL files: one noun each, readable, and what is public says in the database what it does."""
from __future__ import annotations

from collections import Counter
from pathlib import Path

import psycopg
import pytest

from queend.service.migrate import FUNCTION, sql_folder

FILES = sorted(path for name in ("function", "queen") for path in (sql_folder() / name).glob("*.sql"))


@pytest.mark.parametrize("path", FILES, ids=[f"{path.parent.name}/{path.stem}" for path in FILES])
def test_a_file_opens_with_what_it_holds_and_fits_the_screen(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert lines[0].startswith("-- ")
    assert [number for number, line in enumerate(lines, 1) if len(line) > 120] == []


def test_a_function_of_the_daemon_stands_in_one_place() -> None:
    places = Counter(name for path in FILES for schema, name in FUNCTION.findall(path.read_text())
                     if schema == "queend")
    assert [name for name, count in places.items() if count > 1] == []


def test_what_is_public_has_a_comment(conninfo) -> None:
    """Its contract: `\\df+ queen.*` and `\\d+` show it to whoever has no source."""
    with psycopg.connect(conninfo) as connection:
        bare = connection.execute("""
            SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'queen'::regnamespace
               AND length(COALESCE(obj_description(p.oid, 'pg_proc'), '')) < 30
            UNION ALL
            SELECT c.oid::regclass::text FROM pg_class c
             WHERE c.relnamespace IN ('queen'::regnamespace, 'queen_streams'::regnamespace)
               AND c.relkind = 'v' AND length(COALESCE(obj_description(c.oid, 'pg_class'), '')) < 30""").fetchall()
    assert bare == []
