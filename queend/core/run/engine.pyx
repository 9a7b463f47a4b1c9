# The engine of one worker, as the rooms of sockets call it through `service`: its start, the requests it takes, its
# ticks, its end. In: complete requests. Out: jobs and refusals; /readyz. Owns the Engine (its worker's), and starts and
# ends the parts that all workers share. Locks: catalog.lock, then book.lock. The drain (run/drain) is run by requests,
# ends of statements, the timer (deadlines, lease expiry, retries) and messages of other workers.

cdef void engine_service() noexcept nogil:
    # Fills in `service`: a complete request enters the engine here, a turn of the loop drains it (run/drain). Requires
    # that nothing of the process has started.
    service.boot = engine_boot
    service.halt = engine_halt
    service.connect = engine_connect
    service.open = engine_open
    service.turn = engine_turn
    service.reclaim = reclaim_turn
    service.tick = engine_tick
    service.stop = engine_stop
    service.idle = engine_idle
    service.left = stopreport_write
    service.close = engine_close
    service.forsake = bridge_abandon
    service.request = engine_request
    service.guarded = grants.on
    service.open_to_all = gate_skips
    service.early = gate_early
    service.refuse = gate_early_refuse
    service.verify = bridge_send
    service.fed = feed_answered
    service.flow = feed_flow
    service.heard = websocket_receive

# ---- start -----------------------------------------------------------------------------------------------------------

cdef bint engine_boot(Process* p) noexcept nogil:
    # Starts the parts that all workers share. Requires that no thread has started.
    global reload_running, reload_at, reload_of, leader, tally_workers
    tally_workers = p.n
    failover_hooks.send = spill_send
    failover_hooks.answered = refill_answered
    failover_hooks.retry = refill_retry
    memset(&refill, 0, sizeof(refill))     # a stop that could not wait may have left a chunk in flight
    clock_db_open()
    catalog_open()
    index_open()
    idset_open(p.settings.dedupe_bytes)
    rowcache.most = <size_t>p.settings.cache_bytes
    uv_mutex_init(&capacity_lock)
    uv_mutex_init(&reload_lock)
    incarnation_open(reload_forget_all)
    health_open()
    stripe_open_all(&p.settings)
    reload_running = False
    reload_at = 0
    reload_of = 0
    if not appender_open(p):
        return False
    statements_open()
    leader = p.workers[0]
    return True

cdef bint engine_open(Worker* w) noexcept nogil:
    cdef Engine* e = <Engine*>calloc(1, sizeof(Engine))
    if e == NULL:
        return False
    w.engine = e
    e.worker = w
    e.settings = w.settings
    e.patience_us = <int64_t>w.settings.patience_ms * 1000
    e.pack.least = w.settings.compress_from
    w.counters.op[OP_PUSH].limit = appender_count(w)
    jobtypes_queues(e)
    jobtypes_drains(e)
    uv_timer_init(&w.loop, &e.timer)
    e.timer.data = e
    w.counters.live_handles += 1
    e.slots = slotpool_open(&w.loop, w.settings.conninfo, w.settings.session, w.settings.slots, STATEMENTS, STMT_COUNT,
                            e, drain_on_slot_idle, &w.counters)
    if e.slots != NULL:
        e.slots.on_server = reload_on_server
        e.slots.free_streams = appender_count(w)
    e.want_reload = w.index == 0
    e.version = VERSION_NONE      # 0 would mean: not checked
    if e.slots != NULL and w.process.connects:
        slotpool_connect(e.slots)
    if e.slots != NULL and w is leader:
        peers_open(e)
    return e.slots != NULL

cdef void engine_connect(Worker* w, InboxMsg* m) noexcept nogil:
    # Connects: the database fits this program.
    if not engine_of(w).closing:
        slotpool_connect(engine_of(w).slots)

# ---- requests --------------------------------------------------------------------------------------------------------

cdef void engine_request(Worker* w, Request* r) noexcept nogil:
    cdef Engine* e = engine_of(w)
    cdef const HotRoute* route = r.route
    if origin_rules.guards and not origin_admits(r, route != NULL and route.tells):
        return
    if route == NULL:
        if r.body.n < OFFLOAD_LEAST or not offload_add(w, r, NULL, engine_values_read, engine_values_taken):
            engine_values_taken(w, r, NULL, engine_values_read(r, NULL, &w.tools), &w.tools.error)
        return
    if route.tells:
        route.submit(w, r, route.route)
        return
    if e.stopping and (r.conn == NULL or r.conn.asked == ASKED_MANY):
        reply_error(r, 503, "The server is shutting down")      # the first request of a connection is served
        return
    if not catalog.loaded and not route.memory and not (spool.on and route.buffered):
        reply_error(r, 503, health_why())
        return
    if job_full(e, r.conn):
        reply_error(r, 503, "Too many requests are waiting; try again")
        return
    if route.delivers and budget_unsent_full(r.conn, 1):
        reply_error(r, 503, UNSENT_TEXT)
        return
    if grants.on and not gate_passes(r, route):
        return
    if r.query.n and route.query != NULL and not typo_query(r.query, route.query, &r.arena, &w.tools.error):
        reply_error(r, w.tools.error.status, w.tools.error.text)
        return
    route.submit(w, r, route.route)

cdef bint engine_values_read(Request* r, void* job, Tools* t) noexcept nogil:
    # Returns True if the body for the control plane has few enough values.
    return not json_crowded(r.body)

cdef void engine_values_taken(Worker* w, Request* r, void* job, bint good, ApiError* e) noexcept nogil:
    if not good:
        reply_error(r, 413, b"The request body has too many values")
    elif r.conn == NULL:
        reply_empty(r)   # the client left meanwhile
    else:
        bridge_send(r, False)

# ---- readiness -------------------------------------------------------------------------------------------------------

cdef void engine_readyz(Worker* w, Request* r, int route) noexcept nogil:
    # Answers /readyz, which promises that pushes are accepted. `reason` says why they are buffered.
    cdef const char* why = engine_unready(w.process)
    cdef char[160] text
    if why == NULL:
        reply_simple(r, b"{\"status\":\"ready\"}")
    elif spool.on and not w.process.stopping and not atomic_get64(&doubt.buffer):
        snprintf(text, sizeof(text), b'{"status":"buffering","reason":"%s"}', why)
        reply_simple(r, text)
    else:
        reply_unhealthy(r, b"not ready", why)

cdef const char* engine_unready(Process* p) noexcept nogil:
    # Returns why requests cannot be served, NULL if they can. It covers all workers, so that every connection gets the
    # same answer, whichever worker has it. Any thread.
    cdef int64_t doubts = engine_doubts(p)
    if p.stopping:
        return b"The server is shutting down"
    if not engine_ready(p):
        return health_why()
    if doubts & DOUBT_SILENT:
        return b"The database does not answer"
    if doubts & DOUBT_DISK:
        return b"The database has no space on its disk"
    if doubts & DOUBT_COMMITS:
        return b"The database commits nothing"
    if doubts & DOUBT_BUFFER and spool.gate == GATE_SHUT:
        return b"The failover buffer is full"
    return NULL

cdef int64_t engine_doubts(Process* p) noexcept nogil:
    # Returns the DOUBT_* bits of all workers together. Any thread.
    cdef int64_t doubts = 0
    cdef int64_t now = clock_mono_us()
    cdef int64_t since
    cdef int64_t connected = 0
    cdef int i
    for i in range(p.n):
        since = atomic_get64(&p.workers[i].counters.silent_since)
        if since and now // 1000 - since > DOUBT_SILENT_MS:
            doubts |= DOUBT_SILENT
        connected += atomic_get64(&p.workers[i].counters.connected)
    if connected == 0:
        doubts |= DOUBT_AWAY | atomic_get64(&doubt.why)
    since = atomic_get64(&doubt.disk_us)
    if since and now - since < DOUBT_DISK_US:
        doubts |= DOUBT_DISK
    if atomic_get64(&doubt.buffer):
        doubts |= DOUBT_BUFFER
    if atomic_get64(&doubt.commits) and not doubts & DOUBT_AWAY and (health_answered(now) or not doubts & DOUBT_SILENT):
        # A worker whose statements all wait for their commits gets no answer, while others do.
        doubts = doubts & ~(<int64_t>DOUBT_SILENT) | DOUBT_COMMITS
    return doubts

cdef bint engine_ready(Process* p) noexcept nogil:
    # Returns True if every worker has a connection and the catalog is loaded. Any thread.
    cdef int i
    for i in range(p.n):
        if atomic_get64(&p.workers[i].counters.connected) == 0:
            return False
    return catalog.loaded

# ---- turns and ticks -------------------------------------------------------------------------------------------------

cdef void engine_turn(Worker* w) noexcept nogil:
    # Runs when a turn of the loop has read and run what was ready.
    cdef Engine* e = engine_of(w)
    if e != NULL and e.slots != NULL:
        slotpool_turn(e.slots)
        drain_turn(w)

cdef void engine_tick(Worker* w) noexcept nogil:
    # Maintains connections, streams and parked pops. Called twice a second.
    cdef Engine* e = engine_of(w)
    cdef bint cleared
    bridge_tick(w)
    if e != NULL and not e.closing:
        slotpool_sweep(e.slots)
        engine_borrow(e)
        poll_sweep(e)
    if e != NULL:
        if w is leader:
            ephjob_sweep(w)
        feed_tick(e)
        cleared = e.grants_seen != atomic_get64(&grants_epoch)
        if cleared:           # the tokens of streams are verified again, too
            e.grants_seen = atomic_get64(&grants_epoch)
            feed_check_all(e)
        if cleared or service.guarded:
            popend_verify_all(e)
            ephjob_verify_all(e)
        if epoch_blocked:
            popend_renew(e)
    reclaim_tick(w)

cdef void engine_borrow(Engine* e) noexcept nogil:
    # Asks another worker to give up a connection, if the server is out of connections and this worker has none.
    cdef int64_t now = clock_mono_us()
    if slotpool_ready(e.slots) or atomic_get64(&doubt.why) != DOUBT_CROWDED or now - e.borrowed_us < BORROW_US:
        return
    e.borrowed_us = now
    engine_lend(e.worker.process)

cdef bint engine_lend(Process* p) noexcept nogil:
    # Lets the worker with most connections close one for some seconds, so that another worker gets it. Returns False if
    # memory ran out. Any thread.
    cdef int i
    cdef int most = 0
    for i in range(p.n):
        if atomic_get64(&p.workers[i].counters.connected) > atomic_get64(&p.workers[most].counters.connected):
            most = i
    return worker_call(p.workers[most], engine_spare)

cdef void engine_spare(Worker* w, InboxMsg* m) noexcept nogil:
    free(m)
    if engine_of(w) != NULL and not engine_of(w).closing:
        slotpool_spare(engine_of(w).slots)

cdef void engine_look() noexcept nogil:
    # Starts a look: another program committed something that this process was not told of. Any thread.
    notice_flags(NOTICE_LOOK)
    waiters_post_leader(engine_on_look)

cdef void engine_on_look(Worker* w, InboxMsg* m) noexcept nogil:
    cdef Polling* d = &engine_of(w).polling
    free(m)
    d.due_us = 0
    poll_tick(engine_of(w), clock_mono_us())          # or at the next tick

# ---- end -------------------------------------------------------------------------------------------------------------
# A graceful stop answers waiting pops and lets statements in flight finish; closing frees slots and memory.

cdef void engine_stop(Worker* w) noexcept nogil:
    # Begins a graceful stop: answers parked pops and takes no new work; statements in flight go on.
    cdef Engine* e = engine_of(w)
    cdef PopJob* wake = NULL
    e.stopping = True
    index_lock_all()
    reload_wake_queues(True, &wake)
    waiters_name_wake_all(False, &wake)
    index_unlock_all(w, wake)
    feed_check_all(e)
    ephjob_stop(w)
    drain_turn(w)

cdef bint engine_idle(Worker* w) noexcept nogil:
    cdef Engine* e = engine_of(w)
    cdef int i
    if (e.queued_jobs or e.releases.first != NULL or e.releases.limit.in_flight or e.takebacks.first != NULL
            or e.takebacks.limit.in_flight):
        return False
    if w is leader and spill_busy():
        return False
    for i in range(appenders_all):
        if appenders[i].worker is w and (appenders[i].flying != NULL or appenders[i].resend != NULL
                                         or appenders[i].gather != NULL):
            return False
    return True

cdef void engine_close(Worker* w) noexcept nogil:
    # Closes the engine asynchronously: the loop ends when slots and timer are closed.
    cdef Engine* e = engine_of(w)
    if e == NULL or e.closing:
        return
    e.closing = 2 + (peers_close(engine_on_timer_closed) if e.worker is leader else 0)
    uv_timer_stop(&e.timer)
    uv_close(<uv_handle_t*>&e.timer, engine_on_timer_closed)
    slotpool_close(e.slots, engine_on_slots_closed, e)

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
    claim_release_close(&e.releases)
    claim_release_close(&e.takebacks)
    heap_free(&e.deadlines)
    heap_free(&e.beats)
    heap_free(&e.memory_deadlines)
    table_free(&e.ack_rows)
    args_free(&e.args)
    batchrow_pack_free(&e.pack)
    free(e.polling.found)
    free(e.rates.asks)
    free(e)

cdef void engine_halt(Process* p) noexcept nogil:
    # Ends the shared parts. Requires that the threads have ended.
    global leader
    leader = NULL
    peers_halt()
    stripe_close_all()
    incarnation_open(NULL)    # no facts are left to drop
    appender_close()
    reclaim_close()
    idset_close()
    rowcache_close()
    unacked_close()
    uv_mutex_destroy(&capacity_lock)
    index_close()
    uv_mutex_destroy(&reload_lock)
