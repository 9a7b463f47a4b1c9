"""A web application at /: files of one folder, index.html for every other path a browser may ask for. Never anything
below /api."""
from __future__ import annotations

import asyncio
import re
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.responses import Response

from .answer import PathName, Refusal

OURS = re.compile(r"(api|internal|streams|health|metrics|ws|livez|readyz)(/|$)|openapi\.json$")
TYPES = {".html": "text/html; charset=utf-8", ".js": "application/javascript; charset=utf-8",
         ".mjs": "application/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".json": "application/json; charset=utf-8", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg",
         ".gif": "image/gif", ".svg": "image/svg+xml", ".ico": "image/x-icon", ".woff": "font/woff",
         ".woff2": "font/woff2", ".ttf": "font/ttf", ".eot": "application/vnd.ms-fontobject", ".webp": "image/webp",
         ".wasm": "application/wasm"}
HASHED = re.compile(r"\.[0-9a-fA-F]{8,}\.(js|css)$")
FOREVER, HOUR = "public, max-age=31536000, immutable", "public, max-age=3600"
NEVER = "no-cache, no-store, must-revalidate"
USUAL = ("webapp/dist", "../webapp/dist", "../../webapp/dist")


def folder(wanted: str) -> Path | None:
    """The folder that is served: `wanted`, else the first of the usual places that is one."""
    return next((path.resolve() for path in map(Path, [wanted] if wanted else USUAL) if path.is_dir()), None)


def is_file(path: str) -> bool:
    """Whether a path (raw, with its first slash) is none of the daemon's own."""
    return not OURS.match(path.lstrip("/"))


def serve(app: FastAPI, wanted: str) -> None:
    """Adds the route, last of all, if there is a folder to serve."""
    root = folder(wanted)
    if root is None:
        return

    @app.get("/{path:path}", include_in_schema=False)
    async def static(request: Request, path: PathName) -> Response:
        if OURS.match(path):
            raise Refusal(404, "Not found", "no_such_route")
        file = await asyncio.to_thread(find, root, path)
        return Response(await asyncio.to_thread(file.read_bytes), headers={
            "content-type": TYPES.get(file.suffix.lower(), "application/octet-stream"),
            "cache-control": keeping(file.relative_to(root).as_posix())})


def find(root: Path, path: str) -> Path:
    """The file of a decoded path without its first slash. Refuses whatever leads out of the folder, links followed,
    and assets that are not there."""
    try:
        file = (root / path.lstrip("/")).resolve()
        if not file.is_relative_to(root) or ".." in Path(path).parts:
            raise Refusal(403, "Forbidden", "forbidden")
        if file.is_file():
            return file
        index = (root / "index.html").resolve()
        if not path.startswith("assets/") and index.is_file() and index.is_relative_to(root):
            return index
    except (OSError, ValueError):      # a name no file can have, a circle of links
        pass
    raise Refusal(404, "Not found", "no_such_file")


def keeping(path: str) -> str:
    """How long a file may be kept: for ever where another content has another name."""
    if path.startswith("assets/") or HASHED.search(path):
        return FOREVER
    return NEVER if path == "index.html" else HOUR
