"""The unit files satisfy systemd's own checkers; the readiness protocol reaches a real socket."""
import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.client import Client, data
from support.wait import PATIENCE

from queend.daemon import systemd
from queend.daemon.systemd import notify, watchdog_seconds

ROOT = Path(__file__).parent.parent.parent
UNITS = ROOT / "systemd"


def test_the_units_are_valid(tmp_path):
    # The checker wants a program that exists; everything else is checked as it is shipped.
    for name in ("queend.service", "queend@.service"):
        text = (UNITS / name).read_text()
        assert "ExecStart=/opt/queend/bin/queend serve\n" in text
        (tmp_path / name.replace("@", "@blue")).write_text(
            text.replace("/opt/queend/bin/queend serve", f"{sys.executable} -m queend serve"))
    (tmp_path / "queend.socket").write_text((UNITS / "queend.socket").read_text())
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *sorted(tmp_path.iterdir())], capture_output=True,
                          text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unit", ["queend.service", "queend@.service"])
def test_the_service_stays_locked_down(unit):
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=9", UNITS / unit],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-300:]


def test_an_instance_differs_by_its_name_alone():
    one, instance = ((UNITS / name).read_text().splitlines() for name in ("queend.service", "queend@.service"))
    said = [[line for line in lines if line and not line.startswith("#")] for lines in (one, instance)]
    assert len(said[0]) == len(said[1])
    for mine, its in zip(*said, strict=True):
        assert mine == its or "%i" in its
        assert its.count("%i") == (0 if mine == its else 2 if "QUEEND_CONFIG" in its else 1)


def test_the_settings_that_are_shipped_can_be_read(tmp_path):
    """Every line of the example is a setting with a value that may be."""
    text = (UNITS / "queend.toml").read_text()
    shown = tmp_path / "shown.toml"
    shown.write_text("\n".join(line[2:] for line in text.splitlines() if " = " in line) + '\njwt_secret = "' + "s" * 40
                     + '"\n')
    for file in (UNITS / "queend.toml", shown):
        done = subprocess.run([sys.executable, "-m", "queend", "config", "--changed"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(ROOT), "QUEEND_CONFIG": str(file)})
        assert done.returncode == 0, done.stderr


def confined(folder: Path, *words: object, **more: object) -> subprocess.Popen:
    """A program under what the unit allows, which sees only `folder` as its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "QUEEND_DATA_DIR": str(folder), "PORT": "0"}
    return subprocess.Popen([sys.executable, ROOT / "tests" / "support" / "confined.py", UNITS / "queend.service",
                             folder, *words], cwd="/", text=True,
                            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def test_daemon_and_postgresql_run_under_the_filters_of_the_unit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("state")
    process = confined(folder, sys.executable, "-m", "queend", "serve")
    try:
        port = next(told["port"] for line in process.stderr if (told := json.loads(line))["event"] == "ready")
        with Client(("127.0.0.1", port)) as client:
            assert client.push("q", 1)[0]["status"] == "queued"
            assert data(client.pop("q", autoAck="true")) == [1]
    finally:
        process.terminate()
        told = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 0 and '"stopped"' in told, told


@pytest.mark.parametrize("what", ["os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
                                  "os.setpriority(os.PRIO_PROCESS, 0, 5)", "os.chroot('/')",
                                  "open('/etc/queend-was-here', 'w')", "os.stat('/proc/meminfo')"])
def test_what_the_unit_forbids_fails(tmp_path, what):
    process = confined(tmp_path, sys.executable, "-c",
                       f"import os\ntry:\n    {what}\nexcept OSError as error:\n    print('refused')")
    assert process.communicate(timeout=PATIENCE)[0] == "refused\n"


def test_the_account_is_valid():
    done = subprocess.run(["systemd-sysusers", "--dry-run", UNITS / "queend.sysusers"], capture_output=True, text=True)
    assert done.returncode == 0 and "queend" in done.stdout + done.stderr, done


def test_notify_sends_one_datagram(tmp_path, monkeypatch):
    for address, name in [(str(tmp_path / "n"), str(tmp_path / "n")),
                          ("\0queend-%d" % os.getpid(), "@queend-%d" % os.getpid())]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
            receiver.bind(address)
            monkeypatch.setenv("NOTIFY_SOCKET", name)
            notify("READY=1", "STATUS=up")
            assert receiver.recv(100) == b"READY=1\nSTATUS=up"
    notify("READY=1")  # nobody listens any more: not an error
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify("READY=1")


def test_a_long_start_asks_for_more_time(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setattr(systemd, "EXTEND_S", 0.01)

        async def start() -> None:
            starting = asyncio.create_task(systemd.extend_start())
            for _ in range(2):
                assert await asyncio.to_thread(receiver.recv, 100) == b"EXTEND_TIMEOUT_USEC=60000000"
            starting.cancel()

        asyncio.run(start())


def test_watchdog_period(monkeypatch):
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    assert watchdog_seconds() is None
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    assert watchdog_seconds() == 30
    monkeypatch.setenv("WATCHDOG_PID", "1")
    assert watchdog_seconds() is None
