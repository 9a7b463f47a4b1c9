"""Payloads for a push, from arguments, files or standard input. Holds one line at a time, however much comes."""
from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

import orjson

LINE_MOST = 64 << 20      # longest line in bytes


class Bad(Exception):
    """An invalid payload; the message says where."""


class Payload:
    """A JSON text, its source, and the bytes that it took there."""

    __slots__ = ("text", "where", "taken")

    def __init__(self, text: bytes, where: str, taken: int):
        self.text, self.where, self.taken = text, where, taken


class Source:
    """Payloads in order. size: their bytes, None if unknown."""

    def __init__(self, made: Iterable[Payload], size: float | None):
        self._made, self.size = made, size

    def __iter__(self) -> Iterator[Payload]:
        return iter(self._made)


def values(given: list[bytes], text: bool) -> Source:
    """Returns payloads of the command line."""
    return Source((checked(one, f"argument {number}", text) for number, one in enumerate(given, 1)), None)


def payloads(files: list[Path], by_line: bool, text: bool) -> Source:
    """Returns payloads of files, or of standard input without files; `-` is standard input, too."""
    if not files:
        files = [Path("-")]
    sizes = [os.stat(file).st_size if str(file) != "-" and file.is_file() else _size_of_input() if str(file) == "-"
             else None for file in files]
    size = None if any(one is None for one in sizes) else sum(one or 0 for one in sizes)
    return Source(_read(files, by_line, text), size)


def _size_of_input() -> int | None:
    try:
        known = os.fstat(sys.stdin.fileno())
    except (OSError, ValueError):
        return None
    return known.st_size if stat.S_ISREG(known.st_mode) else None


def _read(files: list[Path], by_line: bool, text: bool) -> Iterator[Payload]:
    for file in files:
        name = "" if str(file) == "-" else f"{file}, "
        try:
            with (nullcontext(sys.stdin.buffer) if str(file) == "-" else open(file, "rb")) as opened:
                if by_line:
                    yield from _lines(opened, name, text)
                else:
                    whole = opened.read(LINE_MOST + 1)
                    if len(whole) > LINE_MOST:
                        raise Bad(f"{file} is larger than {LINE_MOST >> 20} MiB; use --lines to read one message per "
                                  "line")
                    yield checked(whole, str(file), text)
        except OSError as error:
            raise Bad(f"{file}: {error.strerror}") from None


def _lines(opened: BinaryIO, name: str, text: bool) -> Iterator[Payload]:
    number = 0
    while line := opened.readline(LINE_MOST + 1):
        number += 1
        if len(line) > LINE_MOST:
            raise Bad(f"{name}line {number} is longer than {LINE_MOST >> 20} MiB")
        bare = line.rstrip(b"\r\n")
        if bare.strip():
            made = checked(bare, f"{name}line {number}", text)
            made.taken = len(line)
            yield made


def checked(given: bytes, where: str, text: bool) -> Payload:
    if text:
        try:
            return Payload(json.dumps(given.decode(), ensure_ascii=False).encode(), where, len(given))
        except UnicodeDecodeError:
            raise Bad(f"{where} is not valid UTF-8") from None
    try:
        orjson.loads(given)
    except orjson.JSONDecodeError as error:
        try:
            given.decode()
        except UnicodeDecodeError:      # orjson would speak of surrogates, in column 1
            raise Bad(f"{where} is not valid UTF-8") from None
        raise Bad(f"{where} is not valid JSON: {error.msg}, column {error.colno}; use --text to push text") from None
    return Payload(given, where, len(given))
