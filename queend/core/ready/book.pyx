# The book of the pop side: which partitions are worth asking for, per consumer group, and who waits for them.
# In: commits, claims, acks, expiries, scans. Out: candidates for pops, and waiters to try again.
# One process-wide mutex guards all of it; it is held for a batch of changes, never across I/O. Everything in here is a
# hint: PostgreSQL decides. Every move of a cursor goes through cursor_move.

cdef void book_open() noexcept nogil:
    memset(&book, 0, sizeof(book))
    book.commits = 1
    uv_mutex_init(&book.lock)

cdef void book_close() noexcept nogil:
    heap_free(&book.due)
    table_free(&book.name_waiters)
    uv_mutex_destroy(&book.lock)

cdef Cursor* book_cursor(Group* g, Partition* p) noexcept nogil:
    # Finds or makes; lock held. NULL when memory ran out. A cursor has its place among the due ones before it is used:
    # it moves without asking for memory. NULL as well for a partition that is buried: what lives leads to nothing that
    # does not.
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
    # The same for news of it, which a scan finds later where memory ran out.
    cdef Cursor* c = book_cursor(g, p)
    if c == NULL and not p.dead:
        scan_again(g)
    return c

cdef void cursor_move(Cursor* c, int state, int64_t due_us) noexcept nogil:
    # The one place where a cursor changes state; lock held. due_us: monotonic, for LEASED and DELAYED.
    cdef Group* g = c.group
    if c.dead:
        c.state = state       # for who holds it still
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
        fed_over(c)           # a look at a lease that goes on makes it busy for a while
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
    # Nobody holds it any more. Lock held.
    if c.fed != NULL:
        fed_over(c)
    if not c.dead:
        unacked_end(c)
        heap_del(&book.due, &c.due)
        c.group.all_cursors = c.all_next      # it is the first
    book.n_cursors -= 1
    free(c)

cdef void cursor_bury(Cursor* c, PopJob** wake) noexcept nogil:
    # Its partition goes, and its group does not. The caller has taken it out of the group's table. Lock held.
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
    # Is what it found gone since? Nobody would wake it there. Lock held.
    return j.queue.dead or j.group.dead or (j.only != NULL and j.only.dead)

cdef int book_take(PopJob* j) noexcept nogil:
    # Candidates for a pop, which are busy from now on: the partition that it names, or ready ones of its group in their
    # order. Lock held.
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
        scan_want(j.group)        # also where something is ready: what is not known must not wait behind it
    return TAKE_DONE

cdef inline void cursor_rest(Cursor* c) noexcept nogil:
    # After a claim or an ack, when nothing holds it: ready if there is more, else idle.
    if c.again or c.partition.head > c.next_offset:
        cursor_move(c, CURSOR_READY, 0)
    else:
        cursor_move(c, CURSOR_IDLE, 0)

cdef void cursor_claimed(Cursor* c, PopJob* j, bint gone, int64_t next_offset, int64_t now) noexcept nogil:
    # The pop's claim of what stands before next_offset was made: leased, or consumed at once. gone: its client has left
    # meanwhile. Lock held.
    if now - j.claimed_us > POP_STALL_US:
        now = j.claimed_us    # the lease began at some time since
    book_made(c)
    c.next_offset = next_offset
    c.open = not j.req.auto_ack
    if not j.req.auto_ack:
        cursor_move(c, CURSOR_LEASED, now + j.lease_us + 2000)
    elif gone:
        cursor_move(c, CURSOR_LEASED, now + TAKE_BACK_US)     # nobody goes on behind it meanwhile
    else:
        cursor_rest(c)
    rowcache_passed(c.partition)

cdef void book_head(Partition* p, int64_t head, PopJob** wake) noexcept nogil:
    # Messages up to `head` exclusive are committed: every known group of the queue may have work. Waiters that can now
    # be tried are appended to `wake`. Lock held.
    cdef Group* g = p.queue.group_list
    cdef Cursor* c
    if head > p.head:
        p.head = head
    while g != NULL:
        c = book_noted(g, p) if not g.dead else NULL
        if c != NULL:
            if c.state == CURSOR_IDLE:
                if c.next_offset < head or c.fresh:     # else a push has delivered it with its own commit
                    cursor_move(c, CURSOR_READY, 0)
                    book_wake_cursor(c, wake)
            elif c.state == CURSOR_BUSY:
                c.again |= AGAIN_NEWS
        g = g.next

cdef void book_found(Partition* p, int64_t head, PopJob** wake) noexcept nogil:
    # The database says that the partition ends at `head`. Where that is news it is news for every group. Lock held.
    if head > p.head:
        p.head = head
        book_hears(p, head, wake)

cdef void book_hears(Partition* p, int64_t head, PopJob** wake) noexcept nogil:
    # The partition may have records up to `head`. A group that a scan to come will tell hears of it only where it knows
    # the partition already. Lock held.
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
    # An acknowledgment whose answer was lost may have ended the lease: the next pop asks the database. Lock held.
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
    # Somebody here stored up to `head` in what he found under its name. The process may have forgotten the partition
    # since: it may live on under another name entry; where it does not, the groups of its queue look again. Catalog and
    # book locked.
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
    # The answer to its claim: the database has its row. What was forgotten since may have removed it again. Lock held.
    atomic_set8(&c.fresh, c.fresh == FRESH_AGAIN)

cdef void book_forget(Group* g) noexcept nogil:
    # Cursors of the group were moved by hand: where they stand and whether they are leased is for a scan to find out.
    # What is ready or on its way stays so: the database decides. Lock held.
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
        g.scan = SCAN_WANTED  # by the next pop that finds the group again
    elif g.scan != SCAN_WANTED:
        g.scan_twice = True

cdef int64_t book_due(int64_t now, PopJob** wake) noexcept nogil:
    # Leases and delays that ended: their cursors are ready again. Returns when the next one ends, 0 for never.
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
    # What an ack did to a cursor; lock held. forgets: book.forgets when it was sent. Where cursors were moved by hand
    # since, it may tell of the time before: that the lease it ended is not the present one, the next pop finds out.
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
        tell_free(p.id, g.id)         # else somebody here goes on
