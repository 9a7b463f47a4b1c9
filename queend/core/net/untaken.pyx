# Answers that are made and not gone: what the kernel has not taken, and what waits behind an answer that is still owed.
# They are counted where they are large, where they wait, and where a write did not go out at once: an ordinary answer
# never is.
#
# Who asks must take: in each write_timeout_ms at least the least rate; and while all answers together are beyond their
# budget, at a pace that takes them within PACE_ALL_MS. Meanwhile no pop is begun (engine_request). A connection that
# has too much for itself, of more than one answer, is closed at once. What was claimed for answers that did not go out
# is given back.

cdef enum:
    UNTAKEN_TELL = 65536      # bytes of a worker that the others need not know of

cdef const char* UNTAKEN_TEXT = b"Too many answers wait for clients that do not take them; try again"

cdef inline void untaken_add(Worker* w, Conn* c, int64_t more) noexcept nogil:
    # c NULL: it has left.
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
    # Bytes an answer counts with: the memory it keeps others from, or what of a larger one is to be sent.
    return <int64_t>(b.cap if b.cap <= OUT_KEEP else b.len)

cdef void untaken_charge(Request* r) noexcept nogil:
    # Its answer is made.
    cdef Conn* c = r.conn
    r.charged = buf_weight(&r.out)
    untaken_add(r.worker, c, r.charged)
    if c.untaken > r.worker.settings.max_untaken_of_one and c.untaken > r.charged:
        c.greedy = True

cdef inline int64_t conn_taken(Conn* c) noexcept nogil:
    # Bytes of what was ever handed to the loop that the kernel has.
    return c.handed - <int64_t>c.tcp.write_queue_size

cdef void untaken_look(Worker* w) noexcept nogil:
    # Does everybody take?
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
            conn_close(c)     # its answers wait behind one that it is owed
        c = following
