"""queend export and import: queues with their options and groups, from one database into another."""
from __future__ import annotations

import json

import pytest
from support.cli import Cli


@pytest.fixture(scope="module")
def elsewhere(start_daemon):
    return start_daemon()


@pytest.fixture
def other(elsewhere, tmp_path) -> Cli:
    return Cli(elsewhere.url, tmp_path)


@pytest.fixture
def names(client, queue):
    """A queue with options, one with groups, one that is paused; a group that begins late."""
    made = [f"{queue}.{word}" for word in ("options", "groups", "paused")]
    client.configure(made[0], leaseTime=60, retryBackoff={"type": "exponential", "initial": 5}, maxSize=7)
    client.configure(made[0], namespace="shop", task="billing")
    client.push(made[1], 1)
    client.pop(made[1], consumerGroup="late", subscriptionMode="new")
    client.pop(made[1], consumerGroup="early", subscriptionMode="all", autoAck="true")
    client.pop(made[1], autoAck="true")
    client.post(f"/api/v1/consumer-groups/early/queues/{made[1]}/pause")
    client.push(made[2], 1)
    client.post(f"/api/v1/queues/{made[2]}/pause")
    return made


def actions(done) -> dict[tuple[str, str | None], str]:
    return {(row["queue"].rpartition(".")[2], row["group"]): row["action"] for row in done.json if row["group"] is None
            or row["action"] != "pause"}


def test_there_and_the_same_again(cli, other, elsewhere, names, tmp_path):
    file = tmp_path / "definitions.json"
    assert "3 queues written to" in cli.ok("export", *names, "--file", str(file)).err
    one, two, three = json.loads(file.read_text())["queues"]
    assert (two["name"], one["name"], three["name"]) == (names[0], names[1], names[2]), "by name"
    assert two["options"] == {"leaseTime": 60, "maxSize": 7, "retryBackoff": {
        "type": "exponential", "initial": 5, "multiplier": 2, "max": 3600000, "jitter": 0}}
    assert (two["namespace"], two["task"], two["groups"]) == ("shop", "billing", [])
    assert [(group["name"], "from" in group, group.get("paused")) for group in one["groups"]] == [
        ("early", False, True), ("late", True, None)]
    assert three["paused"] is True and "paused" not in one

    would = other.ok("import", str(file), "--dry-run", "-o", "json")
    assert set(row["action"] for row in would.json) == {"make", "pause"}
    assert not set(names) & set(other.ok("queue", "list", "-o", "names").out.splitlines()), "nothing was done"
    done = other.ok("import", str(file), "-o", "json")
    assert done.json == would.json
    assert other.ok("export", *names).json == json.loads(file.read_text()), "it is all there"
    again = other.ok("import", str(file), "-o", "json")
    assert {row["action"] for row in again.json} == {"same"}
    assert other.ok("import", str(file)).out == "", "and nothing is left to do"
    with elsewhere.client() as client:
        client.push(names[1], "new")
        assert [one["data"] for one in client.pop(names[1], consumerGroup="late")] == ["new"]
        assert client.pop(names[1], consumerGroup="early") == []


def test_groups_of_a_paused_queue_are_paused_only_if_they_are_themselves(cli, other, client, queue):
    client.push(queue, 1)
    for group in ("one", "two"):
        client.pop(queue, consumerGroup=group, autoAck="true")
    cli.ok("group", "pause", "one", "--queue", queue)
    cli.ok("queue", "pause", queue)
    assert "Paused with its queue" in cli.ok("group", "list", "--queue", queue).out
    (told,) = cli.ok("export", queue).json["queues"]
    assert told["paused"] and [(group["name"], group.get("paused")) for group in told["groups"]] == [
        ("one", True), ("two", None)]
    other.ok("import", "-", input=json.dumps({"queues": [told]}))
    assert other.ok("export", queue).json["queues"] == [told], "as it was"


def test_what_differs_is_changed_and_nothing_else(cli, other, names, tmp_path):
    file = tmp_path / "definitions.ndjson"
    file.write_text(cli.ok("export", names[0], "-o", "ndjson").out)
    other.ok("import", str(file))
    other.ok("queue", "configure", names[0], "leaseTime=61", "ttl=5")
    (row,) = other.ok("import", str(file), "-o", "json").json
    assert (row["action"], row["what"]) == ("change", {"leaseTime": 60})
    options = other.ok("queue", "show", names[0], "-o", "json").json["options"]
    assert options["leaseTime"]["value"] == 60 and options["ttl"]["asked"]
    (row,) = other.ok("import", str(file), "--replace", "-o", "json").json
    assert (row["action"], row["what"]) == ("change", {"ttl": None})
    assert not other.ok("queue", "show", names[0], "-o", "json").json["options"]["ttl"]["asked"]
    assert other.ok("import", "-", "--replace", "-o", "names", input=file.read_text()).out == f"{names[0]}\n"


def test_a_group_is_made_without_taking_a_message(cli, client, queue, tmp_path):
    client.push(queue, 1, 2)
    file = tmp_path / "one.json"
    file.write_text(json.dumps({"queues": [{"name": queue, "groups": [{"name": "g"}]}]}))
    cli.ok("import", str(file))
    assert [one["data"] for one in client.pop(queue, consumerGroup="g", batch=10)] == [1, 2]


def test_a_group_that_conflates(cli, other, elsewhere, client, queue):
    client.push(queue, 1, 2)
    client.pop(queue, consumerGroup="latest", conflation="true")
    (told,) = cli.ok("export", queue).json["queues"]
    assert told["groups"] == [{"name": "latest", "conflation": True}]
    other.ok("import", "-", input=json.dumps({"queues": [told]}))
    assert other.ok("export", queue).json["queues"] == [told]
    assert "newest" in other.ok("group", "list", "--queue", queue, "-o", "wide").out
    with elsewhere.client() as there:
        there.push(queue, 1, 2)
        assert [one["data"] for one in there.pop(queue, consumerGroup="latest")] == [2]
    wrong = {"queues": [{"name": queue, "groups": [{"name": "latest", "conflation": "yes"}]}]}
    assert "`conflation` is true or false" in cli("import", "-", input=json.dumps(wrong)).err


@pytest.mark.parametrize("text, why", [
    ("", "contains no queues"), ("[1]", "contains no queues"), ("{", "is not valid JSON"),
    ('{"queues": [{}]}', "queue 0 has no name"),
    ('{"queues": [{"name": "a"}, {"name": "a"}]}', "queue 1 is defined twice"),
    ('{"queues": [{"name": "a", "options": 1}]}', "options"), ('{"queues": [{"name": "a", "groups": [1]}]}', "groups"),
    ('{"version": 2, "queues": []}', "version 2")])
def test_a_file_that_is_none_is_refused(cli, text, why, tmp_path):
    file = tmp_path / "bad.json"
    file.write_text(text)
    refused = cli("import", str(file))
    assert refused.status == 2 and why in refused.err
    assert cli("import", str(tmp_path / "none")).status == 2


def test_an_option_that_is_wrong_is_refused_by_the_server(cli, queue, tmp_path):
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps({"queues": [{"name": queue, "options": {"leaseTime": "soon"}}]}))
    refused = cli("import", str(file))
    assert refused.status == 1 and "leaseTime must be" in refused.err
    assert cli("export", "no-such-queue").status == 4
