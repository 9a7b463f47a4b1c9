"""Cycles without an acknowledgment close windows that their client has read: they are bound to that read, and wait for
a lease."""
from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from support.client import Client, data
from support.daemon import Daemon
from support.streams import Stream
from support.wait import until

READS: dict[str, dict] = {
    "ended windows": {"keys": [], "key_prefix": "w\x1f", "ripe_at_or_before": 2000},
    "everything": {"keys": []},
    "one key": {"keys": ["w\x1fp"]},
}
CHANGED = "The state has changed since it was read: read it again"
CONSUMED = "The partition is being consumed: try again"
KEY = "w\x1fp"


class Windows:
    """A stream that counts messages of a partition in a window, as the clients do: a main loop and flushes."""

    def __init__(self, client: Client, queue: str):
        self.client, self.queue, self.sink = client, queue, f"{queue}-sink"
        self.stream = Stream(client, queue, queue)
        self.partition = ""

    def deliver(self) -> list[dict]:
        self.client.push(self.queue, 1, partition="p")
        messages = self.stream.pop()
        self.partition = messages[0]["partitionId"]
        return messages

    def count(self, number: int, messages: list[dict] | None = None) -> dict:
        """The main loop takes a message into the window."""
        window = {"acc": {"count": number}, "windowStart": 0, "windowEnd": 1000}
        return self.stream.cycle(messages or self.deliver(), {KEY: window})

    def read(self, how: str = "ended windows") -> int:
        return self.stream.state(self.partition, **READS[how])[KEY]["acc"]["count"]

    def flush_body(self, count: int, pushes: bool = True) -> dict:
        push = [{"queue": self.sink, "partition": "p", "payload": {"count": count}}] if pushes else []
        return self.stream.body(self.partition, push=push, unsets=[KEY], consumer_group=self.stream.group)

    def flush(self, count: int, pushes: bool = True) -> str | None:
        """None: done; the error otherwise."""
        answer = self.stream.post(self.flush_body(count, pushes))
        assert answer["success"] == ("error" not in answer)
        return answer.get("error")

    def send_flush(self, other: Client, count: int) -> None:
        """Leaves it waiting for the lease."""
        jobs = self.jobs()
        other.send("POST", "/streams/v1/cycle", json.dumps(self.flush_body(count)).encode())
        until(lambda: self.jobs() > jobs, "the flush has come")

    def jobs(self) -> float:
        return self.client.metric("queend_worker_jobs")

    def counted(self) -> list[int]:
        return [one["count"] for one in data(self.client.pop(self.sink, batch=10, autoAck=True,
                                                             subscriptionMode="all"))]


@pytest.fixture
def windows(client: Client, queue: str) -> Windows:
    one = Windows(client, queue)
    assert one.count(1)["success"]
    return one


@pytest.mark.parametrize("pushes", [True, False], ids=["sink", "foreach"])
@pytest.mark.parametrize("how", READS)
def test_a_window_that_changed_since_it_was_read_stays(windows: Windows, how: str, pushes: bool) -> None:
    read = windows.read(how)
    assert windows.count(2)["success"]
    assert windows.flush(read, pushes) == CHANGED
    assert windows.read(how) == 2 and windows.counted() == []
    assert windows.flush(2) is None
    assert windows.counted() == [2]


def test_the_main_loop_reads_beside_the_flush(windows: Windows) -> None:
    read = windows.read()
    messages = windows.deliver()
    assert windows.read("everything") == 1 and windows.count(2, messages)["success"]
    messages = windows.deliver()
    assert windows.read("everything") == 2
    assert windows.stream.cycle(messages, {"another": 1})["success"]
    assert windows.flush(read) == CHANGED
    assert windows.read() == 2 and windows.flush(2) is None and windows.counted() == [2]


def test_a_runner_that_read_before_is_not_taken_for_one_that_read_since(windows: Windows) -> None:
    """Nothing in the requests tells one runner of the query from the other."""
    first = windows.read()
    assert windows.count(2)["success"]
    second = windows.read()
    assert (first, second) == (1, 2)
    assert windows.flush(first) == CHANGED and windows.flush(second) == CHANGED
    assert windows.read() == 2 and windows.flush(2) is None and windows.counted() == [2]


def test_what_another_read_is_no_read_of_the_window(windows: Windows) -> None:
    read = windows.read()
    assert windows.count(2)["success"]
    assert windows.stream.cycle(windows.partition, {"another": {"windowEnd": 5}})["success"]
    assert windows.stream.state(windows.partition, keys=["another"]) == {"another": {"windowEnd": 5}}
    assert windows.stream.state(windows.partition, key_prefix="an", ripe_at_or_before=10).keys() == {"another"}
    assert windows.flush(read) == CHANGED


def test_a_window_that_was_closed_and_opened_again_is_another(windows: Windows) -> None:
    read = windows.read()
    assert windows.read("everything") == 1 and windows.flush(1) is None
    assert windows.count(1)["success"]
    assert windows.flush(read) == CHANGED
    assert windows.read() == 1 and windows.flush(1) is None and windows.counted() == [1, 1]


def test_windows_that_another_closed_are_closed(windows: Windows) -> None:
    """Both have read before either closes them. Nothing is stored twice, and nothing is wrong with the second."""
    reads = windows.read(), windows.read()
    body = windows.flush_body(reads[0])
    assert windows.flush(reads[1]) is None
    for _ in range(2):
        answer = windows.stream.post(body)
        assert (answer["success"], answer["state_ops_applied"], answer["push_results"]) == (True, 0, [])
    assert windows.counted() == [1]


def test_a_window_that_was_never_read_is_not_called_closed(windows: Windows) -> None:
    body = windows.stream.body(windows.partition, push=[{"queue": windows.sink, "payload": 1}], unsets=["never"])
    assert windows.stream.post(body)["error"] == CHANGED


def test_a_client_that_never_reads_may_delete_what_it_knows(windows: Windows) -> None:
    windows.deliver()
    assert windows.flush(1, pushes=False) is None
    assert windows.stream.state(windows.partition) == {}


def test_one_of_two_windows_was_closed_by_another(windows: Windows) -> None:
    assert windows.stream.cycle(windows.partition, {"w\x1fq": {"acc": {"count": 5}, "windowEnd": 900}})["success"]
    windows.read()
    assert windows.stream.cycle(windows.partition, unsets=["w\x1fq"])["success"]
    both = {**windows.flush_body(6), "state_ops": [{"type": "delete", "key": key} for key in (KEY, "w\x1fq")]}
    assert windows.stream.post(both)["error"] == CHANGED
    assert windows.read() == 1 and windows.flush(1) is None and windows.counted() == [1]


def test_a_read_is_known_at_every_daemon_and_after_a_restart(start_daemon: Callable[..., Daemon], queue: str) -> None:
    first = start_daemon()
    with first.client() as client, start_daemon(first.conninfo).client() as other:
        windows, beside = Windows(client, queue), Windows(other, queue)
        windows.count(1)
        beside.partition = windows.partition
        read = windows.read()
        assert windows.count(2)["success"]
        assert beside.flush(read) == CHANGED
        read = windows.read()
        assert windows.count(3)["success"]
    first.stop()
    with start_daemon(first.conninfo).client() as client:
        later = Windows(client, queue)
        later.partition = windows.partition
        assert later.flush(read) == CHANGED
        assert later.read() == 3 and later.flush(3) is None and later.counted() == [3]


# ---- beside a lease --------------------------------------------------------------------------------------------------


def changed(windows: Windows, messages: list[dict]) -> dict:
    return windows.count(2, messages)


def closed(windows: Windows, messages: list[dict]) -> dict:
    return windows.stream.cycle(messages, push=[{"queue": windows.sink, "partition": "p", "payload": {"count": 2}}],
                                unsets=[KEY])


def untouched(windows: Windows, messages: list[dict]) -> dict:
    return windows.stream.cycle(messages, {"another": 1})


@pytest.mark.parametrize("main, error, counted", [(changed, CHANGED, []), (closed, None, [2]), (untouched, None, [1])],
                         ids=["changed", "closed", "untouched"])
def test_a_flush_waits_for_the_end_of_the_lease(daemon: Daemon, windows: Windows, main: Callable, error: str | None,
                                                counted: list[int]) -> None:
    read = windows.read()
    messages = windows.deliver()
    with daemon.client() as other:
        windows.send_flush(other, read)
        assert main(windows, messages)["success"]
        assert other.receive().json.get("error") == error
    assert windows.counted() == counted


def test_a_flush_waits_two_seconds_at_most(windows: Windows) -> None:
    """The main loop, which has read nothing since, is refused then if it rests on the same window; not if it reads."""
    read = windows.read()
    messages = windows.deliver()
    started = time.monotonic()
    assert windows.flush(read) is None
    assert time.monotonic() - started >= 2
    assert windows.count(2, messages)["error"] == CHANGED and closed(windows, messages)["error"] == CHANGED
    assert windows.stream.state(windows.partition) == {}
    assert windows.count(1, messages)["success"]
    assert windows.read() == 1 and windows.flush(1) is None and windows.counted() == [1, 1]


def test_a_flush_of_a_client_that_left_is_not_done(daemon: Daemon, windows: Windows) -> None:
    read = windows.read()
    messages = windows.deliver()
    jobs = windows.jobs()
    with daemon.client() as other:
        windows.send_flush(other, read)
        other.wire.abort()
        until(lambda: windows.jobs() == jobs, "the flush has ended")
    assert untouched(windows, messages)["success"]
    assert windows.read() == 1 and windows.counted() == []


def test_a_flush_that_waits_does_not_hold_up_the_stop(start_daemon: Callable[..., Daemon], queue: str) -> None:
    daemon = start_daemon()
    with daemon.client() as client, daemon.client() as other:
        windows = Windows(client, queue)
        windows.count(1)
        read = windows.read()
        windows.deliver()
        windows.send_flush(other, read)
        daemon.terminate()
        assert other.receive().json["error"] == CONSUMED
        daemon.ended()
