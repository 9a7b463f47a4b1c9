# Claims of pops, whichever statement makes them: that of pops (deliver/popcall), that of claims (settle/claimcall), or
# a push (push/handover). In: candidates, and which of their claims were made. Out: cursors in their new state,
# remembered deliveries; claims given back that no client uses: those of pops whose client left, and of feeds. Owner:
# the thread that sends the statement, and then the pop's worker. Locks: book.lock.

cdef void claim_lease(Worker* w, PopJob* j) noexcept nogil:
    # Makes the lease for what the pop claims now. Requires that its candidates are complete.
    j.n_made = 0
    j.lease_us = j.req.lease_s * <int64_t>1000000 if j.req.lease_s else j.queue.lease_us
    j.claimed_us = clock_mono_us()
    if j.req.auto_ack:
        memset(j.lease, 0xff, 16)      # no client and no cursor gets this lease, and it is not remembered
    else:
        uuid_lease(&w.secrets, catalog.seed, j.claims.cursor.partition.id if j.n_claims == 1 else 0, j.lease)

# ---- made ------------------------------------------------------------------------------------------------------------

cdef void claim_found(Claim** claims, int n, int* at, int partition, int64_t group, uint64_t place) noexcept nogil:
    # Marks the claim of a group in a partition as made. place: of the cursor. Claims come back in the order they were
    # sent, those with new cursors last. at: index at which the search begins.
    cdef Claim* c
    cdef int i
    for i in range(n):
        c = claims[at[0] % n]
        at[0] = at[0] % n + 1
        if c.cursor.partition.id == partition and c.cursor.group.id == group:
            c.made = True
            c.place = place
            c.job.n_made += 1
            return

cdef void claim_made(Claim* c, bint client_gone, PGresult* res, int64_t now, PopJob** wake) noexcept nogil:
    # Books a claim that was made, and remembers its lease. Requires book.lock.
    # client_gone: the client left meanwhile. res: the answer with its records, if they come from the log.
    cursor_claimed(c, client_gone, now)
    if not c.job.req.auto_ack:
        unacked_claim(c, res)
    if c.cursor.state == CURSOR_READY:
        waiters_wake_cursor(c.cursor, wake)

cdef void claim_keep(PopJob* j) noexcept nogil:
    # Keeps the claims that were made, in their order.
    cdef int i
    cdef int n = 0
    for i in range(j.n_claims):
        if j.claims[i].made:
            j.claims[n] = j.claims[i]
            n += 1
    j.n_claims = n

# ---- not made, or given back -----------------------------------------------------------------------------------------

cdef void claim_undo(Engine* e, Claim* c, bint lost, PopJob** wake) noexcept nogil:
    # Makes a candidate ready again. lost: the outcome of the statement is unknown. Then the lease that it may have
    # taken is given back. wake: receives a waiter for the cursor. NULL: the caller tries the pop again. Requires
    # book.lock.
    if lost and not c.job.req.auto_ack:
        claim_release(e, c)
    rowcache_release(c)
    cursor_move(c.cursor, CURSOR_READY, 0)
    if wake != NULL:
        waiters_wake_cursor(c.cursor, wake)

cdef void claim_drop(Engine* e, PopJob* j, bint lost) noexcept nogil:
    # Makes the candidates of a pop ready again. lost: as in claim_undo.
    cdef int i
    cdef PopJob* wake = NULL
    uv_mutex_lock(&book.lock)
    for i in range(j.n_claims):
        claim_undo(e, &j.claims[i], lost, &wake)
    rate_settle(j, 0, &wake)
    j.n_claims = 0
    index_unlock(e.worker, wake)

cdef void claim_give_back(Engine* e, PopJob* j) noexcept nogil:
    # Gives back what was claimed for a client that left: leases, and records that were acknowledged at once.
    cdef Claim* c
    cdef int i
    if e.closing:
        return
    uv_mutex_lock(&book.lock)
    for i in range(j.n_claims):
        c = &j.claims[i]
        if j.req.auto_ack or c.cursor.state == CURSOR_LEASED:
            claim_release(e, c)
    uv_mutex_unlock(&book.lock)
    j.n_claims = 0

# ---- claims are released ---------------------------------------------------------------------------------------------
# In: claims with their lease, or with the records that were consumed at once. Out: the lease ended in the database, or
# the cursor moved back; the cursor ready again. A claim without a lease is one update of the cursor; only a client that
# leaves costs a statement (queend.take_back). The cursor is moved back if no other consumer went on behind the claim.
# If the client left before the claim was made, the cursor counts as leased meanwhile (TAKE_BACK_US).

cdef enum:
    RELEASE_TRIES = 20        # then the lease expires, or the records stay consumed

cdef struct ReleaseCall:
    Call base
    ReleaseList* of
    Release* first

cdef void claim_release(Engine* e, Claim* c) noexcept nogil:
    # Queues the release of what a pop claimed, or may have claimed. For a pop of another worker, requires book.lock.
    cdef Release* x = claim_release_new(&e.takebacks if c.job.req.auto_ack else &e.releases, c.cursor, c.job.lease)
    if x != NULL:
        x.pin = epoch_share(e.worker.pins, c.job.job.r.pin)
        x.span_first = c.first - c.passed
        x.span_stop = c.first + c.take

cdef void claim_release_fed(Engine* e, FeedLease* x) noexcept nogil:
    # Queues the release of a feed's lease. Requires book.lock: the cursor is not retired yet, and the pin taken here
    # keeps it.
    cdef Release* one = claim_release_new(&e.releases, x.cursor, x.lease)
    if one != NULL:
        one.pin = epoch_pin(e.worker.pins)

cdef Release* claim_release_new(ReleaseList* list, Cursor* c, const unsigned char* lease) noexcept nogil:
    # Queues a release. Returns NULL if memory ran out: the lease then expires, or the records stay consumed.
    cdef Release* x = <Release*>malloc(sizeof(Release))
    if x == NULL:
        return NULL
    x.cursor = c
    x.tries = 0
    memcpy(x.lease, lease, 16)
    claim_release_add(list, x)
    return x

cdef inline void claim_release_add(ReleaseList* list, Release* x) noexcept nogil:
    x.next = list.first
    list.first = x

cdef void claim_release_drain(Engine* e) noexcept nogil:
    claim_release_send(e, &e.releases, STMT_RELEASE)
    claim_release_send(e, &e.takebacks, STMT_TAKE_BACK)

cdef void claim_release_send(Engine* e, ReleaseList* list, int statement) noexcept nogil:
    cdef ReleaseCall* call
    cdef LeaseArgs* leases = <LeaseArgs*>e.args.at
    cdef SpanArgs* spans = <SpanArgs*>e.args.at
    cdef Release* x = list.first
    if x == NULL:
        return
    call = <ReleaseCall*>call_open(e, sizeof(ReleaseCall), statement, &list.limit, claim_release_done)
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

cdef void claim_release_done(Call* c, PGresult* res, int outcome) noexcept nogil:
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
            claim_release_add(list, x)
            e.pause_until = c.ended_us + TROUBLE_PAUSE_US
        else:
            claim_release_end(x, list == &e.takebacks, &wake)
            epoch_unpin(e.worker.pins, x.pin)
            free(x)
        x = following
    index_unlock(e.worker, wake)

cdef void claim_release_end(Release* x, bint consumed, PopJob** wake) noexcept nogil:
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

cdef void claim_release_close(ReleaseList* list) noexcept nogil:
    # Frees all queued releases. Their leases expire, their records stay consumed.
    cdef Release* x
    while list.first != NULL:
        x = list.first
        list.first = x.next
        free(x)
