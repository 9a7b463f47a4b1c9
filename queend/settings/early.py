"""Single settings for programs that must start fast: read from the same sources as `model`, in the same order, but as
texts that are not checked. Imports no library."""
from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from .credentials import credentials


def early(names: Collection[str]) -> dict[str, str]:
    """Returns the texts of the settings that have a value; names are in lower case. Raises OSError or ValueError if the
    file that QUEEND_CONFIG names cannot be read."""
    found = {name: str(value) for name, value in toml().items() if name in names}
    found |= {name.lower(): value for name, value in os.environ.items() if value and name.lower() in names}
    return found | credentials(names)[0]


def toml() -> dict[str, Any]:
    """Returns the keys of the file that QUEEND_CONFIG names, an empty dictionary without one. Raises OSError or
    ValueError if the file cannot be read."""
    if not (path := os.environ.get("QUEEND_CONFIG")):
        return {}
    import tomllib  # here: most daemons have no such file

    return tomllib.loads(Path(path).read_text())
