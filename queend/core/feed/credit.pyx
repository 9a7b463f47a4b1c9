# Credit of a stream's client: the messages it may have unacknowledged, less those under valid leases. In: answers of
# pops, ends of leases. Out: whether more may be asked for.
# Messages of a lease that this process does not remember count with another lease of the same answer.

cdef inline int feed_least(Feed* f) noexcept nogil:
    # Returns the least credit for a pop: windows are not cut to fit the credit.
    return f.ask.window if f.ask.window else 1

cdef inline bint feed_full(Feed* f) noexcept nogil:
    return f.granted - f.used < feed_least(f)

cdef void feed_note(Feed* f, PopJob* j) noexcept nogil:
    # Counts the messages of an answer against the credit, under their leases.
    cdef int left = j.n_messages
    cdef int i
    cdef Unacked* h
    cdef Cursor* c
    f.worker.counters.streamed += left
    if j.req.auto_ack:
        f.used += left if f.req.feed == FEED_SOCKET else 0
        return
    f.used += left
    uv_mutex_lock(&book.lock)
    for i in range(j.n_cursors):
        c = j.cursors[i]
        h = <Unacked*>table_get(&unacked.table, unacked_key(c)) if c.state == CURSOR_LEASED else NULL
        if h != NULL and memcmp(h.lease, j.lease, 16) == 0 and fed_begin(f, c, j.lease, min(left, h.n)):
            left -= c.fed.n
    if left:
        feed_note_rest(f, j, left)
    f.full = feed_full(f)
    uv_mutex_unlock(&book.lock)

cdef void feed_note_rest(Feed* f, PopJob* j, int left) noexcept nogil:
    # Adds messages of unremembered leases to the first lease of the answer that is remembered. Requires book.lock.
    cdef Cursor* c
    cdef int i
    for i in range(j.n_cursors):
        c = j.cursors[i]
        if c.state == CURSOR_LEASED and c.fed != NULL and c.fed.feed is f:
            c.fed.n += left
            return
    for i in range(j.n_cursors):
        c = j.cursors[i]
        if c.state == CURSOR_LEASED and c.fed == NULL and fed_begin(f, c, j.lease, left):
            return
    f.used -= left            # its lease has ended already

cdef void feed_credited(Worker* w, InboxMsg* m) noexcept nogil:
    # Handles ended leases; frees a feed that was closed meanwhile.
    cdef Feed* f = <Feed*>m
    cdef bint closed
    uv_mutex_lock(&book.lock)
    f.used -= f.returned
    f.returned = 0
    f.full = feed_full(f)
    f.posted = False
    closed = f.closed
    uv_mutex_unlock(&book.lock)
    if closed:
        free(f)
    else:
        conn_dirty(f.r.conn)
