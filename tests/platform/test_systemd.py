"""The unit files satisfy systemd's own checkers; the readiness protocol reaches a real socket."""
import os
import socket
import subprocess
import sys
from pathlib import Path

from queend.notify import notify, watchdog_seconds

UNITS = Path(__file__).parent.parent.parent / "systemd"


def test_the_service_is_valid(tmp_path):
    # The checker wants a program that exists; everything else is checked as it is shipped.
    text = (UNITS / "queend.service").read_text()
    assert "ExecStart=/opt/queend/bin/queend serve\n" in text
    unit = tmp_path / "queend.service"
    unit.write_text(text.replace("/opt/queend/bin/queend serve", f"{sys.executable} -m queend serve"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_service_stays_locked_down():
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=20", UNITS / "queend.service"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-300:]


def test_the_account_is_valid():
    done = subprocess.run(["systemd-sysusers", "--dry-run", UNITS / "queend.sysusers"], capture_output=True, text=True)
    assert done.returncode == 0 and "queend" in done.stdout + done.stderr, done


def test_notify_sends_one_datagram(tmp_path, monkeypatch):
    for address, name in [(str(tmp_path / "n"), str(tmp_path / "n")), ("\0queend-%d" % os.getpid(), "@queend-%d" % os.getpid())]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
            receiver.bind(address)
            monkeypatch.setenv("NOTIFY_SOCKET", name)
            notify("READY=1", "STATUS=up")
            assert receiver.recv(100) == b"READY=1\nSTATUS=up"
    notify("READY=1")  # nobody listens any more: not an error
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify("READY=1")


def test_watchdog_period(monkeypatch):
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    assert watchdog_seconds() is None
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    assert watchdog_seconds() == 30
    monkeypatch.setenv("WATCHDOG_PID", "1")
    assert watchdog_seconds() is None
