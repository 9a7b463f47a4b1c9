# What has not arrived in whole: heads, bodies, and requests that wait behind others. Each connection takes from the
# budget what it holds of them; a body counts with its announced length. What comes whole with one read never gets here.
#
# Who announces a body must deliver it: in each body_timeout_ms at least the least rate; and while somebody else finds
# no room, at a pace that brings all of it within PACE_ALL_MS.

cdef int64_t body_most(Worker* w, Request* r) noexcept nogil:
    # Bytes its body may have.
    cdef int64_t most = w.limits.max_body
    if r.route.small if r.route != NULL else not path_listed(w.settings.large_paths, r.path):
        most = min(most, w.settings.max_control)
    if not service.guarded or service.open_to_all(r.path):
        most = min(most, w.settings.max_open)
    return most

cdef bint path_listed(const char* paths, Slice path) noexcept nogil:
    while paths[0]:
        if slice_is(path, paths):
            return True
        paths += strlen(paths) + 1
    return False

cdef void conn_account(Conn* c) noexcept nogil:
    # The budget follows what it holds (until conn_drop). Where there is no room, it is refused.
    cdef int64_t holds = 0
    if c.reading != NULL:
        holds = <int64_t>(c.reading.body.n if c.mode == READ_FIXED else c.reading.out.cap)
    if c.head.cap > ARRIVING_FREE:
        holds += <int64_t>c.head.cap
    if holds > c.arriving and not budget_take(holds - c.arriving):
        c.worker.counters.no_room += 1
        conn_refuse(c, 503, b"Too much is being received; try again")
        return
    if holds < c.arriving:
        budget_give(c.arriving - holds)
    c.arriving = holds

cdef void arriving_look(Worker* w) noexcept nogil:
    # Does everybody deliver?
    cdef Conn* c = w.conns[CONN_BODY].first
    cdef Conn* following
    cdef bint short = budget_short()
    while c != NULL:
        following = c.next
        if c.reading != NULL:
            if c.paused:
                c.pace.running = False         # it waits for us
            elif not conn_keeps_pace(c, conn_got(c), c.arriving, short, w.settings.body_timeout_ms):
                w.counters.too_slow += 1
                conn_refuse(c, 408, b"The request body came too slowly")
                conn_settle(c)
        c = following

cdef inline int64_t conn_got(Conn* c) noexcept nogil:
    return <int64_t>(c.body_got if c.mode == READ_FIXED else c.reading.out.len)

cdef bint conn_keeps_pace(Conn* c, int64_t done, int64_t all_, bint short, int window_ms) noexcept nogil:
    # At least the least rate in each window; short: fast enough for all of it within PACE_ALL_MS.
    cdef Pace* p = &c.pace
    cdef uint32_t now = <uint32_t>uv_now(&c.worker.loop)
    cdef int64_t ms
    if not p.running:
        p.running = True
        p.since = now
        p.mark_since = now
        p.bytes = done
        p.mark_bytes = done
        return True
    ms = <uint32_t>(now - p.since)
    if short and ms >= PACE_GRACE_MS and (done - p.bytes) * PACE_ALL_MS < all_ * ms:
        return False
    ms = <uint32_t>(now - p.mark_since)
    if c.worker.settings.least_rate and ms >= window_ms:
        if (done - p.mark_bytes) * 1000 < c.worker.settings.least_rate * ms:
            return False
        p.mark_since = now
        p.mark_bytes = done
    return True
