# Sizes of queues with a bound, as far as they were asked for; push/capacity counts between answers. In: answers of
# queue_sizes. Out: Queue.capacity. Guarded by capacity_lock, which is taken alone or below catalog.lock, and released
# before any other lock is taken.

cdef uv_mutex_t capacity_lock

cdef void capacity_open() noexcept nogil:
    uv_mutex_init(&capacity_lock)

cdef void capacity_close() noexcept nogil:
    uv_mutex_destroy(&capacity_lock)

cdef int64_t capacity_mark(int32_t queue) noexcept nogil:
    # Returns what this process has stored in the queue so far: an answer asked for from now on holds at least that.
    # Requires catalog.lock.
    cdef Queue* q = catalog_queue_id(queue)
    cdef int64_t stored = 0
    if q != NULL:
        uv_mutex_lock(&capacity_lock)
        stored = q.capacity.stored
        uv_mutex_unlock(&capacity_lock)
    return stored

cdef void capacity_learn(int32_t queue, int64_t size, int32_t most, int64_t mark, int64_t asked_us) noexcept nogil:
    # Takes an answer of queue_sizes, unless one that was asked for later came already. Requires catalog.lock for
    # writing.
    cdef Queue* q = catalog_queue_id(queue)
    if q == NULL:
        return
    uv_mutex_lock(&capacity_lock)
    q.capacity.wanted = False
    if asked_us > q.capacity.asked_us:
        q.max_size = most     # the bound may have changed since the catalog was loaded
        q.capacity.answer = size - mark
        q.capacity.asked_us = asked_us
        q.capacity.took_us = clock_mono_us() - asked_us
    uv_mutex_unlock(&capacity_lock)
