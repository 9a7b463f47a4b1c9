# Leases that ended before their time through another daemon. Who ends one tells its own process only: a write for every
# lease, so that others hear of it, would cost all acknowledgments. Instead some of the leases this process believes in
# are looked up once a second, while somebody waits for them (or for credit) and something was committed at all.

cdef enum:
    LEASES_STEPS = 8192       # of the book's leases and pauses that are considered for it

cdef void leases_look(Engine* e) noexcept nogil:
    cdef Discover* d = &e.discover
    cdef CursorArgs* a = <CursorArgs*>e.args.at
    cdef Cursor* c
    cdef int steps = 0
    cdef int n
    d.n_checked = 0
    discover_begin(e, STMT_LEASES_ENDED, leases_looked, FIND_LEASES)
    uv_mutex_lock(&book.lock)
    n = book.due.n
    while steps < n and steps < LEASES_STEPS and d.n_checked < LEASES_PAGE:
        # around the heap: a lease may move meanwhile, and is met another time
        d.leases_at = d.leases_at % n + 1
        steps += 1
        c = <Cursor*>book.due.nodes[d.leases_at].owner
        if c.state == CURSOR_LEASED and not c.group.dead and (d.leases_all or c.group.n_wait or c.wait_first != NULL
                                                                  or c.fed != NULL and c.fed.feed.full):
            pgarray_int4(&a.part, c.partition.id)
            pgarray_int4(&a.group, c.group.id)
            d.checked[d.n_checked].partition = c.partition.id
            d.checked[d.n_checked].group = c.group.id
            d.checked[d.n_checked].due = c.due.at
            d.n_checked += 1
    uv_mutex_unlock(&book.lock)
    if d.n_checked:
        call_send(&d.call)
    else:
        d.finding = FIND_NOTHING

cdef void leases_looked(Call* call, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = call.engine
    cdef Discover* d = &e.discover
    cdef int row, i
    cdef Partition* p
    cdef Group* g
    cdef Cursor* c
    cdef PopJob* wake = NULL
    if outcome != SLOT_OK:
        look_again(d)
        return
    d.finding = FIND_NOTHING
    catalog_book_lock()
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, 0)
        p = catalog_partition_id(d.checked[i].partition) if 0 <= i < d.n_checked else NULL
        g = catalog_group_id(p.queue, d.checked[i].group) if p != NULL else NULL
        c = book_cursor(g, p) if g != NULL else NULL
        if c != NULL and c.state == CURSOR_LEASED and c.due.at == d.checked[i].due:
            cursor_move(c, CURSOR_READY, 0)
            book_wake_cursor(c, &wake)
    catalog_book_unlock(e.worker, wake)
