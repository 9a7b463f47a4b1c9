"""docs/prometheus.md with a real Prometheus: its scrape configurations, its queries, its token, its list of alerts."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from support.daemon import PACKAGE, ROOT, Daemon
from support.guides import blocks
from support.prometheus import Ask, scraping
from support.wait import until

PAGE, SECRET = "prometheus.md", "0123456789abcdef0123456789abcdef"
TEXT = (ROOT / "docs" / PAGE).read_text()


@contextmanager
def prometheus(folder: Path, text: str, daemon: Daemon) -> Iterator[Ask]:
    """Runs Prometheus with a configuration of the page, one daemon and one second between two scrapes. Yields how to
    query it."""
    for file in ("/etc/prometheus/queend-alerts.yml", "/etc/prometheus/queend.token"):
        text = text.replace(file, str(folder / Path(file).name))
    config = yaml.safe_load(text)
    (job,) = config["scrape_configs"]
    (targets,) = job["static_configs"]
    assert targets["targets"] == ["queue-1.example:6632", "queue-2.example:6632"]
    targets["targets"] = [f"127.0.0.1:{daemon.port}"]
    with scraping(folder, config) as query:
        yield query


@pytest.fixture(scope="module")
def daemon(start_daemon):
    return start_daemon(QUEEND_BUFFER_BYTES=1 << 20)


def queries() -> list[str]:
    """The queries of the table of metrics to look at first."""
    table = TEXT.split("## Ten metrics")[1].split("\n\n")[1]
    found = re.findall(r"^\| [^|]*\? \| `([^`]+)` \|", table, re.M)
    assert len(found) == 10
    return found


def test_the_first_metrics_to_look_at(daemon, client, tmp_path):
    shutil.copy(ROOT / "monitoring/alerts.yml", tmp_path / "queend-alerts.yml")
    with prometheus(tmp_path, blocks(PAGE, "yaml")[0], daemon) as query:
        client.push("orders", 1, 2)
        client.pop("orders", consumerGroup="billing", subscriptionMode="all")
        for expression in queries():
            until(lambda expression=expression: query(expression), f"a value of {expression}")
        (lag,) = query(queries()[3])
        assert (lag["metric"], lag["value"][1]) == ({"queue": "orders", "group": "billing"}, "2")
        until(lambda: query('ALERTS{alertname="QueendCommitsMayBeLost"}'), "the rules are read: fsync is off here")


def test_the_token_of_the_page(start_daemon, tmp_path):
    (command,) = blocks(PAGE, "sh")
    command = command.replace("JWT_SECRET=…", f"JWT_SECRET={SECRET}").replace(
        "/etc/prometheus/queend.token", str(tmp_path / "queend.token")).replace(
        "queend token", f"{sys.executable} -m queend token", 1)
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True,
                   env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE)})
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="queues",
                          JWT_REQUIRE_QUEUES="true")
    with prometheus(tmp_path, blocks(PAGE, "yaml")[1], daemon) as query:
        until(lambda: query("queend_database_doubts"), "its metrics are there")


def test_the_list_of_alerts():
    rules = yaml.safe_load((ROOT / "monitoring/alerts.yml").read_text())["groups"][0]["rules"]
    table = re.findall(r"^\| `(Queend\w+)` \| (\w+) \| [^|]+ \| (\w*) ?\|$", TEXT, re.M)
    assert table == [(one["alert"], one["labels"]["severity"], one.get("for", "")) for one in rules]


@pytest.mark.parametrize("name", re.findall(r"`(monitoring/[\w.-]+)`", TEXT))
def test_files_of_the_page_are_there(name):
    assert (ROOT / name).exists()
