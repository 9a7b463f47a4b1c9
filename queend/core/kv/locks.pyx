# Locks and semaphores. In: requests. Out: one statement for many of them, and their answers. Owner: the request's
# worker; no lock.

cdef struct LockJob:
    Job job
    LockReq req

cdef CallTexts LOCK_TEXTS
LOCK_TEXTS.event = b"lock_refused"
LOCK_TEXTS.unknown = b"The database did not answer; whether the locks changed is not known"
LOCK_TEXTS.refused = b"The locks did not change"
LOCK_TEXTS.put_off = b"The locks could not be asked for"

cdef JobKind LOCK_JOB
LOCK_JOB.op = OP_KV
LOCK_JOB.refuse = job_refuse

cdef void lock_submit(Worker* w, Request* r, int route) noexcept nogil:
    cdef LockJob* j = <LockJob*>arena_zero(&r.arena, sizeof(LockJob))
    r.op = OP_KV
    if j == NULL:
        reply_error(r, 503, b"Out of memory")
        return
    w.tools.arena = &r.arena
    if not lockbody_read(r.body, &w.tools, &j.req):
        kv_refuse(r, &w.tools.error, LOCK_BAD, NULL)
        return
    if r.grant != NULL and not gate_locks(r, &j.req):
        return
    job_open(&j.job, r, &LOCK_JOB, r.body.n)
    job_queue(&j.job, &engine_of(w).locks.jobs)

cdef bint lock_send(Engine* e) noexcept nogil:
    cdef Call* call = call_open(e, sizeof(Call), STMT_LOCKS, &e.locks.limit, lock_done)
    cdef LockArgs* a = <LockArgs*>e.args.at
    cdef LockJob* j
    cdef int i
    if call == NULL:
        return False
    while call.jobs.n < e.locks.linger.max_jobs and e.locks.jobs.first != NULL:
        if call.jobs.n and (call.jobs.first.isolated or e.locks.jobs.first.isolated):
            break
        j = <LockJob*>joblist_take(&e.locks.jobs)
        for i in range(j.req.n):
            lock_encode(a, &j.req.ops[i])
        joblist_add(&call.jobs, &j.job)
    e.worker.counters.op[OP_KV].calls += 1
    return call_send(call)

cdef void lock_encode(LockArgs* a, const LockOp* op) noexcept nogil:
    pgarray_int2(&a.op, op.kind)
    pgarray_bytes(&a.name, op.name.p, op.name.n)
    kvargs_text(&a.owner, op.owner)
    pgarray_int8(&a.ttl_us, op.ttl_us)
    pgarray_int4(&a.limit, op.limit)
    pgarray_int8(&a.token, op.token)
    pgarray_int4(&a.slot, op.slot)

cdef void lock_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef LockJob* j
    cdef Request* r
    cdef int row = 0
    cdef int at = 0
    cdef int i
    if jobs_back(c, res, outcome, &c.engine.locks.jobs, &LOCK_TEXTS):
        return
    while c.jobs.first != NULL:
        j = <LockJob*>joblist_take(&c.jobs)
        for i in range(j.req.n):
            j.req.ops[i].row = row
            while row < PQntuples(res) and pg_int4(res, row, LOCK_ROW_ORD) == at:
                row += 1
            j.req.ops[i].rows = row - j.req.ops[i].row
            at += 1
        r = job_end(&j.job)
        r.worker.counters.op[OP_KV].items += j.req.n
        lockbody_reply(reply_begin(r, 200, JSON_TYPE), &j.req, res)
        reply_end(r)
