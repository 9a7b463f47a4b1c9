"""The recorded conversation with the reference, replayed against the daemon.

Every deliberate difference stands in differences.toml with its reason. A difference that is not listed fails, and so
does a listed one that is gone. `python -m pytest tests/golden --print-differences` prints what is seen, in the file's
form.
"""
from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import compare
import hidden
import pytest
from recording import Recording, load
from support.client import Client
from support.daemon import Daemon
from support.http import Answer, Gone, Wire, request
from support.wait import until

DIFFERENCES = Path(__file__).with_name("differences.toml")
MEASURED_ALL = ("/api/v1/status", "/api/v1/analytics/", "/api/v1/resources/namespaces", "/api/v1/resources/tasks",
                "/api/v1/resources/overview", "/api/v1/system/shared-state",
                "/internal/api/shared-state", "/internal/api/inter-instance", "/api/v1/stats/refresh")
MEASURED = ("/health", "/metrics", "/metrics/prometheus", "/api/v1/consumer-groups",
            "/api/v1/consumer-groups/lagging?minLagSeconds=0")


def listed(kind: str = "difference") -> dict[str, set[str]]:
    """Recording → its deliberate differences; of kind `chance` those that are there or not, as it happens."""
    result: dict[str, set[str]] = {}
    for entry in tomllib.loads(DIFFERENCES.read_text())[kind]:
        assert entry["reason"].strip(), entry
        for name in entry["recordings"]:
            for what in entry["what"]:
                assert what not in result.setdefault(name, set()), f"listed twice: {name}: {what}"
                result[name].add(what)
    return result


@pytest.fixture(scope="module")
def daemon(start_daemon: Callable[..., Daemon], tmp_path_factory: pytest.TempPathFactory) -> Daemon:
    """With the settings that are as the reference has it (docs/compatibility.md), and a failover buffer."""
    return start_daemon(QUEEND_DASHBOARD="false", CORS_ORIGINS="*", QUEEND_HOSTS="*", QUEEND_STRICT="false",
                        QUEEND_BUFFER_BYTES=1 << 20,
                        FILE_BUFFER_DIR=tmp_path_factory.mktemp("buffer"))


@pytest.fixture(scope="module")
def seen(daemon: Daemon) -> dict[str, list[str]]:
    """Plays the whole conversation; recording → differences."""
    pairs = compare.Pairs()
    result = {}
    with daemon.client() as client:
        for one in load():
            for step in hidden.STEPS.get(one.number, []):
                pairs.ours.update(step.run(client))
            result[one.name] = list(dict.fromkeys(play(one, daemon, client, pairs)))
    return result


def play(one: Recording, daemon: Daemon, client: Client, pairs: compare.Pairs) -> Iterator[str]:
    """Sends the request with our ids in it and yields what differs in the answer."""
    sent = request(one.method, one.target, hidden.BODIES[one.number]) if one.number in hidden.BODIES else one.sent
    sent = translated(pairs, sent)
    if one.number in hidden.REPEATED:
        got, open_after = until(lambda: with_messages(exchange(one, daemon, client, sent)), f"messages for {one.name}")
    else:
        got, open_after = exchange(one, daemon, client, sent)
    for answer in [*one.answers, *got]:
        compare.by_partition(answer)
    measured = one.target in MEASURED or one.target.startswith(MEASURED_ALL)
    if one.target.startswith(MEASURED_ALL):
        compare.by_first(one.answers, got)
    told = [[answer.status for answer in side if answer.status < 200] for side in (one.answers, got)]
    if told[0] != told[1]:
        yield f"informational answers: {told[0]} -> {told[1]}"
    yield from compare.answers(final(one.answers), final(got), pairs, by_form=measured)
    if one.stays_open != open_after:
        yield "connection: kept open -> closed" if one.stays_open else "connection: closed -> kept open"


def exchange(one: Recording, daemon: Daemon, client: Client, sent: bytes) -> tuple[list[Answer], bool]:
    """The answers, and whether the connection can be used afterwards."""
    with Wire(daemon.address) as wire:
        wire.send(sent)
        if one.number in hidden.WOKEN:
            until(lambda: client.parked() > 0, "the pop is parked")
            hidden.WOKEN[one.number].run(client)
        expected = max(1, len(final(one.answers)))
        answers: list[Answer] = []
        while len(final(answers)) < expected:
            answers.append(wire.receive(head_only=one.method == "HEAD"))
        if answers[-1].headers.get("connection", "").lower() == "close":
            assert wire.ended(), "more bytes after the last answer"
            return answers, False
        # An answer to another request, and nothing before it: there was no stray byte, and the connection lives.
        try:
            wire.send(request("GET", "/livez"))
            assert wire.receive().json == {"status": "alive"}, "stray bytes after the last answer"
        except Gone:
            return answers, False
        return answers, True


def final(answers: list[Answer]) -> list[Answer]:
    """Without the informational ones."""
    return [answer for answer in answers if answer.status >= 200]


def translated(pairs: compare.Pairs, sent: bytes) -> bytes:
    """Our ids are as long as the recorded ones, so lengths stay right."""
    return pairs.translate(sent)


def with_messages(result: tuple[list[Answer], bool]) -> tuple[list[Answer], bool] | None:
    answer = result[0][-1]
    return result if answer.status == 200 and answer.json["messages"] else None


@pytest.mark.parametrize("name", [one.name for one in load()])
def test_recording(seen: dict[str, list[str]], name: str) -> None:
    deliberate = listed().get(name, set())
    found = set(seen[name])
    if found - deliberate == listed("chance").get(name):
        found &= deliberate
    assert not found - deliberate, f"not listed: {sorted(found - deliberate)}"
    assert not deliberate - found, f"listed but gone: {sorted(deliberate - found)}"


def test_the_list_names_recordings_that_exist() -> None:
    assert not listed().keys() - {one.name for one in load()}


def test_print_differences(seen: dict[str, list[str]], request: pytest.FixtureRequest) -> None:
    """With --print-differences: prints all that was seen. Always: the replay met every recording."""
    assert set(seen) == {one.name for one in load()}
    if not request.config.getoption("--print-differences"):
        return
    groups: dict[str, list[str]] = {}
    for name, differences in seen.items():
        for one in differences:
            groups.setdefault(one, []).append(name)
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        for what, names in groups.items():
            print(f"\n[[difference]]\nrecordings = {json.dumps(names)}\nwhat ="
                  f" [{json.dumps(what, ensure_ascii=False)}]\nreason = \"\"")
