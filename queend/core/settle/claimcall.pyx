# Pops whose records are in memory. In: pops with cached records, acknowledgments by lease (settle/leasedack). Out:
# answers from the row cache. One small statement claims for many pops, and acknowledgments by lease travel with it. A
# claim requires that the cursor stands where the book expects, without a lease (queend.claim). After a refused claim
# the pop takes the full way (deliver/popcall) with the same candidates. Owner: the worker. Locks: book.lock.

cdef enum:
    WOKEN_TURN = 256          # woken waiters that a turn tries
    WOKEN_ANY = 16            # as many of these as one that asks for a namespace: it looks at all queues

# ---- choice of the statement -----------------------------------------------------------------------------------------

cdef void claimcall_drain(Engine* e) noexcept nogil:
    # Woken waiters choose candidates first, in turns; then calls are sent while permits and slots last.
    cdef PopJob* j
    cdef int n = e.woken.n
    cdef int left = WOKEN_TURN
    while n > 0 and left > 0:
        n -= 1
        j = <PopJob*>joblist_take(&e.woken)
        left -= WOKEN_ANY if j.any_queue else 1
        pop_try(e.worker, j)
    if n > 0:
        uv_async_send(&e.worker.inbox.wake)       # the rest with the next turn, which comes at once
    if not slotpool_ready(e.slots):
        leasedack_expire(e)
        popcall_expire(e)
    while claimcall_fires(e) and claimcall_send(e):
        pass
    while e.pops.jobs.n and linger_fires(e, &e.pops) and popcall_send(e):
        pass

cdef bint claimcall_fires(Engine* e) noexcept nogil:
    # Returns True if a call should leave. Claims and the acknowledgments that travel with them wait together.
    # Acknowledgments alone may linger up to LINGER_SPARE_US (leasedack_may_linger).
    cdef JobQueue* q = &e.claims
    cdef const Linger* hold = &q.linger
    cdef Job* oldest = q.jobs.first
    cdef int n = q.jobs.n + e.leased.n
    cdef int64_t wait, now
    if n == 0:
        return False
    if q.jobs.n == 0:
        now = clock_mono_us()
        wait = linger_spare(n, e.turned_us, now)
        if wait > 0 and leasedack_may_linger(e, now):
            linger_arm(e, wait)
            return False
    if oldest == NULL or (e.leased.first != NULL and e.leased.first.queued_us < oldest.queued_us):
        oldest = e.leased.first
    # The linger that the operator set for acknowledgments applies if no claim travels with them.
    if q.jobs.n == 0 and e.acks.linger.patient:
        hold = &e.acks.linger
    return not linger_waits(e, hold, &q.linger, n, oldest.queued_us, n, &q.limit)

# ---- the statement ---------------------------------------------------------------------------------------------------

cdef bint claimcall_send(Engine* e) noexcept nogil:
    cdef bint acks = e.leased.n > 0
    cdef int statement = STMT_CLAIM if not acks else STMT_TURN if e.claims.jobs.n else STMT_ACK_LEASED
    cdef PopCall* call = <PopCall*>call_open(e, sizeof(PopCall), statement, &e.claims.limit, claimcall_done)
    cdef TurnArgs* a = <TurnArgs*>e.args.at
    cdef KeptArgs* claims = &a.claims if acks else &(<KeptOnlyArgs*>e.args.at).claims
    if call == NULL:
        return False
    call.acks.at = JOB_FETCHING
    popcall_gather(call, &e.claims.jobs)
    claimcall_encode(call, claims)
    if acks:
        leasedack_gather(call, a)
    if call.base.jobs.n == 0 and call.n_leased == 0:
        call_drop(&call.base)
        return False
    if acks:
        arg_bool(&a.heads, call.heads)
    popcall_reserve(call)
    e.turned_us = clock_mono_us()
    e.worker.counters.op[OP_POP].calls += call.base.jobs.n > 0
    e.worker.counters.op[OP_ACK].calls += call.n_leased > 0
    return call_send(&call.base)

cdef void claimcall_encode(PopCall* call, KeptArgs* a) noexcept nogil:
    cdef PopReq* req
    cdef Claim* c
    cdef int i
    for i in range(call.n_claims):
        c = call.claims[i]
        req = &c.job.req
        pgarray_int4(&a.part, c.cursor.partition.id)
        pgarray_int4(&a.group, c.cursor.group.id)
        pgarray_int8(&a.first, c.first)
        pgarray_int4(&a.take, c.take)
        pgarray_int8(&a.base, popjob_base(c, c.first + c.take if req.auto_ack else c.first))
        pgarray_uuid(&a.lease, c.job.lease)
        pgarray_int8(&a.lease_us, 0 if req.auto_ack else c.job.lease_us)

# ---- its answer ------------------------------------------------------------------------------------------------------

cdef void claimcall_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef PopCall* call = <PopCall*>c
    cdef Engine* e = c.engine
    cdef PopJob* j
    cdef int row = 0
    popcall_release(call)
    if e.claims.limit.in_flight == 0 and outcome < SLOT_UNSENT:
        linger_answered(&e.claims.linger, c.jobs.n + call.acks.n, e.claims.jobs.n + e.leased.n, c.ended_us - c.sent_us,
                        c.ended_us)
    if call.n_leased == 0:
        pass
    elif outcome == SLOT_OK:
        row = leasedack_done(call, res)
    elif res == NULL and outcome < SLOT_UNSENT:
        leasedack_lost(call)
    else:
        leasedack_answer(call)
    if outcome != SLOT_OK or row < PQntuples(res) and pg_int4(res, row, TURN_PART) < 0:
        popcall_trouble(call, res, outcome)
        return
    claimcall_book(call, res, row, c.ended_us)
    while c.jobs.first != NULL:
        j = <PopJob*>joblist_take(&c.jobs)
        if j.n_made:
            delivery_made(e.worker, j, NULL)
        else:                 # the cursor was moved without the book's knowledge: the full way finds the reason
            rowcache_release_all(j)
            job_queue(&j.job, &e.pops.jobs)

cdef void claimcall_book(PopCall* call, PGresult* res, int row, int64_t now) noexcept nogil:
    # Books the claims that were made; their rows begin at `row`. Other candidates of the same pops become ready again.
    cdef int at = 0
    cdef int i
    cdef Claim* c
    cdef PopJob* wake = NULL
    uv_mutex_lock(&book.lock)
    for row in range(row, PQntuples(res)):
        claim_found(call.claims, call.n_claims, &at, pg_int4(res, row, TURN_PART), pg_int4(res, row, TURN_GROUP),
                    pg_place(res, row, TURN_PLACE))
    for i in range(call.n_claims):
        c = call.claims[i]
        if c.made:
            claim_made(c, c.job.client_gone, NULL, now, &wake)
        elif c.job.n_made:
            claim_undo(call.base.engine, c, False, &wake)
    index_unlock(call.base.engine.worker, wake)
