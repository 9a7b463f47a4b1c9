"""Between two daemons that tell each other by UDP: does what the test says with each packet."""
from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from .http import Closing


def pass_on(packet: bytes) -> list[bytes]:
    return [packet]


class Between(Closing):
    """Listens on `port`, forwards to `target`. `rule(packet)` says what is delivered instead of it."""

    def __init__(self, target: int):
        self.target, self.rule = target, pass_on
        self.seen: list[bytes] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._ends = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        if not self._ends:
            self._ends = True
            self.send(b"", self.port)
            self._thread.join()
            self._socket.close()

    def send(self, packet: bytes, to: int = 0) -> None:
        """One of the test's own."""
        self._socket.sendto(packet, ("127.0.0.1", to or self.target))

    def lose(self) -> None:
        self.rule = lambda packet: []

    def passes(self, rule: Callable[[bytes], list[bytes]] = pass_on) -> None:
        self.rule = rule

    def _run(self) -> None:
        while True:
            packet = self._socket.recv(2048)
            if self._ends:
                return
            self.seen.append(packet)
            for one in self.rule(packet):
                self.send(one)
