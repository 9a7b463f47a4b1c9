# Another server, or another life of the same one (pg/incarnation): what this process remembers may be of commits that
# server never had. In: the word of the pg room, on the thread of whichever worker was connected first. Out: an empty
# catalog, and nothing in memory. Each worker then goes on by itself when its own first connection stands
# (engine_server): no statement goes out before the catalog is loaded anew, because none has a version that the database
# accepts.
#
# What is on its way meets this in one of three places. An answer of the server before is taken for a lost one. Who
# holds partitions or groups finds them dead. Who holds numbers finds them of another incarnation (Job.server,
# PushBatch.server, Round.server) and looks its names up again.

cdef void forget_all(int64_t number) noexcept nogil:
    # Nobody is taking an answer in: incarnation.lock is held for writing.
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
    catalog.cleanings += 1    # look-ups under way are void
    catalog.version = -1
    catalog.server = number
    uv_rwlock_wrunlock(&catalog.lock)
    uv_mutex_lock(&idsets.lock)
    while idsets.oldest != NULL:
        idset_drop(idsets.oldest)
    uv_mutex_unlock(&idsets.lock)
    uv_mutex_lock(&reload_lock)
    reload_running = False    # one that still waits for the server before would keep the next one waiting
    uv_mutex_unlock(&reload_lock)

cdef void engine_server(void* owner) noexcept nogil:
    # This worker's first connection to that server is about to serve.
    cdef Engine* e = <Engine*>owner
    cdef int i
    cdef bint known
    uv_rwlock_rdlock(&catalog.lock)
    known = catalog.loaded and catalog.version >= 0
    uv_rwlock_rdunlock(&catalog.lock)
    e.server = e.slots.server
    e.version = -1
    discover_forget(e)
    if known:
        engine_reloaded(e.worker, NULL)       # another worker has loaded it
        return
    for i in range(streams_all):
        if streams[i].worker is e.worker:
            streams[i].stale = True
    e.reload_pause = 0
    engine_reload(e.worker)
