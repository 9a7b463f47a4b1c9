"""Rows of deleted queues are removed in the background, also when the lane was busy at first."""
from __future__ import annotations

import asyncio

import psycopg
from psycopg_pool import AsyncConnectionPool

from queend.services.sweeper import Sweeper
from support.wait import until

PUSH = """SELECT queend.push(0, '{}', ARRAY[%s], ARRAY[0], ARRAY[1], ARRAY[2::smallint], ARRAY[NULL::uuid],
                             ARRAY[NULL::uuid], ARRAY[uuid_send(gen_random_uuid())],
                             ARRAY['\\x10027b7d'::bytea], ARRAY[NULL::bytea])"""


def test_sweeps_what_was_deleted(postgres):
    conninfo = postgres.database()
    with psycopg.connect(conninfo, autocommit=True) as db, psycopg.connect(conninfo) as holder:
        part = db.execute("SELECT partition_id FROM queend.resolve(ARRAY['gone'], ARRAY['p'])").fetchone()[0]
        for _ in range(3):
            db.execute(PUSH, (part,))
        holder.execute("SELECT pg_advisory_xact_lock(1903519076, %s)", (part & 63,))

        def rows() -> int:
            return db.execute("SELECT count(*) FROM queend.log WHERE partition_id = %s", (part,)).fetchone()[0]

        async def run() -> None:
            pool = AsyncConnectionPool(conninfo, min_size=1, max_size=1, open=False, kwargs={"autocommit": True})
            await pool.open()
            sweeper = Sweeper(pool)
            db.execute("SELECT queend.queue_delete('gone')")
            sweeper.open()
            # so the first is over
            await asyncio.to_thread(until, lambda: pool.get_stats().get("requests_num", 0) >= 2, "a second pass")
            assert rows() == 3
            holder.rollback()
            await asyncio.to_thread(until, lambda: rows() == 0, "the rows to be removed")
            await sweeper.close()
            await pool.close()

        asyncio.run(run())
        for table in ("graves", "late_ids", "cursors"):
            assert db.execute(f"SELECT count(*) FROM queend.{table}").fetchone() == (0,)
