# Timers. In: requests. Out: one statement for many of them, and their answers. Requests that name the same timer do not
# share a statement. Owner: the request's worker; no lock, but catalog.lock to find whether a queue is encrypted.

cdef enum:
    TIMER_CALL_OPS = 512      # operations that share a statement
    TIMER_CALL_BYTES = 16777216          # bytes of their payloads

cdef struct TimerJob:
    Job job
    TimerReq req

cdef struct TimerCall:
    Call base
    TimerOp** ops
    int n

cdef CallTexts TIMER_TEXTS
TIMER_TEXTS.event = b"timer_refused"
TIMER_TEXTS.unknown = b"The database did not answer; whether the timers changed is not known"
TIMER_TEXTS.refused = b"The timers did not change"
TIMER_TEXTS.put_off = b"The timers could not be changed"

cdef const char* TIMER_FULL_CODE = b"timers_quota_exceeded"
cdef const char* TIMER_FULL_TEXT = b"There are too many timers: cancel some, or wait until some have fired"

cdef JobKind TIMER_JOB
TIMER_JOB.op = OP_KV
TIMER_JOB.refuse = job_refuse

# ---- a request -------------------------------------------------------------------------------------------------------

cdef void timer_submit(Worker* w, Request* r, int route) noexcept nogil:
    r.op = OP_KV
    offload_job(w, r, sizeof(TimerJob), timer_read_body, timer_taken)

cdef bint timer_read_body(Request* r, void* job, Tools* t) noexcept nogil:
    return timerbody_read(r.body, t, &(<TimerJob*>job).req)

cdef void timer_taken(Worker* w, Request* r, void* job, bint good, ApiError* e) noexcept nogil:
    cdef TimerJob* j = <TimerJob*>job
    if not good:
        kv_refuse(r, e, j.req.code, j.req.reason)
        return
    if not gate_timers(r, &j.req) or not timer_seal_known(w, r, &j.req):
        return
    job_open(&j.job, r, &TIMER_JOB, r.body.n + j.req.unpacked)
    job_queue(&j.job, &engine_of(w).timers.jobs)

# ---- encrypted queues ------------------------------------------------------------------------------------------------
# If the queue is known to be encrypted, the payload is sealed before its statement leaves. Otherwise the statement
# finds that the queue is encrypted, does nothing, and is sent again. If a queue becomes encrypted later, its timers are
# sealed when they fire.

cdef bint timer_seal_known(Worker* w, Request* r, TimerReq* q) noexcept nogil:
    # Seals payloads of queues known to be encrypted. Returns False if the request was answered.
    cdef Queue* queue
    cdef bint sealed
    cdef int i
    for i in range(q.n if catalog.n_sealed else 0):
        uv_rwlock_rdlock(&catalog.lock)
        queue = catalog_queue(q.ops[i].queue)
        sealed = queue != NULL and queue.sealed
        uv_rwlock_rdunlock(&catalog.lock)
        if sealed and q.ops[i].kind == TIMER_SCHEDULE and not timer_seal(w, r, &q.ops[i]):
            sealing_refuse(r)
            return False
    return True

cdef bint timer_seal(Worker* w, Request* r, TimerOp* op) noexcept nogil:
    # Seals a payload. Returns False without a key or memory.
    cdef size_t n = seal_size(op.payload.n)
    cdef char* out = <char*>arena_alloc(&r.arena, n)
    if out == NULL or not seal_write(&w.seal, op.queue, op.payload, out):
        return False
    op.payload = slice_of(out, n)
    op.seal = slice_lit(sealring.keys[0].id)
    w.counters.sealed += 1
    return True

# ---- the statement ---------------------------------------------------------------------------------------------------

cdef bint timer_send(Engine* e) noexcept nogil:
    cdef TimerCall* call = <TimerCall*>call_open(e, sizeof(TimerCall), STMT_TIMERS_WRITE, &e.timers.limit, timer_done)
    cdef TimerJob* j
    cdef int jobs, i
    if call == NULL:
        return False
    jobs = timer_fitting(e, &i)
    call.ops = <TimerOp**>arena_alloc(&call.base.arena, i * sizeof(void*))
    if call.ops == NULL:
        call_drop(&call.base)
        return False
    while jobs > 0:
        jobs -= 1
        j = <TimerJob*>joblist_take(&e.timers.jobs)
        joblist_add(&call.base.jobs, &j.job)
        for i in range(j.req.n):
            call.ops[call.n] = &j.req.ops[i]
            call.n += 1
            timer_encode(<TimerArgs*>e.args.at, &j.req.ops[i])
    e.worker.counters.op[OP_KV].calls += 1
    return call_send(&call.base)

cdef int timer_fitting(Engine* e, int* n) noexcept nogil:
    # Returns how many of the first jobs share a statement, at least 1. n: their operations.
    cdef TimerJob* j = <TimerJob*>e.timers.jobs.first
    cdef Table seen
    cdef int jobs = 0
    cdef size_t bytes = 0
    cdef bint fits = True
    cdef int i
    n[0] = 0
    table_init(&seen)
    while j != NULL and jobs < e.timers.linger.max_jobs:
        if jobs and (j.job.isolated or n[0] + j.req.n > TIMER_CALL_OPS or bytes + j.req.unpacked > TIMER_CALL_BYTES):
            break
        for i in range(j.req.n):
            fits = fits and (jobs == 0 or table_get(&seen, timerbody_hash(&j.req.ops[i])) == NULL)
        for i in range(j.req.n if fits else 0):
            fits = table_put(&seen, timerbody_hash(&j.req.ops[i]), &j.req.ops[i]) and fits
        if jobs and not fits:
            break
        jobs += 1
        n[0] += j.req.n
        bytes += j.req.unpacked
        if j.job.isolated or not fits:
            break
        j = <TimerJob*>j.job.next
    table_free(&seen)
    return jobs

cdef void timer_encode(TimerArgs* a, TimerOp* op) noexcept nogil:
    op.row = -1
    pgarray_int2(&a.op, op.kind)
    pgarray_bytes(&a.queue, op.queue.p, op.queue.n)
    pgarray_bytes(&a.key, op.key.p, op.key.n)
    kvargs_text(&a.part, op.part)
    kvargs_text(&a.txn, op.txn)
    kvargs_text(&a.payload, op.payload)
    kvargs_text(&a.seal, op.seal)
    pgarray_int8(&a.delay_us, op.delay_us)
    if op.sub.n:
        pgarray_bytes(&a.sub, op.sub.p, op.sub.n)
    else:
        pgarray_null(&a.sub)

# ---- results ---------------------------------------------------------------------------------------------------------

cdef void timer_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef TimerCall* call = <TimerCall*>c
    cdef TimerJob* j
    cdef Request* r
    cdef int row, i
    if jobs_back(c, res, outcome, &c.engine.timers.jobs, &TIMER_TEXTS) or timer_undone(call, res):
        return
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, TIMER_ROW_ORD)
        if 0 <= i < call.n:
            call.ops[i].row = row
    while c.jobs.first != NULL:
        j = <TimerJob*>joblist_take(&c.jobs)
        r = job_end(&j.job)
        r.worker.counters.op[OP_KV].items += j.req.n
        j.req.res = res
        j.req.columns = TIMER_OWN
        timer_tally(r.worker, &j.req, c.ended_us)
        timerbody_reply(reply_begin(r, 200, JSON_TYPE), &j.req)
        reply_end(r)

cdef void timer_tally(Worker* w, TimerReq* q, int64_t now_us) noexcept nogil:
    # Counts what was done, and wakes the service for the earliest timer. now_us: when the answer came.
    cdef int64_t due_us = INT64_MAX
    cdef int outcome, i
    for i in range(q.n):
        if q.ops[i].kind == TIMER_SCHEDULE:
            w.counters.timers_scheduled += 1
            due_us = min(due_us, now_us + q.ops[i].delay_us)
        elif q.res != NULL and q.ops[i].row >= 0:
            outcome = pg_int2(q.res, q.ops[i].row, q.columns[TIMER_ROW_OUTCOME])
            w.counters.timers_cancelled += 1 if outcome == TIMER_CANCELLED else 0
    if due_us < INT64_MAX:
        timerbell_ring(due_us)

cdef bint timer_undone(TimerCall* call, PGresult* res) noexcept nogil:
    # Handles a statement that did nothing. Seals the payloads that must be sealed and sends it again; or refuses the
    # request because the table is full. Returns False if the statement did something.
    cdef Call* c = &call.base
    cdef TimerJob* j
    cdef Job* job
    cdef int why = pg_int2(res, 0, TIMER_ROW_OUTCOME) if PQntuples(res) else TIMER_SCHEDULED
    cdef int row, i
    cdef JobList again
    if why < TIMER_UNSEALED:
        return False
    if why == TIMER_FULL and c.jobs.n > 1:
        job = c.jobs.first
        while job != NULL:        # others may only cancel
            job.isolated = True
            job = job.next
        jobs_queue_first(&c.jobs, &c.engine.timers.jobs)
        return True
    if why == TIMER_FULL:
        j = <TimerJob*>joblist_take(&c.jobs)
        timer_refuse_full(job_end(&j.job))
        return True
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, TIMER_ROW_ORD)
        if 0 <= i < call.n:
            call.ops[i].row = row
    joblist_open(&again, <JobAt>c.engine.timers.jobs.at)
    while c.jobs.first != NULL:
        j = <TimerJob*>joblist_take(&c.jobs)
        if timer_seal_asked(c.engine.worker, j.job.r, &j.req):
            joblist_add(&again, &j.job)
        else:
            sealing_refuse(job_end(&j.job))
    jobs_queue_first(&again, &c.engine.timers.jobs)
    return True

cdef bint timer_seal_asked(Worker* w, Request* r, TimerReq* q) noexcept nogil:
    # Seals the payloads whose operations have a row. Returns False if that failed.
    cdef int i
    for i in range(q.n):
        if q.ops[i].row >= 0 and q.ops[i].seal.p == NULL and not timer_seal(w, r, &q.ops[i]):
            return False
    return True

cdef void timer_refuse_full(Request* r) noexcept nogil:
    cdef ApiError e
    refuse_set(&e, 403, TIMER_FULL_TEXT)
    kv_refuse(r, &e, TIMER_FULL_CODE, NULL)
