# The answer to a push request, sent when its last part is finished by its stream or by the failover buffer. In: items
# with status, offset and time. Out: the answer, or the request sent to the failover buffer. Owner: the request's
# worker.

cdef void push_part_home(Worker* w, InboxMsg* m) noexcept nogil:
    push_part_done(<PushPart*>m)

cdef void push_part_done(PushPart* part) noexcept nogil:
    cdef PushJob* j = part.job
    if part.failed > j.failed:
        j.failed = part.failed
        j.said = part.said
    j.parts_left -= 1
    if j.parts_left == 0:
        push_answer(j)

cdef inline bint item_answer(PushItem* it, PushReq* q, Counters* counters) noexcept nogil:
    # Turns the result of a record into the fields of its answer. Returns True if the record is stored.
    it.partition_uuid = it.partition.uuid if it.partition != NULL else NULL
    if it.status == ITEM_DUPLICATE:
        counters.duplicates += 1
        if it.keyed:
            # a repeated push with a key: answered as the first push was, or would have been
            it.status = ITEM_QUEUED
            q.replayed = True
    if it.status <= ITEM_DUPLICATE:
        message_id_make(it.created_us, it.partition.id, it.offset, it.message_id)
    return it.status <= ITEM_DUPLICATE

cdef bint run_answer(PushItem* it, PushReq* q, Counters* counters) noexcept nogil:
    cdef PushRun* run = it.run
    cdef bint stored = False
    cdef int k
    if run.open:
        for k in range(run.n):
            stored = item_answer(&run.items[k], q, counters) or stored
        return stored
    if it.partition != NULL:
        it.partition_uuid = it.partition.uuid
        run.partition_id = it.partition.id
    return it.status <= ITEM_DUPLICATE

cdef int push_mark(PushJob* j, uint8_t of, uint8_t to) noexcept nogil:
    # Changes status `of` of records to status `to`. Returns the number of records changed.
    cdef EachItem at
    cdef PushItem* it
    cdef int n = 0
    each_begin(&at, &j.req)
    it = each_next(&at)
    while it != NULL:
        if it.status == of:
            it.status = to
            n += pushitem_count(it)
        it = each_next(&at)
    return n

cdef void push_answer(PushJob* j) noexcept nogil:
    # Finishes a push whose parts are all finished: answers it, or sends it to the failover buffer.
    if j.drain:
        elsewhere.answered(j)
    elif j.failed == FAILED_UNREACHED and spool.on:
        j.spilled = True
        elsewhere.send(j.job.r.worker, j)
    else:
        push_tell(j)

cdef void push_spilled(Worker* w, InboxMsg* m) noexcept nogil:
    # Answers a push that comes back from the failover buffer.
    cdef PushJob* j = <PushJob*>m
    if j.spill_why == SPILL_KEPT:
        w.counters.buffered += push_mark(j, ITEM_UNREACHED, ITEM_BUFFERED)
    push_tell(j)

cdef void push_spans(Request* r, PushReq* q, int status) noexcept nogil:
    # Writes one span for consecutive items that share their headers, as items of a request without own traceparents do.
    cdef PushItem* it
    cdef PushItem* first = NULL
    cdef int64_t began = span_began(r)
    cdef int n = 0
    cdef int i
    for i in range(q.n):
        it = &q.items[i]
        if it.more == NULL or it.more.headers.n == 0:
            continue
        if first == NULL or it.more.headers.p != first.more.headers.p or not slice_eq(it.queue, first.queue):
            push_span(r, first, began, status, n)
            first = it
            n = 0
        n += pushitem_count(it)
    push_span(r, first, began, status, n)

cdef void push_span(Request* r, PushItem* it, int64_t began, int status, int n) noexcept nogil:
    cdef Slice parent = span_parent(it.more.headers) if it != NULL else slice_of(NULL, 0)
    if parent.p != NULL:
        span_put(r.worker, SPAN_SEND, parent, began, status, n, it.queue, it.part, slice_of(NULL, 0),
                 it.offset if n == 1 and it.status <= ITEM_DUPLICATE else -1)

cdef void push_tell_none(PushJob* j) noexcept nogil:
    # Refuses a push of which no record is known to be stored.
    cdef char[VERDICT_TEXT] text
    cdef Request* r = j.job.r
    cdef const char* why = b"The database did not answer in time"
    if j.said != NULL:
        verdict_text(text, b"Nothing is known to be stored", j.said)
    else:
        if not slotpool_ready(engine_of(r.worker).slots):
            why = doubt_why()
        snprintf(text, sizeof(text), b"%s; nothing is known to be stored, try again", why)
    reply_error(r, 503, text)

cdef void push_tell(PushJob* j) noexcept nogil:
    cdef Request* r = j.job.r
    cdef Counters* counters = &r.worker.counters
    cdef Buf* out
    cdef PushItem* it
    cdef Queue* queue = NULL
    cdef Tally* tally = NULL
    cdef int i
    cdef int n = 0
    cdef bint kept = j.spilled and j.spill_why == SPILL_KEPT
    cdef bint stored = kept
    if j.limited:
        capacity_settle(j)
    for i in range(j.req.n):
        it = &j.req.items[i]
        if it.partition != NULL and it.status <= ITEM_DUPLICATE:
            if it.partition.queue is not queue:
                queue = it.partition.queue
                tally = &queue.tally[r.worker.index]
                tally.push_requests += 1
            tally.push_messages += pushitem_count(it)
        n += pushitem_count(it)
        if it.run != NULL:
            stored = run_answer(it, &j.req, counters) or stored
        else:
            stored = item_answer(it, &j.req, counters) or stored
    if r.worker.spans.every:
        push_spans(r, &j.req, 201 if stored else 503)
    job_end(&j.job)
    counters.op[OP_PUSH].items += n
    if not stored and j.unsealed:
        reply_unsealed(r)
        return
    if not stored and j.spilled and j.spill_why == SPILL_FULL:
        reply_error(r, 503, "The database does not answer and the failover buffer is full; try again")
        return
    if not stored and (j.failed > FAILED_REFUSED or j.spilled):
        push_tell_none(j)
        return
    out = reply_begin_more(r, 201, JSON_TYPE, b"Idempotency-Replayed: true\r\n" if j.req.replayed else b"")
    push_reply(out, &j.req, n)
    reply_end(r)
