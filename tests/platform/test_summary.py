"""Block ranges of the log get their summaries as soon as they are full, so that looking for what is new reads
little."""
from __future__ import annotations

import asyncio

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool
from support.wait import until

from queend.services.summary import PAGES, Summary

FILL = """INSERT INTO queend.log
          SELECT %s + i, queend.now_us(), 1, 1, '00000000-0000-0000-0000-000000000000', false,
                 uuid_send(gen_random_uuid()), '\\x10027b7d' || convert_to(repeat('x', 400), 'UTF8'), ''
            FROM generate_series(1, 10000) AS i"""


def pages(db: psycopg.Connection) -> int:
    """Pages a look for what comes in an hour reads."""
    db.execute("SET enable_bitmapscan = on; SET enable_seqscan = off; SET enable_indexscan = off")
    plan = db.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT 1 FROM queend.log"
                      " WHERE created_at >= (SELECT queend.now_us() + 3600000000)").fetchone()[0][0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


@pytest.fixture
def conninfo(postgres) -> str:
    conninfo = postgres.database()
    with psycopg.connect(conninfo, autocommit=True) as db:
        db.execute("ALTER TABLE queend.log SET (autovacuum_enabled = off)")
    return conninfo


def test_what_is_full_is_summarized(conninfo):
    async def run(db: psycopg.Connection) -> None:
        async with AsyncConnectionPool(conninfo, min_size=1, max_size=1, open=False,
                                       kwargs={"autocommit": True}) as pool:
            summary = Summary(pool)
            await summary.look()      # an empty log
            for step in range(3):
                db.execute(FILL, (step * 10000,))
                assert pages(db) > 500
                await summary.look()
                assert pages(db) < PAGES + 30
            db.execute("TRUNCATE queend.log")
            await summary.look()
            db.execute(FILL, (0,))
            await summary.look()
            assert pages(db) < PAGES + 30
            await Summary(pool).look()      # another daemon: nothing is left to do

    with psycopg.connect(conninfo, autocommit=True) as db:
        asyncio.run(run(db))


def test_the_service_goes_on_after_its_first_look(conninfo):
    async def run(db: psycopg.Connection) -> None:
        async with AsyncConnectionPool(conninfo, min_size=1, max_size=1, open=False,
                                       kwargs={"autocommit": True}) as pool:
            summary = Summary(pool)
            summary.open()
            for step in range(2):
                db.execute(FILL, (step * 10000,))
                await asyncio.to_thread(until, lambda: pages(db) < PAGES + 30, "its ranges are summarized")
            assert not summary.failing
            await summary.close()

    with psycopg.connect(conninfo, autocommit=True) as db:
        asyncio.run(run(db))


def test_a_vacuum_is_not_disturbed(conninfo):
    async def run(db: psycopg.Connection, vacuum: psycopg.Connection) -> None:
        async with AsyncConnectionPool(conninfo, min_size=1, max_size=1, open=False,
                                       kwargs={"autocommit": True}) as pool:
            summary = Summary(pool)
            await summary.look()
            db.execute(FILL, (0,))
            vacuum.execute("LOCK TABLE queend.log IN SHARE UPDATE EXCLUSIVE MODE")      # what a vacuum holds
            await summary.look()      # waits for nothing
            assert pages(db) > 500
            vacuum.rollback()
            await summary.look()      # made up for
            assert pages(db) < PAGES + 30

    with psycopg.connect(conninfo, autocommit=True) as db, psycopg.connect(conninfo) as vacuum:
        asyncio.run(run(db, vacuum))


def test_no_automatic_worker_wants_the_lock_of_a_vacuum(conninfo):
    """With autosummarize the server's own workers would, and PostgreSQL cancels an automatic vacuum somebody waits for:
    one of more than 15 s never ends."""
    with psycopg.connect(conninfo) as db:
        (options,) = db.execute("SELECT reloptions FROM pg_class WHERE oid = 'queend.log_by_time'::regclass").fetchone()
    assert "autosummarize=off" in options
