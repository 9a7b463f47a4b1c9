# Writes the answer to a push. In: items with their results. Out: a JSON object for each record, in the order of the
# request; or, with format=counts, the number of records of each kind. Stateless, takes no lock.

cdef void pushreply_counts(Buf* b, PushReq* q) noexcept nogil:
    cdef int[ITEM_STATUSES] kinds
    cdef PushItem* it
    cdef int i, k
    memset(kinds, 0, sizeof(kinds))
    for i in range(q.n):
        it = &q.items[i]
        if it.run == NULL:
            kinds[it.status] += 1
        elif not it.run.open:
            kinds[it.status] += it.run.n
        else:
            for k in range(it.run.n):
                kinds[it.run.items[k].status] += 1
    member_int(b, b"{\"count\":", kinds[ITEM_QUEUED] + kinds[ITEM_DUPLICATE] + kinds[ITEM_FAILED]
               + kinds[ITEM_BUFFERED] + kinds[ITEM_UNREACHED])
    member_int(b, b",\"queued\":", kinds[ITEM_QUEUED])
    member_int(b, b",\"duplicate\":", kinds[ITEM_DUPLICATE])
    member_int(b, b",\"error\":", kinds[ITEM_FAILED] + kinds[ITEM_UNREACHED])
    if kinds[ITEM_BUFFERED]:
        member_int(b, b",\"buffered\":", kinds[ITEM_BUFFERED])
    buf_byte(b, b'}')

cdef void pushreply_put(Buf* b, PushReq* q, int records) noexcept nogil:
    cdef PushItem* it
    cdef int i, k
    cdef int n = 0            # number of the record
    if q.counts:
        pushreply_counts(b, q)
        return
    if q.n:
        # about what it will take: growing step by step costs more than writing
        buf_room(b, <size_t>records * (224 + q.items[0].queue.n))
    buf_byte(b, b'[')
    for i in range(q.n):
        it = &q.items[i]
        if it.run == NULL:
            pushreply_item(b, it, n)
            n += 1
        elif it.run.open:
            for k in range(it.run.n):
                pushreply_item(b, &it.run.items[k], n + k)
            n += it.run.n
        else:
            pushreply_run(b, it, n)
            n += it.run.n
    buf_byte(b, b']')

cdef void pushreply_item(Buf* b, PushItem* it, int index) noexcept nogil:
    if index:
        buf_byte(b, b',')
    member_int(b, b"{\"index\":", index)
    buf_text(b, b",\"transaction_id\":")
    pushreply_txid(b, it)
    if it.status <= ITEM_DUPLICATE:
        if it.status == ITEM_QUEUED:
            buf_text(b, b",\"status\":\"queued\",\"message_id\":")
        elif it.of_deleted:
            buf_text(b, b",\"status\":\"duplicate_of_deleted\",\"message_id\":")
        else:
            buf_text(b, b",\"status\":\"duplicate\",\"message_id\":")
        text_uuid(b, it.message_id)
    elif it.status == ITEM_BUFFERED:
        buf_text(b, b",\"status\":\"buffered\",\"queue\":")
        pushreply_queue(b, it)
        member_text(b, b",\"partition\":", it.part)
        if it.id_kind != ID_MADE and not it.keyed:
            buf_text(b, b",\"transactionId\":")
            pushreply_txid(b, it)
    pushreply_tail(b, it)

cdef void pushreply_full(Buf* b, PushItem* it) noexcept nogil:
    buf_text(b, b"\"The queue is full: it holds its maxSize of ")
    buf_int(b, it.offset)
    buf_text(b, b" messages\"")

cdef void pushreply_tail(Buf* b, PushItem* it) noexcept nogil:
    # Writes what the records of one partition have in common.
    if it.status == ITEM_FAILED and it.full:
        buf_text(b, b",\"status\":\"failed\",\"code\":\"queue_full\",\"error\":")
        pushreply_full(b, it)
    elif it.status == ITEM_FAILED:
        buf_text(b, b",\"status\":\"failed\",\"error\":\"The database refused this message\"")
    elif it.status == ITEM_UNREACHED:
        # other items of the request were stored: else the whole request would be answered 503
        buf_text(b, b",\"status\":\"failed\",\"code\":\"unavailable\","
                    b"\"error\":\"The database could not take this message now; try again\"")
    if it.status == ITEM_QUEUED:
        buf_text(b, b",\"partition_id\":\"")
        buf_put(b, it.partition_uuid, 36)
        buf_text(b, b"\",\"trace_id\":")
        if it.has_trace:
            text_uuid(b, it.trace)
        else:
            buf_text(b, b"null")
    buf_text(b, b",\"queueName\":")
    pushreply_queue(b, it)
    pushreply_spread(b, it)
    buf_byte(b, b'}')

cdef inline void pushreply_spread(Buf* b, PushItem* it) noexcept nogil:
    # Writes the partition that the daemon chose: its client does not know it. Buffered items name theirs anyway.
    if it.spread and it.status != ITEM_BUFFERED:
        member_text(b, b",\"partition\":", it.part)

cdef void pushreply_run(Buf* b, PushItem* head, int index) noexcept nogil:
    # Writes a run that is stored as one row, or failed as one. The tail is written once, then copied from the answer
    # itself.
    cdef PushRun* run = head.run
    cdef unsigned char[16] id
    cdef size_t tail_at = 0
    cdef size_t tail_n = 0
    cdef const unsigned char* frame = <const unsigned char*>run.inner.p
    cdef int k
    for k in range(run.n):
        if index:
            buf_byte(b, b',')
        member_int(b, b"{\"index\":", index)
        index += 1
        buf_text(b, b",\"transaction_id\":")
        if run.codec == BODY_FRAMES and not pushreply_id_is_text(frame, run.ids + 16 * k):
            text_escape(b, slice_of(<const char*>frame + FRAME_HEAD, le16(frame + 21)))
        else:
            text_uuid(b, run.ids + 16 * k)
        if head.status == ITEM_QUEUED:
            buf_text(b, b",\"status\":\"queued\",\"message_id\":")
            if run.codec == BODY_FRAMES:
                text_uuid(b, frame + 5)
            else:
                uuid_message(head.created_us, run.partition_id, head.offset + k, id)
                text_uuid(b, id)
        if run.codec == BODY_FRAMES:
            frame += 4 + le32(frame)
        if tail_n == 0:
            tail_at = b.len
            pushreply_tail(b, head)
            tail_n = b.len - tail_at
        elif buf_room(b, tail_n):
            memcpy(b.data + b.len, b.data + tail_at, tail_n)
            b.len += tail_n

cdef inline bint pushreply_id_is_text(const unsigned char* frame, const unsigned char* id) noexcept nogil:
    # Returns True if the transactionId of a message frame is the canonical spelling of its record id.
    if le16(frame + 21) == 0:
        return True
    # the id of a hashed text has version 8, and so may a UUID: then the text is copied as it came
    return le16(frame + 21) == 36 and id[6] >> 4 != 8

cdef inline void pushreply_queue(Buf* b, PushItem* it) noexcept nogil:
    if it.queue_json.p != NULL:
        buf_slice(b, it.queue_json)
    else:
        text_escape(b, it.queue)

cdef inline void pushreply_txid(Buf* b, PushItem* it) noexcept nogil:
    # Writes the transactionId: as the client wrote it, else its text, else the id made here.
    if it.txid_json.p != NULL:
        buf_slice(b, it.txid_json)
    elif it.txid.p != NULL:
        text_escape(b, it.txid)
    else:
        text_uuid(b, it.id)
