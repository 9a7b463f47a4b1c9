# Figures of ephemeral queues as JSON. In: a queue. Out: bytes. Takes no lock: every function requires that of the
# queue's stripe.

cdef void ringreply_options(Buf* b, const EphOptions* o) noexcept nogil:
    member_int(b, b'{"maxBytes":', o.max_bytes)
    member_int(b, b',"maxLength":', o.max_length)
    buf_text(b, b',"policy":"dropOldest"' if o.drops_oldest else b',"policy":"reject"')
    member_int(b, b',"ttlSeconds":', o.ttl_us // 1000000)
    member_int(b, b',"leaseSeconds":', o.lease_us // 1000000)
    member_int(b, b',"retryLimit":', o.retry_limit)
    member_int(b, b',"windowBuffer":{"ms":', o.window_ms)
    member_int(b, b',"count":', o.window_count)
    buf_text(b, b'}}')

cdef void ringreply_queue(Buf* b, EphQueue* q) noexcept nogil:
    # Writes an element of the list of queues.
    member_text(b, b'{"queue":', q.name)
    member_bool(b, b',"tier":"memory","durable":false,"declared":', q.declared)
    member_int(b, b',"depth":', q.n)
    member_int(b, b',"bytes":', q.bytes)
    member_int(b, b',"partitions":', q.n_partitions)
    member_int(b, b',"groups":', q.n_groups)
    member_int(b, b',"waiting":', q.n_wait)
    member_int(b, b',"drops":{"bounds":', q.dropped_bounds)
    member_int(b, b',"ttl":', q.dropped_ttl)
    member_int(b, b',"retry":', q.dropped_retry)
    buf_text(b, b'},"options":')
    ringreply_options(b, &q.options)
    buf_byte(b, b'}')

cdef void ringreply_depth(Buf* b, EphQueue* q, EphGroup* g) noexcept nogil:
    # Writes the depth of a queue. g: the group that it is for; NULL: the messages that the queue holds.
    cdef EphPartition* p = q.first
    cdef EphGroup* one = q.group_first
    cdef EphCursor* c
    cdef int64_t pending
    cdef int n = 0
    buf_text(b, b'"partitions":[')
    while p != NULL:
        c = ring_cursor(g, p) if g != NULL else NULL
        pending = c.pending if c != NULL else p.n
        member_text(b, b'{"partition":' if p is q.first else b',{"partition":', p.name)
        member_int(b, b',"pending":', pending)
        member_int(b, b',"bytes":', p.bytes)
        buf_byte(b, b'}')
        n += pending > 0
        p = p.next
    buf_text(b, b'],"groups":[')
    while one != NULL:
        member_text(b, b'{"group":' if one is q.group_first else b',{"group":', one.name)
        member_int(b, b',"pending":', one.pending)
        member_int(b, b',"leased":', one.leased)
        member_int(b, b',"skipped":', one.skipped)
        buf_byte(b, b'}')
        one = one.next
    member_int(b, b'],"pending":', g.pending if g != NULL else q.n)
    member_int(b, b',"partitionsPending":', n)
    member_int(b, b',"bytes":', q.bytes)
    buf_text(b, b',"tier":"memory","durable":false}')
