# Finds work that this process has no notice of, in the background: commits of other daemons and programs, and pauses
# about to end. In: looks at the database; rows of partitions with their heads. Out: heads and waiters in the book;
# groups to scan (find/scanner). Owner: the worker; the first one with a connection looks for all. Clients that a hint
# can serve are served first. Locks: catalog.lock, then book.lock.

cdef enum Finding:            # what the statement in flight, and the names it needs, are about
    FIND_NOTHING = 0
    FIND_LOOK
    FIND_RECENT
    FIND_WAKING
    FIND_LEASES
    FIND_SCAN

cdef enum:
    APPLY_SLICE = 1000        # partitions that one turn applies, under both locks

# ---- one statement at a time -----------------------------------------------------------------------------------------
# Looks, and pages of scans (find/scanner), share the worker's statement struct Polling.

cdef inline bint poll_waits(Engine* e) noexcept nogil:
    # Returns whether there is a statement for poll_drain to send, or findings to apply.
    cdef Polling* d = &e.polling
    return d.applying or not d.finding and (d.scanning != NULL or book.n_scans or d.recent_wanted or d.waking_wanted
                                            or d.leases_due_us)

cdef inline bint poll_leads(Engine* e) noexcept nogil:
    # Returns whether this worker looks for all: it is the first one that has a connection.
    cdef Process* p = e.worker.process
    cdef int i
    for i in range(e.worker.index):
        if atomic_get64(&p.workers[i].counters.connected):
            return False
    return slotpool_ready(e.slots)

cdef void poll_sweep(Engine* e) noexcept nogil:
    # Runs twice a second on every worker: looks in place of workers without a connection, and goes on with scans that
    # others gave back.
    if e.worker is not leader and poll_leads(e):
        poll_tick(e, clock_mono_us())
    if poll_waits(e):
        poll_drain(e)

cdef void poll_drain(Engine* e) noexcept nogil:
    # Sends at most one statement. A look goes before a page of a scan, which may have a thousand more. A scan is held
    # only while a connection is free for its next page: else another worker goes on with it.
    cdef Polling* d = &e.polling
    if d.applying:
        poll_apply(e, d.finding)
        return
    if slotpool_take(e.slots) == NULL:
        if d.scanning != NULL:
            scanner_yield(e)
        return
    if d.scanning == NULL and book.n_scans:
        scanner_next(e)
    if d.recent_wanted:
        d.recent_wanted = False
        poll_recent_send(e)
    elif d.waking_wanted:
        d.waking_wanted = False
        poll_pauses_send(e)
    elif d.leases_due_us and clock_mono_us() >= d.leases_due_us:
        scanner_leases_send(e)
    elif d.scanning != NULL and clock_mono_us() >= d.pause_until:
        scanner_send(e)

cdef void poll_begin(Engine* e, int statement, call_done done, int finding) noexcept nogil:
    e.polling.finding = finding
    e.polling.forgotten = False
    call_begin(&e.polling.call, e, statement, done)

# ---- looks -----------------------------------------------------------------------------------------------------------
# A complete look notes a time before which it saw everything (queend.safe_time, by the database's clock). The next look
# reads what was stored since: so no commit is missed, even if it takes long or a clock is set. A look runs each
# `look_ms` (1 s), also without waiters: so a pop that does not wait finds what others committed.

cdef void poll_tick(Engine* e, int64_t now) noexcept nogil:
    # Asks whether anything has been committed at all, the catalog among it. An idle database answers that in
    # microseconds. The worker that leads calls it (poll_leads).
    cdef Polling* d = &e.polling
    if d.finding or d.recent_wanted or d.waking_wanted or now < d.due_us:
        return
    if slotpool_take(e.slots) == NULL:
        return                # the timer comes here again
    d.looked_us = now
    d.due_us = now + <int64_t>min(max(e.settings.look_ms, 20), LOOK_MOST_MS) * 1000
    poll_begin(e, STMT_LOOK, poll_done, FIND_LOOK)
    d.call.deadline_ms = min(e.settings.deadline_ms, LOOK_DEADLINE_MS)
    call_send(&d.call)

# Columns of look.
cdef enum:
    LOOK_SNAPSHOT = 0
    LOOK_VERSION
    LOOK_NOW

cdef void poll_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = c.engine
    cdef Polling* d = &e.polling
    cdef uint64_t snapshot
    d.finding = FIND_NOTHING
    if d.forgotten or outcome != SLOT_OK or PQntuples(res) == 0:
        return
    clock_db_sample(pg_int8(res, 0, LOOK_NOW), d.looked_us, clock_mono_us())
    if pg_int8(res, 0, LOOK_VERSION) != e.version:
        catalog_want_reload(e.worker)
    d.waking_wanted = True
    snapshot = slice_hash(pg_bytes(res, 0, LOOK_SNAPSHOT), hash_seed)
    d.recent_wanted = snapshot != d.snapshot or d.since == 0
    d.snapshot = snapshot
    if not d.recent_wanted:
        d.since_us = d.looked_us      # nothing was committed up to then: equals a look without findings
    scanner_leases_begin(d, d.recent_wanted, c.ended_us)

cdef void poll_discard(Polling* d) noexcept nogil:
    # Voids a look that was begun and not finished: the next one does it all.
    d.finding = FIND_NOTHING
    d.snapshot = 0

# ---- commits of other programs (queend.recent) -----------------------------------------------------------------------
# If no look was possible for LOOK_GAP_US (60 s), or a transaction may have been passed over, all groups are scanned. A
# head is raised only together with news for its groups (index_stored, index_head_found, handover_book): the groups
# have notice of each known head.

# Columns of recent.
cdef enum:
    RECENT_PARTITION = 0
    RECENT_QUEUE
    RECENT_HEAD

# Rows of recent. The first two have times in RECENT_HEAD.
cdef enum:
    RECENT_ROW_SINCE = 0      # where the next look begins; its RECENT_QUEUE is 1 if that moment is a guess
    RECENT_ROW_WRITER         # the start of the oldest transaction that may have written a pause
    RECENT_ROW_FIRST          # the first partition with its head; the others follow

cdef void poll_recent_send(Engine* e) noexcept nogil:
    cdef Polling* d = &e.polling
    cdef RecentArgs* a = <RecentArgs*>e.args.at
    cdef int64_t now = clock_mono_us()
    d.gap = d.since == 0 or now - d.since_us > LOOK_GAP_US
    d.recent_us = now
    poll_begin(e, STMT_RECENT, poll_recent_done, FIND_RECENT)
    if not d.gap:
        arg_int8(&a.since_us, d.since)
        arg_int8(&a.back_us, now - d.since_us + RECENT_MARGIN_US)
    call_send(&d.call)

cdef void poll_recent_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    # Takes the answer of recent.
    cdef Engine* e = c.engine
    cdef Polling* d = &e.polling
    cdef int row
    cdef bint unknown = False
    cdef int64_t back_at = atomic_get64(&dbclock.back_at)
    d.finding = FIND_NOTHING
    if d.forgotten:
        return
    if outcome != SLOT_OK or PQntuples(res) < RECENT_ROW_FIRST or not poll_found_room(d, PQntuples(res)):
        if outcome == SLOT_ERROR and sqlstate_of(res).error_class >= ERROR_UNFIT:
            log_line(b"error", b"look_refused", pg_error(res))
        poll_discard(d)
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
        poll_found_add(d, pg_int4(res, row, RECENT_PARTITION)).head = pg_int8_or(res, row, RECENT_HEAD, 0)
    uv_rwlock_rdunlock(&catalog.lock)
    if unknown:
        poll_load(e)
    poll_find_names(e, FIND_RECENT)

cdef void poll_recent_end(Engine* e) noexcept nogil:
    # Ends a look whose findings are all in the book.
    cdef Polling* d = &e.polling
    if d.gap:
        poll_rescan_all()
        poll_load(e)
    uv_mutex_lock(&book.lock)
    book.looked = True
    uv_mutex_unlock(&book.lock)
    d.since = d.next_since
    d.since_us = d.recent_us
    d.writer = d.next_writer

cdef void poll_rescan_all() noexcept nogil:
    # Lets every group in use be scanned: what was committed in a gap is not known.
    cdef Queue* q
    cdef Group* g
    index_lock_all()
    q = catalog.list
    while q != NULL:
        g = q.group_list
        while g != NULL:
            if not g.dead and (g.all_cursors != NULL or g.n_wait):
                group_rescan(g)
            g = g.next
        q = q.next
    index_unlock_all(NULL, NULL)

# ---- pauses about to end ---------------------------------------------------------------------------------------------

cdef void poll_pauses_send(Engine* e) noexcept nogil:
    cdef Polling* d = &e.polling
    cdef WakingArgs* a = <WakingArgs*>e.args.at
    cdef int64_t back
    d.waking_sent = clock_db_now()
    back = d.waking_sent - WAKING_BACK_US
    if d.writer and d.writer < back:
        back = d.writer       # a pause that is committed late
    if d.waking_after == 0 and (d.waking_from == 0 or back < d.waking_from):
        d.waking_from = back
    poll_begin(e, STMT_WAKING, poll_pauses_done, FIND_WAKING)
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

cdef void poll_pauses_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = c.engine
    cdef Polling* d = &e.polling
    cdef Found* f
    cdef int row
    cdef int n = PQntuples(res) if outcome == SLOT_OK else 0
    d.finding = FIND_NOTHING
    if d.forgotten or outcome != SLOT_OK or not poll_found_room(d, n):
        return
    d.waking_wanted = n == WAKING_PAGE
    d.waking_from = pg_int8(res, n - 1, WAKING_AT) if d.waking_wanted else d.waking_sent - WAKING_BACK_US
    d.waking_after = pg_int4(res, n - 1, WAKING_PARTITION) if d.waking_wanted else 0
    uv_rwlock_rdlock(&catalog.lock)
    for row in range(n):
        if catalog_queue_id(pg_int4(res, row, WAKING_QUEUE)) != NULL:     # no pop here can wait for others
            f = poll_found_add(d, pg_int4(res, row, WAKING_PARTITION))
            f.group = pg_int4(res, row, WAKING_GROUP)
            f.wakes_at = pg_int8(res, row, WAKING_AT)
    uv_rwlock_rdunlock(&catalog.lock)
    poll_find_names(e, FIND_WAKING)

# ---- what was found, and its names -----------------------------------------------------------------------------------

cdef bint poll_found_room(Polling* d, int n) noexcept nogil:
    # Makes room for n rows of an answer. Returns False if memory ran out.
    cdef Found* f = <Found*>realloc(d.found, (n if n else 1) * sizeof(Found))
    if f == NULL:
        return False
    memset(f, 0, n * sizeof(Found))
    d.found = f
    d.n_found = 0
    d.n_applied = 0
    d.incomplete = False
    d.incarnation = catalog.incarnation
    return True

cdef inline Found* poll_found_add(Polling* d, int32_t partition) noexcept nogil:
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
    POP_SCAN_MORE = -1        # POP_SCAN_HEAD of a last row after which a further page may follow

cdef void poll_find_names(Engine* e, int finding) noexcept nogil:
    # Asks by id for the names of partitions that other processes made. Then takes the findings.
    cdef Polling* d = &e.polling
    cdef NamesArgs* a = <NamesArgs*>e.args.at
    cdef int i
    poll_begin(e, STMT_PARTITIONS_FIND, poll_names_done, finding)
    uv_rwlock_rdlock(&catalog.lock)
    for i in range(d.n_found):
        if catalog_partition_id(d.found[i].partition) == NULL:
            pgarray_int4(&a.first, d.found[i].partition)
    uv_rwlock_rdunlock(&catalog.lock)
    d.cleanings = catalog.cleanings
    if a.first.n:
        call_send(&d.call)
    else:
        poll_apply(e, finding)

cdef void poll_names_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    # Takes the findings. If the look-up of names failed, they are missing and the look or page is read again.
    cdef Engine* e = c.engine
    if outcome == SLOT_OK and not e.polling.forgotten:
        ask_take_names(e, res, e.polling.cleanings)
    poll_apply(e, e.polling.finding)

cdef void poll_apply(Engine* e, int finding) noexcept nogil:
    # Applies at most APPLY_SLICE findings to the book; the rest follows in the next turns. Then the look or page ends.
    cdef Polling* d = &e.polling
    cdef Partition* p
    cdef Found* f
    cdef PopJob* wake = NULL
    cdef int stop
    cdef int64_t now = clock_mono_us()
    cdef int64_t wall = clock_db_at(now)
    cdef int i
    d.finding = FIND_NOTHING
    index_lock_all()
    if d.forgotten:
        finding = FIND_NOTHING
    elif d.incarnation != catalog.incarnation:
        poll_forget(e)        # its ids mean other things by now
        finding = FIND_NOTHING
    stop = min(d.n_found, d.n_applied + APPLY_SLICE)
    for i in range(d.n_applied, stop):
        f = &d.found[i]
        p = catalog_partition_id(f.partition)
        if p == NULL or (finding == FIND_SCAN and p.queue is not d.scanning.queue):
            d.incomplete = True
        elif finding == FIND_WAKING:
            index_pause_end(p, f.group, f.wakes_at, wall, now, &wake)
        elif finding == FIND_RECENT:
            index_head_found(p, f.head, &wake)
        elif not scanner_apply(d, f, p, wall, now, &wake):
            d.incomplete = True
    index_unlock_all(e.worker, wake)
    d.n_applied = stop
    d.applying = stop < d.n_found
    if d.applying:
        d.finding = finding   # no other look begins meanwhile
        uv_async_send(&e.worker.inbox.wake)       # the rest with the next turn, which comes at once
        return
    d.n_found = 0
    if d.incomplete and finding != FIND_SCAN:
        poll_discard(d)       # a partition could not be named: the next look begins where this one did
    elif finding == FIND_RECENT:
        poll_recent_end(e)
    elif finding == FIND_SCAN and not d.incomplete:
        d.scanning.scan_after = max(d.scanning.scan_after, d.page_end)
        if d.last_page:
            scanner_end(e)
        else:
            scanner_rest(e)

# ---- reloads, and other servers --------------------------------------------------------------------------------------

cdef void poll_load(Engine* e) noexcept nogil:
    # Reloads the catalog: there are, or may be, queues that this process does not know.
    e.polling.load_after = clock_mono_us()
    catalog_want_reload(e.worker)

cdef void poll_loaded(Engine* e) noexcept nogil:
    # Lets pops that wait for an unknown queue or partition ask again, after a reload has ended.
    cdef PopJob* wake = NULL
    if e.polling.load_after == 0:
        return
    if reload_of < e.polling.load_after:
        catalog_want_reload(e.worker)  # it had begun before
        return
    e.polling.load_after = 0
    index_lock_all()
    waiters_name_wake_all(True, &wake)
    index_unlock_all(e.worker, wake)

cdef void poll_forget(Engine* e) noexcept nogil:
    # Forgets everything that was found on another server: all is looked for again. The answer to the statement in
    # flight will not count.
    cdef Polling* d = &e.polling
    cdef Found* found = d.found
    cdef int finding = d.finding if not d.applying else FIND_NOTHING      # no statement is in flight meanwhile
    scanner_release(e)
    memset(<char*>d + sizeof(Call), 0, sizeof(Polling) - sizeof(Call))
    d.found = found
    d.finding = finding
    d.forgotten = finding != FIND_NOTHING
