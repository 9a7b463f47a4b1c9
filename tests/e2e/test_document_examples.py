"""What the guides print is what happens: their commands, bodies and metrics, against a real daemon. Those of the README
are run by tests/platform/test_serve.py, those of SQL by tests/surface, those of Spark by tests/spark."""
import json
import os
import re
import runpy
import subprocess

import psycopg
import pyarrow as pa
import pytest
import requests
from support.daemon import PACKAGE, ROOT
from support.guides import blocks, settings_in
from support.sanitizer import typed
from support.wait import until

from queend.settings.load import load


def commands(page: str, language: str = "") -> list[tuple[str, str]]:
    """Every curl of the page, with what is printed below it: a command goes on to the next one, or to its output."""
    found = []
    for block in blocks(page, language):
        if "curl" not in block:
            continue
        if not re.search(r"^\$ .*curl", block, re.M):
            found += [(command, "") for command in re.split(r"^(?=curl)", block[block.index("curl"):], flags=re.M)
                      if command]
            continue
        for entry in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = entry.partition("\n")
            if "curl" in command:
                found.append((command, output.strip()))
    return found


def run(daemon, command: str) -> tuple[int, str]:
    told = command.replace("localhost:6632",
                           f"127.0.0.1:{daemon.port}").replace("curl ", "curl -s -w '\\n%{http_code}' ", 1)
    done = subprocess.run(["bash", "-c", told], capture_output=True, text=True, check=True)
    text, _, status = done.stdout.rpartition("\n")
    return int(status), text


@pytest.fixture(scope="module")
def keys() -> str:
    line, = re.findall(r'^QUEEND_ENCRYPTION_KEYS="(.*)" queend serve', (ROOT / "docs/encryption.md").read_text(), re.M)
    return subprocess.run(["bash", "-c", f'printf %s "{line}"'], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def daemon(start_daemon, keys, tmp_path_factory):
    return start_daemon(QUEEND_ENCRYPTION_KEYS=keys, QUEEND_BUFFER_BYTES=1 << 24,
                        FILE_BUFFER_DIR=tmp_path_factory.mktemp("buffer"))


# A copy is refused as long as nobody listed its target.
@pytest.mark.parametrize(("page", "language", "statuses"), [
    ("http.md", "", [400, 400, 201, 200, 201, 201, 201]), ("push-formats.md", "", [201]), ("encryption.md", "", [200]),
    ("migration.md", "sh", [403, 200, 403])])
def test_commands(daemon, page, language, statuses):
    found = commands(page, language)
    assert len(found) == len(statuses), found
    for (command, promised), status in zip(found, statuses, strict=True):
        got, text = run(daemon, command)
        assert got == status, (command, text)
        assert not promised or re.fullmatch(".*".join(map(re.escape, promised.split("…"))), text), (command, text)


def test_an_encrypted_queue_is_one(daemon, client):
    assert run(daemon, commands("encryption.md")[0][0])[0] == 200
    client.push("payroll", {"n": 1})
    assert client.pop("payroll")[0]["data"] == {"n": 1}
    live, dead = re.findall(r"`(SELECT DISTINCT [^`]*)`", (ROOT / "docs/encryption.md").read_text())
    with psycopg.connect(daemon.conninfo) as database:
        assert ("2026",) in database.execute(live).fetchall() and database.execute(dead).fetchall() == []


@pytest.mark.parametrize("page, count", [("peers.md", 3), ("high-availability.md", 7)])
def test_settings_of_a_page(monkeypatch, page, count):
    told = {name: value for block in blocks(page, "sh") for name, value in settings_in(block).items()}
    assert len(told) == count
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    settings = load()
    assert {name: str(getattr(settings, name.lower())) for name in told} == told
    if page == "high-availability.md":
        assert settings.host == "0.0.0.0", "balancer and peers are on other machines"


def test_the_client_of_high_availability():
    """Its attempts outlast the answers of a daemon, and all together the longest takeover and one attempt."""
    block, = blocks("high-availability.md", "python")
    names: dict = {}
    exec(block, names)
    with names["client"] as client:
        assert client.settings.timeout > 10 + 6 and client.settings.deadline > 26 + client.settings.timeout


def test_the_arrow_push(daemon, client):
    block, = blocks("push-formats.md", "python")
    answers = []
    exec(block.replace("requests.post(", "answers.append(requests.post(").rstrip() + ")",
         {"pa": pa, "requests": requests, "answers": answers, "url": f"http://127.0.0.1:{daemon.port}"})
    assert answers[0].json() == {"count": 2, "queued": 2, "duplicate": 0, "error": 0}


def test_reads_by_offset(client):
    client.push("orders", {"n": 1}, partition="customer-42", transactionId="o-1")
    asked, answered, *_ = [json.loads(block) for block in blocks("log-read.md", "json")[:2]]
    answer = client.post("/api/v1/fetch", asked)
    assert answer.status == 200
    (entry,), (promised,) = answer.json["entries"], answered["entries"]
    assert entry.keys() == promised.keys() and entry["records"][0].keys() == promised["records"][0].keys()
    assert (entry["highWatermark"], entry["logStartOffset"], entry["records"][0]["payload"]) == (1, 0, {"n": 1})
    asked = {"/api/v1/partitions/changed": blocks("log-read.md", "json")[2],
             **dict(re.findall(r"^## `POST (\S+)`[^\n]*\n\n`(\{.*?\})`",
                               (ROOT / "docs/log-read.md").read_text(), re.M | re.S))}
    assert len(asked) == 4
    answers = {}
    for route, body in asked.items():
        if '"timestamp"}' not in body:                                     # names alone
            body = json.loads(re.sub(r'"after": "…", |, "after": "…"', "", body))
            answer = client.post(route.replace("{group}", "readers"), body)
            assert answer.status == 200, (route, body)
            answers[route] = answer.json
    changed, partitions = [json.loads(block) for block in blocks("log-read.md", "json")[3:]]
    assert members(answers["/api/v1/partitions/changed"]) == members(changed)
    assert members(partitions) >= members(answers["/api/v1/offsets"]) >= {"queue", "partitions", "next", "name", "id"}


def members(value) -> set[str]:
    """Returns the names of members of an answer, at any depth."""
    if isinstance(value, list):
        return {name for one in value for name in members(one)}
    return {*value, *members(list(value.values()))} if isinstance(value, dict) else set()


def test_streams(daemon, client):
    """What comes has the members that the page shows, in their order."""
    client.configure("orders", leaseTime=1)
    found = commands("live.md")
    shown = [one for one in blocks("live.md") if one.startswith("retry:")]
    assert len(found) == len(shown) == 2
    for (command, _), events in zip(found, shown, strict=True):
        client.push("orders", {"n": 1})
        told = subprocess.run(["bash", "-c", command.replace("localhost:6632", f"127.0.0.1:{daemon.port}")],
                              capture_output=True, text=True).stdout
        first = [line.partition(":")[0] for line in events.split("\n\n")[1].strip().split("\n")]
        assert told.startswith(events.split("\n\n")[0] + "\n\n")
        assert [line.partition(":")[0] for line in told.split("\n\n")[1].split("\n")] == first
        names, here = (re.findall(r'"(\w+)":', re.search("^data: (.*)", text, re.M)[1]) for text in (events, told))
        assert names == [name for name in here if name in names][:len(names)], (names, here)


def shell(daemon, folder, line):
    """A command of `queend`, as one types it."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE), "LANG": "C.UTF-8",
                   "QUEEND_URL": f"http://127.0.0.1:{daemon.port}", "XDG_CONFIG_HOME": str(folder)}
    return subprocess.run(["bash", "-c", line.replace("queend ", f"{typed()} ", 1)], cwd=folder,
                          env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(("page", "least"), [("troubleshooting.md", 14), ("production.md", 3)])
def test_commands_by_symptom(daemon, client, tmp_path, page, least):
    """With what is printed below them, while billing has a lease on the only order."""
    client.delete("orders")
    client.push("orders", {"n": 1}, partition="customer-7")
    client.pop("orders", consumerGroup="billing")
    lines = [entry for block in blocks(page)
             for entry in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M)]
    assert len(lines) >= least and all(line.startswith(("queend ", "curl ")) for line, _ in lines)
    for line, promised in lines:
        done = shell(daemon, tmp_path, line.replace("localhost:6632", f"127.0.0.1:{daemon.port}"))
        assert done.returncode == 0, (line, done)
        assert not promised or re.fullmatch(".*".join(map(re.escape, promised.strip().split("…"))), done.stdout.strip(),
                                            re.S), (line, done)


def test_erasing_a_person(daemon, client, tmp_path):
    """In the order of the page, with what it prints."""
    queue = "orders"
    client.push_items([{"queue": queue, "partition": "erasing", "transactionId": f"order-{n}",
                        "payload": {"order": n, "customer": {"email": who}}}
                       for n, who in enumerate(["eve@example.org", "eve@example.org", "bob@example.org"], 5)])
    for one in client.pop(queue, "erasing", consumerGroup="erasers", batch=1):
        client.ack(one, "dlq", "erasers")
    page, = (block for block in blocks("erasing.md") if "queend erase" in block)
    for entry in re.split(r"^\$ ", page, flags=re.M)[1:]:
        line, _, output = entry.partition("\n")
        done = shell(daemon, tmp_path, line)
        assert (done.returncode, done.stdout) == (0, output), (line, done)


def test_the_first_commands(daemon, tmp_path):
    """`tail -f` has no end: tests/cli/test_cli_messages.py. Here it prints what there is."""
    lines = blocks("cli.md")[0].splitlines()
    assert lines[-1] == "queend tail -f orders"
    for line in [*lines[:-1], "queend tail orders"]:
        done = shell(daemon, tmp_path, line)
        assert done.returncode == 0, (line, done)
        assert '{"n":1}' in done.stdout or not re.search("pop|tail", line), (line, done)


def test_the_reference_of_metrics_is_what_is_told(daemon):
    tool = runpy.run_path(str(ROOT / "tools/metrics.py"))
    page = {name: rest for name, *rest in re.findall(r"^\| `(queen\w+)`\*? \| (\w+) \| ([^|]*) \| (.*) \|$",
                                                     (ROOT / "docs/metrics.md").read_text(), re.M)}
    told = {}
    until(lambda: told.update(tool["families"](tool["busy"](f"http://127.0.0.1:{daemon.port}")))
          or page.keys() <= told.keys() | tool["SOMETIMES"].keys(), "all of it is told")
    for name, (kind, labels, text) in told.items():
        if name not in tool["SOMETIMES"]:      # labels are seen where there is a sample
            assert page.get(name) == [kind, labels or page[name][1], text], f"{name}: run make documents"


def test_metrics_that_are_named_exist(client):
    named = {name for page in (ROOT / "docs").glob("*.md")
             for name in re.findall(r"`(queend_[a-z_]+)(?:\{[^`]*\})?`", page.read_text())}
    named.remove("queend_daemon")      # a fixture of pytest
    assert len(named) > 20
    sometimes = set(runpy.run_path(str(ROOT / "tools/metrics.py"))["SOMETIMES"])
    assert sometimes <= named
    client.push("metrics", 1)       # some are told for each queue, soon after its first message
    until(lambda: named - sometimes <= set(re.findall(r"^# TYPE (\S+)", client.get("/metrics/prometheus").body.decode(),
                                                      re.M)), "all that are named are told")


def test_words_of_refused_transactions(client):
    page = (ROOT / "docs/transactions.md").read_text()
    twice = {"type": "push", "items": [{"queue": "moved", "transactionId": "t", "payload": 1}]}
    assert client.transaction(twice)["success"] is True
    for operations, place in (([twice], 0), ([{"type": "push", "items": [{"queue": "moved", "payload": 1}]},
                                              {"type": "odd"}], 1)):
        refused = client.transaction(*operations)
        assert refused["success"] is False and refused["failedIndex"] == place and f"`{refused['reason']}`" in page
        assert [one["index"] for one in refused["results"]] == [place] * (operations[place]["type"] != "push")
