"""Pages for operators: their commands, run as they stand there."""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

import psycopg
import pytest
from support.callers import Caller
from support.daemon import ROOT, Daemon
from support.guides import blocks, sessions, type_in
from support.prepared import data_folder
from support.tokens import SECRET, token

SERVES = re.compile(r"^((?:\w+=(?:\"[^\"\n]*\"|\S+) +)+)queend serve", re.M)


def lines(page: str, word: str, language: str = "") -> list[str]:
    """Returns the lines of the one block of a page that has a word."""
    (block,) = (one for one in blocks(page, language) if word in one)
    return block.splitlines()


def test_pausing(daemon, client, tmp_path):
    client.push("orders", 1)
    client.pop("orders", consumerGroup="billing", autoAck=True)
    client.push("orders", 2)
    reasons = []
    for command in lines("run.md", "queend queue pause"):
        assert "paused" in type_in(daemon, tmp_path, command) or "resume" in command
        reasons.append([client.get(f"/api/v1/pop/queue/orders{group}").json.get("reason")
                        for group in ("?consumerGroup=other&subscriptionMode=new", "?consumerGroup=billing")])
    assert reasons == [["paused", "paused"], ["paused", "paused"], ["empty", "paused"]]
    assert client.pop("orders", consumerGroup="billing") == []
    assert "resumed" in type_in(daemon, tmp_path, "queend group resume billing --queue orders")
    assert [one["data"] for one in client.pop("orders", consumerGroup="billing")] == [2]


def test_the_search_for_a_message(daemon, client, tmp_path):
    client.delete("orders")
    client.push("orders", {"order": 4711}, partition="customer-7", transactionId="order-4711")
    client.push("orders", {"order": 12}, partition="customer-8")
    client.push("orders-again", {"order": 4711})
    found = [command for command, _ in sessions("observe.md")]
    searches, (listed, shown) = found[:3], found[3:]
    for command, count in zip(searches, (1, 1, 2), strict=True):
        told = [json.loads(line) for line in type_in(daemon, tmp_path, f"{command} -o ndjson").splitlines()
                if line.startswith("{")]
        assert len(told) == count and all("4711" in one["excerpt"] for one in told), (command, told)
    pending = [json.loads(line) for line in type_in(daemon, tmp_path, f"{listed} -o ndjson").splitlines()]
    (place,) = (f"{one['partitionId']}/{one['transactionId']}" for one in pending
                if one["transactionId"] == "order-4711")
    assert len(pending) == 2 and "PARTITION_ID/TRANSACTION_ID" in shown
    assert "4711" in type_in(daemon, tmp_path, shown.replace("PARTITION_ID/TRANSACTION_ID", place))


@pytest.mark.daemon
def test_a_backup_and_its_restore(tmp_path, monkeypatch):
    """The daemon has its own server, in the folder that docs/web-app.md names."""
    saves, restores = (line.replace("/backup/", f"{tmp_path}/") for line in lines("recover.md", "queend backup"))
    folder = tmp_path / ".queend"
    exports = "\n".join(lines("web-app.md", "SHOP_DSN=", "sh")) + "\n"
    monkeypatch.setenv("QUEEND_DATA_DIR", str(folder))
    with Daemon.own(data_folder(folder)) as daemon:
        daemon.await_ready()
        with daemon.client() as client:
            client.push("orders", {"n": 1})
        asked = exports + 'psql "$SHOP_DSN" -Atc "SELECT name FROM queen.queues"; echo $QUEEND_URL'
        assert type_in(daemon, tmp_path, asked).splitlines() == ["orders", daemon.url]
        told = type_in(daemon, tmp_path, saves, QUEEND_DATA_DIR=str(folder))
        assert (tmp_path / "monday" / "backup.json").exists(), told
        assert daemon.end() == 0
    shutil.rmtree(folder)
    told = type_in(daemon, tmp_path, restores, QUEEND_DATA_DIR=str(folder))
    with Daemon.own(folder) as daemon:
        daemon.await_ready()
        with daemon.client() as client:
            assert [one["data"] for one in client.pop("orders")] == [{"n": 1}], told
        assert daemon.end() == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other accounts")
def test_the_units_are_installed(tmp_path):
    """The commands of docs/run.md below a folder of their own, except for those that need a running systemd."""
    for folder in ("etc/systemd/system", "usr/lib/sysusers.d", "usr/lib/tmpfiles.d"):
        (tmp_path / folder).mkdir(parents=True)
    typed = "\n".join(lines("run.md", "systemd-sysusers")[:5])
    for place in (" /etc/", " /usr/lib/"):
        typed = typed.replace(place, f" {tmp_path}{place.strip()}")
    for program in ("systemd-sysusers", "systemd-tmpfiles"):
        typed = typed.replace(program, f"{program} --root={tmp_path}")
    typed += "\n" + "\n".join(lines("run.md", "IPAddressAllow")[:2]).replace(" /etc/", f" {tmp_path}/etc/")
    group = "$(awk -F: '/^queend:/{print $3}' " + f"{tmp_path}/etc/group)"      # is an account of that folder only
    done = subprocess.run(["bash", "-euc", typed.replace("-g queend", f"-g {group}")], cwd=ROOT, capture_output=True,
                          text=True)
    assert done.returncode == 0, (typed, done)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*queend*/*")}
    assert found == {"etc/queend/queend.toml", "etc/systemd/system/queend.service.d/network.conf"}
    assert (tmp_path / "etc/queend/queend.toml").stat().st_mode & 0o777 == 0o640


def test_sessions_that_stop_vacuum(daemon):
    (query,) = blocks("retain.md", "sql")
    with psycopg.connect(daemon.conninfo) as old, psycopg.connect(daemon.conninfo) as asking:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT 1")
        assert old.info.backend_pid in [row[0] for row in asking.execute(query)]


def test_queues_of_tokens(start_daemon, tmp_path):
    """The claims that docs/auth.md shows, and the command that prints the first of them."""
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="queues")
    billing, page = [json.loads(block) for block in blocks("auth.md", "json")]
    (command,) = re.findall(r"`(queend token mint billing [^`]*)`", (ROOT / "docs/auth.md").read_text())
    minted = type_in(daemon, tmp_path, command, JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="queues").strip()
    for made in (minted, token(**billing)):
        with Caller(daemon, made) as caller:
            pushed = [caller.post("/api/v1/push", {"items": [{"queue": name, "payload": 1}]}).status
                      for name in ("invoices.a", "audit", "orders", "orders.dead")]
            popped = [caller.get(f"/api/v1/pop/queue/{name}").status for name in ("invoices.a", "audit")]
        assert (pushed, popped) == ([201, 201, 403, 403], [200, 403])
    with Caller(daemon, token(**page)) as caller:
        assert [caller.get(f"/api/v1/pop/queue/orders?consumerGroup={group}").status
                for group in ("page-anna", "billing")] == [200, 403]
        assert caller.post("/api/v1/push", {"items": [{"queue": "orders", "payload": 1}]}).status == 403


def test_the_settings_of_daemons(daemon, tmp_path):
    """Lines that start a daemon with settings. The daemon takes each, and reads what the line says."""
    subprocess.run(["openssl", "genrsa", "-out", "private.pem", "2048"], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run(["openssl", "rsa", "-in", "private.pem", "-pubout", "-out", "key.pem"], cwd=tmp_path, check=True,
                   capture_output=True)
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    found = [(page.name, line) for page in pages for line in SERVES.findall(page.read_text())]
    assert {page for page, _ in found} >= {"README.md", "auth.md", "production.md", "web-app.md"} and len(found) >= 8
    for page, line in found:
        secret = line.replace("=…", f"='{SECRET}'")
        told = type_in(daemon, tmp_path, f"{secret} queend config --changed --json", QUEEND_URL="")
        assert told.startswith("{"), (page, line, told)
        names = re.findall(r"(\w+)=(?=\S)", re.sub(r'"[^"]*"', '"…"', line))
        assert {name.lower() for name in names} <= {name.lower() for name in json.loads(told)}, (page, line, told)
