"""Server-sent events: what the bytes of a stream say, without I/O."""
from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .call import described
from .errors import BadAnswer, Refused
from .message import Message, message

PAUSE = 2.0     # s: before a client comes back, unless the stream says otherwise


class Ended(Exception):
    """The server has ended the stream in order, and the client may open it again."""


class Events:
    """Reads a stream piece by piece. retry: seconds to wait before the stream is opened again."""

    def __init__(self) -> None:
        self.retry = PAUSE
        self._rest: list[bytes] = []        # pieces of a line that has not ended
        self._name = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[Message]:
        """Yields the messages that are complete with a piece. Raises Ended at the end of the stream, Refused if it ends
        with a refusal.

        A line ends with a line feed alone: the text of a payload may have other signs that Unicode calls line ends."""
        *lines, rest = piece.split(b"\n")
        for line in lines:
            self._rest.append(line)
            whole = b"".join(self._rest).removesuffix(b"\r")
            self._rest.clear()
            if whole:
                self._field(whole)
            else:
                yield from self._event()
        if rest:
            self._rest.append(rest)

    def _event(self) -> Iterator[Message]:
        name, data = self._name or b"message", b"\n".join(self._data)
        self._name, self._data = b"", []
        if not data:
            return
        try:
            said: dict[str, Any] = json.loads(data)
        except ValueError:
            raise BadAnswer(f"an event is no JSON: {data[:200]!r}") from None
        if name == b"message":
            try:
                found = message(said)
            except (LookupError, TypeError, AttributeError, ValueError) as error:
                raise BadAnswer(f"an event is no message ({described(error)}): {data[:200]!r}") from error
            yield found
        elif name == b"end":
            if not isinstance(said, dict):      # pyright: ignore[reportUnnecessaryIsInstance]
                raise BadAnswer(f"the end of a stream is no object: {data[:200]!r}")
            if said.get("reason") == "refused":
                raise Refused(str(said.get("error", "refused")))
            raise Ended(said.get("reason", ""))

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._name = value
        elif name == b"data":
            self._data.append(value)
        elif name == b"retry" and value.isdigit():
            self.retry = int(value) / 1000
