"""A sliding window by the clock, of the published SDK: its timer flushes beside its main loop, and both may close the
same window.

Usage: sdk_windows.py URL TOKEN RUNS. Each run is a stream of its own, ten at a time; a line for each in which no
message came twice in a window. (One that comes late, after the timer closed its window, is dropped by the SDK.)
"""
from __future__ import annotations

import asyncio
import sys
from collections import Counter

from queen import Queen
from queen.streams import Stream

URL, TOKEN, RUNS = sys.argv[1], sys.argv[2] or None, int(sys.argv[3])
AT_ONCE, QUIET_S, FIRST_S = 10, 4.0, 120.0      # so long without a window: that was all; before the first: none comes
SIZE, SLIDE, MESSAGES, PARTITIONS = 2, 1, 60, 2      # s
PAUSE_S = 0.06


async def run(queen: Queen, name: str) -> str | None:
    """What went wrong, or None."""
    errors: list[str] = []
    await queen.queue(f"{name}-in").create()
    stream = Stream.from_(queen.queue(f"{name}-in")).window_sliding(size=SIZE, slide=SLIDE, idle_flush_ms=250).reduce(
        lambda ids, value: [*ids, value["id"]],
        []).map(lambda ids, ctx: {"ids": ids, "start": ctx["windowStart"]}).to(queen.queue(f"{name}-out"))
    runner = await stream.run(query_id=name, url=URL, bearer_token=TOKEN, max_wait_millis=100,
                              on_error=lambda error, at: errors.append(f"{at}: {error}"))
    for number in range(MESSAGES):
        await queen.queue(f"{name}-in").partition(f"p{number % PARTITIONS}").push([{"data": {"id": number}}])
        await asyncio.sleep(PAUSE_S)
    seen: Counter = Counter()
    loop = asyncio.get_running_loop()
    news = loop.time()
    while loop.time() < news + (QUIET_S if seen else FIRST_S):
        for message in (await queen.queue(f"{name}-out").batch(100).partitions(20).wait(True)
                        .timeout_millis(1000).pop() or []):
            seen.update((message["partition"], message["data"]["start"], one) for one in message["data"]["ids"])
            await queen.ack(message, True)
            news = loop.time()
    await runner.stop()
    if not seen:
        return f"{name}: nothing came; {errors}"
    doubled = {place: count for place, count in seen.items() if count > 1}
    return f"{name}: doubled {doubled}; {errors}" if doubled else None


async def main() -> None:
    turns = asyncio.Semaphore(AT_ONCE)
    wrong: list[str] = []

    async def one(queen: Queen, number: int) -> None:
        async with turns:
            if said := await run(queen, f"w-{number}"):
                wrong.append(said)
            else:
                print(number, flush=True)

    async with Queen(url=URL, bearer_token=TOKEN) as queen:
        await asyncio.gather(*(one(queen, number) for number in range(RUNS)))
    if wrong:
        raise SystemExit("\n".join(wrong))


asyncio.run(main())
