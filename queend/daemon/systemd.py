"""systemd's readiness protocol: datagrams to $NOTIFY_SOCKET. Without systemd every call does nothing."""
from __future__ import annotations

import asyncio
import os
import socket

EXTEND_S, EXTENDED_S = 20.0, 60.0      # between two requests for more time, and the time that each asks for


def notify_address() -> bytes:
    """Returns the address where systemd listens; empty if there is none."""
    address = os.fsencode(os.environ.get("NOTIFY_SOCKET", ""))
    return b"\0" + address[1:] if address.startswith(b"@") else address


def notify(*states: str) -> None:
    """Sends states such as `READY=1`, `STOPPING=1`, `WATCHDOG=1`, `STATUS=…`."""
    address = notify_address()
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        try:
            sender.sendto("\n".join(states).encode(), address)
        except OSError:
            pass  # serve on if the manager is gone


async def extend_start() -> None:
    """Asks for more time again and again, until it is cancelled: a recovery of the embedded server or a migration may
    take longer than TimeoutStartSec."""
    while True:
        await asyncio.sleep(EXTEND_S)
        notify(f"EXTEND_TIMEOUT_USEC={EXTENDED_S * 1e6:.0f}")


def watchdog_seconds() -> float | None:
    """Returns the longest time between two `WATCHDOG=1` that systemd accepts; None without a watchdog."""
    text = os.environ.get("WATCHDOG_USEC", "")
    if not text.isdigit() or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(text) / 1e6
