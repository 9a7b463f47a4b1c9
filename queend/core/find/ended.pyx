# Leases that ended before their time through another daemon. Who ends one tells its own process only: a write for every lease, so that
# others hear of it, would cost all acknowledgments. Instead some of the leases this process believes in are looked up once a second, while
# somebody waits for them and something was committed at all.

cdef enum:
    ENDED_STEPS = 8192        # of the book's leases and pauses that are considered for it

cdef void ended_send(Engine* e, Slot* slot) noexcept nogil:
    cdef Discover* d = &e.discover
    cdef Params params
    cdef Cursor* c
    cdef int steps = 0
    cdef int n
    d.n_checked = 0
    pgarray_begin(&e.ask_a, OID_INT4)
    pgarray_begin(&e.ask_b, OID_INT4)
    uv_mutex_lock(&book.lock)
    n = book.due.n
    while steps < n and steps < ENDED_STEPS and d.n_checked < ENDED_PAGE:
        # around the heap: a lease may move meanwhile, and is met another time
        d.ended_at = d.ended_at % n + 1
        steps += 1
        c = <Cursor*>book.due.nodes[d.ended_at].owner
        if c.state == CURSOR_LEASED and not c.group.dead and (d.ended_all or c.group.n_wait or c.wait_first != NULL):
            pgarray_int4(&e.ask_a, c.partition.id)
            pgarray_int4(&e.ask_b, c.group.id)
            d.checked[d.n_checked].partition = c.partition.id
            d.checked[d.n_checked].group = c.group.id
            d.checked[d.n_checked].due = c.due.at
            d.n_checked += 1
    uv_mutex_unlock(&book.lock)
    if d.n_checked == 0:
        return
    params_begin(&params)
    params_array(&params, &e.ask_a)
    params_array(&params, &e.ask_b)
    discover_send(e, slot, STMT_LEASES_ENDED, &params, ended_done, FIND_ENDED)

cdef void ended_done(Slot* slot, void* ctx, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = <Engine*>ctx
    cdef Discover* d = &e.discover
    cdef int row, i
    cdef Partition* p
    cdef Group* g
    cdef Cursor* c
    cdef PopJob* wake = NULL
    d.finding = FIND_NOTHING
    if outcome != SLOT_OK:
        return
    uv_rwlock_rdlock(&catalog.lock)
    uv_mutex_lock(&book.lock)
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, 0)
        p = catalog_partition_id(d.checked[i].partition) if 0 <= i < d.n_checked else NULL
        g = p.queue.group_list if p != NULL else NULL
        while g != NULL and (g.dead or g.id != d.checked[i].group):
            g = g.next
        if g == NULL:
            continue
        c = book_cursor(g, p)
        if c != NULL and c.state == CURSOR_LEASED and c.due.at == d.checked[i].due:
            cursor_move(c, CURSOR_READY, 0)
            book_wake_cursor(c, &wake)
    uv_mutex_unlock(&book.lock)
    uv_rwlock_rdunlock(&catalog.lock)
    popjobs_wake(e.worker, wake)
