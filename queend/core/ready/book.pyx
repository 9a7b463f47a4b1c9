# The book of the pop side: which partitions have work for each consumer group, and which pops wait. In: commits,
# claims, acknowledgments, lease expiries, scans. Out: candidates for pops, and waiters to try again. Owner: the
# process. One mutex guards all of it; it is held for a batch of changes, never across I/O. All of it is a hint:
# PostgreSQL decides. Only cursor_move changes the state of a cursor.

cdef void book_open() noexcept nogil:
    memset(&book, 0, sizeof(book))
    book.commits = 1
    uv_mutex_init(&book.lock)

cdef void book_close() noexcept nogil:
    heap_free(&book.due)
    table_free(&book.name_waiters)
    uv_mutex_destroy(&book.lock)

cdef Cursor* book_cursor(Group* g, Partition* p) noexcept nogil:
    # Returns the group's cursor of a partition, and makes a missing one. Returns NULL if memory ran out or the
    # partition is buried: living objects lead to living objects only. A new cursor has its room in the heap of due
    # times, so its moves allocate nothing. Requires book.lock.
    cdef Cursor* c = <Cursor*>table_get(&g.cursors, <uint32_t>p.id)
    if c != NULL:
        return c
    if p.dead:
        return NULL
    c = <Cursor*>calloc(1, sizeof(Cursor)) if heap_room(&book.due, book.n_cursors + 1) else NULL
    if c == NULL or not table_put(&g.cursors, <uint32_t>p.id, c):
        free(c)
        return NULL
    book.n_cursors += 1
    if g.all_cursors == NULL:
        group_used(g)
    c.due.owner = c
    c.partition = p
    c.group = g
    c.fresh = 1
    c.all_next = g.all_cursors
    if c.all_next != NULL:
        c.all_next.all_prev = c
    g.all_cursors = c
    return c

cdef Cursor* book_noted(Group* g, Partition* p) noexcept nogil:
    # Returns the group's cursor of a partition that has news, NULL if it cannot be made. If memory ran out, wants a
    # scan, which finds the news later. Requires book.lock.
    cdef Cursor* c = book_cursor(g, p)
    if c == NULL and not p.dead:
        scan_again(g)
    return c

cdef void cursor_move(Cursor* c, int state, int64_t due_us) noexcept nogil:
    # Changes the state of a cursor; no other function does. due_us: monotonic, for LEASED and DELAYED. Requires
    # book.lock.
    cdef Group* g = c.group
    if c.dead:
        c.state = state       # for calls that hold it still
        return
    if c.state == CURSOR_READY:
        if c.prev != NULL:
            c.prev.next = c.next
        else:
            g.ready_first = c.next
        if c.next != NULL:
            c.next.prev = c.prev
        else:
            g.ready_last = c.prev
        c.next = NULL
        c.prev = NULL
        g.n_ready -= 1
    elif c.state == CURSOR_LEASED or c.state == CURSOR_DELAYED:
        heap_del(&book.due, &c.due)
        g.n_delayed -= c.state == CURSOR_DELAYED
        g.n_leased -= c.state == CURSOR_LEASED
    c.state = state
    if c.fed != NULL and state != CURSOR_LEASED and state != CURSOR_BUSY:
        fed_over(c)           # BUSY: a look-up of a lease that goes on
    book.moves += 1
    c.moved = book.moves
    if state == CURSOR_READY:
        # to the tail: every other ready partition gets its turn first
        c.prev = g.ready_last
        c.next = NULL
        if g.ready_last != NULL:
            g.ready_last.next = c
        else:
            g.ready_first = c
        g.ready_last = c
        g.n_ready += 1
    elif state == CURSOR_LEASED or state == CURSOR_DELAYED:
        heap_add(&book.due, &c.due, due_us)
        g.n_delayed += state == CURSOR_DELAYED
        g.n_leased += state == CURSOR_LEASED
        c.looked = 0
    elif state == CURSOR_BUSY:
        c.again = 0

cdef void cursor_free(Cursor* c) noexcept nogil:
    # Frees a cursor that nothing holds any more. Requires book.lock.
    if c.fed != NULL:
        fed_over(c)
    if not c.dead:
        unacked_end(c)
        heap_del(&book.due, &c.due)
        c.group.all_cursors = c.all_next      # the cursor is the first
    book.n_cursors -= 1
    free(c)

cdef void cursor_bury(Cursor* c, PopJob** wake) noexcept nogil:
    # Takes the cursor of a buried partition from its living group and wakes its waiters. Requires book.lock, and that
    # the cursor is out of the group's table.
    while c.wait_first != NULL:
        wake_push(c.wait_first, wake)
    cursor_move(c, CURSOR_IDLE, 0)
    unacked_end(c)
    if c.all_prev != NULL:
        c.all_prev.all_next = c.all_next
    else:
        c.group.all_cursors = c.all_next
    if c.all_next != NULL:
        c.all_next.all_prev = c.all_prev
    c.dead = True
    c.all_next = c.partition.buried
    c.partition.buried = c

cdef bint pop_stale(PopJob* j) noexcept nogil:
    # Returns True if what the pop found is deleted: no event would wake it there. Requires book.lock.
    return j.queue.dead or j.group.dead or (j.only != NULL and j.only.dead)

cdef int book_take(PopJob* j) noexcept nogil:
    # Takes candidates for a pop, which are busy from now on: the partition that it names, or ready ones of its group in
    # their order. Returns TAKE_*. Requires book.lock.
    cdef Cursor* c
    cdef int width
    j.allowed = j.req.batch
    if pop_stale(j):
        return TAKE_STALE
    group_used(j.group)
    if j.partition != NULL:
        j.only = book_cursor(j.group, j.partition)
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
            return TAKE_PACED
    if j.only != NULL:
        if j.only.state == CURSOR_BUSY:
            j.why = WHY_LEASE_HELD
        else:
            cursor_move(j.only, CURSOR_BUSY, 0)
            j.cursors[0] = j.only
            j.n_cursors = 1
        return TAKE_DONE
    width = min(j.width, j.req.partitions, j.allowed)
    while j.n_cursors < width and j.group.ready_first != NULL:
        c = j.group.ready_first
        cursor_move(c, CURSOR_BUSY, 0)
        j.cursors[j.n_cursors] = c
        j.n_cursors += 1
    j.why = WHY_NO_PARTITION
    if j.group.scan == SCAN_WANTED:
        scan_want(j.group)        # also if a cursor is ready: unknown partitions must not wait behind it
    return TAKE_DONE

cdef inline void cursor_rest(Cursor* c) noexcept nogil:
    # Makes a cursor, which nothing holds after a claim or an acknowledgment, ready if there is more, else idle.
    if c.again or c.partition.head > c.next_offset:
        cursor_move(c, CURSOR_READY, 0)
    else:
        cursor_move(c, CURSOR_IDLE, 0)

cdef void cursor_claimed(Cursor* c, PopJob* j, bint gone, int64_t next_offset, int64_t now) noexcept nogil:
    # Books a claim of the records before next_offset: leased, or consumed at once. gone: the pop's client has left
    # meanwhile. Requires book.lock.
    if now - j.claimed_us > POP_STALL_US:
        now = j.claimed_us    # the lease began between that moment and now
    book_made(c)
    c.next_offset = next_offset
    c.open = not j.req.auto_ack
    if not j.req.auto_ack:
        cursor_move(c, CURSOR_LEASED, now + j.lease_us + 2000)
    elif gone:
        cursor_move(c, CURSOR_LEASED, now + TAKE_BACK_US)     # no pop goes on behind it until it is taken back
    else:
        cursor_rest(c)
    rowcache_passed(c.partition)

cdef void book_head(Partition* p, int64_t head, PopJob** wake) noexcept nogil:
    # Notes that messages up to `head` exclusive are committed: every known group of the queue may have work. Appends
    # waiters that can now be tried to `wake`. Requires book.lock.
    cdef Group* g = p.queue.group_list
    cdef Cursor* c
    if head > p.head:
        p.head = head
    while g != NULL:
        c = book_noted(g, p) if not g.dead else NULL
        if c != NULL:
            if c.state == CURSOR_IDLE:
                if c.next_offset < head or c.fresh:     # else a push has handed it over
                    cursor_move(c, CURSOR_READY, 0)
                    book_wake_cursor(c, wake)
            elif c.state == CURSOR_BUSY:
                c.again |= AGAIN_NEWS
        g = g.next

cdef void book_found(Partition* p, int64_t head, PopJob** wake) noexcept nogil:
    # Notes the end of a partition by the database's word. A new head is news for every group. Requires book.lock.
    if head > p.head:
        p.head = head
        book_hears(p, head, wake)

cdef void book_hears(Partition* p, int64_t head, PopJob** wake) noexcept nogil:
    # Tells the groups that the partition may have records up to `head`. A group whose scan is wanted hears of it only
    # if it knows the partition already: the scan tells it of others. Requires book.lock.
    cdef Group* g = p.queue.group_list
    cdef Cursor* c
    while g != NULL:
        c = NULL
        if not g.dead:
            c = <Cursor*>table_get(&g.cursors, <uint32_t>p.id) if g.scan == SCAN_WANTED else book_noted(g, p)
        if c != NULL and c.state == CURSOR_BUSY:
            c.again |= AGAIN_NEWS
        elif c != NULL and c.state == CURSOR_IDLE and c.next_offset < head:
            cursor_move(c, CURSOR_READY, 0)
            book_wake_cursor(c, wake)
        g = g.next

cdef void book_unsure(Group* g, Partition* p, PopJob** wake) noexcept nogil:
    # Makes a cursor ready after an acknowledgment whose answer was lost: its lease may have ended. The next pop asks
    # the database. Requires book.lock.
    cdef Cursor* c
    if g.dead:
        return
    c = book_noted(g, p)
    if c == NULL:
        return
    if c.state == CURSOR_BUSY:
        c.again |= AGAIN_FREE
    elif c.state == CURSOR_LEASED:
        cursor_move(c, CURSOR_READY, 0)
        book_wake_cursor(c, wake)

cdef void book_stored(Partition* p, int64_t head, PopJob** wake) noexcept nogil:
    # Notes that this process stored records up to `head` in a partition. The partition may be buried since, and live on
    # as another entry, which hears of the head. If there is no such entry, the groups of its queue are scanned.
    # Requires catalog.lock and book.lock.
    cdef Partition* found = catalog_partition_id(p.id) if p.dead else p
    cdef Queue* q
    cdef Group* g
    tell_stored(p.id)
    if found != NULL:
        book_head(found, head, wake)
        return
    q = catalog_queue_id(p.queue.id)
    if q != NULL:
        g = q.group_list
        while g != NULL:
            scan_again(g)
            g = g.next

cdef inline void book_made(Cursor* c) noexcept nogil:
    # Notes that the database has the cursor's row, by the answer to a claim. A forget since may have removed the row
    # again. Requires book.lock.
    atomic_set8(&c.fresh, c.fresh == FRESH_AGAIN)

cdef void book_forget(Group* g) noexcept nogil:
    # Forgets what is known of a group's cursors, which were moved by hand: a scan finds their places and leases.
    # Cursors that are ready or busy stay so: the database decides. Requires book.lock.
    cdef Cursor* c = g.all_cursors
    while c != NULL:
        atomic_set8(&c.fresh, FRESH_AGAIN if c.state == CURSOR_BUSY else 1)
        c.open = 0
        if c.state == CURSOR_BUSY:
            c.again |= AGAIN_NEWS
        elif c.state != CURSOR_READY:
            cursor_move(c, CURSOR_IDLE, 0)
        c = c.all_next
    if g.scan == SCAN_DONE:
        g.scan = SCAN_WANTED  # listed by the next pop that finds the group again
    elif g.scan != SCAN_WANTED:
        g.scan_twice = True

cdef int64_t book_due(int64_t now, PopJob** wake) noexcept nogil:
    # Makes cursors ready whose lease or delay ended. Returns when the next one ends, 0 for never. Takes book.lock.
    cdef HeapNode* n
    cdef Cursor* c
    uv_mutex_lock(&book.lock)
    while True:
        n = heap_top(&book.due)
        if n == NULL or n.at > now:
            break
        c = <Cursor*>n.owner
        if c.state == CURSOR_LEASED:
            unacked_expired(c, now)
        cursor_move(c, CURSOR_READY, 0)
        book_wake_cursor(c, wake)
    now = n.at if n != NULL else 0
    uv_mutex_unlock(&book.lock)
    return now

cdef void book_acked(Group* g, Partition* p, int64_t forgets, bint released, int64_t committed, int64_t head,
                     int64_t retry_until, int64_t now, PopJob** wake) noexcept nogil:
    # Applies an acknowledgment to its cursor. forgets: book.forgets when it was sent. If cursors were moved by hand
    # since, the lease it ended may not be the present one: the next pop finds out. Requires book.lock.
    cdef Cursor* c = book_noted(g, p)
    cdef PopJob* before
    cdef int64_t wait
    if c == NULL:
        return
    book_found(p, head, wake)
    before = wake[0]
    if released and (c.state == CURSOR_BUSY or c.state == CURSOR_READY):
        tell_free(p.id, g.id)
    if c.state == CURSOR_BUSY:
        c.again |= AGAIN_FREE if released else AGAIN_NEWS
        return
    if not released:
        return
    if forgets != book.forgets:
        book_unsure(g, p, wake)
        return
    c.open = committed + 1 < c.next_offset
    c.next_offset = committed + 1
    wait = retry_until - dbclock_now() if retry_until else 0
    if wait > 0 and p.head > c.next_offset:
        c.wakes_at = retry_until
        cursor_move(c, CURSOR_DELAYED, now + wait)
        return
    if c.state == CURSOR_READY:
        return
    c.again = 0
    cursor_rest(c)
    if c.state == CURSOR_READY:
        book_wake_cursor(c, wake)
    if wake[0] == before:
        tell_free(p.id, g.id)         # else a pop of this process goes on
