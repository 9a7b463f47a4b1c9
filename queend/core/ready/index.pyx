# The book: which partitions have work for each consumer group, and which pops wait. In: commits, claims,
# acknowledgments, lease expiries, scans, notices of other daemons. Out: candidates for pops, and waiters to try again.
# Owner: the process. One mutex guards all of it, book.lock; it is held for a batch of changes, never across I/O. All of
# it is a hint: PostgreSQL decides.

# ---- the book and its locks ------------------------------------------------------------------------------------------

cdef void index_open() noexcept nogil:
    memset(&book, 0, sizeof(book))
    book.commits = 1
    uv_mutex_init(&book.lock)

cdef void index_close() noexcept nogil:
    heap_free(&book.due)
    table_free(&book.name_waiters)
    uv_mutex_destroy(&book.lock)

cdef inline void index_lock_all() noexcept nogil:
    # Locks catalog (for reading) and book, in their order.
    uv_rwlock_rdlock(&catalog.lock)
    uv_mutex_lock(&book.lock)

cdef inline void index_unlock(Worker* w, PopJob* wake) noexcept nogil:
    # Unlocks the book, and wakes the pops that were taken out of it meanwhile.
    uv_mutex_unlock(&book.lock)
    waiters_send(w, wake)

cdef inline void index_unlock_all(Worker* w, PopJob* wake) noexcept nogil:
    # Unlocks book and catalog, and wakes the pops that were taken out of the book meanwhile.
    uv_mutex_unlock(&book.lock)
    uv_rwlock_rdunlock(&catalog.lock)
    waiters_send(w, wake)

# ---- heads -----------------------------------------------------------------------------------------------------------

cdef void index_head_found(Partition* p, int64_t head, PopJob** wake) noexcept nogil:
    # Notes the end of a partition by the database's word. A new head is news for every group. Requires book.lock.
    if head > p.head:
        p.head = head
        index_notify(p, head, False, wake)

cdef void index_notify(Partition* p, int64_t head, bint here, PopJob** wake) noexcept nogil:
    # Tells the groups that the partition may have records up to `head`. here: this process stored them. If another did,
    # a group whose scan is wanted hears of it only if it knows the partition already: the scan tells it of others.
    # Appends waiters that can now be tried to `wake`. Requires book.lock.
    cdef Group* g = p.queue.group_list
    cdef Cursor* c
    while g != NULL:
        c = NULL
        if not g.dead:
            c = (cursor_or_scan(g, p) if here or g.scan != SCAN_WANTED
                 else <Cursor*>table_get(&g.cursors, <uint32_t>p.id))
        if c != NULL and c.state == CURSOR_BUSY:
            c.recheck |= RECHECK_NEWS
        elif c != NULL and c.state == CURSOR_IDLE and (c.next_offset < head or here and c.may_be_missing):
            cursor_wake(c, wake)       # the position is behind `head` if a push has handed it over
        g = g.next

cdef void index_stored(Partition* p, int64_t head, PopJob** wake) noexcept nogil:
    # Notes that this process stored records up to `head` in a partition. The partition may be retired since, and live
    # on as another entry, which hears of the head. If there is no such entry, the groups of its queue are scanned.
    # Requires catalog.lock and book.lock.
    cdef Partition* found = catalog_partition_id(p.id) if p.dead else p
    cdef Queue* q
    cdef Group* g
    notice_stored(p.id)
    if found != NULL:
        found.head = max(found.head, head)
        index_notify(found, head, True, wake)
        return
    q = catalog_queue_id(p.queue.id)
    if q != NULL:
        g = q.group_list
        while g != NULL:
            group_rescan(g)
            g = g.next

# ---- leases, pauses and positions ------------------------------------------------------------------------------------

cdef void index_acked(Group* g, Partition* p, const Call* call, bint released, int64_t committed, int64_t head,
                      int64_t retry_until, PopJob** wake) noexcept nogil:
    # Applies an acknowledgment, which this call has made, to its cursor. If a seek came since the
    # call was sent, the present lease may be another one. The next pop finds that out. Requires book.lock.
    cdef Cursor* c = cursor_or_scan(g, p)
    cdef PopJob* before
    cdef int64_t wait
    index_head_found(p, head, wake)
    before = wake[0]
    if released and (c == NULL or c.state == CURSOR_BUSY or c.state == CURSOR_READY):
        notice_freed(p.id, g.id)
    if c != NULL and c.state == CURSOR_BUSY:
        c.recheck |= RECHECK_FREE if released else RECHECK_NEWS
    if c == NULL or c.state == CURSOR_BUSY or not released:
        return
    if call.forgets != book.forgets:
        index_ack_lost(g, p, wake)
        return
    c.partly_acked = committed + 1 < c.next_offset
    c.next_offset = committed + 1
    wait = retry_until - clock_db_now() if retry_until else 0
    if wait > 0 and p.head > c.next_offset:
        c.wakes_at = retry_until
        cursor_move(c, CURSOR_DELAYED, call.ended_us + wait)
        return
    if c.state == CURSOR_READY:
        return
    c.recheck = 0
    cursor_rest(c)
    if c.state == CURSOR_READY:
        waiters_wake_cursor(c, wake)
    if wake[0] == before:
        notice_freed(p.id, g.id)      # else a pop of this process goes on

cdef void index_ack_lost(Group* g, Partition* p, PopJob** wake) noexcept nogil:
    # Makes a cursor ready after an acknowledgment whose answer was lost: its lease may have ended. The next pop asks
    # the database. Requires book.lock.
    cdef Cursor* c = cursor_or_scan(g, p) if not g.dead else NULL
    if c != NULL and c.state == CURSOR_BUSY:
        c.recheck |= RECHECK_FREE
    elif c != NULL and c.state == CURSOR_LEASED:
        cursor_wake(c, wake)

cdef void index_expire(int64_t now, PopJob** wake) noexcept nogil:
    # Makes cursors ready whose lease or delay ended. Requires book.lock.
    cdef HeapNode* n
    cdef Cursor* c
    while True:
        n = heap_top(&book.due)
        if n == NULL or n.at > now:
            break
        c = <Cursor*>n.owner
        if c.state == CURSOR_LEASED:
            unacked_expired(c, now)
        cursor_wake(c, wake)

cdef void index_pause_end(Partition* p, int32_t group, int64_t at, int64_t wall, int64_t now,
                          PopJob** wake) noexcept nogil:
    # Notes that a pause of a group (or of GROUP_EVERY) ends at a moment of the database's clock, whichever daemon made
    # it. A lease or a pause known here may be older. Requires book.lock.
    cdef Group* g = p.queue.group_list
    cdef Cursor* c
    cdef int64_t due = max(now + at - wall, now)
    while g != NULL:
        c = cursor_or_scan(g, p) if not g.dead and (group == GROUP_EVERY or g.id == group) else NULL
        if c == NULL or c.wakes_at == at:
            pass
        elif c.state == CURSOR_BUSY:
            c.recheck |= RECHECK_NEWS if due <= now else 0    # else the claim in flight will tell, or the next look
        else:
            c.wakes_at = at
            if c.state == CURSOR_IDLE or c.state != CURSOR_READY and c.due.at > due:
                cursor_move(c, CURSOR_DELAYED if due > now else CURSOR_READY, due)
                if c.state == CURSOR_READY:
                    waiters_wake_cursor(c, wake)
        g = g.next

cdef void index_forget(Group* g) noexcept nogil:
    # Forgets what is known of a group's cursors, which were moved by hand: a scan finds their places and leases.
    # Cursors that are ready or busy stay so: the database decides. Requires book.lock.
    cdef Cursor* c = g.all_cursors
    while c != NULL:
        atomic_set8(&c.may_be_missing, MISSING_AGAIN if c.state == CURSOR_BUSY else 1)
        c.partly_acked = 0
        if c.state == CURSOR_BUSY:
            c.recheck |= RECHECK_NEWS
        elif c.state != CURSOR_READY:
            cursor_move(c, CURSOR_IDLE, 0)
        c = c.all_next
    group_scan_later(g)

# ---- notices of other daemons ----------------------------------------------------------------------------------------

cdef bint index_peer_released(Partition* p, int32_t group, PopJob** wake) noexcept nogil:
    # Handles a peer's notice that a lease ended: makes the cursor ready. Returns True if a feed of this process holds
    # the lease. The caller must then look it up: until the database says otherwise, the lease goes on. Requires
    # book.lock.
    cdef Group* g = catalog_group_id(p.queue, group)
    cdef Cursor* c = <Cursor*>table_get(&g.cursors, <uint32_t>p.id) if g != NULL else NULL
    if c == NULL:
        return False
    if c.state == CURSOR_BUSY:
        c.recheck |= RECHECK_FREE
    elif c.state == CURSOR_LEASED and c.fed == NULL:
        cursor_wake(c, wake)
    return c.fed != NULL

# ---- candidates of a pop ---------------------------------------------------------------------------------------------

cdef bint index_pop_stale(PopJob* j) noexcept nogil:
    # Returns True if what the pop found is deleted: no event would wake it there. Requires book.lock.
    return j.queue.dead or j.group.dead or (j.only != NULL and j.only.dead)

cdef int index_take(PopJob* j) noexcept nogil:
    # Takes candidates for a pop, which are busy from now on: the partition that it names, or ready ones of its group in
    # their order. Returns TAKE_*. Requires book.lock.
    cdef Cursor* c
    cdef int width, most
    j.allowed = j.req.batch
    if index_pop_stale(j):
        return TAKE_STALE
    group_used(j.group)
    if j.partition != NULL:
        j.only = cursor_get(j.group, j.partition)
        if j.partition.dead:
            return TAKE_STALE
        if j.only == NULL:
            return TAKE_SHORT
    if j.group.paused:
        j.why = WHY_NO_PARTITION
        return TAKE_PAUSED
    if j.queue.shared and (j.group.ready_first != NULL if j.only == NULL else j.only.state != CURSOR_BUSY):
        j.allowed = min(rate_reserve(j), j.req.batch)
        if j.allowed == 0:
            j.why = WHY_NO_PARTITION if j.only == NULL else WHY_NOTHING
            return TAKE_RATE
    if j.only != NULL:
        if j.only.state == CURSOR_BUSY:
            j.why = WHY_LEASE_HELD
        elif not popjob_room(j, 1, True):
            return TAKE_SHORT
        else:
            cursor_move(j.only, CURSOR_BUSY, 0)
            popjob_candidate(j, j.only)
        return TAKE_DONE
    most = min(popjob_width(j), j.allowed)
    width = min(most, j.group.n_ready)
    if not popjob_room(j, width, True):
        return TAKE_SHORT
    while j.n_claims < width:
        c = j.group.ready_first
        cursor_move(c, CURSOR_BUSY, 0)
        popjob_candidate(j, c)
    j.why = WHY_NO_PARTITION
    if j.group.scan == SCAN_WANTED:
        group_want_scan(j.group)  # also if a cursor is ready: unknown partitions must not wait behind it
    elif group_rests(j.group):
        group_resume_scan(j.group, width, width < most)
    return TAKE_DONE
