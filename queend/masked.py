"""Settings as people may see them."""
from __future__ import annotations

import re
from typing import Any

from .config import Settings, is_secret

# parts of URLs that may be secrets
LOGIN = re.compile(r"//[^/?#,\s]*@")
QUERY = re.compile(r"(?<=.)\?[^#,\s]+")


def masked(settings: Settings, name: str) -> Any:
    """The value of a setting; a secret, and the secret parts of a URL, as asterisks."""
    value = getattr(settings, name)
    if is_secret(name) and value:
        return "********"
    if isinstance(value, str):
        return QUERY.sub("?********", LOGIN.sub("//********@", value))
    return value
