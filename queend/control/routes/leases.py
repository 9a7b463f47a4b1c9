"""GET /api/v1/leases: the live leases, so that an operator sees which messages are out, since when and until when. A
request examines a bounded number of them, and says how many."""
from __future__ import annotations

from fastapi import Request

from ..._core import read_partition_id
from ...auth.levels import EVERY_QUEUE, READ, READS
from ...auth.permits import readable, reads_some
from ...auth.refused import lacking
from ..database import rows, seed_of
from ..http.answer import Json, Refusal
from ..http.moments import ts3
from ..http.paged import Page
from ..http.rights import limits
from ..http.route import Paged, Routes
from ..http.schema import FLAG, ID, INTEGER, TEXT, TIME, array, whole
from ..http.schemas import GROUP, QUEUE, integers

router = Routes("groups")

EXAMINED_MOST = 10_000      # partitions with leases per request
LIST = "SELECT * FROM queend.lease_list(%s, %s, %s, %s, %s, %s, %s::text[], %s::text[])"


@router.declare("GET /api/v1/leases", READ, whole(
    leases=array(whole(queue=TEXT, partition=TEXT, partitionId=ID, consumerGroup=TEXT, leaseId=ID,
                       **integers("messages", "offset", "deliveries", "leasesLapsed"), lastActivityAt=TIME,
                       expiresAt=TIME)), total=INTEGER, complete=FLAG),
                [QUEUE, GROUP], where="itself", own=True,
                page=Paged(100, 1000, EXAMINED_MOST, 1, sorts=("expires", "idle")))
async def lease_list(request: Request) -> Json:
    """Lists live leases, one per partition and group: with `sort=expires` those that end first, with `sort=idle` those
    without an acknowledgment for longest. `lastActivityAt` is the delivery, or the last acknowledgment since. `offset`
    is the first message that is not consumed, `messages` how many the lease still has. Examines the 10 000 partitions
    whose lease ends first; `complete` is false if there are more. `total` is the number of leases found among those
    examined. A lease of several partitions is listed for each. With a token that is limited to queues or groups, only
    leases that it may read are included; 403 if it may read none of those that the query names. The header `Link` names
    the next page, if there is one."""
    page = Page(request)
    queue, group, rules = page.text("queue"), page.text("consumerGroup"), limits(request)
    if not reads_some(rules, queue, group):
        raise Refusal(403, lacking(READS, queue or EVERY_QUEUE, group), "forbidden")
    await request.app.state.control.stats.fresh()
    sums, *leases = await rows(request, LIST, queue, group, page.sort == "idle", EXAMINED_MOST, *page.asked,
                               *readable(rules))
    found, headers = page.of(leases)
    seed = await seed_of(request)
    return Json({"leases": [{
        "queue": row.queue, "partition": row.partition, "partitionId": read_partition_id(seed, row.partition_id),
        "consumerGroup": row.name, "leaseId": str(row.lease_id), "messages": row.leased, "offset": row.next,
        "deliveries": row.attempt, "leasesLapsed": row.lapses, "lastActivityAt": ts3(row.consumed_at),
        "expiresAt": ts3(row.lease_until)} for row in found],
        "total": sums.total, "complete": sums.complete}, headers=headers)
