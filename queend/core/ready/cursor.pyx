# Cursors: the position of a consumer group in a partition, and its state. In: claims, moves by ready/index, retired
# partitions. Out: the cursor in its new state: in its group's list of ready cursors, or in the heap of due times. Only
# cursor_move changes a state. Owner: the process; guarded by book.lock.

# ---- found or made ---------------------------------------------------------------------------------------------------

cdef Cursor* cursor_get(Group* g, Partition* p) noexcept nogil:
    # Returns the group's cursor of a partition, and makes a missing one. Returns NULL if memory ran out or the
    # partition is retired: living objects lead to living objects only. A new cursor has its room in the heap of due
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
    c.may_be_missing = 1
    c.all_next = g.all_cursors
    if c.all_next != NULL:
        c.all_next.all_prev = c
    g.all_cursors = c
    return c

cdef Cursor* cursor_or_scan(Group* g, Partition* p) noexcept nogil:
    # Returns the group's cursor of a partition that has news. NULL if it is not made: a scan finds the news later.
    # Requires book.lock.
    cdef Cursor* c = <Cursor*>table_get(&g.cursors, <uint32_t>p.id)
    if c != NULL or p.dead:
        return c
    if group_rests(g) and p.id > g.scan_after:
        return NULL           # the scan will read the partition
    if book.n_cursors >= CURSORS_MOST and not g.n_wait and not waiters_name_for(g.queue, g):
        group_scan_later(g)   # a pop that comes can wait for a scan
        return NULL
    c = cursor_get(g, p)
    if c == NULL:
        group_rescan(g)       # out of memory
    return c

cdef inline void cursor_row_made(Cursor* c) noexcept nogil:
    # Notes that the database has the cursor's row, by the answer to a claim. A forget since may have removed the row
    # again. Requires book.lock.
    atomic_set8(&c.may_be_missing, c.may_be_missing == MISSING_AGAIN)

# ---- states ----------------------------------------------------------------------------------------------------------

cdef void cursor_move(Cursor* c, int state, int64_t due_us) noexcept nogil:
    # Changes the state of a cursor; no other function does. due_us: monotonic, for LEASED and DELAYED. Requires
    # book.lock.
    cdef Group* g = c.group
    if c.dead:
        c.state = state       # for calls that still refer to the cursor
        return
    if c.state == CURSOR_READY:
        link_del(<Links*>&g.ready_first, &c.link)
        g.n_ready -= 1
    elif c.state == CURSOR_LEASED or c.state == CURSOR_DELAYED:
        heap_del(&book.due, &c.due)
        g.n_delayed -= c.state == CURSOR_DELAYED
        g.n_leased -= c.state == CURSOR_LEASED
    c.state = state
    if c.fed != NULL and state != CURSOR_LEASED and state != CURSOR_BUSY:
        unacked_feed_end(c)   # BUSY: a look-up of a lease that goes on
    book.moves += 1
    c.moved = book.moves
    if state == CURSOR_READY:
        # to the tail: every other ready partition gets its turn first
        link_add(<Links*>&g.ready_first, &c.link)
        g.n_ready += 1
    elif state == CURSOR_LEASED or state == CURSOR_DELAYED:
        heap_add(&book.due, &c.due, due_us)
        g.n_delayed += state == CURSOR_DELAYED
        g.n_leased += state == CURSOR_LEASED
        c.looked = 0
    elif state == CURSOR_BUSY:
        c.recheck = 0

cdef void cursor_claimed(Claim* claim, bint client_gone, int64_t now) noexcept nogil:
    # Books a claim that was made: its records are leased, or consumed at once. client_gone: the pop's client has left
    # meanwhile. Requires book.lock.
    cdef Cursor* c = claim.cursor
    cdef PopJob* j = claim.job
    if now - j.claimed_us > POP_STALL_US:
        now = j.claimed_us    # the lease began between that moment and now
    cursor_row_made(c)
    c.next_offset = claim.first + claim.take
    c.partly_acked = not j.req.auto_ack
    if not j.req.auto_ack:
        cursor_move(c, CURSOR_LEASED, now + j.lease_us + 2000)
    elif client_gone:
        cursor_move(c, CURSOR_LEASED, now + TAKE_BACK_US)     # no pop goes on behind it until it is taken back
    else:
        cursor_rest(c)
    rowcache_passed(c.partition)

cdef inline void cursor_rest(Cursor* c) noexcept nogil:
    # Makes a cursor, which nothing holds after a claim or an acknowledgment, ready if there is more, else idle.
    if c.recheck or c.partition.head > c.next_offset:
        cursor_move(c, CURSOR_READY, 0)
    else:
        cursor_move(c, CURSOR_IDLE, 0)

cdef inline void cursor_wake(Cursor* c, PopJob** wake) noexcept nogil:
    # Makes a cursor ready, and wakes a waiter for it. Requires book.lock.
    cursor_move(c, CURSOR_READY, 0)
    waiters_wake_cursor(c, wake)

# ---- the end of a cursor ---------------------------------------------------------------------------------------------

cdef void cursor_retire(Cursor* c, PopJob** wake) noexcept nogil:
    # Takes the cursor of a retired partition from its living group and wakes its waiters. Requires book.lock, and that
    # the cursor is out of the group's table.
    while c.wait_first != NULL:
        waiters_wake(c.wait_first, wake)
    cursor_move(c, CURSOR_IDLE, 0)
    unacked_end(unacked_key(c))
    if c.all_prev != NULL:
        c.all_prev.all_next = c.all_next
    else:
        c.group.all_cursors = c.all_next
    if c.all_next != NULL:
        c.all_next.all_prev = c.all_prev
    c.dead = True
    c.all_next = c.partition.retired_cursors
    c.partition.retired_cursors = c

cdef void cursor_free(Cursor* c) noexcept nogil:
    # Frees a cursor that nothing holds any more. Requires book.lock.
    if c.fed != NULL:
        unacked_feed_end(c)
    if not c.dead:
        unacked_end(unacked_key(c))
        heap_del(&book.due, &c.due)
        c.group.all_cursors = c.all_next      # the cursor is the first
    book.n_cursors -= 1
    free(c)
