# Reloads the catalog after it changed in the database, and forgets a replaced server. In: calls that found the catalog
# outdated (names/catalog); a new incarnation (pg/incarnation). Out: the new catalog; jobs that waited for it, tried
# again on every worker. Owns the reload, one for the whole process. Locks: reload_lock; catalog.lock, then book.lock.

# ---- a reload --------------------------------------------------------------------------------------------------------

cdef void reload_send(Engine* e) noexcept nogil:
    global reload_running
    cdef bint mine
    if slotpool_take(e.slots) == NULL:
        return
    uv_mutex_lock(&reload_lock)
    mine = not reload_running
    if mine:
        reload_running = True
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
    if reload_error != NULL:
        why = sqlstate_text(text, b"What queues there are could not be loaded", reload_error)
    uv_mutex_unlock(&reload_lock)
    if not e.want_reload and not reload_running:
        e.want_reload = True
    while n:
        n -= 1
        job = joblist_take(&e.wait_reload)
        if not job_outlasts(job, &e.wait_reload, now):
            if lost:
                job.kind.refuse(job, 503, health_why())
            elif e.unready_since == 0 and now - job.born_us > 2 * e.patience_us:
                job.kind.refuse(job, 503, why)
            else:
                joblist_add(&e.wait_reload, job)

cdef void reload_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    global reload_running, reload_at, reload_of, reload_error
    cdef Engine* e = c.engine
    cdef int i
    cdef bint missed = outcome != SLOT_OK
    cdef PopJob* wake = NULL
    if outcome == SLOT_OK:
        retire_apply(res, &wake)
    elif outcome == SLOT_ERROR:
        log_line(b"error", b"reload_refused", pg_error(res))
    uv_mutex_lock(&reload_lock)
    reload_running = False
    reload_error = sqlstate_of(res) if outcome == SLOT_ERROR else NULL
    reload_at = clock_mono_us()
    if outcome == SLOT_OK:
        reload_of = c.sent_us
    uv_mutex_unlock(&reload_lock)
    if outcome == SLOT_OK:    # pops parked on changed queues look at names and options again
        index_lock_all()
        reload_wake_queues(False, &wake)
        index_unlock_all(e.worker, wake)
    for i in range(e.settings.workers if outcome == SLOT_OK else 0):
        if i == e.worker.index:
            reload_applied(e.worker, NULL)
        elif not worker_call(e.worker.process.workers[i], reload_applied):
            missed = True
    if missed:                # or no memory for the message: reloads once more
        e.want_reload = True
        e.reload_pause = clock_mono_us() + 200000

cdef void reload_applied(Worker* w, InboxMsg* m) noexcept nogil:
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
    # From here on calls use this version; appenders drop what an older version resolved before they send.
    e.version = version
    joblist_open(&e.wait_reload, JOB_RELOADING)
    while job != NULL:
        following = job.next
        job.next = NULL
        job.kind.retry(e, job)
        job = following
    for i in range(appenders_all):
        if appenders[i].worker is w:
            requeue_reloaded(&appenders[i])
    poll_loaded(e)

# ---- parked pops -----------------------------------------------------------------------------------------------------

cdef void reload_wake_queues(bint all_, PopJob** wake) noexcept nogil:
    # Adds to `wake` the pops parked on all queues, retired ones too, or on the queues that a reload changed. Requires
    # catalog.lock and book.lock.
    cdef Queue* q
    cdef int side
    for side in range(3):
        q = catalog.retired[side].queues if side < 2 else catalog.list
        while q != NULL:
            if all_ or q.changed:
                q.changed = False
                waiters_wake_queue(q, wake)
            q = q.next

# ---- changes from outside --------------------------------------------------------------------------------------------

cdef void reload_notify(Slice name, bint moved) noexcept nogil:
    # Has the catalog read again, and wakes the pops parked on the queue. moved: cursors or partitions changed too, so
    # its groups are scanned. New options move nothing, and every starting client may set them again. Any thread.
    cdef PopJob* wake = NULL
    cdef Queue* q
    cdef Group* g
    index_lock_all()
    q = catalog_queue(name)
    if q != NULL:
        g = q.group_list if moved else NULL
        while g != NULL:
            group_rescan(g)
            g = g.next
        waiters_wake_queue(q, &wake)
    index_unlock_all(NULL, wake)
    notice_flags(NOTICE_LOOK)
    waiters_post_leader(reload_on_change)  # the first worker runs the scans

cdef void reload_on_change(Worker* w, InboxMsg* m) noexcept nogil:
    # Reloads the catalog, which is known to be outdated, before a statement finds out.
    free(m)
    catalog_want_reload(w)

# ---- another server, or a restarted one ------------------------------------------------------------------------------
# This process may remember commits that the server lacks: catalog and caches are emptied, on the thread of the worker
# that connected first. Each worker continues when its own first connection is established (reload_on_server).
# Statements wait until the catalog is loaded again: until then none has a version that the database accepts.

cdef void reload_forget_all(int64_t number) noexcept nogil:
    # Drops all remembered facts. Requires incarnation.lock for writing: no answer is being processed. Work in flight
    # meets the change in one of three places. An answer of the earlier server counts as lost. Held partitions and
    # groups are marked dead. Held numbers belong to another incarnation (Job.incarnation, PushBatch.incarnation,
    # Round.incarnation), so their names are looked up again.
    global reload_running
    cdef Group* g
    cdef Queue* q
    clock_db_open()            # another server has another clock
    uv_rwlock_wrlock(&catalog.lock)
    uv_mutex_lock(&book.lock)
    while rowcache.first != NULL:
        rowcache_drop(rowcache.first.partition)
    while unacked.oldest != NULL:
        unacked_forget(unacked.oldest)
    book.looked = False
    while book.scan_first != NULL:
        book.scan_first.scan_listed = False
        book.scan_first = book.scan_first.scan_next
    book.n_scans = 0
    q = catalog.list
    while q != NULL:
        g = q.group_list
        while g != NULL:
            g.dead = True
            g = g.next
        q = q.next
    uv_mutex_unlock(&book.lock)
    while catalog.list != NULL:
        catalog_retire(catalog.list)
    catalog.cleanings += 1    # look-ups in flight are void
    catalog.version = VERSION_NONE
    catalog.incarnation = number
    uv_rwlock_wrunlock(&catalog.lock)
    uv_mutex_lock(&idsets.lock)
    while idsets.oldest != NULL:
        idset_drop(idsets.oldest)
    uv_mutex_unlock(&idsets.lock)
    uv_mutex_lock(&reload_lock)
    reload_running = False    # a reload that waits for the earlier server would delay the next one
    uv_mutex_unlock(&reload_lock)

cdef void reload_on_server(void* owner) noexcept nogil:
    # Adapts this worker to the server, before its first connection to it serves.
    cdef Engine* e = <Engine*>owner
    cdef int i
    cdef bint known
    uv_rwlock_rdlock(&catalog.lock)
    known = catalog.loaded and catalog.version != VERSION_NONE
    uv_rwlock_rdunlock(&catalog.lock)
    e.version = VERSION_NONE
    poll_forget(e)
    if known:
        reload_applied(e.worker, NULL)        # another worker has loaded it
        return
    for i in range(appenders_all):
        if appenders[i].worker is e.worker:
            appenders[i].stale = True
    e.reload_pause = 0
    catalog_want_reload(e.worker)
