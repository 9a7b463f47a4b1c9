"""Makes clients/typescript/src/api.ts of the part of the OpenAPI document that the TypeScript client uses, by
openapi-typescript. `make typescript`."""
from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CLIENT = ROOT / "clients" / "typescript"
TYPES, MADE = CLIENT / "src" / "api.ts", CLIENT / "build" / "api.ts"
# Routes whose bodies and answers the client reads.
POP = "/api/v1/pop/queue/{queue}"
ROUTES = ("/api/v1/push", POP, "/api/v1/ack/batch", "/api/v1/lease/{leaseId}/extend")
TOLD = {"description", "summary", "example", "examples", "links", "tags", "operationId"}     # for readers, no types
HEAD = "// `make typescript` made this of what has the SHA-256\n// "


def typed(value: Any) -> Any:
    """Returns a part of the document without what is no type. Names of properties stay."""
    if isinstance(value, list):
        return [typed(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: {one: typed(of) for one, of in part.items()} if name == "properties" else typed(part)
            for name, part in value.items() if name not in TOLD}


def document() -> str:
    """Returns the part as JSON: schemas of the routes and what these name, sorted."""
    sys.path.insert(0, str(ROOT))
    from queend.control.app import application
    from queend.control.routes.openapi import whole_document

    bare = SimpleNamespace(settings=SimpleNamespace(webapp_root="", queend_dashboard=False))
    whole = whole_document(application(bare).openapi())
    options = [one for one in whole["paths"][POP]["get"]["parameters"] if one["in"] == "query"]
    schemas: dict[str, Any] = {"PopQuery": {"type": "object", "properties": {
        one["name"]: typed(one["schema"]) for one in options}}}
    wanted = [json.dumps([whole["paths"][route] for route in ROUTES])]
    while wanted:
        for name in re.findall(r'"#/components/schemas/(\w+)"', wanted.pop()):
            if name not in schemas:
                schemas[name] = typed(whole["components"]["schemas"][name])
                wanted.append(json.dumps(schemas[name]))
    return json.dumps({"openapi": whole["openapi"], "info": {"title": "queend", "version": "1"}, "paths": {},
                       "components": {"schemas": dict(sorted(schemas.items()))}}, indent=1)


def head(text: str) -> str:
    """Returns the first line of the types that are made of a document."""
    return f"{HEAD}{hashlib.sha256(text.encode()).hexdigest()}\n"


def types() -> str:
    """Returns the types. They are made in build/, by the script `types` of the package."""
    text = document()
    MADE.parent.mkdir(parents=True, exist_ok=True)
    (MADE.parent / "client.json").write_text(text)
    subprocess.run(["npm", "run", "--silent", "types"], cwd=CLIENT, check=True, stdout=subprocess.DEVNULL)
    return head(text) + MADE.read_text()


if __name__ == "__main__":
    TYPES.write_text(types())
