# The engine of one worker: what waits for a statement, and the drain that sends it. Wake sources: submission,
# completion of a statement, the timer (deadlines, due leases, retries), messages of other workers.
#
# The drain runs once per loop iteration, after I/O, so that everything read in one iteration shares a call. It starts
# with another kind each time, so that no kind starves.

cdef struct Engine:
    Worker* worker
    Settings* settings
    SlotPool* slots
    uv_timer_t timer
    bint timer_open
    int64_t armed_us          # when the timer fires, 0 = not armed
    int deadline_ms
    int64_t patience_us       # how long a request waits for a database that is away
    int64_t unready_since
    int64_t pause_until       # after a failed pop or ack call
    bint stopping
    int closing               # steps of closing still to come
    bint want_reload
    int64_t reload_pause
    int rotate
    int64_t queued_jobs
    int64_t queued_bytes
    JobList resolving
    JobList wait_reload
    JobList pops              # with candidates
    JobList woken             # to be tried again
    JobList acks
    JobList txs
    JobList leases
    int tx_flying
    int lease_flying
    Release* releases
    bint release_flying
    Heap deadlines
    Limit pop_limit
    Limit ack_limit
    Limit tx_limit
    Policy pop_policy
    Policy ack_policy
    int64_t hold_us           # until time alone ends a hold, -1: nothing is held
    Round round
    Discover discover
    Table ack_rows
    AckArrays ack_arrays
    AckArrays tx_acks
    PushArrays tx_pushes
    PgArray tx_required
    PgArray a_req, a_part, a_group, a_fresh, r_budget, r_parts, r_auto, r_lease, r_lease_us, r_delay_us, r_window_us
    PgArray ask_a, ask_b, ask_c

cdef uv_mutex_t reload_lock
cdef bint reload_running
cdef int64_t reload_at        # monotonic, when the last one ended
cdef Worker* boss             # the first worker: looks after what is due by time

cdef inline Engine* engine_of(Worker* w) noexcept nogil:
    return <Engine*>w.engine

cdef bint engine_boot(Process* p) noexcept nogil:
    # Before the threads start: what all workers share.
    global reload_running, reload_at
    cdef int i
    catalog_open()
    book_open()
    uv_mutex_init(&reload_lock)
    reload_running = False
    reload_at = 0
    if not streams_open(p.settings.push_streams):
        return False
    for i in range(n_streams):
        streams[i].worker = p.workers[i % p.n]
    statements_open()
    boss = p.workers[0]
    return True

cdef void engine_halt(Process* p) noexcept nogil:
    # After they have ended.
    global boss
    boss = NULL
    streams_close()
    book_close()
    catalog_close()
    uv_mutex_destroy(&reload_lock)

cdef bint engine_open(Worker* w) noexcept nogil:
    cdef Engine* e = <Engine*>calloc(1, sizeof(Engine))
    if e == NULL:
        return False
    w.engine = e
    e.worker = w
    e.settings = w.settings
    e.deadline_ms = w.settings.deadline_ms
    e.patience_us = <int64_t>w.settings.patience_ms * 1000
    limits_open(e)
    uv_timer_init(&w.loop, &e.timer)
    e.timer.data = e
    w.counters.live_handles += 1
    e.slots = slotpool_open(&w.loop, w.settings.conninfo, w.settings.slots, STATEMENTS, STMT_COUNT, e,
                            engine_slot_idle, &w.counters)
    e.want_reload = w.index == 0
    e.discover.look_at = clock_mono_us()
    return e.slots != NULL

cdef void limits_open(Engine* e) noexcept nogil:
    # The slots a stream needs stay out of their reach.
    limit_of_type(e, &e.pop_limit, TYPE_POP)
    limit_of_type(e, &e.ack_limit, TYPE_ACK)
    limit_of_type(e, &e.tx_limit, TYPE_TRANSACTION)
    policy_of_type(e, &e.pop_policy, TYPE_POP, CALL_CURSORS)
    policy_of_type(e, &e.ack_policy, TYPE_ACK, CALL_ACKS)

cdef void policy_of_type(Engine* e, Policy* p, int job_type, int max_items) noexcept nogil:
    # A hold that the operator did not ask for lasts as long as a statement is in flight: the batch clocks itself.
    cdef TypeSettings* t = &e.settings.types[job_type]
    policy_open(p, t.preferred, t.max_jobs, max_items, 1 << 40, <int64_t>t.hold_ms * 1000 if t.hold_ms else -1, t.hold_ms > 0)

cdef bint policy_fires(Engine* e, const Policy* p, JobList* jobs, int in_flight) noexcept nogil:
    cdef int64_t age, wait
    if jobs.n == 0:
        return False
    age = clock_mono_us() - jobs.first.queued_us
    if policy_take(p, jobs.n, age, in_flight):
        return True
    wait = policy_wait(p, jobs.n, age)
    if wait >= 0 and (e.hold_us < 0 or wait < e.hold_us):
        e.hold_us = wait
    return False

cdef void limit_of_type(Engine* e, Limit* l, int job_type) noexcept nogil:
    cdef Settings* s = e.settings
    cdef LimitConfig c
    cdef int most = s.slots - 2 if s.slots > 3 else 1
    memset(&c, 0, sizeof(c))
    c.mode = LIMIT_VEGAS if s.vegas else LIMIT_STATIC
    c.max_concurrent = limit_clamp(s.types[job_type].max_concurrent, 1, most)
    c.min_limit = s.vegas_min_limit
    c.max_limit = s.vegas_max_limit
    c.alpha = s.vegas_alpha
    c.beta = s.vegas_beta
    c.window_samples = s.vegas_window_samples
    c.fastest_window_us = <int64_t>s.vegas_fastest_window_sec * 1000000
    c.interval_us = <int64_t>s.vegas_interval_ms * 1000
    limit_open(l, &c)

cdef void engine_slot_idle(void* owner) noexcept nogil:
    engine_drain((<Engine*>owner).worker)

cdef bint engine_ready() noexcept nogil:
    return catalog.loaded

# ---- in ------------------------------------------------------------------------------------------------------------

cdef void engine_request(Worker* w, Request* r) noexcept nogil:
    cdef Engine* e = engine_of(w)
    cdef int route = route_match(r.method, r.path)
    if route == ROUTE_NONE:
        bridge_submit(r)
        return
    if route == ROUTE_LIVEZ:
        reply_simple(r, 200, b"{\"status\":\"alive\"}")
        return
    if route == ROUTE_READYZ:
        if catalog.loaded and slotpool_ready(e.slots) and not e.stopping:
            reply_simple(r, 200, b"{\"status\":\"ready\"}")
        else:
            reply_simple(r, 503, b"{\"status\":\"not ready\",\"error\":\"The database is not reachable\"}")
        return
    if e.stopping:
        reply_error(r, 503, "The server is shutting down")
        return
    if not catalog.loaded:
        reply_error(r, 503, "The database is not reachable yet")
        return
    if e.queued_jobs >= e.settings.max_queued_jobs or e.queued_bytes >= e.settings.max_queued_bytes:
        reply_error(r, 503, "Too many requests are waiting; try again")
        return
    if route == ROUTE_PUSH:
        push_submit(w, r)
    elif route == ROUTE_ACK:
        ack_submit(w, r, True)
    elif route == ROUTE_ACK_BATCH:
        ack_submit(w, r, False)
    elif route == ROUTE_TRANSACTION:
        tx_submit(w, r)
    elif route == ROUTE_LEASE:
        lease_submit(w, r)
    else:
        pop_submit(w, r, route)

# ---- drain ---------------------------------------------------------------------------------------------------------

cdef void engine_drain(Worker* w) noexcept nogil:
    cdef Engine* e = engine_of(w)
    cdef int i
    cdef int64_t now
    if e == NULL or e.slots == NULL:
        return
    if e.want_reload and clock_mono_us() >= e.reload_pause:
        reload_send(e)
    lookup_drain(e)
    e.hold_us = -1
    e.rotate += 1
    for i in range(4):
        engine_drain_kind(e, (e.rotate + i) & 3)
    leases_drain(e)
    releases_drain(e)
    discover_drain(e)
    if slotpool_ready(e.slots):
        e.unready_since = 0
    elif e.unready_since == 0:
        e.unready_since = clock_mono_us()
    engine_arm(e)

cdef void engine_drain_kind(Engine* e, int kind) noexcept nogil:
    cdef int i
    if kind != 0 and e.pause_until:
        if clock_mono_us() < e.pause_until:
            return            # a call failed just now: the timer looks again
        e.pause_until = 0
    if kind == 0:
        for i in range(n_streams):
            if streams[i].worker is e.worker:
                stream_drain(&streams[i])
    elif kind == 1:
        if e.woken.n or e.pops.n:
            pops_drain(e)
    elif kind == 2:
        if e.acks.n:
            acks_drain(e)
    elif e.txs.n:
        txs_drain(e)

cdef void jobs_expire(Engine* e, JobList* list) noexcept nogil:
    # No connection for too long: whoever waits longer than the patience is told.
    cdef int n = list.n
    cdef Job* job
    cdef int64_t now
    if slotpool_ready(e.slots):
        return
    now = clock_mono_us()
    while n > 0:
        n -= 1
        job = joblist_take(list)
        if now - job.born_us > e.patience_us:
            job_refuse(job, 503, "The database is not reachable")
        else:
            joblist_add(list, job)

# ---- time ----------------------------------------------------------------------------------------------------------

cdef void engine_arm(Engine* e) noexcept nogil:
    # The timer is only ever moved forward here; firing early costs one look.
    cdef int64_t now
    cdef int64_t next_us = 0
    cdef HeapNode* top = heap_top(&e.deadlines)
    cdef int64_t wait
    cdef int i
    if not e.closing:
        now = clock_mono_us()
        if top != NULL:
            next_us = top.at
        if e.worker.index == 0:
            uv_mutex_lock(&book.lock)
            top = heap_top(&book.due)
            if top != NULL and (next_us == 0 or top.at < next_us):
                next_us = top.at
            if book.parked > 0 and (next_us == 0 or e.discover.look_at < next_us):
                next_us = e.discover.look_at
            uv_mutex_unlock(&book.lock)
        if e.hold_us >= 0 and (next_us == 0 or now + e.hold_us < next_us):
            next_us = now + e.hold_us
        for i in range(n_streams):
            if streams[i].worker is e.worker and streams[i].hold_until and streams[i].gather != NULL and (next_us == 0 or streams[i].hold_until < next_us):
                next_us = streams[i].hold_until
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
    if e.want_reload or e.pops.n or e.acks.n or e.txs.n or e.leases.n or e.releases != NULL or e.round.running or e.resolving.n:
        return True
    for i in range(n_streams):
        if streams[i].worker is e.worker and streams[i].flying == NULL and (streams[i].again != NULL or streams[i].gather != NULL):
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
        popjobs_wake(e.worker, wake)
        discover_tick(e, now)
    engine_drain(e.worker)

# ---- reload --------------------------------------------------------------------------------------------------------

cdef void engine_reload(Worker* w) noexcept nogil:
    # The catalog is out of date. One reload at a time in the process; everyone hears of its end.
    engine_of(w).want_reload = True

cdef bint catalog_reload_allowed() noexcept nogil:
    # For names nobody knows: not more often than every 200 ms.
    return clock_mono_us() - reload_at > 200000

cdef void reload_send(Engine* e) noexcept nogil:
    global reload_running
    cdef Slot* slot = slotpool_take(e.slots)
    cdef Params params
    cdef bint mine
    if slot == NULL:
        return
    uv_mutex_lock(&reload_lock)
    mine = not reload_running
    if mine:
        reload_running = True
    uv_mutex_unlock(&reload_lock)
    e.want_reload = False     # when another worker's is running, its end reaches this worker too
    if not mine:
        return
    params_begin(&params)
    if not slot_send(slot, STMT_CATALOG_LOAD, &params, reload_done, e, e.deadline_ms):
        reload_running = False
        e.want_reload = True

cdef void reload_done(Slot* slot, void* ctx, PGresult* res, int outcome) noexcept nogil:
    global reload_running, reload_at
    cdef Engine* e = <Engine*>ctx
    cdef int i
    cdef InboxMsg* m
    if outcome == SLOT_OK:
        catalog_take(res)
    elif outcome == SLOT_ERROR:
        log_line(b"error", b"reload_refused", pg_error(res))
    uv_mutex_lock(&reload_lock)
    reload_running = False
    reload_at = clock_mono_us()
    uv_mutex_unlock(&reload_lock)
    if outcome != SLOT_OK:
        e.want_reload = True
        e.reload_pause = clock_mono_us() + 200000
        return
    book_reloaded(e.worker)
    for i in range(e.settings.workers):
        if i == e.worker.index:
            engine_reloaded(e.worker, NULL)
        else:
            m = <InboxMsg*>calloc(1, sizeof(InboxMsg))
            if m == NULL:
                abort()
            m.run = engine_reloaded
            if not worker_post(e.worker.process.workers[i], m):
                free(m)

cdef void book_reloaded(Worker* w) noexcept nogil:
    # Everyone parked looks again at names and options.
    cdef PopJob* wake = NULL
    cdef Queue* q
    cdef int side
    uv_rwlock_rdlock(&catalog.lock)
    uv_mutex_lock(&book.lock)
    for side in range(2):
        q = catalog.list if side == 0 else catalog.grave
        while q != NULL:
            book_wake_queue(q, &wake)
            q = q.next
    book_wake_strangers(NULL, &wake)
    uv_mutex_unlock(&book.lock)
    uv_rwlock_rdunlock(&catalog.lock)
    popjobs_wake(w, wake)

cdef void engine_reloaded(Worker* w, InboxMsg* m) noexcept nogil:
    cdef Engine* e = engine_of(w)
    cdef Job* job = e.wait_reload.first
    cdef Job* following
    cdef int i
    free(m)
    e.want_reload = False
    memset(&e.wait_reload, 0, sizeof(JobList))
    while job != NULL:
        following = job.next
        job.next = NULL
        job_retry(e, job)
        job = following
    for i in range(n_streams):
        if streams[i].worker is w:
            stream_reloaded(&streams[i])

cdef void engine_notify(Slice name) noexcept nogil:
    # Any thread: the queue has news (an administrator's seek, a peer). Its groups are looked at afresh.
    cdef InboxMsg* m
    cdef PopJob* wake = NULL
    cdef Queue* q
    cdef Group* g
    uv_rwlock_rdlock(&catalog.lock)
    uv_mutex_lock(&book.lock)
    q = catalog_queue(name)
    if q != NULL:
        g = q.group_list
        while g != NULL:
            scan_again(g)
            g = g.next
        book_wake_queue(q, &wake)
    uv_mutex_unlock(&book.lock)
    uv_rwlock_rdunlock(&catalog.lock)
    popjobs_post(wake)
    m = <InboxMsg*>calloc(1, sizeof(InboxMsg))
    if m == NULL or boss == NULL:
        free(m)
        return
    m.run = engine_nudge      # the scans are its business
    if not worker_post(boss, m):
        free(m)

cdef void engine_nudge(Worker* w, InboxMsg* m) noexcept nogil:
    free(m)

# ---- end -----------------------------------------------------------------------------------------------------------

cdef void engine_stop(Worker* w) noexcept nogil:
    # Graceful stop: parked pops are answered, nothing new is taken, what is in flight goes on.
    cdef Engine* e = engine_of(w)
    cdef HeapNode* top
    cdef PopJob* wake = NULL
    e.stopping = True
    uv_rwlock_rdlock(&catalog.lock)
    uv_mutex_lock(&book.lock)
    book_wake_all(&wake)
    uv_mutex_unlock(&book.lock)
    uv_rwlock_rdunlock(&catalog.lock)
    popjobs_wake(w, wake)
    engine_drain(w)

cdef void book_wake_all(PopJob** wake) noexcept nogil:
    cdef Queue* q
    cdef int side
    for side in range(2):
        q = catalog.list if side == 0 else catalog.grave
        while q != NULL:
            book_wake_queue(q, wake)
            q = q.next
    book_wake_strangers(NULL, wake)

cdef bint engine_idle(Worker* w) noexcept nogil:
    cdef Engine* e = engine_of(w)
    cdef int i
    if e.queued_jobs or e.releases != NULL or e.release_flying:
        return False
    for i in range(n_streams):
        if streams[i].worker is w and (streams[i].flying != NULL or streams[i].again != NULL or streams[i].gather != NULL):
            return False
    return True

cdef void engine_close(Worker* w) noexcept nogil:
    # Asynchronous: engine_closed tells when slots and timer are gone.
    cdef Engine* e = engine_of(w)
    if e == NULL or e.closing:
        return
    e.closing = 2
    uv_timer_stop(&e.timer)
    uv_close(<uv_handle_t*>&e.timer, engine_on_timer_closed)
    slotpool_close(e.slots, engine_on_slots_closed, e)

cdef bint engine_closed(Worker* w) noexcept nogil:
    return engine_of(w) == NULL

cdef void engine_on_timer_closed(uv_handle_t* h) noexcept nogil:
    cdef Engine* e = <Engine*>h.data
    e.worker.counters.live_handles -= 1
    engine_closing(e)

cdef void engine_on_slots_closed(void* ctx) noexcept nogil:
    engine_closing(<Engine*>ctx)

cdef void engine_closing(Engine* e) noexcept nogil:
    e.closing -= 1
    if e.closing:
        return
    e.worker.engine = NULL
    heap_free(&e.deadlines)
    table_free(&e.ack_rows)
    ackarrays_free(&e.ack_arrays)
    ackarrays_free(&e.tx_acks)
    pusharrays_free(&e.tx_pushes)
    pgarray_free(&e.tx_required)
    pgarray_free(&e.a_req)
    pgarray_free(&e.a_part)
    pgarray_free(&e.a_group)
    pgarray_free(&e.a_fresh)
    pgarray_free(&e.r_budget)
    pgarray_free(&e.r_parts)
    pgarray_free(&e.r_auto)
    pgarray_free(&e.r_lease)
    pgarray_free(&e.r_lease_us)
    pgarray_free(&e.r_delay_us)
    pgarray_free(&e.r_window_us)
    pgarray_free(&e.ask_a)
    pgarray_free(&e.ask_b)
    pgarray_free(&e.ask_c)
    free(e.discover.found)
    free(e)
