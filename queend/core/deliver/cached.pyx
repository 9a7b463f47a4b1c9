# Pops whose records are in memory: rows are referenced when the candidates are chosen, and the answer is written from
# them once the claim is made. In: candidates. Out: messages. Rows are guarded by book.lock.

cdef bint pop_take_cached(PopJob* j, PopJob** wake) noexcept nogil:
    # A pop has chosen its candidates: can all of them be answered from memory? Then their rows are referenced, and
    # candidates beyond its budget given back. Book locked.
    cdef int64_t stop, got, now
    cdef int left = j.req.batch
    cdef size_t bytes = 0
    cdef int i
    cdef int n = 0
    cdef CachedRow* r
    cdef Taken* t
    if j.job.alone or rowcache.first == NULL or queue_holds_back(j.queue) or j.queue.ttl_us:
        return False
    now = clock_mono_us()
    for i in range(j.n_cursors):
        if j.cursors[i].open or rowcache_find(j.cursors[i].partition, j.cursors[i].next_offset, now) == NULL:
            return False
    if j.taken == NULL:
        j.taken = <Taken*>arena_alloc(&j.job.r.arena, pop_width(j) * sizeof(Taken))
        if j.taken == NULL:
            return False
    while n < j.n_cursors and left and bytes < CLAIM_BYTES:
        t = &j.taken[n]
        r = rowcache_find(j.cursors[n].partition, j.cursors[n].next_offset, now)
        t.row = r
        t.first = j.cursors[n].next_offset
        t.made = False
        stop = t.first
        while r != NULL and left and bytes < CLAIM_BYTES:
            got = r.base + r.n - stop
            if got > left:
                got = left
            stop += got
            left -= <int>got
            bytes += r.bytes
            r.refs += 1
            r = r.newer
        t.take = <int>(stop - t.first)
        n += 1
    for i in range(n, j.n_cursors):
        cursor_move(j.cursors[i], CURSOR_READY, 0)
        book_wake_cursor(j.cursors[i], wake)
    j.n_cursors = n
    return True

cdef inline CachedRow* taken_next(Taken* t, CachedRow* r) noexcept nogil:
    # The claim's row after r, NULL after its last one. What `newer` of the last row points to is not referenced, and
    # may be gone.
    return r.newer if r.base + r.n < t.first + t.take else NULL

cdef void pop_taken_release(PopJob* j) noexcept nogil:
    # The references of all its claims. Book locked.
    cdef CachedRow* r
    cdef CachedRow* newer
    cdef int i
    for i in range(j.n_cursors):
        r = j.taken[i].row
        while r != NULL:
            newer = taken_next(&j.taken[i], r)
            cachedrow_release(r)
            r = newer

cdef void pop_untake(PopJob* j) noexcept nogil:
    uv_mutex_lock(&book.lock)
    pop_taken_release(j)
    uv_mutex_unlock(&book.lock)

cdef int64_t claim_base(Taken* t, int64_t next_offset) noexcept nogil:
    # Where a read may begin once `next_offset`, one of the claim's records or the one after them, follows committed:
    # the row that holds it.
    cdef CachedRow* r = t.row
    while r.base + r.n <= next_offset and r.base + r.n < t.first + t.take:
        r = r.newer
    return next_offset if r.base + r.n <= next_offset else r.base

cdef int claim_write(Engine* e, PopJob* j, Buf* out) noexcept nogil:
    # The messages of the claims that were made; returns how many.
    cdef Delivery d
    cdef Partition* p
    cdef CachedRow* r
    cdef Taken* t
    cdef int64_t stop, first, end
    cdef int i
    delivery_begin(&d, e.worker, j, out, j.n_made)
    for i in range(j.n_cursors):
        t = &j.taken[i]
        if not t.made:
            continue
        p = j.cursors[i].partition
        delivery_claim(&d, p, t.first, 1)
        first = t.first
        stop = t.first + t.take
        r = t.row
        while r != NULL:
            end = stop if stop < r.base + r.n else r.base + r.n
            if not delivery_row(&d, p, r.ids, r.body, r.meta, r.base, r.created_us, r.n, first, <int>(end - first)):
                out.failed = True      # memory ran out
                break
            first = end
            r = taken_next(t, r)
    return delivery_end(&d)

cdef void pop_keep_made(PopJob* j) noexcept nogil:
    # Of its candidates, those whose claims were made.
    cdef int i
    cdef int n = 0
    for i in range(j.n_cursors):
        if j.taken[i].made:
            j.cursors[n] = j.cursors[i]
            if j.req.auto_ack:
                pop_consumed(j, n, j.taken[i].first, j.taken[i].first + j.taken[i].take)
            n += 1
    j.n_cursors = n

cdef void held_cached(Cursor* c, PopJob* j, Taken* t) noexcept nogil:
    # A claim of records in memory was made.
    cdef int64_t stop = t.first + t.take
    cdef int64_t at = t.first
    cdef int64_t upto
    cdef CachedRow* r = t.row
    cdef Held* h = held_begin(c, j.lease, t.first, t.take, claim_base(t, stop), False)
    while h != NULL and r != NULL:
        upto = r.base + r.n if r.base + r.n < stop else stop
        memcpy(h.ids + 16 * (at - t.first), r.ids.p + 16 * (at - r.base), <size_t>(16 * (upto - at)))
        at = upto
        r = taken_next(t, r)
