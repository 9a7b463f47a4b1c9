"""queend bench: pushes and pops as fast as a few connections can, and prints rates and latencies."""
from __future__ import annotations

import json
import random
import resource
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any, Optional

import typer

from ..plural import many
from ..duration import exact
from .client import Server, ServerError
from .output import Format, Output, Progress, facts, one, short, size
from .pop import acknowledgment
from .remote import Foreign, Stop, remote, seconds, tell
from .resources import LONG_S, found
from .sample import Sample
from .server_names import queues

DRAIN_S = 30.0      # time for pushed messages to arrive after the last push
WAIT_MS = 500       # of a pop
SAMPLES = 200_000   # latencies kept of each kind and thread
MOST = 256          # most threads of a kind


class Load:
    """The state that all threads share: the end, the messages left and the first error. Each thread has its own
    counts."""

    def __init__(self, seconds: float, messages: int | None):
        self.end, self.left = time.monotonic() + seconds, messages
        self.pushing, self.stop = True, threading.Event()
        self.error: Exception | None = None
        self.lock = threading.Lock()

    def take(self, batch: int) -> int:
        """Returns how many messages a producer may push next; 0 at the end."""
        if self.stop.is_set() or time.monotonic() >= self.end:
            return 0
        with self.lock:
            if self.left is None:
                return batch
            taken = min(batch, self.left)
            self.left -= taken
            return taken

    def failed(self, error: Exception) -> None:
        with self.lock:
            self.error = self.error or error
        self.stop.set()


class Counts:
    """The counts of one thread."""

    def __init__(self) -> None:
        self.messages = self.requests = 0
        self.took, self.acked, self.delivered = Sample(SAMPLES), Sample(SAMPLES), Sample(SAMPLES)


@remote
def bench(
    server: Server,
    queue: Annotated[Optional[str], typer.Argument(help="An existing queue; its messages are consumed. Default: a "
                                                        "temporary queue, deleted at the end.",
                                                   autocompletion=queues)] = None,
    producers: Annotated[int, typer.Option("--producers", min=0, max=MOST, help="Number of connections that "
                         "push.")] = 2,
    consumers: Annotated[int, typer.Option("--consumers", min=0, max=MOST, help="Number of connections that pop and "
                         "acknowledge.")] = 2,
    lasts: Annotated[str, typer.Option("--for", "--seconds", "-s", metavar="DURATION", help="Push for this "
                     "long.")] = "10s",
    messages: Annotated[Optional[int], typer.Option("--messages", "-m", min=1, help="Stop pushing after this many "
                        "messages, if --for has not ended before.")] = None,
    batch: Annotated[int, typer.Option("--batch", "-n", min=1, max=10_000, help="Messages per push, and maximum "
                     "messages per pop.")] = 100,
    payload: Annotated[int, typer.Option("--size", metavar="BYTES", min=0, max=1 << 20, help="Payload size.")] = 200,
    partitions: Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of partitions that the messages are "
                          "spread over.")] = 16,
    auto_ack: Annotated[bool, typer.Option("--auto-ack", help="Consume messages with the delivery, without "
                        "acknowledgments.")] = False,
    output: Output = Format.table,
) -> None:
    """Measure push and pop rates and latencies. With small batches this Python client reaches its limit before the
    server does."""
    length = seconds(lasts, "--for", 0.1, 86400)
    if queue is not None and consumers:
        found(server, queue, "omit the name to use a temporary queue", limit=0)
    own = queue is None
    name = queue or f"bench-{random.randrange(1 << 40):x}"
    if own:
        server.post("/api/v1/configure", body={"queue": name, "options": {}})
    load = Load(length, messages)
    made = [Counts() for _ in range(producers)]
    taken = [Counts() for _ in range(consumers)]
    try:
        began, before = time.monotonic(), _used()
        threads = [_thread(load, server, produce, counts, name, batch, payload, partitions) for counts in made]
        others = [_thread(load, server, consume, counts, name, batch, auto_ack) for counts in taken]
        with Progress("measuring", length, "s") as progress:
            pushed_s = _wait(threads, load, progress, began)
        load.pushing = False
        pushed = sum(one.messages for one in made)
        ended = _drain(load, others, taken, pushed if own else None) - began
        used = (_used() - before) / max(time.monotonic() - began, 1e-9)
    finally:
        load.stop.set()
        if own:
            _deleted(server, name)
    if load.error:
        raise load.error
    result = _result(name, server.url, made, taken, pushed_s, ended, batch, payload, partitions, used)
    result["allArrived"] = not own or not consumers or result["popped"]["messages"] == pushed
    one(result, output, lambda: _told(result), "queue")
    if used > 0.9:
        tell("this client used a full CPU core: the server may reach higher "
             "rates", "run several `queend bench` in parallel to find "
             "out")
    if not result["allArrived"]:
        raise Stop(f"pushed {many(pushed, 'message')}, but only {result['popped']['messages']} were delivered within "
                   f"{exact(DRAIN_S)}")


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _thread(load: Load, server: Server, work: Callable[..., None], counts: Counts, *more: Any) -> threading.Thread:
    """Starts a thread with a connection of its own."""
    def run() -> None:
        mine = Server(server.url, server.token, server.timeout, server.ca, server.cert)
        try:
            work(load, mine, counts, *more)
        except Exception as error:
            load.failed(error)
        finally:
            mine.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def produce(load: Load, server: Server, counts: Counts, queue: str, batch: int, payload: int, partitions: int) -> None:
    filler, at = "x" * payload, random.randrange(partitions)
    while n := load.take(batch):
        at = (at + 1) % partitions
        text = json.dumps({"at": time.time(), "x": filler})
        head = json.dumps({"queue": queue, "partition": f"p{at}"})[:-1]
        item = f'{head},"payload":{text}}}'
        began = time.monotonic()
        rows = server.read(server.call("POST", "/api/v1/push", body=f'{{"items":[{",".join([item] * n)}]}}'.encode()),
                           "POST")
        counts.took.add(time.monotonic() - began)
        if not isinstance(rows, list) or len(rows) != n:
            raise Foreign(server.url)
        if wrong := [row for row in rows if row.get("status") not in ("queued", "duplicate")]:
            raise Stop(f"a push was refused with status {wrong[0].get('status')}: {wrong[0].get('error', '')}")
        counts.messages += n
        counts.requests += 1


def consume(load: Load, server: Server, counts: Counts, queue: str, batch: int, auto_ack: bool) -> None:
    while not load.stop.is_set():
        began = time.monotonic()
        answer = server.get("/api/v1/pop/queue/{}", queue, batch=batch, wait=True, timeout=WAIT_MS,
                            autoAck=auto_ack or None)
        now, rows = time.monotonic(), (answer or {}).get("messages", [])
        if not rows:
            continue
        counts.took.add(now - began)
        moment = time.time()
        for row in rows:
            if isinstance(row["data"], dict) and isinstance(row["data"].get("at"), float):
                counts.delivered.add(moment - row["data"]["at"])
        if not auto_ack:
            began = time.monotonic()
            done = server.post("/api/v1/ack/batch", body={"acknowledgments": [acknowledgment(row) for row in rows]})
            counts.acked.add(time.monotonic() - began)
            if refused := [row for row in done or [] if not row.get("success")]:
                raise Stop(f"an acknowledgment was refused: {refused[0].get('error')}")
        counts.messages += len(rows)
        counts.requests += 1


def _wait(threads: list[threading.Thread], load: Load, progress: Progress, began: float) -> float:
    """Waits until every producer has ended; without producers, until the time is over. Returns how long that took."""
    told = began
    while not load.stop.is_set() and (any(one.is_alive() for one in threads) or not threads
                                      and time.monotonic() < load.end):
        load.stop.wait(0.1)
        now = time.monotonic()
        progress.add(now - told)
        told = now
    return time.monotonic() - began


def _drain(load: Load, threads: list[threading.Thread], taken: list[Counts], pushed: int | None) -> float:
    """Waits until all pushed messages have arrived, at most DRAIN_S, and ends the threads. Returns when the last one
    arrived."""
    until = time.monotonic() + (DRAIN_S if pushed is not None else 0.0)
    while threads and not load.stop.is_set() and time.monotonic() < until and (
            sum(one.messages for one in taken) < (pushed or 0)):
        time.sleep(0.01)
    ended = time.monotonic()
    load.stop.set()
    for thread in threads:
        thread.join(WAIT_MS / 1000 + 30)
    return ended


def _deleted(server: Server, name: str) -> None:
    try:
        server.delete("/api/v1/resources/queues/{}", name, within=LONG_S)
    except ServerError as error:
        tell(f"the queue {name} was not deleted: {error.text}", f"delete it with: queend queue delete {name}")


def _result(name: str, url: str, made: list[Counts], taken: list[Counts], pushed_s: float, popped_s: float, batch: int,
            payload: int, partitions: int, used: float) -> dict[str, Any]:
    def side(counts: list[Counts], seconds: float, **kinds: str) -> dict[str, Any]:
        messages = sum(one.messages for one in counts)
        return {"connections": len(counts), "messages": messages, "requests": sum(one.requests for one in counts),
                "perSecond": round(messages / seconds, 1) if seconds else 0.0,
                **{word: spread([getattr(one, kind) for one in counts]) for word, kind in kinds.items()}}

    return {"url": url, "queue": name, "batch": batch, "size": payload, "partitions": partitions,
            "seconds": round(popped_s, 3), "clientCpu": round(used, 2),
            "pushed": side(made, pushed_s, latencyMs="took"),
            "popped": side(taken, popped_s, latencyMs="took", ackLatencyMs="acked", deliveryMs="delivered")}


def spread(samples: list[Sample]) -> dict[str, float]:
    """Returns percentiles in ms."""
    values = sorted(value for one in samples for value in one.kept)
    if not values:
        return {}
    shares = {word: values[int(len(values) * share)] for word, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))}
    return {word: round(value * 1000, 2)
            for word, value in {**shares, "most": max(one.most for one in samples)}.items()}


def _told(result: dict[str, Any]) -> None:
    def latency(values: dict[str, float]) -> str:
        return " ".join(f"{word} {value:g}ms" for word, value in values.items())

    made, taken = result["pushed"], result["popped"]
    where = f"{size(result['size'])} each, {many(result['partitions'], 'partition')}, {result['batch']} per request"
    facts([("server", result["url"]), ("messages", where),
           ("pushed", f"{short(made['messages'])} by {many(made['connections'], 'connection')}, "
                      f"{short(made['perSecond'])}/s"),
           ("push latency", latency(made["latencyMs"])),
           ("popped", f"{short(taken['messages'])} by {many(taken['connections'], 'connection')}, "
                      f"{short(taken['perSecond'])}/s"
            if taken["connections"] else ""),
           ("pop latency", latency(taken["latencyMs"])), ("ack latency", latency(taken["ackLatencyMs"])),
           ("delivery latency", latency(taken["deliveryMs"]))])
