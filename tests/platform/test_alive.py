"""The health check of a container (tests/e2e/test_https.py has it beside daemons): where it reads settings, and what it
imports."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.forked import PACKAGE

from queend.daemon.alive import NAMES, PORT
from queend.settings.early import early
from queend.settings.load import load

FILE = 'port = 7001\nhost = "127.0.0.1"\nqueend_tls_key = "/file.key"\nqueend_tls_cert = "/file.pem"\n'
ENVIRONMENT = {"PORT": "7002", "HOST": "127.0.0.2", "queend_tls_cert": "/environment.pem", "QUEEND_TLS_KEY": ""}
CREDENTIALS = {"port": "7003\n", "QUEEND_TLS_CLIENT_CA": "/credential.pem", "queend.host": "", "other": "text"}


@pytest.mark.parametrize("file", ["", FILE])
@pytest.mark.parametrize("environment", [{}, ENVIRONMENT])
@pytest.mark.parametrize("credentials", [{}, CREDENTIALS])
def test_it_reads_settings_where_the_daemon_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str,
                                                 environment: dict[str, str], credentials: dict[str, str]) -> None:
    for name in (*os.environ,):
        if name.lower() in NAMES or name.startswith(("QUEEND_", "QUEEN_")):
            monkeypatch.delenv(name)
    own = {"QUEEND_TLS_CERT": "/own.pem", "QUEEND_TLS_KEY": "/own.key", "QUEEND_TLS_CLIENT_CA": "/own.ca"}
    for name, text in {**(environment or own), "QUEEND_CONFIG": str(tmp_path / "file")}.items():
        monkeypatch.setenv(name, text)
    if environment and not file:
        monkeypatch.setenv("QUEEND_TLS_KEY", "/environment.key")
    (tmp_path / "file").write_text(file)
    (tmp_path / "secrets").mkdir()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "secrets"))
    for name, text in credentials.items():
        (tmp_path / "secrets" / name).write_text(text)
    settings, found = load(), early(NAMES)
    assert {"port": PORT} | found == {name: str(value) for name in NAMES
                                      if (value := getattr(settings, name)) is not None}


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    for name, text in (("none", "No such file"), ("wrong", "Invalid value")):
        (tmp_path / "wrong").write_text("port =")
        done = subprocess.run([sys.executable, "-m", "queend.daemon.alive"], capture_output=True, text=True, timeout=60,
                              env={"PYTHONPATH": str(PACKAGE), "QUEEND_CONFIG": str(tmp_path / name)})
        assert done.returncode == 1 and text in done.stderr and "Traceback" not in done.stderr, done


def test_it_imports_only_what_it_needs() -> None:
    """Libraries take 0.3 s of the processor, every 10 s in each container."""
    done = subprocess.run([sys.executable, "-c", "import queend.daemon.alive, sys; print(*sys.modules)"],
                          capture_output=True, text=True, timeout=60, env={"PYTHONPATH": str(PACKAGE)})
    names = set(done.stdout.split())
    assert "queend.settings.early" in names, done
    assert not names & {"pydantic", "pydantic_settings", "cryptography", "http.client", "ssl", "tomllib", "asyncio"}
    assert {name for name in names if name.startswith("queend")} == {
        "queend", "queend.daemon", "queend.daemon.alive", "queend.settings", "queend.settings.credentials",
        "queend.settings.early", "queend.settings.spelling"}
