"""Declarations of the control plane's routes, each above the function that answers it: level, queues, request and
answer. They supply the levels (`auth/levels`), the OpenAPI document (`openapi`), the names a request may use (`known`)
and the pages of its list (`paged`)."""
from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter

from ...auth import levels
from .schema import INTEGER, NAME, parameter

OFFSET_MOST = 10_000_000
REST = ":path}"      # ends a parameter that is the rest of the path, with its slashes


@dataclass(frozen=True)
class Paged:
    """The paging of a list: default number of elements, and the most. far: the largest offset; 0: no offset. search: by
    a part of a name. sorts: possible orders, the first one is the default."""

    limit: int = 1000
    most: int = 10_000
    far: int = OFFSET_MOST
    least: int = 0
    search: str = ""
    sorts: tuple[str, ...] = ()

    @property
    def query(self) -> list[dict[str, Any]]:
        """Returns the parameters in the form of OpenAPI."""
        asked = [parameter("limit", {**INTEGER, "minimum": self.least, "maximum": self.most, "default": self.limit},
                           "maximum number of elements in the answer")]
        if self.far:
            asked.append(parameter("offset", {**INTEGER, "minimum": 0, "maximum": self.far, "default": 0},
                                   "number of elements to skip"))
        if self.search:
            asked.append(parameter("search", NAME, f"part of {self.search}, case-insensitive"))
        if self.sorts:
            asked.append(parameter("sort", {"enum": list(self.sorts), "default": self.sorts[0]}))
        return asked


@dataclass(frozen=True)
class Declared:
    """A declared route. answer: a schema. query: parameters as OpenAPI has them. own: the reference server lacks the
    path, so its clients may get 405 for a wrong method. exact: the route deletes or moves what its filters select. So
    it refuses unknown names, empty values and parts of a request it does not read (`known`)."""

    answer: dict[str, Any] | None
    query: Sequence[dict[str, Any]] = ()
    example: Any = None
    own: bool = False
    page: Paged | None = None
    exact: bool = False


ROUTES: dict[str, Declared] = {}      # by "METHOD /path"
ROUTERS: list[Routes] = []


class Routes(APIRouter):
    """The routes of one resource."""

    def __init__(self, tag: str):
        super().__init__()
        self.tag = tag
        ROUTERS.append(self)

    def declare(self, route: str, level: int, answer: dict[str, Any] | None = None,
                query: Sequence[dict[str, Any]] = (), *, where: str = "", body: Any = None, example: Any = None,
                own: bool = False, tag: str = "", page: Paged | None = None, exact: bool = False,
                **more: Any) -> Callable:
        """Declares a route. route: "METHOD /path". where: as in auth/levels. body: the schema of the request; example:
        of it. page: of a list. exact: as in Declared. more: as FastAPI takes it."""
        method, path = route.split()
        ROUTES[route.replace(REST, "}")] = Declared(answer, [*query, *(page.query if page else ())], example, own, page,
                                                    exact)
        levels.declare(level, method, re.sub(r"{(\w+)}", r":\1", re.sub(rf"{{\w+{REST}", "*", path[1:])), where)
        extra = {"requestBody": body} if body else None
        return self.api_route(path, methods=[method], tags=[tag or self.tag], openapi_extra=extra, **more)
