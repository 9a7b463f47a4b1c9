# The answer to a push: one object per item in their order, or how many of each kind.

cdef void push_reply(Buf* b, PushReq* q) noexcept nogil:
    if q.counts:
        push_reply_counts(b, q)
    else:
        push_reply_items(b, q)

cdef void push_reply_counts(Buf* b, PushReq* q) noexcept nogil:
    cdef int[3] kinds
    cdef int i
    memset(kinds, 0, sizeof(kinds))
    for i in range(q.n):
        kinds[q.items[i].status] += 1
    buf_text(b, b"{\"count\":")
    buf_int(b, q.n)
    buf_text(b, b",\"queued\":")
    buf_int(b, kinds[0])
    buf_text(b, b",\"duplicate\":")
    buf_int(b, kinds[1])
    buf_text(b, b",\"error\":")
    buf_int(b, kinds[2])
    buf_byte(b, b'}')

cdef void push_reply_items(Buf* b, PushReq* q) noexcept nogil:
    cdef int i
    cdef PushItem* it
    buf_byte(b, b'[')
    for i in range(q.n):
        it = &q.items[i]
        if i:
            buf_byte(b, b',')
        buf_text(b, b"{\"index\":")
        buf_int(b, i)
        buf_text(b, b",\"transaction_id\":")
        put_txid(b, it)
        if it.status < 2:
            if it.status == 0:
                buf_text(b, b",\"status\":\"queued\",\"message_id\":")
            else:
                buf_text(b, b",\"status\":\"duplicate\",\"message_id\":")
            put_uuid(b, it.message_id)
        else:
            buf_text(b, b",\"status\":\"failed\",\"error\":\"The database refused this message\"")
        if it.status == 0:
            buf_text(b, b",\"partition_id\":\"")
            buf_put(b, it.partition_uuid, 36)
            buf_text(b, b"\",\"trace_id\":")
            if it.has_trace:
                put_uuid(b, it.trace)
            else:
                buf_text(b, b"null")
        buf_text(b, b",\"queueName\":")
        if it.queue_json.p != NULL:
            buf_slice(b, it.queue_json)
        else:
            json_escape(b, it.queue)
        buf_byte(b, b'}')
    buf_byte(b, b']')

cdef inline void put_txid(Buf* b, PushItem* it) noexcept nogil:
    # As the client wrote it, else its text, else the id that was made here.
    if it.txid_json.p != NULL:
        buf_slice(b, it.txid_json)
    elif it.txid.p != NULL:
        json_escape(b, it.txid)
    else:
        put_uuid(b, it.id)
