# Leases that ended before their expiry through another daemon. In: looks that saw a commit. Out: cursors that are
# ready. Owner: the worker that looks (find/poll). Locks: catalog.lock, then book.lock. To write the end of a lease down
# for other daemons would cost every acknowledgment. So this process looks up leases that it believes in, if a pop waits
# for them, or a feed for credit. For LEASES_ASKED_US (60 s) after an empty pop that did not wait, it looks up all
# leases.

cdef enum:
    LEASES_ASKED_US = 60000000    # after a pop that did not wait and found nothing
    LEASES_STEPS = 8192       # places of the heap visited under one lock
    LEASES_REST = 4
    LEASES_REST_US = 200000
    LEASES_PAUSE_US = 1000    # after a page without a statement

# ---- the walk --------------------------------------------------------------------------------------------------------
# Each look begins a walk around the heap of due times, in pages. A lease is looked up once after each look that saw a
# commit, even if the pop came later. After a page the walk rests for LEASES_REST times as long as the page took, at
# most LEASES_REST_US (200 ms).

cdef void leasepoll_begin(Polling* d, bint committed, int64_t now) noexcept nogil:
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

cdef inline bint leasepoll_needed(Cursor* c) noexcept nogil:
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

cdef void leasepoll_send(Engine* e) noexcept nogil:
    # Visits the next places of the heap and looks up the leases there that need it.
    cdef Polling* d = &e.polling
    cdef CursorArgs* a = <CursorArgs*>e.args.at
    cdef Cursor* c
    cdef int steps = 0
    cdef int n
    d.n_checked = 0
    poll_begin(e, STMT_LEASES_ENDED, leasepoll_done, FIND_LEASES)
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
                and (d.leases_unasked or leasepoll_needed(c))):
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
        leasepoll_rest(d, LEASES_PAUSE_US)

cdef void leasepoll_rest(Polling* d, int64_t pause_us) noexcept nogil:
    # Sets when the walk goes on, if it is not over.
    d.leases_due_us = clock_mono_us() + pause_us if d.leases_left else 0

cdef enum:
    LEASES_ENDED_ORD = 0      # the only column of leases_ended

cdef void leasepoll_done(Call* call, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = call.engine
    cdef Polling* d = &e.polling
    cdef int row, i
    cdef Partition* p
    cdef Group* g
    cdef Cursor* c
    cdef PopJob* wake = NULL
    leasepoll_rest(d, min(LEASES_REST * (call.ended_us - call.sent_us), LEASES_REST_US))
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
