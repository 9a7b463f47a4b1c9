# Cycles of streams, in one statement each. What is not ordinary (route/cycle), not known here, refused or failed goes to the
# control plane, which does it from the beginning: until a cycle is known to have taken effect, nothing of it has.

cdef const char* CYCLE_IN_DOUBT = b"The database did not answer; whether the cycle took effect is not known"

cdef struct CycleJob:
    Job job
    CycleReq req
    bint doubt                # the answer was lost: what it pushed tells whether it was done

cdef struct CycleCall:
    Engine* engine
    CycleJob* job
    PushBatch* batch
    bint asks                 # it only asks whether what it pushes is stored
    int64_t forgets           # book.forgets when it was sent

cdef void cycle_submit(Worker* w, Request* r) noexcept nogil:
    cdef CycleJob* j = <CycleJob*>arena_zero(&r.arena, sizeof(CycleJob))
    if j == NULL or (r.grant != NULL and r.grant.limited):
        bridge_submit(r)
    else:
        body_take(w, r, j, cycle_read_body, cycle_taken)

cdef bint cycle_read_body(Request* r, void* job, Tools* t) noexcept nogil:
    return cycle_parse(r.body, &r.arena, t.uuids, &(<CycleJob*>job).req)

cdef void cycle_taken(Worker* w, Request* r, void* job, bint good, ApiError* e) noexcept nogil:
    cdef CycleJob* j = <CycleJob*>job
    if not good or not cycle_names(w, r, j):
        request_unpin(r)
        if r.conn == NULL:
            reply_empty(r, 204)       # its client left while it was read
        else:
            bridge_submit(r)
        return
    job_open(&j.job, r, OP_OTHER)
    job_move(&j.job, JOB_QUEUED)
    joblist_add(&engine_of(w).cycles, &j.job)

cdef bint cycle_names(Worker* w, Request* r, CycleJob* j) noexcept nogil:
    # False: not all of its sinks are known, or one is encrypted.
    cdef int i
    cdef PushItem* it
    cdef Queue* q
    cdef bint known = True
    request_pin(r)
    uv_rwlock_rdlock(&catalog.lock)
    for i in range(j.req.push.n):
        it = &j.req.push.items[i]
        q = catalog_queue(it.queue)
        it.partition = catalog_partition(q, it.part) if q != NULL and not q.sealed else NULL
        if it.partition == NULL:
            known = False
            break
        if r.grant != NULL:
            it.sub = grant_subject(r.grant)
    uv_rwlock_rdunlock(&catalog.lock)
    return known

cdef void cycle_leave(CycleJob* j) noexcept nogil:
    # To the control plane.
    cdef Request* r = j.job.r
    job_move(&j.job, JOB_DONE)
    r.job = NULL
    r.on_gone = NULL
    request_unpin(r)
    if r.conn == NULL:
        reply_empty(r, 204)
    else:
        bridge_submit(r)

cdef void cycle_unsent(CycleJob* j) noexcept nogil:
    # One in doubt is not done again: it may have been.
    if j.doubt:
        job_refuse(&j.job, 503, CYCLE_IN_DOUBT)
    else:
        cycle_leave(j)

cdef void cycles_drain(Engine* e) noexcept nogil:
    cdef CycleJob* j
    while e.cycles.n and e.cycles_flying < e.cycles_most:
        j = <CycleJob*>joblist_take(&e.cycles)
        if not cycle_send(e, j):
            joblist_front(&e.cycles, &j.job)
            jobs_expire(e, &e.cycles)
            break

cdef bint cycle_send(Engine* e, CycleJob* j) noexcept nogil:
    # False: there is no connection free.
    cdef Slot* slot = slotpool_take(e.slots)
    cdef CycleCall* call
    cdef CycleReq* q = &j.req
    cdef Params params
    cdef int32_t number = 0
    if slot == NULL:
        return False
    call = <CycleCall*>calloc(1, sizeof(CycleCall))
    if call != NULL:
        call.batch = <PushBatch*>calloc(1, sizeof(PushBatch))
    if call == NULL or call.batch == NULL:
        free(call)
        cycle_unsent(j)
        return True
    call.engine = e
    call.job = j
    arena_open(&call.batch.arena, &e.worker.chunks)
    if not cycle_gather(call) or not code_id_read(catalog.seed, 112, q.partition_uuid, &number):
        cyclecall_free(call)
        cycle_unsent(j)
        return True
    job_move(&j.job, JOB_FLYING)
    batch_encode(call.batch, &e.tx_pushes)
    if j.doubt:
        return cycle_ask(e, slot, call)
    cycle_encode(e, q)
    params_begin(&params)
    params_int8(&params, e.version)
    params_bytes(&params, q.query, 16)
    params_int4(&params, number)
    params_array(&params, &e.y_set)
    params_array(&params, &e.y_value)
    params_array(&params, &e.y_end)
    params_array(&params, &e.y_unset)
    batch_params(&params, &e.tx_pushes)
    params_slice(&params, q.group)
    if q.has_ack:
        params_bytes(&params, q.ack, 16)
    else:
        params_null(&params)
    if q.has_lease:
        params_bytes(&params, q.lease, 16)
    else:
        params_null(&params)
    params_int4(&params, q.count)
    params_bool(&params, False)
    params_null(&params)
    params_bool(&params, not q.keeps)
    call.forgets = atomic_get64(&book.forgets)
    if slot_send(slot, STMT_CYCLE, &params, cycle_done, call, e.deadline_ms):
        e.cycles_flying += 1
        return True
    cyclecall_free(call)
    if params.failed:
        cycle_leave(j)
        return True
    job_move(&j.job, JOB_QUEUED)
    return False

cdef bint cycle_ask(Engine* e, Slot* slot, CycleCall* call) noexcept nogil:
    cdef Params params
    cdef CycleJob* j = call.job
    call.asks = True
    pushed_params(&params, &e.tx_pushes)
    if slot_send(slot, STMT_PUSHED, &params, cycle_done, call, e.deadline_ms):
        e.cycles_flying += 1
        return True
    cyclecall_free(call)
    job_move(&j.job, JOB_QUEUED)
    return False

cdef void cycle_told(CycleCall* call, PGresult* res, int outcome) noexcept nogil:
    # All that it pushed is stored: it was done. Nothing is: it was not, or stands before its lanes and still may be.
    cdef CycleJob* j = call.job
    cdef int row, i, k
    cdef int64_t base, at
    cdef PushItem* it
    cdef Partition* p
    cdef Slice queue = slice_of(NULL, 0)
    cdef int32_t number = 0
    cdef PopJob* wake = NULL
    if outcome != SLOT_OK or PQntuples(res) == 0:
        job_refuse(&j.job, 503, CYCLE_IN_DOUBT)
        return
    uv_rwlock_rdlock(&catalog.lock)
    uv_mutex_lock(&book.lock)
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, PUSHED_ORD)
        if i < 0 or i >= call.batch.n_chunks:
            continue
        base = pg_int8(res, row, PUSHED_BASE)
        at = pg_int8(res, row, PUSHED_CREATED_AT)
        it = call.batch.chunks[i].first
        p = call.batch.chunks[i].group.partition
        for k in range(call.batch.chunks[i].n):
            it.offset = base + k
            it.created_us = at
            it.partition_uuid = p.uuid
            message_id_make(at, p.id, base + k, it.message_id)
            it = it.next
        book_stored(p, base + call.batch.chunks[i].n, &wake)
    if code_id_read(catalog.seed, 112, j.req.partition_uuid, &number):
        p = catalog_partition_id(number)
        if p != NULL:
            queue = p.queue.name
    uv_mutex_unlock(&book.lock)
    uv_rwlock_rdunlock(&catalog.lock)
    popjobs_wake(call.engine.worker, wake)
    cycle_answer(j, queue)

cdef bint cycle_gather(CycleCall* call) noexcept nogil:
    # Items become record batches. False: a partition is gone, or memory ran out.
    cdef PushReq* q = &call.job.req.push
    cdef Table groups
    cdef PushGroup* g
    cdef Partition* p
    cdef int i
    cdef bint done = True
    table_init(&groups)
    for i in range(q.n):
        p = q.items[i].partition
        g = <PushGroup*>table_get(&groups, <uint32_t>p.id)
        if g == NULL:
            g = batch_group(call.batch, p) if not p.dead else NULL
            if g == NULL or not table_put(&groups, <uint32_t>p.id, g):
                done = False
                break
        batch_place(call.batch, g, &q.items[i])
    table_free(&groups)
    return done and batch_chunks(call.batch)

cdef void cycle_encode(Engine* e, CycleReq* q) noexcept nogil:
    cdef int i
    cdef CycleOp* op
    cdef double end
    cdef int64_t bits
    pgarray_begin(&e.y_set, OID_TEXT)
    pgarray_begin(&e.y_value, OID_TEXT)
    pgarray_begin(&e.y_end, OID_FLOAT8)
    pgarray_begin(&e.y_unset, OID_TEXT)
    for i in range(q.n):
        op = &q.ops[i]
        if op.value.p == NULL:
            pgarray_bytes(&e.y_unset, op.key.p, op.key.n)
            continue
        pgarray_bytes(&e.y_set, op.key.p, op.key.n)
        pgarray_bytes(&e.y_value, op.value.p, op.value.n)
        if op.has_end:
            end = op.end
            memcpy(&bits, &end, 8)
            pgarray_int8(&e.y_end, bits)
        else:
            pgarray_null(&e.y_end)

cdef void cyclecall_free(CycleCall* call) noexcept nogil:
    batch_free(call.batch)
    free(call)

cdef void cycle_done(Slot* slot, void* ctx, PGresult* res, int outcome) noexcept nogil:
    cdef CycleCall* call = <CycleCall*>ctx
    cdef Engine* e = call.engine
    cdef CycleJob* j = call.job
    e.cycles_flying -= 1
    if outcome != SLOT_OK and (res == NULL or call.asks) and call.batch.n_chunks and clock_mono_us() - j.job.born_us <= e.patience_us:
        j.doubt = True
        e.pause_until = clock_mono_us() + TROUBLE_PAUSE_US
        job_move(&j.job, JOB_QUEUED)
        joblist_front(&e.cycles, &j.job)
        cyclecall_free(call)
        return
    if call.asks:
        cycle_told(call, res, outcome)
        cyclecall_free(call)
        return
    cdef bint done = outcome == SLOT_OK and pg_null(res, 0, CYCLE_ERROR) and pg_null(res, 0, CYCLE_STALE)
    if done and cycle_take(call, res):
        cycle_answer(j, pg_bytes(res, 0, CYCLE_QUEUE))
    elif done or res == NULL:
        job_refuse(&j.job, 503, CYCLE_IN_DOUBT)
    else:
        if outcome == SLOT_OK and not pg_null(res, 0, CYCLE_STALE) or outcome != SLOT_OK and verdict_of(res).reload:
            engine_reload(e.worker)
        cycle_leave(j)
    cyclecall_free(call)

cdef bint cycle_take(CycleCall* call, PGresult* res) noexcept nogil:
    # Where the items are, and the book hears of it. Their ids were made here, so none is a duplicate. False: not one place per row.
    cdef CycleReq* q = &call.job.req
    cdef PgIter bases, moments
    cdef int64_t base, at
    cdef int32_t number = 0
    cdef int i, k
    cdef PushItem* it
    cdef Partition* p
    cdef Group* g = NULL
    cdef PopJob* wake = NULL
    if not pg_array(res, 0, CYCLE_BASE, OID_INT8, &bases) or not pg_array(res, 0, CYCLE_CREATED_AT, OID_INT8, &moments):
        return False
    if bases.left != call.batch.n_chunks or moments.left != call.batch.n_chunks:
        return False
    uv_rwlock_rdlock(&catalog.lock)
    uv_mutex_lock(&book.lock)
    for i in range(call.batch.n_chunks):
        pg_next8(&bases, &base)
        pg_next8(&moments, &at)
        it = call.batch.chunks[i].first
        p = call.batch.chunks[i].group.partition
        for k in range(call.batch.chunks[i].n):
            it.offset = base + k
            it.created_us = at
            it.partition_uuid = p.uuid
            message_id_make(at, p.id, base + k, it.message_id)
            it = it.next
        book_stored(p, base + call.batch.chunks[i].n, &wake)
        tally_of(p.queue, call.engine.worker).push_messages += <uint64_t>call.batch.chunks[i].n
        tally_of(p.queue, call.engine.worker).push_requests += call.batch.chunks[i].skip == 0
    if q.has_ack and code_id_read(catalog.seed, 112, q.partition_uuid, &number):
        p = catalog_partition_id(number)
        if p != NULL:
            g = p.queue.group_list
            tally_of(p.queue, call.engine.worker).ack_requests += 1
            tally_of(p.queue, call.engine.worker).ack_done += <uint64_t>q.count
        while g != NULL and g.id != pg_int4_or(res, 0, CYCLE_GROUP, 0):
            g = g.next
        if g != NULL:
            book_acked(g, p, call.forgets, pg_bool(res, 0, CYCLE_RELEASED), pg_int8_or(res, 0, CYCLE_COMMITTED, -1),
                       pg_int8_or(res, 0, CYCLE_HEAD, 0), 0, clock_mono_us(), &wake)
    uv_mutex_unlock(&book.lock)
    uv_rwlock_rdunlock(&catalog.lock)
    popjobs_wake(call.engine.worker, wake)
    return True

cdef void cycle_answer(CycleJob* j, Slice queue) noexcept nogil:
    cdef Request* r = j.job.r
    job_move(&j.job, JOB_DONE)
    r.job = NULL
    cycle_reply(reply_begin(r, 200, JSON_TYPE), &j.req, queue)
    reply_end(r)
