"""Builds the dashboard: types from the OpenAPI document, the page of dashboard/ into queend/dashboard, and what it was
built of. `make dashboard`."""
from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[1]
SOURCES, BUILT = ROOT / "dashboard", ROOT / "queend" / "dashboard"
MADE = {"node_modules", "openapi.ts"}      # by this, or by npm
LIST = BUILT / "sources.json"


def digest(folder: Path, left_out: set[str]) -> str:
    """Of the names and contents of all files of a folder."""
    total = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        path = file.relative_to(folder)
        if file.is_file() and not left_out.intersection(path.parts):
            total.update(f"{path.as_posix()}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def belongs() -> dict[str, str]:
    """What LIST says when the built page belongs to the sources."""
    return {"sources": digest(SOURCES, MADE), "page": digest(BUILT, {LIST.name})}


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from queend.control.app import application
    from queend.control.routes.openapi import whole_document

    (ROOT / "build").mkdir(exist_ok=True)
    bare = SimpleNamespace(settings=SimpleNamespace(webapp_root="", queend_dashboard=False))
    (ROOT / "build" / "openapi.json").write_text(json.dumps(whole_document(application(bare).openapi())))
    for words in (["ci", "--no-audit", "--no-fund", "--silent"], ["run", "--silent", "types"],
                  ["run", "--silent", "check"], ["run", "--silent", "build"]):
        if words[0] != "ci" or not (SOURCES / "node_modules" / ".package-lock.json").exists() or "--fresh" in sys.argv:
            subprocess.run(["npm", *words], cwd=SOURCES, check=True)
    LIST.write_text(json.dumps(belongs(), indent=1) + "\n")


if __name__ == "__main__":
    main()
