"""Commits that hang: a server that waits for a synchronous standby which does not exist."""
from __future__ import annotations

import threading

from .postgres import Postgres
from .wait import until

STANDBYS = "synchronous_standby_names"


def name_standbys(cluster: Postgres, names: str) -> None:
    """Names the standbys that commits wait for; "": none. Returns when commits wait."""
    with cluster.connect() as connection:
        connection.execute("SET synchronous_commit = local")
        connection.execute(f"ALTER SYSTEM SET {STANDBYS} = '{names}'")
        connection.execute("SELECT pg_reload_conf()")
        until(lambda: connection.execute(f"SHOW {STANDBYS}").fetchone() == (names,), "the server knows it")
    if names:      # a moment later it waits for them
        waits = threading.Event()
        threading.Thread(target=_commit, args=(cluster, waits), daemon=True).start()
        until(lambda: hanging(cluster) > 0, "commits wait for the standby")
        waits.set()


def hanging(cluster: Postgres) -> int:
    """Returns how many commits wait."""
    ((count,),) = cluster.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
    return count


def _commit(cluster: Postgres, waits: threading.Event) -> None:
    # commits again and again until one waits
    while not waits.is_set():
        cluster.execute("SELECT pg_logical_emit_message(true, 'test', '')")
