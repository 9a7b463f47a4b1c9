"""GET /streams/v1/queries: the streams that are registered (docs/streams.md)."""
from __future__ import annotations

from fastapi import Request

from ..auth.levels import READ
from .answer import Json
from .database import rows
from .paged import Page
from .queues import ts3
from .route import Routes
from .shapes import LIMIT, OFFSET
from .words import ID, INTEGER, MAYBE, TEXT, TIME, array, like, whole

router = Routes("streams")
COUNT_MOST = 10_000      # keys of a stream that are counted

LIST = """
SELECT s.query_uuid, s.name, s.source_queue, s.sink_queue, s.config_hash, s.created_at, s.updated_at,
       (SELECT count(*) FROM (SELECT FROM queend.stream_state x WHERE x.query_id = s.id LIMIT %s) k) AS keys
  FROM (SELECT y.* FROM queend.stream_queries y ORDER BY y.name LIMIT %s OFFSET %s) s ORDER BY s.name"""


EXAMPLE = {"query_id": "0f8fad5b-d9cb-469f-a165-70867728950e", "name": "totals", "source_queue": "orders",
           "sink_queue": "totals", "config_hash": "c0ffee", "state_keys": 12,
           "created_at": "2026-01-02T03:04:05.678Z", "updated_at": "2026-01-02T03:04:05.678Z"}
STREAM = whole(query_id=ID, name=TEXT, source_queue=TEXT, sink_queue=MAYBE, config_hash=TEXT, state_keys=INTEGER,
               created_at=TIME, updated_at=TIME)


@router.declare("GET /streams/v1/queries", READ, like(whole(queries=array(STREAM)), {"queries": [EXAMPLE]}),
                [LIMIT, OFFSET], own=True)
async def stream_list(request: Request) -> Json:
    """The streams that are registered, by name. `state_keys` counts to 10 000. Query: limit (1000, most 10 000),
    offset; the header `Link` names the next page where there is one."""
    page = Page(request)
    found, headers = page.of(await rows(request, LIST, COUNT_MOST, *page.asked))
    return Json({"queries": [{"query_id": str(row.query_uuid), "name": row.name, "source_queue": row.source_queue,
                  "sink_queue": row.sink_queue, "config_hash": row.config_hash, "state_keys": row.keys,
                  "created_at": ts3(row.created_at), "updated_at": ts3(row.updated_at)} for row in found]},
                headers=headers)
