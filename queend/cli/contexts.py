"""The file of saved servers. It holds tokens, so only its owner may read it."""
from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any


class ContextError(Exception):
    """The saved servers cannot be used; the message says why."""


def path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or ""
    return Path(base if os.path.isabs(base) else os.path.expanduser("~/.config")) / "queend" / "contexts.json"


def load() -> dict[str, Any]:
    """Returns {"current": a name or None, "contexts": {name: {"url", "token", "tokenFile", "ca", "cert"}}}."""
    file = path()
    try:
        with open(file, encoding="utf-8") as opened:
            if os.fstat(opened.fileno()).st_mode & 0o077:
                raise ContextError(f"other users may read {file}: run chmod 600 {file}")
            found = json.load(opened)
    except FileNotFoundError:
        return {"current": None, "contexts": {}}
    except (OSError, ValueError) as error:
        raise ContextError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("contexts"), dict):
        raise ContextError(f"{file} is not a file of contexts")
    return found


def save(state: dict[str, Any]) -> None:
    """Writes the whole file or nothing."""
    file = path()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, encoding="utf-8") as new:      # 0600
            json.dump(state, new, ensure_ascii=False, indent=1)
            new.flush()
            os.fsync(new.fileno())
        os.replace(new.name, file)
    except OSError as error:
        raise ContextError(f"cannot write {file}: {error.strerror}") from None


def chosen(name: str | None) -> dict[str, Any] | None:
    """Returns the context of this name; without a name that of QUEEND_CONTEXT, else the current one, if any."""
    wanted = name or os.environ.get("QUEEND_CONTEXT")
    if not wanted and not os.path.exists(path()):      # Path.exists raises where HOME is of another account
        return None
    state = load()
    wanted = wanted or state.get("current")
    if wanted and wanted not in state["contexts"]:
        raise ContextError(f"there is no context {wanted!r}; `queend context list` shows all contexts")
    return state["contexts"][wanted] if wanted else None
