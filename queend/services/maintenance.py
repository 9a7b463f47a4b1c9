"""Push and pop maintenance: two switches for all daemons of a database.

They are rows of queend.system_state. Every daemon reads them twice a second, and keeps the values in a file beside the
failover buffer. So it obeys them from its first request on, even if it starts while the database is away. While both
are off there is no file: its deletion needs no room on a full disk.

With its first read, and the first one after the database was away, it stores the moment: leases that expired in between
do not count against their consumers (sql/function/lease_expiry.sql).
"""
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from .. import log
from ..disk import write
from ..postgres import session
from .running import Running

EVERY_S = 0.5
KEYS = {"push": "maintenance_mode", "pop": "pop_maintenance_mode"}
# The last row is a setting of the server, which the doctor compares with its earlier value.
LOOK = """SELECT key, value FROM queend.system_state WHERE key = ANY(%s)
          UNION ALL SELECT 'standbys', to_jsonb(current_setting('synchronous_standby_names'))"""
SET = """INSERT INTO queend.system_state (key, value, changed_at) VALUES (%s, %s, queend.now_us())
         ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, changed_at = EXCLUDED.changed_at"""
AWAY = "away"


class Maintenance(Running):
    """The background service. Requires `open` and `close` on the same running loop. folder: where to remember the
    switches; None: they are not remembered."""

    def __init__(self, core: Any, pool: AsyncConnectionPool, folder: Path | None):
        self.core, self.pool = core, pool
        self.file = folder / "maintenance.json" if folder else None
        self.on = {"push": False, "pop": False}
        self._remembered: dict[str, bool] | None = None      # what the file says; None: not known
        self._forgetful = False      # the last write of the file failed
        self._standbys = ""      # the last value of synchronous_standby_names that was seen and not empty
        self._away = True        # this daemon, or its database, until a read succeeds
        self._changes = 0        # switched here: a read that began before is out of date
        self.switched: Callable[[], None] = lambda: None      # called after a switch here, to notify other daemons

    def open(self) -> None:
        """Loads the remembered switches. Must be called before the core answers its first request."""
        try:
            if self.file:
                self._apply(json.loads(self.file.read_text()))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, AttributeError) as error:
            log.line("warn", "maintenance_forgotten", f"{self.file}: {error}")
        super().open()

    async def switch(self, which: str, on: bool) -> None:
        """Switches maintenance for all daemons; takes effect here at once. which: push or pop. Raises psycopg.Error."""
        async with self.pool.connection() as connection:
            await connection.execute(SET, (KEYS[which], Jsonb({"enabled": on})))
        self._changes += 1
        self._apply({**self.on, which: on})
        self.switched()

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
            except PoolTimeout:
                self._away = self._away or not self.pool.get_stats().get(
                    "pool_size") or "away" in self.core.database()["doubts"]
                if not self.pool.get_stats().get("pool_size") and "away" not in self.core.database()["doubts"]:
                    log.line("warn", "control_without_connection", "the data plane closes one of its connections for "
                             "the control plane")
                    self.core.spare()
            except psycopg.Error:
                self._away = True      # as it was
            await self._rest(EVERY_S)

    async def _look(self) -> None:
        before = self._changes
        async with self.pool.connection() as connection:
            if self._away:
                await connection.execute(SET, (AWAY, Jsonb({})))
            rows: dict[str, Any] = dict(await session.rows(connection, LOOK, list(KEYS.values())))
        self._away = False
        self.note_standbys(rows.pop("standbys"))
        if before == self._changes:
            self._apply({which: bool((rows.get(key) or {}).get("enabled")) for which, key in KEYS.items()})
            self._remember()

    def note_standbys(self, named: str) -> str:
        """Records synchronous_standby_names. Returns the last value that was not empty, "" if there was none."""
        self._standbys = named or self._standbys
        return self._standbys

    def _apply(self, on: dict[str, Any]) -> None:
        on = {which: on.get(which) is True for which in KEYS}
        if on == self.on:
            return
        for which, value in on.items():
            if value != self.on[which]:
                log.line("warn" if value else "info", f"{which}_maintenance", "on" if value else "off")
        self.on = on
        self.core.pause(on["push"], on["pop"])
        self._remember()

    def _remember(self) -> None:
        """Writes the switches into the file unless it has them. After an error the next read tries again."""
        if self.file is None or self._remembered == self.on:
            return
        try:
            if any(self.on.values()):
                write(self.file, json.dumps(self.on))
            else:
                self.file.unlink(missing_ok=True)
        except OSError as error:
            if not self._forgetful:
                log.line("warn", "maintenance_not_remembered", f"{self.file}: {error}")
            self._forgetful = True
        else:
            self._remembered, self._forgetful = self.on, False
