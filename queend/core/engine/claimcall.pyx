# Pops whose records are in memory: one small statement claims for many of them (queend.claim: the cursor must stand where
# the book believes, free of a lease), and they are answered from the row cache. Where the claim is refused the pop goes the
# whole way (engine/popcall), with the same candidates.

cdef enum:
    CLAIM_BYTES = 8388608     # of one answer; its first row comes whatever its size

cdef bint pop_take_cached(PopJob* j, PopJob** wake) noexcept nogil:
    # A pop has chosen its candidates: can all of them be answered from memory? Then their rows are referenced, and
    # candidates beyond its budget given back. Book locked.
    cdef int64_t stop, got, now
    cdef int left = j.req.batch
    cdef size_t bytes = 0
    cdef int i
    cdef int n = 0
    cdef CachedRow* r
    cdef Taken* t
    if j.job.alone or rowcache.first == NULL or j.queue.delay_us or j.queue.window_us or j.queue.ttl_us:
        return False
    now = clock_mono_us()
    for i in range(j.n_cursors):
        if j.cursors[i].open or rowcache_find(j.cursors[i].partition, j.cursors[i].next_offset, now) == NULL:
            return False
    if j.taken == NULL:
        j.taken = <Taken*>arena_alloc(&j.job.r.arena, pop_width(j) * sizeof(Taken))
        if j.taken == NULL:
            return False
    while n < j.n_cursors and left and bytes < CLAIM_BYTES:
        t = &j.taken[n]
        r = rowcache_find(j.cursors[n].partition, j.cursors[n].next_offset, now)
        t.row = r
        t.first = j.cursors[n].next_offset
        t.made = False
        stop = t.first
        while r != NULL and left and bytes < CLAIM_BYTES:
            got = r.base + r.n - stop
            if got > left:
                got = left
            stop += got
            left -= <int>got
            bytes += r.bytes
            r.refs += 1
            r = r.newer
        t.take = <int>(stop - t.first)
        n += 1
    for i in range(n, j.n_cursors):
        cursor_move(j.cursors[i], CURSOR_READY, 0)
        book_wake_cursor(j.cursors[i], wake)
    j.n_cursors = n
    return True

cdef inline CachedRow* taken_next(Taken* t, CachedRow* r) noexcept nogil:
    # The claim's row after r, NULL after its last one. What `newer` of the last row points to is not referenced, and may
    # be gone.
    return r.newer if r.base + r.n < t.first + t.take else NULL

cdef void pop_taken_release(PopJob* j) noexcept nogil:
    # The references of all its claims. Book locked.
    cdef CachedRow* r
    cdef CachedRow* newer
    cdef int i
    for i in range(j.n_cursors):
        r = j.taken[i].row
        while r != NULL:
            newer = taken_next(&j.taken[i], r)
            cachedrow_release(r)
            r = newer

cdef void pop_untake(PopJob* j) noexcept nogil:
    uv_mutex_lock(&book.lock)
    pop_taken_release(j)
    uv_mutex_unlock(&book.lock)

# ---- the call ------------------------------------------------------------------------------------------------------

cdef bint turn_fires(Engine* e) noexcept nogil:
    # Claims and the acknowledgments that travel with them wait as one.
    cdef JobList both = e.claims
    cdef int64_t wait
    both.n += e.leased.n
    if both.n and e.claim_limit.in_flight == 0:
        wait = company_wait(&e.company, both.n, clock_mono_us())
        if wait:
            if e.hold_us < 0 or wait < e.hold_us:
                e.hold_us = wait
            return False
    if both.first == NULL or (e.leased.first != NULL and e.leased.first.queued_us < both.first.queued_us):
        both.first = e.leased.first
    return policy_fires(e, &e.pop_policy, &both, &e.claim_limit)

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

cdef int64_t claim_base(Taken* t, int64_t next_offset) noexcept nogil:
    # Where a read may begin once `next_offset`, one of the claim's records or the one after them, follows committed: the row
    # that holds it.
    cdef CachedRow* r = t.row
    while r.base + r.n <= next_offset and r.base + r.n < t.first + t.take:
        r = r.newer
    return next_offset if r.base + r.n <= next_offset else r.base

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
        n = claim_write_framed(e, j, out) if pop_type(j) == FRAMES_TYPE else claim_write(e, j, out)
        answer_whole(e.worker, out)
    pop_untake(j)
    pop_keep_made(j)
    if j.gone:
        pop_give_back(e, j)
        pop_forget(j)
        return
    e.worker.counters.from_memory += n
    pop_answered(j, n)

cdef void pop_keep_made(PopJob* j) noexcept nogil:
    # Of its candidates, those whose claims were made.
    cdef int i
    cdef int n = 0
    for i in range(j.n_cursors):
        if j.taken[i].made:
            j.cursors[n] = j.cursors[i]
            if j.req.auto_ack:
                pop_consumed(j, n, j.taken[i].first, j.taken[i].first + j.taken[i].take)
            n += 1
    j.n_cursors = n

cdef int claim_write(Engine* e, PopJob* j, Buf* out) noexcept nogil:
    # The messages of the claims that were made; returns how many.
    cdef PopMessage m
    cdef BatchRow b
    cdef char[36] lease
    cdef Partition* p
    cdef CachedRow* r
    cdef Taken* t
    cdef int64_t stop
    cdef int i
    cdef int n = 0
    cdef bint begun = False
    uuid_format(j.lease, lease)
    memset(&m, 0, sizeof(m))
    m.lease = slice_of(lease, 36 if not j.req.auto_ack else 0)
    m.queue = j.queue.name
    m.as_event = j.req.events
    m.group = j.group.name
    m.attempt = 1
    for i in range(j.n_cursors):
        t = &j.taken[i]
        if not t.made:
            continue
        p = j.cursors[i].partition
        m.partition = p.name
        m.partition_uuid = slice_of(p.uuid, 36)
        if not begun:
            pop_reply_open(out, &j.req, j.queue.name, p.name, m.partition_uuid, m.lease, j.n_made)
            begun = True
        m.offset = t.first
        stop = t.first + t.take
        r = t.row
        while r != NULL:
            m.created_us = r.created_us
            if j.first_us == 0:
                j.first_us = r.created_us
            if not batchrow_open(&b, r.ids, r.body, r.meta, r.n, &e.worker.unzip):
                out.failed = True      # memory ran out
                break
            batchrow_seek(&b, <int>(m.offset - r.base))
            while m.offset < stop and batchrow_message(&b, &m):
                if b.message != NULL:
                    memcpy(m.id, b.message, 16)
                else:
                    message_id_make(m.created_us, p.id, m.offset, m.id)
                pop_open(e.worker, j.queue, &m)
                pop_write(out, &m, n == 0)
                m.offset += 1
                n += 1
            r = taken_next(t, r)
    pop_reply_close(out, &j.req, n, j.req.partitions, j.req.batch)
    return n

cdef int claim_write_framed(Engine* e, PopJob* j, Buf* out) noexcept nogil:
    # The same, framed.
    cdef FrameWriter w
    cdef PopMessage m
    cdef BatchRow b
    cdef char[36] lease
    cdef CachedRow* r
    cdef Taken* t
    cdef Partition* p
    cdef int64_t stop
    cdef int take, i
    cdef int n = 0
    uuid_format(j.lease, lease)
    memset(&m, 0, sizeof(m))
    popframes_open(&w, out, &j.req, j.queue.name, j.group.name, slice_of(lease, 36 if not j.req.auto_ack else 0), j.n_made)
    for i in range(j.n_cursors):
        t = &j.taken[i]
        if not t.made:
            continue
        p = j.cursors[i].partition
        popframes_claim(&w, p.id, p.name, t.first, 1)
        m.offset = t.first
        stop = t.first + t.take
        r = t.row
        while r != NULL:
            m.created_us = r.created_us
            if j.first_us == 0:
                j.first_us = r.created_us
            take = <int>((stop if stop < r.base + r.n else r.base + r.n) - m.offset)
            if <uint8_t>r.body.p[0] == BODY_FRAMES and r.meta.n == 0 and take >= r.n // FRAMED_WASTE:
                popframes_stored(&w, r.base, r.created_us, r.n, slice_of(r.body.p + 1, r.body.n - 1), m.offset + take - 1)
                m.offset += take
                n += take
            else:
                if not batchrow_open(&b, r.ids, r.body, r.meta, r.n, &e.worker.unzip):
                    out.failed = True
                    break
                batchrow_seek(&b, <int>(m.offset - r.base))
                while m.offset < stop and batchrow_message(&b, &m):
                    if b.message != NULL:
                        memcpy(m.id, b.message, 16)
                    else:
                        message_id_make(m.created_us, p.id, m.offset, m.id)
                    pop_open(e.worker, j.queue, &m)
                    popframes_message(&w, &m)
                    m.offset += 1
                    n += 1
            r = taken_next(t, r)
    popframes_close(&w)
    return n

cdef void claims_expire(Engine* e) noexcept nogil:
    # No connection: they wait with the others, whose patience is looked after.
    cdef PopJob* j
    while e.claims.first != NULL:
        j = <PopJob*>joblist_take(&e.claims)
        pop_untake(j)
        joblist_add(&e.pops, &j.job)
