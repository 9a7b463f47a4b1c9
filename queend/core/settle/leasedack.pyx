# Acknowledgments without a look into the log. In: requests whose items complete records that this daemon delivered
# under a lease, in order from the lease's first unacknowledged record (memory/unacked). Out: answers. They share a
# statement, and so a commit, with claims of pops whose records are in memory (settle/claimcall). If PostgreSQL does not
# confirm an acknowledgment, it takes the full way (settle/ack), which finds the reason. Owner: the worker. Locks:
# book.lock.
from libc.stdlib cimport qsort

# ---- requests that qualify -------------------------------------------------------------------------------------------

cdef bint leasedack_qualify(AckJob* j) noexcept nogil:
    # Returns True if the request qualifies. Then its leases are marked: until the answer, no other acknowledgment of
    # them goes this way.
    cdef int most = leasedack_count(j)
    cdef LeasedAck* all_
    cdef LeasedAck* a = NULL
    cdef AckItem* it
    cdef int i
    cdef int n = 0
    cdef bint good = True
    all_ = <LeasedAck*>arena_alloc(&j.job.r.arena, most * sizeof(LeasedAck)) if most else NULL
    if all_ == NULL:
        return False
    uv_mutex_lock(&book.lock)
    for i in range(j.req.n):
        it = &j.req.items[i]
        if leasedack_begins(j, i):
            a = &all_[n]
            good = leasedack_open(a, j, it)
            n += good
        good = good and a.n < a.unacked.n and memcmp(it.id, a.unacked.ids + 16 * (a.unacked.done + a.n), 16) == 0
        if not good:
            break
        a.n += 1
    for i in range(n):
        all_[i].unacked.flying = good
        all_[i].place = all_[i].unacked.place if all_[i].n == all_[i].unacked.n else 0
    uv_mutex_unlock(&book.lock)
    if good:
        j.leased = all_
        j.n_leased = n
    return good

cdef int leasedack_count(AckJob* j) noexcept nogil:
    # Returns the number of leases in the request, equal neighbours counted once; 0 if the request does not qualify.
    cdef int i
    cdef int n = 0
    cdef AckItem* it
    for i in range(j.req.n):
        it = &j.req.items[i]
        if it.done or it.status != ACK_COMPLETED or not it.has_lease or it.window or it.group == NULL:
            return 0
        n += leasedack_begins(j, i)
    return n

cdef inline bint leasedack_begins(AckJob* j, int i) noexcept nogil:
    # Returns True if item i begins another lease or another partition than its predecessor.
    cdef AckItem* it = &j.req.items[i]
    return i == 0 or it.partition_id != (it - 1).partition_id or memcmp(it.lease, (it - 1).lease, 16) != 0

cdef bint leasedack_open(LeasedAck* a, AckJob* j, AckItem* it) noexcept nogil:
    cdef Partition* p = it.partition
    cdef uint64_t key = table_pair(p.id, it.group.id)
    cdef Unacked* h = <Unacked*>table_get(&unacked.table, key)
    if h == NULL or h.flying or memcmp(h.lease, it.lease, 16) != 0:
        return False
    h.flying = True           # also blocks a second part of this request
    a.job = j
    a.unacked = h
    a.key = key
    a.first = it
    a.n = 0
    a.first_offset = h.first
    a.passed = h.passed
    a.base = h.base
    a.look = h.afar and p.head <= h.first + h.passed + h.n
    return True

# ---- names that are outdated -----------------------------------------------------------------------------------------

cdef void leasedack_renew(Engine* e, JobList* list) noexcept nogil:
    # Resolves the names of outdated jobs again: found in another incarnation, or in an older catalog than the worker's.
    cdef int n = list.n
    cdef Job* job = list.first
    while job != NULL and leasedack_current(e, <AckJob*>job):
        job = job.next
    if job == NULL:
        return
    while n:
        n -= 1
        job = joblist_take(list)
        if leasedack_current(e, <AckJob*>job):
            joblist_add(list, job)
        else:
            leasedack_forget(<AckJob*>job)
            ack_resolve(e, job)

cdef inline bint leasedack_current(Engine* e, AckJob* j) noexcept nogil:
    # Returns True if the job's names are as recent as the worker's catalog, whose version the statement carries. A
    # partial catalog has no version. In that case the worker's version is older than the database's, which refuses the
    # statement.
    return j.job.incarnation == catalog.incarnation and (j.version >= e.version or j.version == VERSION_NONE)

# ---- in the call -----------------------------------------------------------------------------------------------------

cdef bint leasedack_may_linger(Engine* e, int64_t now) noexcept nogil:
    # Returns True if the waiting acknowledgments may linger. In each of their groups many consumers are active, and at
    # least as many pops wait as there are requests. No record follows the leases; it would wait with them.
    cdef Job* job = e.leased.first
    cdef AckJob* j
    cdef AckItem* it
    cdef bint spare = True
    cdef int leases = 0
    cdef int i
    uv_mutex_lock(&book.lock)
    while spare and job != NULL:
        j = <AckJob*>job
        leases += j.n_leased
        spare = leases < LINGER_SPARE_LEASES
        for i in range(j.n_leased if spare else 0):
            it = j.leased[i].first
            if (it.group.busy_at + LINGER_SPARE_US <= now or it.group.n_wait < e.leased.n
                    or it.partition.head > j.leased[i].first_offset + j.leased[i].passed + j.leased[i].n):
                spare = False
                break
        job = job.next
    uv_mutex_unlock(&book.lock)
    return spare

cdef void leasedack_gather(PopCall* call, TurnArgs* a) noexcept nogil:
    # Adds as many acknowledgments as fit to the call, cursors in ascending order.
    cdef Engine* e = call.base.engine
    cdef AckJob* j
    cdef LeasedAck* one
    cdef int jobs = 0
    cdef int room = 0
    cdef int i
    cdef bint placed
    leasedack_renew(e, &e.leased)
    j = <AckJob*>e.leased.first
    while j != NULL and jobs < e.acks.linger.max_jobs and (jobs == 0 or room + j.n_leased <= CALL_CURSORS):
        jobs += 1
        room += j.n_leased
        j = <AckJob*>j.job.next
    if room == 0:
        return
    call.leased = <LeasedAck**>arena_alloc(&call.base.arena, room * sizeof(LeasedAck*))
    if call.leased == NULL:
        return
    while jobs:
        jobs -= 1
        j = <AckJob*>joblist_take(&e.leased)
        joblist_add(&call.acks, &j.job)
        for i in range(j.n_leased):
            call.leased[call.n_leased] = &j.leased[i]
            call.n_leased += 1
            call.heads |= j.leased[i].look
    qsort(call.leased, call.n_leased, sizeof(LeasedAck*), leasedack_order)
    placed = not call.heads
    for i in range(call.n_leased):
        placed = placed and call.leased[i].place != 0
    if not placed:
        arg_null(&a.acked_at)
    for i in range(call.n_leased):
        one = call.leased[i]
        pgarray_int4(&a.acked_part, <int32_t>(one.key >> 32))
        pgarray_int4(&a.acked_group, <int32_t><uint32_t>one.key)
        pgarray_uuid(&a.acked_lease, one.first.lease)
        pgarray_int8(&a.acked_first, one.first_offset)
        pgarray_int8(&a.acked_last, leasedack_last(one))
        pgarray_int8(&a.acked_base, one.base)
        if placed:
            pgarray_place(&a.acked_at, one.place)

cdef inline int64_t leasedack_last(const LeasedAck* a) noexcept nogil:
    # Returns the offset of the last record that is acknowledged.
    return a.first_offset + a.passed + a.n - 1

cdef int leasedack_order(const void* a, const void* b) noexcept nogil:
    cdef uint64_t one = (<LeasedAck**>a)[0].key
    cdef uint64_t two = (<LeasedAck**>b)[0].key
    return -1 if one < two else one > two

# ---- results ---------------------------------------------------------------------------------------------------------

cdef int leasedack_done(PopCall* call, PGresult* res) noexcept nogil:
    # Handles the acknowledgments of an answered call. Returns the first row behind theirs.
    cdef int row = 0
    cdef int n = PQntuples(res)
    cdef int at = 0
    cdef int i
    cdef LeasedAck* a
    cdef PopJob* wake = NULL
    uv_mutex_lock(&book.lock)
    while row < n and not pg_null(res, row, TURN_RELEASED):
        if pg_int4(res, row, TURN_PART) == 0:        # all were released
            for i in range(call.n_leased):
                leasedack_take(call, call.leased[i], True, 0, &wake)
        else:
            a = leasedack_find(call, &at, pg_int4(res, row, TURN_PART), pg_int4(res, row, TURN_GROUP))
            if a != NULL:
                leasedack_take(call, a, pg_bool(res, row, TURN_RELEASED), pg_int8(res, row, TURN_HEAD), &wake)
        row += 1
    index_unlock(call.base.engine.worker, wake)
    leasedack_answer(call)
    return row

cdef LeasedAck* leasedack_find(PopCall* call, int* at, int32_t partition, int32_t group) noexcept nogil:
    # Returns the acknowledgment of this cursor. Rows return in the order sent, in one or two such sequences; at: where
    # the search begins.
    cdef uint64_t key = table_pair(partition, group)
    cdef LeasedAck* a
    cdef int i
    for i in range(call.n_leased):
        a = call.leased[at[0] % call.n_leased]
        at[0] = at[0] % call.n_leased + 1
        if a.key == key:
            return a
    return NULL

cdef void leasedack_take(PopCall* call, LeasedAck* a, bint released, int64_t head, PopJob** wake) noexcept nogil:
    # Marks the acknowledgment as done. head: end of the partition's log, if it was asked for. Requires book.lock.
    cdef Unacked* h = <Unacked*>table_get(&unacked.table, a.key)
    cdef int i
    call.base.engine.worker.counters.acked_by_lease += a.n
    for i in range(a.n):
        a.first[i].done = True
        a.first[i].code = ACKED_OK
    if released:
        a.first[a.n - 1].code = ACKED_OK | ACKED_RELEASED
    a.job.pending -= a.n
    if h != NULL and memcmp(h.lease, a.first.lease, 16) == 0:
        # a request usually holds one delivery
        unacked_acked(h, a.n, released, a.job.job.born_us, &a.first.group.handling if a == a.job.leased else NULL,
                      a.job.req.n)
    index_acked(a.first.group, a.first.partition, &call.base, released, leasedack_last(a), head, 0, wake)

cdef void leasedack_answer(PopCall* call) noexcept nogil:
    # Answers the jobs that were confirmed completely; the rest of the other jobs takes the full way.
    cdef AckJob* j
    while call.acks.first != NULL:
        j = <AckJob*>joblist_take(&call.acks)
        if j.pending <= 0:
            ack_answer(j)
        else:
            leasedack_forget(j)
            job_queue(&j.job, &call.base.engine.acks.jobs)

cdef void leasedack_lost(PopCall* call) noexcept nogil:
    # Handles a lost answer: the outcome is unknown.
    cdef Job* job
    cdef PopJob* wake = NULL
    cdef int i
    uv_mutex_lock(&book.lock)
    for i in range(call.n_leased):
        index_ack_lost(call.leased[i].first.group, call.leased[i].first.partition, &wake)
    index_unlock(call.base.engine.worker, wake)
    while call.acks.first != NULL:
        job = joblist_take(&call.acks)
        leasedack_forget(<AckJob*>job)
        job_refuse(job, 503, ACK_UNKNOWN)

cdef void leasedack_expire(Engine* e) noexcept nogil:
    # Moves the jobs to e.acks while there is no connection: drain_run handles their patience.
    cdef Job* job
    while e.leased.first != NULL:
        job = joblist_take(&e.leased)
        leasedack_forget(<AckJob*>job)
        joblist_add(&e.acks.jobs, job)

cdef void leasedack_forget(AckJob* j) noexcept nogil:
    # Forgets the leases of a job of which not everything was confirmed this way.
    cdef Unacked* h
    cdef int i
    uv_mutex_lock(&book.lock)
    for i in range(j.n_leased):
        h = <Unacked*>table_get(&unacked.table, j.leased[i].key)
        if h != NULL and memcmp(h.lease, j.leased[i].first.lease, 16) == 0:
            unacked_forget(h)
    uv_mutex_unlock(&book.lock)
    j.n_leased = 0
