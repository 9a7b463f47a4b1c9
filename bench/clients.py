"""What Python clients cost beside each other: queend.client, the published queen-mq, and httpx without a client.

    python bench/clients.py [--rounds N] [--messages N] [--published PYTHON]

Each client is a process of its own, one after another, against one daemon. PYTHON is an interpreter that has queen-mq
(`make test-sdk` makes one). `once` pushes one message after another, `side` pushes from 16 tasks at once, `many` pushes
100 per request, `cycle` pops 100 and acknowledges them, `work` has an empty coroutine handle messages of 16 partitions,
each of which is acknowledged by itself. One JSON line per scenario and client: messages per second, and
CPU of the client's process per message in µs, medians of the rounds."""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve()
SCENARIOS = ("once", "side", "many", "cycle", "work")
TASKS, BATCH = 16, 100
DATA = {"order": 7, "customer": "customer-7", "text": "x" * 200}


class Plain:
    """httpx and JSON."""

    def __init__(self, url: str):
        import httpx
        self.http = httpx.AsyncClient(base_url=url, timeout=60)

    async def push(self, queue: str, count: int) -> None:
        items = [{"queue": queue, "partition": "p", "payload": DATA} for _ in range(count)]
        answer = await self.http.post("/api/v1/push", json={"items": items})
        assert all(one["status"] == "queued" for one in answer.raise_for_status().json())

    async def cycle(self, queue: str) -> int:
        answer = await self.http.get(f"/api/v1/pop/queue/{queue}", params={"batch": BATCH})
        messages = answer.raise_for_status().json()["messages"]
        acks = [{"transactionId": one["transactionId"], "partitionId": one["partitionId"], "leaseId": one["leaseId"],
                 "status": "completed"} for one in messages]
        answer = await self.http.post("/api/v1/ack/batch", json={"acknowledgments": acks})
        assert all(one["success"] for one in answer.raise_for_status().json())
        return len(messages)

    async def spread(self, queue: str, count: int) -> None:
        for begin in range(0, count, BATCH):
            items = [{"queue": queue, "partition": str(n % TASKS), "payload": DATA}
                     for n in range(begin, begin + BATCH)]
            (await self.http.post("/api/v1/push", json={"items": items})).raise_for_status()

    async def work(self, queue: str, count: int) -> None:
        async def handle(messages: list) -> int:
            for one in messages:
                ack = {name: one[name] for name in ("transactionId", "partitionId", "leaseId")}
                answer = await self.http.post("/api/v1/ack", json={**ack, "status": "completed"})
                assert answer.raise_for_status().json()[0]["success"]
            return len(messages)

        while count > 0:
            answer = await self.http.get(f"/api/v1/pop/queue/{queue}", params={"batch": TASKS, "partitions": TASKS})
            parts: dict[str, list] = {}
            for one in answer.raise_for_status().json()["messages"]:
                parts.setdefault(one["partitionId"], []).append(one)
            count -= sum(await asyncio.gather(*map(handle, parts.values())))


class Own:
    """queend.client for asyncio."""

    def __init__(self, url: str):
        sys.path.insert(0, str(HERE.parents[1]))
        from queend.client import AsyncClient, Push
        self.client, self.of = AsyncClient(url), Push

    async def push(self, queue: str, count: int) -> None:
        if count == 1:
            await self.client.push(queue, DATA, partition="p")
        else:
            await self.client.push_many([self.of(queue, DATA, "p") for _ in range(count)])

    async def cycle(self, queue: str) -> int:
        messages = await self.client.pop(queue, batch=BATCH)
        await self.client.ack(messages)
        return len(messages)

    async def work(self, queue: str, count: int) -> None:
        from queend.client import App
        app = App(self.client.server)

        @app.worker(queue, concurrency=TASKS)
        async def handle(message) -> None:
            nonlocal count
            count -= 1
            if not count:
                done.set()

        done = threading.Event()
        threading.Thread(target=app.run, kwargs={"signals": False}, daemon=True).start()
        await asyncio.to_thread(done.wait)


class Waiting(Own):
    """queend.client for programs that wait. Tasks at once are threads."""

    def __init__(self, url: str):
        super().__init__(url)
        from queend.client import Client
        self.client = Client(url)

    async def push(self, queue: str, count: int) -> None:
        if count == 1:
            await asyncio.to_thread(self.client.push, queue, DATA, partition="p")
        else:
            self.client.push_many([self.of(queue, DATA, "p") for _ in range(count)])

    async def cycle(self, queue: str) -> int:
        messages = self.client.pop(queue, batch=BATCH)
        self.client.ack(messages)
        return len(messages)


class Published:
    """queen-mq."""

    def __init__(self, url: str):
        from queen import Queen
        self.client = Queen(url)

    async def push(self, queue: str, count: int) -> None:
        await self.client.queue(queue).partition("p").push([{"data": DATA} for _ in range(count)])

    async def cycle(self, queue: str) -> int:
        messages = await self.client.queue(queue).batch(BATCH).wait(False).pop()
        await self.client.ack(messages, True)
        return len(messages)

    async def work(self, queue: str, count: int) -> None:
        async def handle(message) -> None:
            nonlocal count
            count -= 1
            if not count:
                done.set()

        done = asyncio.Event()
        await self.client.queue(queue).concurrency(TASKS).batch(10).timeout_millis(1000).each().consume(
            handle, signal=done)


# `work` of queend-sync is that of queend.
CLIENTS = {"httpx": Plain, "queend": Own, "queend-sync": Waiting, "queen-mq": Published}


async def measured(name: str, url: str, queue: str, messages: int, scenarios: list[str]) -> dict:
    """Returns (messages, seconds, CPU seconds) of each scenario."""
    client, found = CLIENTS[name](url), {}

    async def pushes(count: int) -> None:
        for _ in range(count):
            await client.push(queue, 1)

    async def cycles() -> int:
        done = 0
        while done < messages and (got := await client.cycle(queue)):
            done += got
        return done

    async def run(scenario: str) -> int:
        if scenario == "once":
            await pushes(messages // 10)
            return messages // 10
        if scenario == "side":
            await asyncio.gather(*(pushes(messages // 10 // TASKS) for _ in range(TASKS)))
            return messages // 10 // TASKS * TASKS
        if scenario == "many":
            for _ in range(messages // BATCH):
                await client.push(queue, BATCH)
            return messages // BATCH * BATCH
        if scenario == "cycle":
            return await cycles()
        await client.work(f"{queue}-work", messages // 5)
        return messages // 5

    await client.push(queue, BATCH)
    await Plain(url).spread(f"{queue}-work", messages // 5)
    for scenario in scenarios:
        begin, cpu = time.monotonic(), time.process_time()
        count = await run(scenario)
        found[scenario] = (count, time.monotonic() - begin, time.process_time() - cpu)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="What Python clients cost beside each other.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--published", metavar="PYTHON", default=".venv-sdk-2/bin/python")
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="these scenarios alone")
    parser.add_argument("--name", action="append", choices=list(CLIENTS), help="these clients alone")
    parser.add_argument("--client", nargs=3, metavar=("NAME", "URL", "QUEUE"), help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.client:
        name, url, queue = words.client
        found = asyncio.run(measured(name, url, queue, words.messages, words.scenario or SCENARIOS))
        print(json.dumps(found), flush=True)
        os._exit(0)     # queen-mq waits for its own shutdown
    from lab import Lab
    rounds: dict[tuple[str, str], list] = {}
    with Lab.opened(None) as lab:
        url = f"http://{lab.server.host}:{lab.server.port}"
        for number in range(words.rounds):
            for name in words.name or CLIENTS:
                python = words.published if name == "queen-mq" else sys.executable
                done = subprocess.run([python, str(HERE), "--messages", str(words.messages), *[
                    word for one in words.scenario or () for word in ("--scenario", one)], "--client", name, url,
                                       f"{name}-{number}"], check=True, stdout=subprocess.PIPE, text=True)
                for scenario, spent in json.loads(done.stdout.splitlines()[-1]).items():
                    rounds.setdefault((scenario, name), []).append(spent)
    for (scenario, name), spent in sorted(rounds.items()):
        print(json.dumps(dict(scenario=scenario, client=name,
                              messages_per_s=round(statistics.median(n / s for n, s, _ in spent)),
                              cpu_us_per_message=round(statistics.median(c / n * 1e6 for n, _, c in spent), 1))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
