# Stream cycles (docs/streams.md): a cycle changes state, pushes messages and acknowledges its input, all or nothing.
# In: a request; a row of queend.stream_cycle, or the rows for its items (settle/transaction). Out: its job, resolved
# and queued for its statements (settle/cyclecall); the changes in the book; its answer. Owner: the request's worker.
# Locks: catalog.lock, then book.lock.

cdef const char* CYCLE_IN_DOUBT = b"The database did not answer; whether the cycle took effect is not known"
cdef const char* CYCLE_CONSUMED = b"The partition is being consumed: try again"
cdef const char* CYCLE_BUSY = b"Others are changing these queues; try again"

cdef enum:
    FLUSH_PAUSE_US = 100000   # between two attempts of a cycle that waits for the end of a lease
    FLUSHES_MOST = 256        # most cycles of a worker that wait for the end of a lease

cdef struct CycleJob:
    Job job
    CycleReq req
    bint looked
    bint makes                # creates queues with a namespace or task first
    bint made
    bint doubt                # the answer was lost: its pushed items show whether the cycle was done
    int64_t again_us          # monotonic: next attempt, while it waits for the end of a lease

cdef enum CycleStep:
    STEP_LOOK = 0             # looks up the queues of query and partition
    STEP_MAKE                 # creates the cycle's sinks
    STEP_DO
    STEP_ASK                  # asks whether its pushed items are stored

cdef struct CycleCall:
    Call base
    CycleJob* job
    PushBatch batch
    CycleStep step

cdef JobKind CYCLE_JOB
CYCLE_JOB.op = OP_OTHER
CYCLE_JOB.ask = cycle_ask
CYCLE_JOB.name_refused = cycle_name_refused
CYCLE_JOB.retry = cycle_resolve
CYCLE_JOB.refuse = cycle_refuse
CYCLE_JOB.reloads = True

# ---- a request -------------------------------------------------------------------------------------------------------

cdef void cycle_submit(Worker* w, Request* r, int route) noexcept nogil:
    offload_job(w, r, sizeof(CycleJob), cycle_read_body, cycle_taken)

cdef bint cycle_read_body(Request* r, void* job, Tools* t) noexcept nogil:
    cdef CycleReq* q = &(<CycleJob*>job).req
    if not cyclebody_parse(r.body, t, q):
        return False
    if r.asks & ASK_TRACE:
        trace_items(r.headers_raw, &r.arena, q.push.items, q.push.n)
    return True

cdef void cycle_taken(Worker* w, Request* r, void* job, bint good, ApiError* e) noexcept nogil:
    cdef CycleJob* j = <CycleJob*>job
    cdef char[GATE_TEXT] text
    cdef Slice lacks
    if not good:
        cycle_deny(r, e.status, j.req.code, e.text)
    elif not gate_names(r) or gate_push(r, &j.req.push, &lacks):
        job_open(&j.job, r, &CYCLE_JOB, r.body.n)
        cycle_resolve(engine_of(w), &j.job)
    else:
        cycle_deny(r, 403, b"forbidden", gate_lacking(text, b"push", lacks, slice_of(NULL, 0)))

# ---- names -----------------------------------------------------------------------------------------------------------

cdef void cycle_resolve(Engine* e, Job* job) noexcept nogil:
    # Resolves the names of sinks to partitions; then the job waits for a connection.
    cdef CycleJob* j = <CycleJob*>job
    cdef PushItem* it
    cdef Queue* q = NULL
    cdef bint missing = False
    cdef int i
    uv_rwlock_rdlock(&catalog.lock)
    if j.job.incarnation != catalog.incarnation:
        j.job.incarnation = catalog.incarnation
        j.job.tries = 0
        j.looked = False
        j.made = False
    for i in range(0 if cycle_looks(j) else j.req.push.n):
        it = &j.req.push.items[i]
        if catalog.spreads:
            q = spread_single(it, q)
        it.partition = catalog_place(it.queue, it.part, &q)
        missing = missing or it.partition == NULL
    uv_rwlock_rdunlock(&catalog.lock)
    j.makes = missing and j.req.spaces != NULL and not j.made
    if missing and not j.makes:
        job_resolve(&j.job, CYCLE_BUSY)
        return
    for i in range(0 if missing or cycle_looks(j) else j.req.push.n):
        it = &j.req.push.items[i]
        if sealing_needs(it) and not sealing_item(e.worker, &j.job, it):
            sealing_refuse(job_end(&j.job))
            return
    job_queue(&j.job, &e.cycles.jobs)

cdef inline bint cycle_looks(CycleJob* j) noexcept nogil:
    # Returns True if the queues of the query and the partition must be looked up first.
    return not j.looked and (j.req.failed.p != NULL or (j.job.r.grant != NULL and j.job.r.grant.limited))

cdef void cycle_ask(Engine* e, Job* job) noexcept nogil:
    cdef PushReq* q = &(<CycleJob*>job).req.push
    cdef int i
    for i in range(q.n):
        if q.items[i].partition == NULL:
            ask_names(e, ASK_RESOLVE, q.items[i].queue, q.items[i].part, 0)

cdef void cycle_name_refused(Round* r, Job* job) noexcept nogil:
    cdef PushReq* q = &(<CycleJob*>job).req.push
    cdef int i
    for i in range(q.n):
        if q.items[i].partition == NULL and ask_is_refused(r, job, False, q.items[i].queue, q.items[i].part):
            return

# ---- cycles that wait for the end of a lease -------------------------------------------------------------------------

cdef void cycle_flush_drain(Engine* e) noexcept nogil:
    # Retries cycles that have waited for 100 ms. The database ends the wait after 2 s (queend.stream_cycle). A cycle
    # whose client has left ends here, undone.
    cdef int n = e.flushes.n
    cdef int64_t now = clock_mono_us()
    cdef CycleJob* j
    while n:
        n -= 1
        j = <CycleJob*>joblist_take(&e.flushes)
        if e.stopping or j.job.r.conn == NULL:
            cycle_answer(j, slice_of(NULL, 0), slice_lit(CYCLE_CONSUMED))
        elif now >= j.again_us:
            cycle_resolve(e, &j.job)
        else:
            joblist_add(&e.flushes, &j.job)

# ---- results ---------------------------------------------------------------------------------------------------------
# In: the answer to a cycle that was done. Out: offsets of its items, and the changes in the book.

cdef void cycle_take(CycleCall* call, PGresult* res) noexcept nogil:
    # Takes the results: offsets for the items, changes for the book.
    cdef CycleJob* j = call.job
    cdef CycleReq* q = &j.req
    cdef Engine* e = call.base.engine
    cdef Worker* w = e.worker
    cdef PgIter bases, moments
    cdef int64_t base = 0
    cdef int64_t at = 0
    cdef int i
    cdef Partition* p
    cdef Group* g = NULL
    cdef PopJob* wake = NULL
    if not pg_null(res, 0, CYCLE_STALE):
        cyclecall_stale(e, j)
        return
    if pg_bool(res, 0, CYCLE_WAITS) and not e.stopping and e.flushes.n < FLUSHES_MOST:
        # Postponed by the database, because its consumer group holds a lease. It waits without a connection.
        j.again_us = clock_mono_us() + FLUSH_PAUSE_US
        joblist_add(&e.flushes, &j.job)
        return
    if pg_bool(res, 0, CYCLE_GONE):
        q.windows_closed = True
        cycle_answer(j, pg_bytes(res, 0, CYCLE_QUEUE), slice_of(NULL, 0))
        return
    if not pg_null(res, 0, CYCLE_ERROR):
        cycle_answer(j, pg_bytes(res, 0, CYCLE_QUEUE), pg_bytes(res, 0, CYCLE_ERROR))
        return
    if (not pg_array(res, 0, CYCLE_BASE, OID_INT8, &bases) or not pg_array(res, 0, CYCLE_CREATED_AT, OID_INT8, &moments)
            or bases.left != call.batch.n_chunks or moments.left != call.batch.n_chunks):
        job_refuse(&j.job, 503, CYCLE_IN_DOUBT)
        return
    cycle_dups(call, pg_bytes(res, 0, CYCLE_DUPS))
    index_lock_all()
    for i in range(call.batch.n_chunks):
        pg_next8(&bases, &base)
        pg_next8(&moments, &at)
        tx_push_stored(&call.batch.chunks[i], base, at, &wake)
    p = catalog_partition_id(cyclecall_partition(q)) if q.has_ack else NULL
    if p != NULL:
        p.queue.tally[w.index].ack_requests += 1
        if q.dead:
            p.queue.tally[w.index].ack_failed += 1
            w.counters.dead_lettered += 1
        else:
            p.queue.tally[w.index].ack_done += <uint64_t>q.count
        g = catalog_group_id(p.queue, pg_int4_or(res, 0, CYCLE_GROUP, 0))
    if g != NULL:
        index_acked(g, p, &call.base, pg_bool(res, 0, CYCLE_RELEASED), pg_int8_or(res, 0, CYCLE_COMMITTED, -1),
                    pg_int8_or(res, 0, CYCLE_HEAD, 0), 0, &wake)
    index_unlock_all(w, wake)
    cycle_done(call, pg_bytes(res, 0, CYCLE_QUEUE))

cdef void cycle_dups(CycleCall* call, Slice text) noexcept nogil:
    # Marks items that were stored before. told: {row: [[offset, or -1 of a new item, ...], [moment, ...]]}.
    cdef Json j, moments
    cdef Slice key, raw, at
    cdef bint first = True
    cdef bint outer
    cdef int64_t row
    if text.p == NULL:
        return
    json_open(&j, text, JSON_DEPTH)
    json_enter(&j, b'{')
    while json_member(&j, &first, &key):
        if not ident_whole(slice_of(key.p + 1, key.n - 2), &row):
            return
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
        cycle_dups_row(call.batch.chunks[row].first, call.batch.chunks[row].n, raw, &moments)

cdef void cycle_dups_row(PushItem* it, int n, Slice offsets, Json* moments) noexcept nogil:
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
            it.status = ITEM_DUPLICATE
            it.of_deleted = at.p[0] == b'-'
            if it.of_deleted:
                at = slice_of(at.p + 1, at.n - 1)
            ident_whole(raw, &it.offset)
            ident_whole(at, &it.created_us)
        it = it.next

cdef void cycle_done(CycleCall* call, Slice queue) noexcept nogil:
    # Answers a cycle that was done; its items have their offsets. queue: of its partition, p NULL: unknown.
    cdef PushReq* q = &call.job.req.push
    cdef PushPartition* g = call.batch.first
    cdef PushItem* it
    cdef Tally* t = NULL
    cdef Queue* before = NULL
    cdef int i
    while g != NULL:
        it = g.dups           # items with the id of an earlier item of the cycle
        while it != NULL:
            it.offset = it.original.offset
            it.created_us = it.original.created_us
            it.of_deleted = it.original.of_deleted
            it = it.next
        g = g.next
    for i in range(q.n):
        it = &q.items[i]
        tx_push_names(it)
        if it.partition.queue is not before:
            before = it.partition.queue
            t = &before.tally[call.base.engine.worker.index]
            t.push_requests += 1
        t.push_messages += 1
    cycle_answer(call.job, queue, slice_of(NULL, 0))

# ---- the answer ------------------------------------------------------------------------------------------------------

cdef void cycle_answer(CycleJob* j, Slice queue, Slice error) noexcept nogil:
    cdef Request* r = job_end(&j.job)
    if r.worker.spans.every and r.asks & ASK_TRACE:
        cycle_spans(r, &j.req, queue, 200 if error.p == NULL else 409)
    cyclebody_reply(reply_begin(r, 200, JSON_TYPE), &j.req, queue, error)
    reply_end(r)

cdef void cycle_spans(Request* r, CycleReq* q, Slice queue, int status) noexcept nogil:
    # Writes one span for the cycle, and one for the items stored in each queue.
    cdef Slice parent, state
    if trace_request(r.headers_raw, &r.arena, &parent, &state):
        span_put(r.worker, SPAN_CYCLE, parent, span_began(r), status, q.count if q.has_ack else 1, queue,
                 slice_of(NULL, 0), q.group, -1)
        if not q.windows_closed:
            push_spans(r, &q.push, status)

cdef void cycle_refuse(Job* job, int status, const char* text) noexcept nogil:
    # Refuses a cycle. After a lost answer the cycle may have taken effect, so the answer says that the outcome is
    # unknown.
    if (<CycleJob*>job).doubt:
        job_refuse(job, 503, CYCLE_IN_DOUBT)
    else:
        cycle_deny(job_end(job), status,
                   b"bound_reached" if status == 409 else b"too_large" if status == 413 else b"refused", text)

cdef void cycle_deny(Request* r, int status, const char* code, const char* text) noexcept nogil:
    # Answers with a status and the error code that the control plane gives for streams. An error that may be retried
    # has no code.
    cdef Buf body
    if status == 503:
        reply_error(r, 503, text)
        return
    buf_init(&body)
    buf_text(&body, b"{\"error\":")
    text_escape(&body, slice_lit(text))
    buf_text(&body, b",\"code\":\"")
    buf_text(&body, code)
    buf_text(&body, b"\"}")
    reply_raw(r, status, slice_lit(JSON_LINES), slice_of(body.data, body.len))
    buf_free(&body)
