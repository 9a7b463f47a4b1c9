# Pops whose records are in memory. In: pops with cached records, acknowledgments by lease (settle/leasedack). Out:
# answers from the row cache. One small statement claims for many pops, and acknowledgments by lease travel with it. A
# claim requires that the cursor stands where the book expects, without a lease (queend.claim). After a refused claim
# the pop takes the full way (deliver/popcall) with the same candidates. Owner: the worker. Locks: book.lock.

# ---- choice of the statement -----------------------------------------------------------------------------------------

cdef void claimcall_drain(Engine* e) noexcept nogil:
    # Woken waiters choose candidates first; then calls are sent while permits and slots last.
    cdef Job* j
    cdef int n = e.woken.n
    while n > 0:
        n -= 1
        j = joblist_take(&e.woken)
        pop_try(e.worker, <PopJob*>j)
    if not slotpool_ready(e.slots):
        claimcall_expire(e)
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

cdef void claimcall_expire(Engine* e) noexcept nogil:
    # Moves the jobs to e.pops while there is no connection: popcall_expire handles their patience.
    cdef PopJob* j
    while e.claims.jobs.first != NULL:
        j = <PopJob*>joblist_take(&e.claims.jobs)
        rowcache_release_all(j.taken, j.n_cursors)
        joblist_add(&e.pops.jobs, &j.job)

# ---- the statement ---------------------------------------------------------------------------------------------------

cdef bint claimcall_send(Engine* e) noexcept nogil:
    cdef bint acks = e.leased.n > 0
    cdef int statement = STMT_CLAIM if not acks else STMT_TURN if e.claims.jobs.n else STMT_ACK_LEASED
    cdef PopCall* call = <PopCall*>call_open(e, sizeof(PopCall), statement, &e.claims.limit, claimcall_done)
    cdef TurnArgs* a = <TurnArgs*>e.args.at
    cdef KeptArgs* claims = &a.claims if acks else &(<KeptOnlyArgs*>e.args.at).claims
    cdef PopJob* j
    if call == NULL:
        return False
    call.acks.at = JOB_FETCHING
    call.cursors = <Cursor**>arena_alloc(&call.base.arena, CALL_ROOM * sizeof(Cursor*))
    while (call.cursors != NULL and e.claims.jobs.first != NULL and call.base.jobs.n < e.pops.linger.max_jobs
            and call.n_cursors < CALL_CURSORS):
        if popcall_crowded(e, <PopJob*>e.claims.jobs.first):
            j = <PopJob*>joblist_take(&e.claims.jobs)
            rowcache_release_all(j.taken, j.n_cursors)
            joblist_add(&e.pops.jobs, &j.job)
            continue
        if not popcall_room(call, <PopJob*>e.claims.jobs.first):
            break
        j = <PopJob*>joblist_take(&e.claims.jobs)
        if j.client_gone or j.group.dead or j.group.paused or popend_token_stale(j) or popend_token_expired(j):
            rowcache_release_all(j.taken, j.n_cursors)
            popend_turn_away(e, j)
        else:
            claimcall_add(call, claims, j)
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

cdef void claimcall_add(PopCall* call, KeptArgs* a, PopJob* j) noexcept nogil:
    cdef Taken* t
    cdef int i
    popcall_take(call, j)
    for i in range(j.n_cursors):
        t = &j.taken[i]
        pgarray_int4(&a.part, j.cursors[i].partition.id)
        pgarray_int4(&a.group, j.cursors[i].group.id)
        pgarray_int8(&a.first, t.first)
        pgarray_int4(&a.take, t.take)
        pgarray_int8(&a.base, popjob_base(t, t.first + t.take if j.req.auto_ack else t.first))
        pgarray_uuid(&a.lease, j.lease)
        pgarray_int8(&a.lease_us, 0 if j.req.auto_ack else j.lease_us)

# ---- its answer ------------------------------------------------------------------------------------------------------

cdef void claimcall_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef PopCall* call = <PopCall*>c
    cdef Engine* e = c.engine
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
        claimcall_untake(call)
        popcall_trouble(call, res, outcome)
        return
    claimcall_book(call, res, row, c.ended_us)
    while c.jobs.first != NULL:
        claimcall_answer(e, <PopJob*>joblist_take(&c.jobs))

cdef void claimcall_untake(PopCall* call) noexcept nogil:
    cdef Job* job = call.base.jobs.first
    while job != NULL:
        rowcache_release_all((<PopJob*>job).taken, (<PopJob*>job).n_cursors)
        job = job.next

cdef void claimcall_book(PopCall* call, PGresult* res, int row, int64_t now) noexcept nogil:
    # Notes which claims were made, and moves their cursors. The made claims return in the order sent, from `row` on.
    cdef int n = PQntuples(res)
    cdef int i
    cdef Job* job = call.base.jobs.first
    cdef PopJob* j
    cdef PopJob* wake = NULL
    cdef Cursor* c
    uv_mutex_lock(&book.lock)
    while job != NULL:
        j = <PopJob*>job
        j.n_made = 0
        for i in range(j.n_cursors):
            c = j.cursors[i]
            if (row < n and pg_int4(res, row, TURN_PART) == c.partition.id
                    and pg_int4(res, row, TURN_GROUP) == c.group.id):
                j.taken[i].made = True
                j.taken[i].place = pg_place(res, row, TURN_PLACE)
                j.n_made += 1
                row += 1
        if j.n_made:
            claimcall_keep(j, now, &wake)
        job = job.next
    uv_mutex_unlock(&book.lock)
    if wake != NULL:
        waiters_send(call.base.engine.worker, wake)

cdef void claimcall_keep(PopJob* j, int64_t now, PopJob** wake) noexcept nogil:
    # Keeps the candidates whose claims were made; the others become ready again. Requires book.lock.
    cdef Taken* t
    cdef Cursor* c
    cdef int i
    cdef int n = 0
    for i in range(j.n_cursors):
        t = &j.taken[i]
        c = j.cursors[i]
        if not t.made:
            rowcache_release(t)
            cursor_move(c, CURSOR_READY, 0)
        else:
            cursor_claimed(c, j, j.client_gone, t.first + t.take, now)
            if j.req.auto_ack:
                popend_consumed(j, n, t.first, t.first + t.take)
            else:
                unacked_cached(c, j, t)
            j.cursors[n] = c
            j.taken[n] = t[0]
            n += 1
        if c.state == CURSOR_READY:
            waiters_wake_cursor(c, wake)
    j.n_cursors = n

cdef void claimcall_answer(Engine* e, PopJob* j) noexcept nogil:
    if j.n_made and not j.client_gone:
        delivery_cached(e.worker, j)
        return
    rowcache_release_all(j.taken, j.n_cursors)
    if j.n_made == 0:
        # the cursor was moved without the book's knowledge: the full way finds the reason
        job_queue(&j.job, &e.pops.jobs)
    else:
        popend_give_back(e, j)
        popend_forget(j)
