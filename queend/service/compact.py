"""Merges small rows of the log that follow each other and have been left alone for a while, in the background: less disk, and
cheaper for whoever reads them later. What a reader can see does not change.

Any number of daemons may run it on one database; one of them works (its advisory lock belongs to its session), the others
look every pass whether it still does. The log is walked by its primary key, a page of rows at a time; after each step the
service rests three times as long as the step took, so it never takes more than a quarter of one processor.
"""
from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from itertools import groupby

import psycopg

from .. import log
from .._core import rows_merge
from ..config import Settings
from .leader import Leader
from .running import Running

LOCK = 0x71756575_02       # session lock of the one that works
PAGE = 5000                # rows looked at per step
LEAST = 8                  # rows of a run; each record is moved at most once per factor of this
RUNS = 50                  # merged in one transaction
PASS_S = 60.0              # between two passes, at least
LANES = 64


@dataclass
class Figures:
    """What this daemon's service did since it started."""

    gone: int = 0          # rows, less those put in their place
    passes: int = 0
    working: bool = False  # it is the one


@dataclass(frozen=True)
class Run:
    part: int
    from_base: int
    to_base: int
    rows: int


class Compact(Running):
    """`open` and `close` on the same running loop. conninfo: of the control plane."""

    def __init__(self, settings: Settings, conninfo: str):
        self.after_us = settings.queend_compact_after * 1_000_000
        self.compress_from = settings.queend_compress_from
        self.figures = Figures()
        self._leader = Leader(conninfo, LOCK)

    def open(self) -> None:
        if self.after_us:
            super().open()

    async def close(self) -> None:
        await super().close()
        await self._leave()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(min(PASS_S, self.after_us / 1_000_000))
            try:
                if await self._lead():
                    await self.walk()
            except psycopg.Error as error:
                log.line("warn", "compact_failed", str(error).strip())
                await self._leave()

    async def _lead(self) -> bool:
        """Whether this one works: it holds the lock as long as its session lives."""
        self.figures.working = await self._leader.lead()
        return self.figures.working

    async def _leave(self) -> None:
        self.figures.working = False
        await self._leader.leave()

    async def walk(self) -> None:
        """One pass over the log."""
        at: tuple[int | None, int] = (0, -1)
        while at[0] is not None:
            began = time.monotonic()
            *found, (*at, _, _) = await self._rows("SELECT * FROM queend.compact_find(%s, %s, %s, queend.now_us() - %s, %s)", *at, PAGE, self.after_us, LEAST)
            runs = sorted((Run(*one) for one in found), key=lambda r: (r.part % LANES, r.part, r.from_base))
            for lane, group in groupby(runs, key=lambda r: r.part % LANES):
                those = list(group)
                for first in range(0, len(those), RUNS):
                    await self._merge(lane, those[first:first + RUNS])
            await asyncio.sleep(3 * (time.monotonic() - began))
        self.figures.passes += 1

    async def _merge(self, lane: int, runs: list[Run]) -> None:
        rows = await self._rows("SELECT * FROM queend.compact_rows(%s::int[], %s::bigint[], %s::bigint[])",
                                [r.part for r in runs], [r.from_base for r in runs], [r.to_base for r in runs])
        wanted, merged = [], []
        for number, group in groupby(rows, key=lambda row: row[0]):
            own = [row[1:] for row in group]
            if len(own) == runs[number].rows:      # else it has changed since it was found
                try:
                    merged.append(rows_merge(own, self.compress_from))
                    wanted.append(runs[number])
                except ValueError as error:
                    log.line("error", "compact_unreadable", f"partition {runs[number].part}, offset {runs[number].from_base}: {error}")
        if wanted:
            ((gone,),) = await self._rows(
                "SELECT queend.compact(%b::int, %b::int[], %b::bigint[], %b::bigint[], %b::int[], %b::bigint[], %b::bytea[], %b::bytea[], %b::bytea[])", lane,
                [r.part for r in wanted], [r.from_base for r in wanted], [r.to_base for r in wanted], [r.rows for r in wanted],
                *([m[i] for m in merged] for i in range(4)))
            self.figures.gone += gone

    async def _rows(self, query: str, *values: object) -> list[tuple]:
        return await self._leader.rows(query, *values, binary=True)
