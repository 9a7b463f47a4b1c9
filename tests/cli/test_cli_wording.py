"""Words of tables and sentences: numbers with their nouns, sizes, consumers without a group."""
from __future__ import annotations

import pytest
from support.cli import Cli
from support.client import Client

from queend.wording import group_phrase, many, size


@pytest.mark.parametrize(("number", "text"), [(0, "0 leases"), (1, "1 lease"), (2, "2 leases")])
def test_a_number_and_its_noun(number: int, text: str) -> None:
    assert many(number, "lease") == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (70, "70 B"), (1023, "1023 B"), (1024, "1.0 KiB"),
                                             (5 << 20, "5.0 MiB"), (3 << 30, "3.0 GiB"), (2 << 40, "2.0 TiB")])
def test_a_size(count: int, text: str) -> None:
    assert size(count) == text


def test_consumers_without_a_group(cli: Cli, client: Client, queue: str) -> None:
    client.push(queue, 1)
    client.pop(queue)
    for words in (("group", "list", "--queue", queue), ("lease", "list", queue)):
        told = cli.ok(*words).out
        assert "(without a group)" in told and "__QUEUE_MODE__" not in told
        assert "__QUEUE_MODE__" in cli.ok(*words, "-o", "json").out, "a program gets the name"
    assert cli.ok("group", "list", "--queue", queue, "-o", "names").out == "__QUEUE_MODE__\n"
    (lease,) = cli.ok("lease", "list", queue, "-o", "names").out.split()
    told = cli.ok("lease", "release", lease, "--dry-run").out
    assert told == f"would release {lease}: 1 message of consumers without a group in Default of {queue}\n"
    assert group_phrase("billing") == "the group billing"
