# The statements of a cycle (queend.stream_cycle): until it is known to have taken effect, nothing of it has. Two others
# may come before it: one asks whose the query and the partition are, where that has to be known; one makes sinks with
# their namespaces. Where the answer was lost, what was pushed tells whether it took effect (queend.pushed).

cdef enum CycleStep:
    STEP_LOOK = 0             # whose they are
    STEP_MAKE                 # its sinks
    STEP_DO
    STEP_ASK                  # is what it pushed stored?

cdef struct CycleCall:
    Call base
    CycleJob* job
    PushBatch batch
    CycleStep step

cdef void cycles_drain(Engine* e) noexcept nogil:
    while e.cycles.jobs.n:
        if not cycle_send(e):
            jobs_expire(e, &e.cycles.jobs)
            break

cdef bint cycle_stands(CycleJob* j) noexcept nogil:
    # Is what was found for its sinks still so?
    cdef PushItem* it
    cdef int i
    for i in range(j.req.push.n):
        it = &j.req.push.items[i]
        if it.partition == NULL or it.partition.dead or item_bare(it):
            return False
    return True

cdef bint cycle_send(Engine* e) noexcept nogil:
    # False: nothing was sent, and the job is back in its queue or was refused.
    cdef CycleCall* call = <CycleCall*>call_open(e, sizeof(CycleCall), STMT_CYCLE, &e.cycles.limit, cycle_done)
    cdef CycleJob* j
    cdef CycleStep step
    if call == NULL:
        return False
    j = <CycleJob*>joblist_take(&e.cycles.jobs)
    step = (STEP_ASK if j.doubt else STEP_LOOK if cycle_looks(j) else STEP_MAKE if j.makes else STEP_DO)
    if j.job.server != catalog.server or (step == STEP_DO and not cycle_stands(j)):
        call_drop(&call.base)
        if j.doubt:
            job_refuse(&j.job, 503, CYCLE_IN_DOUBT)
        else:
            cycle_go(e.worker, j)
        return True
    call.job = j
    call.step = step
    arena_open(&call.batch.arena, &e.worker.chunks)
    if (step == STEP_DO or step == STEP_ASK) and not cycle_gather(call):
        arena_close(&call.batch.arena)
        call_drop(&call.base)
        cycle_refuse(&j.job, 503, "Out of memory")
        return True
    if step == STEP_LOOK:
        call_asks(&call.base, STMT_STREAM_SOURCES)
        cycle_look(<SourcesArgs*>e.args.at, &j.req)
    elif step == STEP_MAKE:
        call_asks(&call.base, STMT_QUEUES_MAKE)
        cycle_make(e, <SpacesArgs*>e.args.at, &j.req)
    elif step == STEP_ASK:
        call_asks(&call.base, STMT_PUSHED)
        batch_ask(&call.batch, <PushedArgs*>e.args.at)
    else:
        cycle_encode(call, <CycleArgs*>e.args.at)
    return call_send(&call.base)

cdef bint cycle_gather(CycleCall* call) noexcept nogil:
    # Items become record batches. False: memory ran out.
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
            g = batch_group(&call.batch, p)
            if g == NULL or not table_put(&groups, <uint32_t>p.id, g):
                done = False
                break
        q.items[i].status = 0
        batch_place(&call.batch, g, &q.items[i])
    table_free(&groups)
    return done and batch_chunks(&call.batch)

cdef int32_t cycle_partition(CycleReq* q) noexcept nogil:
    # The number of its partition; 0, which no partition has, where its text cannot be one.
    cdef unsigned char[16] id
    cdef int32_t number = 0
    cdef int64_t n = 0
    cdef size_t i
    for i in range(q.partition.n):
        if not b'0' <= q.partition.p[i] <= b'9':
            break
        n = n * 10 + q.partition.p[i] - 48
        if n > 0x7fffffff:
            return 0
    else:
        return <int32_t>n
    if uuid_parse(q.partition, id, NULL) and code_id_read(catalog.seed, 112, id, &number):
        return number
    return 0

cdef void cycle_look(SourcesArgs* a, CycleReq* q) noexcept nogil:
    if q.has_query:
        arg_bytes(&a.query, q.query, 16)
    arg_int4(&a.partition, cycle_partition(q))

cdef void cycle_make(Engine* e, SpacesArgs* a, CycleReq* q) noexcept nogil:
    # Of a queue that is named several times the first item with a namespace or task counts.
    cdef CycleSpace* s = q.spaces
    cdef Table seen
    cdef char[16] most
    table_init(&seen)
    while s != NULL:
        table_put(&seen, slice_hash(s.queue, 1) | 1, s)
        s = s.next
    s = q.spaces
    while s != NULL:
        if table_get(&seen, slice_hash(s.queue, 1) | 1) == s:
            pgarray_bytes(&a.queue, s.queue.p, s.queue.n)
            pgarray_bytes(&a.ns, s.ns.p, s.ns.n)
            pgarray_bytes(&a.task, s.task.p, s.task.n)
        s = s.next
    table_free(&seen)
    snprintf(most, sizeof(most), b"%d", e.settings.max_queues)
    arg_slice(&a.max_queues, slice_lit(most))

cdef void cycle_encode(CycleCall* call, CycleArgs* a) noexcept nogil:
    cdef CycleReq* q = &call.job.req
    arg_bytes(&a.query, q.query, 16)
    arg_int4(&a.partition, cycle_partition(q))
    cycle_state(a, q)
    batch_encode(&call.batch, &a.rows, NULL, NULL, &call.base.engine.pack)
    arg_slice(&a.group, q.group)
    if q.has_ack:
        arg_bytes(&a.record, q.ack, 16)
    if q.has_lease:
        arg_bytes(&a.lease, q.lease, 16)
    arg_int4(&a.count, q.count)
    arg_bool(&a.dead, q.dead)
    arg_slice(&a.error, q.error)
    arg_bool(&a.release, not q.keeps)

cdef void cycle_state(CycleArgs* a, CycleReq* q) noexcept nogil:
    cdef int i
    cdef CycleOp* op
    cdef double end
    cdef int64_t bits
    for i in range(q.n):
        op = &q.ops[i]
        if op.dropped:
            continue
        if op.value.p == NULL:
            pgarray_bytes(&a.unset, op.key.p, op.key.n)
            continue
        pgarray_bytes(&a.key, op.key.p, op.key.n)
        pgarray_bytes(&a.value, op.value.p, op.value.n)
        if op.has_end:
            end = op.end
            memcpy(&bits, &end, 8)
            pgarray_int8(&a.end, bits)
        else:
            pgarray_null(&a.end)

# ---- back ----------------------------------------------------------------------------------------------------------

cdef void cycle_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef CycleCall* call = <CycleCall*>c
    cycle_back(call, res, outcome)
    arena_close(&call.batch.arena)

cdef void cycle_back(CycleCall* call, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = call.base.engine
    if outcome == SLOT_UNSENT:
        job_queue_first(&call.job.job, &e.cycles.jobs)
    elif outcome == SLOT_TOO_LARGE:
        cycle_refuse(&call.job.job, 413, "The cycle is too large")
    elif outcome == SLOT_NO_MEMORY:
        cycle_refuse(&call.job.job, 503, "Out of memory")
    elif outcome != SLOT_OK and (res == NULL or call.step == STEP_ASK):
        cycle_lost(call)
    elif outcome != SLOT_OK:
        cycle_error(e, call.job, res, call.base.ended_us)
    elif call.step == STEP_LOOK:
        cycle_found(call, res)
    elif call.step == STEP_MAKE:
        call.job.made = True
        cycle_go(call.base.engine.worker, call.job)
    elif call.step == STEP_ASK:
        cycle_told(call, res)
    else:
        cycle_take(call, res)

cdef void cycle_again(Engine* e, CycleJob* j) noexcept nogil:
    e.pause_until = clock_mono_us() + TROUBLE_PAUSE_US
    job_queue_first(&j.job, &e.cycles.jobs)

cdef void cycle_lost(CycleCall* call) noexcept nogil:
    # No answer. What it pushed under ids made here tells whether it was done; without that only its client can know.
    cdef CycleJob* j = call.job
    cdef bint asks = call.step == STEP_DO and call.batch.n_chunks > 0
    cdef int i
    for i in range(j.req.push.n if asks else 0):
        asks = asks and j.req.push.items[i].id_kind == 0
    if (asks or call.step != STEP_DO) and clock_mono_us() - j.job.born_us <= call.base.engine.patience_us:
        j.doubt = asks or j.doubt
        cycle_again(call.base.engine, j)
    elif call.step == STEP_DO or j.doubt:
        job_refuse(&j.job, 503, CYCLE_IN_DOUBT)
    else:
        job_refuse(&j.job, 503, b"The database is not reachable")

cdef void cycle_error(Engine* e, CycleJob* j, PGresult* res, int64_t now) noexcept nogil:
    # The server said why, and that nothing took effect.
    cdef const Verdict* v = verdict_of(res)
    cdef char[240] text
    if pg_sqlstate(res, b"QD409"):
        cycle_refuse(&j.job, 409, pg_error(res))
    elif job_again(&j.job, v.blame, now):
        cycle_again(e, j)
        if v.reload:
            engine_reload(e.worker)
    elif v.blame == BLAME_DATA:
        log_line(b"error", b"cycle_refused", pg_error(res))
        cycle_answer(j, slice_of(NULL, 0), slice_lit(pg_error(res)))
    else:
        log_line(b"warn" if v.blame == BLAME_AWAY else b"error", b"cycle_lost", pg_error(res))
        snprintf(text, sizeof(text), b"%s", pg_error(res))
        job_refuse(&j.job, 503, text)

cdef void cycle_found(CycleCall* call, PGresult* res) noexcept nogil:
    # Whose the query (column 0) and the partition (1) are; NULL: there is none, which only tokens for all queues pass.
    cdef CycleJob* j = call.job
    cdef Grant* grant = j.job.r.grant
    cdef Slice source = pg_bytes(res, 0, 0)
    cdef Slice queue = pg_bytes(res, 0, 1)
    j.looked = True
    if grant != NULL and grant.limited and not (source.p != NULL and queue.p != NULL
            and grant_allows(grant, source, VERB_POP) and grant_allows(grant, queue, VERB_POP)):
        cycle_deny(job_end(&j.job), 403, b"forbidden", GATE_NOT_YOURS)
    elif j.req.failed.p != NULL:
        cycle_answer(j, queue, j.req.failed)
    else:
        cycle_go(call.base.engine.worker, j)

cdef void cycle_olds(CycleCall* call, Slice told) noexcept nogil:
    # Items that were stored before. told: {row: [[offset, or -1 of a new one, ...], [moment, ...]]}.
    cdef Json j, moments
    cdef Slice key, raw, at
    cdef bint first = True
    cdef bint outer
    cdef int64_t row
    if told.p == NULL:
        return
    json_open(&j, told, JSON_DEPTH)
    json_enter(&j, b'{')
    while json_member(&j, &first, &key):
        row = cycle_number(slice_of(key.p + 1, key.n - 2))
        outer = True
        json_enter(&j, b'[')
        if (not json_element(&j, &outer) or not json_skip(&j, &raw)
                or not json_element(&j, &outer) or not json_skip(&j, &at)):
            return
        json_element(&j, &outer)
        if not 0 <= row < call.batch.n_chunks:
            continue
        json_open(&moments, at, JSON_DEPTH)
        json_enter(&moments, b'[')
        cycle_old(call.batch.chunks[row].first, call.batch.chunks[row].n, raw, &moments)

cdef void cycle_old(PushItem* it, int n, Slice offsets, Json* moments) noexcept nogil:
    cdef Json j
    cdef Slice raw, at
    cdef bint first = True
    cdef bint beside = True
    cdef int k
    json_open(&j, offsets, JSON_DEPTH)
    json_enter(&j, b'[')
    for k in range(n):
        if (not json_element(&j, &first) or not json_skip(&j, &raw)
                or not json_element(moments, &beside) or not json_skip(moments, &at)):
            return
        if raw.p[0] != b'-':
            it.status = 1
            it.offset = cycle_number(raw)
            it.created_us = cycle_number(at)
        it = it.next

cdef int64_t cycle_number(Slice digits) noexcept nogil:
    cdef int64_t n = 0
    cdef size_t i
    for i in range(digits.n):
        n = n * 10 + (digits.p[i] - 48)
    return n

cdef void cycle_stored(CycleCall* call, int i, int64_t base, int64_t at, PopJob** wake) noexcept nogil:
    # Where the items of a row are: those that are new from `base` on. Catalog and book locked.
    cdef PushChunk* c = &call.batch.chunks[i]
    cdef Partition* p = c.group.partition
    cdef PushItem* it = c.first
    cdef int64_t following = base
    cdef int k
    for k in range(c.n):
        if it.status == 0:
            it.offset = following
            it.created_us = at
            following += 1
        it.partition_uuid = p.uuid
        message_id_make(it.created_us, p.id, it.offset, it.message_id)
        it = it.next
    if following > base:
        book_stored(p, following, wake)
        p.queue.tally[call.base.engine.worker.index].push_messages += <uint64_t>(following - base)
        p.queue.tally[call.base.engine.worker.index].push_requests += c.skip == 0

cdef void cycle_repeats(CycleCall* call) noexcept nogil:
    # Items whose id an earlier one of the same cycle has.
    cdef PushGroup* g = call.batch.first
    cdef PushItem* it
    while g != NULL:
        it = g.dups
        while it != NULL:
            it.offset = it.original.offset
            it.created_us = it.original.created_us
            it.partition_uuid = g.partition.uuid
            memcpy(it.message_id, it.original.message_id, 16)
            it = it.next
        g = g.next

cdef void cycle_take(CycleCall* call, PGresult* res) noexcept nogil:
    # Where the items are, and the book hears of it.
    cdef CycleJob* j = call.job
    cdef CycleReq* q = &j.req
    cdef Worker* w = call.base.engine.worker
    cdef PgIter bases, moments
    cdef int64_t base = 0
    cdef int64_t at = 0
    cdef int i
    cdef Partition* p
    cdef Group* g = NULL
    cdef PopJob* wake = NULL
    if not pg_null(res, 0, CYCLE_STALE):
        cycle_stale(call.base.engine, j)
        return
    if not pg_null(res, 0, CYCLE_ERROR):
        cycle_answer(j, pg_bytes(res, 0, CYCLE_QUEUE), pg_bytes(res, 0, CYCLE_ERROR))
        return
    if (not pg_array(res, 0, CYCLE_BASE, OID_INT8, &bases) or not pg_array(res, 0, CYCLE_CREATED_AT, OID_INT8, &moments)
            or bases.left != call.batch.n_chunks or moments.left != call.batch.n_chunks):
        job_refuse(&j.job, 503, CYCLE_IN_DOUBT)
        return
    cycle_olds(call, pg_bytes(res, 0, CYCLE_DUPS))
    uv_rwlock_rdlock(&catalog.lock)
    uv_mutex_lock(&book.lock)
    for i in range(call.batch.n_chunks):
        pg_next8(&bases, &base)
        pg_next8(&moments, &at)
        cycle_stored(call, i, base, at, &wake)
    p = catalog_partition_id(cycle_partition(q)) if q.has_ack else NULL
    if p != NULL:
        g = p.queue.group_list
        p.queue.tally[w.index].ack_requests += 1
        if q.dead:
            p.queue.tally[w.index].ack_failed += 1
            w.counters.dead_lettered += 1
        else:
            p.queue.tally[w.index].ack_done += <uint64_t>q.count
    while g != NULL and g.id != pg_int4_or(res, 0, CYCLE_GROUP, 0):
        g = g.next
    if g != NULL:
        book_acked(g, p, call.base.forgets, pg_bool(res, 0, CYCLE_RELEASED), pg_int8_or(res, 0, CYCLE_COMMITTED, -1),
                   pg_int8_or(res, 0, CYCLE_HEAD, 0), 0, clock_mono_us(), &wake)
    uv_mutex_unlock(&book.lock)
    uv_rwlock_rdunlock(&catalog.lock)
    cycle_repeats(call)
    popjobs_wake(w, wake)
    cycle_answer(j, pg_bytes(res, 0, CYCLE_QUEUE), slice_of(NULL, 0))

cdef void cycle_stale(Engine* e, CycleJob* j) noexcept nogil:
    # Its names were looked up in a catalog that is out of date. Nothing was done.
    if j.job.tries >= CYCLE_TRIES:
        job_refuse(&j.job, 503, CYCLE_BUSY)
        return
    j.job.tries += 1
    joblist_add(&e.wait_reload, &j.job)
    engine_reload(e.worker)

cdef void cycle_told(CycleCall* call, PGresult* res) noexcept nogil:
    # All that it pushed is stored: it was done. Nothing is: it was not, or stands before its lanes and still may be.
    cdef CycleJob* j = call.job
    cdef int row, i
    cdef Partition* p
    cdef Slice queue = slice_of(NULL, 0)
    cdef PopJob* wake = NULL
    if PQntuples(res) == 0:
        job_refuse(&j.job, 503, CYCLE_IN_DOUBT)
        return
    uv_rwlock_rdlock(&catalog.lock)
    uv_mutex_lock(&book.lock)
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, PUSHED_ORD)
        if 0 <= i < call.batch.n_chunks:
            cycle_stored(call, i, pg_int8(res, row, PUSHED_BASE), pg_int8(res, row, PUSHED_CREATED_AT), &wake)
    p = catalog_partition_id(cycle_partition(&j.req))
    if p != NULL:
        queue = p.queue.name
    uv_mutex_unlock(&book.lock)
    uv_rwlock_rdunlock(&catalog.lock)
    popjobs_wake(call.base.engine.worker, wake)
    cycle_answer(j, queue, slice_of(NULL, 0))
