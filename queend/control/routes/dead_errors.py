"""GET /api/v1/dlq/errors: dead letters counted by error and consumer group. A request looks at a bounded number of dead
letters, and says how many."""
from __future__ import annotations

from fastapi import Request

from ...auth.levels import READ
from ..database import rows
from ..http.answer import Json
from ..http.moments import ts3
from ..http.paged import Page
from ..http.route import Paged, Routes
from ..http.schema import FLAG, INTEGER, MAYBE, TEXT, TIME, array, whole
from ..http.schemas import QUEUE
from .dead_letters import FILTERS, ID_OF_ERROR, dead_wanted

router = Routes("dead letters")

EXAMINED_MOST = 10_000      # dead letters per request

GROUPS = f"""
WITH found AS MATERIALIZED (
    SELECT d.error, d.queue_id, COALESCE(d.group_name, g.name) AS name, d.failed_at, f.place
      FROM queend.dead_find(%s, %s, %s, %s, %s, %s, 0, %s) WITH ORDINALITY AS f (d, place)
     CROSS JOIN LATERAL (SELECT x.error, x.queue_id, x.group_name, x.group_id, x.failed_at
                           FROM queend.dead_letters x WHERE x.id = f.d OFFSET 0) AS d
      LEFT JOIN LATERAL (SELECT x.name FROM queend.consumer_groups x WHERE x.id = d.group_id OFFSET 0) AS g ON true)
SELECT q.name AS queue, u.error, {ID_OF_ERROR.format("u")} AS id, u.name, u.n, u.first, u.last,
       (SELECT count(*) FROM found) AS matching, count(*) OVER () AS groups
  FROM (SELECT f.queue_id, f.error, f.name, count(*) AS n, min(f.failed_at) AS first, max(f.failed_at) AS last
          FROM found f WHERE f.place <= %s GROUP BY f.queue_id, f.error, f.name) AS u
 CROSS JOIN LATERAL (SELECT x.name FROM queend.queues x WHERE x.id = u.queue_id OFFSET 0) AS q
 ORDER BY u.n DESC, u.last DESC, q.name, u.name, u.error LIMIT %s"""


@router.declare("GET /api/v1/dlq/errors", READ, whole(
    groups=array(whole(queue=TEXT, consumerGroup=TEXT, errorMessage=MAYBE, errorId=TEXT, count=INTEGER,
                       firstFailedAt=TIME, lastFailedAt=TIME)), total=INTEGER, examined=INTEGER, complete=FLAG),
                [QUEUE, *FILTERS], where="query", own=True, page=Paged(100, 1000, 0, 1))
async def dead_errors(request: Request) -> Json:
    """Counts dead letters by queue, consumer group and error, the largest count first. Examines the newest 10 000 that
    match the filters; `complete` is false if there are more. `errorId` selects exactly this error in the other requests
    of dead letters. `total` is the number of groups among those examined, of which at most `limit` are returned."""
    page = Page(request)
    filters, error = await dead_wanted(request, page)
    found = await rows(request, GROUPS, *filters, EXAMINED_MOST + 1, error, EXAMINED_MOST, page.limit)
    matching = found[0].matching if found else 0
    return Json({"groups": [{"queue": row.queue, "consumerGroup": row.name, "errorMessage": row.error,
                             "errorId": row.id, "count": row.n, "firstFailedAt": ts3(row.first),
                             "lastFailedAt": ts3(row.last)} for row in found],
                 "total": found[0].groups if found else 0, "examined": min(matching, EXAMINED_MOST),
                 "complete": matching <= EXAMINED_MOST})
