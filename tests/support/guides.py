"""Pages of docs/ that are run: their blocks of code, and their shell sessions with what these print."""
from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from .daemon import PACKAGE, ROOT, Daemon
from .sanitizer import typed


def blocks(page: str, language: str = "") -> list[str]:
    """The blocks of code of a page in one language."""
    found = re.findall(r"^```([^\n]*)\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.M | re.S)
    return [text for kind, text in found if kind == language]


def named(page: str, language: str = "python") -> dict[str, str]:
    """The blocks of a page whose first line names a file in a comment, by that name."""
    found = {}
    for block in blocks(page, language):
        if match := re.match(r"(?:#|//|--) ([\w./-]+\.\w+)\n", block):
            found[match[1]] = found.get(match[1], "") + block
    return found


def settings_in(block: str) -> dict[str, str]:
    """Returns the assignments of a block as a shell reads them."""
    names = re.findall(r"^(\w+)=", block, re.M)
    text = subprocess.run(["bash", "-c", block + "\n".join(f"echo ${name}" for name in names)], capture_output=True,
                          text=True, check=True, env={}).stdout
    return dict(zip(names, text.splitlines(), strict=True))


def like(got: str, promised: str) -> bool:
    """Whether an output is the promised one. … stands for anything, and the width of columns does not count."""
    words = [" ".join(text.split()) for text in (got, promised)]
    return bool(re.fullmatch(".*".join(re.escape(part.strip()) for part in words[1].split("…")), words[0]))


def environment(daemon: Daemon, folder: Path, **more: str) -> dict[str, str]:
    """What a user of this daemon has: nothing of the settings of whoever runs the tests."""
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith(("QUEEN", "PYTHON", "LD_PRELOAD", "PG", "JWT_"))}
    return {**kept, "PYTHONPATH": str(PACKAGE), "LANG": "C.UTF-8", "QUEEND_URL": daemon.url,
            "XDG_CONFIG_HOME": str(folder), **more}


def sessions(page: str) -> list[tuple[str, str]]:
    """Every command of a page that stands behind a `$`, with what is printed below it."""
    found = []
    for block in blocks(page):
        for entry in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = re.sub(r"\\\n", "", entry).partition("\n")
            found.append((command, output))
    return found


def type_in(daemon: Daemon, folder: Path, command: str, **more: str) -> str:
    """Runs a command as a user types it, with more variables. Returns what the terminal shows."""
    told = re.sub(r"\bqueend (?=[a-z])", lambda _: f"{typed()} ", command)
    done = subprocess.run(["bash", "-c", told.replace("http://localhost:6632", daemon.url)
                          .replace("localhost:6632", f"127.0.0.1:{daemon.port}").replace("curl ", "curl -s ")],
                          cwd=folder, env=environment(daemon, folder, **more), text=True, timeout=300,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout
