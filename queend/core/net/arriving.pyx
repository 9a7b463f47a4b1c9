# What has not arrived in whole: heads, bodies, and requests that wait behind others. A connection has of the budget what it holds
# of them, a body with its announced length. What comes whole with one read never gets here.
#
# Who announces must deliver: in each body_timeout_ms at least the least rate; and while somebody finds no room, at a pace that
# brings the whole within ARRIVING_ALL_MS.

cdef enum:
    ARRIVING_FREE = 4096      # of an incomplete head, not counted
    ARRIVING_ALL_MS = 30000   # for a whole body, while room is short
    ARRIVING_GRACE_MS = 2000

cdef int64_t body_most(Worker* w, Request* r) noexcept nogil:
    # Bytes its body may have.
    cdef int64_t most = w.limits.max_body
    if route_match(r.method, r.path) == ROUTE_NONE and not path_listed(w.settings.large_paths, r.path):
        most = min(most, w.settings.max_control)
    if not grants.on or gate_skips(r.path):
        most = min(most, w.settings.max_open)
    return most

cdef bint path_listed(const char* paths, Slice path) noexcept nogil:
    while paths[0]:
        if slice_is(path, paths):
            return True
        paths += strlen(paths) + 1
    return False

cdef void conn_account(Conn* c) noexcept nogil:
    # The budget follows what it holds. Where there is no room, it is refused.
    cdef int64_t holds = 0
    if c.reading != NULL:
        holds = <int64_t>(c.reading.body.n if c.mode == READ_FIXED else c.reading.out.cap)
        if c.body_since == 0:
            c.body_since = uv_now(&c.worker.loop)
            c.pace_since = c.body_since
            c.pace_got = 0
    else:
        c.body_since = 0
    if c.head.cap > ARRIVING_FREE:
        holds += <int64_t>c.head.cap
    if holds > c.arriving and not budget_take(holds - c.arriving):
        c.worker.counters.no_room += 1
        conn_give_up(c, 503, b"Too much is being received; try again")
        return
    if holds < c.arriving:
        budget_give(c.arriving - holds)
    c.arriving = holds

cdef inline void conn_let_go(Conn* c) noexcept nogil:
    # It holds nothing any more.
    if c.arriving:
        budget_give(c.arriving)
        c.arriving = 0
    c.body_since = 0

cdef void conn_give_up(Conn* c, int status, const char* why) noexcept nogil:
    # What has come of the next request is forgotten; the connection ends with a refusal.
    if c.reading != NULL:
        request_close(c.reading)
        c.reading = NULL
    buf_free(&c.head)
    conn_refuse(c, status, why)

cdef void arriving_look(Worker* w) noexcept nogil:
    # Does everybody deliver?
    cdef Conn* c = w.conns[CONN_BODY].first
    cdef Conn* following
    cdef int64_t now = <int64_t>uv_now(&w.loop)
    cdef bint short = budget_short()
    while c != NULL:
        following = c.next
        if c.reading != NULL and c.body_since:
            if c.paused:
                c.pace_since = <uint64_t>now          # it waits for us
                c.pace_got = conn_got(c)
            elif not conn_delivers(c, now, short):
                w.counters.too_slow += 1
                conn_give_up(c, 408, b"The request body came too slowly")
                conn_settle(c)
        c = following

cdef inline size_t conn_got(Conn* c) noexcept nogil:
    return c.body_got if c.mode == READ_FIXED else c.reading.out.len

cdef bint conn_delivers(Conn* c, int64_t now, bint short) noexcept nogil:
    cdef Settings* s = c.worker.settings
    cdef int64_t got = <int64_t>conn_got(c)
    cdef int64_t all_ms = now - <int64_t>c.body_since
    cdef int64_t ms = now - <int64_t>c.pace_since
    if short and all_ms >= ARRIVING_GRACE_MS and got * ARRIVING_ALL_MS < c.arriving * all_ms:
        return False
    if s.least_rate and ms >= s.body_timeout_ms:
        if (got - <int64_t>c.pace_got) * 1000 < s.least_rate * ms:
            return False
        c.pace_since = <uint64_t>now
        c.pace_got = <size_t>got
    return True
