# Releases leases that no client uses: those of pops whose client left, and of feeds. In: cursors and their lease ids.
# Out: the lease ended in the database, the cursor ready again. Owner: the worker. Locks: book.lock.

cdef enum:
    RELEASE_TRIES = 20        # then the lease expires

cdef struct ReleaseCall:
    Call base
    Release* list

cdef void release_want(Engine* e, Cursor* c, PopJob* j) noexcept nogil:
    # Queues the release of what j claimed, or may have claimed. For a pop of another worker, requires book.lock.
    cdef Release* x = release_new(e, c, j.lease)
    if x != NULL:
        x.pin = pin_share(e.worker.pins, j.job.r.pin)

cdef void release_fed(Engine* e, Fed* x) noexcept nogil:
    # Queues the release of a feed's lease. Requires book.lock: the cursor is not buried yet, and the pin taken here
    # keeps it.
    cdef Release* one = release_new(e, x.cursor, x.lease)
    if one != NULL:
        one.pin = pin_take(e.worker.pins)

cdef Release* release_new(Engine* e, Cursor* c, const unsigned char* lease) noexcept nogil:
    # Queues a release. Returns NULL if memory ran out: the lease then expires.
    cdef Release* x = <Release*>malloc(sizeof(Release))
    if x == NULL:
        return NULL
    x.cursor = c
    x.tries = 0
    memcpy(x.lease, lease, 16)
    x.next = e.releases
    e.releases = x
    return x

cdef void releases_close(Engine* e) noexcept nogil:
    # Frees all queued releases. Their leases expire.
    cdef Release* x
    while e.releases != NULL:
        x = e.releases
        e.releases = x.next
        free(x)

cdef void releases_drain(Engine* e) noexcept nogil:
    cdef ReleaseCall* call
    cdef LeaseArgs* a = <LeaseArgs*>e.args.at
    cdef Release* x
    call = <ReleaseCall*>call_open(e, sizeof(ReleaseCall), STMT_RELEASE, &e.release_limit, releases_done)
    if call == NULL:
        return
    call.list = e.releases
    e.releases = NULL
    x = call.list
    while x != NULL:
        pgarray_int4(&a.part, x.cursor.partition.id)
        pgarray_int4(&a.group, x.cursor.group.id)
        pgarray_uuid(&a.lease, x.lease)
        x = x.next
    call_send(&call.base)

cdef void releases_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = c.engine
    cdef Release* x = (<ReleaseCall*>c).list
    cdef Release* following
    cdef PopJob* wake = NULL
    uv_mutex_lock(&book.lock)
    while x != NULL:
        following = x.next
        if outcome != SLOT_OK and x.tries < RELEASE_TRIES:
            # a lease id may be given back twice without harm
            x.tries += outcome < SLOT_UNSENT
            x.next = e.releases
            e.releases = x
            e.pause_until = c.ended_us + TROUBLE_PAUSE_US
            x = following
            continue
        # whether the lease was still held or not: the next claim tells
        if x.cursor.state == CURSOR_LEASED:
            cursor_move(x.cursor, CURSOR_READY, 0)
            book_wake_cursor(x.cursor, &wake)
        tell_free(x.cursor.partition.id, x.cursor.group.id)
        pin_drop(e.worker.pins, x.pin)
        free(x)
        x = following
    uv_mutex_unlock(&book.lock)
    popjobs_wake(e.worker, wake)
