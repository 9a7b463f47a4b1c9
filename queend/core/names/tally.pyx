# What each queue did, per worker: plain words that only their worker's thread adds to, a cache line of their own each,
# so nobody waits for anybody. In: answers, as they are written. Out: to whoever samples them (Core.tallies); a torn
# read is a slightly old value. They live as long as the queue's entry in the catalogue.

cdef int tally_workers = 1

cdef Tally* tally_make() noexcept nogil:
    # One per worker, all zero; NULL when memory ran out.
    cdef void* at = aligned_alloc(64, <size_t>tally_workers * sizeof(Tally))
    if at == NULL:
        return NULL
    memset(at, 0, <size_t>tally_workers * sizeof(Tally))
    return <Tally*>at

cdef inline void tally_pop(PopJob* j, Worker* w, int n, size_t bytes) noexcept nogil:
    # Its answer with n messages is written.
    cdef Tally* t
    cdef uint64_t each
    cdef int64_t lag = 0
    if j.queue == NULL:
        return
    t = &j.queue.tally[w.index]
    t.pop_requests += 1
    t.pop_messages += <uint64_t>n
    if n == 0:
        t.pop_empty += 1
        return
    # so large an answer was: more is believed at once, less by and by
    each = bytes // <uint64_t>n + 1
    t.each = each if each > t.each else t.each - ((t.each - each) >> 3)
    if j.req.auto_ack:
        t.ack_requests += 1
        t.ack_done += <uint64_t>n
    t.lag_n += 1
    if j.first_us:            # else a push handed them over as it stored them
        lag = clock_wall_us() - j.first_us
        if lag > 0:
            t.lag_us += <uint64_t>lag
            if <uint64_t>lag > t.lag_most_us:
                t.lag_most_us = <uint64_t>lag
    times_add(&w.counters.age, lag)

cdef void tally_ack(AckReq* q, Worker* w) noexcept nogil:
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
        if q.items[i].code & 1:
            t.ack_done += <uint64_t>ackitem_count(&q.items[i])
        else:
            t.ack_failed += 1

cdef void tally_transaction(TxReq* q, Worker* w) noexcept nogil:
    # Counted for each queue it names one after the other.
    cdef Queue* queue
    cdef Queue* last = NULL
    cdef Partition* p
    cdef int i
    for i in range(q.n):
        p = <Partition*>(q.ops[i].push.partition if q.ops[i].kind == TX_PUSH else q.ops[i].ack.partition)
        queue = p.queue if p != NULL else NULL
        if queue == NULL:
            continue
        if queue is not last:
            last = queue
            queue.tally[w.index].transactions += 1
        if q.ops[i].kind == TX_PUSH:
            queue.tally[w.index].push_messages += 1
        else:
            queue.tally[w.index].ack_done += 1
