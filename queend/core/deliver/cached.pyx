# Pops whose records are in memory: rows are referenced when the candidates are chosen; once the claim is made the
# answer is written from them (settle/claimcall). Rows are guarded by book.lock.

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
        j.taken = <Taken*>arena_alloc(&j.job.r.arena, j.width * sizeof(Taken))
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
