# How many statements of a type fly, and when the next one leaves: limits and policies as the operator set them.
# In: jobs that wait in a list of the engine. Out: yes, or when to look again. Owner: the worker.

cdef void limits_open(Engine* e) noexcept nogil:
    # The slots a stream needs stay out of their reach.
    limit_of_type(e, &e.pop_limit, TYPE_POP)
    limit_of_type(e, &e.claim_limit, TYPE_POP)
    limit_of_type(e, &e.ack_limit, TYPE_ACK)
    limit_of_type(e, &e.tx_limit, TYPE_TRANSACTION)
    limit_of_type(e, &e.lease_limit, TYPE_LEASE)
    e.cycles_most = limit_clamp(e.settings.cycles, 1, e.settings.slots // 2 if e.settings.slots > 3 else 1)      # they wait for each other in there
    policy_of_type(e, &e.pop_policy, TYPE_POP, CALL_CURSORS)
    policy_of_type(e, &e.ack_policy, TYPE_ACK, CALL_ACKS)
    policy_of_type(e, &e.lease_policy, TYPE_LEASE, CALL_ACKS)

cdef void policy_of_type(Engine* e, Policy* p, int job_type, int max_items) noexcept nogil:
    # A hold that the operator did not ask for lasts as long as a statement is in flight: the batch clocks itself.
    cdef TypeSettings* t = &e.settings.types[job_type]
    policy_open(p, t.preferred, t.max_jobs, max_items, 1 << 40, <int64_t>t.hold_ms * 1000 if t.hold_ms else -1, t.hold_ms > 0)

cdef bint policy_fires(Engine* e, const Policy* p, JobList* jobs, const Limit* l) noexcept nogil:
    cdef int64_t age, wait
    if jobs.n == 0:
        return False
    age = clock_mono_us() - jobs.first.queued_us
    if policy_take(p, jobs.n, age, l.in_flight, l.fastest):
        return True
    wait = policy_wait(p, jobs.n, age, l.fastest)
    if wait >= 0 and (e.hold_us < 0 or wait < e.hold_us):
        e.hold_us = wait
    return False

cdef void limit_of_type(Engine* e, Limit* l, int job_type) noexcept nogil:
    cdef LimitConfig c = limit_config(e.settings, job_type)
    limit_open(l, &c)

cdef LimitConfig limit_config(Settings* s, int job_type) noexcept nogil:
    cdef LimitConfig c
    cdef int most = s.slots - 2 if s.slots > 3 else 1
    memset(&c, 0, sizeof(c))
    c.mode = LIMIT_VEGAS if s.vegas else LIMIT_STATIC
    c.max_concurrent = limit_clamp(s.types[job_type].max_concurrent, 1, most)
    c.min_limit = s.vegas_min_limit
    c.max_limit = s.vegas_max_limit
    c.alpha = s.vegas_alpha
    c.beta = s.vegas_beta
    c.window_samples = s.vegas_window_samples
    c.fastest_window_us = <int64_t>s.vegas_fastest_window_sec * 1000000
    c.interval_us = <int64_t>s.vegas_interval_ms * 1000
    return c

cdef bint job_outlasts(Job* job, JobList* list, int64_t now) noexcept nogil:
    # A long poll outlasts a database that is away: it waits on in the list, until its own deadline. False: it is none.
    cdef JobKind* t = &job_kinds[job.op]
    cdef int64_t until = t.until(job) if t.until != NULL else 0
    if until == 0:
        return False
    if now < until:
        joblist_add(list, job)
    else:
        t.expire(job)
    return True

cdef void jobs_expire(Engine* e, JobList* list) noexcept nogil:
    # No connection for too long: whoever waits longer than the patience is told.
    cdef int n = list.n
    cdef Job* job
    cdef int64_t now
    if slotpool_ready(e.slots):
        return
    now = clock_mono_us()
    while n > 0:
        n -= 1
        job = joblist_take(list)
        if now - job.born_us > e.patience_us:
            job_kinds[job.op].refuse(job, 503, b"The database is not reachable")
        else:
            joblist_add(list, job)
