# The messages of a pop's answer, in each format. In: claims and their records: rows of the log, the same rows in
# memory, or the items of a push that hands them over. Out: bytes of the answer, and the answer itself with its counts.
# Owner: the worker that writes. Locks: book.lock, to release rows in memory and to give claims back.

# ---- messages --------------------------------------------------------------------------------------------------------

cdef struct Delivery:
    Worker* w
    PopJob* j
    Buf* out
    PopMessage m
    FrameWriter frames
    char[36] lease
    bint framed
    size_t at                 # position in `out` where it begins, for a feed
    int n                     # messages so far
    int64_t last              # offset of the last one

cdef inline const char* delivery_type(PopJob* j) noexcept nogil:
    # Returns the content type of an answer with messages. A pop over several queues is answered in JSON: a framed
    # answer names one queue. So is an answer that says something about conflation.
    if j.req.frames and not j.any_queue and popjob_conflation(j) == CONFLATION_NONE:
        return FRAMES_TYPE
    return EVENTS_TYPE if j.req.events else JSON_TYPE

cdef void delivery_begin(Delivery* d, Worker* w, PopJob* j, Buf* out) noexcept nogil:
    # Begins a delivery of the pop's claims. If `out` is NULL, the answer of the pop's request begins.
    if out == NULL:
        out = reply_begin(j.job.r, 200, delivery_type(j))
    d.w = w
    d.j = j
    d.out = out
    d.n = 0
    d.framed = delivery_type(j) is FRAMES_TYPE
    uuid_format(j.lease, d.lease)
    memset(&d.m, 0, sizeof(d.m))
    d.m.lease = slice_of(d.lease, 36 if not j.req.auto_ack else 0)
    d.m.queue = j.queue.name
    d.m.as_event = j.req.events
    d.m.feed = j.req.feed
    d.m.window = j.req.window
    d.m.conflation = <uint8_t>popjob_conflation(j)
    d.m.claimed = j.n_claims
    d.at = out.len
    if d.m.feed:
        popreply_feed_chunk_open(out, d.m.feed)
    d.m.group = j.group.name
    if d.framed:
        popreply_frames_open(&d.frames, out, &j.req, j.queue.name, j.group.name, d.m.lease, j.n_claims)

cdef void delivery_claim(Delivery* d, Partition* p, int64_t first, int attempt) noexcept nogil:
    # Begins the messages of a claim, from offset `first` of partition p on.
    d.m.partition = p.name
    d.m.partition_uuid = slice_of(p.uuid, 36)
    d.m.attempt = attempt
    if d.framed:
        popreply_frames_claim(&d.frames, p.id, p.name, first, attempt)

cdef void delivery_unseal(Worker* w, Slice queue, PopMessage* m) noexcept nogil:
    # Opens the payload of a message: it is valid until this worker opens the next one. A payload that cannot be opened
    # is delivered as it is stored: it stays intact, and other messages do not wait for it.
    cdef int result = seal_reveal(&w.seal, queue, m.extras.seal, &m.payload)
    if result == SEAL_OPENED:
        w.counters.opened += 1
    elif result == SEAL_PLAIN or result == SEAL_REFUSED:
        w.counters.not_sealed += 1
    else:
        w.counters.left_sealed += 1

cdef void delivery_span(Delivery* d) noexcept nogil:
    # Writes a span from the moment the message was stored to now: how long it waited for its consumer.
    cdef Slice parent = span_parent(d.m.extras.headers)
    if parent.p != NULL:
        span_put(d.w, SPAN_DELIVER, parent, d.m.created_us, 200, 1, d.j.queue.name, d.m.partition, d.j.group.name,
                 d.m.offset)

cdef inline void delivery_message(Delivery* d) noexcept nogil:
    # Writes message d.m. Requires that all its fields are set.
    if d.w.spans.every and d.m.extras.headers.n:
        delivery_span(d)
    if d.m.extras.seal.n or d.j.queue.sealed:
        delivery_unseal(d.w, d.j.queue.name, &d.m)
    if d.framed:
        popreply_frames_message(&d.frames, &d.m)
    elif d.m.feed:
        popreply_feed_put(d.out, &d.m, d.n == 0)
        d.last = d.m.offset
    else:
        popreply_add(d.out, &d.m, d.n == 0)
    d.n += 1

cdef bint delivery_row(Delivery* d, Partition* p, Slice ids, Slice body, Slice meta, int64_t base, int64_t created_us,
                       int stored, int64_t first, int take) noexcept nogil:
    # Writes at most `take` records of a row of the log, from offset `first` on. stored: records in the row. Returns
    # False if the row is in no known format, or memory ran out.
    cdef BatchRow b
    cdef const unsigned char* id
    cdef int i
    if d.j.first_us == 0:
        d.j.first_us = created_us
    # a stored frame does not name its producer: a row with a producer is framed anew
    if (d.framed and body.n and <uint8_t>body.p[0] == BODY_FRAMES and meta.n == 0
            and take >= stored // FRAMED_WASTE):
        popreply_frames_stored(&d.frames, base, created_us, stored, slice_of(body.p + 1, body.n - 1), first + take - 1)
        d.n += take
        return True
    if not batchrow_open(&b, ids, body, meta, stored, &d.w.unzip):
        return False
    batchrow_seek(&b, <int>(first - base))
    d.m.offset = first
    for i in range(take):
        # ids, payload and extras are views into the row
        if not batchrow_record(&b, &id, &d.m.payload, &d.m.extras):
            break
        if d.m.payload.n == 0:      # erased after the claim had looked for deleted records
            d.m.offset += 1
            continue
        memcpy(d.m.record_id, id, 16)
        d.m.created_us = created_us - b.age_us
        if b.message != NULL:
            memcpy(d.m.id, b.message, 16)
        else:
            uuid_message(d.m.created_us, p.id, d.m.offset, d.m.id)
        delivery_message(d)
        d.m.offset += 1
    return True

cdef int delivery_end(Delivery* d) noexcept nogil:
    # Ends a delivery. Returns the number of messages. Marks the answer as failed if memory to unpack or open one was
    # short.
    if d.framed:
        popreply_frames_end(&d.frames)
    elif d.m.feed:
        if d.m.window and d.n:
            popreply_feed_window_close(d.out, &d.m, d.last)
        popreply_feed_chunk_close(d.out, d.m.feed, d.at)
    else:
        if d.n == 0:
            popreply_open(d.out, &d.m)        # no record of it could be read
        popreply_close(d.out, &d.j.req, d.m.conflation)
    if d.w.unzip.short_of_memory or d.w.seal.short_of_memory:
        d.w.unzip.short_of_memory = False
        d.w.seal.short_of_memory = False
        d.out.failed = True
    d.w.counters.delivered_bytes += d.out.len - d.at
    return d.n

# ---- whole answers --------------------------------------------------------------------------------------------------

cdef void delivery_made(Worker* w, PopJob* j, PGresult* res) noexcept nogil:
    # Answers a pop with the claims that were made, and sends the answer. If the client left, the claims are given back.
    # res: the rows of the records; NULL: the rows are in memory, and are released.
    cdef Delivery d
    cdef int i
    cdef int n = 0
    claim_keep(j)
    if not j.client_gone:
        delivery_begin(&d, w, j, NULL)
        for i in range(j.n_claims):
            if res != NULL:
                delivery_rows(&d, &j.claims[i], res)
            else:
                delivery_cached(&d, &j.claims[i])
        n = delivery_end(&d)
    rowcache_release_all(j)
    w.counters.from_memory += n if res == NULL else 0
    if not j.client_gone:
        delivery_send(j, n)
    else:
        claim_give_back(engine_of(w), j)
        popend_forget(j)

cdef void delivery_rows(Delivery* d, Claim* c, PGresult* res) noexcept nogil:
    # Writes a claim from the rows of the statement's result.
    cdef Partition* p = c.cursor.partition
    cdef int row = c.row
    cdef int ord = pg_int4(res, row, POP_ORD)
    delivery_claim(d, p, c.first, pg_int4(res, row, POP_ATTEMPT))
    while row < PQntuples(res) and pg_int4(res, row, POP_ORD) == ord:
        if (not delivery_row(d, p, pg_bytes(res, row, POP_IDS), pg_bytes(res, row, POP_BODY),
                             pg_bytes(res, row, POP_META), pg_int8(res, row, POP_BASE),
                             pg_int8(res, row, POP_CREATED_AT), pg_int4(res, row, POP_N), pg_int8(res, row, POP_FIRST),
                             pg_int4(res, row, POP_TAKE)) and not d.w.unzip.short_of_memory):
            log_line(b"error", b"row_unreadable", b"a row of the log is not in a known format")
        row += 1

cdef void delivery_cached(Delivery* d, Claim* c) noexcept nogil:
    # Writes a claim from rows in memory.
    cdef Partition* p = c.cursor.partition
    cdef CachedRow* r = c.cached
    cdef int64_t first = c.first
    cdef int64_t end
    delivery_claim(d, p, first, 1)
    while r != NULL:
        end = min(c.first + c.take, r.base + r.n)
        if not delivery_row(d, p, r.ids, r.body, r.meta, r.base, r.created_us, r.n, first, <int>(end - first)):
            d.out.failed = True    # memory ran out
            return
        first = end
        r = popjob_next(c, r)

# ---- the answer is sent ----------------------------------------------------------------------------------------------

cdef void delivery_send(PopJob* j, int n) noexcept nogil:
    # Sends the answer with n messages. If memory ran out, none of them is delivered. If this process or the database
    # stood still, the lease may be over: it is given back and the pop is tried again.
    cdef Request* r = j.job.r
    if r.out.failed:
        claim_give_back(engine_of(r.worker), j)
        job_refuse(&j.job, 503, "Out of memory")
        return
    # the claim began after claimed_us
    if not j.req.auto_ack and j.stalls < POP_STALLS and clock_mono_us() - j.claimed_us >= j.lease_us:
        j.stalls += 1
        claim_give_back(engine_of(r.worker), j)
        job_queue(&j.job, &engine_of(r.worker).woken)
        return
    job_done(&j.job)
    j.n_messages = n
    r.on_unsent = popend_unsent
    r.worker.counters.op[OP_POP].items += n
    delivery_tally(j, n)
    reply_end(r)

cdef void delivery_tally(PopJob* j, int n) noexcept nogil:
    # Counts the pop in its queue's tally.
    cdef Worker* w = j.job.r.worker
    cdef Tally* t = &j.queue.tally[w.index]
    cdef int64_t lag = 0
    t.pop_requests += 1
    t.pop_messages += <uint64_t>n
    if n == 0:
        t.pop_empty += 1
        return
    queue_measure(&j.queue.message_bytes, <int64_t>(j.job.r.out.len // <uint64_t>n) + 1)
    queue_measure(&j.queue.answer_bytes, <int64_t>j.job.r.out.len)
    if j.req.auto_ack:
        t.ack_requests += 1
        t.ack_done += <uint64_t>n
    t.lag_n += 1
    if j.first_us:            # 0: a push handed the messages over as it stored them
        lag = clock_db_now() - j.first_us
        if lag > 0:
            t.lag_us += <uint64_t>lag
            if <uint64_t>lag > t.lag_most_us:
                t.lag_most_us = <uint64_t>lag
    counter_add(&w.counters.age, lag)
