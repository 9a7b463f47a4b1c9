# Pops whose records are in memory: one small statement claims for many of them (queend.claim: the cursor must stand where
# the book believes, free of a lease), and they are answered from the row cache. Where the claim is refused the pop goes the
# whole way (deliver/popcall), with the same candidates.

# ---- the call ------------------------------------------------------------------------------------------------------

cdef bint claimcall_send(Engine* e) noexcept nogil:
    cdef Slot* slot = slotpool_take(e.slots)
    cdef PopCall* call
    cdef PopJob* j
    cdef Taken* t
    cdef Params params
    cdef int i
    if slot == NULL:
        return False
    call = <PopCall*>calloc(1, sizeof(PopCall))
    if call == NULL:
        return False
    call.engine = e
    arena_open(&call.arena, &e.worker.chunks)
    call.cursors = <Cursor**>arena_alloc(&call.arena, (CALL_CURSORS + POP_MAX_PARTITIONS) * sizeof(Cursor*))
    pgarray_begin(&e.a_part, OID_INT4)
    pgarray_begin(&e.a_group, OID_INT4)
    pgarray_begin(&e.c_first, OID_INT8)
    pgarray_begin(&e.c_take, OID_INT4)
    pgarray_begin(&e.c_base, OID_INT8)
    pgarray_begin(&e.r_lease, OID_UUID)
    pgarray_begin(&e.r_lease_us, OID_INT8)
    while call.cursors != NULL and e.claims.first != NULL and call.n_jobs < e.pop_policy.max_jobs and call.n_cursors < CALL_CURSORS:
        call.expected += min(pop_expects(<PopJob*>e.claims.first), CLAIM_BYTES)
        if call.n_jobs and call.expected > CALL_BYTES:
            break
        j = <PopJob*>joblist_take(&e.claims)
        if j.gone or j.group.dead:
            pop_untake(j)
            pop_drop_candidates(j)
            if j.gone:
                pop_forget(j)
            else:
                pop_try(e.worker, j)
            continue
        pop_lease_make(e.worker, j, j.n_cursors, j.cursors[0])
        call.n_jobs += 1
        j.first_cursor = call.n_cursors
        for i in range(j.n_cursors):
            t = &j.taken[i]
            call.cursors[call.n_cursors] = j.cursors[i]
            call.n_cursors += 1
            pgarray_int4(&e.a_part, j.cursors[i].partition.id)
            pgarray_int4(&e.a_group, j.cursors[i].group.id)
            pgarray_int8(&e.c_first, t.first)
            pgarray_int4(&e.c_take, t.take)
            pgarray_int8(&e.c_base, claim_base(t, t.first + t.take if j.req.auto_ack else t.first))
            pgarray_uuid(&e.r_lease, j.lease)
            pgarray_int8(&e.r_lease_us, 0 if j.req.auto_ack else pop_lease_us(j))
        popcall_add(call, j)
    leased_gather(e, call)
    if call.n_jobs == 0 and call.n_acks == 0:
        popcall_free(call)
        return False
    params_begin(&params)
    params_int8(&params, e.version)
    params_array(&params, &e.l_part)
    params_array(&params, &e.l_group)
    params_array(&params, &e.l_lease)
    params_array(&params, &e.l_first)
    params_array(&params, &e.l_last)
    params_array(&params, &e.l_base)
    params_bool(&params, call.heads)
    params_array(&params, &e.a_part)
    params_array(&params, &e.a_group)
    params_array(&params, &e.c_first)
    params_array(&params, &e.c_take)
    params_array(&params, &e.c_base)
    params_array(&params, &e.r_lease)
    params_array(&params, &e.r_lease_us)
    call.sent_us = clock_mono_us()
    call.forgets = atomic_get64(&book.forgets)
    e.worker.counters.op[OP_POP].calls += call.n_jobs > 0
    e.worker.counters.op[OP_ACK].calls += call.n_acks > 0
    if slot_send(slot, STMT_TURN, &params, claimcall_done, call, e.deadline_ms):
        return True
    leased_home(call)
    claimcall_untake(call)
    popcall_again(call, 503 if params.failed else 0)
    return False

cdef void claimcall_untake(PopCall* call) noexcept nogil:
    cdef Job* job = call.jobs
    uv_mutex_lock(&book.lock)
    while job != NULL:
        pop_taken_release(<PopJob*>job)
        job = job.next
    uv_mutex_unlock(&book.lock)

cdef void claimcall_done(Slot* slot, void* ctx, PGresult* res, int outcome) noexcept nogil:
    cdef PopCall* call = <PopCall*>ctx
    cdef Engine* e = call.engine
    cdef Job* job
    cdef Job* following
    cdef int row
    cdef int64_t now = clock_mono_us()
    limit_done(&e.claim_limit, now, now - call.sent_us, outcome == SLOT_OK)
    if e.claim_limit.in_flight == 0:
        company_ended(&e.company, call.n_jobs + call.n_ack_jobs, e.claims.n + e.leased.n, now)
    if outcome != SLOT_OK:
        if res == NULL:
            leased_lost(call)
        else:
            leased_home(call)
        claimcall_untake(call)
        popcall_trouble(call, res, outcome, now)
        return
    row = leased_done(call, res, now)
    if row < PQntuples(res) and pg_int4(res, row, TURN_PART) < 0:
        claimcall_untake(call)
        popcall_trouble(call, res, outcome, now)
        return
    claimcall_book(call, res, row, now)
    job = call.jobs
    while job != NULL:
        following = job.next
        claimcall_answer(e, <PopJob*>job)
        job = following
    popcall_free(call)

cdef void claimcall_book(PopCall* call, PGresult* res, int row, int64_t now) noexcept nogil:
    # Which claims were made (they come back in the order they went, from `row` on), and where their cursors stand now.
    cdef int n = PQntuples(res)
    cdef int i
    cdef Job* job = call.jobs
    cdef PopJob* j
    cdef PopJob* wake = NULL
    cdef Cursor* c
    uv_mutex_lock(&book.lock)
    while job != NULL:
        j = <PopJob*>job
        j.n_made = 0
        for i in range(j.n_cursors):
            c = j.cursors[i]
            if row < n and pg_int4(res, row, TURN_PART) == c.partition.id and pg_int4(res, row, TURN_GROUP) == c.group.id:
                j.taken[i].made = True
                j.n_made += 1
                row += 1
        for i in range(j.n_cursors if j.n_made else 0):
            c = j.cursors[i]
            if not j.taken[i].made:
                cursor_move(c, CURSOR_READY, 0)
            else:
                book_made(c)
                c.next_offset = j.taken[i].first + j.taken[i].take
                c.open = not j.req.auto_ack
                if j.req.auto_ack and j.gone:
                    cursor_move(c, CURSOR_LEASED, now + TAKE_BACK_US)
                elif j.req.auto_ack:
                    cursor_rest(c)
                else:
                    cursor_move(c, CURSOR_LEASED, now + pop_lease_us(j) + 2000)
                    held_cached(c, j, &j.taken[i])
                rowcache_passed(c.partition)
            if c.state == CURSOR_READY:
                book_wake_cursor(c, &wake)
        job = job.next
    uv_mutex_unlock(&book.lock)
    popjobs_wake(call.engine.worker, wake)

cdef void claimcall_answer(Engine* e, PopJob* j) noexcept nogil:
    cdef Buf* out
    cdef int n = 0
    if j.n_made == 0:
        # something moved the cursor that the book does not know of: the whole way tells
        pop_untake(j)
        pop_move(j, POP_LEASING)
        joblist_add(&e.pops, &j.job)
        return
    if not j.gone:
        out = reply_begin(j.job.r, 200, pop_type(j))
        n = claim_write(e, j, out)
        answer_whole(e.worker, out)
    pop_untake(j)
    pop_keep_made(j)
    if j.gone:
        pop_give_back(e, j)
        pop_forget(j)
        return
    e.worker.counters.from_memory += n
    pop_answered(j, n)
