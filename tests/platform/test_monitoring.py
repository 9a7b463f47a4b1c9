"""What Prometheus is told under our own names, and what the repository ships to look at it with."""
from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from support.client import Client, ack_of
from support.wait import until

from queend.control.metrics.families import Families
from queend.control.metrics.rounds import Rounds
from queend.control.routes import doctor

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "monitoring"
NAME = re.compile(r"\bqueend_[a-z0-9_]+")
PARTS = ("_bucket", "_sum", "_count")      # of a histogram


@pytest.fixture(scope="module")
def daemon(start_daemon):
    return start_daemon(QUEEND_BUFFER_BYTES=1 << 20)


def scrape(client: Client) -> str:
    return "".join(f"{line}\n" for line in client.scrape())


def samples(text: str, name: str, **labels: str) -> dict[str, float]:
    """Of a family: the labels as they stand, and the value; those that have these labels."""
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if match and match[1] == name and all(f'{key}="{value}"' in (match[2] or "") for key, value in labels.items()):
            found[match[2] or ""] = float(match[3])
    return found


def one(text: str, name: str, **labels: str) -> float:
    (value,) = samples(text, name, **labels).values()
    return value


def ours(text: str) -> str:
    return "".join(f"{line}\n" for line in text.splitlines()
                   if (line.split(" ")[2] if line[:1] == "#" else line).startswith("queend_"))


def promtool(*words: str, **more: object) -> subprocess.CompletedProcess:
    path = shutil.which("promtool")
    assert path, "promtool is missing: tools/system.sh tests"
    return subprocess.run([path, *words], capture_output=True, text=True, **more)


def test_backlog_age_and_lag_of_queues_and_groups(client, queue):
    client.push(queue, 1, 2, partition="a")
    client.push(queue, 3, partition="b")
    (taken,) = client.pop(queue, "a", batch=1, consumerGroup="g")
    client.pop(queue, "b", batch=1, consumerGroup="g", autoAck="true")
    client.post(f"/api/v1/consumer-groups/g/queues/{queue}/pause")
    text = scrape(client)
    of, group = {"queue": queue}, {"queue": queue, "group": "g"}
    assert one(text, "queend_queue_backlog_messages", **of) == 1
    assert one(text, "queend_queue_stored_messages", **of) == 3
    assert one(text, "queend_queue_processing_messages", **of) == one(
        text, "queend_group_processing_messages", **group) == 1
    assert one(text, "queend_group_lag_messages", **group) == 2
    assert one(text, "queend_group_lagging_partitions", **group) == 1
    assert one(text, "queend_queue_oldest_seconds", **of) == one(text, "queend_group_oldest_seconds", **group) > 0
    assert (one(text, "queend_queue_paused", **of), one(text, "queend_group_paused", **group)) == (0, 1)
    assert one(text, "queend_backlog_messages") >= 1 and one(text, "queend_backlog_age_seconds") < 60
    assert client.request("POST", "/api/v1/ack", {**ack_of(taken), "consumerGroup": "g", "status": "dlq"}).status == 200
    text = scrape(client)
    assert one(text, "queend_queue_dead_letters", **of) == 1 <= one(text, "queend_dead_letters")
    assert not re.search(r"^queend_.*partition=", text, re.M), "never per partition"


def test_histograms_of_age_and_of_statements(client, queue):
    before = scrape(client)
    client.push(queue, 1)
    client.pop(queue)
    text = scrape(client)
    for name in ("queend_delivery_age_seconds", "queend_statement_latency_seconds"):
        counts = list(samples(text, f"{name}_bucket").values())
        assert counts == sorted(counts) and counts[-1] == one(text, f"{name}_count") > one(before, f"{name}_count")
        assert one(text, f"{name}_sum") > one(before, f"{name}_sum")


def test_no_more_series_than_the_bound_and_it_is_told(start_daemon):
    daemon = start_daemon(QUEEND_METRICS_QUEUES=3)
    with daemon.client() as client:
        for number in range(5):
            client.push(f"q{number}", *range(number + 1))
            client.pop(f"q{number}", consumerGroup="g", subscriptionMode="all", autoAck="true")
        text = scrape(client)
        names = set(samples(text, "queend_queue_backlog_messages"))
        assert names == {'queue="q2"', 'queue="q3"', 'queue="q4"'}, "those furthest behind"
        assert len(samples(text, "queend_group_lag_messages")) == 3
        assert len(samples(text, "queend_queue_push_messages_total")) <= 3
        assert samples(text, "queend_backlog_left_out") == {'kind="queues"': 2, 'kind="groups"': 2}
        assert one(text, "queend_backlog_messages") == 1 + 2 + 3 + 4, "sums are of all"
        with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
            connection.execute("INSERT INTO queend.queues (name) SELECT 'many' || n FROM generate_series(1, 3000) AS n")
        until(lambda: one(scrape(client), "queend_backlog_left_out", kind="queues") == 3002, "they are counted")
        assert len(scrape(client).splitlines()) < 2000


def test_none_by_name_where_none_are_wanted(start_daemon):
    with start_daemon(QUEEND_METRICS_QUEUES=0).client() as client:
        client.push("q", 1)
        text = scrape(client)
        assert samples(text, "queend_queue_backlog_messages") == {} and one(text, "queend_backlog_messages") == 1
        assert one(text, "queend_backlog_left_out", kind="queues") == 1


def test_the_doctors_findings_are_told_and_not_looked_for_at_each_scrape(client):
    text = until(lambda: (found := scrape(client)) and samples(found, "queend_doctor_finding") and found, "it looked")
    found = samples(text, "queend_doctor_finding")
    assert one(text, "queend_doctor_finding", check="daemon", level="critical") == 1, "fsync is off"
    assert one(text, "queend_doctor_finding", check="locks", level="warning") == 0, "what was not found is told, too"
    assert len(found) == 3 * len(client.get("/api/v1/system/doctor").json["checks"])
    ended = one(text, "queend_doctor_round_timestamp_seconds")
    for _ in range(3):
        assert one(scrape(client), "queend_doctor_round_timestamp_seconds") == ended, "once a minute at most"


def test_a_round_of_the_doctor_that_fails_leaves_no_findings(monkeypatch, capfd):
    outcomes = [[{"check": "locks", "level": "warning"}], LookupError("no such figure"), "hangs"]

    async def examined(control):
        outcome = outcomes.pop(0)
        if outcome == "hangs":
            await asyncio.sleep(3600)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def told(doctor):
        families = Families()
        doctor.tell(families)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return {(one.name, *one.labels.values()): one.value for family in families.all.values()
                for one in family.samples}

    async def rounds():
        doctor = Rounds(None)
        found = []
        for _ in range(3):
            monkeypatch.setattr("queend.control.metrics.rounds.EVERY_S", 0)
            found.append(await told(doctor))
            monkeypatch.setattr("queend.control.metrics.rounds.EVERY_S", 3600)
            found.append(await told(doctor))
        monkeypatch.setattr("queend.control.metrics.rounds.LONG_S", 0)
        found.append(await told(doctor))
        await doctor.close()
        return found

    monkeypatch.setattr("queend.control.metrics.rounds.examined", examined)
    nothing, good, _, failed, _, _, hung = asyncio.run(rounds())
    finding, state = ("queend_doctor_finding", "locks", "warning"), ("queend_doctor_round_failed",)
    assert nothing == {} and good[finding] == 1 and good[state] == 0
    ended = ("queend_doctor_round_timestamp_seconds",)
    for one in (failed, hung):
        assert finding not in one and one[state] == 1 and one[ended] == good[ended]
    assert "no such figure" in capfd.readouterr().err


def test_a_check_with_a_fault_is_a_finding(monkeypatch, capfd):
    async def faulty(control, ask):
        raise LookupError("no such figure")
        yield

    async def good(control, ask):
        yield "critical", "a title", "evidence", "advice"

    monkeypatch.setattr("queend.control.routes.doctor.CHECKS", {"faulty": faulty, "good": good})
    findings = asyncio.run(doctor.examined(SimpleNamespace(pool=SimpleNamespace(connection=None))))
    assert [(one["check"], one["title"]) for one in findings] == [("good", "a title"),
                                                                 ("faulty", "the check faulty failed")]
    assert "no such figure" in findings[1]["evidence"] and "no such figure" in capfd.readouterr().err


def test_promtool_finds_nothing_wrong_with_our_names(client, queue):
    client.push(queue, 1, 2)
    client.pop(queue, consumerGroup="g")
    text = until(lambda: (found := scrape(client)) and samples(found, "queend_doctor_finding") and found, "all is told")
    done = promtool("check", "metrics", input=ours(text))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_promtool_takes_the_rules_and_they_fire_when_they_are_meant_to():
    done = promtool("check", "rules", str(FOLDER / "alerts.yml"))
    assert done.returncode == 0, done
    done = promtool("test", "rules", "alerts_test.yml", cwd=FOLDER)
    assert done.returncode == 0, done


@pytest.mark.parametrize("reader", ["worker", None])
def test_a_dead_consumer_raises_an_alert(client, queue, tmp_path, reader):
    """Takes the figures of a daemon whose consumer is gone and continues them as they go on for 20 minutes: an age
    grows by a minute each minute, everything else stays."""
    if reader:
        client.push(queue, 1, partition="first")
        client.pop(queue, consumerGroup=reader, autoAck="true")
    client.push(queue, *range(5), partition="came to after its death")
    alive = scrape(client)
    text = until(lambda: (found := scrape(client)) and all(
        one(found, name, queue=queue) > one(alive, name, queue=queue) for name in AGES[:1 + 2 * bool(reader)])
        and found, "ages grow")
    told = {"QueendQueueUnread": [{"severity": "warning", "queue": queue}],
            "QueendConsumersGone": [{"severity": "warning", "queue": queue, "group": reader}] if reader else []}
    assert fired(tmp_path, text, queue, told) == "", "both"
    client.pop(queue, consumerGroup=reader or "new", partitions=10, batch=100, autoAck="true", subscriptionMode="all")
    assert fired(tmp_path, scrape(client), queue, dict.fromkeys(told, [])) == "", "nothing waits"


AGES = ("queend_queue_oldest_seconds", "queend_group_oldest_seconds", "queend_group_idle_seconds")


def fired(folder: Path, text: str, queue: str, told: dict[str, list[dict]]) -> str:
    """Returns what promtool reports if other alerts than these fire after 20 minutes of a queue's figures."""
    series = [{"series": line.rsplit(" ", 1)[0].replace("{", '{instance="a",', 1),
               "values": f"{line.rsplit(' ', 1)[1]}+{60 if line.startswith(AGES) and line[-4:] != ' 0.0' else 0}x20"}
              for line in ours(text).splitlines() if f'queue="{queue}"' in line]
    assert len(series) > 5
    rules = re.sub(r"\n +annotations:(\n {10}.*)+", "", (FOLDER / "alerts.yml").read_text())
    (folder / "alerts.yml").write_text(rules)
    (folder / "rules.yml").write_text(json.dumps({
        "rule_files": ["alerts.yml"], "evaluation_interval": "1m", "tests": [{
            "interval": "1m", "input_series": series, "alert_rule_test": [
                {"eval_time": "20m", "alertname": name, "exp_alerts": [{"exp_labels": one} for one in alerts]}
                for name, alerts in told.items()]}]}))
    done = promtool("test", "rules", "rules.yml", cwd=folder)
    return done.stdout + done.stderr if done.returncode else ""


def test_what_rules_and_dashboards_ask_for_is_told(client, queue):
    client.push(queue, 1)
    client.pop(queue, consumerGroup="g", autoAck="true")
    text = until(lambda: (found := scrape(client)) and samples(found, "queend_doctor_finding")
                 and samples(found, "queend_queue_acked_messages_total", queue=queue) and found, "all is told")
    told = set(re.findall(r"^# TYPE (\S+)", text, re.M))
    told |= {name + part for name in re.findall(r"^# TYPE (\S+) histogram", text, re.M) for part in PARTS}
    told.add("queend_certificate_expires_seconds")      # of a daemon with a certificate: tests/e2e/test_https.py
    asked = {FOLDER / "alerts.yml": NAME.findall((FOLDER / "alerts.yml").read_text())}
    for file in FOLDER.glob("grafana-*.json"):
        asked[file] = NAME.findall(" ".join(expressions(json.loads(file.read_text()))))
    assert len(asked) == 3
    for file, names in asked.items():
        assert len(names) > 10 and not set(names) - told, (file.name, set(names) - told)


def expressions(value: object) -> list[str]:
    """Whatever a dashboard asks Prometheus."""
    if isinstance(value, list):
        return [found for inner in value for found in expressions(inner)]
    if not isinstance(value, dict):
        return []
    return [text for key, text in value.items() if key in ("expr", "definition") and isinstance(text, str)] + [
        found for inner in value.values() for found in expressions(inner)]
