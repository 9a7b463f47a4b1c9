"""The sweeps measure what they say, and tables and plots are made from their figures alone."""
from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import plot  # noqa: E402
import render  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def load(port: int, role: str) -> dict:
    from generator import LOAD, build
    done = subprocess.run([build("load", LOAD), "127.0.0.1", str(port), "0", "5", role], capture_output=True,
                          text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])["roles"][0]


def test_a_sweep_prints_its_points_and_judges_its_aims():
    done = subprocess.run([sys.executable, ROOT / "bench" / "scale.py", "--quick", "--only", "latency"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    points = [json.loads(line) for line in done.stdout.splitlines()]
    assert [point["sweep"] for point in points] == ["latency"] * 3
    assert all(point["commit_ms"] > 0 and point["push_p99_ms"] >= point["push_p50_ms"] > 0
               and point["environment"]["cpus"] for point in points)
    # sent on a schedule, whatever the server does
    assert points[1]["push_messages_per_s"] == pytest.approx(points[1]["rate"], rel=0.2)
    assert points[1]["delivery_p50_ms"] > 0
    assert "Push p50 at a fifth of the load, in commits" in done.stderr


def test_a_shuffled_load_names_every_partition_once_per_round(daemon, client, queue):
    told = load(daemon.port, "push,queue=cycle,conns=1,items=100,partitions=1000,spread=cycle,count=1000")
    assert told["stored"] == 1000 and told["errors"] == 0
    messages = []
    while len(messages) < 1000:
        messages += client.pop("cycle", batch=1000, partitions=64, autoAck="true")
    assert sorted(message["partition"] for message in messages) == [f"p{i:05}" for i in range(1000)]


def test_a_block_load_puts_a_request_in_one_partition(daemon, client, queue):
    assert load(daemon.port, "push,queue=block,conns=1,items=50,partitions=4,spread=block,count=200")["stored"] == 200
    assert [message["partition"]
            for message in client.pop("block", partition="p00002", batch=100, autoAck="true")] == ["p00002"] * 50


def test_many_queues_take_turns_and_pipelined_pops_are_all_answered(daemon, client, queue):
    told = load(daemon.port, "push,queue=many,queues=20,conns=1,items=20,partitions=1,mark=c,count=40")
    assert told["stored"] == 40
    assert [message["partition"] for message in client.pop("many00007", batch=10)] == ["c00000"] * 2
    told = load(daemon.port, "pop,queue=many,queues=20,conns=20,batch=1,depth=3,wait=1,timeout=2000,count=38")
    assert told["taken"] >= 38 and told["errors"] == 0


def test_a_chart_is_valid_and_draws_every_point():
    svg = plot.chart("a < b", "x & y", "µs", {"one": [(1, 5.0), (1000, 7), (10, None)], "two": [(1, 0.5)]},
                     aim=("most", 6))
    tree = ElementTree.fromstring(svg)
    assert len(tree.findall(f".//{SVG}circle")) == 3 and "a < b" in [text.text for text in tree.iter(f"{SVG}text")]
    box = [float(value) for value in tree.get("viewBox").split()]
    for dot in tree.iter(f"{SVG}circle"):
        assert 0 < float(dot.get("cx")) < box[2] and 0 < float(dot.get("cy")) < box[3]
    with pytest.raises(ValueError):
        plot.chart("nothing", "x", "y", {"one": [(1, None)]})


@pytest.mark.parametrize("values", [[1, 1], [1, 9], [3, 1e6], [0.02, 0.03]])
@pytest.mark.parametrize("log", [True, False])
def test_an_axis_has_ticks_inside(values, log):
    axis = plot.Axis(values, log, 0, 100)
    ticks = axis.ticks()
    assert 1 <= len(ticks) <= 12 and all(-1e-6 <= axis.at(tick) <= 100 + 1e-6 for tick in ticks)
    assert all(0 <= axis.at(value) <= 100 for value in values)


def test_tables_go_between_their_markers_and_nowhere_else():
    text = render.table([{"a": 1234567, "b": 0.012345}, {"a": None}], [("n", "a"), ("share", "b"), ("none", "c")])
    assert text.splitlines()[2:] == ["| 1 234 567 | 0.0123 |  |", "|  |  |  |"]
    before = "x\n<!-- scale:t -->\nold\n<!-- /scale:t -->\ny\n"
    assert render.place(before, "t", text) == f"x\n<!-- scale:t -->\n{text}<!-- /scale:t -->\ny\n"
    assert render.place(render.place(before, "t", "new"), "t", "old") == before
    with pytest.raises(ValueError):
        render.place("no markers", "t", text)
