# Lease extension. In: a request. Out: for tokens limited to queues, a look-up of the lease's queue; then one statement
# for many requests, and their answers. Owner: the request's worker. Locks: book.lock, for leases that feeds hold.

cdef enum:
    LEASE_ASKS = 256          # leases looked up at once

# Columns of lease_queues.
cdef enum:
    LEASE_QUEUES_ORD = 0
    LEASE_QUEUES_QUEUE
    LEASE_QUEUES_GROUP

cdef struct LeaseJob:
    Job job
    LeaseReq req

cdef CallTexts LEASE_TEXTS
LEASE_TEXTS.event = b"lease_refused"
LEASE_TEXTS.unknown = b"The database did not answer; whether the lease was extended is not known"
LEASE_TEXTS.refused = NULL
LEASE_TEXTS.put_off = b"The lease could not be extended"

cdef CallTexts LEASE_ASK_TEXTS
LEASE_ASK_TEXTS = LEASE_TEXTS
LEASE_ASK_TEXTS.unknown = b"The database did not answer; the lease was not extended"

cdef JobKind LEASE_JOB
LEASE_JOB.op = OP_LEASE
LEASE_JOB.refuse = job_refuse

# ---- a request -------------------------------------------------------------------------------------------------------

cdef void lease_submit(Worker* w, Request* r, int route) noexcept nogil:
    cdef LeaseJob* j = <LeaseJob*>arena_zero(&r.arena, sizeof(LeaseJob))
    cdef ApiError err
    r.op = OP_LEASE
    if j == NULL:
        reply_error(r, 503, "Out of memory")
        return
    if not leasebody_parse(r.path, r.body, &r.arena, &j.req, &err):
        reply_error(r, err.status, err.text)
        return
    job_open(&j.job, r, &LEASE_JOB, r.body.n)
    job_queue(&j.job,
              &engine_of(w).lease_asks.jobs if r.grant != NULL and r.grant.limited else &engine_of(w).leases.jobs)

# ---- queue of the lease --------------------------------------------------------------------------------------------

cdef bint lease_asks_send(Engine* e) noexcept nogil:
    # Looks up the queues of leases. A lease's id names no queue, so a token cannot be checked without the database.
    cdef Call* call = call_open(e, sizeof(Call), STMT_LEASE_QUEUES, &e.lease_asks.limit, lease_asks_done)
    if call == NULL:
        return False
    lease_take(call, &e.lease_asks.jobs, LEASE_ASKS, &e.args.at[0], NULL)
    return call_send(call)

cdef void lease_asks_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = c.engine
    cdef Job* job
    cdef int row, i = 0
    cdef bint allowed
    cdef char[GATE_TEXT] text
    cdef Slice queue, group
    if jobs_back(c, res, outcome, &e.lease_asks.jobs, &LEASE_ASK_TEXTS):
        return
    while c.jobs.first != NULL:
        job = joblist_take(&c.jobs)
        allowed = True
        for row in range(PQntuples(res)):
            if not allowed or pg_int4(res, row, LEASE_QUEUES_ORD) != i:
                continue
            queue = pg_bytes(res, row, LEASE_QUEUES_QUEUE)
            group = pg_bytes(res, row, LEASE_QUEUES_GROUP)
            allowed = queue.p == NULL or gate_pops(job.r, queue, group)      # NULL: deleted meanwhile
        if allowed:
            job_queue(job, &e.leases.jobs)
        else:
            job_refuse(job, 403, gate_lacking(text, b"pop", queue, group))
        i += 1

# ---- extension -----------------------------------------------------------------------------------------------------

cdef bint lease_send(Engine* e) noexcept nogil:
    cdef Call* call = call_open(e, sizeof(Call), STMT_RENEW, &e.leases.limit, lease_done)
    cdef RenewArgs* a = <RenewArgs*>e.args.at
    if call == NULL:
        return False
    lease_take(call, &e.leases.jobs, e.leases.linger.max_jobs, &a.lease, &a.seconds)
    e.worker.counters.op[OP_LEASE].calls += 1
    return call_send(call)

cdef void lease_take(Call* call, JobList* list, int most, PgArray* leases, PgArray* seconds) noexcept nogil:
    cdef LeaseJob* j
    while call.jobs.n < most and list.first != NULL:
        j = <LeaseJob*>joblist_take(list)
        pgarray_uuid(leases, j.req.lease)
        if seconds != NULL:
            pgarray_int4(seconds, j.req.seconds)
        joblist_add(&call.jobs, &j.job)

cdef void lease_extend_fed(LeaseReq* q, int64_t now) noexcept nogil:
    # Extends the leases held by feeds: their messages count against the credit for longer.
    cdef FeedLease* x
    uv_mutex_lock(&book.lock)
    x = unacked_feed_find(q.lease)
    while x != NULL:
        if x.cursor.state == CURSOR_LEASED:
            cursor_move(x.cursor, CURSOR_LEASED, now + q.expires_us - clock_db_now())
        x = x.alike
    uv_mutex_unlock(&book.lock)

cdef void lease_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef LeaseJob* j
    cdef Request* r
    cdef int row, i = 0
    if jobs_back(c, res, outcome, &c.engine.leases.jobs, &LEASE_TEXTS):
        return
    while c.jobs.first != NULL:
        j = <LeaseJob*>joblist_take(&c.jobs)
        j.req.status = LEASE_NOT_FOUND
        for row in range(PQntuples(res)):
            if pg_int4(res, row, RENEW_ORD) == i:
                j.req.status = pg_int2(res, row, RENEW_STATUS)
                j.req.expires_us = pg_int8_or(res, row, RENEW_EXPIRES_AT, 0)
                j.req.renewed = pg_int4_or(res, row, RENEW_RENEWED, 0)
                break
        if j.req.status == LEASE_EXTENDED and clock_db_known() and j.req.expires_us <= clock_db_now():
            j.req.status = LEASE_EXPIRED      # this process was suspended for longer than the extension
            j.req.renewed = 0
        if j.req.status == LEASE_EXTENDED:
            lease_extend_fed(&j.req, c.ended_us)
        r = job_end(&j.job)
        r.worker.counters.op[OP_LEASE].items += 1
        leasebody_reply(reply_begin(r, 200, JSON_TYPE), &j.req)
        reply_end(r)
        i += 1
