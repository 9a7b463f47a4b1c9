# The drain sends waiting jobs in statements. It runs once per loop iteration, after I/O, so that all requests read in
# one iteration share a call. Each row (run/kinds) with work is called once; the first four rotate, so that no job type
# starves.
# Then the timer is set for held jobs, long polls, lease expiry, looks and retries.

cdef void engine_drain(Worker* w) noexcept nogil:
    cdef Engine* e = engine_of(w)
    cdef int i
    if e == NULL or e.slots == NULL:
        return
    if e.want_reload and clock_mono_us() >= e.reload_pause:
        reload_send(e)
    if e.wait_reload.n:
        reload_waits(e)
    e.hold_us = HOLD_NONE
    e.rotate += 1
    if e.pause_until and clock_mono_us() >= e.pause_until:
        e.pause_until = 0     # if it is not over, a call failed recently: the timer looks again
    drain_run(e, &e.drains[0])
    for i in range(DRAINS_IN_TURN):
        drain_run(e, &e.drains[DRAIN_FIRST + (e.rotate + i) % DRAINS_IN_TURN])
    for i in range(DRAIN_FIRST + DRAINS_IN_TURN, e.n_drains):
        drain_run(e, &e.drains[i])
    if discover_waits(e):
        discover_drain(e)
    if book.rates_at and discover_leads(e):
        rates_drain(e)
    if w is boss and spool.on:
        spill_drain(e)
    if slotpool_ready(e.slots):
        e.unready_since = 0
    elif e.unready_since == 0:
        e.unready_since = clock_mono_us()
    limits_tell(e)
    engine_arm(e)

cdef void engine_slot_idle(void* owner) noexcept nogil:
    engine_drain((<Engine*>owner).worker)

cdef inline void drain_run(Engine* e, Drain* d) noexcept nogil:
    if (d.lists[0] == NULL or drain_waits(d)) and not (d.rests and e.pause_until):
        d.run(e)

cdef inline bint drain_waits(Drain* d) noexcept nogil:
    # Returns True if one of its lists holds work.
    cdef int i
    for i in range(DRAIN_LISTS):
        if d.lists[i] != NULL and d.lists[i][0] != NULL:
            return True
    return False

cdef void pushes_drain(Engine* e) noexcept nogil:
    # Drains the push streams of this worker.
    cdef int i
    for i in range(streams_all):
        if streams[i].worker is e.worker and stream_waits(&streams[i]):
            stream_drain(&streams[i])

cdef inline bint stream_waits(PushStream* s) noexcept nogil:
    # Returns True if the stream has a batch to send and no statement in flight.
    return s.flying == NULL and (s.again != NULL or s.gather != NULL)

cdef inline void limits_tell(Engine* e) noexcept nogil:
    # Copies the limits to the counters, for the metrics.
    cdef int i
    for i in range(e.n_drains):
        if e.drains[i].queue != NULL:
            e.worker.counters.op[e.drains[i].op].limit = e.drains[i].queue.limit.limit

# ---- the timer -----------------------------------------------------------------------------------------------------

cdef void engine_arm(Engine* e) noexcept nogil:
    # Arms the timer for the next due moment. It only moves the timer to an earlier moment; firing early costs one look.
    cdef int64_t now
    cdef int64_t at = INT64_MAX
    cdef HeapNode* top = heap_top(&e.deadlines)
    if e.closing:
        return
    now = clock_mono_us()
    if top != NULL:
        at = top.at
    if e.worker.index == 0:
        uv_mutex_lock(&book.lock)
        top = heap_top(&book.due)
        if top != NULL:
            at = min(at, top.at)
        if book.rates_at and not e.rates.busy and slotpool_ready(e.slots):
            at = min(at, book.rates_at)
        if rowcache.first != NULL:
            at = min(at, rowcache.first.kept_us + ROWCACHE_AGE_US)
        uv_mutex_unlock(&book.lock)
        if not e.slots.closing:
            # an overdue look waits for a connection, or for the running look
            at = min(at, e.discover.due_us if e.discover.due_us > now else now + 20000)
            if e.discover.leases_due_us:
                at = min(at, e.discover.leases_due_us if e.discover.leases_due_us > now else now + 20000)
        if e.settings.workers > 1:
            at = min(at, now + 100000)        # other workers add due times without notice
    if e.hold_us != HOLD_NONE:
        at = min(at, now + e.hold_us)
    if e.pause_until:
        at = min(at, e.pause_until)
    if engine_waits(e):
        at = min(at, now + 50000)
    at = max(at, 1)           # a deadline may be 0, which in armed_us means not armed
    if at == INT64_MAX or (e.armed_us and e.armed_us <= at):
        return
    e.armed_us = at
    uv_update_time(&e.worker.loop)
    uv_timer_start(&e.timer, engine_on_timer, <uint64_t>max((at - now + 999) // 1000, 1), 0)

cdef bint engine_waits(Engine* e) noexcept nogil:
    # Returns True if there is work without a later wake-up: retries, and requests that wait for an unavailable
    # database.
    cdef int i
    if e.want_reload or e.wait_reload.n or e.round.running:
        return True
    for i in range(e.n_drains):
        if drain_waits(&e.drains[i]):
            return True
    if e.worker is boss and spool.on and spill_waits():
        return True
    for i in range(streams_all):
        if streams[i].worker is e.worker and stream_waits(&streams[i]):
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
