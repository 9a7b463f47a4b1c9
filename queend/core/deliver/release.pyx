# Gives claims back that no client uses: those of pops whose client left, and of feeds. In: claims with their lease, or
# with the records that were consumed at once. Out: the lease ended in the database, or the cursor moved back; the
# cursor ready again. Owner: the worker. Locks: book.lock.
# A claim without a lease is one update of the cursor; only a client that leaves costs a statement (queend.take_back).
# The cursor is moved back if no other consumer went on behind the claim. If the client left before the claim was made,
# the cursor counts as leased meanwhile (TAKE_BACK_US).

cdef enum:
    RELEASE_TRIES = 20        # then the lease expires, or the records stay consumed

cdef struct ReleaseCall:
    Call base
    ReleaseList* of
    Release* first

cdef void release_claim(Engine* e, Claim* c) noexcept nogil:
    # Queues the release of what a pop claimed, or may have claimed. For a pop of another worker, requires book.lock.
    cdef Release* x = release_new(&e.takebacks if c.job.req.auto_ack else &e.releases, c.cursor, c.job.lease)
    if x != NULL:
        x.pin = epoch_share(e.worker.pins, c.job.job.r.pin)
        x.span_first = c.first
        x.span_stop = c.first + c.take

cdef void release_fed(Engine* e, FeedLease* x) noexcept nogil:
    # Queues the release of a feed's lease. Requires book.lock: the cursor is not retired yet, and the pin taken here
    # keeps it.
    cdef Release* one = release_new(&e.releases, x.cursor, x.lease)
    if one != NULL:
        one.pin = epoch_pin(e.worker.pins)

cdef Release* release_new(ReleaseList* list, Cursor* c, const unsigned char* lease) noexcept nogil:
    # Queues a release. Returns NULL if memory ran out: the lease then expires, or the records stay consumed.
    cdef Release* x = <Release*>malloc(sizeof(Release))
    if x == NULL:
        return NULL
    x.cursor = c
    x.tries = 0
    memcpy(x.lease, lease, 16)
    release_add(list, x)
    return x

cdef inline void release_add(ReleaseList* list, Release* x) noexcept nogil:
    x.next = list.first
    list.first = x

cdef void release_drain(Engine* e) noexcept nogil:
    release_send(e, &e.releases, STMT_RELEASE)
    release_send(e, &e.takebacks, STMT_TAKE_BACK)

cdef void release_send(Engine* e, ReleaseList* list, int statement) noexcept nogil:
    cdef ReleaseCall* call
    cdef LeaseArgs* leases = <LeaseArgs*>e.args.at
    cdef SpanArgs* spans = <SpanArgs*>e.args.at
    cdef Release* x = list.first
    if x == NULL:
        return
    call = <ReleaseCall*>call_open(e, sizeof(ReleaseCall), statement, &list.limit, release_done)
    if call == NULL:
        return
    call.of = list
    call.first = x
    list.first = NULL
    while x != NULL:
        pgarray_int4(&leases.part, x.cursor.partition.id)
        pgarray_int4(&leases.group, x.cursor.group.id)
        if statement == STMT_RELEASE:
            pgarray_uuid(&leases.lease, x.lease)
        else:
            pgarray_int8(&spans.first, x.span_first)
            pgarray_int8(&spans.stop, x.span_stop)
        x = x.next
    call_send(&call.base)

cdef void release_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    # Makes the cursors ready, whether their claims were still there or not: the next claim tells. Repeats a call that
    # failed: a second time does no harm.
    cdef Engine* e = c.engine
    cdef ReleaseList* list = (<ReleaseCall*>c).of
    cdef Release* x = (<ReleaseCall*>c).first
    cdef Release* following
    cdef PopJob* wake = NULL
    uv_mutex_lock(&book.lock)
    while x != NULL:
        following = x.next
        if outcome != SLOT_OK and x.tries < RELEASE_TRIES and not e.closing:
            x.tries += outcome < SLOT_UNSENT
            release_add(list, x)
            e.pause_until = c.ended_us + TROUBLE_PAUSE_US
        else:
            release_end(x, list == &e.takebacks, &wake)
            epoch_unpin(e.worker.pins, x.pin)
            free(x)
        x = following
    index_unlock(e.worker, wake)

cdef void release_end(Release* x, bint consumed, PopJob** wake) noexcept nogil:
    # Makes the cursor of a claim ready. consumed: its records were consumed at once. Requires book.lock.
    cdef Cursor* c = x.cursor
    if consumed:
        c.next_offset = x.span_first
        notice_stored(c.partition.id)
    else:
        notice_freed(c.partition.id, c.group.id)
    if consumed and c.state == CURSOR_BUSY:
        c.recheck |= RECHECK_NEWS
    elif c.fed != NULL and (consumed or memcmp(c.fed.lease, x.lease, 16) != 0):
        return                # a feed holds a later lease, which goes on: its end makes the cursor ready
    elif c.state == CURSOR_LEASED or consumed and c.state != CURSOR_READY:
        cursor_wake(c, wake)

cdef void release_close(ReleaseList* list) noexcept nogil:
    # Frees all queued releases. Their leases expire, their records stay consumed.
    cdef Release* x
    while list.first != NULL:
        x = list.first
        list.first = x.next
        free(x)
