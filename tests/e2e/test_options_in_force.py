"""Options of a queue show what was set and what it comes to, over HTTP, in SQL and on the command line."""
from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from support.cli import Cli
from support.client import Client
from support.daemon import Daemon

from queend.control.options import BY_NAME

NOTHING = {"leaseTime": 300, "retryLimit": 3, "deliveryLimit": 20, "priority": 0, "ordered": True,
           "deadLetterQueue": True, "dlqAfterMaxRetries": True, "retentionEnabled": False, "encryptionEnabled": False}


@pytest.mark.parametrize("given, comes_to", [
    ({}, {}), ({"ttl": 3600}, {"ttl": 3600}), ({"ttl": 0}, {}), ({"leaseTime": 0}, {"leaseTime": 60}),
    ({"deliveryLimit": 0}, {"deliveryLimit": None}), ({"retryDelay": 1000}, {"retryDelay": 1000}),
    ({"retryDelay": 1000, "retryBackoff": [5]}, {"retryBackoff": [5]}), ({"retentionSeconds": 60}, {}),
    ({"retentionSeconds": 60, "retentionEnabled": True}, {"retentionSeconds": 60, "retentionEnabled": True}),
    ({"completedRetentionSeconds": 60, "maxWaitTimeSeconds": 7}, {"maxWaitTimeSeconds": 7}),
    ({"rateLimit": 5}, {"rateLimit": 5, "ratePeriod": 1, "rateBurst": 5}), ({"ratePeriod": 9, "rateBurst": 4}, {}),
    ({"groupRateLimit": 7, "groupRateBurst": 2, "ratePeriod": 3},
     {"groupRateLimit": 7, "groupRateBurst": 2, "ratePeriod": 3}),
    ({"spreadPartitions": 8}, {}), ({"ordered": False}, {"ordered": False, "spreadPartitions": 64}),
    ({"queueRateLimit": 7}, {"queueRateLimit": 7, "queueRateBurst": 7, "ratePeriod": 1}),
    ({"maxSize": 5, "priority": 2, "windowBuffer": 1, "delayedProcessing": 3},
     {"maxSize": 5, "priority": 2, "windowBuffer": 1, "delayedProcessing": 3})], ids=str)
def test_what_options_come_to(daemon: Daemon, client: Client, tmp_path: Path, given: dict, comes_to: dict) -> None:
    name = "-".join(["options", *given, *map(str, given.values())]).replace("[", "").replace("]", "")
    client.configure(name, **given)
    wanted = dict.fromkeys(BY_NAME) | NOTHING | comes_to
    told = client.show(name).json["options"]
    assert {option: one["inForce"] for option, one in told.items()} == wanted
    assert {option: one["value"] for option, one in told.items() if one["asked"]} == given
    with psycopg.connect(daemon.conninfo) as connection:
        ((rows,),) = connection.execute("SELECT queen.queue_options_v1(%s)", (name,)).fetchall()
        assert connection.execute("SELECT queen.queue_options_v1('nowhere')").fetchall() == [(None,)]
    assert {option: one["inForce"] for option, one in rows.items()} == wanted
    assert {option: (one["default"], one["asked"]) for option, one in rows.items()} == {
        option: (one["default"], one["asked"]) for option, one in told.items()}
    shown = Cli(daemon.url, tmp_path).ok("queue", "show", name).out
    for option in given:
        (line,) = [line for line in shown.splitlines() if line.split()[:1] == [option]]
        assert ("no effect" in line) is (wanted[option] is None), line
