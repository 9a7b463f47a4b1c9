# Leases outside of pop and ack: extension by a client, and giving back what was claimed for one that left.

cdef enum:
    LEASE_ASKS = 256          # looked up at once

cdef struct LeaseJob:
    Job job
    LeaseReq req

cdef struct LeaseCall:
    Engine* engine
    Job* jobs
    int64_t sent_us

cdef void lease_submit(Worker* w, Request* r) noexcept nogil:
    cdef LeaseJob* j = <LeaseJob*>arena_zero(&r.arena, sizeof(LeaseJob))
    cdef ApiError err
    r.op = OP_LEASE
    if j == NULL:
        reply_error(r, 503, "Out of memory")
        return
    if not lease_parse(r.path, r.body, &r.arena, &j.req, &err):
        reply_error(r, err.status, err.text)
        return
    job_open(&j.job, r, OP_LEASE)
    job_move(&j.job, JOB_QUEUED)
    joblist_add(&engine_of(w).lease_asks if r.grant != NULL and r.grant.limited else &engine_of(w).leases, &j.job)

# ---- whose it is ---------------------------------------------------------------------------------------------------

cdef void lease_asks_drain(Engine* e) noexcept nogil:
    # A lease's id names no queue that a token could be held against: the database is asked first.
    cdef Slot* slot
    cdef Params params
    cdef LeaseCall* call
    cdef Job* job
    cdef JobList asked
    if e.lease_asks.n == 0 or e.lease_asks_flying >= 2 or clock_mono_us() < e.pause_until:
        return
    slot = slotpool_take(e.slots)
    if slot == NULL:
        jobs_expire(e, &e.lease_asks)
        return
    call = <LeaseCall*>calloc(1, sizeof(LeaseCall))
    if call == NULL:
        return
    call.engine = e
    pgarray_begin(&e.ask_a, OID_UUID)
    memset(&asked, 0, sizeof(JobList))
    while asked.n < LEASE_ASKS and e.lease_asks.first != NULL:
        job = joblist_take(&e.lease_asks)
        job_move(job, JOB_FLYING)
        pgarray_uuid(&e.ask_a, (<LeaseJob*>job).req.lease)
        joblist_add(&asked, job)
    call.jobs = asked.first
    params_begin(&params)
    params_array(&params, &e.ask_a)
    e.lease_asks_flying += 1
    if not slot_send(slot, STMT_LEASE_QUEUES, &params, lease_asks_done, call, e.deadline_ms):
        e.lease_asks_flying -= 1
        free(call)
        leases_back(&e.lease_asks, &asked)

cdef void lease_asks_done(Slot* slot, void* ctx, PGresult* res, int outcome) noexcept nogil:
    cdef LeaseCall* call = <LeaseCall*>ctx
    cdef Engine* e = call.engine
    cdef Job* job = call.jobs
    cdef Job* following
    cdef int row, i = 0
    cdef int n = PQntuples(res) if outcome == SLOT_OK else 0
    cdef int blame = verdict_of(res).blame
    cdef int64_t now = clock_mono_us()
    cdef bint allowed
    free(call)
    e.lease_asks_flying -= 1
    while job != NULL:
        following = job.next
        if res != NULL and outcome != SLOT_OK and job_again(job, blame, now):
            e.pause_until = now + TROUBLE_PAUSE_US
            job_move(job, JOB_QUEUED)
            joblist_add(&e.lease_asks, job)
        elif outcome != SLOT_OK:
            job_refuse(job, 503, "The database did not answer; the lease was not extended")
        else:
            allowed = True
            for row in range(n):
                if pg_int4(res, row, 0) == i and not grant_allows(job.r.grant, pg_bytes(res, row, 1), VERB_POP):
                    allowed = False
            if allowed:
                job_move(job, JOB_QUEUED)
                joblist_add(&e.leases, job)
            else:
                job_refuse(job, 403, "Insufficient permissions for this queue")
        i += 1
        job = following

cdef void leases_drain(Engine* e) noexcept nogil:
    if e.leases.n == 0 or clock_mono_us() < e.pause_until:
        return
    if not slotpool_ready(e.slots):
        jobs_expire(e, &e.leases)
    while policy_fires(e, &e.lease_policy, &e.leases, &e.lease_limit) and limit_take(&e.lease_limit):
        if not leasecall_send(e):
            limit_give(&e.lease_limit)
            break

cdef bint leasecall_send(Engine* e) noexcept nogil:
    # False: nothing was sent, and all are back in their queue.
    cdef Slot* slot = slotpool_take(e.slots)
    cdef LeaseCall* call
    cdef Params params
    cdef Job* job
    cdef JobList sent
    if slot == NULL:
        return False
    call = <LeaseCall*>calloc(1, sizeof(LeaseCall))
    if call == NULL:
        return False
    call.engine = e
    memset(&sent, 0, sizeof(JobList))
    pgarray_begin(&e.ask_a, OID_UUID)
    pgarray_begin(&e.ask_b, OID_INT4)
    pgarray_begin(&e.ask_c, OID_INT4)
    while sent.n < e.lease_policy.max_jobs and e.leases.first != NULL:
        job = joblist_take(&e.leases)
        job_move(job, JOB_FLYING)
        pgarray_uuid(&e.ask_a, (<LeaseJob*>job).req.lease)
        pgarray_int4(&e.ask_b, (<LeaseJob*>job).req.seconds)
        joblist_add(&sent, job)
    call.jobs = sent.first
    params_begin(&params)
    params_array(&params, &e.ask_a)
    params_array(&params, &e.ask_b)
    params_array(&params, &e.ask_c)
    params_array(&params, &e.ask_c)
    params_array(&params, &e.ask_c)
    e.worker.counters.op[OP_LEASE].calls += 1
    call.sent_us = clock_mono_us()
    if slot_send(slot, STMT_RENEW, &params, leases_done, call, e.deadline_ms):
        return True
    free(call)
    leases_back(&e.leases, &sent)
    return False

cdef void leases_back(JobList* list, JobList* sent) noexcept nogil:
    # What was not sent is the first again.
    cdef Job* job = sent.first
    while job != NULL:
        job_move(job, JOB_QUEUED)
        job = job.next
    sent.last.next = list.first
    sent.n += list.n
    if list.last != NULL:
        sent.last = list.last
    list[0] = sent[0]

cdef void leases_done(Slot* slot, void* ctx, PGresult* res, int outcome) noexcept nogil:
    cdef LeaseCall* call = <LeaseCall*>ctx
    cdef Engine* e = call.engine
    cdef Job* job = call.jobs
    cdef Job* following
    cdef LeaseJob* j
    cdef Request* r
    cdef Buf* out
    cdef int row, i = 0
    cdef int n = PQntuples(res) if outcome == SLOT_OK else 0
    cdef int blame = verdict_of(res).blame
    cdef int64_t now = clock_mono_us()
    limit_done(&e.lease_limit, now, now - call.sent_us, outcome == SLOT_OK)
    free(call)
    while job != NULL:
        following = job.next
        j = <LeaseJob*>job
        if res != NULL and outcome != SLOT_OK and job_again(job, blame, now):
            e.pause_until = now + TROUBLE_PAUSE_US
            job_move(job, JOB_QUEUED)
            joblist_add(&e.leases, job)
        elif outcome != SLOT_OK:
            job_refuse(job, 503, "The database did not answer; whether the lease was extended is not known")
        else:
            j.req.status = 1
            for row in range(n):
                if pg_int4(res, row, RENEW_ORD) == i:
                    j.req.status = pg_int2(res, row, RENEW_STATUS)
                    j.req.expires_us = pg_int8_or(res, row, RENEW_EXPIRES_AT, 0)
                    j.req.renewed = pg_int4_or(res, row, RENEW_RENEWED, 0)
                    break
            r = job.r
            job_move(job, JOB_DONE)
            r.job = NULL
            r.worker.counters.op[OP_LEASE].items += 1
            out = reply_begin(r, 200, JSON_TYPE)
            lease_reply(out, &j.req)
            reply_end(r)
        i += 1
        job = following

# ---- giving back ---------------------------------------------------------------------------------------------------
