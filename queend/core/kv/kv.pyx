# Keys and values. In: requests. Out: one statement for many of them, and their answers. Owner: the request's worker; no
# lock. Requests that only read go together; so do requests that write, in waves (kvargs_waves), so that the operations
# on a key run in the order of the requests. A request with a required operation or a list goes alone.

cdef enum:
    KV_CALL_OPS = 512         # operations that share a statement

cdef struct KvCall:
    Call base
    JobQueue* queue
    KvOp** ops
    int n

cdef struct KvJob:
    Job job
    KvReq req

cdef CallTexts KV_TEXTS
KV_TEXTS.event = b"kv_refused"
KV_TEXTS.unknown = b"The database did not answer; whether the keys were written is not known"
KV_TEXTS.refused = b"The keys were not written"
KV_TEXTS.put_off = b"The keys could not be read or written"

cdef JobKind KV_JOB
KV_JOB.op = OP_KV
KV_JOB.refuse = job_refuse

# ---- a request -------------------------------------------------------------------------------------------------------

cdef void kv_submit(Worker* w, Request* r, int route) noexcept nogil:
    r.op = OP_KV
    offload_job(w, r, sizeof(KvJob), kv_read_body, kv_taken)

cdef bint kv_read_body(Request* r, void* job, Tools* t) noexcept nogil:
    if r.route != NULL and r.route.route == ROUTE_KV_KEY:
        return kvpath_read(r, t, &(<KvJob*>job).req)
    return kvbody_read(r.body, t, &(<KvJob*>job).req)

cdef void kv_taken(Worker* w, Request* r, void* job, bint good, ApiError* e) noexcept nogil:
    cdef KvJob* j = <KvJob*>job
    if not good:
        kv_refuse(r, e, j.req.code, j.req.reason)
        return
    if r.grant != NULL and not gate_kv(r, &j.req):
        return
    job_open(&j.job, r, &KV_JOB, r.body.n)
    job_queue(&j.job, &(&engine_of(w).kv_writes if j.req.writes or j.req.lists else &engine_of(w).kv_reads).jobs)

cdef void kv_refuse(Request* r, const ApiError* e, const char* code, const char* reason) noexcept nogil:
    # Answers an error with the words that clients look at: {"error","code","reason","detail"}.
    cdef Buf b
    buf_init(&b)
    buf_text(&b, b"{\"error\":\"")
    buf_text(&b, code)
    buf_text(&b, b"\",\"code\":\"")
    buf_text(&b, code)
    if reason != NULL:
        buf_text(&b, b"\",\"reason\":\"")
        buf_text(&b, reason)
    member_text(&b, b"\",\"detail\":", slice_lit(e.text))
    buf_byte(&b, b'}')
    if b.failed or e.status >= 500:
        reply_error(r, e.status, e.text)
    else:
        reply_raw(r, e.status, slice_lit(JSON_LINES), slice_of(b.data, b.len))
    buf_free(&b)

# ---- the statement ---------------------------------------------------------------------------------------------------

cdef bint kv_reads_send(Engine* e) noexcept nogil:
    cdef KvCall* call = kv_gather(e, &e.kv_reads, STMT_KV_GET)
    cdef KvGetArgs* a = <KvGetArgs*>e.args.at
    cdef int i
    if call == NULL:
        return False
    for i in range(call.n):
        pgarray_bytes(&a.ns, call.ops[i].ns.p, call.ops[i].ns.n)
        pgarray_bytes(&a.key, call.ops[i].key.p, call.ops[i].key.n)
    return call_send(&call.base)

cdef bint kv_writes_send(Engine* e) noexcept nogil:
    cdef KvCall* call = kv_gather(e, &e.kv_writes, STMT_KV_WRITE)
    cdef KvArgs* a = <KvArgs*>e.args.at
    cdef bint requires
    cdef int i
    if call == NULL:
        return False
    requires = (<KvJob*>call.base.jobs.first).req.requires
    if requires:
        call_asks(&call.base, STMT_KV_BUNDLE)
    kvargs_waves(&call.base.arena, call.ops, call.n)
    for i in range(call.n):
        kvargs_encode(a, call.ops[i])
        if requires:
            pgarray_bool(&a.required, call.ops[i].required)
    return call_send(&call.base)

cdef KvCall* kv_gather(Engine* e, JobQueue* q, int statement) noexcept nogil:
    # Opens a call for the first jobs of a queue. NULL: nothing can be sent now.
    cdef KvCall* call = <KvCall*>call_open(e, sizeof(KvCall), statement, &q.limit, kv_done)
    cdef KvJob* j = <KvJob*>q.jobs.first
    cdef int jobs = 0
    cdef int n = 0
    cdef int i
    if call == NULL:
        return NULL
    while j != NULL and jobs < q.linger.max_jobs:
        if jobs and (n + j.req.n > KV_CALL_OPS or kvtype_alone(&j.req) or j.job.isolated):
            break
        jobs += 1
        n += j.req.n
        if kvtype_alone(&j.req) or j.job.isolated:
            break
        j = <KvJob*>j.job.next
    call.ops = <KvOp**>arena_alloc(&call.base.arena, n * sizeof(void*))
    if call.ops == NULL:
        call_drop(&call.base)
        return NULL
    call.queue = q
    while jobs > 0:
        jobs -= 1
        j = <KvJob*>joblist_take(&q.jobs)
        joblist_add(&call.base.jobs, &j.job)
        for i in range(j.req.n):
            j.req.ops[i].row = -1
            j.req.ops[i].rows = 0
            call.ops[call.n] = &j.req.ops[i]
            call.n += 1
    e.worker.counters.op[OP_KV].calls += 1
    return call

# ---- results ---------------------------------------------------------------------------------------------------------

cdef void kv_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef KvCall* call = <KvCall*>c
    cdef KvJob* j
    cdef Request* r
    cdef KvLost lost
    if res == NULL and outcome < SLOT_UNSENT and call.queue is &c.engine.kv_reads and kv_read_again(call):
        return
    if jobs_back(c, res, outcome, &call.queue.jobs, &KV_TEXTS):
        return
    kvargs_scatter(call.ops, call.n, res, KV_OWN, &lost)
    while c.jobs.first != NULL:
        j = <KvJob*>joblist_take(&c.jobs)
        r = job_end(&j.job)
        r.worker.counters.op[OP_KV].items += j.req.n
        j.req.lost = lost
        j.req.res = res
        j.req.columns = KV_OWN
        kv_reply(r, &j.req)

cdef void kv_reply(Request* r, KvReq* q) noexcept nogil:
    cdef char[64] lines
    cdef int status
    if q.path:
        status = kvreply_tag(q, lines, sizeof(lines))
        kvreply_one(reply_begin_more(r, status, JSON_TYPE, lines), q, status)
    elif q.lost.at < 0:
        kvreply_results(reply_begin(r, 200, JSON_TYPE), q)
    else:
        kvreply_lost(reply_begin(r, 200, JSON_TYPE), q)
    reply_end(r)

cdef bint kv_read_again(KvCall* call) noexcept nogil:
    # Sends reads again whose answer was lost. Returns False if one of them has waited too long.
    cdef Engine* e = call.base.engine
    if call.base.ended_us - call.base.jobs.first.born_us > e.patience_us:
        return False
    e.pause_until = call.base.ended_us + TROUBLE_PAUSE_US
    jobs_queue_first(&call.base.jobs, &call.queue.jobs)
    return True
