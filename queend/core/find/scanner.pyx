# Scans read what no notice tells of, a page at a time. The scan of a group reads its cursors and the ends of its
# partitions. The scan of leases finds those that another daemon ended before their expiry.
# In: groups that want a scan (ready/groups); looks that saw a commit. Out: positions, leases and heads in the book;
# pops that waited for the scan.
# Owner: the worker, with the statement of find/poll; a group under scan is pinned. Locks: catalog.lock, then book.lock.

# ---- a group ---------------------------------------------------------------------------------------------------------

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

# ---- a page of a group -----------------------------------------------------------------------------------------------

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

# ---- the end of a group's scan ---------------------------------------------------------------------------------------

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

# ---- leases that ended elsewhere -------------------------------------------------------------------------------------
# To write the end of a lease down for other daemons would cost every acknowledgment. So this process looks up leases
# that it believes in, if a pop waits for them, or a feed for credit. For LEASES_ASKED_US (60 s) after an empty pop that
# did not wait, it looks up all leases.
# Each look begins a walk around the heap of due times, in pages. A lease is looked up once after each look that saw a
# commit, even if the pop came later. After a page the walk rests for LEASES_REST times as long as the page took, at
# most LEASES_REST_US (200 ms).

cdef enum:
    LEASES_ASKED_US = 60000000    # after a pop that did not wait and found nothing
    LEASES_STEPS = 8192       # places of the heap visited under one lock
    LEASES_REST = 4
    LEASES_REST_US = 200000
    LEASES_PAUSE_US = 1000    # after a page without a statement

cdef void scanner_leases_begin(Polling* d, bint committed, int64_t now) noexcept nogil:
    # Begins a walk, or lengthens the one under way to a whole round. committed: the look saw a commit.
    uv_mutex_lock(&book.lock)
    if committed:
        book.commits += 1
        book.commits += book.commits == 0
    if book.missed_us and now - book.missed_us < LEASES_ASKED_US:
        d.leases_unasked = book.due.n
    if d.leases_unasked or book.parked or feed_leases.used:
        d.leases_left = book.due.n
    uv_mutex_unlock(&book.lock)
    if d.leases_left and d.leases_due_us == 0:
        d.leases_due_us = now

cdef inline bint scanner_lease_needed(Cursor* c) noexcept nogil:
    # Returns True if a pop waits for the cursor's lease to end, or a feed for its credit. Requires book.lock.
    cdef Queue* q = c.partition.queue
    if c.group.n_wait or c.wait_first != NULL or c.fed != NULL and c.fed.feed.full:
        return True
    if book.n_name_waiters == 0:
        return False
    if q.filed_page != book.lease_pages:
        q.filed_page = book.lease_pages
        q.filed_waits = waiters_name_for(q, NULL)
    return q.filed_waits

cdef void scanner_leases_send(Engine* e) noexcept nogil:
    # Visits the next places of the heap and looks up the leases there that need it.
    cdef Polling* d = &e.polling
    cdef CursorArgs* a = <CursorArgs*>e.args.at
    cdef Cursor* c
    cdef int steps = 0
    cdef int n
    d.n_checked = 0
    poll_begin(e, STMT_LEASES_ENDED, scanner_leases_done, FIND_LEASES)
    uv_mutex_lock(&book.lock)
    book.lease_pages += 1
    n = book.due.n
    d.leases_left = min(d.leases_left, n)
    while d.leases_left and steps < LEASES_STEPS and d.n_checked < LEASES_PAGE:
        # around the heap: a lease that moves meanwhile is met in the next walk
        d.leases_at = d.leases_at % n + 1
        steps += 1
        c = <Cursor*>book.due.nodes[d.leases_at].owner
        if (c.state == CURSOR_LEASED and c.looked != book.commits and not c.group.dead
                and (d.leases_unasked or scanner_lease_needed(c))):
            c.looked = book.commits
            pgarray_int4(&a.part, c.partition.id)
            pgarray_int4(&a.group, c.group.id)
            d.checked[d.n_checked].partition = c.partition.id
            d.checked[d.n_checked].group = c.group.id
            d.checked[d.n_checked].due = c.due.at
            d.n_checked += 1
        d.leases_left -= 1
        d.leases_unasked -= d.leases_unasked > 0
    if d.leases_left == 0:
        d.leases_unasked = 0
    uv_mutex_unlock(&book.lock)
    if d.n_checked:
        call_send(&d.call)
    else:
        d.finding = FIND_NOTHING
        scanner_leases_rest(d, LEASES_PAUSE_US)

cdef void scanner_leases_rest(Polling* d, int64_t pause_us) noexcept nogil:
    # Sets when the walk goes on, if it is not over.
    d.leases_due_us = clock_mono_us() + pause_us if d.leases_left else 0

cdef enum:
    LEASES_ENDED_ORD = 0      # the only column of leases_ended

cdef void scanner_leases_done(Call* call, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = call.engine
    cdef Polling* d = &e.polling
    cdef int row, i
    cdef Partition* p
    cdef Group* g
    cdef Cursor* c
    cdef PopJob* wake = NULL
    scanner_leases_rest(d, min(LEASES_REST * (call.ended_us - call.sent_us), LEASES_REST_US))
    if outcome != SLOT_OK:
        poll_discard(d)       # its next look counts as one that saw a commit: all are looked up once more
        return
    d.finding = FIND_NOTHING
    index_lock_all()
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, LEASES_ENDED_ORD)
        p = catalog_partition_id(d.checked[i].partition) if 0 <= i < d.n_checked else NULL
        g = catalog_group_id(p.queue, d.checked[i].group) if p != NULL else NULL
        c = cursor_get(g, p) if g != NULL else NULL
        if c != NULL and c.state == CURSOR_LEASED and c.due.at == d.checked[i].due:
            cursor_wake(c, &wake)
    index_unlock_all(e.worker, wake)
