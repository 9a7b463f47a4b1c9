# Acknowledgments. In: a request. Out: its answer, once all of its items have a result.
# Names become ids; then the request takes the short way without a look into the log (settle/ackleased), or the full one
# (settle/ackcall).

cdef const char* ACK_UNKNOWN = "The database did not answer; whether the acknowledgments took effect is not known"

cdef JobKind ACK_JOB
ACK_JOB.op = OP_ACK
ACK_JOB.ask = ack_ask
ACK_JOB.retry = ack_go
ACK_JOB.refuse = job_refuse
ACK_JOB.reloads = True

cdef void ack_submit(Worker* w, Request* r, int route) noexcept nogil:
    cdef AckJob* j = <AckJob*>arena_zero(&r.arena, sizeof(AckJob))
    cdef BodyRead read = ack_read_body if route == ROUTE_ACK else acks_read_body
    r.op = OP_ACK
    if j == NULL:
        reply_error(r, 503, "Out of memory")
    elif r.body.n < BESIDE_LEAST or not beside_add(w, r, j, read, ack_taken):
        ack_taken(w, r, j, read(r, j, &w.tools), &w.tools.error)

cdef bint ack_read_body(Request* r, void* job, Tools* t) noexcept nogil:
    return ack_parse(r.body, &r.arena, True, t.settings.max_items, &(<AckJob*>job).req, &t.error)

cdef bint acks_read_body(Request* r, void* job, Tools* t) noexcept nogil:
    return ack_parse(r.body, &r.arena, False, t.settings.max_items, &(<AckJob*>job).req, &t.error)

cdef void ack_taken(Worker* w, Request* r, void* job, bint good, ApiError* e) noexcept nogil:
    cdef AckJob* j = <AckJob*>job
    cdef Buf* out
    if not good:
        reply_error(r, e.status, e.text)
        return
    if j.req.n == 0:
        out = reply_begin(r, 200, JSON_TYPE)
        buf_text(out, b"[]")
        reply_end(r)
        return
    job_open(&j.job, r, &ACK_JOB, r.body.n)
    ack_go(engine_of(w), &j.job)

cdef void ackitem_find(AckItem* it, Slice group, bint asked, bint* ask) noexcept nogil:
    # Finds partition and group of one item. Sets `ask` if one is unknown and was not asked for yet. An item that stays
    # unknown keeps partition NULL (the message does not exist) or group NULL (the group does not exist). Requires
    # catalog.lock.
    cdef int32_t id = 0
    if it.partition_id == ACK_PARTITION_UNREAD:
        if it.partition_number > 0 and it.partition_number < 0x7fffffff:
            id = <int32_t>it.partition_number
        elif not code_id_read(catalog.seed, b'p', it.partition_uuid, &id):
            id = ACK_PARTITION_NONE
        it.partition_id = id
    it.partition = NULL
    it.group = NULL
    if it.partition_id == ACK_PARTITION_NONE:
        return
    it.partition = catalog_ids(it.partition_id, group, &it.group)
    if it.group == NULL and not asked:
        ask[0] = True

cdef inline bint ackitem_gone(AckItem* it) noexcept nogil:
    # Returns True if the partition was removed: its id was given by this database and names no partition now. The
    # message was deleted with the partition, which counts as done. A number (of a framed pop) does not identify the
    # database.
    return it.partition == NULL and it.partition_id > 0 and it.partition_number == 0

cdef void ack_go(Engine* e, Job* job) noexcept nogil:
    # Resolves names to ids; then the job waits for its statement, or is answered.
    cdef AckJob* j = <AckJob*>job
    cdef bint ask = False
    cdef AckItem* lacks = NULL
    cdef int i
    cdef AckItem* it
    uv_rwlock_rdlock(&catalog.lock)
    if j.job.server != catalog.server:
        j.job.server = catalog.server
        j.asked = 0
    j.version = catalog.version
    for i in range(j.req.n):
        it = &j.req.items[i]
        if (i and it.partition_id == ACK_PARTITION_UNREAD and it.partition_number == (it - 1).partition_number
                and memcmp(it.partition_uuid, (it - 1).partition_uuid, 16) == 0):
            it.partition_id = (it - 1).partition_id
        ackitem_find(it, j.req.group, j.asked >= ACK_ROUNDS, &ask)
        if lacks == NULL and j.job.r.grant != NULL and not gate_ack(j.job.r, it, j.req.group):
            lacks = it
    uv_rwlock_rdunlock(&catalog.lock)
    if lacks != NULL:
        gate_refuse_pop(job_end(&j.job), lacks.partition.queue.name, j.req.group)
        return
    if ask:
        j.asked += 1
        joblist_add(&e.resolving, &j.job)
        return
    j.pending = 0
    for i in range(j.req.n):
        it = &j.req.items[i]
        it.done = it.partition == NULL or it.status == ACK_OTHER or it.lease_bad
        if not it.done:
            j.pending += 1
        elif ackitem_gone(it) and it.status != ACK_OTHER and not it.lease_bad:
            it.code = ACKED_OK | ACKED_NOOP
        else:                 # an unknown status is refused by itself, without a text
            it.code = (ACKED_NOT_FOUND if it.partition == NULL
                       else ACKED_NOT if it.status == ACK_OTHER else ACKED_BAD_LEASE)
    if j.pending:
        job_queue(&j.job, &e.leased if ack_leased(j) else &e.acks.jobs)
    else:
        ack_answer(j)

cdef void ack_span(Request* r, AckReq* q) noexcept nogil:
    # Writes the span of the acknowledgments, in the trace that the consumer continues.
    cdef Slice parent, state
    cdef Slice none = slice_of(NULL, 0)
    if request_trace(r.headers_raw, &r.arena, &parent, &state):
        span_put(r.worker, SPAN_SETTLE, parent, span_began(r), 200, ackreq_count(q),
                 q.items[0].queue_name if q.n else none, q.items[0].partition_name if q.n else none, q.group, -1)

cdef int ackreq_count(AckReq* q) noexcept nogil:
    # Returns the number of messages that the request is about.
    cdef int i
    cdef int n = 0
    for i in range(q.n):
        n += ackitem_count(&q.items[i])
    return n

cdef void ack_tally(AckReq* q, Worker* w) noexcept nogil:
    # Adds the acknowledgments to the counts of their queues.
    cdef Queue* queue
    cdef Queue* last = NULL
    cdef Tally* t = NULL
    cdef int i
    for i in range(q.n):
        if q.items[i].partition == NULL:
            continue
        queue = q.items[i].partition.queue
        if queue is not last:
            last = queue
            t = &queue.tally[w.index]
            t.ack_requests += 1
        if q.items[i].code & ACKED_OK:
            t.ack_done += <uint64_t>ackitem_count(&q.items[i])
        else:
            t.ack_failed += 1

cdef void ack_answer(AckJob* j) noexcept nogil:
    cdef Request* r = j.job.r
    cdef Buf* out
    cdef int i
    cdef AckItem* it
    for i in range(j.req.n):
        it = &j.req.items[i]
        if it.partition != NULL:
            it.queue_name = it.partition.queue.name
            it.partition_name = it.partition.name
    job_end(&j.job)
    r.worker.counters.op[OP_ACK].items += <uint64_t>ackreq_count(&j.req)
    ack_tally(&j.req, r.worker)
    if r.worker.spans.every and r.asks & ASK_TRACE:
        ack_span(r, &j.req)
    out = reply_begin(r, 200, JSON_TYPE)
    ack_reply(out, &j.req)
    reply_end(r)

cdef void ack_ask(Engine* e, Job* job) noexcept nogil:
    cdef AckJob* j = <AckJob*>job
    cdef int i
    for i in range(j.req.n):
        ackitem_ask(e, &j.req.items[i], j.req.group)

cdef void ackitem_ask(Engine* e, AckItem* it, Slice group) noexcept nogil:
    cdef Group* g
    cdef Partition* p
    if it.partition_id <= 0:
        return
    p = catalog_ids(it.partition_id, group, &g)
    if p == NULL:
        ask_names(e, ASK_NAMES, group, group, it.partition_id)
    elif g == NULL:
        ask_names(e, ASK_GROUPS, p.queue.name, group, p.queue.id)
