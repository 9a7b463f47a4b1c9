"""One form of duration in options and in output."""
from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies

from queend.cli.spark import interval
from queend.duration import exact, milliseconds, span

READ = {"500ms": 500, "30s": 30_000, "5m": 300_000, "1h": 3_600_000, "1h30m": 5_400_000, "7d": 604_800_000,
        "1.5h": 5_400_000, "30": 30_000, "0.2": 200, "0": 0, "1e3": 1_000_000}
WRONG = ["", "soon", "5 minutes", "5x", "-1", "-1s", "nan", "inf", "1m-", "m", "٣s", "1_0"]
SHOWN = {0: "0s", 0.9: "0s", 59: "59s", 60: "1m", 150: "2m30s", 3600: "1h", 5400: "1h30m", 86_400: "1d",
         90_061: "1d1h", 8_640_000: "100d"}


def test_what_is_read_and_what_is_shown():
    assert {text: milliseconds(text) for text in READ} == READ
    assert {text: milliseconds(text) for text in WRONG} == dict.fromkeys(WRONG)
    assert {seconds: span(seconds) for seconds in SHOWN} == SHOWN and span(None) == ""
    assert [exact(seconds) for seconds in (0.1, 90.5, 86_400, 3661)] == ["100ms", "1m30s500ms", "1d", "1h1m1s"]
    assert [interval(text) for text in ("10m", "90s", "1d", "5 minutes", "1 month", None)] == [
        "10 minutes", "1 minute 30 seconds", "1 day", "5 minutes", "1 month", None]


@given(strategies.integers(0, 10**9))
def test_what_is_shown_can_be_read(seconds):
    read = milliseconds(span(seconds))
    assert read is not None and 0 <= seconds - read / 1000 < max(60, seconds / 24)


# Every option with a duration, with commands in which it stands last.
OPTIONS = {"--timeout": "queue list --timeout", "--interval": "queue list --watch --interval", "--wait": "pop q --wait",
           "--lease": "pop q --lease", "--delay": "push q 1 --delay", "--for": "bench --for", "--grace":
           "worker shop:app --grace"}


@pytest.mark.parametrize("option", OPTIONS)
def test_wrong_durations_are_told_with_the_form(cli, option):
    for wrong in ("soon", "5 minutes", "-1s"):
        done = cli(*OPTIONS[option].split(), wrong, QUEEND_URL="http://127.0.0.1:1")
        assert done.status == 2 and f"invalid duration {wrong!r} of {option}: expected a number with a unit, like " \
            "500ms, 30s, 5m, 1h30m or 7d; a number without a unit counts seconds\n" in done.err, done


def test_every_option_with_a_duration_says_so(cli):
    for words in (*OPTIONS.values(), "ack --delay", "top --interval", "token mint --for"):
        *command, option = [word for word in words.split() if word not in ("q", "1", "shop:app", "--watch")]
        told = cli.ok(*command, "--help").out
        line = next(line for line in told.splitlines() if f"{option} " in line or f"{option}," in line)
        assert "DURATION" in line, line


@pytest.mark.parametrize("words, told", [
    ("status --timeout 10ms", "--timeout 10ms is too short: expected at least 100ms and at most 1d\n"),
    ("status --timeout 2d", "--timeout 2d is too long: expected at least 100ms and at most 1d\n"),
    ("pop q --lease 1500ms", "--lease 1500ms is not a number of whole seconds\n"),
    ("pop q --lease 0", "--lease 0 is too short: expected at least 1s\n")])
def test_durations_out_of_bounds(cli, words, told):
    done = cli(*words.split(), QUEEND_URL="http://127.0.0.1:1")
    assert (done.status, done.err) == (2, f"queend: {told}")


def test_numbers_without_a_unit_count_seconds(cli, client, queue):
    client.push(queue, 1)
    cli.ok("pop", queue, "--lease", "2m", "--wait", "0", "--timeout", "5")
    nothing = cli("pop", queue, "--wait", "50ms")
    assert nothing.status == 5 and "no message in 50ms" in nothing.err


def test_options_of_queues_take_durations(cli, queue):
    cli.ok("queue", "configure", queue, "leaseTime=5m", "retryDelay=1.5s", "retryLimit=3", "retentionSeconds=7d")
    options = cli.ok("queue", "show", queue, "-o", "json").json["options"]
    assert [options[name]["value"] for name in ("leaseTime", "retryDelay", "retryLimit", "retentionSeconds")] == [
        300, 1500, 3, 604_800]
    shown = {line.split()[0]: line.split()[1:] for line in cli.ok("queue", "show", queue).out.splitlines() if line}
    assert [shown[name] for name in ("leaseTime", "retryDelay", "retryLimit", "retentionSeconds")] == [
        ["5m", "5m"], ["1s500ms", "1s500ms"], ["3", "failures", "3"], ["7d", "no", "effect"]]
    told = cli.ok("queue", "configure", queue, "leaseTime=90s", "ttl=1d", "--dry-run").out
    assert sorted(line.split() for line in told.splitlines()[1:]) == [["leaseTime", "5m", "→", "1m30s"],
                                                                      ["ttl", "1h", "→", "1d"]]
    for wrong in ("leaseTime=1500ms", "retryLimit=5m", "leaseTime=soon"):
        refused = cli("queue", "configure", queue, wrong)
        assert refused.status == 1 and "must be an integer" in refused.err, json.dumps(wrong)
