# A list of all queues with the number of pops parked on each, for sampled figures (Core.tallies, Core.parked). In:
# catalog and book. Out: that list. Locks: catalog.lock, then book.lock.

cdef int tally_list(TallySeen** out) noexcept nogil:
    # Lists all queues and how many pops are parked on each. Returns their number, -1 if memory ran out. The caller
    # frees the list, and is pinned (base/era) while it uses it.
    cdef Queue* q
    cdef Group* g
    cdef int n = 0
    uv_rwlock_rdlock(&catalog.lock)
    q = catalog.list
    while q != NULL:
        n += 1
        q = q.next
    out[0] = <TallySeen*>malloc(<size_t>(n + 1) * sizeof(TallySeen))
    if out[0] == NULL:
        uv_rwlock_rdunlock(&catalog.lock)
        return -1
    n = 0
    uv_mutex_lock(&book.lock)
    q = catalog.list
    while q != NULL:
        out[0][n].queue = q
        out[0][n].parked = 0
        g = q.group_list
        while g != NULL:
            out[0][n].parked += g.n_wait + g.n_wait_only + g.n_paced
            g = g.next
        n += 1
        q = q.next
    uv_mutex_unlock(&book.lock)
    uv_rwlock_rdunlock(&catalog.lock)
    return n
