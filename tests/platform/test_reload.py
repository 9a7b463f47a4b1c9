"""SIGHUP: settings are read again, and those that may change do so without a connection lost."""
from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from support.daemon import Daemon
from support.tokens import SECRET, bearer, token
from support.wait import PATIENCE, until

from queend.settings.model import Settings, is_live


@pytest.fixture
def start(postgres, start_daemon, tmp_path) -> Callable[..., tuple[Daemon, Path]]:
    """A daemon with a file of settings, and the file."""
    def one(text: str, **settings: object) -> tuple[Daemon, Path]:
        file = tmp_path / "queend.toml"
        file.write_text(text)
        return start_daemon(postgres.database(), QUEEND_CONFIG=file, **settings), file

    return one


def again(daemon: Daemon, event: str = "reloaded") -> dict:
    daemon.process.send_signal(signal.SIGHUP)
    return daemon.await_event(event)


def test_what_may_change_does_and_the_connection_stays(start):
    daemon, file = start('log_level = "info"\n', METRICS_SAMPLE_INTERVAL_MS=100)
    with daemon.client() as client, daemon.client() as waits:
        client.push("q", 1)
        client.pop("q", autoAck="true")
        waits.send("GET", "/api/v1/pop/queue/q?wait=true&timeout=60000")
        until(lambda: client.parked() == 1, "the pop is parked")
        before = client.wire
        file.write_text('log_level = "debug"\nstats_interval_ms = 100\nretention_interval = 100\n'
                        'queend_max_connections_per_address = 2\n')
        assert again(daemon)["changed"] == [
            "LOG_LEVEL", "QUEEND_MAX_CONNECTIONS_PER_ADDRESS", "RETENTION_INTERVAL", "STATS_INTERVAL_MS"]
        shown = {one["name"]: one for one in client.get("/api/v1/system/settings").json}
        assert shown["STATS_INTERVAL_MS"]["value"] == "100" and shown["STATS_INTERVAL_MS"]["origin"] == "file"
        with socket.create_connection(daemon.address) as third:      # a third one of this address
            assert b" 429 " in third.makefile("rb").readline()
        runs = client.metric("queend_retention_runs_total")      # was every five minutes
        until(lambda: client.metric("queend_retention_runs_total") > runs, "retention runs")
        client.push("q", "for who waits")
        assert [one["data"] for one in waits.receive().json["messages"]] == ["for who waits"]
        assert client.wire is before
        file.write_text("")
        assert "LOG_LEVEL" in again(daemon)["changed"]
    daemon.stop()


def test_what_may_not_change_is_told_and_stays(start):
    daemon, file = start("port = 0\n", LOG_LEVEL="info")
    file.write_text('port = 1\nsidecar_pool_size = 6\nlog_level = "debug"\n')
    daemon.process.send_signal(signal.SIGHUP)
    done = daemon.await_event("reloaded")
    assert done["changed"] == []      # the environment has PORT and LOG_LEVEL: it wins, and does not change
    assert [line["detail"].split()[0] for line in daemon.log if line["event"] == "setting_needs_restart"] == [
        "SIDECAR_POOL_SIZE"]
    with daemon.client() as client:
        shown = {one["name"]: one["value"] for one in client.get("/api/v1/system/settings").json}
        assert shown["SIDECAR_POOL_SIZE"] == ""


@pytest.mark.parametrize("text, told", [
    ('stats_interval_ms = "often"\nretention_interval = 100\n', "STATS_INTERVAL_MS"), ("no toml", "QUEEND_CONFIG"),
    ("queend_no_such = 1\n", "QUEEND_NO_SUCH")])
def test_a_wrong_file_changes_nothing(start, text, told):
    daemon, file = start("stats_interval_ms = 5000\n")
    file.write_text(text)
    assert told in again(daemon, "reload_refused")["detail"]
    file.write_text("stats_interval_ms = 5000\n")
    assert again(daemon)["changed"] == []
    with daemon.client() as client:
        assert client.push("q", 1)[0]["status"] == "queued"


def test_what_does_not_fit_what_stays_is_refused_in_words(start):
    daemon, file = start(f'jwt_enabled = true\njwt_secret = "{SECRET}"\n')
    file.write_text('jwt_enabled = false\njwt_algorithm = "RS256"\n')
    assert again(daemon, "reload_refused")["detail"] == (
        "JWT_PUBLIC_KEY is not set; JWT_ENABLED with JWT_ALGORITHM RS256 requires it, or JWT_JWKS_URL")


def test_a_secret_changes_and_tokens_of_the_one_before_end(start, tmp_path):
    """From a credential, as systemd and containers give it. The connection stays, and what was verified is verified
    again."""
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "jwt_secret").write_text(SECRET + "\n")
    other = "another secret of tests, which is long enough, too"
    daemon, _ = start("", JWT_ENABLED="true", CREDENTIALS_DIRECTORY=secrets)
    old, new = bearer(token(role="read-write")), bearer(token(key=other, role="read-write"))
    with daemon.client() as client:
        def status(headers: dict[str, str]) -> int:
            return client.request("POST", "/api/v1/push", {"items": [{"queue": "q", "payload": 1}]}, headers).status

        assert (status(old), status(new), status(old)) == (201, 401, 201)
        wire = client.wire
        (secrets / "jwt_secret").write_text(other)
        assert again(daemon)["changed"] == ["JWT_SECRET"]
        assert (status(new), status(old), status(new)) == (201, 401, 201)
        assert client.wire is wire
    assert not any(other in str(line) for line in daemon.log)


def test_systemd_is_told(start, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)
        daemon, _ = start("", NOTIFY_SOCKET=tmp_path / "notify")
        assert manager.recv(1000).startswith(b"READY=1")
        again(daemon)
        first = manager.recv(1000)
        assert first.startswith(b"RELOADING=1\nMONOTONIC_USEC=") and first.split(b"=")[-1].isdigit()
        assert manager.recv(1000) == b"READY=1"
        daemon.stop()


def test_what_listens_and_connects_is_for_the_next_start():
    for name in ("host", "port", "num_workers", "queend_dsn", "pg_password", "jwt_enabled", "queend_data_dir",
                 "queend_encryption_keys", "jwt_skip_paths", "cors_origins"):
        assert not is_live(name)
    assert sum(map(is_live, Settings.model_fields)) > 30
