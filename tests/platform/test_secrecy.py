"""What is not told, written down or left behind of secrets."""
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from support.command import command
from support.daemon import Daemon
from support.prepared import data_folder
from support.wait import until

from queend import log
from queend.services import metrics
from queend.settings.dsn import words_of

KEYS = {"QUEEND_ENCRYPTION_KEYS": "a:" + "5a" * 32}
PRINTED = """
import ctypes, resource
from queend.daemon import hardening
hardening.close(%s)
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE)[0])
"""


def core_limit(pid: int) -> str:
    (line,) = (line for line in Path(f"/proc/{pid}/limits").read_text().splitlines()
               if line.startswith("Max core file size"))
    return line.split()[4]


@pytest.fixture
def core_dumps():
    """They are allowed to what is started here."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    if before[1] == 0:
        pytest.skip("this machine allows no core dumps")
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


@pytest.mark.parametrize("leave", ["false", "true"])
def test_a_process_with_keys_leaves_no_core_dump(core_dumps, tmp_path, leave):
    with Daemon.own(data_folder(tmp_path), alone=True, **KEYS,      # limits are inherited
                    QUEEND_CORE_DUMPS=leave) as daemon:
        daemon.await_ready()
        server = daemon.line("database_started")["pid"]
        limits = {core_limit(daemon.pid), core_limit(server)}
        assert "0" not in limits if leave == "true" else limits == {"0"}
        assert daemon.end() == 0


@pytest.mark.parametrize("leave, dumpable", [(False, "0"), (True, "1")])
def test_nor_can_it_be_traced(leave, dumpable):
    done = subprocess.run([sys.executable, "-c", PRINTED % leave], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == dumpable and (done.stdout.split()[1] == "0" or leave)


# The second half of each password counts as a host, a database or both.
CUT = ["postgresql://bob:hor@se/battery@127.0.0.1:1/stap%6ce", "postgresql://bob:hor@staple-host:1/battery@127.0.0.1/a",
       "postgresql://bob:hor@staple@127.0.0.1:1/a", "postgres://bob:1/staple@127.0.0.1:1/a"]


@pytest.mark.parametrize("dsn", [*CUT, "host=127.0.0.1 port=1 user=u password=horse dbname=d"])
def test_no_part_of_a_password_is_in_an_error(tmp_path, dsn):
    with Daemon.own(tmp_path, QUEEND_DSN=dsn) as daemon:
        until(lambda: daemon.line("database_unreachable") or daemon.process.poll() is not None,
              "it tells that it cannot connect")
        daemon.end()
        told = daemon.story() + "".join(map(str, daemon.log)) + "".join(daemon.other)
        assert not [part for part in ("se/battery", "staple", "horse", "hor@") if part in told], told


def test_nor_of_one_that_cannot_be_read(tmp_path):
    with Daemon.own(tmp_path, QUEEND_DSN="postgresql://bob:horse@[::1") as daemon:
        assert daemon.wait() != 0
        told = daemon.story() + "".join(map(str, daemon.log)) + "".join(daemon.other)
        assert "QUEEND_DSN: expected a connection string" in told and not [
            part for part in ("horse", "Traceback") if part in told], told


@pytest.mark.parametrize("dsn", CUT)
def test_of_commands_neither(dsn):
    done = command("migrate", QUEEND_DSN=dsn)
    assert done.returncode != 0 and "staple" not in done.stderr + done.stdout


@pytest.mark.parametrize("dsn", ["postgresql://bob:horse@db.example:5432/queend",
                                 "postgresql://bob@db.example/queend?password=horse",
                                 "host=db.example user=bob password=horse dbname=queend"])
def test_names_of_a_connection_string_are_told(dsn):
    words_of(dsn, "QUEEND_DSN")
    said = "schema \"queend\" of 'db.example' for role \"bob\": "
    assert log.masked(said + '"horse"') == said + "(password)"


def test_half_of_what_a_key_may_seal_is_told_once(monkeypatch):
    told = []
    monkeypatch.setattr(log, "line", lambda *words, **facts: told.append(words[:2]))
    one = metrics.Metrics.__new__(metrics.Metrics)
    one.key_told = False
    for sealed in (0, (1 << 31) - 1, 1 << 31, 1 << 32):
        one._count_sealed(sealed)
    assert told == [("warn", "key_half_used")]
