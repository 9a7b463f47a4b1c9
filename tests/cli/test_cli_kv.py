"""queend kv: get, put, delete, list, namespaces."""
from __future__ import annotations

import uuid

import pytest
from support.wait import until


@pytest.fixture
def ns() -> str:
    return f"c-{uuid.uuid4()}"


def test_a_key_is_written_read_listed_and_deleted(cli, ns):
    put = cli.ok("kv", "put", ns, "a/1", '{"n": 12345678901234567890}')
    version = put.out.split()[1]
    assert put.out == f"version {version}\n"
    assert cli.ok("kv", "get", ns, "a/1").out == '{"n": 12345678901234567890}\n'
    whole = cli.ok("kv", "get", ns, "a/1", "--whole").json
    assert str(whole["version"]) == version and whole["expiresAt"] is None
    cli.ok("kv", "put", ns, "a/2", "-", "--text", "--ttl", "1h", input="two words")
    assert cli.ok("kv", "get", ns, "a/2").json == "two words"
    heads, first, second = cli.ok("kv", "list", ns, "--values").out.splitlines()
    assert heads.split() == ["key", "version", "bytes", "ends", "in", "written", "value"]
    assert first.split()[:4] == ["a/1", version, "27", "never"] and second.endswith('"two words"')
    assert cli.ok("kv", "list", ns, "a/2", "-o", "names").out == "a/2\n"
    assert cli.ok("kv", "list", ns, "x").err == "no keys\n"
    assert f"{ns}\n" in cli.ok("kv", "namespaces", "-o", "names").out
    refused = cli("kv", "delete", ns, "a/1")
    assert refused.status == 2 and "use --yes" in refused.err
    assert cli.ok("kv", "delete", ns, "a/1", "--yes").out == "deleted a/1\n"
    missing = cli("kv", "get", ns, "a/1")
    assert missing.status == 4 and missing.err == f"queend: there is no key 'a/1' in the namespace '{ns}'\n"
    assert cli("kv", "delete", ns, "a/1", "--yes").status == 4


def test_conditions_that_do_not_hold(cli, ns):
    cli.ok("kv", "put", ns, "k", "1", "--expect", "0")
    again = cli("kv", "put", ns, "k", "2", "--expect", "0")
    assert again.status == 1 and again.err == "queend: 'k' was left as it is: it exists\n"
    other = cli("kv", "delete", ns, "k", "--yes", "--expect", "7")
    assert other.status == 1 and "it has another version, " in other.err
    assert cli.ok("kv", "get", ns, "k").out == "1\n"


def test_long_lists_and_expired_keys(cli, client, ns):
    for part in range(5):
        client.post("/api/v1/kv", {"operations": [{"op": "put", "ns": ns, "key": f"k{part * 250 + i:04}", "value": 0,
                                                   "forever": True} for i in range(250)]})
    assert cli.ok("kv", "list", ns, "-n", "1201", "-o", "names").out.splitlines() == [f"k{i:04}" for i in range(1201)]
    cli.ok("kv", "put", ns, "short", "1", "--ttl", "1")
    until(lambda: cli("kv", "get", ns, "short").status == 4, "it expires")
    assert cli.ok("kv", "list", ns, "s", "-o", "names").out == ""


@pytest.mark.parametrize(("words", "status", "text"), [
    (("put", "X", "k", "1"), 1, "ns must match"), (("put", "shop", "k", "{"), 2, "the value is not JSON"),
    (("put", "shop", "k", "1", "--ttl", "1500ms"), 2, "is not a number of whole seconds"),
    (("put", "shop", "k" * 513, "1"), 1, "at most 512 bytes"), (("get", "shop", ""), 1, "key must be valid text"),
    (("list", "X"), 1, "namespace must match")])
def test_mistakes(cli, words, status, text):
    done = cli("kv", *words)
    assert done.status == status and text in done.err, done
