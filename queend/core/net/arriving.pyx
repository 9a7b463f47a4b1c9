# Bounds what has arrived incomplete: heads, bodies, and requests that wait behind others. In: connections. Out:
# refusals (503, 408). Each connection takes the bytes it holds from the budget (net/budget); a body counts with its
# announced length. A request that is complete after one read is never counted.
#
# A client that announced a body must send at least least_rate in each body_timeout_ms. While another request found the
# budget full (SHORT_MS), the body must also keep a pace that finishes it within PACE_ALL_MS.

cdef int64_t body_most(Worker* w, Request* r) noexcept nogil:
    # Returns the number of bytes that the request's body may have.
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
    # Adjusts the connection's part of the budget to what it holds; conn_drop gives it back. Refuses the request with
    # 503 if the budget is full.
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
    # Refuses, with 408, bodies that arrive too slowly. Called with each tick.
    cdef Conn* c = w.conns[CONN_BODY].first
    cdef Conn* following
    cdef bint short = budget_short()
    while c != NULL:
        following = c.next
        if c.reading != NULL:
            if c.paused:
                c.pace.running = False         # it waits for this daemon
            elif not conn_keeps_pace(c, conn_got(c), c.arriving, short, w.settings.body_timeout_ms):
                w.counters.too_slow += 1
                conn_refuse(c, 408, b"The request body came too slowly")
                conn_settle(c)
        c = following

cdef inline int64_t conn_got(Conn* c) noexcept nogil:
    return <int64_t>(c.body_got if c.mode == READ_FIXED else c.reading.out.len)

cdef bint conn_keeps_pace(Conn* c, int64_t done, int64_t all_, bint short, int window_ms) noexcept nogil:
    # Returns True if the connection moves at least least_rate in each window. short: it must also move fast enough for
    # all bytes within PACE_ALL_MS.
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
