"""A semaphore that client addresses share (queend/control/fair_semaphore.py)."""
from __future__ import annotations

import asyncio

import pytest

from queend.control.fair_semaphore import DAEMON, SHARE, FairSemaphore


class Crowd:
    """Tasks that hold a semaphore until they are told to let it go, named by address and number."""

    def __init__(self, size: int, each: int):
        self.semaphore = FairSemaphore(size, each)
        self.holds: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task] = {}

    async def _hold(self, name: str, address: str) -> None:
        SHARE.set((address, True))
        async with self.semaphore:
            self.holds.append(name)
            await self.ends[name].wait()

    async def comes(self, *names: str) -> None:
        """Each name begins with its address, one letter or none."""
        for name in names:
            self.ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._hold(name, name.rstrip("0123456789")))
        await asyncio.sleep(0)

    async def goes(self, name: str) -> None:
        self.ends[name].set()
        await self.tasks[name]
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def test_addresses_take_turns() -> None:
    async def run() -> None:
        crowd = Crowd(1, 1)
        await crowd.comes("a1", "a2", "a3", "a4", "b1", "b2", "1", "2")
        for _ in range(8):
            await crowd.goes(crowd.holds[-1])
        assert crowd.holds == ["a1", "a2", "b1", "1", "a3", "b2", "2", "a4"]
        assert not crowd.semaphore.waiting()
    asyncio.run(run())


def test_one_address_leaves_room_and_the_daemon_has_no_bound() -> None:
    async def run() -> None:
        crowd = Crowd(4, 3)
        await crowd.comes("a1", "a2", "a3", "a4", "a5")
        assert crowd.holds == ["a1", "a2", "a3"]
        assert (crowd.semaphore.waiting(), *(crowd.semaphore.waiting((one, True)) for one in "ab")) == (2, 2, 0)
        await crowd.comes("b1")
        assert crowd.holds[-1] == "b1"
        await crowd.goes("b1")
        assert crowd.holds[-1] == "b1", "room that the address may not have stays free"
        await crowd.goes("a1")
        assert crowd.holds[-1] == "a4"
        for name in ("a2", "a3", "a4"):
            await crowd.goes(name)
        await crowd.goes("a5")
        await crowd.comes("1", "2", "3", "4")
        assert crowd.holds[-4:] == ["1", "2", "3", "4"]
    asyncio.run(run())


@pytest.mark.parametrize("granted", [False, True], ids=["waits", "its turn comes in the same moment"])
def test_who_no_longer_waits_leaves_the_turn_to_the_next(granted: bool) -> None:
    async def run() -> None:
        semaphore = FairSemaphore(1, 1)
        await semaphore.acquire()
        second, third = (asyncio.create_task(semaphore.acquire()) for _ in range(2))
        await asyncio.sleep(0)
        if granted:
            semaphore.release(DAEMON)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        if not granted:
            semaphore.release(DAEMON)
        assert await third == DAEMON
        assert not semaphore.waiting()
    asyncio.run(run())


def test_who_waits_too_long_is_told() -> None:
    async def run() -> None:
        semaphore = FairSemaphore(1, 1)
        await semaphore.acquire()
        with pytest.raises(TimeoutError):
            await semaphore.acquire(0.001)
        semaphore.release(DAEMON)
        assert await semaphore.acquire() == DAEMON
    asyncio.run(run())
