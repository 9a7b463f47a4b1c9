# The drain sends waiting jobs in statements. In: the lists of a worker's engine (run/jobtypes). Out: statements, and
# the timer set for jobs that linger, long polls, lease expiry, looks and retries. Owner: the worker. Locks: book.lock.
# It runs once per loop iteration, after I/O, so that all requests read in one iteration share a call. Each row with
# work is called once; the first row keeps its place, the next four rotate, so that no job type starves.

cdef void drain_turn(Worker* w) noexcept nogil:
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
    if poll_waits(e):
        poll_drain(e)
    if book.rates_at and poll_leads(e):
        rates_drain(e)
    if w is leader and spool.on:
        spill_drain(e)
    if slotpool_ready(e.slots):
        e.unready_since = 0
    elif e.unready_since == 0:
        e.unready_since = clock_mono_us()
    drain_export_limits(e)
    drain_arm(e)

cdef void drain_on_slot_idle(void* owner) noexcept nogil:
    drain_turn((<Engine*>owner).worker)

cdef void drain_run(Engine* e, Drain* d) noexcept nogil:
    if d.lists[0] != NULL and not drain_waits(d) or d.rests and e.pause_until:
        return
    if d.send == NULL:
        d.run(e)
        return
    jobs_expire(e, &d.queue.jobs)
    while linger_fires(e, d.queue) and d.send(e):
        pass

cdef inline bint drain_waits(Drain* d) noexcept nogil:
    # Returns True if one of its lists holds work.
    cdef int i
    for i in range(DRAIN_LISTS):
        if d.lists[i] != NULL and d.lists[i][0] != NULL:
            return True
    return False

cdef void drain_pushes(Engine* e) noexcept nogil:
    # Drains the appenders of this worker.
    cdef int i
    for i in range(appenders_all):
        if appenders[i].worker is e.worker and drain_stream_waits(&appenders[i]):
            appender_drain(&appenders[i])

cdef inline bint drain_stream_waits(Appender* s) noexcept nogil:
    # Returns True if the appender has a batch to send and no statement in flight.
    return s.flying == NULL and (s.resend != NULL or s.gather != NULL)

cdef inline void drain_export_limits(Engine* e) noexcept nogil:
    # Copies the limits to the counters, for the metrics.
    cdef int i
    for i in range(e.n_drains):
        if e.drains[i].queue != NULL and e.drains[i].op != OP_COUNT:
            e.worker.counters.op[e.drains[i].op].limit = e.drains[i].queue.limit.limit

# ---- the timer -------------------------------------------------------------------------------------------------------

cdef void drain_arm(Engine* e) noexcept nogil:
    # Arms the timer for the next due moment. It only moves the timer to an earlier moment; firing early costs one look.
    cdef int64_t now
    cdef int64_t at = INT64_MAX
    cdef HeapNode* top = heap_top(&e.deadlines)
    if e.closing:
        return
    now = clock_mono_us()
    if top != NULL:
        at = top.at
    top = heap_top(&e.memory_deadlines)
    if top != NULL:
        at = min(at, top.at)
    if e.worker.index == 0:
        at = min(at, stripe_due())
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
            at = min(at, e.polling.due_us if e.polling.due_us > now else now + 20000)
            if e.polling.leases_due_us:
                at = min(at, e.polling.leases_due_us if e.polling.leases_due_us > now else now + 20000)
        if e.settings.workers > 1:
            at = min(at, now + 100000)        # other workers add due times without notice
    if e.hold_us != HOLD_NONE:
        at = min(at, now + e.hold_us)
    if e.pause_until:
        at = min(at, e.pause_until)
    if drain_pending(e):
        at = min(at, now + 50000)
    at = max(at, 1)           # a deadline may be 0, which in armed_us means not armed
    if at == INT64_MAX or (e.armed_us and e.armed_us <= at):
        return
    e.armed_us = at
    uv_update_time(&e.worker.loop)
    uv_timer_start(&e.timer, drain_on_timer, <uint64_t>max((at - now + 999) // 1000, 1), 0)

cdef bint drain_pending(Engine* e) noexcept nogil:
    # Returns True if there is work without a later wake-up: retries, and requests that wait for an unavailable
    # database.
    cdef int i
    if e.want_reload or e.wait_reload.n or e.round.running:
        return True
    for i in range(e.n_drains):
        if drain_waits(&e.drains[i]):
            return True
    if e.worker is leader and spool.on and spill_waits():
        return True
    for i in range(appenders_all):
        if appenders[i].worker is e.worker and drain_stream_waits(&appenders[i]):
            return True
    return False

cdef void drain_on_timer(uv_timer_t* t) noexcept nogil:
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
        popend_deadline(e.worker, <PopJob*>top.owner)
    ephjob_tick(e.worker, now)
    if e.worker.index == 0:
        uv_mutex_lock(&book.lock)
        index_expire(now, &wake)
        rowcache_evict(now)
        index_unlock(e.worker, wake)
        poll_tick(e, now)
    drain_turn(e.worker)
