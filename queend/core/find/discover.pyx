# Finds work this process was not told of, in the background: clients that a hint can serve are served first. In: scans
# of groups (start-up, a group never seen, a reload); looks at commits of other programs and at pauses about to end.
# Out: heads, leases and waiters in the book. Owner: the worker; the first one with a connection looks for all. Locks:
# catalog.lock, then book.lock.
#
# Each look goes on from the one before. A complete look notes a time before which everything was visible to it
# (queend.safe_time, by the database's clock). The next look reads what was stored since then. So looks miss no commit,
# even if it takes long, a clock is set, or clients stay away. A look runs each `look_ms` (1 s), also without waiters.
# So a pop that does not wait finds what others committed. If no look was possible for LOOK_GAP_US (60 s), all groups
# are scanned instead. A partition's head is raised only together with news for its groups (book_head, book_found,
# handover_book): a head that is known has been told.

cdef enum Finding:            # what the statement in flight, and the names it needs, are about
    FIND_NOTHING = 0
    FIND_LOOK
    FIND_RECENT
    FIND_WAKING
    FIND_LEASES
    FIND_SCAN

cdef void discover_next(Engine* e) noexcept nogil:
    # Takes the next group to be scanned. Leaves out groups that can be found no more.
    cdef Discover* d = &e.discover
    cdef Group* g
    uv_mutex_lock(&book.lock)
    # The first look begins before the first scan. A worker takes groups only once it has met this server: on meeting
    # it, the worker forgets what it has in hand (discover_forget).
    while book.looked and e.server == catalog.server and book.scan_first != NULL and d.scanning == NULL:
        g = book.scan_first
        book.scan_first = g.scan_next
        book.n_scans -= 1
        if g.dead or g.queue.dead:
            g.scan = SCAN_WANTED
            g.scan_listed = False
            continue
        g.scan = SCAN_RUNNING
        d.scanning = g
        d.pin = pin_take(e.worker.pins)
    uv_mutex_unlock(&book.lock)

cdef void discover_left(Engine* e) noexcept nogil:
    # Lets go of the scanned group and its pin.
    e.discover.scanning = NULL
    pin_drop(e.worker.pins, e.discover.pin)
    e.discover.pin = 0

cdef void discover_give_back(Engine* e) noexcept nogil:
    # Leaves the running scan to the next worker that has a free connection.
    uv_mutex_lock(&book.lock)
    scan_give_back(e.discover.scanning)
    uv_mutex_unlock(&book.lock)
    discover_left(e)

cdef inline bint discover_waits(Engine* e) noexcept nogil:
    # Returns whether there is a statement for discover_drain to send.
    cdef Discover* d = &e.discover
    return not d.finding and (d.scanning != NULL or book.n_scans or d.recent_wanted or d.waking_wanted
                              or d.leases_due_us)

cdef inline bint discover_leads(Engine* e) noexcept nogil:
    # Returns whether this worker looks for all: it is the first one that has a connection.
    cdef Process* p = e.worker.process
    cdef int i
    for i in range(e.worker.index):
        if atomic_get64(&p.workers[i].counters.connected):
            return False
    return slotpool_ready(e.slots)

cdef void discover_sweep(Engine* e) noexcept nogil:
    # Runs twice a second on every worker: looks in place of workers without a connection, and goes on with scans that
    # others gave back.
    if e.worker is not boss and discover_leads(e):
        discover_tick(e, clock_mono_us())
    if discover_waits(e):
        discover_drain(e)

cdef void discover_drain(Engine* e) noexcept nogil:
    # Sends at most one statement. A look goes before a page of a scan, which may have a thousand more. A scan is held
    # only while a connection is free for its next page: else another worker goes on with it.
    cdef Discover* d = &e.discover
    if slotpool_take(e.slots) == NULL:
        if d.scanning != NULL:
            discover_give_back(e)
        return
    if d.scanning == NULL and book.n_scans:
        discover_next(e)
    if d.recent_wanted:
        d.recent_wanted = False
        recent_send(e)
    elif d.waking_wanted:
        d.waking_wanted = False
        waking_send(e)
    elif d.leases_due_us and clock_mono_us() >= d.leases_due_us:
        leases_look(e)
    elif d.scanning != NULL and clock_mono_us() >= d.pause_until:
        scan_send(e)

cdef void discover_begin(Engine* e, int statement, call_done done, int finding) noexcept nogil:
    e.discover.finding = finding
    call_begin(&e.discover.call, e, statement, done)

cdef void scan_send(Engine* e) noexcept nogil:
    cdef Group* g = e.discover.scanning
    cdef ScanArgs* a = <ScanArgs*>e.args.at
    uv_mutex_lock(&book.lock)
    e.discover.moves = book.moves
    uv_mutex_unlock(&book.lock)
    discover_begin(e, STMT_POP_SCAN, scan_done, FIND_SCAN)
    arg_int4(&a.queue, g.queue.id)
    arg_int4(&a.group, g.id)
    arg_int4(&a.after, g.scan_after)
    arg_int4(&a.most, SCAN_PAGE)
    call_send(&e.discover.call)

cdef void discover_tick(Engine* e, int64_t now) noexcept nogil:
    # Asks whether anything has been committed at all, the catalog among it. An idle database answers that in
    # microseconds. The worker that leads calls it (discover_leads).
    cdef Discover* d = &e.discover
    if d.finding or d.recent_wanted or d.waking_wanted or now < d.due_us:
        return
    if slotpool_take(e.slots) == NULL:
        return                # the timer comes here again
    d.looked_us = now
    d.due_us = now + <int64_t>min(max(e.settings.look_ms, 20), LOOK_MOST_MS) * 1000
    discover_begin(e, STMT_LOOK, look_done, FIND_LOOK)
    d.call.deadline_ms = min(e.deadline_ms, LOOK_DEADLINE_MS)
    call_send(&d.call)

# Columns of look.
cdef enum:
    LOOK_SNAPSHOT = 0
    LOOK_VERSION
    LOOK_NOW

cdef void look_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = c.engine
    cdef Discover* d = &e.discover
    cdef uint64_t snapshot
    d.finding = FIND_NOTHING
    if outcome != SLOT_OK or PQntuples(res) == 0:
        return
    dbclock_heard(pg_int8(res, 0, LOOK_NOW), d.looked_us, clock_mono_us())
    if pg_int8(res, 0, LOOK_VERSION) != e.version:
        engine_reload(e.worker)
    d.waking_wanted = True
    snapshot = slice_hash(pg_bytes(res, 0, LOOK_SNAPSHOT), hash_seed)
    if snapshot != d.snapshot or d.since == 0:
        d.snapshot = snapshot
        d.recent_wanted = True
        leases_begin(d, True, c.ended_us)
    else:
        d.since_us = d.looked_us      # nothing was committed up to then: equals a look without findings
        leases_begin(d, False, c.ended_us)

cdef void look_again(Discover* d) noexcept nogil:
    # Voids a look that was begun and not finished: the next one does it all.
    d.finding = FIND_NOTHING
    d.snapshot = 0

cdef void discover_load(Engine* e) noexcept nogil:
    # Reloads the catalog: there are, or may be, queues that this process does not know.
    e.discover.load_after = clock_mono_us()
    engine_reload(e.worker)

cdef void discover_loaded(Engine* e) noexcept nogil:
    # Lets pops that wait for an unknown queue or partition ask again, after a reload has ended.
    cdef PopJob* wake = NULL
    if e.discover.load_after == 0:
        return
    if reload_of < e.discover.load_after:
        engine_reload(e.worker)        # it had begun before
        return
    e.discover.load_after = 0
    catalog_book_lock()
    book_wake_known(&wake)
    catalog_book_unlock(e.worker, wake)

cdef void discover_forget(Engine* e) noexcept nogil:
    # Forgets everything that was found on another server: all is looked for again.
    cdef Discover* d = &e.discover
    discover_left(e)
    d.n_found = 0
    d.n_checked = 0
    d.leases_due_us = 0
    d.leases_left = 0
    d.leases_unasked = 0
    d.snapshot = 0
    d.looked_us = 0
    d.due_us = 0
    d.since = 0
    d.writer = 0
    d.waking_from = 0
    d.waking_after = 0
    d.load_after = 0

cdef bint found_keep(Discover* d, int n) noexcept nogil:
    # Makes room for n rows of an answer. Returns False if memory ran out.
    cdef Found* f = <Found*>realloc(d.found, (n if n else 1) * sizeof(Found))
    if f == NULL:
        return False
    memset(f, 0, n * sizeof(Found))
    d.found = f
    d.n_found = 0
    d.server = catalog.server
    return True

cdef inline Found* found_add(Discover* d, int32_t partition) noexcept nogil:
    # Returns the next row, which is zero as yet.
    d.n_found += 1
    d.found[d.n_found - 1].partition = partition
    return &d.found[d.n_found - 1]

# Columns of pop_scan.
cdef enum:
    POP_SCAN_PARTITION = 0
    POP_SCAN_NEXT
    POP_SCAN_HEAD             # negative in a last row that only names the partition
    POP_SCAN_LEASE_UNTIL
# POP_SCAN_HEAD of a last row after which a further page may follow.
cdef enum:
    POP_SCAN_MORE = -1

cdef void scan_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = c.engine
    cdef Discover* d = &e.discover
    cdef Found* f
    cdef int row
    cdef int32_t last = -1
    cdef bint more = False
    d.finding = FIND_NOTHING
    uv_mutex_lock(&book.lock)
    book.scan_said = verdict_of(res) if outcome == SLOT_ERROR else NULL
    uv_mutex_unlock(&book.lock)
    if outcome != SLOT_OK:
        if outcome == SLOT_ERROR:
            if verdict_of(res).blame >= BLAME_UNFIT:
                log_line(b"error", b"scan_refused", pg_error(res))
            d.pause_until = clock_mono_us() + SCAN_PAUSE_US
        else:
            discover_give_back(e)
        return                # the same page is read again
    if not found_keep(d, PQntuples(res)):
        return
    for row in range(PQntuples(res)):
        last = pg_int4(res, row, POP_SCAN_PARTITION)
        if pg_int8_or(res, row, POP_SCAN_HEAD, -1) >= 0:
            f = found_add(d, last)
            f.next_offset = pg_int8_or(res, row, POP_SCAN_NEXT, -1)
            f.head = pg_int8_or(res, row, POP_SCAN_HEAD, 0)
            f.leased_until = pg_int8_or(res, row, POP_SCAN_LEASE_UNTIL, 0)
        else:
            more = pg_int8_or(res, row, POP_SCAN_HEAD, 0) == POP_SCAN_MORE
    d.page_end = last
    d.last_page = not more
    found_name(e, FIND_SCAN)

cdef void waking_send(Engine* e) noexcept nogil:
    cdef Discover* d = &e.discover
    cdef WakingArgs* a = <WakingArgs*>e.args.at
    cdef int64_t back
    d.waking_sent = dbclock_now()
    back = d.waking_sent - WAKING_BACK_US
    if d.writer and d.writer < back:
        back = d.writer       # a pause that is committed late
    if d.waking_after == 0 and (d.waking_from == 0 or back < d.waking_from):
        d.waking_from = back
    discover_begin(e, STMT_WAKING, waking_done, FIND_WAKING)
    arg_int8(&a.from_us, d.waking_from)
    arg_int4(&a.after, d.waking_after)
    arg_int8(&a.to_us, d.waking_sent + WAKING_AHEAD_US)
    arg_int4(&a.most, WAKING_PAGE)
    call_send(&d.call)

# Columns of waking.
cdef enum:
    WAKING_PARTITION = 0
    WAKING_QUEUE
    WAKING_GROUP
    WAKING_AT

cdef void waking_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = c.engine
    cdef Discover* d = &e.discover
    cdef Found* f
    cdef int row
    cdef int n = PQntuples(res) if outcome == SLOT_OK else 0
    d.finding = FIND_NOTHING
    if outcome != SLOT_OK or not found_keep(d, n):
        return
    d.waking_wanted = n == WAKING_PAGE
    d.waking_from = pg_int8(res, n - 1, WAKING_AT) if d.waking_wanted else d.waking_sent - WAKING_BACK_US
    d.waking_after = pg_int4(res, n - 1, WAKING_PARTITION) if d.waking_wanted else 0
    uv_rwlock_rdlock(&catalog.lock)
    for row in range(n):
        if catalog_queue_id(pg_int4(res, row, WAKING_QUEUE)) != NULL:     # no pop here can wait for others
            f = found_add(d, pg_int4(res, row, WAKING_PARTITION))
            f.group = pg_int4(res, row, WAKING_GROUP)
            f.wakes_at = pg_int8(res, row, WAKING_AT)
    uv_rwlock_rdunlock(&catalog.lock)
    found_name(e, FIND_WAKING)

cdef void found_name(Engine* e, int finding) noexcept nogil:
    # Asks by id for the names of partitions that other processes made. Then takes the findings.
    cdef Discover* d = &e.discover
    cdef NamesArgs* a = <NamesArgs*>e.args.at
    cdef int i
    discover_begin(e, STMT_PARTITIONS_FIND, found_named, finding)
    uv_rwlock_rdlock(&catalog.lock)
    for i in range(d.n_found):
        if catalog_partition_id(d.found[i].partition) == NULL:
            pgarray_int4(&a.first, d.found[i].partition)
    uv_rwlock_rdunlock(&catalog.lock)
    d.cleanings = catalog.cleanings
    if a.first.n:
        call_send(&d.call)
    else:
        found_take(e, finding)

cdef void found_named(Call* c, PGresult* res, int outcome) noexcept nogil:
    # Takes the findings. If the look-up of names failed, they are missing and the look or page is read again.
    cdef Engine* e = c.engine
    if outcome == SLOT_OK:
        names_take(e, res, e.discover.cleanings)
    found_take(e, e.discover.finding)

cdef void found_take(Engine* e, int finding) noexcept nogil:
    cdef Discover* d = &e.discover
    cdef Partition* p
    cdef Found* f
    cdef PopJob* wake = NULL
    cdef bint complete = True
    cdef int64_t now = clock_mono_us()
    cdef int64_t wall = dbclock_at(now)
    cdef int i
    d.finding = FIND_NOTHING
    catalog_book_lock()
    if d.server != catalog.server:
        discover_forget(e)    # its ids mean other things by now
        finding = FIND_NOTHING
    for i in range(d.n_found):
        f = &d.found[i]
        p = catalog_partition_id(f.partition)
        if p == NULL or (finding == FIND_SCAN and p.queue is not d.scanning.queue):
            complete = False
        elif finding == FIND_WAKING:
            book_waking(p, f.group, f.wakes_at, wall, now, &wake)
        elif finding == FIND_RECENT:
            book_found(p, f.head, &wake)
        elif not found_scanned(d, f, p, wall, now, &wake):
            complete = False
    catalog_book_unlock(e.worker, wake)
    d.n_found = 0
    if finding == FIND_RECENT:
        recent_end(e, complete)
    elif finding == FIND_WAKING and not complete:
        look_again(d)
    elif finding == FIND_SCAN and complete:
        if d.page_end > d.scanning.scan_after:
            d.scanning.scan_after = d.page_end
        if d.last_page:
            scan_end(e)

cdef bint found_scanned(Discover* d, Found* f, Partition* p, int64_t wall, int64_t now, PopJob** wake) noexcept nogil:
    # Applies a row of a scan to the group's cursor. Returns False if memory ran out. Requires catalog.lock and
    # book.lock.
    cdef Cursor* c = book_cursor(d.scanning, p)
    if c == NULL:
        return False
    if <int32_t>(c.moved - d.moves) > 0:
        # The cursor has moved since the row was read: only the head can be news.
        book_found(p, f.head, wake)
        if c.state == CURSOR_IDLE and c.next_offset < p.head:
            cursor_move(c, CURSOR_READY, 0)
            book_wake_cursor(c, wake)
        return True
    if f.next_offset >= 0 and c.state != CURSOR_BUSY:
        c.next_offset = f.next_offset
    book_found(p, f.head, wake)
    if f.leased_until > wall:
        if c.state == CURSOR_IDLE:
            cursor_move(c, CURSOR_LEASED, now + f.leased_until - wall)
    elif c.state == CURSOR_IDLE or c.state == CURSOR_LEASED:
        # LEASED: the answer to a claim, or to an earlier scan, may be older than the move that ended the lease. If this
        # scan is the older one, a try in vain tells.
        cursor_move(c, CURSOR_READY, 0)
        book_wake_cursor(c, wake)
    return True

cdef void scan_end(Engine* e) noexcept nogil:
    # Ends a scan. Pops that waited only to learn whether there are messages are answered now; long polls stay.
    cdef Group* g = e.discover.scanning
    cdef PopJob* j
    cdef PopJob* following
    cdef PopJob* wake = NULL
    uv_mutex_lock(&book.lock)
    g.scan = SCAN_DONE
    g.scan_listed = False
    if g.scan_twice:
        g.scan_twice = False
        scan_again(g)
    j = g.wait_first
    while j != NULL:
        following = j.wait_next
        if j.until_us == 0:
            wake_push(j, &wake)
        j = following
    if book.n_name_waiters:
        book_wake_name_waiters(g.queue, slice_of(NULL, 0), &wake)
    uv_mutex_unlock(&book.lock)
    discover_left(e)
    popjobs_wake(e.worker, wake)
