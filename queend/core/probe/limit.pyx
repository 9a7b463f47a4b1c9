# Test seams for limits, holds and the autopilot. All are pure, so the test sets the time.

cdef class LimitProbe:
    """One limit. mode: 'static' or 'vegas'; windows and intervals in microseconds."""
    cdef Limit l

    def __cinit__(self, str mode, int max_concurrent=16, int min_limit=1, int max_limit=32, int alpha=3, int beta=12,
                  int window_samples=50, int64_t fastest_window_us=30000000, int64_t interval_us=1000000):
        cdef LimitConfig c
        c.mode = LIMIT_STATIC if mode == "static" else LIMIT_VEGAS
        c.max_concurrent = max_concurrent
        c.min_limit = min_limit
        c.max_limit = max_limit
        c.alpha = alpha
        c.beta = beta
        c.window_samples = window_samples
        c.fastest_window_us = fastest_window_us
        c.interval_us = interval_us
        limit_open(&self.l, &c)

    def take(self):
        return bool(limit_take(&self.l))

    def give(self):
        limit_give(&self.l)

    def done(self, int64_t now_us, int64_t took_us, bint ok=True):
        limit_give(&self.l)
        limit_done(&self.l, now_us, took_us, ok)

    @property
    def limit(self):
        return self.l.limit

    @property
    def in_flight(self):
        return self.l.in_flight

    @property
    def starting(self):
        return bool(self.l.starting)

    @property
    def probing(self):
        return self.l.probe_us != 0

    def fastest(self, int64_t now_us):
        return limit_fastest(&self.l, now_us)

cdef class HoldProbe:
    """One hold. rule: 'turn' or 'push'; times in microseconds."""
    cdef Linger h

    def __cinit__(self, int preferred=50, int max_jobs=500, int64_t wait_us=5000, bint patient=False, str rule="turn"):
        linger_open(&self.h, preferred, max_jobs, wait_us, patient)
        self.h.rule = &LINGER_TURN if rule == "turn" else &LINGER_PUSH

    def wait(self, int jobs, int64_t age_us=0, int in_flight=0, double fastest_us=0):
        return linger_for(&self.h, jobs, age_us, in_flight, fastest_us)

    def answered(self, int answered, int gathered, int64_t now_us, int64_t took_us=0):
        linger_answered(&self.h, answered, gathered, took_us, now_us)

    def returning(self, int gathered, int64_t now_us):
        return linger_returning(&self.h, gathered, now_us)

def hold_spares(int jobs, int64_t last_us, int64_t now_us):
    return linger_spare(jobs, last_us, now_us)

def hold_crowds(int requests, int claims):
    return linger_crowd(requests, claims)

def pilot_chooses(list claims, list acks, int64_t lease_us, int ready, int waiting):
    """(batch, width, width at once) after claims of so many messages of a partition and acks of (us, messages)."""
    cdef Handling h
    cdef int batch
    memset(&h, 0, sizeof(Handling))
    for n in claims:
        autopilot_claimed(&h, n)
    for took, n in acks:
        autopilot_done(&h, took, n)
    batch = autopilot_batch(&h, lease_us)
    return batch, autopilot_width(&h, batch, ready, waiting), autopilot_soon(&h)

def limit_of_settings(dict settings, int job_type):
    """What a worker's limit of this type is opened with (JobType)."""
    cdef Settings s
    cdef LimitConfig c
    memset(&s, 0, sizeof(Settings))
    try:
        settings_load(&s, settings)
        c = limit_config(&s, job_type)
    finally:
        settings_free(&s)
    return c
