# Notices that a client has left, whatever it has in hand. In: a connection. Out: conn_close, or on_end of its requests.
# Owns the list of paused connections, one per worker; no lock. A connection that is read learns of the end by reading.
# A paused one (too many requests or answers in hand, or ended input) is polled at every tick, within TICK_MS. If the
# client reset the connection, it is closed, and messages claimed for it that the kernel does not have are given back. A
# client that ended its input (FIN) has left, or reads on (`nc -N`, HTTP/1.0 clients); both look alike.

cdef enum:
    LOOK_AT_ONCE = 64
    HALF_MS = 15000

cdef void hangup_add(Conn* c) noexcept nogil:
    cdef Worker* w = c.worker
    c.paused = True
    c.unread_prev = NULL
    c.unread_next = w.unread
    if w.unread != NULL:
        w.unread.unread_prev = c
    w.unread = c

cdef void hangup_del(Conn* c) noexcept nogil:
    if not c.paused:
        return
    c.paused = False
    if c.unread_prev != NULL:
        c.unread_prev.unread_next = c.unread_next
    else:
        c.worker.unread = c.unread_next
    if c.unread_next != NULL:
        c.unread_next.unread_prev = c.unread_prev

cdef void hangup_poll(Worker* w) noexcept nogil:
    # Polls the connections that are not read, and closes or ends those whose client has left. POLLRDHUP tells of an end
    # behind bytes that were not read yet.
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
            if (fds[i].revents & (POLLERR | POLLHUP)
                    or conns[i].half and uv_now(&w.loop) - conns[i].half_since >= HALF_MS):
                conn_close(conns[i])
            elif fds[i].revents & POLLRDHUP:
                hangup_half_closed(conns[i])

cdef void hangup_half_closed(Conn* c) noexcept nogil:
    # Notes the end of the connection's input, perhaps behind requests that are still unread. These are read, and their
    # polls do not wait. Ends its long polls with an empty answer; messages claimed for them meanwhile are given back.
    cdef Request* r = c.first
    c.half = True
    c.half_since = uv_now(&c.worker.loop)
    while r != NULL:
        if r.on_end != NULL:
            r.on_end(r)       # may answer the request, which stays in its place
        r = r.next

cdef void hangup_on_eof(Conn* c) noexcept nogil:
    # Handles the end of the connection's input, once all of it was read. Drops an incomplete request. Requests are done
    # and answered. The connection is closed after its last answer, or after HALF_MS. A slow database or control plane
    # must not hold the descriptor of a client that left.
    conn_drop(c)
    c.owes_continue = False
    c.mode = READ_NOTHING
    c.ended = True
    c.read_out = True
    conn_pause(c)
    if not c.half:
        hangup_half_closed(c)
    conn_dirty(c)
    conn_settle(c)
