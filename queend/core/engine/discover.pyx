# Finding work this process was not told of: the cold scan of a group (start-up, a group never seen, a reload), and once
# a second, while somebody waits, what other programs have committed and whose pauses are about to end. Always in the background, never in front of a
# client that a hint can serve.

cdef enum:
    SCAN_PAGE = 1000
    RECENT_MARGIN_US = 3000000       # how far back a commit may be that was not visible a second ago
    WAKING_AHEAD_US = 1500000        # pauses that end before the next look are known before they do
    WAKING_PAGE = 10000
    ENDED_PAGE = 512                 # leases looked up at a time

cdef const char* LOOK = b"SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, version FROM queend.catalog"

cdef struct Found:
    int32_t partition
    int64_t next_offset       # -1 unknown
    int64_t head
    int64_t leased_until      # database wall clock, 0 = free
    int64_t wakes_at          # database wall clock: a pause ends then, 0 = this is about something else
    int32_t group             # whose; 0 = every group's

cdef struct Checked:
    int32_t partition
    int32_t group
    int64_t due               # when the lease was to end: another one since then is none of the answer's business

cdef struct Discover:
    Group* scanning
    Found* found              # rows whose partitions are not all known by name yet
    int n_found
    bint naming
    uint64_t cleanings        # of the catalog when they were asked for
    int64_t xmax              # of the last look
    bint looking
    int64_t look_at           # monotonic
    bint recent_wanted
    bint waking_wanted
    int64_t waking_from       # database wall clock: pauses that end up to then, and up to partition waking_after, are known
    int32_t waking_after
    int64_t waking_sent
    bint last_page
    bint ended_wanted
    bint ended_all            # somebody who does not wait found nothing
    int ended_at              # place in the heap of leases that was looked at last
    int n_checked
    Checked[ENDED_PAGE] checked         # those asked about

cdef void scan_want(Group* g) noexcept nogil:
    # Book locked.
    if g.scan == SCAN_WANTED and not g.scan_listed:
        g.scan_listed = True
        g.scan_after = 0
        g.scan_next = book.scan_first
        book.scan_first = g

cdef void discover_drain(Engine* e) noexcept nogil:
    cdef Slot* slot
    cdef Params params
    cdef Group* g
    cdef Discover* d = &e.discover
    if d.looking or d.naming:
        return
    if d.scanning == NULL and book.scan_first != NULL:
        uv_mutex_lock(&book.lock)
        d.scanning = book.scan_first
        if d.scanning != NULL:
            book.scan_first = d.scanning.scan_next
            d.scanning.scan = SCAN_RUNNING
        uv_mutex_unlock(&book.lock)
    if d.scanning == NULL and not d.recent_wanted and not d.waking_wanted and not d.ended_wanted:
        return
    slot = slotpool_take(e.slots)
    if slot == NULL:
        return
    params_begin(&params)
    d.looking = True
    if d.scanning != NULL:
        g = d.scanning
        params_int4(&params, g.queue.id)
        params_int4(&params, g.id)
        params_int4(&params, g.scan_after)
        params_int4(&params, SCAN_PAGE)
        if not slot_send(slot, STMT_POP_SCAN, &params, scan_done, e, e.deadline_ms):
            d.looking = False
    elif d.waking_wanted:
        d.waking_wanted = False
        waking_send(e, slot)
    elif d.ended_wanted:
        d.ended_wanted = False
        if not ended_send(e, slot):
            d.looking = False
    else:
        d.recent_wanted = False
        params_int8(&params, clock_wall_us() - RECENT_MARGIN_US)
        if not slot_send(slot, STMT_RECENT, &params, recent_done, e, e.deadline_ms):
            d.looking = False

cdef void discover_tick(Engine* e, int64_t now) noexcept nogil:
    # Once a second, by one worker: has anything been committed at all, the catalog among it? An idle database answers that
    # for microseconds.
    cdef Discover* d = &e.discover
    cdef Slot* slot
    cdef bint waiting
    if now < d.look_at:
        return
    d.look_at = now + 1000000
    if d.looking or d.naming or d.recent_wanted or d.waking_wanted or d.ended_wanted:
        return
    uv_mutex_lock(&book.lock)
    waiting = book.parked > 0 or book.missed
    d.ended_all = book.missed
    book.missed = False
    uv_mutex_unlock(&book.lock)
    if not waiting:
        return
    slot = slotpool_take(e.slots)
    if slot == NULL:
        return
    d.looking = True
    if not slot_query_simple(slot, LOOK, look_done, e, e.deadline_ms):
        d.looking = False

cdef void look_done(Slot* slot, void* ctx, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = <Engine*>ctx
    cdef int64_t xmax
    e.discover.looking = False
    if outcome != SLOT_OK or PQntuples(res) == 0:
        return
    if pg_int8(res, 0, 1) != e.version:
        engine_reload(e.worker)
    e.discover.waking_wanted = True
    xmax = pg_int8(res, 0, 0)
    if xmax != e.discover.xmax:
        e.discover.xmax = xmax
        e.discover.recent_wanted = True
        e.discover.ended_wanted = True

cdef bint found_keep(Discover* d, int n) noexcept nogil:
    cdef Found* f = <Found*>realloc(d.found, (n if n else 1) * sizeof(Found))
    if f == NULL:
        return False
    memset(f, 0, n * sizeof(Found))
    d.found = f
    d.n_found = 0
    return True

cdef void scan_done(Slot* slot, void* ctx, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = <Engine*>ctx
    cdef Discover* d = &e.discover
    cdef int row
    cdef int32_t last = -1
    cdef bint more = False
    d.looking = False
    if outcome != SLOT_OK:
        if outcome == SLOT_ERROR and not sql_transient(res):
            log_line(b"error", b"scan_refused", pg_error(res))
            scan_end(e)
        return                # else the same page again, when a slot is free
    if not found_keep(d, PQntuples(res)):
        return
    for row in range(PQntuples(res)):
        last = pg_int4(res, row, 0)
        if pg_int8_or(res, row, 2, -1) >= 0:
            d.found[d.n_found].partition = last
            d.found[d.n_found].next_offset = pg_int8_or(res, row, 1, -1)
            d.found[d.n_found].head = pg_int8_or(res, row, 2, 0)
            d.found[d.n_found].leased_until = pg_int8_or(res, row, 3, 0)
            d.n_found += 1
        else:
            more = pg_int8_or(res, row, 2, 0) == -1
    if last > d.scanning.scan_after:
        d.scanning.scan_after = last
    d.last_page = not more
    found_name(e)

cdef void recent_done(Slot* slot, void* ctx, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = <Engine*>ctx
    cdef Discover* d = &e.discover
    cdef int row
    cdef bint unknown = False
    d.looking = False
    if outcome != SLOT_OK or not found_keep(d, PQntuples(res)):
        return
    uv_rwlock_rdlock(&catalog.lock)
    for row in range(PQntuples(res)):
        if catalog_queue_id(pg_int4(res, row, 1)) == NULL:
            unknown = True
            continue
        d.found[d.n_found].partition = pg_int4(res, row, 0)
        d.found[d.n_found].next_offset = -1
        d.found[d.n_found].head = pg_int8_or(res, row, 2, 0)
        d.found[d.n_found].leased_until = 0
        d.n_found += 1
    uv_rwlock_rdunlock(&catalog.lock)
    if unknown:
        engine_reload(e.worker)
    found_name(e)

cdef void waking_send(Engine* e, Slot* slot) noexcept nogil:
    cdef Discover* d = &e.discover
    cdef Params params
    d.waking_sent = clock_wall_us()
    params_begin(&params)
    params_int8(&params, d.waking_from if d.waking_from else d.waking_sent - RECENT_MARGIN_US)
    params_int4(&params, d.waking_after)
    params_int8(&params, d.waking_sent + WAKING_AHEAD_US)
    params_int4(&params, WAKING_PAGE)
    if not slot_send(slot, STMT_WAKING, &params, waking_done, e, e.deadline_ms):
        d.looking = False

cdef void waking_done(Slot* slot, void* ctx, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = <Engine*>ctx
    cdef Discover* d = &e.discover
    cdef int row
    cdef int n = PQntuples(res) if outcome == SLOT_OK else 0
    d.looking = False
    if outcome != SLOT_OK or not found_keep(d, n):
        return
    d.waking_wanted = n == WAKING_PAGE
    d.waking_from = pg_int8(res, n - 1, 3) if d.waking_wanted else d.waking_sent - RECENT_MARGIN_US
    d.waking_after = pg_int4(res, n - 1, 0) if d.waking_wanted else 0
    uv_rwlock_rdlock(&catalog.lock)
    for row in range(n):
        if catalog_queue_id(pg_int4(res, row, 1)) != NULL:      # of others nobody here can wait
            d.found[d.n_found].partition = pg_int4(res, row, 0)
            d.found[d.n_found].group = pg_int4(res, row, 2)
            d.found[d.n_found].wakes_at = pg_int8(res, row, 3)
            d.n_found += 1
    uv_rwlock_rdunlock(&catalog.lock)
    found_name(e)

cdef void found_name(Engine* e) noexcept nogil:
    # Partitions of other processes' making are asked for by id before they are used.
    cdef Discover* d = &e.discover
    cdef Slot* slot
    cdef Params params
    cdef int i
    pgarray_begin(&e.ask_a, OID_INT4)
    uv_rwlock_rdlock(&catalog.lock)
    for i in range(d.n_found):
        if catalog_partition_id(d.found[i].partition) == NULL:
            pgarray_int4(&e.ask_a, d.found[i].partition)
    uv_rwlock_rdunlock(&catalog.lock)
    if e.ask_a.n == 0:
        found_take(e)
        return
    slot = slotpool_take(e.slots)
    params_begin(&params)
    params_array(&params, &e.ask_a)
    d.naming = True
    d.cleanings = catalog.cleanings
    if slot == NULL or not slot_send(slot, STMT_PARTITIONS_FIND, &params, found_named, e, e.deadline_ms):
        d.naming = False
        found_take(e)         # the rest is found by the next look

cdef void found_named(Slot* slot, void* ctx, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = <Engine*>ctx
    e.discover.naming = False
    if outcome == SLOT_OK:
        names_take(e, res, e.discover.cleanings)
    found_take(e)

cdef void found_take(Engine* e) noexcept nogil:
    cdef Discover* d = &e.discover
    cdef int i
    cdef Partition* p
    cdef Cursor* c
    cdef Found* f
    cdef PopJob* wake = NULL
    cdef int64_t now = clock_mono_us()
    cdef int64_t wall = clock_wall_us()
    uv_rwlock_rdlock(&catalog.lock)
    uv_mutex_lock(&book.lock)
    for i in range(d.n_found):
        f = &d.found[i]
        p = catalog_partition_id(f.partition)
        if p == NULL:
            continue
        if f.wakes_at:
            book_waking(p, f.group, f.wakes_at, wall, now, &wake)
            continue
        if d.scanning == NULL:
            if f.head > p.head:
                book_head(p, f.head, &wake)
            continue
        if f.head > p.head:
            p.head = f.head
        c = book_cursor(d.scanning, p)
        if f.next_offset >= 0 and c.state != CURSOR_BUSY:
            c.next_offset = f.next_offset
        if f.leased_until > wall:
            if c.state == CURSOR_IDLE:
                cursor_move(c, CURSOR_LEASED, now + f.leased_until - wall)
        elif c.state == CURSOR_IDLE or c.state == CURSOR_LEASED:
            # LEASED: a claim's answer, or a scan's before this one, may be older than the move that ended the lease. Where the
            # scan is what is old, a try in vain tells.
            cursor_move(c, CURSOR_READY, 0)
            book_wake_cursor(c, &wake)
    uv_mutex_unlock(&book.lock)
    uv_rwlock_rdunlock(&catalog.lock)
    d.n_found = 0
    popjobs_wake(e.worker, wake)
    if d.scanning != NULL and d.last_page:
        scan_end(e)

cdef void scan_end(Engine* e) noexcept nogil:
    # Whoever waited only to learn whether there is anything is answered now; long polls stay.
    cdef Group* g = e.discover.scanning
    cdef PopJob* j
    cdef PopJob* following
    cdef PopJob* wake = NULL
    e.discover.scanning = NULL
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
    if book.n_strangers:
        book_wake_strangers(g.queue, slice_of(NULL, 0), &wake)
    uv_mutex_unlock(&book.lock)
    popjobs_wake(e.worker, wake)

cdef void scan_again(Group* g) noexcept nogil:
    # Everything known may be wrong (seek, configure): look once more. Book locked.
    if g.scan == SCAN_DONE:
        g.scan = SCAN_WANTED
        scan_want(g)
    elif g.scan == SCAN_RUNNING:
        g.scan_twice = True
