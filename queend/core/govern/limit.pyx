# Limit: how many statements of one type may be in flight. In: permits taken and given back, durations of calls. Out:
# the limit, fixed or found by Vegas. Vegas reads the queue in the database from how much slower a statement is than one
# without company. Owner: the worker. Pure, without locks.

# ---- settings --------------------------------------------------------------------------------------------------------

cdef LimitConfig limit_config(Settings* s, int job_type) noexcept nogil:
    # Returns the operator's settings of a type. The slots that appenders need stay out of its reach.
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

cdef void limit_open(Limit* l, const LimitConfig* config) noexcept nogil:
    # Sets a limit. Settings out of range are brought into it.
    cdef LimitConfig* c = &l.config
    memset(l, 0, sizeof(Limit))
    c[0] = config[0]
    c.max_concurrent = max(c.max_concurrent, 1)
    if c.mode == LIMIT_STATIC:
        l.limit = c.max_concurrent
        return
    c.min_limit = max(c.min_limit, 1)
    c.max_limit = max(min(c.max_limit, c.max_concurrent), c.min_limit)
    c.alpha = max(c.alpha, 1)
    c.beta = max(c.beta, c.alpha + 1)
    c.window_samples = max(c.window_samples, 1)
    c.fastest_window_us = max(c.fastest_window_us, <int64_t>LIMIT_SPANS)
    c.interval_us = max(c.interval_us, 1)
    l.limit = limit_clamp(LIMIT_START, c.min_limit, c.max_limit)
    l.starting = True

cdef void limit_fixed(Limit* l, int most) noexcept nogil:
    cdef LimitConfig c
    memset(&c, 0, sizeof(c))
    c.mode = LIMIT_STATIC
    c.max_concurrent = most
    limit_open(l, &c)

cdef inline int limit_clamp(int v, int low, int high) noexcept nogil:
    return low if v < low else high if v > high else v

# ---- permits ---------------------------------------------------------------------------------------------------------

cdef inline bint limit_take(Limit* l) noexcept nogil:
    # Takes a permit, which limit_give gives back. Returns False if there is none.
    if l.in_flight >= (1 if l.probe_us else l.limit):
        return False
    l.lone = l.probe_us != 0
    l.in_flight += 1
    l.peak = max(l.peak, l.in_flight)
    return True

cdef inline void limit_give(Limit* l) noexcept nogil:
    if l.in_flight > 0:
        l.in_flight -= 1

# ---- Vegas -----------------------------------------------------------------------------------------------------------
# Looks once per interval, with queue = limit x (1 - base / recent). Below alpha the limit grows by one if it was
# reached, above beta it shrinks by one. For small limits the bounds are limit/2 and 3 limit/4, else a limit below beta
# could never shrink. A start doubles the limit each round of completions, until the first sign of a queue.

cdef void limit_done(Limit* l, int64_t now_us, int64_t took_us, bint ok) noexcept nogil:
    # Counts a call that ended after took_us. It failed if `ok` is False: it had no answer (deadline, lost connection),
    # or one that speaks of overload (timeouts, deadlocks). Failed calls halve the limit, at most once per interval.
    # now_us is monotonic.
    cdef double took = <double>max(took_us, 1)
    if l.config.mode == LIMIT_STATIC or took_us < 0:
        return
    if l.looked_us == 0:
        l.looked_us = now_us
    if not ok:
        l.starting = False
        l.probe_us = 0
        if l.halved_us == 0 or now_us - l.halved_us >= l.config.interval_us:
            l.halved_us = now_us
            l.limit = limit_clamp(l.limit // 2, l.config.min_limit, l.config.max_limit)
        return
    if l.probe_us:
        limit_probe(l, now_us, took)
        return
    if l.recent == 0:
        l.recent = took
    else:
        l.recent += 2.0 / (l.config.window_samples + 1) * (took - l.recent)
    limit_remember(l, now_us, took)
    l.round += 1
    if now_us - l.looked_us >= l.config.interval_us or (l.starting and l.round >= l.limit):
        limit_look(l, now_us)

cdef void limit_remember(Limit* l, int64_t now_us, double took) noexcept nogil:
    # Remembers a duration for limit_fastest.
    cdef int64_t span = l.config.fastest_window_us // LIMIT_SPANS
    cdef int64_t at = now_us // span * span
    cdef int i = <int>(now_us // span % LIMIT_SPANS)
    if l.span_min[i] == 0 or l.span_at[i] != at:
        l.span_at[i] = at
        l.span_min[i] = took
    elif took < l.span_min[i]:
        l.span_min[i] = took

cdef double limit_fastest(Limit* l, int64_t now_us) noexcept nogil:
    # Returns the fastest call of the window that ends now; 0 without a sample in it.
    cdef double best = 0
    cdef int i
    for i in range(LIMIT_SPANS):
        if l.span_min[i] > 0 and now_us - l.span_at[i] < l.config.fastest_window_us:
            if best == 0 or l.span_min[i] < best:
                best = l.span_min[i]
    return best

cdef void limit_look(Limit* l, int64_t now_us) noexcept nogil:
    cdef double base = limit_fastest(l, now_us)
    cdef double queue = 0
    cdef double low = l.limit * 0.5
    cdef double high = l.limit * 0.75
    cdef bint used = l.peak >= l.limit
    cdef bint probed = l.alone_us != 0 and now_us - l.alone_us < l.config.fastest_window_us
    l.fastest = base
    l.looked_us = now_us
    l.round = 0
    l.peak = l.in_flight
    if probed and l.probe_mean > base:
        base = l.probe_mean
    if base > 0 and l.recent > base:
        queue = l.limit * (1 - base / l.recent)
    low = min(low, <double>l.config.alpha)
    high = min(high, <double>l.config.beta)
    if not probed and (queue >= low or l.alone_us) and l.config.min_limit < l.config.max_limit:
        l.probe_us = now_us if now_us else 1
        l.probe_n = 0
        l.probe_sum = 0
        l.lone = False
        return
    if queue >= low:
        l.starting = False
    if queue > high:
        l.limit = limit_clamp(l.limit - 1, l.config.min_limit, l.config.max_limit)
    elif queue < low and used:
        l.limit = limit_clamp(l.limit * 2 if l.starting else l.limit + 1, l.config.min_limit, l.config.max_limit)

# ---- probes ----------------------------------------------------------------------------------------------------------
# The base is the fastest call of fastest_window_us (30 s), until that looks like a queue. But calls are also slow
# because others use the machine, and fewer calls of ours would not make those faster. So LIMIT_PROBE calls go alone
# first, and their mean is the base for fastest_window_us. Then the next probe is made.

cdef void limit_probe(Limit* l, int64_t now_us, double took) noexcept nogil:
    # Counts a call that ended during a probe. Calls sent before the probe are not part of it.
    if l.lone:
        limit_remember(l, now_us, took)
        l.probe_n += 1
        l.probe_sum += took
    if l.probe_n < LIMIT_PROBE and now_us - l.probe_us < l.config.interval_us or l.probe_n == 0:
        return
    l.probe_mean = l.probe_sum / l.probe_n
    l.alone_us = now_us
    l.probe_us = 0
    l.looked_us = now_us
    l.round = 0
    l.peak = l.in_flight
