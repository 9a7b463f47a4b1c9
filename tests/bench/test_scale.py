"""The sweeps measure what they say, and tables and plots are made from their figures alone."""
from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from support.load import BENCH, load

import plot
import render

SVG = "{http://www.w3.org/2000/svg}"


def test_a_sweep_prints_its_points_and_judges_its_aims():
    done = subprocess.run([sys.executable, BENCH / "scale.py", "--quick", "--only", "latency"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    points = [json.loads(line) for line in done.stdout.splitlines()]
    assert [point["sweep"] for point in points] == ["latency"] * 3
    assert all(point["commit_ms"] > 0 and point["push_p99_ms"] >= point["push_p50_ms"] > 0
               and point["environment"]["cpus"] for point in points)
    assert points[1]["rate"] > 0 and points[1]["push_messages_per_s"] > 0
    assert points[1]["delivery_p50_ms"] > 0
    assert "Push p50 at a fifth of the load, in commits" in done.stderr


def test_a_load_on_a_schedule_is_not_ahead_of_it(daemon, client, queue):
    report = load(daemon.port, "push,queue=paced,conns=2,items=1,partitions=2,rate=100,count=50")
    assert report["seconds"] >= 0.48 and report["roles"][0]["stored"] >= 50, "the fiftieth begins after 490 ms"


def test_a_shuffled_load_names_every_partition_once_per_round(daemon, client, queue):
    told, = load(daemon.port, "push,queue=cycle,conns=1,items=100,partitions=1000,spread=cycle,count=1000")["roles"]
    assert told["stored"] == 1000 and told["errors"] == 0
    messages = []
    while len(messages) < 1000:
        messages += client.pop("cycle", batch=1000, partitions=64, autoAck="true")
    assert sorted(message["partition"] for message in messages) == [f"p{i:05}" for i in range(1000)]


def test_a_block_load_puts_a_request_in_one_partition(daemon, client, queue):
    told, = load(daemon.port, "push,queue=block,conns=1,items=50,partitions=4,spread=block,count=200")["roles"]
    assert told["stored"] == 200
    assert [message["partition"]
            for message in client.pop("block", partition="p00002", batch=100, autoAck="true")] == ["p00002"] * 50


def test_many_queues_take_turns_and_pipelined_pops_are_all_answered(daemon, client, queue):
    told, = load(daemon.port, "push,queue=many,queues=20,conns=1,items=20,partitions=1,mark=c,count=40")["roles"]
    assert told["stored"] == 40
    assert [message["partition"] for message in client.pop("many00007", batch=10)] == ["c00000"] * 2
    told, = load(daemon.port, "pop,queue=many,queues=20,conns=20,batch=1,depth=3,wait=1,timeout=2000,count=38")["roles"]
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
