# A turn of the loop and who has it: requests are taken for TURN_US, then each connection that has more waits for the turns after,
# in order. So whoever is one of thousands that send much at once still waits for one request of each, not for all they sent: its
# push is in the batch that leaves at the end of the turn. Time is what the last request that was taken says, no clock is asked.

cdef enum:
    TURN_US = 5000

cdef inline void turn_took(Worker* w, int64_t now) noexcept nogil:
    # A request was taken.
    if w.turn_us == 0:
        w.turn_us = now
    w.taken_us = now

cdef inline bint turn_over(Worker* w) noexcept nogil:
    return w.taken_us - w.turn_us > TURN_US

cdef inline void turn_end(Worker* w) noexcept nogil:
    w.turn_us = 0
    w.taken_us = 0

cdef void turn_wait(Conn* c) noexcept nogil:
    # The connection, whose bytes are kept and which is not read, goes on in a later turn.
    cdef Worker* w = c.worker
    if c.wait_next != NULL:
        return
    c.wait_next = c
    if w.waits_last != NULL:
        w.waits_last.wait_next = c
    else:
        w.waits = c
        uv_idle_start(&w.between, turn_begin)
    w.waits_last = c

cdef Conn* turn_next(Worker* w) noexcept nogil:
    # Who has waited longest, out of the list. NULL: it had gone, and is freed.
    cdef Conn* c = w.waits
    w.waits = c.wait_next
    if w.waits is c:
        w.waits = NULL
        w.waits_last = NULL
    c.wait_next = NULL
    if c.mode != READ_GONE:
        return c
    free(c)
    return NULL

cdef void turn_begin(uv_idle_t* handle) noexcept nogil:
    # Those that waited, before anything that is new; the loop does not sleep while there are some.
    cdef Worker* w = <Worker*>handle.data
    cdef Conn* c
    turn_end(w)
    while w.waits != NULL and not turn_over(w):
        c = turn_next(w)
        if c != NULL:
            conn_dirty(c)
            worker_flush(w)       # goes on with it, unless it owes as many answers as it may
    if w.waits == NULL:
        uv_idle_stop(&w.between)
