"""Escapes foreign texts for a terminal: control characters and direction marks are spelled out."""
from __future__ import annotations

import re
import sys
import textwrap
from shutil import get_terminal_size
from typing import Any

import typer

# Control characters of ASCII and of ISO 6429 (C1), line and paragraph separators, direction marks, invisible
# characters, unpaired surrogates. U+200C and U+200D stay: words of Persian and composed emoji need them.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
                    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]")
SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def clean(text: str) -> str:
    """Returns the text as it may go to a terminal: control characters, line ends and characters that change the
    direction of writing are spelled out as JSON spells them."""
    return text if text.isprintable() else UNSAFE.sub(_spelled, text)


def _spelled(found: re.Match) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return SHORT.get(found[0]) or "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def say(*lines: str, err: bool = False, **style: Any) -> None:
    """Prints lines for people, cleaned. Every text of a server or a file goes through here, `write`, or `clean`."""
    for line in lines:
        typer.secho(clean(line), err=err, **style)


def folded(text: str, indent: str) -> list[str]:
    """Returns the lines of a sentence for standard error: wrapped if that is a terminal, later lines indented. Names
    and ids stay whole."""
    if not sys.stderr.isatty():
        return [text]
    return textwrap.wrap(clean(text), get_terminal_size().columns, subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False) or [text]


def write(text: str) -> None:
    """Prints text for programs on standard output, cleaned but for its line ends."""
    sys.stdout.write("\n".join(map(clean, text.split("\n"))))
