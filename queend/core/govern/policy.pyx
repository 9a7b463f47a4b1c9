# When does a queue of jobs become a statement, and of how many jobs? Pure: sizes and ages come in, a number goes out.

cdef void policy_open(Policy* p, int preferred, int max_jobs, int max_items, int64_t max_bytes,
                      int64_t hold_us, bint patient) noexcept nogil:
    # Values out of range are brought into it, as operators' settings are.
    p.preferred = preferred if preferred > 1 else 1
    p.max_jobs = max_jobs if max_jobs > 1 else 1
    p.max_items = max_items if max_items > 1 else 1
    p.max_bytes = max_bytes if max_bytes > 1 else 1
    p.hold_us = hold_us if hold_us >= 0 else -1
    p.patient = patient and hold_us >= 0

# Where even the fastest statement takes long, it is not the work that takes it: waiting for the one in flight would
# double every request's time to save work nobody misses.
cdef enum:
    POLICY_FAR_US = 4000

cdef inline int64_t policy_hold(const Policy* p, double fastest_us) noexcept nogil:
    # hold_us against a database whose fastest statement took so long; 0: not known.
    return <int64_t>(fastest_us / 4) if p.hold_us < 0 and fastest_us >= POLICY_FAR_US else p.hold_us

cdef int policy_take(const Policy* p, int jobs, int64_t age_us, int in_flight, double fastest_us) noexcept nogil:
    # How many of `jobs` waiting jobs, the oldest age_us old, to send now while in_flight statements of the type run;
    # 0: hold. Unless the policy is patient, a job never waits for company when nothing is in flight.
    cdef int64_t hold = policy_hold(p, fastest_us)
    if jobs <= 0:
        return 0
    if jobs < p.preferred and (hold < 0 or age_us < hold) and (p.patient or in_flight > 0):
        return 0
    return jobs if jobs < p.max_jobs else p.max_jobs

cdef int64_t policy_wait(const Policy* p, int jobs, int64_t age_us, double fastest_us) noexcept nogil:
    # After a hold: microseconds until time alone changes the answer; -1: only an event can.
    cdef int64_t hold = policy_hold(p, fastest_us)
    if jobs <= 0 or hold < 0:
        return -1
    return hold - age_us if hold > age_us else 0

cdef inline bint policy_room(const Policy* p, int jobs, int items, int64_t size, int more_items,
                             int64_t more_bytes) noexcept nogil:
    # May one more job of more_items and more_bytes join a statement of so many jobs, items and bytes? The first always
    # may, however large: it has to go some time.
    if jobs == 0:
        return True
    return jobs < p.max_jobs and items + more_items <= p.max_items and size + more_bytes <= p.max_bytes
