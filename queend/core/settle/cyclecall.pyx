# Statements of a cycle (queend.stream_cycle). In: a job whose names are known; rows. Out: the arguments of each
# statement; results for settle/cycle. Up to two others precede it. One looks up the queues of query and partition, if
# they must be known; one creates sinks with their namespaces. A cycle takes effect as a whole with its statement's
# commit. After a lost answer the pushed items show whether it did (queend.pushed). Owner: the worker. Locks:
# catalog.lock, then book.lock.

cdef const char* CYCLE_NOWHERE = (b"Insufficient permissions for this queue: it does not exist, and the token is "
                                  b"limited to queues")

# Columns of stream_sources: queues, NULL if unknown.
cdef enum:
    STREAM_SOURCES_QUERY = 0
    STREAM_SOURCES_PARTITION

# ---- the next statement ----------------------------------------------------------------------------------------------

cdef bint cyclecall_send(Engine* e) noexcept nogil:
    # Sends the next statement. Returns False if nothing was sent: the job is back in its queue or was refused.
    cdef CycleCall* call = <CycleCall*>call_open(e, sizeof(CycleCall), STMT_CYCLE, &e.cycles.limit, cyclecall_done)
    cdef CycleJob* j
    cdef CycleStep step
    if call == NULL:
        return False
    j = <CycleJob*>joblist_take(&e.cycles.jobs)
    step = (STEP_ASK if j.doubt else STEP_LOOK if cycle_looks(j) else STEP_MAKE if j.makes else STEP_DO)
    if j.job.incarnation != catalog.incarnation or (step == STEP_DO and not cyclecall_current(j)):
        call_drop(&call.base)
        if j.doubt:
            job_refuse(&j.job, 503, CYCLE_IN_DOUBT)
        else:
            cycle_resolve(e, &j.job)
        return True
    call.job = j
    joblist_add(&call.base.jobs, &j.job)
    call.step = step
    arena_open(&call.batch.arena, &e.worker.chunks)
    if (step == STEP_DO or step == STEP_ASK) and not cyclecall_gather(call):
        arena_close(&call.batch.arena)
        call_drop(&call.base)
        cycle_refuse(&j.job, 503, "Out of memory")
        return True
    if step == STEP_LOOK:
        call_asks(&call.base, STMT_STREAM_SOURCES)
        if j.req.has_query:
            arg_bytes(&(<SourcesArgs*>e.args.at).query, j.req.query, 16)
        arg_int4(&(<SourcesArgs*>e.args.at).partition, cyclecall_partition(&j.req))
    elif step == STEP_MAKE:
        call_asks(&call.base, STMT_QUEUES_MAKE)
        cyclecall_make(e, <SpacesArgs*>e.args.at, &j.req)
    elif step == STEP_ASK:
        call_asks(&call.base, STMT_PUSHED)
        rows_ask(&call.batch, <PushedArgs*>e.args.at)
    else:
        cyclecall_encode(call, <CycleArgs*>e.args.at)
    return call_send(&call.base)

cdef bint cyclecall_current(CycleJob* j) noexcept nogil:
    # Returns True if the partitions found for the cycle's sinks are still valid.
    cdef PushItem* it
    cdef int i
    for i in range(j.req.push.n):
        it = &j.req.push.items[i]
        if it.partition == NULL or it.partition.dead or sealing_needs(it) or spread_stale(it):
            return False
    return True

cdef bint cyclecall_gather(CycleCall* call) noexcept nogil:
    # Makes a batch of the items. Returns False if memory ran out.
    cdef PushReq* q = &call.job.req.push
    cdef Table groups
    cdef int i
    cdef bint done = True
    table_init(&groups)
    for i in range(q.n):
        done = done and tx_push_add(&call.batch, &groups, &q.items[i])
    table_free(&groups)
    return done and rows_cut(&call.batch)

# ---- parameters ------------------------------------------------------------------------------------------------------

cdef int32_t cyclecall_partition(CycleReq* q) noexcept nogil:
    # Returns the number of the cycle's partition; 0, which no partition has, if its text is malformed.
    cdef unsigned char[16] id
    cdef int32_t number = 0
    cdef int64_t n
    if ident_whole(q.partition, &n):
        return <int32_t>n if n <= 0x7fffffff else 0
    if uuid_parse(q.partition, id) and uuid_partition_read(catalog.seed, id, &number):
        return number
    return 0

cdef void cyclecall_make(Engine* e, SpacesArgs* a, CycleReq* q) noexcept nogil:
    # Writes the queues to create. If a queue is named several times, the first item with a namespace or task counts.
    cdef CycleSpace* s = q.spaces
    cdef Table seen
    cdef char[16] most
    table_init(&seen)
    while s != NULL:
        table_put(&seen, slice_hash(s.queue, hash_seed) | 1, s)
        s = s.next
    s = q.spaces
    while s != NULL:
        if table_get(&seen, slice_hash(s.queue, hash_seed) | 1) == s:
            pgarray_bytes(&a.queue, s.queue.p, s.queue.n)
            pgarray_bytes(&a.ns, s.ns.p, s.ns.n)
            pgarray_bytes(&a.task, s.task.p, s.task.n)
        s = s.next
    table_free(&seen)
    snprintf(most, sizeof(most), b"%d", e.settings.max_queues)
    arg_slice(&a.max_queues, slice_lit(most))

cdef void cyclecall_encode(CycleCall* call, CycleArgs* a) noexcept nogil:
    cdef CycleReq* q = &call.job.req
    arg_bytes(&a.query, q.query, 16)
    arg_int4(&a.partition, cyclecall_partition(q))
    cyclecall_state(a, q)
    rows_encode(&call.batch, &a.rows, NULL, NULL, &call.base.engine.pack)
    arg_slice(&a.group, q.group)
    if q.has_ack:
        arg_bytes(&a.record, q.ack, 16)
    if q.has_lease:
        arg_bytes(&a.lease, q.lease, 16)
    arg_int4(&a.count, q.count)
    arg_bool(&a.dead, q.dead)
    arg_slice(&a.error, q.error)
    arg_bool(&a.release, not q.keeps)
    arg_int4(&a.waited, <int32_t>min((clock_mono_us() - call.job.job.born_us) // 1000, <int64_t>0x7fffffff))

cdef void cyclecall_state(CycleArgs* a, CycleReq* q) noexcept nogil:
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

# ---- results ---------------------------------------------------------------------------------------------------------

cdef void cyclecall_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef CycleCall* call = <CycleCall*>c
    cdef Engine* e = c.engine
    if job_unsent(&call.job.job, &e.cycles.jobs, outcome, b"The cycle is too large"):
        pass
    elif outcome != SLOT_OK and (res == NULL or call.step == STEP_ASK):
        cyclecall_lost(call)
    elif outcome != SLOT_OK:
        cyclecall_error(e, call.job, res, call.base.ended_us)
    elif call.step == STEP_LOOK:
        cyclecall_found(call, res)
    elif call.step == STEP_MAKE:
        call.job.made = True
        cycle_resolve(e, &call.job.job)
    elif call.step == STEP_ASK:
        cyclecall_recovered(call, res)
    else:
        cycle_take(call, res)
    arena_close(&call.batch.arena)

cdef void cyclecall_found(CycleCall* call, PGresult* res) noexcept nogil:
    # Checks the queues of query and partition against the grant. Only tokens for all queues may use an unknown queue.
    cdef CycleJob* j = call.job
    cdef Grant* grant = j.job.r.grant
    cdef Slice source = pg_bytes(res, 0, STREAM_SOURCES_QUERY)
    cdef Slice queue = pg_bytes(res, 0, STREAM_SOURCES_PARTITION)
    cdef Slice lacks = queue
    cdef char[GATE_TEXT] text
    j.looked = True
    if grant != NULL and grant.limited and (source.p == NULL or queue.p == NULL):
        cycle_deny(job_end(&j.job), 403, b"forbidden", CYCLE_NOWHERE)
        return
    if grant != NULL and not gate_pops(j.job.r, source, j.req.group):
        lacks = source
    if grant != NULL and not gate_pops(j.job.r, lacks, j.req.group):
        cycle_deny(job_end(&j.job), 403, b"forbidden", gate_lacking(text, b"pop", lacks, j.req.group))
    elif j.req.failed.p != NULL:
        cycle_answer(j, queue, j.req.failed)
    else:
        cycle_resolve(call.base.engine, &j.job)

cdef void cyclecall_recovered(CycleCall* call, PGresult* res) noexcept nogil:
    # Ends a cycle with a lost answer. If all its items are stored, it was done. If no item is stored, the outcome stays
    # unknown: the cycle was skipped, or it still waits for its lanes.
    cdef CycleJob* j = call.job
    cdef Worker* w = call.base.engine.worker
    cdef Partition* p
    if PQntuples(res) == 0:
        job_refuse(&j.job, 503, CYCLE_IN_DOUBT)
        return
    tx_push_take(w, &call.batch, res)
    uv_rwlock_rdlock(&catalog.lock)
    p = catalog_partition_id(cyclecall_partition(&j.req))
    uv_rwlock_rdunlock(&catalog.lock)
    cycle_done(call, p.queue.name if p != NULL else slice_of(NULL, 0))

cdef void cyclecall_stale(Engine* e, CycleJob* j) noexcept nogil:
    # Reloads the catalog, as the names were resolved with an outdated one. Nothing was done.
    if j.job.tries >= JOB_TRIES:
        job_refuse(&j.job, 503, CYCLE_BUSY)
        return
    j.job.tries += 1
    joblist_add(&e.wait_reload, &j.job)
    catalog_want_reload(e.worker)

# ---- an error, or no answer ------------------------------------------------------------------------------------------

cdef void cyclecall_lost(CycleCall* call) noexcept nogil:
    # Handles a lost answer. Items pushed under ids made by the daemon show whether the cycle was done; otherwise only
    # the client can find out.
    cdef CycleJob* j = call.job
    cdef bint asks = call.step == STEP_DO and call.batch.n_chunks > 0
    cdef PopJob* wake = NULL
    cdef Group* g
    cdef Partition* p
    cdef int i
    if call.step == STEP_DO and j.req.has_ack:        # its lease may have ended: the next pop asks the database
        index_lock_all()
        p = catalog_ids(cyclecall_partition(&j.req), j.req.group, &g)
        if g != NULL:
            index_ack_lost(g, p, &wake)
        index_unlock_all(call.base.engine.worker, wake)
    for i in range(j.req.push.n if asks else 0):
        asks = asks and j.req.push.items[i].id_kind == ID_MADE
    if (asks or call.step != STEP_DO) and clock_mono_us() - j.job.born_us <= call.base.engine.patience_us:
        j.doubt = asks or j.doubt
        cyclecall_retry(call.base.engine, j)
    elif call.step == STEP_DO or j.doubt:
        job_refuse(&j.job, 503, CYCLE_IN_DOUBT)
    else:
        job_refuse(&j.job, 503, health_why())

cdef void cyclecall_error(Engine* e, CycleJob* j, PGresult* res, int64_t now) noexcept nogil:
    # Handles an error of the server: nothing took effect.
    cdef const Verdict* v = sqlstate_of(res)
    if pg_sqlstate(res, b"QD409"):
        cycle_refuse(&j.job, 409, pg_error(res))
    elif job_may_retry(&j.job, v.error_class, now):
        cyclecall_retry(e, j)
        if v.reload:
            catalog_want_reload(e.worker)
    elif v.error_class == ERROR_DATA:
        log_line(b"error", b"cycle_refused", pg_error(res))
        cycle_answer(j, slice_of(NULL, 0), slice_lit(pg_error(res)))
    else:
        log_line(b"warn" if v.error_class == ERROR_AWAY else b"error", b"cycle_lost", pg_error(res))
        job_refuse(&j.job, 503, pg_error(res))

cdef void cyclecall_retry(Engine* e, CycleJob* j) noexcept nogil:
    e.pause_until = clock_mono_us() + TROUBLE_PAUSE_US
    job_queue_first(&j.job, &e.cycles.jobs)
