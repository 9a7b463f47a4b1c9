"""Services that meet what they do not expect go on, and say so."""
from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import psycopg
import pytest
from support.postgres import Postgres

from queend.daemon import supervisor
from queend.services.erasure import Eraser
from queend.services.peers import Link, Peers
from queend.services.stats import Stats
from queend.settings.model import Settings


def lived(service: Any, seen: Any) -> None:
    """Opens a service, closes it once `seen` is true. Another task must run meanwhile."""
    async def run() -> None:
        service.open()
        while not seen():
            await asyncio.sleep(0.01)
        await service.close()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_the_eraser_rests_after_a_failure_in_the_middle_of_a_walk() -> None:
    """A pool refuses at once while the database is silent: nothing in the loop waits."""
    class Walking(Eraser):
        looks: list[int] = []

        async def _look(self, after: int) -> tuple[int, bool]:
            self.looks.append(after)
            if len(self.looks) > 1:
                raise psycopg.OperationalError("the database does not answer")
            return 5, False

    service = Walking(None, Settings())      # type: ignore[arg-type]
    lived(service, lambda: len(service.looks) > 1)
    assert service.looks == [0, 5] and "erase_failed" in service.failing


def test_a_row_that_was_refused_is_forgotten_after_a_walk_without_one() -> None:
    class Walking(Eraser):
        answers = [(5, True), (0, False), (0, False)]      # a walk of two pages, then one of one page

        async def _look(self, after: int) -> tuple[int, bool]:
            found = self.answers.pop(0)
            if found[1]:
                self._failed("erase_refused", "a row of unknown format", partition=1)
            told.append("erase_refused" in self.failing)
            self.wake()
            if not self.answers:
                await asyncio.Event().wait()
            return found

    told: list[bool] = []
    lived(Walking(None, Settings()), lambda: len(told) == 3)      # type: ignore[arg-type]
    assert told == [True, True, True]
    told.clear()
    Walking.answers = [(5, True), (0, False), (0, False), (0, False)]
    lived(Walking(None, Settings()), lambda: len(told) == 4)      # type: ignore[arg-type]
    assert told == [True, True, True, False]


def test_the_names_of_peers_that_cannot_be(capfd: pytest.CaptureFixture[str]) -> None:
    """An empty label, as a template makes it from an empty value."""
    async def run() -> None:
        service = Peers(Settings(), None)      # type: ignore[arg-type]
        assert await service._look_up("queend-0.queend..svc") == set()
        link = Link("http://queend-0..svc:6632", 0.0)
        link.put([b"x"])
        while not link.failed:
            await asyncio.sleep(0.01)
        assert link.failing and not link._task.done()
        await link.close()

    asyncio.run(asyncio.wait_for(run(), 60))
    events = [json.loads(line)["event"] for line in capfd.readouterr().err.splitlines()]
    assert events == ["peer_unknown", "peer_not_told"]


def test_links_end_with_the_life_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Peers):
        async def _resolve(self) -> None:
            raise TypeError

    async def run() -> list[bool]:
        monkeypatch.setattr("queend._core.peers_fileno", lambda: socket.socketpair()[0].detach())
        service = Broken(Settings(queen_peers="http://127.0.0.1:1"), None)      # type: ignore[arg-type]
        with pytest.raises(TypeError):
            await service._run()
        return [link._task.done() for link in service.links]

    assert asyncio.run(run()) == [True]


def test_a_failure_is_forgotten_although_another_daemon_looks(postgres: Postgres) -> None:
    class Late(Stats):
        async def _rest(self, seconds: float) -> bool:
            rested.append("stats_failed" in self.failing)
            await asyncio.sleep(0.01)
            return False

    rested: list[bool] = []
    conninfo, hourly = postgres.database(), Settings(stats_interval_ms=3_600_000)
    lived(Late(hourly, conninfo), lambda: rested)      # the other daemon, which has just looked
    rested.clear()
    service = Late(hourly, conninfo)
    service._failed("stats_failed", "the session was lost")
    lived(service, lambda: rested)
    assert rested[-1] is False


def test_a_task_of_the_daemon_that_ends_by_an_error_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    async def broken() -> None:
        raise UnicodeDecodeError("utf-8", b"x", 0, 1, "no text")

    async def run() -> None:
        task = asyncio.create_task(broken(), name="adopt")
        task.add_done_callback(supervisor.tell_end)
        await asyncio.wait([task])
        await asyncio.sleep(0)

    asyncio.run(run())
    (line,) = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert (line["event"], line["level"], line["task"]) == ("task_ended", "error", "adopt")
