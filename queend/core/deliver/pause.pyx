# Pop maintenance: pops find nothing, and are told so. One that would have waited is held for a second, or as long as it
# would have waited, so that clients that ask again at once do not spin; it goes on when maintenance ends. Pops that
# were parked before are let alone.
#
# A queue or a group may be paused, too, by a row of queend.paused that comes with the catalog (Group.paused).
# Statements carry the catalog's version, so a claim that was sent before the pause was known is refused. A pop of a
# paused group finds nothing (reason: paused); one that may wait is parked, and the reload that tells of the end wakes
# it.

cdef enum:
    PAUSE_US = 1000000

cdef SharedFlag pops_paused         # process-wide; written by the control plane

cdef void pop_pause(Worker* w, PopJob* j) noexcept nogil:
    cdef int64_t until
    if j.until_us == 0:
        pop_paused(j)
        return
    until = clock_mono_us() + PAUSE_US
    j.paused_until = until if until < j.until_us and not j.req.feed else j.until_us      # a feed has nobody to tell
    pop_move(j, POP_RESOLVING)
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
    cdef Request* r = pop_close(j, POP_EMPTY)
    r.worker.counters.empty_pops += 1
    reply_simple(r, b'{"messages":[],"paused":true}')
