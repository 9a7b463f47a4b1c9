"""Sources of the token that requests carry."""
from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Union

from .errors import Unavailable


class File:
    """A token in a file, read again whenever the file changes."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self._seen: tuple[int, int, int] | None = None
        self._text = ""

    def __call__(self) -> str:
        """Returns the token. Raises OSError if the file cannot be read."""
        state = self.path.stat()
        seen = (state.st_ino, state.st_mtime_ns, state.st_size)
        if seen != self._seen:
            self._text = checked(self.path.read_text().strip())
            self._seen = seen
        return self._text


Token = Union[str, File, Callable[[], str], None]
# For the asynchronous client: the function may be a coroutine function.
AsyncToken = Union[str, File, Callable[[], Union[str, Awaitable[str]]], None]


def checked(text: str) -> str:
    """Returns a token as it is. Raises ValueError if it cannot stand in a header. The message does not show it."""
    if not text.isascii() or any(sign <= " " or sign == "\x7f" for sign in text):
        raise ValueError("the token has characters that are not allowed in a header")
    return text


def text_of(source: Token, may_be_done: bool = False) -> str:
    """Returns the token of a source; an empty text for none. may_be_done: an attempt with an earlier token may have
    taken effect. Raises Unavailable if the source has no token now."""
    if source is None or isinstance(source, str):
        return source or ""
    try:
        return source()
    except failures(source) as error:
        raise Unavailable(f"no token: {error or type(error).__name__}", may_be_done=may_be_done) from error


async def awaited_text_of(source: AsyncToken, may_be_done: bool = False) -> str:
    """Returns the token of a source; an empty text for none. may_be_done: an attempt with an earlier token may have
    taken effect. Raises Unavailable if the source has no token now."""
    if source is None or isinstance(source, str):
        return source or ""
    try:
        text = source()
        return text if isinstance(text, str) else await text
    except failures(source) as error:
        raise Unavailable(f"no token: {error or type(error).__name__}", may_be_done=may_be_done) from error


def failures(source: object) -> type[Exception]:
    """Returns the exceptions of a source that mean: no token now. A file with a wrong token stays wrong."""
    return OSError if isinstance(source, File) else Exception
