"""The benchmark measures what it says: its load is as described, its report complete, and a wrong answer fails the
run."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid

import pytest
from support.load import BENCH, load

FIELDS = ["scenario", "messages_per_s", "requests_per_s", "p50_ms", "p99_ms", "daemon_cpu_us_per_message",
          "postgres_cpu_us_per_message", "wal_bytes_per_message", "disk_bytes_per_message", "rss_mb", "floor_ratio"]
OWNED = FIELDS[5:]


def bench(*words: str, **environment: str) -> tuple[int, list[dict], str]:
    done = subprocess.run([sys.executable, BENCH / "run.py", "--quick", "--seconds", "0.4", *words],
                          env={**os.environ, **environment}, capture_output=True, text=True)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_one_line_per_scenario_with_all_fields_and_a_table():
    status, lines, told = bench("--only", "push100,pop50,latency")
    assert status == 0, told
    assert [line["scenario"] for line in lines] == ["push100", "pop50", "latency"]
    for line in lines:
        assert list(line)[:len(FIELDS)] == FIELDS
        assert line["messages_per_s"] > 0 and line["errors"] == 0 and line["duplicates"] == 0
        assert line["daemon_cpu_us_per_message"] is not None and line["rss_mb"] > 0
        assert line["wal_bytes_per_message"] is not None
        assert line["environment"]["postgres"] and line["environment"]["fsync_ms"] > 0
        assert line["environment"]["cpus"] >= 1
        assert line["scenario"] in told.rpartition("\nscenario")[2]
    # On a busy machine, what one of so short runs answers may have been written before it was measured.
    assert sum(line["wal_bytes_per_message"] for line in lines) > 0
    assert lines[0]["floor_ratio"] > 0 and lines[1]["floor_ratio"] > 0 and lines[2]["floor_ratio"] is None


def test_a_window_has_something_to_measure(daemon, client, queue):
    """A short window lasts until something was answered, and a long warm-up leaves a part of the stock."""
    words = f"queue={queue},conns=1,partitions=1"
    pushed = load(daemon.port, f"push,{words},items=100,count=2000,least=500", seconds=0.000001)["roles"][0]
    assert 500 <= pushed["messages"] <= pushed["stored"] <= 2000
    popped = load(daemon.port, f"pop,{words},batch=10,count={pushed['stored']}", warm=60)["roles"][0]
    assert pushed["stored"] // 2 < popped["messages"] < popped["taken"] == pushed["stored"]


def test_a_checkout_costs_what_it_costs():
    done = subprocess.run([sys.executable, BENCH / "compare.py", BENCH.parent, "--starts", "2", "--turns", "2",
                           "--seconds", "0.5", "--rate", "40000", "--conns", "1", "--only", "push100,cycle"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["scenario"] for line in lines] == ["push100", "cycle"]
    for line in lines:
        assert line["here_us"] > 0 and line["there_us"] > 0 and line["range"][0] <= line["ratio"] <= line["range"][1]


def test_any_server_can_be_measured_and_its_secrets_stay_null(daemon):
    status, lines, told = bench("--only", "push1,cycle,xmin", URL=f"http://127.0.0.1:{daemon.port}")
    assert status == 0, told
    assert [line["scenario"] for line in lines] == ["push1", "cycle"]   # xmin needs the database
    for line in lines:
        assert list(line)[:len(FIELDS)] == FIELDS and line["messages_per_s"] > 0
        assert line["p99_ms"] >= line["p50_ms"] > 0
        assert [line[field] for field in OWNED] == [None] * len(OWNED)


@pytest.mark.parametrize("version", [7, 4])
def test_the_load_is_what_the_methodology_says(daemon, client, queue, version):
    told = load(daemon.port,
                f"push,queue=load{version},conns=1,items=100,partitions=3,ids={version},count=300")["roles"][0]
    assert told["stored"] >= 300 and told["errors"] == told["duplicates"] == 0
    messages = []
    while len(messages) < told["stored"]:
        messages += client.pop(f"load{version}", batch=1000, partitions=3, autoAck="true")
    ids = [uuid.UUID(message["transactionId"]) for message in messages]
    assert len(set(ids)) == len(ids) == told["stored"] and {i.version for i in ids} == {version}
    assert {message["partition"] for message in messages} == {"p00000", "p00001", "p00002"}
    orders = {message["data"]["order"] for message in messages}
    sizes = [len(json.dumps(message["data"], separators=(",", ":"))) for message in messages]
    assert len(orders) > 0.99 * len(ids) and 128 <= min(sizes) and max(sizes) <= 137
    if version == 7:
        for partition in ("p00000", "p00001", "p00002"):
            own = [i.int for i, message in zip(ids, messages) if message["partition"] == partition]
            assert own == sorted(own)


def test_a_transaction_of_the_load_moves_what_it_takes(daemon, client, queue):
    stored = load(daemon.port, "push,queue=moved-from,conns=1,items=100,partitions=3,count=300")["roles"][0]["stored"]
    told = load(daemon.port, "pop,queue=moved-from,conns=2,batch=10,lease=1,into=moved-to")["roles"][0]
    assert told["acked"] == told["taken"] == stored and told["errors"] == 0
    messages = []
    while len(messages) < stored:
        messages += client.pop("moved-to", batch=1000, partitions=2, autoAck="true")
    assert len({message["transactionId"] for message in messages}) == stored
    assert {message["partition"] for message in messages} <= {"p00000", "p00001"}
    assert client.pop("moved-from", batch=1000, partitions=3, autoAck="true") == []


def test_the_load_can_leave_it_to_the_server_how_much_it_takes(daemon, queue):
    stored = load(daemon.port, f"push,queue={queue},conns=1,items=100,partitions=20,count=200")["roles"][0]["stored"]
    told = load(daemon.port, f"pop,queue={queue},conns=1,autopilot=1,lease=1,count={stored}")["roles"][0]
    assert told["acked"] == told["taken"] == stored and told["errors"] == 0
    # pops and acknowledgments: of one partition each it would be 40
    assert told["requests"] < 20


def test_refused_requests_are_errors_not_messages(daemon):
    told = load(daemon.port, "pop,queue=%FFbad,conns=1", seconds=0.1)["roles"][0]
    assert told["messages"] == 0 and told["errors"] > 0 and told["error"].startswith("status 400")
