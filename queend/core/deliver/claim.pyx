# Claims of pops, whichever statement makes them: that of pops (deliver/popcall), that of claims (settle/claimcall), or
# a push (push/handover). In: candidates, and which of their claims were made. Out: cursors in their new state,
# remembered deliveries; claims given back that no client uses. Owner: the thread that sends the statement, and then the
# pop's worker. Locks: book.lock.

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
        release_claim(e, c)
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
            release_claim(e, c)
    uv_mutex_unlock(&book.lock)
    j.n_claims = 0
