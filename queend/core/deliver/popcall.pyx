# The statement of pops: claims and fetches for many of them. In: pops with candidates. Out: the call. If it failed:
# pops that try again or are refused, and leases that are given back. The answer is read in deliver/poprows. Owner: the
# worker.

cdef bint popcall_send(Engine* e) noexcept nogil:
    cdef PopCall* call = <PopCall*>call_open(e, sizeof(PopCall), STMT_POP, &e.pops.limit, popcall_done)
    cdef PopArgs* a = <PopArgs*>e.args.at
    cdef PopJob* j
    cdef bint alone = False
    if call == NULL:
        return False
    call.cursors = <Cursor**>arena_alloc(&call.base.arena, CALL_ROOM * sizeof(Cursor*))
    call.rows = <int*>arena_alloc(&call.base.arena, CALL_ROOM * sizeof(int))
    while (call.cursors != NULL and call.rows != NULL and e.pops.jobs.first != NULL and not alone
            and call.base.jobs.n < e.pops.hold.max_jobs and call.n_cursors < CALL_CURSORS):
        if e.pops.jobs.first.alone and call.base.jobs.n or not popcall_room(call, <PopJob*>e.pops.jobs.first):
            break
        alone = e.pops.jobs.first.alone
        j = <PopJob*>joblist_take(&e.pops.jobs)
        if j.gone or j.group.dead or j.group.paused or pop_outdated(j):
            pop_turn_away(e, j)
        else:
            popcall_add(call, a, j)
    if call.base.jobs.n == 0:
        call_drop(&call.base)
        return False
    popcall_bounds(call, a)
    popcall_expect(call)
    e.worker.counters.op[OP_POP].calls += 1
    return call_send(&call.base)

cdef void popcall_add(PopCall* call, PopArgs* a, PopJob* j) noexcept nogil:
    cdef int i
    popcall_take(call, j)
    for i in range(j.n_cursors):
        pgarray_int4(&a.req, call.base.jobs.n)
        pgarray_int4(&a.part, j.cursors[i].partition.id)
        pgarray_int4(&a.group, j.cursors[i].group.id)
        pgarray_bool(&a.fresh, atomic_get8(&j.cursors[i].fresh) != 0)
    pgarray_int4(&a.budget, j.allowed)
    pgarray_int4(&a.parts, j.req.partitions)
    pgarray_bool(&a.auto_ack, j.req.auto_ack)
    pgarray_uuid(&a.lease, j.lease)
    pgarray_int8(&a.lease_us, j.lease_us)
    pgarray_int8(&a.delay_us, j.queue.delay_us)
    pgarray_int8(&a.window_us, j.queue.window_us)

cdef void pop_lease_make(Worker* w, PopJob* j, int n, Cursor* first) noexcept nogil:
    # Makes the lease for what the pop claims now, in at most n partitions.
    j.lease_us = j.req.lease_s * <int64_t>1000000 if j.req.lease_s else j.queue.lease_us
    j.claimed_us = clock_mono_us()
    if j.req.auto_ack:
        memset(j.lease, 0xff, 16)      # told to no client, held by no cursor and not remembered
    else:
        lease_id_make(&w.secrets, catalog.seed, first.partition.id if n == 1 else 0, j.lease)

cdef void popcall_take(PopCall* call, PopJob* j) noexcept nogil:
    # Adds a pop and its candidates to the call, and makes its lease.
    pop_lease_make(call.base.engine.worker, j, j.n_cursors, j.cursors[0])
    j.first_cursor = call.n_cursors
    memcpy(call.cursors + call.n_cursors, j.cursors, j.n_cursors * sizeof(Cursor*))
    call.n_cursors += j.n_cursors
    joblist_add(&call.base.jobs, &j.job)

cdef void popcall_bounds(PopCall* call, PopArgs* a) noexcept nogil:
    # Encodes the maximum age and the rate of messages of each request. Sends NULL if no request has such a bound.
    cdef bint old = False
    cdef bint paced = False
    cdef Queue* q
    cdef Job* job = call.base.jobs.first
    while job != NULL:
        q = (<PopJob*>job).queue
        old |= q.ttl_us != 0
        paced |= q.rate_us != 0
        pgarray_int8(&a.ttl_us, q.ttl_us)
        pgarray_int8(&a.rate_us, q.rate_us)
        pgarray_int4(&a.burst, q.rate_burst)
        job = job.next
    if not old:
        arg_null(&a.ttl_us)
    if not paced:
        arg_null(&a.rate_us)
        arg_null(&a.burst)

cdef inline int64_t pop_expects(PopJob* j) noexcept nogil:
    # Returns the bytes that the pop may bring, by the recent size of its queue's messages.
    cdef int64_t each = <int64_t>j.queue.tally[j.job.r.worker.index].each
    return min(j.req.batch * (each if each else CALL_EACH), CALL_JOB_BYTES)

cdef bint popcall_room(PopCall* call, PopJob* j) noexcept nogil:
    # Returns True if the pop may travel with the call. A pop that brings much waits until others have brought theirs.
    cdef int64_t bytes = pop_expects(j)
    cdef int64_t flying
    if call.base.jobs.n:
        if call.expected + bytes > CALL_BYTES:
            return False
    elif bytes > CALL_FREE:
        flying = atomic_get64(&budget.expected)
        if flying and flying + atomic_get64(&budget.untaken) + bytes > budget.most_untaken:
            return False
    call.expected += bytes
    return True

cdef inline void popcall_expect(PopCall* call) noexcept nogil:
    # Adds the bytes expected of a call that is about to leave to the budget, if it brings much.
    if call.expected <= CALL_FREE:
        call.expected = 0
    else:
        atomic_add64(&budget.expected, call.expected)
        call.counted = True

cdef void pops_expire(Engine* e) noexcept nogil:
    # Answers pops that lacked a connection for longer than the patience. A long poll goes on until its own deadline.
    cdef int n
    cdef PopJob* j
    cdef int64_t now
    if slotpool_ready(e.slots):
        return
    now = clock_mono_us()
    n = e.pops.jobs.n
    while n > 0:
        n -= 1
        j = <PopJob*>joblist_take(&e.pops.jobs)
        if j.gone:
            pop_drop_candidates(j)
            pop_forget(j)
        elif pop_outdated(j):
            pop_drop_candidates(j)
            pop_verify(j)
        elif j.until_us and (now >= j.until_us or e.stopping):
            pop_drop_candidates(j)
            pop_empty(j, WHY_EXPIRED)
        elif not j.until_us and now - j.job.born_us > e.patience_us:
            pop_drop_candidates(j)
            pop_fail(j, 503, doubt_why())
        else:
            joblist_add(&e.pops.jobs, &j.job)

cdef void popcall_again(PopCall* call, int status, const Verdict* said) noexcept nogil:
    # Ends a call that did not happen, or whose outcome is lost (leases that it took expire). The pops try again, or are
    # refused with `status`. said: the server's verdict, NULL if it gave none.
    cdef char[VERDICT_TEXT] text
    cdef const char* why = b"The database did not answer in time; try again"
    cdef Engine* e = call.base.engine
    cdef PopJob* j
    cdef int64_t now = clock_mono_us()
    if said != NULL:
        why = verdict_text(text, b"Nothing can be delivered", said)
    while call.base.jobs.first != NULL:
        j = <PopJob*>joblist_take(&call.base.jobs)
        pop_drop_candidates(j)
        if j.gone:
            pop_forget(j)
        elif status == 500:
            pop_fail(j, status, why)
        elif j.until_us and now >= j.until_us:
            pop_empty(j, WHY_EXPIRED)
        elif status or not j.until_us and j.job.errors and now - j.job.born_us > e.patience_us:
            pop_fail(j, 503, why)
        else:
            job_queue(&j.job, &e.woken)

cdef void popcall_disown(PopCall* call) noexcept nogil:
    # Gives back what a call with a lost outcome may have leased, by the lease ids that were chosen for it.
    cdef Job* job = call.base.jobs.first
    cdef PopJob* j
    cdef int i
    while job != NULL:
        j = <PopJob*>job
        if not j.req.auto_ack:
            for i in range(j.n_cursors):
                release_want(call.base.engine, j.cursors[i], j)
        job = job.next

cdef void popcall_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef PopCall* call = <PopCall*>c
    if call.counted:
        atomic_add64(&budget.expected, -call.expected)
    # second condition: the server says that the catalog is stale
    if outcome != SLOT_OK or PQntuples(res) > 0 and pg_int4(res, 0, POP_ORD) < 0:
        popcall_trouble(call, res, outcome)
        return
    popcall_rows(call, res)
    popcall_book(call, res, c.ended_us)
    while c.jobs.first != NULL:
        popcall_answer(c.engine, <PopJob*>joblist_take(&c.jobs), res, call.rows)

cdef void popcall_trouble(PopCall* call, PGresult* res, int outcome) noexcept nogil:
    # Lets the pops of a failed call try again, or refuses them.
    cdef Engine* e = call.base.engine
    cdef PopJob* j
    if outcome >= SLOT_UNSENT:
        popcall_again(call, 0 if outcome == SLOT_UNSENT else 503, NULL)
        return
    if outcome != SLOT_OK:
        e.pause_until = call.base.ended_us + TROUBLE_PAUSE_US
        if res == NULL:
            popcall_disown(call)
            popcall_again(call, 0, NULL)
        else:
            popcall_error(call, res)
        return
    engine_reload(e.worker)
    while call.base.jobs.first != NULL:
        j = <PopJob*>joblist_take(&call.base.jobs)
        pop_drop_candidates(j)
        joblist_add(&e.wait_reload, &j.job)

cdef void popcall_error(PopCall* call, PGresult* res) noexcept nogil:
    # Handles a server error: nothing was claimed.
    cdef const Verdict* v = verdict_of(res)
    cdef Job* job = call.base.jobs.first
    cdef bint again = call.base.jobs.n == 0 or call.base.jobs.n > 1 and blames_request(v.blame)
    while job != NULL:
        again = job_again(job, v.blame, call.base.ended_us) or again
        job.alone = job.alone or blames_request(v.blame)
        job = job.next
    if v.reload:
        engine_reload(call.base.engine.worker)
    if not again:
        log_line(b"error", b"pop_refused", pg_error(res))
    popcall_again(call, 0 if again else 500 if v.blame == BLAME_DATA else 503, v)
