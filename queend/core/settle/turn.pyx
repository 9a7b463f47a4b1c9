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
    while turn_fires(e) and limit_take(&e.claim_limit):
        if not claimcall_send(e):
            limit_give(&e.claim_limit)
            break
    while policy_fires(e, &e.pop_policy, &e.pops, &e.pop_limit) and limit_take(&e.pop_limit):
        if not popcall_send(e):
            limit_give(&e.pop_limit)
            break

cdef bint turn_fires(Engine* e) noexcept nogil:
    # Claims and the acknowledgments that travel with them wait as one.
    cdef JobList both = e.claims
    cdef int64_t wait
    both.n += e.leased.n
    if both.n and e.claim_limit.in_flight == 0:
        wait = company_wait(&e.company, both.n, clock_mono_us())
        if wait:
            if e.hold_us < 0 or wait < e.hold_us:
                e.hold_us = wait
            return False
    if both.first == NULL or (e.leased.first != NULL and e.leased.first.queued_us < both.first.queued_us):
        both.first = e.leased.first
    # A hold that was asked for of acknowledgments is theirs where no claim travels with them.
    return policy_fires(e, &e.ack_policy if e.claims.n == 0 and e.ack_policy.patient else &e.pop_policy, &both,
                        &e.claim_limit)

cdef void claims_expire(Engine* e) noexcept nogil:
    # No connection: they wait with the others, whose patience is looked after.
    cdef PopJob* j
    while e.claims.first != NULL:
        j = <PopJob*>joblist_take(&e.claims)
        pop_untake(j)
        joblist_add(&e.pops, &j.job)
