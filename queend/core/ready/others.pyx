# News from elsewhere: pauses that end, and notices of other daemons. In: partitions and groups. Out: cursors that are
# worth a try, and waiters. Guarded by book.lock.

cdef void book_waking(Partition* p, int32_t group, int64_t at, int64_t wall, int64_t now, PopJob** wake) noexcept nogil:
    # Notes that a pause of a group (or of GROUP_EVERY) ends at a moment of the database's clock, whichever daemon made
    # it. Requires book.lock.
    cdef Group* g = p.queue.group_list
    cdef Cursor* c
    cdef int64_t due = now + at - wall
    while g != NULL:
        if not g.dead and (group == GROUP_EVERY or g.id == group):
            c = book_noted(g, p)
            if c != NULL and c.wakes_at != at:
                cursor_wakes(c, at, due if due > now else now, now, wake)
        g = g.next

cdef void cursor_wakes(Cursor* c, int64_t at, int64_t due, int64_t now, PopJob** wake) noexcept nogil:
    # Lets a cursor wake at the end of a pause. A lease or a pause known here may be older. Requires book.lock.
    if c.state == CURSOR_BUSY:
        c.again |= AGAIN_NEWS if due <= now else 0
        return                # else the claim in flight will tell, or the next look
    c.wakes_at = at
    if c.state == CURSOR_READY or (c.state != CURSOR_IDLE and c.due.at <= due):
        return
    cursor_move(c, CURSOR_DELAYED if due > now else CURSOR_READY, due)
    if c.state == CURSOR_READY:
        book_wake_cursor(c, wake)

cdef void book_told(Partition* p, PopJob** wake) noexcept nogil:
    # Handles a peer's notice that messages were stored in a partition: its cursors are worth a try. The new head is
    # known only from the database. Requires book.lock.
    book_hears(p, INT64_MAX, wake)

cdef bint book_told_free(Partition* p, int32_t group, PopJob** wake) noexcept nogil:
    # Handles a peer's notice that a lease ended: makes the cursor ready. Returns True if a stream of this process holds
    # the lease. The caller must then look it up: until the database says otherwise, the lease goes on. Requires
    # book.lock.
    cdef Group* g = catalog_group_id(p.queue, group)
    cdef Cursor* c = <Cursor*>table_get(&g.cursors, <uint32_t>p.id) if g != NULL else NULL
    if c == NULL:
        return False
    if c.state == CURSOR_BUSY:
        c.again |= AGAIN_FREE
    elif c.state == CURSOR_LEASED and c.fed == NULL:
        cursor_move(c, CURSOR_READY, 0)
        book_wake_cursor(c, wake)
    return c.fed != NULL
