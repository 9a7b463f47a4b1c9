"""What is public says in the database what it does."""
from __future__ import annotations

import psycopg


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
