"""Long lists: a page, and the link to the next one."""
from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from fastapi import Request

from .query import Query
from .route import ROUTES, Paged


def next_page(request: Request, **there: Any) -> dict[str, str]:
    """Returns the header that names the next page (RFC 8288): the same request but for these parameters."""
    asked = [(name, value) for name, value in request.query_params.multi_items() if name not in there]
    return {"link": f'<{request.url.path}?{urlencode([*asked, *there.items()])}>; rel="next"'}


class Page(Query):
    """The elements asked for, as the route declares it (`route.Paged`), and the rest of the query."""

    def __init__(self, request: Request):
        super().__init__(request)
        self.request = request
        rule = ROUTES[f"{request.method} {request.scope['route'].path_format}"].page
        assert rule
        self.rule: Paged = rule
        self.limit = self.whole("limit", rule.limit, rule.least, rule.most)
        self.offset = self.whole("offset", 0, 0, rule.far) if rule.far else 0
        self.search = self.text("search") if rule.search else None
        self.sort = self.one_of("sort", rule.sorts) if rule.sorts else ""

    @property
    def shown(self) -> dict[str, int]:
        """Returns the page as answers name it."""
        return {"limit": self.limit, "offset": self.offset}

    @property
    def asked(self) -> tuple[int, int]:
        """Returns LIMIT and OFFSET of the statement: one element more than shown tells whether there are more."""
        return self.limit + 1, self.offset

    def of(self, found: list[Any]) -> tuple[list[Any], dict[str, str]]:
        """Returns the elements to show, and the answer's headers: the next page if there is one."""
        if len(found) <= self.limit or not self.limit:
            return found[:self.limit], {}
        return found[:self.limit], next_page(self.request, limit=self.limit, offset=self.offset + self.limit)
