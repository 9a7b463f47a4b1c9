"""Settings as they may be shown."""
from __future__ import annotations

from typing import Any

from .messages import veiled
from .model import Settings, is_secret


def masked(settings: Settings, name: str) -> Any:
    """Returns the value of a setting; a secret, and the secret parts of a URL, as asterisks."""
    value = getattr(settings, name)
    if is_secret(name) and value:
        return "********"
    return veiled(value) if isinstance(value, str) else value
