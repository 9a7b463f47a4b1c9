# Bounds untaken answers: made, but the kernel has not taken them, or they wait behind an answer that is still owed. In:
# answers. Out: closed connections. Counted are only answers that are large, that wait, or that need more than one
# write.
#
# A client must take at least least_rate in each write_timeout_ms. While all answers are beyond their budget, it must
# keep a pace that takes its answers within PACE_ALL_MS, and no pop is begun (engine_request). A connection beyond
# max_untaken_of_one with more than one answer is closed at once. Messages claimed for answers that did not go out are
# given back.

cdef enum:
    UNTAKEN_TELL = 65536      # bytes of a worker that are not yet reported to the budget

cdef const char* UNTAKEN_TEXT = b"Too many answers wait for clients that do not take them; try again"

cdef inline void untaken_add(Worker* w, Conn* c, int64_t more) noexcept nogil:
    # Adds to the worker's untaken bytes. c: NULL if the client has left.
    w.untaken += more
    if c != NULL:
        c.untaken += more
    if w.untaken - w.untaken_told > UNTAKEN_TELL or w.untaken_told - w.untaken > UNTAKEN_TELL:
        untaken_tell(w)

cdef void untaken_tell(Worker* w) noexcept nogil:
    atomic_add64(&budget.untaken, w.untaken - w.untaken_told)
    w.untaken_told = w.untaken

cdef inline bint untaken_over() noexcept nogil:
    return atomic_get64(&budget.untaken) >= budget.most_untaken

cdef inline int64_t buf_weight(const Buf* b) noexcept nogil:
    # Returns the bytes an answer counts with: the memory it keeps from others, or the length of a larger one.
    return <int64_t>(b.cap if b.cap <= OUT_KEEP else b.len)

cdef void untaken_charge(Request* r) noexcept nogil:
    # Counts an answer that was just made.
    cdef Conn* c = r.conn
    r.charged = buf_weight(&r.out)
    untaken_add(r.worker, c, r.charged)
    if c.untaken > r.worker.settings.max_untaken_of_one and c.untaken > r.charged:
        c.greedy = True

cdef inline int64_t conn_taken(Conn* c) noexcept nogil:
    # Returns how many of all bytes handed to the loop the kernel has taken.
    return c.handed - <int64_t>c.tcp.write_queue_size

cdef void untaken_look(Worker* w) noexcept nogil:
    # Closes clients that take answers slower than the least rate. Called with each tick.
    cdef Conn* c = w.conns[CONN_STALLED].first
    cdef Conn* following
    cdef int64_t now = <int64_t>uv_now(&w.loop)
    cdef bint over
    if w.untaken != w.untaken_told:
        untaken_tell(w)
    over = untaken_over()
    while c != NULL:
        following = c.next
        if not conn_keeps_pace(c, conn_taken(c), c.untaken, over, w.settings.write_timeout_ms):
            w.counters.not_taken += 1
            conn_close(c)
        c = following
    c = w.conns[CONN_BUSY].first if over else NULL
    while c != NULL:
        following = c.next
        if c.untaken > OUT_MAX and now - <int64_t>c.since >= PACE_GRACE_MS:
            w.counters.not_taken += 1
            conn_close(c)     # its answers wait behind one that is still owed
        c = following
