"""HTTP/1.1 over a plain socket: what was sent and what came back, to the byte."""
from __future__ import annotations

import json
import socket
import ssl
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote, urlencode

from .wait import PATIENCE


# Ports of daemons that all clients of the tests reach by TLS (daemon.Daemon), and how.
secure_ports: dict[int, ssl.SSLContext] = {}


class Gone(ConnectionError):
    """The other side closed the connection."""


@dataclass
class Answer:
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Closing:
    """What is closed at the end of a `with`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Wire(Closing):
    """One connection. `send` and `receive` may be mixed freely, for pipelining and half requests."""

    def __init__(self, address: tuple[str, int], timeout: float = PATIENCE, source: str = ""):
        """source: the address that it comes from."""
        self.socket = socket.create_connection(address, timeout, (source, 0) if source else None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context := secure_ports.get(address[1]):
            self.socket = context.wrap_socket(self.socket, server_hostname=address[0])
        self.rest = b""

    def close(self) -> None:
        self.socket.close()

    def abort(self) -> None:
        """Closes with a reset instead of a farewell."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self, head_only: bool = False) -> Answer:
        """The next answer; informational ones (1xx) count as answers without a body. Raises Gone at end of stream."""
        head = self._until(b"\r\n\r\n").decode("latin-1")
        line, *lines = head.rstrip("\r\n").split("\r\n")
        version, status = line.split(" ", 2)[:2]
        assert version == "HTTP/1.1", line
        headers = {}
        for one in lines:
            name, _, value = one.partition(":")
            known = headers.get(name.lower())
            assert known is None or name.lower() == "vary", f"header twice: {name}"     # Vary is a list
            headers[name.lower()] = value.strip() if known is None else f"{known}, {value.strip()}"
        length = int(headers.get("content-length", 0))
        if head_only or int(status) < 200 or int(status) in (204, 304):
            length = 0
        self._fill(length)
        body, self.rest = self.rest[:length], self.rest[length:]
        return Answer(int(status), headers, body)

    def ended(self) -> bool:
        """True if the other side has closed the connection and nothing is left unread; waits for one or the other."""
        if self.rest:
            return False
        try:
            self._more()
        except Gone:
            return True
        return False

    def _until(self, mark: bytes) -> bytes:
        while (end := self.rest.find(mark)) < 0:
            self._more()
        end += len(mark)
        found, self.rest = self.rest[:end], self.rest[end:]
        return found

    def _fill(self, length: int) -> None:
        """Reads on until there are so many bytes. Through TLS they come in pieces of 16 KiB."""
        parts, size = [self.rest], len(self.rest)
        while size < length:
            parts.append(self._some())
            size += len(parts[-1])
        self.rest = b"".join(parts)

    def _more(self) -> None:
        self.rest += self._some()

    def _some(self) -> bytes:
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionResetError as error:
            raise Gone(f"reset after {self.rest!r}") from error
        if not data:
            raise Gone(f"closed after {self.rest!r}")
        return data


def target_of(path: str, partition: str | None, query: dict[str, Any]) -> str:
    """The path, with the partition and the query where there are such."""
    if partition is not None:
        path += f"/partition/{quote(partition, safe='')}"
    text = urlencode({name: str(value).lower() if isinstance(value, bool) else value for name, value in query.items()})
    return f"{path}?{text}" if text else path


def request(method: str, target: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
    """The bytes of a request."""
    given = {name.lower() for name in headers or {}}
    lines = {"Host": "localhost",
             **({} if body is None else {"Content-Type": "application/json", "Content-Length": str(len(body))})}
    lines = {**{name: value for name, value in lines.items() if name.lower() not in given}, **(headers or {})}
    return (f"{method} {target} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items())
            + "\r\n").encode() + (body or b"")
