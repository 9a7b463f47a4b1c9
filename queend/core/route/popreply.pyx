# Writes the pieces of a pop's answer as JSON. In: a message, or why there is none. Out: bytes.

cdef void pop_reply_open(Buf* b, const PopMessage* m) noexcept nogil:
    if m.as_event:
        buf_byte(b, b'[')
        return
    member_text(b, b"{\"success\":true,\"queue\":", m.queue)
    member_text(b, b",\"partition\":", m.partition)
    member_raw(b, b",\"partitionId\":\"", m.partition_uuid)
    member_raw(b, b"\",\"leaseId\":\"", m.lease)
    member_text(b, b"\",\"consumerGroup\":", m.group)
    member_int(b, b",\"partitionsClaimed\":", m.claimed)
    buf_text(b, b",\"messages\":[")

cdef inline void pop_reply_add(Buf* b, PopMessage* m, bint first) noexcept nogil:
    # Appends the next message of an answer, which opens with its first one.
    if first:
        pop_reply_open(b, m)
    else:
        buf_byte(b, b',')
    pop_reply_message(b, m)

cdef inline void pop_reply_message(Buf* b, PopMessage* m) noexcept nogil:
    if m.as_event:
        event_put(b, m, True)
    else:
        message_put(b, m)

cdef void message_put(Buf* b, PopMessage* m) noexcept nogil:
    member_uuid(b, b"{\"id\":", m.id)
    buf_text(b, b",\"transactionId\":")
    if m.extras.text.n:
        json_escape(b, m.extras.text)
    else:
        put_uuid(b, m.record_id)
    buf_text(b, b",\"traceId\":")
    if m.extras.trace.n:
        put_uuid(b, <const unsigned char*>m.extras.trace.p)
    else:
        buf_text(b, b"null")
    member_raw(b, b",\"data\":", m.payload)
    buf_text(b, b",\"producerSub\":")
    if m.extras.sub.n:
        json_escape(b, m.extras.sub)
    else:
        buf_text(b, b"null")
    if m.time_us != m.created_us or m.time[0] == 0:
        clock_format(m.created_us, 6, m.time)
        m.time_us = m.created_us
    buf_text(b, b",\"createdAt\":\"")
    buf_put(b, m.time, 27)
    if m.tail_uuid != m.partition_uuid.p or m.tail_attempt != m.attempt or m.tail_n == 0:
        pop_reply_tail(b, m)
    elif buf_room(b, m.tail_n):
        memcpy(b.data + b.len, b.data + m.tail_at, m.tail_n)
        b.len += m.tail_n
    buf_int(b, m.offset)
    if m.extras.headers.n > 2:
        buf_byte(b, b',')     # members as they were stored
        buf_put(b, m.extras.headers.p + 1, m.extras.headers.n - 2)
    if m.extras.due.n == 8:
        buf_text(b, b",\"deliverAt\":")
        put_time(b, extras_due(&m.extras), 6)
    buf_byte(b, b'}')

cdef void pop_reply_tail(Buf* b, PopMessage* m) noexcept nogil:
    # Writes what all messages of one claim have in common, up to the offset: once, then copied from the answer itself.
    m.tail_uuid = m.partition_uuid.p
    m.tail_attempt = m.attempt
    m.tail_at = b.len
    member_raw(b, b"\",\"partitionId\":\"", m.partition_uuid)
    member_text(b, b"\",\"partition\":", m.partition)
    member_raw(b, b",\"leaseId\":\"", m.lease)
    member_text(b, b"\",\"consumerGroup\":", m.group)
    member_text(b, b",\"queue\":", m.queue)
    member_int(b, b",\"deliveryAttempt\":", m.attempt)
    buf_text(b, b",\"offset\":")
    m.tail_n = b.len - m.tail_at

cdef void pop_reply_end(Buf* b, const PopReq* q) noexcept nogil:
    if q.autopilot:
        buf_byte(b, b',')
        autopilot_put(b, q)
    buf_byte(b, b'}')

cdef void pop_reply_close(Buf* b, const PopReq* q) noexcept nogil:
    buf_byte(b, b']')
    if not q.events:
        pop_reply_end(b, q)

cdef void pop_reply_empty(Buf* b, const PopReq* q, int why, const char* uuid, const char* reason) noexcept nogil:
    # Writes an empty answer, one form per reason. A pop that was willing to wait, however short, is told that its time
    # is over. Events: an empty array.
    if q.events:
        buf_text(b, b"[]")
        return
    if q.wait:
        why = WHY_EXPIRED
    if why == WHY_EXPIRED or why == WHY_WINDOW or why == WHY_NOTHING:
        member_text(b, b"{\"success\":true,\"queue\":", q.queue)
        member_text(b, b",\"partition\":", q.partition)
        buf_text(b, b",\"partitionId\":")
        if uuid != NULL and why != WHY_EXPIRED:
            buf_byte(b, b'"')
            buf_put(b, uuid, 36)
            buf_text(b, b"\",\"leaseId\":\"\"")
        else:
            buf_text(b, b"null,\"leaseId\":null")
        member_text(b, b",\"consumerGroup\":", q.group)
        if why == WHY_NOTHING:
            buf_text(b, b",\"partitionsClaimed\":0")
        if why == WHY_WINDOW:
            buf_text(b, b",\"windowBufferActive\":true")
        buf_text(b, b",\"messages\":[]")
    elif why == WHY_LEASE_HELD:
        buf_text(b, b"{\"success\":false,\"error\":\"lease_held\",\"messages\":[]")
    elif why == WHY_NOT_FOUND:
        buf_text(b, b"{\"success\":false,\"error\":\"partition_not_found\",\"messages\":[]")
    else:
        buf_text(b, b"{\"success\":false,\"error\":\"no_available_partition\",\"messages\":[]")
    buf_text(b, b",\"reason\":\"")
    buf_text(b, reason)
    buf_byte(b, b'"')
    pop_reply_end(b, q)
