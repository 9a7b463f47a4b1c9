# The ephemeral queues of the daemon by name, in stripes with a lock each. In: names, options, the time. Out: queues,
# locked; pops to wake. Owns the stripes, their queues, and the bounds. Locks: EphStripe.lock, above an inbox's alone.
# Any worker serves any queue. Each request that locks a stripe first applies the ends of leases and messages that are
# due. So does the first worker's timer (run/drain).

cdef EphStripe[EPH_STRIPES] eph_stripes
cdef int64_t eph_lives        # queues ever made, and their resets

cdef EphOptions EPH_DEFAULTS
EPH_DEFAULTS.max_bytes = 16 << 20
EPH_DEFAULTS.max_length = 10000
EPH_DEFAULTS.ttl_us = 0
EPH_DEFAULTS.lease_us = 30000000
EPH_DEFAULTS.retry_limit = 5

# ---- start and end ---------------------------------------------------------------------------------------------------

cdef void stripe_open_all(const Settings* settings) noexcept nogil:
    # Opens the stripes. Requires that no thread has started.
    cdef int i
    memset(&eph_figures, 0, sizeof(EphFigures))
    eph_limits.bytes = settings.ephemeral_bytes
    eph_limits.shared = settings.has_peers
    getrandom(&eph_start, 8, 0)
    memset(eph_stripes, 0, sizeof(eph_stripes))
    for i in range(EPH_STRIPES):
        uv_mutex_init(&eph_stripes[i].lock)
        eph_stripes[i].due_us = INT64_MAX

cdef void stripe_close_all() noexcept nogil:
    # Frees all queues. Requires that the threads have ended.
    cdef EphPop* wake = NULL
    cdef int i
    for i in range(EPH_STRIPES):
        while eph_stripes[i].first != NULL:
            stripe_queue_free(eph_stripes[i].first, &wake)
        table_free(&eph_stripes[i].queues)
        heap_free(&eph_stripes[i].leases)
        heap_free(&eph_stripes[i].ends)
        uv_mutex_destroy(&eph_stripes[i].lock)

# ---- locks -----------------------------------------------------------------------------------------------------------

cdef inline EphStripe* stripe_of(Slice name) noexcept nogil:
    return &eph_stripes[ring_key(name) >> 60]

cdef inline void stripe_lock(EphStripe* s, int64_t now, EphPop** wake) noexcept nogil:
    # Locks a stripe, and applies all ends of leases and messages up to now.
    uv_mutex_lock(&s.lock)
    stripe_expire(s, now, wake)

cdef void stripe_unlock(EphStripe* s) noexcept nogil:
    cdef HeapNode* lease = heap_top(&s.leases)
    cdef HeapNode* end = heap_top(&s.ends)
    cdef int64_t due = lease.at if lease != NULL else INT64_MAX
    if end != NULL:
        due = min(due, end.at)
    atomic_set64(&s.due_us, due)
    uv_mutex_unlock(&s.lock)

cdef void stripe_expire(EphStripe* s, int64_t now, EphPop** wake) noexcept nogil:
    cdef HeapNode* top = heap_top(&s.leases)
    cdef EphQueue* q
    while top != NULL and top.at <= now:
        ring_failed(<EphFlight*>top.owner, wake)
        top = heap_top(&s.leases)
    top = heap_top(&s.ends)
    while top != NULL and top.at <= now:
        q = <EphQueue*>top.owner
        heap_del(&s.ends, top)
        while q.oldest != NULL and q.options.ttl_us and q.oldest.pushed_us + q.options.ttl_us <= now:
            ring_drop(q.oldest)
            q.dropped_ttl += 1
            atomic_add64(&eph_figures.dropped_ttl, 1)
        stripe_ends(q)
        top = heap_top(&s.ends)

cdef void stripe_ends(EphQueue* q) noexcept nogil:
    # Sets when the queue's oldest message expires. The heap has room for each queue of the stripe (stripe_queue).
    heap_del(&q.stripe.ends, &q.ends)
    if q.options.ttl_us and q.oldest != NULL:
        heap_add(&q.stripe.ends, &q.ends, q.oldest.pushed_us + q.options.ttl_us)

cdef int64_t stripe_due() noexcept nogil:
    # Returns when the next lease or message ends, INT64_MAX if there is none. Takes no lock.
    cdef int64_t at = INT64_MAX
    cdef int i
    if atomic_get64(&eph_figures.queues) == 0:
        return at
    for i in range(EPH_STRIPES):
        at = min(at, atomic_get64(&eph_stripes[i].due_us))
    return at

cdef void stripe_tick(int64_t now, EphPop** wake) noexcept nogil:
    # Applies what is due in all stripes.
    cdef int i
    if atomic_get64(&eph_figures.queues) == 0:
        return
    for i in range(EPH_STRIPES):
        if atomic_get64(&eph_stripes[i].due_us) <= now:
            stripe_lock(&eph_stripes[i], now, wake)
            stripe_unlock(&eph_stripes[i])

# ---- queues ----------------------------------------------------------------------------------------------------------

cdef EphQueue* stripe_find(EphStripe* s, Slice name) noexcept nogil:
    # Returns a known queue, NULL if it is unknown. Requires s.lock.
    cdef EphQueue* q = <EphQueue*>table_get(&s.queues, ring_key(name))
    return q if q != NULL and slice_eq(q.name, name) else NULL

cdef EphQueue* stripe_queue(EphStripe* s, Slice name, int64_t now) noexcept nogil:
    # Returns a queue, which it creates if it is unknown. NULL: there is no room. Requires s.lock.
    cdef EphQueue* q = stripe_find(s, name)
    if q != NULL:
        stripe_used(q, now)
        return q
    if (table_get(&s.queues, ring_key(name)) != NULL or not heap_room(&s.ends, s.n + 1)
            or atomic_get64(&eph_figures.queues) >= EPH_QUEUES_MOST):
        return NULL
    q = <EphQueue*>ring_alloc(sizeof(EphQueue) + name.n)
    if q == NULL:
        return NULL
    q.name = slice_of(<char*>q + sizeof(EphQueue), name.n)
    memcpy(<char*>q.name.p, name.p, name.n)
    q.key = ring_key(name)
    if not table_put(&s.queues, q.key, q):
        ring_free(q, sizeof(EphQueue) + name.n)
        return NULL
    q.stripe = s
    q.options = EPH_DEFAULTS
    q.life = atomic_add64(&eph_lives, 1)
    q.ends.owner = q
    q.used_us = now
    link_put(<void**>&s.first, q, <void**>&q.before)
    s.n += 1
    atomic_add64(&eph_figures.queues, 1)
    return q

cdef void stripe_used(EphQueue* q, int64_t now) noexcept nogil:
    # Notes a request for a queue: it goes behind the others that may be forgotten.
    q.used_us = now
    link_take(<void**>&q.stripe.first, q, <void**>&q.before)
    link_put(<void**>&q.stripe.first, q, <void**>&q.before)

cdef int64_t stripe_queue_empty(EphQueue* q) noexcept nogil:
    # Drops all messages of a queue, and voids its leases and ids. Returns the number of messages.
    cdef int64_t n = q.n
    while q.oldest != NULL:
        ring_drop(q.oldest)
    q.life = atomic_add64(&eph_lives, 1)
    stripe_ends(q)
    return n

cdef void stripe_queue_free(EphQueue* q, EphPop** wake) noexcept nogil:
    # Forgets a queue, and wakes its waiting pops, which are answered without messages.
    cdef EphStripe* s = q.stripe
    ring_wake_all(q, True, wake)
    stripe_queue_empty(q)
    while q.group_first != NULL:
        ring_group_free(q.group_first)
    while q.first != NULL:
        ring_partition_free(q.first)
    link_take(<void**>&s.first, q, <void**>&q.before)
    table_del(&s.queues, q.key)
    table_free(&q.named)
    table_free(&q.groups)
    s.n -= 1
    atomic_add64(&eph_figures.queues, -1)
    ring_free(q, sizeof(EphQueue) + q.name.n)

cdef bint stripe_crowded(const EphQueue* q) noexcept nogil:
    # Returns True if a name was refused by a number, False if memory is short. q: NULL if the queue was refused.
    if q == NULL:
        return atomic_get64(&eph_figures.queues) >= EPH_QUEUES_MOST
    return (q.n_partitions >= EPH_PARTITIONS_MOST or q.n_groups >= EPH_GROUPS_MOST
            or (q.n_partitions + 1) * (q.n_groups + 1) > EPH_CURSORS_MOST)

# ---- unused names ----------------------------------------------------------------------------------------------------

cdef enum:
    STRIPE_SWEPT = 1000       # names of a stripe that a tick looks at

cdef void stripe_sweep(EphStripe* s, int64_t now, EphPop** wake) noexcept nogil:
    # Forgets what had no request for EPH_IDLE_US: groups, empty partitions, and empty queues without declared options.
    cdef EphQueue* q
    cdef EphQueue* following
    cdef int left = STRIPE_SWEPT
    stripe_lock(s, now, wake)
    q = s.first
    while q != NULL and left > 0:
        following = q.next
        left -= 1
        while q.group_first != NULL and left > 0 and q.group_first.used_us + EPH_IDLE_US <= now:
            if q.group_first.n_wait or q.group_first.leased:
                ring_group(q, q.group_first.name, now)     # still in use
            else:
                ring_group_free(q.group_first)
            left -= 1
        while q.first != NULL and left > 0 and q.first.used_us + EPH_IDLE_US <= now:
            if q.first.n or q.n_wait:
                ring_partition(q, q.first.name, now)
            else:
                ring_partition_free(q.first)
            left -= 1
        if q.n == 0 and q.n_wait == 0 and not q.declared and q.used_us + EPH_IDLE_US <= now:
            stripe_queue_free(q, wake)
        q = following
    stripe_unlock(s)
