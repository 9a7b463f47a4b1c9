"""The load of test_sdk.py, run inside an environment that has nothing but the published SDK.

Usage: sdk_scenario.py URL BATCH PARTITIONS EACH OPTIONS. BATCH 0 leaves batch and partitions to the SDK's defaults;
EACH: messages per partition; OPTIONS: of the client, as JSON. The last line on standard output is a JSON object of what
was seen; a wrong order or a message seen twice ends the program at once.
"""
from __future__ import annotations

import asyncio
import json
import sys
import time

from queen import Queen

PARTITIONS, EACH = int(sys.argv[3]), int(sys.argv[4])
OPTIONS = json.loads(sys.argv[5])
PER_PUSH = EACH // 2
PRODUCERS = 4
CONSUMERS = 3
LEASE_SECONDS = 60
CRASHED_LEASE_SECONDS = 2  # so long the crashed consumer keeps its messages from the others


class Record:
    """What one group has seen: per partition the numbers must be 0, 1, 2, …, each once."""

    def __init__(self, name: str):
        self.name, self.next, self.count, self.done = name, [0] * PARTITIONS, 0, asyncio.Event()

    def see(self, message: dict) -> None:
        partition, number = message["data"]["p"], message["data"]["n"]
        if message["partition"] != str(partition) or number != self.next[partition]:
            raise SystemExit(f"{self.name}: partition {message['partition']} gave {message['data']},"
                             f" expected number {self.next[partition]}")
        self.next[partition] += 1
        self.count += 1
        if self.count == PARTITIONS * EACH:
            self.done.set()


def as_list(messages: object) -> list:
    return messages if isinstance(messages, list) else [messages]


async def produce(url: str, share: range) -> int:
    queued = 0
    async with Queen(url, **OPTIONS) as queen:
        for first in range(0, EACH, PER_PUSH):
            for partition in share:
                items = [{"data": {"p": partition, "n": number}} for number in range(first, first + PER_PUSH)]
                results = await queen.queue("source").partition(str(partition)).push(items)
                queued += sum(one["status"] == "queued" for one in results)
    return queued


async def crash(url: str) -> list:
    """Takes messages of the workers' group and is never heard of again."""
    async with Queen(url, **OPTIONS) as queen:
        while True:
            messages = await queen.queue("source").group("workers").batch(50).pop()
            if messages:
                return messages


async def configure(queen: Queen, lease_seconds: int) -> None:
    for name in ("source", "moved"):
        created = await queen.queue(name).config({"lease_time": lease_seconds}).create()
        assert created["configured"] is True, created


async def consume(url: str, queue: str, group: str, batch: int, handler, stop: asyncio.Event,
                  auto_ack: bool = True) -> None:
    async with Queen(url, **OPTIONS) as queen:
        builder = queen.queue(queue).group(group).timeout_millis(500)
        if batch:
            builder = builder.batch(batch).partitions(20)
        if not auto_ack:
            builder = builder.auto_ack(False)
        await builder.consume(lambda messages: handler(queen, as_list(messages)), signal=stop)


def recorder(record: Record):
    async def handle(_: Queen, messages: list) -> None:
        for message in messages:
            record.see(message)

    return handle


def mover(record: Record):
    """Moves messages to the queue `moved`: the acks and the pushes in one transaction."""

    async def handle(queen: Queen, messages: list) -> None:
        transaction = queen.transaction().ack(messages, "completed", {"consumer_group": "movers"})
        for message in messages:
            transaction.queue("moved").partition(message["partition"]).push({"data": message["data"]})
        await transaction.commit()
        for message in messages:
            record.see(message)

    return handle


async def main(url: str, batch: int) -> None:
    begin = time.monotonic()
    workers, movers, moved, replay = (Record(name) for name in ("workers", "movers", "moved", "replay"))
    async with Queen(url, **OPTIONS) as queen:
        await configure(queen, CRASHED_LEASE_SECONDS)
        shares = [range(number, PARTITIONS, PRODUCERS) for number in range(PRODUCERS)]
        producing = [asyncio.create_task(produce(url, share)) for share in shares]
        lost = await crash(url)
        await configure(queen, LEASE_SECONDS)
    consuming = []
    for _ in range(CONSUMERS):
        consuming.append(consume(url, "source", "workers", batch, recorder(workers), workers.done))
        consuming.append(consume(url, "source", "movers", batch, mover(movers), movers.done, auto_ack=False))
    consuming.append(consume(url, "moved", "readers", batch, recorder(moved), moved.done))
    tasks = [asyncio.create_task(one) for one in consuming]
    queued = sum(await asyncio.gather(*producing))
    await asyncio.gather(*tasks)
    await asyncio.gather(*(consume(url, "source", "replay", batch, recorder(replay), replay.done)
                           for _ in range(CONSUMERS)))
    async with Queen(url, **OPTIONS) as queen:
        left = [len(await queen.queue(name).group(group).batch(10).wait(False).pop())
                for name, group in (("source", "workers"), ("source", "movers"), ("moved", "readers"),
                                    ("source", "replay"))]
    print(json.dumps({"queued": queued, "crashed": len(lost), "left": sum(left),
                      "seconds": round(time.monotonic() - begin, 1),
                      **{record.name: record.count for record in (workers, movers, moved, replay)}}))


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
