# How the end of a client is noticed, whatever it has in hand. While a connection is read, reading tells. One that is
# not (too many requests or answers in hand, or nothing more comes) is asked at every tick of its worker: its end is
# noticed within TICK_MS. The poll of the system tells of an end that stands behind bytes nobody has read yet.
#
# What an end means:
#   reset (the kernel knows that nobody is there): the connection is closed, what was claimed for it and not handed to
#     the kernel is given back.
#   end of input (FIN): the client has left, or only its sending side is shut and it reads on (`nc -N`, HTTP/1.0
#     clients). Nobody can tell which. So what it sent is done and answered, but nobody waits for its sake any longer:
#     its long polls end (on_end), with an empty answer, and what is claimed for them meanwhile is given back. Requests
#     that were sent and not read yet are still read, their polls do not wait; half a request is forgotten. After the
#     last answer it is closed, or after HALF_MS: what the database or the control plane takes longer for holds no
#     descriptor for somebody who left.

cdef enum:
    LOOK_AT_ONCE = 64
    HALF_MS = 15000

cdef void unread_add(Conn* c) noexcept nogil:
    cdef Worker* w = c.worker
    c.paused = True
    c.unread_prev = NULL
    c.unread_next = w.unread
    if w.unread != NULL:
        w.unread.unread_prev = c
    w.unread = c

cdef void unread_del(Conn* c) noexcept nogil:
    if not c.paused:
        return
    c.paused = False
    if c.unread_prev != NULL:
        c.unread_prev.unread_next = c.unread_next
    else:
        c.worker.unread = c.unread_next
    if c.unread_next != NULL:
        c.unread_next.unread_prev = c.unread_prev

cdef void unread_look(Worker* w) noexcept nogil:
    # Who of those that are not read has left?
    cdef pollfd[LOOK_AT_ONCE] fds
    cdef Conn* conns[LOOK_AT_ONCE]
    cdef Conn* c = w.unread
    cdef int i, n
    while c != NULL:
        n = 0
        while c != NULL and n < LOOK_AT_ONCE:
            fds[n].fd = conn_fd(c)
            fds[n].events = 0 if c.half else POLLRDHUP
            fds[n].revents = 0
            conns[n] = c
            n += 1
            c = c.unread_next
        poll(fds, n, 0)
        for i in range(n):
            if fds[i].revents & (POLLERR | POLLHUP) or half_too_long(conns[i]):
                conn_close(conns[i])
            elif fds[i].revents & POLLRDHUP:
                conn_half(conns[i])

cdef inline bint half_too_long(Conn* c) noexcept nogil:
    return c.half and uv_now(&c.worker.loop) - c.half_since >= HALF_MS

cdef void conn_half(Conn* c) noexcept nogil:
    # The end of its input has arrived, perhaps behind requests that were not read yet.
    cdef Request* r = c.first
    c.half = True
    c.half_since = uv_now(&c.worker.loop)
    while r != NULL:
        if r.on_end != NULL:
            r.on_end(r)       # may answer it, which leaves it in its place
        r = r.next

cdef void conn_read_out(Conn* c) noexcept nogil:
    # The end of its input was read: what is owed is still given.
    conn_drop(c)
    c.owes_continue = False
    c.mode = READ_NOTHING
    c.ended = True
    c.read_out = True
    conn_pause(c)
    if not c.half:
        conn_half(c)
    conn_dirty(c)
    conn_settle(c)
