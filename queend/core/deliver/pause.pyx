# Pop maintenance and paused groups. In: pops. Out: answers that say `paused`, or pops that go on. Owner: the worker.
#
# In pop maintenance a pop finds nothing and is told so. A long poll is held for PAUSE_US (1 s), at most as long as it
# would have waited. So clients that ask again at once do not spin. It goes on when maintenance ends. Pops that were
# parked before stay parked.
#
# A row of queend.paused, which comes with the catalog, pauses a queue or a group (Group.paused). Statements carry the
# catalog's version, so a claim sent before the pause was known is refused. A pop of a paused group finds nothing
# (reason: paused). A long poll is parked, and the reload that ends the pause wakes it.

cdef enum:
    PAUSE_US = 1000000

cdef SharedFlag pops_paused         # process-wide; written by the control plane

cdef void pop_pause(Worker* w, PopJob* j) noexcept nogil:
    cdef int64_t until
    if j.until_us == 0:
        pop_paused(j)
        return
    until = clock_mono_us() + PAUSE_US
    j.paused_until = until if until < j.until_us and not j.req.feed else j.until_us      # a feed has no answer for it
    joblist_add(&engine_of(w).paused, &j.job)

cdef void pauses_drain(Engine* e) noexcept nogil:
    cdef int n = e.paused.n
    cdef int64_t now = clock_mono_us()
    cdef Job* job
    while n:
        n -= 1
        job = joblist_take(&e.paused)
        if (<PopJob*>job).gone or not pops_paused:
            pop_try(e.worker, <PopJob*>job)
        elif e.stopping or now >= (<PopJob*>job).paused_until:
            pop_paused(<PopJob*>job)
        else:
            joblist_add(&e.paused, job)

cdef void pop_paused(PopJob* j) noexcept nogil:
    cdef Request* r = job_end(&j.job)
    r.worker.counters.empty_pops += 1
    reply_simple(r, b'{"messages":[],"paused":true}')
