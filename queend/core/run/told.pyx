# What was committed in this process, but not by the engine: the control plane's cycles of streams. Any thread.

cdef bint told_head(int32_t partition, int64_t head, PopJob** wake) noexcept nogil:
    # Messages up to `head` exclusive are there. False: the partition is not known.
    cdef Partition* p
    uv_rwlock_rdlock(&catalog.lock)
    p = catalog_partition_id(partition)
    if p != NULL:
        uv_mutex_lock(&book.lock)
        book_head(p, head, wake)
        uv_mutex_unlock(&book.lock)
    uv_rwlock_rdunlock(&catalog.lock)
    return p != NULL

cdef bint told_acked(int32_t partition, int32_t group, int64_t committed, int64_t head, bint released, PopJob** wake) noexcept nogil:
    # A cursor was moved by an acknowledgment. False: it is nobody's here.
    cdef Partition* p
    cdef Group* g = NULL
    uv_rwlock_rdlock(&catalog.lock)
    p = catalog_partition_id(partition)
    uv_mutex_lock(&book.lock)
    if p != NULL:
        g = p.queue.group_list
        while g != NULL and g.id != group:
            g = g.next
    if g != NULL:
        book_acked(g, p, FORGETS_UNKNOWN, released, committed, head, 0, clock_mono_us(), wake)
    uv_mutex_unlock(&book.lock)
    uv_rwlock_rdunlock(&catalog.lock)
    return g != NULL
