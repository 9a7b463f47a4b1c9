"""A route of the control plane is declared once, above the function that answers it: who may, about which queues it
is, what it is asked and what it answers. The levels (`auth/levels`), the OpenAPI document (`openapi`) and the names
a request may use (`known`) come from there."""
from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter

from ..auth import levels


@dataclass(frozen=True)
class Declared:
    """answer: a schema. query: parameters as OpenAPI has them. own: the reference server has no such path, so its
    clients can be told a wrong method by 405."""

    answer: dict[str, Any] | None
    query: Sequence[dict[str, Any]] = ()
    example: Any = None
    own: bool = False


ROUTES: dict[str, Declared] = {}      # by "METHOD /path"


class Routes(APIRouter):
    """The routes of one resource."""

    def __init__(self, tag: str):
        super().__init__()
        self.tag = tag

    def declare(self, route: str, level: int, answer: dict[str, Any] | None = None,
                query: Sequence[dict[str, Any]] = (), *, where: str = "", body: Any = None, example: Any = None,
                own: bool = False, tag: str = "", **more: Any) -> Callable:
        """route: "METHOD /path". where: as in auth/levels. body: what is sent, as OpenAPI has it; example: one.
        more: as FastAPI knows it."""
        method, path = route.split()
        ROUTES[route] = Declared(answer, query, example, own)
        levels.declare(level, method, re.sub(r"{(\w+)}", r":\1", path[1:]), where)
        extra = {"requestBody": body} if body else None
        return self.api_route(path, methods=[method], tags=[tag or self.tag], openapi_extra=extra, **more)
