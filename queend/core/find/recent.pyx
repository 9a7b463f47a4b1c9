# Looks for what other programs stored since the last look (queend.recent). In: rows of partitions and their heads. Out:
# heads in the book. All groups are scanned if too much time has passed, or a transaction may have been passed over.

cdef void recent_send(Engine* e) noexcept nogil:
    cdef Discover* d = &e.discover
    cdef RecentArgs* a = <RecentArgs*>e.args.at
    cdef int64_t now = clock_mono_us()
    d.gap = d.since == 0 or now - d.since_us > LOOK_GAP_US
    d.recent_us = now
    discover_begin(e, STMT_RECENT, recent_done, FIND_RECENT)
    if not d.gap:
        arg_int8(&a.since_us, d.since)
        arg_int8(&a.back_us, now - d.since_us + RECENT_MARGIN_US)
    call_send(&d.call)

# Columns of recent.
cdef enum:
    RECENT_PARTITION = 0
    RECENT_QUEUE
    RECENT_HEAD

# Rows of recent. The first two hold moments in RECENT_HEAD.
cdef enum:
    RECENT_ROW_SINCE = 0      # where the next look begins; its RECENT_QUEUE is 1 if that moment is a guess
    RECENT_ROW_WRITER         # the start of the oldest transaction that may have written a pause
    RECENT_ROW_FIRST          # the first partition with its head; the others follow

cdef void recent_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    # Takes the answer of recent.
    cdef Engine* e = c.engine
    cdef Discover* d = &e.discover
    cdef int row
    cdef bint unknown = False
    cdef int64_t back_at = atomic_get64(&dbclock.back_at)
    d.finding = FIND_NOTHING
    if outcome != SLOT_OK or PQntuples(res) < RECENT_ROW_FIRST or not found_keep(d, PQntuples(res)):
        if outcome == SLOT_ERROR and verdict_of(res).blame >= BLAME_UNFIT:
            log_line(b"error", b"look_refused", pg_error(res))
        look_again(d)
        return
    d.next_since = pg_int8(res, RECENT_ROW_SINCE, RECENT_HEAD)
    if pg_int4(res, RECENT_ROW_SINCE, RECENT_QUEUE):
        d.blind = True
    elif d.blind and d.recent_us - d.doubted_us > BLIND_US:
        d.blind = False
        d.doubted_us = d.recent_us
        d.gap = True          # that transaction has ended: scans find what it stored
    d.next_writer = pg_int8(res, RECENT_ROW_WRITER, RECENT_HEAD)
    if back_at and d.recent_us - back_at < BACK_HELD_US and d.since and d.since < d.next_since:
        # a transaction that began before the clock was set back may yet store records with a lower time
        d.next_since = d.since
    uv_rwlock_rdlock(&catalog.lock)
    for row in range(RECENT_ROW_FIRST, PQntuples(res)):
        if catalog_queue_id(pg_int4(res, row, RECENT_QUEUE)) == NULL:
            unknown = True
            continue
        found_add(d, pg_int4(res, row, RECENT_PARTITION)).head = pg_int8_or(res, row, RECENT_HEAD, 0)
    uv_rwlock_rdunlock(&catalog.lock)
    if unknown:
        discover_load(e)
    found_name(e, FIND_RECENT)

cdef void recent_end(Engine* e, bint complete) noexcept nogil:
    # Ends a look whose findings are in the book. If a partition could not be named, the next look begins where this one
    # did.
    cdef Discover* d = &e.discover
    if not complete:
        look_again(d)
        return
    if d.gap:
        book_doubt()
        discover_load(e)
    book_looked(True)
    d.since = d.next_since
    d.since_us = d.recent_us
    d.writer = d.next_writer

cdef void book_looked(bint looked) noexcept nogil:
    uv_mutex_lock(&book.lock)
    book.looked = looked
    uv_mutex_unlock(&book.lock)

cdef void book_doubt() noexcept nogil:
    # Lets every group in use be scanned: what was committed in a gap is not known.
    cdef Queue* q
    cdef Group* g
    catalog_book_lock()
    q = catalog.list
    while q != NULL:
        g = q.group_list
        while g != NULL:
            if not g.dead and (g.all_cursors != NULL or g.n_wait):
                scan_again(g)
            g = g.next
        q = q.next
    catalog_book_unlock(NULL, NULL)
