"""What the core reads of the settings, without one that runs."""
from __future__ import annotations

from typing import Any

from queend import _core
from queend.daemon.core_settings import core_settings
from queend.settings.load import load

BEFORE = {"hidden", "refuse_plain", "strict", "seal_keys"}      # taken before the others


def core_limit(job_type: int = 1) -> dict[str, Any]:
    """The limit of calls of a type. Raises where the core takes a setting for none."""
    return _core.limit_of_settings({name: value for name, value in core_settings(load()).items()
                                    if name not in BEFORE}, job_type)
