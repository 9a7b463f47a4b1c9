"""Messages about an invalid setting: its name, the value given and the allowed values."""
from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo

UNITS = {"ms": "milliseconds", "s": "seconds", "bytes/s": "bytes a second"}
ENDLESS = 2**31 - 1      # the bound of a setting that has no better one
MOST = 60                # characters of the value given
# Finds the parts of URLs that may be secrets.
LOGIN = re.compile(r"//[^/?#,\s]*@")
QUERY = re.compile(r"(?<=.)\?[^#,\s]+")


class ConfigError(ValueError):
    """The settings cannot be used; the message has one line per problem, each naming the setting."""


def veiled(text: str) -> str:
    """Returns the text without the parts of URLs that may be secrets."""
    return QUERY.sub("?********", LOGIN.sub("//********@", text))


def traits(field: FieldInfo) -> dict[str, Any]:
    """Returns what `setting` of `fields` declares of a setting besides its value: unit, secret, live."""
    found = field.json_schema_extra
    return found if isinstance(found, dict) else {}


def values(field: FieldInfo) -> str:
    """Describes the allowed values in few words; empty if any text is allowed."""
    kinds = [kind for kind in (field.annotation, *get_args(field.annotation)) if kind in (int, bool)]
    if kinds == [bool]:
        return "true, false"
    if kinds == [int]:
        least, most = bounds(field)
        return f"from {least}" if most == ENDLESS else f"{least} to {most}"
    return ", ".join(word for word in get_args(field.annotation) if isinstance(word, str) and word)


def bounds(field: FieldInfo) -> tuple[int, int]:
    limits = {name: getattr(one, name) for one in field.metadata for name in ("ge", "le") if hasattr(one, name)}
    return limits["ge"], limits["le"]


def expected(field: FieldInfo) -> str:
    """Describes the allowed values, for the message about an invalid one."""
    allowed = values(field)
    if allowed == "true, false":
        return "neither true nor false"
    if re.match(r"(from )?\d", allowed):
        least, most = bounds(field)
        unit = traits(field)["unit"]
        of = f" of {UNITS.get(unit, unit)}" if unit else ""
        return f"not a whole number{of} from {least} to {most}"
    return f"not one of {allowed}" if allowed else "not a path" if Path in get_args(field.annotation) or (
        field.annotation is Path) else "not a text"


def given(value: Any, secret: bool) -> str:
    """Returns the value given, as far as it may be shown."""
    if secret:
        return "the given value"
    if isinstance(value, bool):
        return str(value).lower()
    text = veiled(value if isinstance(value, str) else str(value))
    shown = text if len(text) <= MOST else text[:MOST] + "…"
    return shown if re.fullmatch(r"[!-~…]+", shown) else repr(shown)


def told(error: ValidationError, fields: dict[str, FieldInfo]) -> Iterator[str]:
    """Yields a line for each invalid setting."""
    for one in error.errors(include_url=False):
        name = str(one["loc"][0]) if one["loc"] else ""
        if one["type"] == "extra_forbidden":
            yield f"{name.upper()}: unknown setting"
        elif one["type"] == "value_error":
            text = one["msg"].removeprefix("Value error, ")
            yield f"{name.upper()}: {text}" if name else text
        else:
            yield f"{name.upper()}: {given(one['input'], traits(fields[name])['secret'])} is {expected(fields[name])}"
