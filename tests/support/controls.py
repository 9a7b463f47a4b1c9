"""Deeds of a test that runs in another process and another language: it asks for them by HTTP."""
from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .both import Lossy


class Controls(ThreadingHTTPServer):
    """Calls the deed NAME for `POST /NAME`, with the JSON list of the body as its arguments. Answers what it returns;
    500 with the error if it raises."""

    daemon_threads = True

    def __init__(self, **deeds: Callable[..., Any]):
        self.deeds = deeds
        super().__init__(("127.0.0.1", 0), Asked)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class Asked(BaseHTTPRequestHandler):
    server: Controls

    def do_POST(self) -> None:
        arguments = json.loads(self.rfile.read(int(self.headers["content-length"])))
        try:
            status, said = 200, self.server.deeds[self.path[1:]](*arguments)
        except Exception as error:
            status, said = 500, repr(error)
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Tests read no log of it."""


class Watched(Lossy):
    """A network that also knows the first lines of all requests that passed."""

    def __init__(self, target: int):
        self.lines: list[str] = []
        super().__init__(target)

    def asked(self, path: str) -> int:
        """Returns how many requests began so."""
        return sum(line.startswith(path) for line in self.lines)

    def _rule(self, to_server: bool, data: bytes) -> list[Any]:
        if to_server:
            self.lines.append(data.partition(b"\r\n")[0].decode("latin-1"))
        return super()._rule(to_server, data)
