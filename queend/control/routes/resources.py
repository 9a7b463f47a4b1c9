"""/api/v1/resources: partitions, further resources of a queue, namespaces, tasks; and POST /api/v1/stats/refresh. Sums
are kept figures."""
from __future__ import annotations

from fastapi import Request

from ..._core import read_partition_id
from ...auth.levels import ADMIN, READ
from ..database import rows, seed_of
from ..http.answer import Json, PathName, Refusal
from ..http.moments import ts3
from ..http.paged import Page
from ..http.route import Paged, Routes
from ..http.schema import FLAG, ID, INTEGER, MAYBE, NAME, TEXT, TIME, array, parameter, whole
from ..http.schemas import DONE, PAGINATION, QUEUE, SIX_COUNTS, integers
from .queues import PARTITIONS, PARTITIONS_BY, PARTITIONS_OF_ALL, PARTITIONS_PAGE, counts_of, queue_row

router = Routes("queues")
SPACE = {"queues": INTEGER, "partitions": INTEGER, "messages": whole(total=INTEGER, pending=INTEGER)}

# Partitions from a name on, and those with a prefix: both are a range of the index of names.
PARTITIONS_FROM = PARTITIONS_BY.format(
    "WHERE x.queue_id = %s AND x.name >= %s AND x.name <= %s AND (%s::text IS NULL OR x.name > %s) "
    "ORDER BY x.queue_id, x.name", "p.name")
LAST = "\U0010ffff"      # behind every other character
SPACES = "SELECT * FROM queend.space_list(%s, %s, %s)"
DEPTH = "SELECT * FROM queend.group_depth(%s, %s, %s)"
CONFLATES = "SELECT g.conflates FROM queend.consumer_groups g WHERE g.queue_id = %s AND g.name = %s"


@router.declare("GET /api/v1/resources/partitions", READ,
                whole(partitions=array(whole(id=ID, name=TEXT, queue=MAYBE, createdAt=TIME, stats=SIX_COUNTS)),
                      pagination=PAGINATION),
                [QUEUE, parameter("prefix", NAME, "prefix of the names; requires queue"),
                 parameter("after", NAME, "last name of the page before; requires queue")], where="query", own=True,
                page=PARTITIONS_PAGE)
async def partition_list(request: Request) -> Json:
    """Lists partitions with live counts: of one `queue` by name, or of all queues in order of creation. To page through
    a large queue, pass the last name of a page as `after`; each page has the same cost."""
    page = Page(request)
    queue, prefix, after = page.text("queue"), page.text("prefix"), page.text("after")
    if queue is None and (prefix or after):
        raise Refusal(400, "prefix and after require queue", "queue_required")
    if queue is None:
        found = await rows(request, PARTITIONS_OF_ALL, page.limit, page.offset)
        ids = list({row.queue_id for row in found})
        names = {row.id: row.name
                 for row in await rows(request, "SELECT q.id, q.name FROM queend.queues q WHERE q.id = ANY (%s)", ids)}
    else:
        head = await queue_row(request, queue)
        names = {head.id: queue}
        if prefix or after:
            begin = prefix or ""
            found = await rows(request, PARTITIONS_FROM, head.id, max(begin, after or "", key=str.encode),
                               begin + LAST, after, after, page.limit, page.offset, prepare=False)
        else:
            found = await rows(request, PARTITIONS, head.id, page.limit, page.offset)
    seed = await seed_of(request)
    return Json({"partitions": [{
        "id": read_partition_id(seed, row.partition_id), "name": row.name, "queue": names.get(row.queue_id),
        "createdAt": ts3(row.created_at), "stats": counts_of(row)} for row in found], "pagination": page.shown})


@router.declare("GET /api/v1/resources/queues/{queue}/depth", READ,
                whole(queue=TEXT, group=MAYBE, pending=INTEGER, partitionsPending=INTEGER, conflation=FLAG,
                      effectivePending=INTEGER, partitions=array(whole(partition=TEXT, pending=INTEGER))),
                [parameter("group", NAME)], own=True, page=Paged(500, far=0))
async def queue_depth(request: Request, queue: PathName) -> Json:
    """Returns the number of messages that a `group` has not consumed; without a group, that of the group with the
    highest lag in each partition. A group that does not exist has all messages to consume. With a group, `partitions`
    lists those with the longest wait. `effectivePending` is the number of messages that will be delivered: one for each
    partition if the group conflates. 404 if the queue does not exist."""
    page = Page(request)
    group = page.text("group")
    await request.app.state.control.stats.fresh()
    head = await queue_row(request, queue)
    found = await rows(request, DEPTH, head.id, group, page.limit)
    pending, waiting = found[0].pending, found[0].partitions
    conflates = group is not None and any(row.conflates for row in await rows(request, CONFLATES, head.id, group))
    return Json({"queue": queue, "group": group, "pending": pending, "partitionsPending": waiting,
                 "conflation": conflates, "effectivePending": waiting if conflates else pending,
                 "partitions": [{"partition": row.name, "pending": row.lag} for row in found if row.name is not None]})


async def _spaces(request: Request, column: str, name: str) -> Json:
    page = Page(request)
    await request.app.state.control.stats.fresh()
    found, headers = page.of(await rows(request, SPACES, column, *page.asked))
    return Json({name: [{column: row.name, "queues": row.queues, "partitions": row.partitions,
                         "messages": {"total": row.total, "pending": row.pending}}
                        for row in found]}, headers=headers)


@router.declare("GET /api/v1/resources/namespaces", READ, whole(namespaces=array(whole(namespace=TEXT, **SPACE))),
                page=Paged())
async def namespace_list(request: Request) -> Json:
    """Lists namespaces that have a queue, by name. The header `Link` names the next page, if there is one."""
    return await _spaces(request, "namespace", "namespaces")


@router.declare("GET /api/v1/resources/tasks", READ, whole(tasks=array(whole(task=TEXT, **SPACE))), page=Paged())
async def task_list(request: Request) -> Json:
    """Lists tasks that have a queue, by name. The header `Link` names the next page, if there is one."""
    return await _spaces(request, "task", "tasks")


@router.declare("POST /api/v1/stats/refresh", ADMIN, {"oneOf": [
    whole(partition=whole(**integers("partitionsUpdated", "dirtyPartitionsScanned", "partitionsSkippedByWatermark",
                                     "newPartitions")),
          queue=whole(queuesUpdated=INTEGER), namespace=whole(namespacesUpdated=INTEGER),
          task=whole(tasksUpdated=INTEGER), system=whole(systemUpdated=INTEGER),
          cleanup=whole(orphanedDeleted=INTEGER)),
    whole(skipped=DONE, reason={"const": "another_instance_running"})]}, tag="status")
async def stats_refresh(request: Request) -> Json:
    """Recounts the stored statistics of all partitions, a thousand per transaction. Answers when the recount is
    complete."""
    look = await request.app.state.control.stats.refresh()
    if look.skipped:
        return Json({"skipped": True, "reason": "another_instance_running"})
    ((queues, spaces, tasks),) = await rows(request, "SELECT count(*) AS queues, count(DISTINCT q.namespace) AS "
                                                     "spaces, count(DISTINCT q.task) AS tasks FROM queend.queues q")
    return Json({"partition": {
        "partitionsUpdated": look.walked, "dirtyPartitionsScanned": look.changed, "partitionsSkippedByWatermark": 0,
        "newPartitions": 0}, "queue": {"queuesUpdated": queues}, "namespace": {"namespacesUpdated": spaces},
                 "task": {"tasksUpdated": tasks}, "system": {"systemUpdated": 1}, "cleanup": {"orphanedDeleted": 0}})
