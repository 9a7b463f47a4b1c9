"""docs/tls.md, typed in: its certificates, its daemon, and each client."""
from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.daemon import Daemon
from support.guides import blocks, environment, like, named, sessions, settings_in, type_in
from support.prepared import data_folder
from support.prometheus import scraping
from support.wait import until

PAGE = "tls.md"
OTHERS = {"CURL_CA_BUNDLE": "", "SSL_CERT_DIR": ""}      # of whoever runs the tests: they win over SSL_CERT_FILE


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the commands are typed, with the certificates of the page."""
    made = tmp_path_factory.mktemp("typed")
    certificates, serve = blocks(PAGE, "sh")
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", certificates], cwd=made, capture_output=True, text=True)
    assert done.returncode == 0, done
    assert serve.endswith(" queend serve\n")
    return made


@pytest.fixture(scope="module")
def daemon(start_daemon, folder: Path) -> Daemon:
    (line,) = (line for line in blocks(PAGE, "sh")[1].splitlines())
    words = settings_in(line.removesuffix(" queend serve").replace(" ", "\n") + "\n")
    assert set(words) == {"QUEEND_TLS_CERT", "QUEEND_TLS_KEY"}
    return start_daemon(**{name: folder / file for name, file in words.items()})


def test_the_sessions(daemon: Daemon, folder: Path) -> None:
    found = sessions(PAGE)
    assert len(found) == 6
    for command, promised in found:
        plain = command.replace("http://localhost:6632", f"http://127.0.0.1:{daemon.port}")      # is left as it is
        told = type_in(daemon, folder, plain, QUEEND_URL="")
        assert like(told.replace(f"127.0.0.1:{daemon.port}", "localhost:6632"), promised), (command, told)


def test_the_program(daemon: Daemon, folder: Path) -> None:
    program = named(PAGE)["secure.py"].replace("localhost:6632", f"localhost:{daemon.port}")
    (folder / "secure.py").write_text(program)
    done = subprocess.run([sys.executable, "secure.py"], cwd=folder, env=environment(daemon, folder),
                          capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "{'n': 3}", done
    trusted = program.replace(', tls=ssl.create_default_context(cafile="ca.pem")', "")
    (folder / "secure.py").write_text(trusted)
    done = subprocess.run([sys.executable, "secure.py"], cwd=folder, capture_output=True, text=True, timeout=60,
                          env=environment(daemon, folder, SSL_CERT_FILE="ca.pem"))
    assert done.stdout == "{'n': 3}\n", done


def test_one_variable_for_all(daemon: Daemon, folder: Path) -> None:
    more = {**OTHERS, "SSL_CERT_FILE": "ca.pem", "QUEEND_URL": daemon.url}
    assert type_in(daemon, folder, "curl https://localhost:6632/livez", **more) == '{"status":"alive"}'
    assert "healthy" in type_in(daemon, folder, "queend status", XDG_CONFIG_HOME="/none", **more)


def test_the_greeting_works(folder: Path, tmp_path: Path) -> None:
    words = {"QUEEND_TLS_CERT": folder / "server.pem", "QUEEND_TLS_KEY": folder / "server.key"}
    with Daemon.own(data_folder(tmp_path), **words) as daemon:
        daemon.await_ready()
        until(lambda: "Ctrl-C" in "".join(daemon.greeting), "it has greeted")
        lines = [line.partition("your own: ")[2] or line for line in "".join(daemon.greeting).splitlines()
                 if line.startswith("  ")]
        assert lines[0] == "export SSL_CERT_FILE=ca.pem"
        done = subprocess.run(["bash", "-c", "\n".join(lines)], cwd=folder, capture_output=True, text=True,
                              env={**os.environ, **OTHERS})
        assert '"status":"queued"' in done.stdout and '"success":true' in done.stdout, done
        assert daemon.end() == 0


def test_strict_clients_accept_the_certificate(daemon: Daemon, folder: Path) -> None:
    """Python 3.13 sets this flag by default: extensions have to be as RFC 5280 demands."""
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    with socket.create_connection(daemon.address) as plain, context.wrap_socket(plain, server_hostname="localhost"):
        pass


@pytest.mark.parametrize("required", [False, True], ids=["as_on_the_page", "with_a_certificate_of_its_own"])
def test_prometheus(start_daemon, daemon: Daemon, folder: Path, tmp_path: Path, required: bool) -> None:
    config = yaml.safe_load(blocks(PAGE, "yaml")[0].replace("/etc/prometheus/ca.pem", str(folder / "ca.pem")))
    (job,) = config["scrape_configs"]
    if required:
        daemon = start_daemon(**daemon.settings, QUEEND_TLS_CLIENT_CA=folder / "ca.pem",
                              QUEEND_TLS_CLIENT_REQUIRED="true")
        job["tls_config"] |= {"server_name": "queue.example", "cert_file": str(folder / "server.pem"),
                              "key_file": str(folder / "server.key")}
    job["static_configs"][0]["targets"] = [f"127.0.0.1:{daemon.port}"]
    del config["rule_files"]
    with scraping(tmp_path, config) as query:
        assert float(query("queend_certificate_expires_seconds")[0]["value"][1]) > 364 * 86400
