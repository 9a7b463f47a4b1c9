# Pops by namespace or task: chooses the queue that is served. In: such a pop; the catalog. Out: its queue and group.
# The group is made in each queue that matches, at most ANY_ASKS at a time. That is done before the first look, and
# again if no other queue has messages. Locks: catalog.lock, then book.lock.

cdef enum:
    ANY_ASKS = 64             # queues in which a round of look-ups makes the group for such a pop

cdef bint popany_matches(PopJob* j, Queue* q) noexcept nogil:
    if q.dead:
        return False
    if j.req.ns.n and not slice_eq(j.req.ns, q.ns):
        return False
    if j.req.task.n and not slice_eq(j.req.task, q.task):
        return False
    return gate_pops(j.job.r, q.name, j.req.group)

cdef bint popany_choose(PopJob* j) noexcept nogil:
    # Chooses a matching queue that has something ready, or may have: the one of the highest priority. Among equals the
    # queue that was passed over most often is chosen. One pop in QUEEND_PRIORITY_SHARE goes to the most passed-over
    # queue of a lower priority. Returns False if the group has to be made first (j.queue: a queue without it). Requires
    # catalog.lock.
    cdef uint32_t share = engine_of(j.job.r.worker).settings.priority_share
    cdef Queue* q = catalog.list
    cdef Group* g
    cdef Group* top = NULL
    cdef Group* low = NULL
    cdef int missing = 0
    while q != NULL:
        if popany_matches(j, q):
            j.known = True
            if catalog_group(q, j.req.group) == NULL:
                j.queue = q
                missing += 1
        q = q.next
    if missing < j.missing:
        j.job.tries = 0       # more queues know the group now: tries begin anew
    j.missing = missing
    if missing and not j.asked:
        return False
    uv_mutex_lock(&book.lock)
    q = catalog.list
    while q != NULL:
        g = popany_ready_group(j, q)
        if g != NULL and (top == NULL or q.priority > top.queue.priority
                          or (q.priority == top.queue.priority and g.passed > top.passed)):
            top = g
        q = q.next
    q = catalog.list if top != NULL else NULL
    while q != NULL:
        g = popany_ready_group(j, q)
        if g != NULL:
            g.passed += 1
            if q.priority < top.queue.priority and (low == NULL or g.passed > low.passed):
                low = g
        q = q.next
    if low != NULL:
        top.favoured += 1
        if share and top.favoured >= share:
            top.favoured = 0
            top = low
    if top != NULL:
        top.passed = 0
        j.queue = top.queue
        j.group = top
    uv_mutex_unlock(&book.lock)
    return top != NULL or missing == 0

cdef inline Group* popany_ready_group(PopJob* j, Queue* q) noexcept nogil:
    # Returns the pop's group of a queue if it has something ready, or was not scanned yet; else NULL. Requires
    # catalog.lock and book.lock.
    cdef Group* g
    if not popany_matches(j, q):
        return NULL
    g = catalog_group(q, j.req.group)
    if g == NULL or g.paused:
        return NULL
    group_used(g)
    if q.shared and rate_empty(g):
        rates_look(rate_next(g), True)        # the pop is woken when there are tokens again
        return NULL
    return g if g.n_ready or g.scan != SCAN_DONE else NULL

cdef bint popany_leased(PopJob* j) noexcept nogil:
    # Returns True if the pop's group has leases in a matching queue. Takes catalog.lock and book.lock.
    cdef Queue* q
    cdef Group* g
    cdef bint held = False
    index_lock_all()
    q = catalog.list
    while q != NULL and not held:
        if popany_matches(j, q):
            g = catalog_group(q, j.req.group)
            held = g != NULL and g.n_leased > 0
        q = q.next
    index_unlock_all(NULL, NULL)
    return held

cdef void popany_ask(Engine* e, PopJob* j) noexcept nogil:
    # Asks for the group in at most ANY_ASKS matching queues without it. Requires catalog.lock.
    cdef Queue* q = catalog.list
    cdef int n = 0
    while q != NULL and n < ANY_ASKS:
        if popany_matches(j, q) and catalog_group(q, j.req.group) == NULL:
            pop_ask_group(e, j, q)
            n += 1
        q = q.next
