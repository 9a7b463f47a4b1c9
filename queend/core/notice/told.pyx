# Notices for other daemons, until they leave (peer/leaving). In: commits and ends of leases. Out: a table for the first
# worker, each entry once. For a daemon alone it costs one branch. Any thread may tell, also under book.lock. Locks:
# told.lock.

cdef inline void tell_stored(int32_t partition) noexcept nogil:
    # Notes that messages of the partition were committed.
    if told.on:
        told_put(<uint32_t>partition, 0)

cdef inline void tell_free(int32_t partition, int32_t group) noexcept nogil:
    # Notes that the group's lease of the partition ended before its expiry, and no pop of this process goes on.
    if told.on:
        told_put(<uint64_t><uint32_t>group << 32 | <uint32_t>partition, 0)

cdef inline void tell_flags(int flags) noexcept nogil:
    if told.on:
        told_put(0, flags)

cdef void told_put(uint64_t key, int flags) noexcept nogil:
    cdef ToldTable* t
    cdef uint32_t at
    uv_mutex_lock(&told.lock)
    t = told.now
    t.flags |= flags
    if key and t.n == TOLD_MOST:
        t.flags |= NOTICE_LOOK
    elif key:
        at = told_cell(key)
        while t.cells[at] and t.cells[at] != key:
            at = (at + 1) % TOLD_CELLS
        if t.cells[at] == 0:
            t.cells[at] = key
            t.at[t.n] = at
            t.n += 1
    if not told.posted and boss != NULL:
        told.posted = worker_post(boss, &told.msg)
    uv_mutex_unlock(&told.lock)

cdef inline uint32_t told_cell(uint64_t key) noexcept nogil:
    return <uint32_t>(key * <uint64_t>0x9E3779B97F4A7C15 >> 40) % TOLD_CELLS

cdef ToldTable* told_take(bint done) noexcept nogil:
    # Takes what was told so far, on the first worker; told_done gives it back before the next call. done: the message
    # has left the inbox. A heartbeat also takes while it may lie there: put there twice, the message would follow
    # itself for ever.
    cdef ToldTable* t
    uv_mutex_lock(&told.lock)
    t = told.now
    told.now = &told.tables[1] if t is &told.tables[0] else &told.tables[0]
    if done:
        told.posted = False
    uv_mutex_unlock(&told.lock)
    return t

cdef void told_done(ToldTable* t) noexcept nogil:
    cdef int i
    for i in range(t.n):
        t.cells[t.at[i]] = 0
    t.n = 0
    t.flags = 0

cdef inline NoticeEntry told_entry(const ToldTable* t, int i) noexcept nogil:
    cdef NoticeEntry e
    e.partition = <int32_t><uint32_t>t.cells[t.at[i]]
    e.group = <int32_t>(t.cells[t.at[i]] >> 32)
    return e
