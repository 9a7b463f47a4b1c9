"""Loads the settings of this process, and refuses misspelled names."""
from __future__ import annotations

import os
import re
from typing import Any

from pydantic import ValidationError

from .credentials import credentials
from .messages import ConfigError, told
from .model import Settings
from .sources import NO_EFFECT, NOT_SETTINGS, NOT_UTF8, STRANGERS
from .spelling import nearest


def load(**arguments: Any) -> Settings:
    """Returns the settings of this process; `arguments` (command line) win over the environment. Raises ConfigError."""
    known = {name.upper() for name in Settings.model_fields} | NOT_SETTINGS | set(NO_EFFECT)
    _, problems = credentials(Settings.model_fields)
    if no_text := [name for name, value in sorted(os.environ.items())
                   if name.lower() in Settings.model_fields and re.search(NOT_UTF8, value)]:
        raise ConfigError("\n".join(f"{name}: the value is not valid UTF-8" for name in no_text))
    for name in sorted(os.environ):
        if name.upper() in known or name in STRANGERS:
            continue
        if meant := nearest(name.upper(), (one for one in sorted(known) if "_" in one)):
            problems.append(f"{name}: unknown setting; did you mean {meant}?")
        elif name.startswith("QUEEND_"):
            problems.append(f"{name}: unknown setting")
    try:
        settings = Settings(**arguments)
    except ValidationError as error:
        problems += told(error, Settings.model_fields)
    if problems:
        raise ConfigError("\n".join(problems))
    return settings
