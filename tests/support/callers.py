"""A client that says who it is."""
from __future__ import annotations

from typing import Any

from .client import Client
from .daemon import Daemon
from .tokens import bearer


class Caller(Client):
    """Every request bears the token."""

    def __init__(self, daemon: Daemon, token: str):
        super().__init__(daemon.address)
        self.token = token

    def send(self, method: str, target: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> None:
        super().send(method, target, body, {**bearer(self.token), **(headers or {})})


def told(client: Client, method: str, target: str, body: Any = None,
         headers: dict[str, str] | None = None) -> tuple[int, str | None]:
    """Status and error of an answer."""
    answer = client.request(method, target, body, headers)
    shown = answer.json if answer.body and answer.headers.get("content-type") == "application/json" else None
    return answer.status, shown.get("error") if isinstance(shown, dict) else None
