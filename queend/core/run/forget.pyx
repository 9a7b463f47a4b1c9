# Another server, or a restarted one (pg/incarnation): this process may remember commits that the server lacks. In: a
# call of the pg room, on the thread of the worker that connected first. Out: an empty catalog and empty caches.
# Each worker continues when its own first connection is established (engine_server). Statements wait until the catalog
# is loaded again, because until then none has a version that the database accepts.

cdef void forget_all(int64_t number) noexcept nogil:
    # Drops all remembered facts. Requires incarnation.lock for writing: no answer is being processed.
    # Work in flight meets the change in one of three places. An answer of the earlier server counts as lost. Held
    # partitions and groups are marked dead. Held numbers belong to another incarnation (Job.server, PushBatch.server,
    # Round.server), so their names are looked up again.
    global reload_running
    cdef Group* g
    cdef Queue* q
    dbclock_open()            # another server has another clock
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
        catalog_bury(catalog.list)
    catalog.cleanings += 1    # look-ups in flight are void
    catalog.version = VERSION_NONE
    catalog.server = number
    uv_rwlock_wrunlock(&catalog.lock)
    uv_mutex_lock(&idsets.lock)
    while idsets.oldest != NULL:
        idset_drop(idsets.oldest)
    uv_mutex_unlock(&idsets.lock)
    uv_mutex_lock(&reload_lock)
    reload_running = False    # a reload that waits for the earlier server would delay the next one
    uv_mutex_unlock(&reload_lock)

cdef void engine_server(void* owner) noexcept nogil:
    # Adapts this worker to the server, before its first connection to it serves.
    cdef Engine* e = <Engine*>owner
    cdef int i
    cdef bint known
    uv_rwlock_rdlock(&catalog.lock)
    known = catalog.loaded and catalog.version != VERSION_NONE
    uv_rwlock_rdunlock(&catalog.lock)
    e.server = e.slots.server
    e.version = VERSION_NONE
    discover_forget(e)
    if known:
        engine_reloaded(e.worker, NULL)       # another worker has loaded it
        return
    for i in range(streams_all):
        if streams[i].worker is e.worker:
            streams[i].stale = True
    e.reload_pause = 0
    engine_reload(e.worker)
