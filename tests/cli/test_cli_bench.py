"""queend bench: what it pushes arrives, and what it made it takes away."""
from __future__ import annotations

from queend.cli.sample import Sample


def queues(cli) -> set[str]:
    return {name for name in cli.ok("queue", "list", "-o", "names").out.splitlines() if name.startswith("bench-")}


def test_it_counts_what_it_did_and_leaves_nothing(cli):
    done = cli.ok("bench", "--messages", "500", "--batch", "50", "--size", "10", "-o", "json").json
    assert (done["pushed"]["messages"], done["popped"]["messages"], done["allArrived"]) == (500, 500, True)
    assert done["pushed"]["requests"] == 10 and done["pushed"]["perSecond"] > 0
    for values in (done["pushed"]["latencyMs"], done["popped"]["ackLatencyMs"], done["popped"]["deliveryMs"]):
        assert 0 < values["p50"] <= values["p99"] <= values["most"]
    assert queues(cli) == set()


def test_for_people_and_for_a_while(cli):
    told = cli.ok("bench", "--seconds", "0.3", "--auto-ack", "--producers", "1", "--consumers", "1").out
    assert "pushed" in told and "delivery latency" in told and "/s" in told and "ack latency" not in told
    assert queues(cli) == set()


def test_a_queue_of_ones_own_is_kept(cli, client, queue):
    assert cli("bench", queue).status == 4
    client.push(queue, 1)
    done = cli.ok("bench", queue, "--messages", "20", "--batch", "10", "--consumers", "0", "-o", "json").json
    assert done["pushed"]["messages"] == 20 and done["popped"]["messages"] == 0
    assert len(client.pop(queue, batch=100, partitions=16)) > 0
    cli.ok("bench", queue, "--producers", "0", "--consumers", "1", "--seconds", "0.2", "-o", "json")


def test_a_refusal_ends_it_with_the_reason(cli, client, queue):
    client.configure(queue, maxSize=10)
    refused = cli("bench", queue, "--messages", "100", "--batch", "50", "--consumers", "0")
    assert refused.status != 0 and "queend:" in refused.err
    assert cli("bench", "--url", "http://127.0.0.1:9").status == 6


def test_a_sample_is_of_the_whole_run_and_knows_its_largest():
    sample = Sample(1000)
    for value in [90_000, *range(50_000)]:
        sample.add(value)
    assert len(sample.kept) == 1000 and sample.most == 90_000
    assert 20_000 < sum(sample.kept) / 1000 < 30_000      # 25 000 in the middle; 11 deviations to either side
