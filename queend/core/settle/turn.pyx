# The pops of a worker and the acknowledgments that travel with them: which statement is next.

cdef void pops_drain(Engine* e) noexcept nogil:
    # Woken waiters choose candidates first; then calls go out while permits and slots last.
    cdef Job* j
    cdef int n = e.woken.n
    while n > 0:
        n -= 1
        j = joblist_take(&e.woken)
        pop_try(e.worker, <PopJob*>j)
    if not slotpool_ready(e.slots):
        claims_expire(e)
        leased_expire(e)
        pops_expire(e)
    while turn_fires(e) and claimcall_send(e):
        pass
    while hold_fires(e, &e.pop_hold, &e.pops, &e.pop_limit) and popcall_send(e):
        pass

cdef bint turn_fires(Engine* e) noexcept nogil:
    # Claims and the acknowledgments that travel with them wait as one.
    cdef JobList both = e.claims
    cdef Hold* hold = &e.turn_hold
    both.n += e.leased.n
    if both.n == 0:
        return False
    if (e.claim_limit.in_flight == 0
            and engine_waits_for(e, hold_returning(hold, both.n, clock_mono_us()))):
        return False
    if both.first == NULL or (e.leased.first != NULL and e.leased.first.queued_us < both.first.queued_us):
        both.first = e.leased.first
    # A hold that was asked for of acknowledgments is theirs where no claim travels with them.
    if e.claims.n == 0 and e.ack_hold.patient:
        hold = &e.ack_hold
    return hold_fires(e, hold, &both, &e.claim_limit)

cdef void claims_expire(Engine* e) noexcept nogil:
    # No connection: they wait with the others, whose patience is looked after.
    cdef PopJob* j
    while e.claims.first != NULL:
        j = <PopJob*>joblist_take(&e.claims)
        pop_untake(j)
        joblist_add(&e.pops, &j.job)
