# Reloads the catalog after it changed in the database: one statement for the whole process. In: calls that found it
# outdated (names/stale). Out: the new catalog; jobs that waited for it, tried again on every worker.

cdef void reload_send(Engine* e) noexcept nogil:
    global reload_running, reload_sent
    cdef bint mine
    if slotpool_take(e.slots) == NULL:
        return
    uv_mutex_lock(&reload_lock)
    mine = not reload_running
    if mine:
        reload_running = True
        reload_sent = clock_mono_us()
    uv_mutex_unlock(&reload_lock)
    e.want_reload = False     # the end of another worker's reload reaches this worker too
    if not mine:
        return
    uv_rwlock_wrlock(&catalog.lock)
    catalog.reload_from = catalog.additions
    uv_rwlock_wrunlock(&catalog.lock)
    call_begin(&e.reload, e, STMT_CATALOG_LOAD, reload_done)
    call_send(&e.reload)

cdef void reload_waits(Engine* e) noexcept nogil:
    # Ends jobs that have waited too long for a reload, and starts a reload if none runs. A long poll waits until its
    # own deadline. Other jobs wait for the patience, counted from the loss of the connections, or for twice the
    # patience from their own begin.
    cdef int n = e.wait_reload.n
    cdef int64_t now = clock_mono_us()
    cdef Job* job
    cdef bint lost = e.unready_since != 0 and now - e.unready_since > e.patience_us
    cdef char[VERDICT_TEXT] text
    cdef const char* why = b"What queues there are could not be loaded; try again"
    uv_mutex_lock(&reload_lock)
    if reload_said != NULL:
        why = verdict_text(text, b"What queues there are could not be loaded", reload_said)
    uv_mutex_unlock(&reload_lock)
    if not e.want_reload and not reload_running:
        e.want_reload = True
    while n:
        n -= 1
        job = joblist_take(&e.wait_reload)
        if not job_outlasts(job, &e.wait_reload, now):
            if lost:
                job.kind.refuse(job, 503, doubt_why())
            elif e.unready_since == 0 and now - job.born_us > 2 * e.patience_us:
                job.kind.refuse(job, 503, why)
            else:
                joblist_add(&e.wait_reload, job)

cdef void reload_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    global reload_running, reload_at, reload_of, reload_said
    cdef Engine* e = c.engine
    cdef int i
    cdef bint missed = False
    cdef InboxMsg* m
    cdef PopJob* wake = NULL
    if outcome == SLOT_OK:
        catalog_take(res, &wake)
    elif outcome == SLOT_ERROR:
        log_line(b"error", b"reload_refused", pg_error(res))
    uv_mutex_lock(&reload_lock)
    reload_running = False
    reload_said = verdict_of(res) if outcome == SLOT_ERROR else NULL
    reload_at = clock_mono_us()
    if outcome == SLOT_OK:
        reload_of = reload_sent
    uv_mutex_unlock(&reload_lock)
    if outcome != SLOT_OK:
        e.want_reload = True
        e.reload_pause = clock_mono_us() + 200000
        return
    book_reloaded(e.worker, wake)
    for i in range(e.settings.workers):
        if i == e.worker.index:
            engine_reloaded(e.worker, NULL)
        else:
            m = <InboxMsg*>calloc(1, sizeof(InboxMsg))
            if m == NULL:
                missed = True
                continue
            m.run = engine_reloaded
            if not worker_post(e.worker.process.workers[i], m):
                free(m)
    if missed:                # no memory for the message: reloads once more
        e.want_reload = True
        e.reload_pause = clock_mono_us() + 200000

cdef void book_reloaded(Worker* w, PopJob* wake) noexcept nogil:
    # Wakes the pops parked on changed queues, to look at names and options again; also those in `wake`.
    catalog_book_lock()
    book_wake_queues(False, &wake)
    catalog_book_unlock(w, wake)

cdef void book_wake_queues(bint all_, PopJob** wake) noexcept nogil:
    # Adds to `wake` the pops parked on all queues, buried ones too, or on the queues that a reload changed. Requires
    # catalog.lock and book.lock.
    cdef Queue* q
    cdef int side
    for side in range(3):
        q = catalog.graves[side].queues if side < 2 else catalog.list
        while q != NULL:
            if all_ or q.changed:
                q.changed = False
                book_wake_queue(q, wake)
            q = q.next

cdef void engine_reloaded(Worker* w, InboxMsg* m) noexcept nogil:
    cdef Engine* e = engine_of(w)
    cdef Job* job = e.wait_reload.first
    cdef Job* following
    cdef int64_t version
    cdef int i
    free(m)
    uv_rwlock_rdlock(&catalog.lock)
    version = catalog.version
    uv_rwlock_rdunlock(&catalog.lock)
    if version == VERSION_NONE:
        e.want_reload = True      # the loaded catalog was dropped since, or is partial
        e.reload_pause = clock_mono_us() + 10000
        return
    e.want_reload = False
    # From here on calls use this version; streams drop what an older version resolved before they send.
    e.version = version
    joblist_open(&e.wait_reload, JOB_RELOADING)
    while job != NULL:
        following = job.next
        job.next = NULL
        job.kind.retry(e, job)
        job = following
    for i in range(streams_all):
        if streams[i].worker is w:
            stream_reloaded(&streams[i])
    discover_loaded(e)

cdef void engine_notify(Slice name, bint moved) noexcept nogil:
    # Has the catalog read again, and wakes the pops parked on the queue. moved: cursors or partitions changed too, so
    # its groups are scanned. New options move nothing, and every starting client may set them again. Any thread.
    cdef PopJob* wake = NULL
    cdef Queue* q
    cdef Group* g
    catalog_book_lock()
    q = catalog_queue(name)
    if q != NULL:
        g = q.group_list if moved else NULL
        while g != NULL:
            scan_again(g)
            g = g.next
        book_wake_queue(q, &wake)
    catalog_book_unlock(NULL, wake)
    tell_flags(NOTICE_LOOK)
    boss_post(engine_changed)      # the first worker runs the scans

cdef void engine_look() noexcept nogil:
    # Starts a look: another program committed something that this process was not told of. Any thread.
    tell_flags(NOTICE_LOOK)
    boss_post(engine_looks)

cdef void engine_looks(Worker* w, InboxMsg* m) noexcept nogil:
    cdef Discover* d = &engine_of(w).discover
    free(m)
    d.due_us = 0
    discover_tick(engine_of(w), clock_mono_us())      # or at the next tick

cdef void engine_changed(Worker* w, InboxMsg* m) noexcept nogil:
    # Reloads the catalog, which is known to be outdated, before a statement finds out.
    free(m)
    engine_reload(w)
