# The catalog loaded anew, after it changed in the database: one statement for the whole process. In: who found it out
# of date (names/stale). Out: the new catalog; jobs that waited for it, tried again on every worker.

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
    e.want_reload = False     # when another worker's is running, its end reaches this worker too
    if not mine:
        return
    uv_rwlock_wrlock(&catalog.lock)
    catalog.reload_from = catalog.additions
    uv_rwlock_wrunlock(&catalog.lock)
    call_begin(&e.reload, e, STMT_CATALOG_LOAD, reload_done)
    call_send(&e.reload)

cdef void reload_waits(Engine* e) noexcept nogil:
    # Who waits for a reload, this worker's or another's: long polls until their own deadline, all others as long as the
    # patience lasts, from when the connections went, or twice as long from their beginning: they may have waited for
    # something else before. Where nobody reloads any more, this worker does.
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
    if missed:                # no memory for the message: once more
        e.want_reload = True
        e.reload_pause = clock_mono_us() + 200000

cdef void book_reloaded(Worker* w, PopJob* wake) noexcept nogil:
    # Everyone parked on a queue that changed looks again at names and options. wake: so do these.
    catalog_book_lock()
    book_wake_queues(False, &wake)
    catalog_book_unlock(w, wake)

cdef void book_wake_queues(bint all_, PopJob** wake) noexcept nogil:
    # Those parked on all queues, buried ones too, or on all that a reload changed. Both locks held.
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
    if version < 0:
        e.want_reload = True      # what was loaded has been dropped since, or not all of it was kept
        e.reload_pause = clock_mono_us() + 10000
        return
    e.want_reload = False
    # From here on calls go out under this version; streams are cleaned of what an older one resolved before they send.
    e.version = version
    memset(&e.wait_reload, 0, sizeof(JobList))
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
    # Has the catalog read again, and wakes the pops that are parked on the queue. Any thread. moved: cursors or
    # partitions changed too, so its groups are looked at afresh. New options move nothing, and every client that starts
    # may set them once more.
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
    boss_post(engine_changed)      # the scans are its business

cdef void engine_look() noexcept nogil:
    # Any thread: somebody has committed something that this process was not told of.
    tell_flags(NOTICE_LOOK)
    boss_post(engine_looks)

cdef void engine_looks(Worker* w, InboxMsg* m) noexcept nogil:
    cdef Discover* d = &engine_of(w).discover
    free(m)
    d.due_us = 0
    discover_tick(engine_of(w), clock_mono_us())      # or with the next turn of the clock

cdef void engine_changed(Worker* w, InboxMsg* m) noexcept nogil:
    # The catalog is known to be stale: no need to wait for a statement that finds out.
    free(m)
    engine_reload(w)
