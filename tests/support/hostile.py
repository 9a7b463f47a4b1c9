"""The requests of tests/hostile/requests.toml: what is sent, what is answered."""
from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[1] / "hostile" / "requests.toml"


@dataclass(frozen=True)
class Case:
    name: str
    clause: str
    data: bytes
    answers: tuple[int, ...]
    says: str
    then: str       # "close", "open" or "cut"
    parser: bool    # the parser alone refuses it, with the same status


def cases() -> Iterator[Case]:
    for part in tomllib.loads(FILE.read_text())["part"]:
        for number, one in enumerate(part["cases"], 1):
            assert set(one) <= {"send", "post", "get", "type", "body", "answers", "says", "then"}, one
            yield Case(f"{part['key']}-{number:02d}", part["clause"], written(one), tuple(one["answers"]),
                       one.get("says", ""),
                       one.get("then", "close" if "send" in one else "open"), part.get("parser", False))


def written(one: dict[str, Any]) -> bytes:
    if "send" in one:
        return text(one["send"])
    if "get" in one:
        return b"GET " + text(one["get"]) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    body = text(one["body"])
    kind = one.get("type", "application/json").encode()
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (
        text(one["post"]), kind, len(body), body)


def text(value: str | list[Any]) -> bytes:
    if isinstance(value, str):
        return value.encode("latin-1")
    return b"".join(part["repeat"].encode("latin-1") * part["times"] if isinstance(part, dict)
                    else part.encode("latin-1") for part in value)
