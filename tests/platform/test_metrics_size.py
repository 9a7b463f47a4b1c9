"""What very many queues did is written down in portions, and whoever is stopped while it is sent ends in order."""
from __future__ import annotations

import asyncio

import psycopg
import pytest

from support.frozen import frozen
from support.wait import until

from queend.postgres import session
from queend.services.minute import PORTION

QUEUES, AT_ONCE = 10 * PORTION, 2 * PORTION


def test_what_many_queues_did_is_written_in_portions(start_daemon, postgres):
    """Pushes to very many queues: all of it comes into the database, once."""
    database = postgres.database()
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"INSERT INTO queend.queues (name) SELECT 'q' || n FROM generate_series(1, {QUEUES}) AS n")
        connection.execute("INSERT INTO queend.partitions (queue_id, name) SELECT id, 'Default' FROM queend.queues")
        connection.execute("CREATE TABLE public.portions (n int)")
        connection.execute("""CREATE FUNCTION public.portion() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN INSERT INTO public.portions SELECT count(*) FROM added; RETURN NULL; END $$""")
        connection.execute("CREATE TRIGGER portion AFTER INSERT ON queend.metric_queues REFERENCING NEW TABLE AS added"
                           " FOR EACH STATEMENT EXECUTE FUNCTION public.portion()")
    daemon = start_daemon(database, METRICS_AGGREGATE_INTERVAL_S=5)
    with daemon.client() as client:
        for first in range(0, QUEUES, AT_ONCE):
            client.push_items([{"queue": f"q{n + 1}", "payload": n} for n in range(first, first + AT_ONCE)])
    with psycopg.connect(database, autocommit=True) as connection:
        def written() -> tuple[int, int]:
            return connection.execute(
                "SELECT sum(push_messages), count(DISTINCT queue_id) FROM queend.metric_queues").fetchone()
        until(lambda: written() == (QUEUES, QUEUES), "it is written")
        daemon.stop()
        assert written() == (QUEUES, QUEUES)
        assert connection.execute("SELECT max(n) <= %s FROM public.portions", (PORTION,)).fetchone() == (True,)
        ((counts,),) = connection.execute("SELECT counts FROM queend.metric_totals").fetchall()
        assert counts[1] == QUEUES


def test_a_statement_cancelled_while_it_is_sent(postgres):
    """The server takes nothing more: the cancel is one, and the connection is gone."""
    async def run() -> None:
        connection = await session.AsyncConnection.connect(postgres.database(), autocommit=True)
        with frozen(connection.info.backend_pid):
            sending = asyncio.create_task(connection.execute("SELECT %s", ("x" * (64 << 20),)))
            await asyncio.sleep(0)      # as far as the socket takes it
            while connection.pgconn.flush() == 0:
                await asyncio.sleep(0)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
        assert connection.closed

    asyncio.run(run())
