# What others did, as far as it is heard of: pauses that end, what other daemons tell. In: partitions and groups. Out:
# cursors that are worth a try, and waiters. Guarded by book.lock.

cdef void book_waking(Partition* p, int32_t group, int64_t at, int64_t wall, int64_t now, PopJob** wake) noexcept nogil:
    # A pause of a group (0: of all) ends at a moment of the database's clock; whoever made it. Lock held.
    cdef Group* g = p.queue.group_list
    cdef Cursor* c
    cdef int64_t due = now + at - wall
    while g != NULL:
        if not g.dead and (group == 0 or g.id == group):
            c = book_noted(g, p)
            if c != NULL and c.wakes_at != at:
                cursor_wakes(c, at, due if due > now else now, now, wake)
        g = g.next

cdef void cursor_wakes(Cursor* c, int64_t at, int64_t due, int64_t now, PopJob** wake) noexcept nogil:
    # What this process believes of a lease or a pause may be older than that.
    if c.state == CURSOR_BUSY:
        c.again |= due <= now
        return                # else the claim that is on its way will tell, or the next look
    c.wakes_at = at
    if c.state == CURSOR_READY or (c.state != CURSOR_IDLE and c.due.at <= due):
        return
    cursor_move(c, CURSOR_DELAYED if due > now else CURSOR_READY, due)
    if c.state == CURSOR_READY:
        book_wake_cursor(c, wake)

cdef void book_told(Partition* p, PopJob** wake) noexcept nogil:
    # Another daemon says that messages were stored in it. That is no news of its head, which the database tells: it is
    # worth a try. Lock held.
    book_hears(p, INT64_MAX, wake)

cdef bint book_told_free(Partition* p, int32_t group, PopJob** wake) noexcept nogil:
    # The same of a lease that has ended. True: a look has to tell, what was out to a feed here counts as out until the
    # database says otherwise. Lock held.
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
