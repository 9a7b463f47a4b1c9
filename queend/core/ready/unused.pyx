# Groups in the order of their last pops, so that cursors have a bound. In: a group when a pop looks at it, or when it
# gets its first cursor. Out: above the bound, groups without a pop in the last 1.5 s, the oldest first; find/bury gives
# them up. The next pop of such a group finds it by its name and scans it, as after a start. Guarded by book.lock.

cdef enum:
    CURSORS_KEPT = 200000     # of all groups together, about 50 MB
    UNUSED_TICKS = 3          # half seconds
    UNUSED_LOOKED = 64        # groups that one tick looks at

cdef inline void group_used(Group* g) noexcept nogil:
    # Puts the group in front, once a tick at most.
    if g.used == book.ticks and g.listed:
        return
    unused_leave(g)
    g.used = book.ticks
    g.listed = True
    g.older = book.used_first
    if g.older != NULL:
        g.older.newer = g
    else:
        book.used_last = g
    book.used_first = g

cdef void unused_leave(Group* g) noexcept nogil:
    if not g.listed:
        return
    if g.newer != NULL:
        g.newer.older = g.older
    else:
        book.used_first = g.older
    if g.older != NULL:
        g.older.newer = g.newer
    else:
        book.used_last = g.newer
    g.newer = NULL
    g.older = NULL
    g.listed = False

cdef bint group_needed(Group* g) noexcept nogil:
    # Returns True if a pop waits for the group or a scan reads it. Also if it has what only it knows: leases of feeds,
    # tokens of rates.
    return (g.n_wait or g.n_wait_only or g.n_paced or g.n_handing or g.n_fed or g.queue.shared
            or g.scan == SCAN_RUNNING or g.scan == SCAN_PAUSED or namewaiters_ask(g))

cdef Group* unused_next() noexcept nogil:
    # Returns the group that was asked for least recently, if it may be given up; it leaves the order. NULL if none may.
    cdef Group* g
    cdef int looked
    for looked in range(UNUSED_LOOKED):
        g = book.used_last
        if g == NULL or book.ticks - g.used < UNUSED_TICKS:
            return NULL
        unused_leave(g)
        if g.dead or g.queue.dead:
            continue          # buried, or its next pop finds it again
        if not group_needed(g):
            return g
        group_used(g)
    return NULL
