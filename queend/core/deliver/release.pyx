# Leases nobody has a use for are given back: those of pops whose client left. In: cursors and the lease that was made for
# them. Out: the lease ended in the database, the partition ready again.

cdef enum:
    RELEASE_TRIES = 20        # then it ends by itself

cdef struct ReleaseCall:
    Engine* engine
    Release* list

cdef void release_want(Engine* e, Cursor* c, PopJob* j) noexcept nogil:
    # What j claimed, or may have. Of another worker's pop: the book is locked.
    cdef Release* x = <Release*>malloc(sizeof(Release))
    if x == NULL:
        return                # the lease then ends by itself
    x.cursor = c
    x.tries = 0
    x.pin = pin_share(e.worker.pins, j.job.r.pin)
    memcpy(x.lease, j.lease, 16)
    x.next = e.releases
    e.releases = x

cdef void releases_close(Engine* e) noexcept nogil:
    # They end by themselves.
    cdef Release* x
    while e.releases != NULL:
        x = e.releases
        e.releases = x.next
        free(x)

cdef void releases_drain(Engine* e) noexcept nogil:
    cdef Slot* slot
    cdef Params params
    cdef ReleaseCall* call
    cdef Release* x
    if e.releases == NULL or e.release_flying or clock_mono_us() < e.pause_until:
        return
    slot = slotpool_take(e.slots)
    if slot == NULL:
        return
    call = <ReleaseCall*>calloc(1, sizeof(ReleaseCall))
    if call == NULL:
        return
    call.engine = e
    call.list = e.releases
    e.releases = NULL
    pgarray_begin(&e.ask_a, OID_INT4)
    pgarray_begin(&e.ask_b, OID_INT4)
    pgarray_begin(&e.ask_c, OID_UUID)
    x = call.list
    while x != NULL:
        pgarray_int4(&e.ask_a, x.cursor.partition.id)
        pgarray_int4(&e.ask_b, x.cursor.group.id)
        pgarray_uuid(&e.ask_c, x.lease)
        x = x.next
    params_begin(&params)
    params_array(&params, &e.ask_a)
    params_array(&params, &e.ask_b)
    params_array(&params, &e.ask_c)
    e.release_flying = True
    if not slot_send(slot, STMT_RELEASE, &params, releases_done, call, e.deadline_ms):
        e.release_flying = False
        x = call.list
        while x.next != NULL:
            x = x.next
        x.next = e.releases
        e.releases = call.list
        free(call)

cdef void releases_done(Slot* slot, void* ctx, PGresult* res, int outcome) noexcept nogil:
    cdef ReleaseCall* call = <ReleaseCall*>ctx
    cdef Engine* e = call.engine
    cdef Release* x = call.list
    cdef Release* following
    cdef PopJob* wake = NULL
    e.release_flying = False
    uv_mutex_lock(&book.lock)
    while x != NULL:
        following = x.next
        if outcome != SLOT_OK and x.tries < RELEASE_TRIES:
            # by its lease id: to be given back twice does no harm
            x.tries += 1
            x.next = e.releases
            e.releases = x
            e.pause_until = clock_mono_us() + TROUBLE_PAUSE_US
            x = following
            continue
        # whether the lease was still ours or not: asking again tells
        if x.cursor.state == CURSOR_LEASED:
            cursor_move(x.cursor, CURSOR_READY, 0)
            book_wake_cursor(x.cursor, &wake)
        pin_drop(e.worker.pins, x.pin)
        free(x)
        x = following
    uv_mutex_unlock(&book.lock)
    free(call)
    popjobs_wake(e.worker, wake)
