"""What a handler may raise to say what becomes of its message, and how long error texts are."""
from __future__ import annotations

import traceback

LONGEST = 4096      # characters of an error


class Later(Exception):
    """Have the message delivered again after so many seconds, without counting a failure."""

    def __init__(self, seconds: float = 0.0):
        super().__init__(f"again in {seconds} s")
        if not seconds >= 0:
            raise ValueError(f"a delay of {seconds} s is not possible")
        self.seconds = seconds


class Dead(Exception):
    """Make the message a dead letter with this error."""


class InvalidPayload(Dead):
    """The data of a message is not of the type that the handler asks for. The message becomes a dead letter."""


class Skip(Exception):
    """Complete the message without the pushes of the handler."""


def described(error: BaseException) -> str:
    """Returns the traceback of an exception, with its type and text last: the end of it, if it is too long."""
    text = "".join(traceback.format_exception(error)).strip().replace("\0", "\\0")
    return text if len(text) <= LONGEST else "…" + text[1 - LONGEST:]
