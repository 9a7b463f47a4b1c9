# What queues with a bound hold, as far as it was asked for (push/capacity says how it is counted between answers).
# Guarded by capacity_lock, which is taken alone or below the catalog's, and held across nothing.

cdef uv_mutex_t capacity_lock

cdef void capacity_open() noexcept nogil:
    uv_mutex_init(&capacity_lock)

cdef void capacity_close() noexcept nogil:
    uv_mutex_destroy(&capacity_lock)

cdef int64_t capacity_mark(int32_t queue) noexcept nogil:
    # What this process has stored in the queue so far; what an answer asked for from now on holds at least. Catalog
    # locked.
    cdef Queue* q = catalog_queue_id(queue)
    cdef int64_t stored = 0
    if q != NULL:
        uv_mutex_lock(&capacity_lock)
        stored = q.capacity.stored
        uv_mutex_unlock(&capacity_lock)
    return stored

cdef void capacity_learn(int32_t queue, int64_t size, int32_t most, int64_t mark, int64_t asked_us) noexcept nogil:
    # An answer of queue_sizes; one that was asked for before another that came already is of no use. Catalog locked for
    # writing.
    cdef Queue* q = catalog_queue_id(queue)
    if q == NULL:
        return
    uv_mutex_lock(&capacity_lock)
    q.capacity.wanted = False
    if asked_us > q.capacity.asked_us:
        q.max_size = most     # it may have another bound than when the catalog was loaded
        q.capacity.answer = size - mark
        q.capacity.asked_us = asked_us
        q.capacity.took_us = clock_mono_us() - asked_us
    uv_mutex_unlock(&capacity_lock)
