"""Refuses misspelled names of parameters and members: `leasetime` for leaseTime. The routes declare the known names
(`route`). A name that equals a known one but for case, `_`, `-` or one letter counts as misspelled, as does one that
other systems use for it, or one that belongs a level deeper. Other unknown names are ignored unless the request asks
for strictness (Prefer: handling=strict). A route that deletes or moves (`exact`) refuses every unknown name and every
empty value, whatever the settings say: a misspelled or empty filter must not mean "all"."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from fastapi import Request

from ...settings.spelling import nearest
from .answer import Refusal
from .hot_routes import HOT, OWN
from .route import ROUTERS, ROUTES

# Counts as an empty body on an exact route that takes no body.
NO_BODY = (b"", b"{}", b"null")
STRICT = re.compile(r'(?:^|[\s,])handling="?strict"?(?:$|[\s,;])', re.I)
# Names that people bring from elsewhere, and what each of them is called here. The core has the same (route/typos).
MISTAKEN = {"group": "consumergroup", "delay": "delayms", "leasetime": "leaseseconds", "limit": "batch"}
# Leaves these methods out where an answer lists the methods of a path.
BESIDE = ("HEAD", "OPTIONS")


def picky(request: Request) -> bool:
    return bool(STRICT.search(", ".join(request.headers.getlist("prefer"))))


def plain(name: str) -> str:
    """Returns a name in lower case, without `_` and `-`."""
    return name.lower().replace("_", "").replace("-", "")


def refused(name: str, names: list[str], every: bool, kind: str, deeper: dict[str, str] | None = None) -> None:
    """Refuses a name that is near to one of these; `every`: each one that is not among them. deeper: names in lower
    case that belong into one of these, and which."""
    if name in names:
        return
    alike = {plain(name), MISTAKEN.get(plain(name))}
    meant = ((deeper or {}).get(name.lower()) or next((other for other in names if plain(other) in alike), None)
             or nearest(name, names))
    if meant or every:
        shown = name if name and name.isprintable() and len(name) <= 64 else "a name"
        raise Refusal(400, f"{shown} is no {kind}" + (f"; {meant} is one" if meant else ""), "unknown_name")


async def query_names(request: Request) -> None:
    """Refuses unknown names of a route's query. Reads the body of an exact route that takes none, and refuses it."""
    route = ROUTES[f"{request.method} {request.scope['route'].path_format}"]
    if route.exact:
        await _exact_query(request, [one["name"] for one in route.query])
        return
    every = picky(request)
    if request.scope["query_string"] and (every or request.app.state.control.settings.queend_strict):
        names = [one["name"] for one in route.query]
        for name in request.query_params:
            if name:
                refused(name, names, every, "parameter")


async def _exact_query(request: Request, names: list[str]) -> None:
    seen: set[str] = set()
    for name, value in request.query_params.multi_items():
        refused(name, names, True, "parameter")
        if name in seen:
            raise Refusal(400, f"{name} is given twice: give it once", "repeated_parameter")
        seen.add(name)
        not_empty(name, value)
    if "requestBody" not in (request.scope["route"].openapi_extra or {}):
        if (await request.body()).strip() not in NO_BODY:
            shown = f"; use the parameters {', '.join(names)} as filters" if names else ""
            raise Refusal(400, f"This route takes no request body{shown}", "unknown_name")


def not_empty(name: str, value: Any) -> None:
    """Refuses an empty value of a filter: null, or an empty text, list or object."""
    if value is None or value == "" or value == [] or value == {}:
        raise Refusal(400, f"{name} is {'null' if value is None else 'empty'}: give it a value, or leave it out",
                      "empty_value")


def checked(request: Request) -> Callable[..., None]:
    """Returns the check of a body's keys, or of a part of the body by the name of the part. That of an exact route
    refuses empty values of the body's own keys, too."""
    exact = ROUTES[f"{request.method} {request.scope['route'].path_format}"].exact
    every = picky(request)
    looks = every or request.app.state.control.settings.queend_strict
    if not exact and not looks:
        return lambda *_: None
    described = (request.scope["route"].openapi_extra or {}).get("requestBody", {})
    schema = described.get("content", {}).get("application/json", {}).get("schema", {})

    def check(value: Any, part: str = "") -> None:
        wanted = schema["properties"][part] if part else schema
        if looks:
            _keys(value, wanted.get("items", wanted), every)
        if exact and not part:
            for name, inner in value.items():
                refused(name, list(wanted["properties"]), True, "key")
                not_empty(name, inner)

    return check


def _keys(value: Any, schema: dict[str, Any], every: bool) -> None:
    properties = schema.get("properties")
    if isinstance(value, dict) and properties:
        deeper = {other.lower(): f"{part}.{other}" for part, one in properties.items()
                  for other in one.get("properties", ()) if other not in properties}
        for name, inner in value.items():
            refused(name, list(properties), every, "key", deeper)
            if name in properties:
                _keys(inner, properties[name], every)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict) and "properties" in schema["items"]:
        for inner in value:
            _keys(inner, schema["items"], every)


def there(path: str) -> list[tuple[str, bool]]:
    """Returns what a path answers, on both planes: method, and whether the reference lacks such a path. HEAD stands
    beside GET, except on deliveries: there HEAD would take messages and drop them."""
    found = [(method.upper(), template in OWN, template in ("/livez", "/readyz"))
             for template, operations in HOT.items()
             if re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", template), path) for method in operations]
    found += [(method, ROUTES[f"{method} {route.path_format}"].own, method == "GET") for router in ROUTERS
              for route in cast("list[Any]", router.routes) if route.path_regex.match(path) for method in route.methods]
    return [(name, own) for method, own, headed in found for name in ([method, "HEAD"] if headed else [method])]


def methods(path: str) -> list[str]:
    """Returns the methods of a path with OPTIONS; none for an unknown path."""
    found = {method for method, _ in there(path)}
    return sorted(found | {"OPTIONS"}) if found else []


def wrong_method(request: Request) -> Refusal:
    """Returns the refusal of an unknown path, or of a wrong method; then it lists the right ones."""
    path = request.scope["path"]
    answered = methods(path)
    if not answered:
        return Refusal(404, "Not found", "no_such_route")
    told = " and ".join(method for method in answered if method not in BESIDE)
    allow = {"Allow": ", ".join(answered)}
    if any(own for _, own in there(path)):
        return Refusal(405, f"Method not allowed: this path supports {told}", "no_such_method", allow)
    return Refusal(404, f"Not found: this path supports {told}", "no_such_route", allow)
