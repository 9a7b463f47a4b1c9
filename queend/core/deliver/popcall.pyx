# The statement of pops: claims and fetches for many of them. In: pops with candidates; rows of queend.pop, which name
# their candidate. Out: the position of each candidate's cursor, to the book; each pop's answer, or its next try. If the
# call failed: pops that try again or are refused, and leases that are given back. Owner: the worker. Locks: book.lock.

# ---- the call leaves -------------------------------------------------------------------------------------------------

cdef bint popcall_send(Engine* e) noexcept nogil:
    cdef PopCall* call = <PopCall*>call_open(e, sizeof(PopCall), STMT_POP, &e.pops.limit, popcall_done)
    cdef PopArgs* a = <PopArgs*>e.args.at
    if call == NULL:
        return False
    popcall_gather(call, &e.pops.jobs)
    if call.base.jobs.n == 0:
        call_drop(&call.base)
        return False
    if call.newest:
        call_asks(&call.base, STMT_POP_NEWEST)        # the parameters are those of STMT_POP
    popcall_encode(call, a)
    popcall_reserve(call)
    e.worker.counters.op[OP_POP].calls += 1
    return call_send(&call.base)

cdef void popcall_gather(PopCall* call, JobList* list) noexcept nogil:
    # Adds pops that wait for a statement, and their candidates, to the call. Pops of groups that conflate have calls of
    # their own.
    cdef Engine* e = call.base.engine
    cdef PopJob* j
    cdef bint isolated = False
    cdef bint newest
    cdef int crowded = 0
    cdef int i
    call.claims = <Claim**>arena_alloc(&call.base.arena, CALL_ROOM * sizeof(Claim*))
    while (call.claims != NULL and list.first != NULL and not isolated
            and call.base.jobs.n < e.pops.linger.max_jobs and call.n_claims < CALL_CURSORS):
        j = <PopJob*>list.first
        if popcall_crowded(e, j):
            if crowded == min(list.n, CROWDED_MOST):
                break
            crowded += 1
            popcall_put_off(e, <PopJob*>joblist_take(list), clock_mono_us(), UNSENT_TEXT)
            continue
        newest = j.group.conflates
        if call.base.jobs.n and (j.job.isolated or newest != call.newest) or not popcall_room(call, j):
            break
        isolated = j.job.isolated
        joblist_take(list)
        if j.client_gone:
            claim_drop(e, j, False)
            popend_forget(j)
        elif j.group.dead or j.group.paused or popend_token_over(j):
            claim_drop(e, j, False)
            pop_try(e.worker, j)
        else:
            call.newest = newest
            claim_lease(e.worker, j)
            for i in range(j.n_claims):
                call.claims[call.n_claims] = &j.claims[i]
                call.n_claims += 1
            joblist_add(&call.base.jobs, &j.job)

cdef void popcall_encode(PopCall* call, PopArgs* a) noexcept nogil:
    # Encodes candidates and requests. The maximum age and the rate of messages are NULL if no request has such a bound.
    cdef Job* job = call.base.jobs.first
    cdef PopJob* j
    cdef Cursor* c
    cdef Queue* q
    cdef bint old = False
    cdef bint rate_limited = False
    cdef int i
    cdef int req = 0
    while job != NULL:
        j = <PopJob*>job
        q = j.queue
        req += 1
        for i in range(j.n_claims):
            c = j.claims[i].cursor
            pgarray_int4(&a.req, req)
            pgarray_int4(&a.part, c.partition.id)
            pgarray_int4(&a.group, c.group.id)
            pgarray_bool(&a.may_be_missing, atomic_get8(&c.may_be_missing) != 0)
        pgarray_int4(&a.budget, j.allowed)
        pgarray_int4(&a.parts, j.req.partitions if not call.newest else j.n_claims)
        pgarray_bool(&a.auto_ack, j.req.auto_ack)
        pgarray_uuid(&a.lease, j.lease)
        pgarray_int8(&a.lease_us, j.lease_us)
        pgarray_int8(&a.delay_us, q.delay_us)
        pgarray_int8(&a.window_us, q.window_us)
        old |= q.ttl_us != 0
        rate_limited |= q.rate_us != 0
        pgarray_int8(&a.ttl_us, q.ttl_us)
        pgarray_int8(&a.rate_us, q.rate_us)
        pgarray_int4(&a.burst, q.rate_burst)
        job = job.next
    if not old:
        arg_null(&a.ttl_us)
    if not rate_limited:
        arg_null(&a.rate_us)
        arg_null(&a.burst)

cdef inline int64_t popcall_bytes(PopJob* j) noexcept nogil:
    # Returns the memory that the pop may take, by the recent size of its queue's messages and answers. Compressed rows
    # of CLAIM_BYTES may become a larger answer.
    cdef int64_t each = j.queue.message_bytes
    cdef int64_t answer = j.queue.answer_bytes
    if each == 0:
        each = CALL_EACH
    return CALL_COPIES * min(j.req.batch * each, max(each, max(answer, CLAIM_BYTES)))

cdef inline int64_t popcall_wants(int64_t bytes) noexcept nogil:
    # Returns how much of the bound of unsent answers must be free for a pop that takes so many bytes. One that takes
    # more than half of it, because of a large message, begins once half of it is free.
    return min(bytes, budget_most_unsent() // 2)

cdef bint popcall_room(PopCall* call, PopJob* j) noexcept nogil:
    # Returns True if the pop may travel with the call. A pop that takes much memory waits while other calls of this
    # worker are in flight: the end of a call tries it again. It also waits while the memory of earlier answers is given
    # back to the system, which each turn continues.
    cdef int64_t bytes = popcall_bytes(j)
    cdef int64_t flying
    if call.base.jobs.n:
        if call.expected + bytes > CALL_BYTES:
            return False
    elif bytes > CALL_FREE:
        if call.base.engine.worker.chunks.freed_bytes > CALL_BYTES:
            return False
        flying = atomic_get64(&budget.expected)
        if (call.base.limit.in_flight > 1
                and flying + atomic_get64(&budget.untaken) + popcall_wants(bytes) > budget_most_unsent()):
            return False
    call.expected += bytes
    return True

cdef bint popcall_crowded(Engine* e, PopJob* j) noexcept nogil:
    # Returns True if the pop takes so much that it waits until clients have taken answers. The timer looks again. An
    # answer behind one that its connection still owes cannot be sent: such a pop waits earlier. The one that is owed
    # does not wait for answers behind it.
    cdef int64_t bytes = popcall_bytes(j)
    cdef Conn* c = j.job.r.conn
    cdef bint crowded
    if bytes <= CALL_FREE or c == NULL or c.feed != NULL:     # a stream looks at the budget itself
        return False
    bytes = popcall_wants(bytes)
    if c.first != j.job.r:
        crowded = atomic_get64(&budget.untaken) + bytes > budget_most_unsent() // 2
    else:
        crowded = (c.out_pending or c.untaken == 0) and budget_unsent_full(c, bytes)
    if crowded:
        linger_arm(e, CROWDED_US)
    return crowded

cdef inline void popcall_reserve(PopCall* call) noexcept nogil:
    # Adds the bytes expected of a call that is about to leave to the budget, if it brings much.
    if call.expected <= CALL_FREE:
        call.expected = 0
    else:
        atomic_add64(&budget.expected, call.expected)

cdef inline void popcall_release(PopCall* call) noexcept nogil:
    if call.expected:
        atomic_add64(&budget.expected, -call.expected)

# ---- its answer ------------------------------------------------------------------------------------------------------

cdef void popcall_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef PopCall* call = <PopCall*>c
    popcall_release(call)
    # second condition: the server says that the catalog is stale
    if outcome != SLOT_OK or PQntuples(res) > 0 and pg_int4(res, 0, POP_ORD) < 0:
        popcall_trouble(call, res, outcome)
        return
    popcall_book(call, res, c.ended_us)
    while c.jobs.first != NULL:
        popcall_answer(c.engine, <PopJob*>joblist_take(&c.jobs), res)

cdef void popcall_book(PopCall* call, PGresult* res, int64_t now) noexcept nogil:
    # Applies the rows to all candidates and their cursors, under one lock. The rows of a claim follow one another.
    cdef int row, i
    cdef int64_t took
    cdef int64_t wall = clock_db_now()
    cdef uint8_t again
    cdef Claim* c
    cdef PopJob* wake = NULL
    cdef Job* job
    cdef PopJob* j
    uv_mutex_lock(&book.lock)
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, POP_ORD)
        if i < 0 or i >= call.n_claims:
            continue
        c = call.claims[i]
        again = c.cursor.recheck       # the head wakes other cursors, and is no news for this one
        index_head_found(c.cursor.partition, pg_int8(res, row, POP_HEAD), &wake)
        c.cursor.recheck = again
        if pg_int2(res, row, POP_STATUS) != POP_ROW_CLAIMED:
            cursor_row_made(c.cursor)
        elif not c.made:
            c.made = True
            c.job.n_made += 1
            c.first = pg_int8(res, row, POP_FIRST)
            if call.newest:
                c.passed = c.first - pg_int8(res, row, POP_SINCE)
        if c.row < 0:
            c.row = row
        if c.made:
            c.take = <int>(pg_int8(res, row, POP_FIRST) - c.first) + pg_int4(res, row, POP_TAKE)
    job = call.base.jobs.first
    while job != NULL:
        j = <PopJob*>job
        took = 0
        for i in range(j.n_claims):
            popcall_claim(call, &j.claims[i], res, now, wall, &wake)
            took += j.claims[i].take if j.claims[i].made else 0
        rate_settle(j, took, &wake)
        job = job.next
    index_unlock(call.base.engine.worker, wake)

cdef void popcall_claim(PopCall* call, Claim* claim, PGresult* res, int64_t now, int64_t wall,
                        PopJob** wake) noexcept nogil:
    # Applies the row of a candidate to its cursor. Requires book.lock.
    cdef Cursor* c = claim.cursor
    cdef int row = claim.row
    cdef int status = pg_int2(res, row, POP_STATUS) if row >= 0 else POP_ROW_NOTHING
    cdef int64_t until
    if row >= 0 and not pg_null(res, row, POP_DEAD_LETTERED):
        call.base.engine.worker.counters.dead_lettered += pg_int4(res, row, POP_DEAD_LETTERED)
    if claim.made:
        claim_made(claim, claim.job.client_gone, res, now, wake)
        return
    if status == POP_ROW_LEASED and c.recheck & RECHECK_FREE:
        cursor_move(c, CURSOR_READY, 0)       # the lease that was in the way has expired meanwhile
    elif status == POP_ROW_LEASED or status == POP_ROW_DELAYED:
        until = pg_int8_or(res, row, POP_UNTIL, 0)
        if status == POP_ROW_DELAYED:
            c.wakes_at = until
        cursor_move(c, CURSOR_LEASED if status == POP_ROW_LEASED else CURSOR_DELAYED, now + max(until - wall, 20000))
    elif status == POP_ROW_UNNEEDED:
        cursor_move(c, CURSOR_READY, 0)
    else:
        if row >= 0:
            c.next_offset = pg_int8(res, row, POP_HEAD)
        cursor_rest(c)
    if c.state == CURSOR_READY:
        waiters_wake_cursor(c, wake)

cdef void popcall_answer(Engine* e, PopJob* j, PGresult* res) noexcept nogil:
    # Answers one request from its rows, or tries it again.
    cdef int i, row, status
    cdef int seen = POP_ROW_NOTHING
    if j.n_made:
        delivery_made(e.worker, j, res)
        return
    for i in range(j.n_claims):
        row = j.claims[i].row
        status = pg_int2(res, row, POP_STATUS) if row >= 0 else POP_ROW_NOTHING
        if status > seen and status < POP_ROW_UNNEEDED:
            seen = status
    if j.only != NULL:
        j.why = (WHY_LEASE_HELD if seen == POP_ROW_LEASED
                 else WHY_WINDOW if seen == POP_ROW_DELAYED and j.queue.window_us else WHY_NOTHING)
    if j.client_gone:
        popend_forget(j)
    elif j.only != NULL:
        pop_wait_or_answer(e.worker, j, j.why)
    else:
        # the hint was stale: tries the next candidates, until none are left
        job_queue(&j.job, &e.woken)

# ---- it failed, or there is no connection ----------------------------------------------------------------------------

cdef void popcall_trouble(PopCall* call, PGresult* res, int outcome) noexcept nogil:
    # Lets the pops of a failed call try again, or refuses them.
    cdef Engine* e = call.base.engine
    cdef PopJob* j
    if outcome >= SLOT_UNSENT:
        popcall_again(call, 0 if outcome == SLOT_UNSENT else 503, NULL, False)
        return
    if outcome != SLOT_OK:
        e.pause_until = call.base.ended_us + TROUBLE_PAUSE_US
        if res == NULL:
            popcall_again(call, 0, NULL, True)
        else:
            popcall_error(call, res)
        return
    catalog_want_reload(e.worker)
    while call.base.jobs.first != NULL:
        j = <PopJob*>joblist_take(&call.base.jobs)
        claim_drop(e, j, False)
        joblist_add(&e.wait_reload, &j.job)

cdef void popcall_error(PopCall* call, PGresult* res) noexcept nogil:
    # Handles a server error: nothing was claimed.
    cdef const Verdict* v = sqlstate_of(res)
    cdef Job* job = call.base.jobs.first
    cdef bint again = call.base.jobs.n == 0 or call.base.jobs.n > 1 and sqlstate_isolates(v.error_class)
    while job != NULL:
        again = job_may_retry(job, v.error_class, call.base.ended_us) or again
        job.isolated = job.isolated or sqlstate_isolates(v.error_class)
        job = job.next
    if v.reload:
        catalog_want_reload(call.base.engine.worker)
    if not again:
        log_line(b"error", b"pop_refused", pg_error(res))
    popcall_again(call, 0 if again else 500 if v.error_class == ERROR_DATA else 503, v, False)

cdef void popcall_again(PopCall* call, int status, const Verdict* verdict, bint lost) noexcept nogil:
    # Ends a call that did not happen, or whose outcome is lost: leases that it may have taken are given back. The pops
    # try again, or are refused with `status`. said: the server's verdict, NULL if it gave none.
    cdef char[VERDICT_TEXT] text
    cdef const char* why = b"The database did not answer in time; try again"
    cdef Engine* e = call.base.engine
    cdef PopJob* j
    cdef int64_t now = clock_mono_us()
    if verdict != NULL:
        why = sqlstate_text(text, b"Nothing can be delivered", verdict)
    while call.base.jobs.first != NULL:
        j = <PopJob*>joblist_take(&call.base.jobs)
        claim_drop(e, j, lost)
        if j.client_gone or status == 500:
            popend_refuse(&j.job, status, why)
        elif j.until_us and now >= j.until_us:
            popend_empty(j, WHY_EXPIRED)
        elif status or not j.until_us and j.job.errors and now - j.job.born_us > e.patience_us:
            job_refuse(&j.job, 503, why)
        else:
            job_queue(&j.job, &e.woken)

cdef void popcall_expire(Engine* e) noexcept nogil:
    # Answers pops that lack a connection for longer than the patience. A long poll goes on until its own deadline.
    # Requires that there is no connection.
    cdef int64_t now = clock_mono_us()
    cdef int n = e.pops.jobs.n
    while n > 0:
        n -= 1
        popcall_put_off(e, <PopJob*>joblist_take(&e.pops.jobs), now, health_why())
    while e.claims.jobs.first != NULL:
        popcall_put_off(e, <PopJob*>joblist_take(&e.claims.jobs), now, health_why())

cdef void popcall_put_off(Engine* e, PopJob* j, int64_t now, const char* why) noexcept nogil:
    # Puts a pop behind the others that wait for a statement of pops. Ends it if it has waited for longer than the
    # patience.
    if popend_token_stale(j):
        claim_drop(e, j, False)
        popend_verify(j)
    elif j.client_gone or not j.until_us and now - j.job.born_us > e.patience_us:
        claim_drop(e, j, False)
        popend_refuse(&j.job, 503, why)
    elif j.until_us and (now >= j.until_us or e.stopping):
        claim_drop(e, j, False)
        popend_empty(j, WHY_EXPIRED)
    else:
        rowcache_release_all(j)
        joblist_add(&e.pops.jobs, &j.job)
