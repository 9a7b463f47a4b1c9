"""A web application at /, never below /api: files of a folder that the operator names, with index.html for every other
path a browser may ask for. Or the dashboard of this package (docs/dashboard.md), which serves only its own files."""
from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.responses import Response

from ... import __file__ as package
from ...settings.model import Settings
from .answer import PathName, Refusal
from .known import wrong_method

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


# The built page of dashboard/ (`make dashboard`).
DASHBOARD = Path(package).parent / "dashboard"
# Lets the dashboard's pages load from this daemon alone, run no text as code, and stand in no frame of another site.
GUARDED = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                               "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                               "require-trusted-types-for 'script'; trusted-types 'none'",
    "x-frame-options": "DENY", "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin", "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()"}


def folder(wanted: str) -> Path | None:
    """Returns the folder of a web application: `wanted`, else the first of the usual places that exists. A working
    directory that the daemon may not read has none of them."""
    return next((Path(path).resolve() for path in ([wanted] if wanted else USUAL) if os.path.isdir(path)), None)


def open_files(settings: Settings) -> Callable[[str], bool]:
    """Returns a function that tells whether a path (raw, with its first slash) may be a file. Files need no token: they
    show no data."""
    if folder(settings.webapp_root) is not None:
        return lambda path: not OURS.match(path.lstrip("/"))
    if settings.queend_dashboard:
        return lambda path: path[1:] in page()
    return lambda path: False


def serve(app: FastAPI, settings: Settings) -> None:
    """Adds the route, after all others, if there is something to serve."""
    root = folder(settings.webapp_root)
    if root is None:
        if settings.queend_dashboard and page():
            app.get("/{path:path}", include_in_schema=False)(dashboard)
        return

    @app.get("/{path:path}", include_in_schema=False)
    async def static(request: Request, path: PathName) -> Response:
        if OURS.match(path):
            raise Refusal(404, "Not found", "no_such_route")
        file = await asyncio.to_thread(find, root, path)
        return Response(await asyncio.to_thread(file.read_bytes), headers={
            "content-type": TYPES.get(file.suffix.lower(), "application/octet-stream"),
            "cache-control": keeping(file.relative_to(root).as_posix())})


@cache
def page() -> dict[str, tuple[bytes, dict[str, str]]]:
    """Returns the files of the dashboard by their paths: content, headers. They are few, small, and never change."""
    files = {}
    for file in sorted(DASHBOARD.rglob("*")):
        path, kind = file.relative_to(DASHBOARD).as_posix(), TYPES.get(file.suffix)
        if kind and file.is_file() and not path.endswith("sources.json"):
            files[path] = file.read_bytes(), {**GUARDED, "content-type": kind, "cache-control": keeping(path)}
    if "index.html" in files:
        files[""] = files["index.html"]
    return files


async def dashboard(request: Request, path: PathName) -> Response:
    if path not in page():
        raise wrong_method(request)
    content, headers = page()[path]
    return Response(content, headers=headers)


def find(root: Path, path: str) -> Path:
    """Returns the file of a decoded path without its first slash. Refuses paths that lead out of the folder, links
    followed, and missing assets."""
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
    """Returns how long a file may be cached: without end if another content would have another name."""
    if path.startswith("assets/") or HASHED.search(path):
        return FOREVER
    return NEVER if path == "index.html" else HOUR
