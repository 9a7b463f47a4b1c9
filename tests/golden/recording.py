"""A recorded conversation: what was sent and answered, step by step. A file holds the steps that concern one resource,
each under a line `=== NUMBER_NAME`."""
from __future__ import annotations

import ast
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from support.http import Answer, request

DATA = Path(__file__).parent / "data"


@dataclass
class Recording:
    """number: its place in the conversation. sent: the bytes of the request(s). answers: none where the reference was
    silent."""

    number: int
    name: str
    method: str
    target: str
    sent: bytes
    answers: list[Answer]
    stays_open: bool


def load() -> list[Recording]:
    """All recordings in the order of the conversation."""
    texts = {name: text for path in DATA.glob("*.txt") for name, text in recorded(path).items()}
    return [read(name, texts[name]) for name in sorted(texts)]


def recorded(path: Path) -> dict[str, str]:
    """Returns the text of each step of a file by its name."""
    _, *parts = re.split(r"^=== (\w+)\n", path.read_text(), flags=re.M)
    return {name: text.removesuffix("\n") for name, text in zip(parts[::2], parts[1::2], strict=True)}


def read(name: str, text: str) -> Recording:
    number = int(name[:3])
    return _raw(number, name, text) if text.startswith("$ (raw socket)") else _curl(number, name, text)


def _raw(number: int, name: str, text: str) -> Recording:
    sent, received = (ast.literal_eval(one) for one in re.findall(r"^(b'.*'|b\".*\")$", text, re.M))
    first = sent.split(b"\r\n", 1)[0].decode().split(" ")
    method, target = first[:2] if len(first) == 3 else ("", "")
    return Recording(number, name, method, target, sent, split(received), "(connection kept open)" in text)


def _curl(number: int, name: str, text: str) -> Recording:
    command, _, answer = text.partition("\n\n")
    method, target, body, headers = "GET", "", None, {}
    words = iter(shlex.split(command.splitlines()[0].removeprefix("$ ")))
    for word in words:
        if word == "-X":
            method = next(words)
        elif word == "--head":
            method = "HEAD"
        elif word == "--data-binary":
            body = next(words).encode()
        elif word == "-H":
            key, _, value = next(words).partition(":")
            headers[key] = value.strip()
        elif word.startswith("http://"):
            parts = urlsplit(word)
            target = parts.path + (f"?{parts.query}" if parts.query else "")
    if headers.get("Content-Type") == "":  # curl's way to send none
        headers["Content-Type"] = "application/octet-stream"
    head, _, content = answer.partition("\n\n")
    answers = split((head.replace("\n", "\r\n") + "\r\n\r\n" + content.rstrip("\n")).encode(),
                    whole=True) if head.strip() else []
    return Recording(number, name, method, target, request(method, target, body, headers), answers, True)


def split(data: bytes, whole: bool = False) -> list[Answer]:
    """Answers one after the other. whole: all that follows the first head is its body (a file's line end may be
    missing)."""
    answers = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        line, *lines = head.decode().split("\r\n")
        headers = {key.lower(): value.strip() for key, _, value in (one.partition(":") for one in lines)}
        length = (len(data) if whole or "content-length" not in headers and "close" in headers.get("connection", "")
                  else int(headers.get("content-length", 0)))
        answers.append(Answer(int(line.split(" ")[1]), headers, data[:length]))
        data = data[length:]
    return answers
