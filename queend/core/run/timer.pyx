# When to look again without being woken: jobs that are held, long polls, leases that end, looks, retries.

cdef void engine_arm(Engine* e) noexcept nogil:
    # The timer is only ever moved forward here; firing early costs one look.
    cdef int64_t now
    cdef int64_t next_us = 0
    cdef HeapNode* top = heap_top(&e.deadlines)
    cdef int64_t wait, look_us
    if not e.closing:
        now = clock_mono_us()
        if top != NULL:
            next_us = top.at
        if e.worker.index == 0:
            uv_mutex_lock(&book.lock)
            top = heap_top(&book.due)
            if top != NULL and (next_us == 0 or top.at < next_us):
                next_us = top.at
            if rowcache.first != NULL and (next_us == 0 or rowcache.first.kept_us + ROWCACHE_AGE_US < next_us):
                next_us = rowcache.first.kept_us + ROWCACHE_AGE_US
            uv_mutex_unlock(&book.lock)
            look_us = look_due(&e.discover, e.settings)
            if look_us <= now:
                look_us = now + 20000         # it waits for a connection, or for the end of the one before
            if not e.slots.closing and (next_us == 0 or look_us < next_us):
                next_us = look_us
        if e.hold_us >= 0 and (next_us == 0 or now + e.hold_us < next_us):
            next_us = now + e.hold_us
        if e.pause_until and (next_us == 0 or e.pause_until < next_us):
            next_us = e.pause_until
        if engine_waits(e) and (next_us == 0 or next_us > now + 50000):
            next_us = now + 50000
        if e.settings.workers > 1 and e.worker.index == 0 and (next_us == 0 or next_us > now + 100000):
            next_us = now + 100000        # other workers add due times without telling
        if next_us == 0 or (e.armed_us and e.armed_us <= next_us):
            return
        wait = (next_us - now + 999) // 1000
        if wait < 1:
            wait = 1
        e.armed_us = next_us
        uv_update_time(&e.worker.loop)
        uv_timer_start(&e.timer, engine_on_timer, <uint64_t>wait, 0)

cdef bint engine_waits(Engine* e) noexcept nogil:
    # Work that nobody else will wake: retries, and requests that wait for a database that is away.
    cdef int i
    if (e.want_reload or e.wait_reload.n or e.paused.n or e.woken.n or e.pops.n or e.claims.n or e.leased.n or e.acks.n
            or e.txs.n or e.cycles.n or e.leases.n or e.releases != NULL or e.takebacks != NULL or e.round.running
            or e.resolving.n):
        return True
    if e.worker is boss and spill_waits():
        return True
    for i in range(streams_all):
        if (streams[i].worker is e.worker and streams[i].flying == NULL
                and (streams[i].again != NULL or streams[i].gather != NULL)):
            return True
    return False

cdef void engine_on_timer(uv_timer_t* t) noexcept nogil:
    cdef Engine* e = <Engine*>t.data
    cdef int64_t now = clock_mono_us()
    cdef HeapNode* top
    cdef PopJob* wake = NULL
    e.armed_us = 0
    while True:
        top = heap_top(&e.deadlines)
        if top == NULL or top.at > now:
            break
        heap_del(&e.deadlines, top)
        pop_deadline(e.worker, <PopJob*>top.owner)
    if e.worker.index == 0:
        book_due(now, &wake)
        rowcache_age(now)
        popjobs_wake(e.worker, wake)
        discover_tick(e, now)
    engine_drain(e.worker)

cdef void rowcache_age(int64_t now) noexcept nogil:
    uv_mutex_lock(&book.lock)
    rowcache_evict(now)
    uv_mutex_unlock(&book.lock)

cdef inline void limits_tell(Engine* e) noexcept nogil:
    # For whoever looks at the metrics.
    cdef Counters* c = &e.worker.counters
    c.push_streams = streams_of(e.worker)
    c.pop_limit = e.pop_limit.limit
    c.ack_limit = e.ack_limit.limit
    c.transaction_limit = e.tx_limit.limit
    c.lease_limit = e.lease_limit.limit
