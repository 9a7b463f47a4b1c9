"""Streams of the published SDK, one line on standard output for each that did what it should; run by
test_streams_sdk.py.

Usage: sdk_streams.py URL TOKEN [name of a case …]; no token: an empty one. All run at once: what takes time is waiting
for windows and leases to end.
"""
from __future__ import annotations

import asyncio
import sys
from collections import Counter

import sdk_covered
from queen import Queen
from queen.streams import Stream, sliding_window_gate, token_bucket_gate

URL, TOKEN = sys.argv[1], sys.argv[2] or None
SECONDS = 90      # after which a test has failed
REFUSED = "Invalid or expired lease"
PARTITIONS, EACH = 10, 200      # of what survives
BASE = 1_800_000_000_000      # ms, a whole minute: event times of the tests


class Case:
    """Queues and a query of its own."""

    def __init__(self, queen: Queen, name: str):
        self.queen, self.name = queen, name
        self.source, self.sink = f"{name}-in", f"{name}-out"
        self.runners: list = []
        self.errors: list[str] = []
        self.seen: list = []
        self.short = False

    async def short_leases(self) -> None:
        """Leases of a second. On a busy machine one may end before its cycle comes, which is refused then; what it
        covered comes again."""
        await self.queen.queue(self.source).config({"lease_time": 1}).create()
        self.short = True

    def wrong(self) -> list[str]:
        return [error for error in self.errors if not (self.short and error.endswith(REFUSED))]

    def stream(self, **options) -> Stream:
        return Stream.from_(self.queen.queue(self.source), **options)

    async def run(self, stream: Stream, query: str | None = None, **options):
        runner = await stream.run(query_id=query or self.name, url=URL, bearer_token=TOKEN, max_wait_millis=200,
                                  on_error=lambda error, at: self.errors.append(f"{at}: {error}"), **options)
        self.runners.append(runner)
        return runner

    async def push(self, *values, partition: str = "p") -> None:
        for done in await self.queen.queue(self.source).partition(partition).push(
                [{"data": value} for value in values]):
            assert done["status"] == "queued", done

    async def until(self, enough) -> None:
        """Looks again and again until something true is seen."""
        async with asyncio.timeout(SECONDS):
            while not enough():
                await asyncio.sleep(0.02)

    async def collect(self, count: int, sink: str | None = None) -> dict[str, list]:
        """The first `count` messages of the sink by partition, and those that are there besides."""
        seen: dict[str, list] = {}
        self.seen.append(seen)
        async with asyncio.timeout(SECONDS):
            while sum(map(len, seen.values())) < count:
                for message in (await self.queen.queue(sink or self.sink).batch(100).partitions(20).wait(True)
                                .timeout_millis(5000).pop() or []):
                    seen.setdefault(message["partition"], []).append(message["data"])
                    await self.queen.ack(message, True)
        for message in await self.queen.queue(sink or self.sink).batch(100).partitions(20).wait(False).pop() or []:
            seen.setdefault(message["partition"], []).append(message["data"])
        return seen

    async def stop(self) -> None:
        for runner in self.runners:
            await runner.stop()
        self.runners.clear()

    async def state(self, runner) -> dict:
        (message,) = (await self.queen.queue(self.source).partition("p").group(f"peek-{self.name}")
                      .batch(1).wait(False).pop())
        answer = await runner.http.post("/streams/v1/state/get", {"query_id": runner.metrics()["serverQueryId"],
                                                                  "partition_id": message["partitionId"]})
        return {row["key"]: row["value"] for row in answer["rows"]}


def at(second: float, value: int = 1, **more) -> dict:
    return {"t": BASE + int(second * 1000), "v": value, **more}


def event_time(message: dict) -> int:
    return message["data"]["t"]


def sums(emits: list[dict]) -> Counter:
    """Window start in seconds since BASE (and key) → sum."""
    total: Counter = Counter()
    for one in emits:
        total[(one["start"], one["key"]) if "key" in one else one["start"]] += one["sum"]
    return total


def windowed(stream: Stream, key: bool = False) -> Stream:
    """Sums of v with their windows, as messages for the sink."""
    return stream.aggregate({"sum": lambda value: value["v"], "count": lambda value: 1}).map(
        lambda value, ctx: {**value, "start": (ctx["windowStart"] - BASE) / 1000,
                            **({"key": ctx["key"]} if key else {})})


def counting(case: Case, stream: Stream | None = None) -> Stream:
    """For messages that may come again: late ones are counted. The SDK moves its watermark before it knows what came of
    the cycle, so after a first cycle that was refused it would take them for late and drop them."""
    return windowed((stream or case.stream()).window_tumbling(seconds=10, event_time=event_time, on_late="include",
                                                              idle_flush_ms=60000)).to(case.queen.queue(case.sink))


async def operators(case: Case) -> None:
    await case.push(*({"n": n} for n in range(20)), partition="a")
    await case.push(*({"n": n} for n in range(10)), partition="b")
    await case.run(case.stream().filter(lambda m: m["data"]["n"] % 2 == 0)
                   .flat_map(lambda m: [{"n": m["data"]["n"], "c": c} for c in "xy"]).to(case.queen.queue(case.sink)))
    seen = await case.collect(30)
    assert seen == {name: [{"n": n, "c": c} for n in range(0, top, 2) for c in "xy"]
                    for name, top in (("a", 20), ("b", 10))}, seen


async def mapping_to_partitions(case: Case) -> None:
    await case.push(*range(12))
    await case.run(case.stream().map(lambda m: m["data"] * 10)
                   .to(case.queen.queue(case.sink), partition=lambda value: f"m{value // 10 % 3}"))
    assert await case.collect(12) == {f"m{k}": [{"value": n * 10} for n in range(k, 12, 3)] for k in range(3)}


async def effects(case: Case) -> None:
    seen: list = []
    await case.push(*range(5))
    runner = await case.run(case.stream().map(lambda m: m["data"])
                            .foreach(lambda value, ctx: seen.append((value, ctx["partition"]))))
    await case.until(lambda: runner.metrics()["messagesTotal"] == 5)
    assert seen == [(n, "p") for n in range(5)], seen


async def tumbling_with_idle_flush(case: Case) -> None:
    """By the clock: nothing comes after the last message, so the flush closes its window."""
    await case.run(case.stream().key_by(lambda m: m["data"]["k"]).window_tumbling(seconds=1, idle_flush_ms=1100).reduce(
        lambda total, value: total + value["v"],
        0).map(lambda value, ctx: {"sum": value, "key": ctx["key"], "start": 0}).to(case.queen.queue(case.sink)))
    await case.push(*({"k": "ab"[n % 2], "v": n} for n in range(30)))
    seen: list = []
    case.seen.append(seen)
    async with asyncio.timeout(SECONDS):
        while sum(one["sum"] for one in seen) < 435:
            for message in await case.queen.queue(case.sink).batch(100).wait(True).timeout_millis(2000).pop() or []:
                seen.append(message["data"])
                await case.queen.ack(message, True)
    assert sums(seen) == {(0, "a"): 210, (0, "b"): 225}, seen


async def tumbling_by_event_time(case: Case) -> None:
    runner = await case.run(windowed(case.stream().window_tumbling(
        seconds=10, event_time=event_time, grace_period=5, idle_flush_ms=60000)).to(case.queen.queue(case.sink)))
    await case.push(at(1), at(9.9, 2), at(10, 4), at(19, 8), at(14.9, 16))
    await case.push(at(25, 32))
    seen = await case.collect(2)
    assert sums(seen["p"]) == {0: 3, 10: 28}, seen      # 10 + 10 + 5 of grace is 25
    state = await case.state(runner)
    assert (sorted(state) == ["__wm__", next(key for key in state if key.startswith("tumb:10\x1f"))]
            and state["__wm__"] == {"eventTimeMs": BASE + 25000}), state


async def sliding(case: Case) -> None:
    await case.run(windowed(case.stream().window_sliding(size=4, slide=2, event_time=event_time, idle_flush_ms=60000))
                   .to(case.queen.queue(case.sink)))
    await case.push(at(1), at(3, 2), at(5, 4), at(30, 8))
    seen = await case.collect(4)
    assert sums(seen["p"]) == {-2: 1, 0: 3, 2: 6, 4: 4}, seen


async def session(case: Case) -> None:
    await case.run(windowed(case.stream().key_by(lambda m: m["data"]["k"])
                            .window_session(gap=5, event_time=event_time, allowed_lateness=3, idle_flush_ms=60000),
                            key=True).to(case.queen.queue(case.sink)))
    await case.push(at(0, 1, k="a"), at(3, 2, k="a"), at(4, 4, k="b"), at(9, 8, k="a"))
    await case.push(at(8, 16, k="b"), at(40, 0, k="end"))
    seen = await case.collect(3)
    assert sums(seen["p"]) == {(0, "a"): 3, (9, "a"): 8, (4, "b"): 20}, seen


async def session_with_idle_flush(case: Case) -> None:
    await case.run(windowed(case.stream().window_session(gap=1, idle_flush_ms=700)).to(case.queen.queue(case.sink)))
    await case.push({"v": 1}, {"v": 2})
    seen = await case.collect(1)
    assert sum(one["sum"] for one in seen["p"]) == 3, seen


async def cron(case: Case) -> None:
    await case.run(windowed(case.stream().window_cron(every="minute", event_time=event_time, idle_flush_ms=60000))
                   .to(case.queen.queue(case.sink)))
    await case.push(at(59.9), at(60, 2), at(61, 4), at(120, 8))
    seen = await case.collect(2)
    assert sums(seen["p"]) == {0: 1, 60: 6}, seen


def late(policy: str):
    async def case_of(case: Case) -> None:
        runner = await case.run(windowed(case.stream().window_tumbling(
            seconds=10, event_time=event_time, on_late=policy, allowed_lateness=2, idle_flush_ms=60000)).to(
            case.queen.queue(case.sink)))
        await case.push(at(1), at(30, 2))
        assert sums((await case.collect(1))["p"]) == {0: 1}
        await case.push(at(27.9, 4), at(28, 8))      # the watermark is 28
        await case.push(at(60, 16))
        seen = sums((await case.collect(2))["p"])
        assert seen == {20: 12 if policy == "include" else 8, 30: 2}, seen
        assert runner.metrics()["lateEventsTotal"] == (policy == "drop"), runner.metrics()

    return case_of


async def gate(case: Case) -> None:
    """What is denied comes again, in its place, when the lease has ended."""
    await case.short_leases()
    denied: set = set()

    def allow(value, ctx) -> bool:
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        if value % 4 == 3 and value not in denied:
            denied.add(value)
            return False
        return True

    await case.push(*range(10))
    runner = await case.run(case.stream().map(lambda m: m["data"]).gate(allow).to(case.queen.queue(case.sink)))
    assert await case.collect(10) == {"p": [{"value": n} for n in range(10)]} and denied == {3, 7}
    assert [value["n"] >= 10 for value in (await case.state(runner)).values()] == [True]


async def rate_limits(case: Case) -> None:
    await case.short_leases()
    await case.push(*range(12))
    await case.run(case.stream().gate(token_bucket_gate(capacity=5, refill_per_sec=20)).to(case.queen.queue(case.sink)))
    await case.run(case.stream().gate(sliding_window_gate(limit=6, window_sec=1))
                   .to(case.queen.queue(f"{case.sink}-2")), f"{case.name}-2")
    both = await asyncio.gather(case.collect(12), case.collect(12, f"{case.sink}-2"))
    assert [[one["value"]["data"] if "value" in one and isinstance(one["value"], dict) else one.get("value")
             for one in seen["p"]] for seen in both] == [list(range(12))] * 2, both


async def mismatch_and_reset(case: Case) -> None:
    def stream(seconds: int) -> Stream:
        return windowed(case.stream().window_tumbling(seconds=seconds, event_time=event_time, idle_flush_ms=60000)).to(
            case.queen.queue(case.sink))

    runner = await case.run(stream(10))
    await case.push(at(1))
    await case.until(lambda: runner.metrics()["cyclesTotal"] == 1)
    await case.stop()
    try:
        await case.run(stream(20))
        raise AssertionError("another chain was taken for the same query")
    except Exception as error:
        assert (type(error).__name__ == "StreamsConfigHashMismatch" and "config_hash mismatch" in str(error)
                and "reset" in str(error)), error
    runner = await case.run(stream(20), reset=True)
    await case.push(at(2, 2), at(50, 4))
    assert sums((await case.collect(1))["p"]) == {0: 2}, "what was counted before the reset is gone"


async def resumed(case: Case) -> None:
    """Stopped and started again: nothing is counted twice, nothing lost."""
    await case.short_leases()      # what a runner that stops has in hand comes again
    for part in range(3):
        runner = await case.run(counting(case), batch_size=7)
        await case.push(*(at(n / 10, 1) for n in range(part * 30, part * 30 + 30)))
        await case.until(lambda: runner.metrics()["messagesTotal"] >= 1)
        await case.stop()
    await case.run(counting(case))
    await case.push(at(30, 0))
    assert sums((await case.collect(1))["p"]) == {0: 90}


async def refused(case: Case) -> None:
    """A delivery that is taken away before its cycle comes: nothing of the cycle takes effect, and what comes again is
    counted once."""
    taken: list = []

    async def take_away(message: dict) -> bool:
        if not taken:
            taken.append(await case.queen.ack(message, False, {"group": f"streams.{case.name}"}))
        return True

    runner = await case.run(counting(case, case.stream().filter(take_away)))
    await case.push(*(at(n / 10) for n in range(7)))
    await case.until(lambda: runner.metrics()["messagesTotal"] == 7)
    assert taken[0]["success"] and len(case.errors) == 1 and case.errors.pop().endswith(REFUSED)
    await case.push(at(30, 0))
    assert sums((await case.collect(1))["p"]) == {0: 7}


async def crowd(case: Case) -> None:
    """Two runners of one query and one of another share a source of many partitions."""
    def stream(sink: str) -> Stream:
        return windowed(case.stream().window_tumbling(seconds=10, event_time=event_time, idle_flush_ms=60000)).to(
            case.queen.queue(sink))

    for query, sink in ((None, case.sink), (None, case.sink), ("alone", f"{case.sink}-2")):
        await case.run(stream(sink), query and f"{case.name}-{query}", batch_size=5, max_partitions=3)
    for n in range(4):
        for partition in range(8):
            await case.push(*(at(n, 1) for _ in range(10)), partition=str(partition))
    for partition in range(8):
        await case.push(at(60, 0), partition=str(partition))
    for seen in await asyncio.gather(case.collect(8), case.collect(8, f"{case.sink}-2")):
        assert {name: sums(emits) for name, emits in seen.items()} == {str(n): {0: 40} for n in range(8)}, seen


async def survives(case: Case) -> None:
    """The daemon is killed and started again while this runs: every message is counted once."""
    await case.short_leases()
    for partition in range(PARTITIONS):
        await case.push(*(at(n / 100) for n in range(EACH)), partition=str(partition))
    runner = await case.run(counting(case), batch_size=10)
    print("runs", flush=True)
    while True:
        try:
            for partition in range(PARTITIONS):
                await case.queen.queue(case.source).partition(str(partition)).push(
                    [{"transactionId": f"end-{partition}", "data": at(60, 0)}])
            break
        except Exception:
            await asyncio.sleep(0.1)
    seen: dict[str, list] = {}
    async with asyncio.timeout(SECONDS):
        while len(seen) < PARTITIONS or runner.metrics()["messagesTotal"] < 1:
            try:
                for message in (await case.queen.queue(case.sink).batch(100).partitions(20).wait(True)
                                .timeout_millis(1000).pop() or []):
                    if all(one["id"] != message["id"] for one in seen.setdefault(message["partition"], [])):
                        seen[message["partition"]].append({"id": message["id"], **message["data"]})
                    await case.queen.ack(message, True)
            except Exception:
                await asyncio.sleep(0.1)
    case.errors.clear()      # the daemon was away
    assert {name: sums(emits) for name, emits in seen.items()} == {str(n): {0: EACH} for n in range(PARTITIONS)}, seen
    assert all(len(emits) == 1 for emits in seen.values()), seen


CASES = {"operators": operators, "map": mapping_to_partitions, "foreach": effects, "tumbling": tumbling_with_idle_flush,
         "event-time": tumbling_by_event_time,
         "sliding": sliding, "session": session, "session-flush": session_with_idle_flush, "cron": cron,
         "late-drop": late("drop"), "late-include": late("include"),
         "gate": gate, "rate": rate_limits, "mismatch": mismatch_and_reset, "resumed": resumed, "refused": refused,
         "crowd": crowd, "survives": survives}


async def one(queen: Queen, name: str) -> str | None:
    """What went wrong, or None."""
    case = Case(queen, f"s-{name}")
    try:
        await CASES[name](case)
        assert not case.wrong(), case.wrong()
    except Exception as error:
        return f"{name}: {error!r} {[runner.metrics() for runner in case.runners]} {case.errors} {case.seen}"
    finally:
        await case.stop()
    print(name)
    return None


async def main() -> None:
    sdk_covered.watch()
    async with Queen(url=URL, bearer_token=TOKEN) as queen:
        if wrong := list(filter(None, await asyncio.gather(
                *(one(queen, name) for name in (sys.argv[3:] or sorted(CASES.keys() - {"survives"})))))):
            raise SystemExit("\n".join(wrong))
    sdk_covered.tell()


asyncio.run(main())
