"""Calls that the tests of several functions make, and a call that waits for a lock."""
from __future__ import annotations

import threading
from collections.abc import Callable

from sql.records import PUSH, Session, push_arrays
from support.wait import PATIENCE, until

MINUTE = 60_000_000
DONE = {1, 5}        # acknowledged; and with it the delivery
CLAIM = ("SELECT part, grp FROM queend.claim(%s, %s::int[], %s::int[], %s::bigint[], %s::int[], %s::bigint[],"
         " %s::uuid[], %s::bigint[])")
ACK_LEASED = ("SELECT part, grp, released, head FROM queend.ack_leased(%s, %s::int[], %s::int[], %s::uuid[],"
              " %s::bigint[], %s::bigint[], %s::bigint[], %s, %s::tid[])")
TRANSACTION = (f"SELECT * FROM queend.transaction(%s, %s::int[], {PUSH}, %s::int[], %s::int[], %s::uuid[], %s::int[],"
               " %s::bytea[], %s::bytea[],"
        " %s::int[], %s::int[], %s::text[], %s::uuid[], %s::int[], %s::int[])")
PUSHED_CLAIMS = "%s::int[], %s::int[], %s::int[], %s::boolean[], %s::uuid[], %s::bigint[]"
PUSH_ONE = ("SELECT * FROM queend.push_one(%s, %s, %s, %s, %s, %s::smallint, %s::uuid, %s::uuid, %s, %s, %s::bytea,"
            " %s, %s, %s, %s, %s, %s::uuid, %s, %s, %s)")
PUSH_CLAIM = f"SELECT * FROM queend.push(%s, %s::int[], {PUSH}, NULL, {PUSHED_CLAIMS})"


class Waiting:
    """A call in a second session that is now blocked by a lock; `result` lets it go on to its end."""

    def __init__(self, watcher: Session, other: Session, call: Callable[[], list]):
        self._answer: list = []
        self._error: list[BaseException] = []

        def run() -> None:
            try:
                self._answer.append(call())
            except BaseException as error:
                self._error.append(error)
        self.thread = threading.Thread(target=run)
        self.thread.start()
        until(lambda: not self.thread.is_alive() or watcher.value(
            "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s", other.pid),
              "the other session waits for a lock")
        assert self.thread.is_alive(), f"it did not wait: {self._answer or self._error}"

    def result(self):
        self.thread.join(PATIENCE)
        assert not self._error, self._error
        return self._answer[0]


def claim(db, *claims, version: int = 0) -> list:
    """claims: (part, group, first, take, base, lease, lease_us); returns (partition, group) of those made."""
    return [tuple(row) for row in db.rows(CLAIM, version, *[list(column) for column in zip(*claims)])]


def transaction(db, batches=(), acks=(), required=(), hints=(), errors=(), version=0):
    """acks: (part, group, lease, ids, status bytes or None); hints: (part, group)."""
    pushed = push_arrays(list(batches))
    lanes = sorted({b.part & 63 for b in batches})
    columns = [[a[0] for a in acks], [a[1] for a in acks], [a[2] for a in acks], [len(a[3]) for a in acks],
               [b"".join(a[3]) for a in acks], [a[4] or bytes(len(a[3])) for a in acks]]
    rows = db.rows(TRANSACTION, version, lanes, *pushed, *columns, [e[0] for e in errors], [e[1] for e in errors],
                   [e[2] for e in errors], list(required), [h[0] for h in hints], [h[1] for h in hints])
    return {(r.kind, r.ord): r for r in rows}
