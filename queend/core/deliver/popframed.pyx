# Framed answers of the pop machine: from the rows of a claim, and from the batch of a push that delivers by itself.

cdef int popframed_rows(Engine* e, Buf* out, PopJob* j, PGresult* res, int first_row, int stop_row, int claimed) noexcept nogil:
    # The rows of one request; returns how many messages.
    cdef FrameWriter w
    cdef PopMessage m
    cdef BatchRow b
    cdef Slice body
    cdef char[36] lease
    cdef Cursor* c
    cdef int row, i, ord, take, stored
    cdef int n = 0
    cdef int before = -1
    cdef int64_t base
    uuid_format(j.lease, lease)
    memset(&m, 0, sizeof(m))
    popframes_open(&w, out, &j.req, j.queue.name, j.group.name, slice_of(lease, 36 if not j.req.auto_ack else 0), claimed)
    for row in range(first_row, stop_row):
        ord = pg_int4(res, row, POP_ORD)
        if ord < j.first_cursor or pg_int2(res, row, POP_STATUS) != 1:
            continue
        c = j.cursors[ord - j.first_cursor]
        m.offset = pg_int8(res, row, POP_FIRST)
        if ord != before:
            popframes_claim(&w, c.partition.id, c.partition.name, m.offset, pg_int4(res, row, POP_ATTEMPT))
            before = ord
        m.created_us = pg_int8(res, row, POP_CREATED_AT)
        if j.first_us == 0:
            j.first_us = m.created_us
        body = pg_bytes(res, row, POP_BODY)
        base = pg_int8(res, row, POP_BASE)
        stored = pg_int4(res, row, POP_N)
        take = pg_int4(res, row, POP_TAKE)
        # a stored frame does not name its producer: with one it is written anew
        if body.n and <uint8_t>body.p[0] == BODY_FRAMES and pg_bytes(res, row, POP_META).n == 0 and take >= stored // FRAMED_WASTE:
            popframes_stored(&w, base, m.created_us, stored, slice_of(body.p + 1, body.n - 1), m.offset + take - 1)
            n += take
            continue
        if not batchrow_open(&b, pg_bytes(res, row, POP_IDS), body, pg_bytes(res, row, POP_META), stored, &e.worker.unzip):
            if not e.worker.unzip.short_of_memory:
                log_line(b"error", b"row_unreadable", b"a row of the log is not in a known format")
            continue
        batchrow_seek(&b, <int>(m.offset - base))
        for i in range(take):
            if not batchrow_message(&b, &m):
                break
            m.created_us = pg_int8(res, row, POP_CREATED_AT) - b.age_us
            if b.message != NULL:
                memcpy(m.id, b.message, 16)
            else:
                message_id_make(m.created_us, c.partition.id, m.offset, m.id)
            pop_open(e.worker, j.queue, &m)
            popframes_message(&w, &m)
            m.offset += 1
            n += 1
    popframes_close(&w)
    return n

cdef inline const char* pop_type(PopJob* j) noexcept nogil:
    # Of the answer with messages. A pop over several queues is answered in JSON: a framed one names one queue.
    if j.req.frames and not j.any_queue:
        return FRAMES_TYPE
    return EVENTS_TYPE if j.req.events else JSON_TYPE
