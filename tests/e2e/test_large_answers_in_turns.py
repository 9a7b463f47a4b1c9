"""Large answers of pops have turns, too: a turn of the loop reads one result with messages after the other, until it
has delivered a MiB. The others wait for later turns, so that requests of somebody else pass between them."""
from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

import psycopg
from support.daemon import Daemon
from support.http import Wire, request
from support.postgres import stand
from support.wait import until

GROUPS, MIB = 4, 1 << 20


def statements(database: psycopg.Connection, text: str, parameters: object) -> int:
    row = database.execute(text, (parameters,)).fetchone()
    assert row is not None
    return int(row[0])


def test_a_turn_makes_one_large_answer(start_daemon: Callable[..., Daemon], queue: str) -> None:
    daemon = start_daemon(NUM_WORKERS=1, QUEEND_SLOTS=2 * GROUPS, QUEEND_CACHE_BYTES=0,
                          QUEEN_POP_PREFERRED_BATCH_SIZE=1)
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = %s::regclass"
    with (daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as database,
          contextlib.ExitStack() as opened):
        for group in range(GROUPS):
            client.pop(queue, consumerGroup=f"g{group}")
        client.push(queue, "x" * (MIB + MIB // 2))
        wires = [opened.enter_context(Wire(daemon.address)) for _ in range(GROUPS)]
        before = client.metric("queend_worker_turn_delivered")
        with database.transaction():
            database.execute("LOCK TABLE queend.cursors IN SHARE MODE")
            for group, wire in enumerate(wires):
                wire.send(request("GET", f"/api/v1/pop/queue/{queue}?consumerGroup=g{group}"))
                until(lambda group=group: statements(database, waits, "queend.cursors") == group + 1, "the pop waits")
            stand(daemon.pid)
        until(lambda: statements(database, waits, "queend.cursors") == 0, "the pops are done")
        os.kill(daemon.pid, signal.SIGCONT)
        assert [len(wire.receive().json["messages"]) for wire in wires] == [1] * GROUPS
        assert before < 2 * MIB
        assert MIB < client.metric("queend_worker_turn_delivered") < 2 * MIB
