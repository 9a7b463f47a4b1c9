# A turn of the loop and who has it: requests are taken for TURN_US, then each connection that has more waits for the
# turns after, in order. So whoever is one of thousands that send much at once still waits for one request of each, not
# for all they sent: its push is in the batch that leaves at the end of the turn. Time is what the last request that was
# taken says, no clock is asked.
#
# What is large (bodies longer than what is read at once, and what is swallowed of clients that were refused) comes in
# slices of INPUT_SIZE: TURN_BYTES of all connections together in a turn, one slice each where several have more. A turn
# that has read TURN_CROWDED all the same, a little of each of thousands, takes INPUT_LITTLE of each that is left: an
# ordinary request is no longer.

cdef enum:
    TURN_US = 5000
    TURN_BYTES = 1 << 20
    TURN_CROWDED = 4 << 20

cdef inline void turn_took(Worker* w, int64_t now) noexcept nogil:
    # A request was taken.
    if w.turn_us == 0:
        w.turn_us = now
    w.taken_us = now

cdef inline bint turn_over(Worker* w) noexcept nogil:
    return w.taken_us - w.turn_us > TURN_US

cdef inline bint turn_full(Worker* w) noexcept nogil:
    return w.counters.bytes_in - w.turn_from >= TURN_BYTES

cdef inline bint turn_crowded(Worker* w) noexcept nogil:
    return w.counters.bytes_in - w.turn_from >= TURN_CROWDED

cdef inline bint turn_yields(Worker* w) noexcept nogil:
    # Does a connection that had a slice of what is large wait for the next one?
    return turn_full(w) or w.waits_more.first != NULL

cdef inline void turn_end(Worker* w) noexcept nogil:
    cdef uint64_t n = w.counters.bytes_in - w.turn_from
    if n > w.counters.turn_bytes:
        w.counters.turn_bytes = n
    w.turn_from = w.counters.bytes_in
    w.turn_us = 0
    w.taken_us = 0

cdef inline void turn_wait(Conn* c) noexcept nogil:
    # The connection, whose bytes are kept and which is not read, goes on in a later turn.
    waits_add(c, &c.worker.waits)

cdef inline void turn_wait_more(Conn* c) noexcept nogil:
    # The same, to be read.
    waits_add(c, &c.worker.waits_more)

cdef void waits_add(Conn* c, Waits* l) noexcept nogil:
    if c.wait_next != NULL:
        return
    c.wait_next = c
    if l.last != NULL:
        l.last.wait_next = c
    else:
        l.first = c
        uv_idle_start(&c.worker.between, turn_begin)
    l.last = c

cdef Conn* turn_next(Waits* l) noexcept nogil:
    # Who has waited longest, out of the list. NULL: it had gone, and is freed.
    cdef Conn* c = l.first
    l.first = c.wait_next
    if l.first is c:
        l.first = NULL
        l.last = NULL
    c.wait_next = NULL
    if c.mode != READ_GONE:
        return c
    free(c)
    return NULL

cdef void turn_begin(uv_idle_t* handle) noexcept nogil:
    # Those that waited, before anything that is new; the loop does not sleep while there are some.
    cdef Worker* w = <Worker*>handle.data
    cdef Conn* c
    cdef int slices = TURN_BYTES // INPUT_SIZE
    turn_end(w)
    while w.waits.first != NULL and not turn_over(w):
        c = turn_next(&w.waits)
        if c != NULL:
            conn_dirty(c)
            worker_flush(w)       # goes on with it, unless it owes as many answers as it may
    while w.waits_more.first != NULL and slices:
        c = turn_next(&w.waits_more)
        if c != NULL:
            slices -= 1
            conn_dirty(c)
            worker_flush(w)       # it is read again
    if w.waits.first == NULL and w.waits_more.first == NULL:
        uv_idle_stop(&w.between)
