# Linger: when waiting jobs become a statement. In: numbers of jobs, times. Out: how long to wait; the engine asks
# linger_fires. Owner: the worker; no lock. Jobs wait for others, so that one commit serves many. There are three waits:
# for more jobs (linger_for), for clients that were just answered (linger_returning), and up to 4 ms for other
# acknowledgments (linger_spare).

cdef enum:
    # If the fastest statement takes this long, the database is far away: work does not take the time. To wait for the
    # statement in flight would then double the time of every request, and save little work.
    LINGER_FAR_US = 4000
    LINGER_SPARE_US = 4000    # between two statements of acknowledgments that may linger,
    LINGER_SPARE_JOBS = 8     # unless so many requests have gathered,
    LINGER_SPARE_LEASES = 400  # or so many leases, each of which is looked at in every turn
    LINGER_CROWD = 8          # requests of one push, and claims of one group in it, that show a crowd

# Claims and acknowledgments: three quarters of the clients are awaited, for 1 ms, however long the statement took.
cdef LingerRule LINGER_TURN
LINGER_TURN.least = 4
LINGER_TURN.share = 6
LINGER_TURN.enough = 8
LINGER_TURN.slow_us = 0
LINGER_TURN.part = 1
LINGER_TURN.least_us = 1000
LINGER_TURN.most_us = 1000
LINGER_TURN.most_misses = 6

cdef LingerRule LINGER_PUSH   # records: a quarter of a commit, if that takes at least 1 ms
LINGER_PUSH.least = 2
LINGER_PUSH.share = 7
LINGER_PUSH.enough = 4
LINGER_PUSH.slow_us = 1000
LINGER_PUSH.part = 4
LINGER_PUSH.least_us = 0
LINGER_PUSH.most_us = 1500
LINGER_PUSH.most_misses = 8

cdef void linger_of_type(Settings* s, Linger* h, int job_type, const LingerRule* rule) noexcept nogil:
    cdef TypeSettings* t = &s.types[job_type]
    linger_open(h, t.preferred, t.max_jobs, <int64_t>t.hold_ms * 1000 if t.hold_ms else HOLD_FLIGHT, t.hold_ms > 0)
    h.rule = rule

cdef void linger_open(Linger* h, int preferred, int max_jobs, int64_t wait_us, bint patient) noexcept nogil:
    # Sets a linger. Brings values out of range into it, as operators' settings are.
    memset(h, 0, sizeof(Linger))
    h.preferred = max(preferred, 1)
    h.max_jobs = max(max_jobs, 1)
    h.wait_us = wait_us if wait_us >= 0 else HOLD_FLIGHT
    h.patient = patient and wait_us >= 0

cdef int64_t linger_for(const Linger* h, int jobs, int64_t age_us, int in_flight, double fastest_us) noexcept nogil:
    # Returns how many µs `jobs` jobs, the oldest age_us old, still wait while in_flight statements of the type run. 0:
    # they go, HOLD_FLIGHT: until one of the statements ends. fastest_us: of the fastest statement, 0: not known.
    cdef int64_t most = h.wait_us
    if most == HOLD_FLIGHT and fastest_us >= LINGER_FAR_US:
        most = <int64_t>(fastest_us / 4)
    if jobs >= h.preferred or not (h.patient or in_flight > 0):
        return 0
    return HOLD_FLIGHT if most == HOLD_FLIGHT else max(most - age_us, 0)

cdef void linger_answered(Linger* h, int answered, int gathered, int64_t took_us, int64_t now) noexcept nogil:
    # Plans the wait for clients after a statement answered so many while others gathered. No statement is in flight
    # now.
    h.expected = 0
    if answered + gathered < h.rule.least or took_us < h.rule.slow_us:
        return
    if h.skip > 0:
        h.skip -= 1
        return
    h.expected = (answered + gathered) * h.rule.share // 8
    h.until_us = now + max(min(took_us // h.rule.part, h.rule.most_us), h.rule.least_us)

cdef int64_t linger_returning(Linger* h, int gathered, int64_t now) noexcept nogil:
    # Returns how many µs the gathered jobs wait for clients that return; 0: they go. These clients would else be a
    # group of their own for good. Most of them are awaited, at most for LingerRule.most_us, and only if they came the
    # last time.
    if h.expected == 0:
        return 0
    if gathered < h.expected and now < h.until_us:
        return h.until_us - now
    if gathered >= h.expected:
        h.misses = 0
    elif gathered * 8 < h.expected * h.rule.enough:
        h.misses = min(h.misses + 1, h.rule.most_misses)
        h.skip = 1 << h.misses
    h.expected = 0
    return 0

cdef int64_t linger_spare(int jobs, int64_t last_us, int64_t now) noexcept nogil:
    # Returns how many µs `jobs` acknowledgments linger after a statement left at last_us; 0: they go.
    return 0 if jobs >= LINGER_SPARE_JOBS else max(last_us + LINGER_SPARE_US - now, 0)

cdef inline bint linger_crowd(int requests, int claims) noexcept nogil:
    # Returns True if a push of so many requests, with so many claims of one group, shows that many consumers are at
    # work.
    return requests >= LINGER_CROWD and claims >= LINGER_CROWD

cdef inline void linger_arm(Engine* e, int64_t wait_us) noexcept nogil:
    # Lets the timer look again after wait_us.
    if e.hold_us == HOLD_NONE or wait_us < e.hold_us:
        e.hold_us = wait_us

cdef bint linger_fires(Engine* e, JobQueue* q) noexcept nogil:
    return q.jobs.n > 0 and not linger_waits(e, &q.linger, &q.linger, q.jobs.n, q.jobs.first.queued_us, q.jobs.n,
                                             &q.limit)

cdef bint linger_waits(Engine* e, const Linger* h, Linger* returning, int jobs, int64_t since_us, int gathered,
                       const Limit* l) noexcept nogil:
    # Returns True if jobs that have gathered since then wait, for others (h) or for clients that return; the timer
    # looks again. Argument l is the limit of their statements, NULL if none is in flight. While the engine stops, no
    # other job comes.
    cdef int64_t now = clock_mono_us()
    cdef int in_flight = l.in_flight if l != NULL else 0
    cdef int64_t wait
    if e.stopping:
        return False
    wait = linger_for(h, jobs, now - since_us, in_flight, l.fastest if l != NULL else 0)
    if wait == 0 and in_flight == 0:
        wait = linger_returning(returning, gathered, now)
    if wait > 0:
        linger_arm(e, wait)
    return wait != 0
