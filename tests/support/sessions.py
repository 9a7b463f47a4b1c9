"""Sessions that one test uses after another: a new session parses and plans each function that it calls, which takes
more of the processor than most tests."""
from __future__ import annotations

import psycopg
from psycopg.pq import TransactionStatus


def reset(connection: psycopg.Connection) -> bool:
    """Ends a transaction, and gives back what a session keeps beyond it, except for its plans. Returns False if the
    session cannot be used any more."""
    if connection.closed or connection.info.transaction_status == TransactionStatus.ACTIVE:
        return False
    try:
        connection.rollback()
        connection.execute("RESET ROLE; RESET ALL; UNLISTEN *; DISCARD TEMP; SELECT pg_advisory_unlock_all()")
    except psycopg.OperationalError:
        return False
    return True
