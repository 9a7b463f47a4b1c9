# Scans: reads the cursors of a group and the ends of its partitions, in pages of SCAN_PAGE. In: groups that want a scan
# (ready/groups). Out: positions, leases and heads in the book; pops that waited for the scan. Owner: the worker, with
# the statement of find/poll; a group under scan is pinned. Locks: catalog.lock, then book.lock.

# ---- the group -------------------------------------------------------------------------------------------------------

cdef void scanner_next(Engine* e) noexcept nogil:
    # Takes the next group to be scanned. Leaves out groups that can be found no more.
    cdef Polling* d = &e.polling
    cdef Group* g
    cdef PopJob* wake = NULL
    uv_mutex_lock(&book.lock)
    # The first look begins before the first scan. A worker takes groups only once it has met this server: on meeting
    # it, the worker forgets what it has in hand (poll_forget).
    while (book.looked and e.slots.incarnation == catalog.incarnation and book.scan_first != NULL
            and d.scanning == NULL):
        g = book.scan_first
        book.scan_first = g.scan_next
        book.n_scans -= 1
        if g.dead or g.queue.dead:
            g.scan = SCAN_WANTED
            g.scan_listed = False
            continue
        if g.scan == SCAN_WANTED and g.n_wait_only and book.n_cursors > CURSORS_KEPT:
            waiters_wake_group(g, &wake)      # they try again, as the scan may rest before it reads their partitions
        g.scan = SCAN_RUNNING
        d.scanning = g
        d.pin = epoch_pin(e.worker.pins)
    index_unlock(e.worker, wake)

cdef void scanner_release(Engine* e) noexcept nogil:
    # Lets go of the scanned group and its pin.
    e.polling.scanning = NULL
    epoch_unpin(e.worker.pins, e.polling.pin)
    e.polling.pin = 0

cdef void scanner_yield(Engine* e) noexcept nogil:
    # Leaves the running scan, between two pages, at the head of the list to the next worker that has a free connection.
    # A dead group leaves the list.
    cdef Group* g = e.polling.scanning
    uv_mutex_lock(&book.lock)
    if g.dead or g.queue.dead:
        g.scan = SCAN_WANTED
        g.scan_listed = False
    else:
        g.scan = SCAN_PAUSED
        group_list_scan(g)
    uv_mutex_unlock(&book.lock)
    scanner_release(e)

cdef void scanner_rest(Engine* e) noexcept nogil:
    # Lets the running scan rest after a page, if it may (ready/groups).
    cdef Group* g = e.polling.scanning
    cdef bint rests
    uv_mutex_lock(&book.lock)
    rests = book.n_cursors > CURSORS_KEPT and g.n_ready > 0 and (g.n_wait == 0 or g.paused)
    if rests:
        g.scan = SCAN_PAUSED
        g.scan_listed = False
        g.scan_rests = g.n_ready
    uv_mutex_unlock(&book.lock)
    if rests:
        scanner_release(e)

# ---- a page ----------------------------------------------------------------------------------------------------------

cdef void scanner_send(Engine* e) noexcept nogil:
    cdef Group* g = e.polling.scanning
    cdef ScanArgs* a = <ScanArgs*>e.args.at
    cdef int most = SCAN_PAGE
    uv_mutex_lock(&book.lock)
    e.polling.moves = book.moves
    if book.n_cursors > CURSORS_KEPT:         # begins with a few, and doubles what it has read
        most = <int>min(<size_t>SCAN_PAGE, max(<size_t>SCAN_PAGE_LEAST, g.cursors.used))
    uv_mutex_unlock(&book.lock)
    poll_begin(e, STMT_POP_SCAN, scanner_done, FIND_SCAN)
    arg_int4(&a.queue, g.queue.id)
    arg_int4(&a.group, g.id)
    arg_int4(&a.after, g.scan_after)
    arg_int4(&a.most, most)
    call_send(&e.polling.call)

cdef void scanner_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = c.engine
    cdef Polling* d = &e.polling
    cdef Found* f
    cdef int row
    cdef int32_t last = -1
    cdef bint more = False
    d.finding = FIND_NOTHING
    if d.forgotten:
        return                # it let go of the group too (poll_forget)
    uv_mutex_lock(&book.lock)
    book.scan_error = sqlstate_of(res) if outcome == SLOT_ERROR else NULL
    uv_mutex_unlock(&book.lock)
    if outcome != SLOT_OK:
        if outcome == SLOT_ERROR:
            if sqlstate_of(res).error_class >= ERROR_UNFIT:
                log_line(b"error", b"scan_refused", pg_error(res))
            d.pause_until = clock_mono_us() + SCAN_PAUSE_US
        else:
            scanner_yield(e)
        return                # the same page is read again
    if not poll_found_room(d, PQntuples(res)):
        return
    for row in range(PQntuples(res)):
        last = pg_int4(res, row, POP_SCAN_PARTITION)
        if pg_int8_or(res, row, POP_SCAN_HEAD, -1) >= 0:
            f = poll_found_add(d, last)
            f.next_offset = pg_int8_or(res, row, POP_SCAN_NEXT, -1)
            f.head = pg_int8_or(res, row, POP_SCAN_HEAD, 0)
            f.leased_until = pg_int8_or(res, row, POP_SCAN_LEASE_UNTIL, 0)
        else:
            more = pg_int8_or(res, row, POP_SCAN_HEAD, 0) == POP_SCAN_MORE
    d.page_end = last
    d.last_page = not more
    poll_find_names(e, FIND_SCAN)

cdef bint scanner_apply(Polling* d, Found* f, Partition* p, int64_t wall, int64_t now, PopJob** wake) noexcept nogil:
    # Applies a row of a scan to the group's cursor. Returns False if memory ran out. Requires catalog.lock and
    # book.lock.
    cdef Cursor* c = cursor_get(d.scanning, p)
    if c == NULL:
        return False
    if <int32_t>(c.moved - d.moves) > 0:
        # The cursor has moved since the row was read: only the head can be news.
        index_head_found(p, f.head, wake)
        if c.state == CURSOR_IDLE and c.next_offset < p.head:
            cursor_wake(c, wake)
        return True
    if f.next_offset >= 0 and c.state != CURSOR_BUSY:
        c.next_offset = f.next_offset
    index_head_found(p, f.head, wake)
    if f.leased_until > wall:
        if c.state == CURSOR_IDLE:
            cursor_move(c, CURSOR_LEASED, now + f.leased_until - wall)
    elif c.state == CURSOR_IDLE or c.state == CURSOR_LEASED:
        # LEASED: the answer to a claim, or to an earlier scan, may be older than the move that ended the lease. If this
        # scan is the older one, a try in vain tells.
        cursor_wake(c, wake)
    return True

# ---- the end of a scan -----------------------------------------------------------------------------------------------

cdef void scanner_end(Engine* e) noexcept nogil:
    # Ends a scan. Pops that waited only to learn whether there are messages are answered now; long polls stay.
    cdef Group* g = e.polling.scanning
    cdef PopJob* j
    cdef PopJob* following
    cdef PopJob* wake = NULL
    uv_mutex_lock(&book.lock)
    g.scan = SCAN_DONE
    g.scan_listed = False
    if g.scan_twice:
        g.scan_twice = False
        group_rescan(g)
    j = g.wait_first
    while j != NULL:
        following = j.wait_next
        if j.until_us == 0:
            waiters_wake(j, &wake)
        j = following
    if book.n_name_waiters:
        waiters_name_wake_queue(g.queue, slice_of(NULL, 0), &wake)
    uv_mutex_unlock(&book.lock)
    scanner_release(e)
    waiters_send(e.worker, wake)

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
