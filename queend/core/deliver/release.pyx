# Gives claims back that no client uses: those of pops whose client left, and of feeds. In: cursors with their lease
# ids, or with the records that a claim consumed at once. Out: the lease ended in the database, or the cursor moved
# back; the cursor ready again. Owner: the worker. Locks: book.lock.

cdef enum:
    RELEASE_TRIES = 20        # then the lease expires

cdef enum:
    TAKEBACK_TRIES = 20       # then the records stay consumed

cdef struct ReleaseCall:
    Call base
    Release* list

cdef struct TakebackCall:
    Call base
    Takeback* list

# ---- leases ----------------------------------------------------------------------------------------------------------

cdef void release_want(Engine* e, Claim* c) noexcept nogil:
    # Queues the release of what a pop claimed, or may have claimed. For a pop of another worker, requires book.lock.
    cdef Release* x = release_new(e, c.cursor, c.job.lease)
    if x != NULL:
        x.pin = epoch_share(e.worker.pins, c.job.job.r.pin)

cdef void release_fed(Engine* e, FeedLease* x) noexcept nogil:
    # Queues the release of a feed's lease. Requires book.lock: the cursor is not retired yet, and the pin taken here
    # keeps it.
    cdef Release* one = release_new(e, x.cursor, x.lease)
    if one != NULL:
        one.pin = epoch_pin(e.worker.pins)

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

cdef void release_drain(Engine* e) noexcept nogil:
    cdef ReleaseCall* call
    cdef LeaseArgs* a = <LeaseArgs*>e.args.at
    cdef Release* x
    call = <ReleaseCall*>call_open(e, sizeof(ReleaseCall), STMT_RELEASE, &e.release_limit, release_done)
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

cdef void release_done(Call* c, PGresult* res, int outcome) noexcept nogil:
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
            waiters_wake_cursor(x.cursor, &wake)
        outbox_freed(x.cursor.partition.id, x.cursor.group.id)
        epoch_unpin(e.worker.pins, x.pin)
        free(x)
        x = following
    uv_mutex_unlock(&book.lock)
    waiters_send(e.worker, wake)

cdef void release_close(Engine* e) noexcept nogil:
    # Frees all queued releases. Their leases expire.
    cdef Release* x
    while e.releases != NULL:
        x = e.releases
        e.releases = x.next
        free(x)

# ---- take-back of consumed records -----------------------------------------------------------------------------------
# The claim itself stays one update of the cursor; only a client that leaves costs a statement (queend.take_back). It
# moves the cursor back if no other consumer went on behind the claim. If the client left before the claim was made, the
# cursor counts as leased meanwhile (TAKE_BACK_US).

cdef void release_takeback(Engine* e, Claim* c) noexcept nogil:
    # Queues the take-back of what a claim consumed.
    cdef Takeback* x = <Takeback*>malloc(sizeof(Takeback))
    if x == NULL:
        return                # the records count as delivered
    x.pin = epoch_share(e.worker.pins, c.job.job.r.pin)
    x.cursor = c.cursor
    x.first = c.first
    x.stop = c.first + c.take
    x.tries = 0
    x.next = e.takebacks
    e.takebacks = x

cdef void release_takeback_drain(Engine* e) noexcept nogil:
    cdef TakebackCall* call
    cdef SpanArgs* a = <SpanArgs*>e.args.at
    cdef Takeback* x
    call = <TakebackCall*>call_open(e, sizeof(TakebackCall), STMT_TAKE_BACK, &e.takeback_limit, release_takeback_done)
    if call == NULL:
        return
    call.list = e.takebacks
    e.takebacks = NULL
    x = call.list
    while x != NULL:
        pgarray_int4(&a.part, x.cursor.partition.id)
        pgarray_int4(&a.group, x.cursor.group.id)
        pgarray_int8(&a.first, x.first)
        pgarray_int8(&a.stop, x.stop)
        x = x.next
    call_send(&call.base)

cdef void release_takeback_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    # Makes the cursors ready, taken back or not: the next claim tells. Repeats a call that failed: a second time does
    # no harm.
    cdef Engine* e = c.engine
    cdef Takeback* x = (<TakebackCall*>c).list
    cdef Takeback* following
    cdef PopJob* wake = NULL
    uv_mutex_lock(&book.lock)
    while x != NULL:
        following = x.next
        if outcome != SLOT_OK and x.tries < TAKEBACK_TRIES and not e.closing:
            x.tries += outcome < SLOT_UNSENT
            x.next = e.takebacks
            e.takebacks = x
            e.pause_until = c.ended_us + TROUBLE_PAUSE_US
            x = following
            continue
        x.cursor.next_offset = x.first
        if x.cursor.state == CURSOR_BUSY:
            x.cursor.recheck |= RECHECK_NEWS
        elif x.cursor.state != CURSOR_READY:
            cursor_move(x.cursor, CURSOR_READY, 0)
            waiters_wake_cursor(x.cursor, &wake)
        outbox_stored(x.cursor.partition.id)
        epoch_unpin(e.worker.pins, x.pin)
        free(x)
        x = following
    uv_mutex_unlock(&book.lock)
    waiters_send(e.worker, wake)

cdef void release_takeback_close(Engine* e) noexcept nogil:
    cdef Takeback* x
    while e.takebacks != NULL:
        x = e.takebacks
        e.takebacks = x.next
        free(x)
