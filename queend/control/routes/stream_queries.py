"""GET /streams/v1/queries: the registered streams (docs/streams.md)."""
from __future__ import annotations

from fastapi import Request

from ...auth.levels import READ
from ..database import rows
from ..http.answer import Json
from ..http.moments import ts3
from ..http.paged import Page
from ..http.route import Paged, Routes
from ..http.schema import ID, INTEGER, MAYBE, TEXT, TIME, array, whole

router = Routes("streams")
COUNT_MOST = 10_000      # largest count of a stream's keys

LIST = """
SELECT s.query_uuid, s.name, s.source_queue, s.sink_queue, s.config_hash, s.created_at, s.updated_at,
       (SELECT count(*) FROM (SELECT FROM queend.stream_state x WHERE x.query_id = s.id LIMIT %s) k) AS keys
  FROM (SELECT y.* FROM queend.stream_queries y ORDER BY y.name LIMIT %s OFFSET %s) s ORDER BY s.name"""


STREAM = whole(query_id=ID, name=TEXT, source_queue=TEXT, sink_queue=MAYBE, config_hash=TEXT, state_keys=INTEGER,
               created_at=TIME, updated_at=TIME)


@router.declare("GET /streams/v1/queries", READ, whole(queries=array(STREAM)), own=True, page=Paged())
async def stream_list(request: Request) -> Json:
    """Lists the registered streams, by name. `state_keys` counts up to 10 000. The header `Link` names the next page,
    if there is one."""
    page = Page(request)
    found, headers = page.of(await rows(request, LIST, COUNT_MOST, *page.asked))
    return Json({"queries": [{"query_id": str(row.query_uuid), "name": row.name, "source_queue": row.source_queue,
                  "sink_queue": row.sink_queue, "config_hash": row.config_hash, "state_keys": row.keys,
                  "created_at": ts3(row.created_at), "updated_at": ts3(row.updated_at)} for row in found]},
                headers=headers)
