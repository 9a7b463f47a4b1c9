"""Lists that may be long: a page of them, and where the next one is."""
from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from fastapi import Request

from .query import Query

PAGE, PAGE_MOST, OFFSET_MOST = 1000, 10_000, 10_000_000


class Page:
    """Which elements are asked for. Query: limit (1000, most 10 000), offset."""

    def __init__(self, request: Request):
        query = Query(request)
        self.request = request
        self.limit, self.offset = query.whole("limit", PAGE, 0, PAGE_MOST), query.whole("offset", 0, 0, OFFSET_MOST)

    @property
    def asked(self) -> tuple[int, int]:
        """LIMIT and OFFSET of the statement: one more than is shown tells whether there are more."""
        return self.limit + 1, self.offset

    def of(self, found: list[Any]) -> tuple[list[Any], dict[str, str]]:
        """What is shown of what was found, and the answer's headers: `Link` names the next page where there is one
        (RFC 8288)."""
        if len(found) <= self.limit or not self.limit:
            return found[:self.limit], {}
        query = {**self.request.query_params, "limit": self.limit, "offset": self.offset + self.limit}
        return found[:self.limit], {"link": f'<{self.request.url.path}?{urlencode(query)}>; rel="next"'}
