# Notices for other daemons, until they leave (peer/peers). In: commits and ends of leases. Out: a table for the first
# worker, each entry once. Owns the outbox, whose two tables take turns. Locks: outbox.lock. Any thread may add, also
# under book.lock. For a daemon alone that costs one branch.

cdef inline void outbox_stored(int32_t partition) noexcept nogil:
    # Notes that messages of the partition were committed.
    if outbox.on:
        outbox_put(<uint32_t>partition, 0)

cdef inline void outbox_freed(int32_t partition, int32_t group) noexcept nogil:
    # Notes that the group's lease of the partition ended before its expiry, and no pop of this process goes on.
    if outbox.on:
        outbox_put(table_pair(group, partition), 0)

cdef inline void outbox_flags(int flags) noexcept nogil:
    if outbox.on:
        outbox_put(0, flags)

cdef void outbox_put(uint64_t key, int flags) noexcept nogil:
    cdef OutboxTable* t
    cdef uint32_t at
    uv_mutex_lock(&outbox.lock)
    t = outbox.now
    t.flags |= flags
    if key and t.n == OUTBOX_MOST:
        t.flags |= NOTICE_LOOK
    elif key:
        at = <uint32_t>(key * <uint64_t>0x9E3779B97F4A7C15 >> 40) % OUTBOX_CELLS
        while t.cells[at] and t.cells[at] != key:
            at = (at + 1) % OUTBOX_CELLS
        if t.cells[at] == 0:
            t.cells[at] = key
            t.at[t.n] = at
            t.n += 1
    if not outbox.posted and leader != NULL:
        outbox.posted = worker_post(leader, &outbox.msg)
    uv_mutex_unlock(&outbox.lock)

cdef OutboxTable* outbox_take(bint done) noexcept nogil:
    # Takes all notices so far, on the first worker; outbox_done gives it back before the next call. done: the message
    # has left the inbox. A heartbeat also takes while it may lie there: put there twice, the message would follow
    # itself for ever.
    cdef OutboxTable* t
    uv_mutex_lock(&outbox.lock)
    t = outbox.now
    outbox.now = &outbox.tables[1] if t is &outbox.tables[0] else &outbox.tables[0]
    if done:
        outbox.posted = False
    uv_mutex_unlock(&outbox.lock)
    return t

cdef void outbox_done(OutboxTable* t) noexcept nogil:
    cdef int i
    for i in range(t.n):
        t.cells[t.at[i]] = 0
    t.n = 0
    t.flags = 0
