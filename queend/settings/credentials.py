"""Settings from files of a folder, one file each: LoadCredential= of systemd, or secrets that a container mounts.

The folder is $CREDENTIALS_DIRECTORY. A file has the name of a setting, in any case, optionally after `queend.`:
`jwt_secret`, `pg_password`. The value is its text without trailing line ends. Files of other names are ignored."""
from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from .spelling import nearest

PREFIX = "queend."
MOST = 1 << 20           # bytes; systemd has the same limit


def credentials(names: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Returns the values found for these settings (in lower case), and the problems found."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if not folder:
        return {}, []
    known, found, problems = sorted(names), {}, []
    try:
        files = sorted(path for path in Path(folder).iterdir() if not path.name.startswith(".") and path.is_file())
    except OSError as error:
        return {}, [f"CREDENTIALS_DIRECTORY: {folder}: {error.strerror}"]
    for path in files:
        name = path.name.lower().removeprefix(PREFIX)
        if name not in known:
            meant = nearest(name, (one for one in known if "_" in one))
            if meant or path.name.lower().startswith(PREFIX):
                problems.append(f"{path.name}: unknown setting" + (f"; did you mean {meant}?" if meant else "")
                                + " (credential)")
        elif name in found:
            problems.append(f"{name.upper()}: there are two credentials for this setting")
        else:
            try:
                if path.stat().st_size > MOST:
                    raise ValueError
                found[name] = path.read_text().rstrip("\r\n")
            except OSError as error:
                problems.append(f"{name.upper()}: credential {path.name}: {error.strerror}")
            except ValueError:
                problems.append(f"{name.upper()}: the credential {path.name} is not a text of at most {MOST} bytes")
    return {name: text for name, text in found.items() if text}, problems
