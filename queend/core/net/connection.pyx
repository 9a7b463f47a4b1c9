# Opens, reads and closes a client's connection. In: an accepted socket and its bytes. Out: the bytes, handed on to
# become requests (net/request); their answers leave in order (net/output). Owns Conn; all runs on the worker's thread,
# without locks. An idle connection holds no buffer: it reads into the worker's, keeps only an incomplete head, and
# reads a body straight into its request's memory.

# ---- states ----------------------------------------------------------------------------------------------------------

cdef void conn_move(Conn* c, int state) noexcept nogil:
    # Moves the connection to a state; only this function changes its state. Moving to the same state restarts the
    # clock.
    conn_leave(c)
    conn_enter(c, state)

cdef void conn_leave(Conn* c) noexcept nogil:
    # Removes the connection from the list of its state.
    cdef ConnList* l = &c.worker.conns[c.state]
    link_take(<void**>&l.first, c, <void**>&c.prev)
    l.n -= 1

cdef void conn_enter(Conn* c, int state) noexcept nogil:
    cdef ConnList* l = &c.worker.conns[state]
    c.state = <uint8_t>state
    c.since = uv_now(&c.worker.loop)
    link_put(<void**>&l.first, c, <void**>&c.prev)
    l.n += 1

cdef void conn_settle(Conn* c) noexcept nogil:
    # Moves the connection to the state that follows from what it waits for.
    cdef int state = CONN_IDLE
    if c.state >= CONN_LINGER:
        return
    if c.out_pending:
        state = CONN_STALLED
    elif c.reading != NULL:
        state = CONN_BODY
    elif c.owed:
        state = CONN_BUSY
    elif conn_begun(c):
        state = CONN_HEAD
    if state != c.state:
        if state == CONN_STALLED:
            c.out_mark = <size_t>-1
        c.pace.running = False
        conn_move(c, state)

cdef inline bint conn_begun(Conn* c) noexcept nogil:
    # Returns True if a head, a record of TLS or a handshake has begun, and is incomplete.
    return c.head.len or c.tls != NULL and tls_incomplete(c.tls)

cdef inline void conn_dirty(Conn* c) noexcept nogil:
    # Adds the connection to those that are looked at when this turn of the loop ends.
    if not c.dirty:
        c.dirty = True
        c.next_dirty = c.worker.dirty
        c.worker.dirty = c

# ---- open and close --------------------------------------------------------------------------------------------------

cdef void conn_open(Worker* w, int fd, ClientAddress* address) noexcept nogil:
    # Opens a connection on an admitted socket, which it takes over.
    cdef Conn* c = NULL
    if not w.stopping:
        c = <Conn*>calloc(1, sizeof(Conn))
    if c != NULL:
        c.address = budget_join(w, address)
    if (c == NULL or c.address == NULL or w.tls != NULL and not tls_open(w, c)
            or uv_tcp_init(&w.loop, &c.tcp) != 0):
        if c != NULL and c.address != NULL:
            budget_quit(w, c.address)
            free(c.tls)
        free(c)
        listener_drop(fd, address)
        return
    c.worker = w
    c.tcp.data = c
    w.counters.accepted += 1
    w.counters.live_connections += 1
    w.counters.live_handles += 1
    conn_enter(c, CONN_IDLE)
    if uv_tcp_open(&c.tcp, fd) != 0:
        close(fd)
        conn_close(c)
        return
    uv_tcp_nodelay(&c.tcp, 1)
    conn_read_start(c)

cdef void conn_close(Conn* c) noexcept nogil:
    # Closes the connection, from any state. A second call does nothing. Unanswered requests go on without a client; the
    # engine hears of it by on_gone.
    cdef Request* r = c.first
    cdef Request* following
    if c.state == CONN_CLOSING:
        return
    conn_move(c, CONN_CLOSING)
    if c.tls != NULL:
        tls_end(c)
    if c.feed != NULL and c.feed.parts_held:
        atomic_add64(&c.address.client.parts, -c.feed.parts_held)
    c.feed = NULL
    c.first = NULL
    c.last = NULL
    c.owed = 0
    conn_drop(c)
    conn_unread_del(c)
    held_leave(c)
    uv_close(<uv_handle_t*>&c.tcp, conn_closed)
    while r != NULL:
        following = r.next
        request_forsake(r)
        r = following

cdef void conn_drop(Conn* c) noexcept nogil:
    # Drops an incomplete request and its place in the budget.
    if c.reading != NULL:
        request_close(c.reading)
        c.reading = NULL
    buf_free(&c.head)
    free(c.chunked)
    c.chunked = NULL
    if c.arriving:
        budget_give(c.arriving)
        budget_set_share(&c.arriving, &c.address.client.arriving, 0)

cdef void conn_closed(uv_handle_t* handle) noexcept nogil:
    cdef Conn* c = <Conn*>handle.data
    cdef Worker* w = c.worker
    cdef Conn** at
    if c.dirty:
        at = &w.dirty
        while at[0] != c:
            at = &at[0].next_dirty
        at[0] = c.next_dirty
    conn_leave(c)
    w.counters.live_connections -= 1
    w.counters.live_handles -= 1
    tls_free(c)
    budget_leave_shares(c)
    budget_leave(budget_quit(w, c.address))
    if c.wait_next != NULL:
        c.mode = READ_GONE
    else:
        free(c)

cdef void conn_linger(Conn* c) noexcept nogil:
    # Ends a connection whose last answer is written. Closing at once would let unread bytes of the client reset the
    # connection and destroy the answer on its way. So this side is shut down, and the client's bytes are swallowed
    # until it closes, at most CONN_LINGER_MS and CONN_LINGER_BYTES.
    conn_move(c, CONN_LINGER)
    conn_drop(c)
    c.mode = READ_NOTHING     # no request is taken, so none holds back the next bytes (conn_holds_back)
    held_leave(c)
    c.out_mark = 0
    if c.tls != NULL:
        tls_end(c)
    if shutdown(conn_fd(c), SHUT_WR) != 0:
        conn_close(c)
    elif c.paused:
        conn_read_start(c)

cdef inline bint conn_is_new(Conn* c) noexcept nogil:
    # Returns True if the connection was just accepted: its first request is on the way and is answered even during a
    # drain.
    cdef uint64_t most = c.worker.settings.stop_patience_ms
    return not c.asked and c.state == CONN_IDLE and uv_now(&c.worker.loop) - c.since < most

cdef inline int conn_fd(Conn* c) noexcept nogil:
    cdef int fd = -1
    uv_fileno(<uv_handle_t*>&c.tcp, &fd)
    return fd

cdef void conn_name(Conn* c, char* out, size_t size) noexcept nogil:
    # Writes the client's `address:port`, NUL-terminated; empty if the client has left.
    cdef sockaddr_storage address
    cdef char[48] text
    cdef int n = sizeof(address)
    out[0] = 0
    if (c == NULL or uv_tcp_getpeername(&c.tcp, <sockaddr*>&address, &n) != 0
            or uv_ip_name(<sockaddr*>&address, text, sizeof(text)) != 0):
        return
    snprintf(out, size, b"[%s]:%d" if address.ss_family == AF_INET6 else b"%s:%d", text, conn_port(&address))

cdef inline int conn_port(const sockaddr_storage* address) noexcept nogil:
    # Returns the port, which stands at the same place in both families.
    return ntohs((<const sockaddr_in*>address).sin_port)

# ---- reading ---------------------------------------------------------------------------------------------------------

cdef void conn_read_start(Conn* c) noexcept nogil:
    c.in_pieces = False
    conn_unread_del(c)
    if uv_read_start(<uv_stream_t*>&c.tcp, conn_on_alloc if c.tls == NULL else tls_on_alloc,
                     conn_on_read if c.tls == NULL else tls_on_read) != 0:
        conn_close(c)

cdef void conn_pause(Conn* c) noexcept nogil:
    if not c.paused:
        c.paused = True
        link_put(<void**>&c.worker.unread, c, <void**>&c.unread_prev)
        uv_read_stop(<uv_stream_t*>&c.tcp)

cdef void conn_resume(Conn* c) noexcept nogil:
    # Reads the connection again: first its kept bytes, then new ones.
    cdef Buf held = c.head
    buf_init(&c.head)
    conn_read_start(c)
    if c.state == CONN_CLOSING:
        buf_free(&held)
        return
    conn_consume(c, held.data, held.len)
    buf_free(&held)
    if c.tls != NULL and c.tls.phase == TLS_ENDED and not c.paused and c.state != CONN_CLOSING:
        conn_on_eof(c)

cdef void conn_on_alloc(uv_handle_t* handle, size_t suggested, uv_buf_t* buf) noexcept nogil:
    # Chooses where the next bytes are read to. A length of 0: this turn has read enough of large bodies, or of requests
    # that come in pieces; conn_on_read then gets UV_ENOBUFS.
    cdef Conn* c = <Conn*>handle.data
    conn_place(c, buf)
    buf.len = conn_read_most(c, buf.len)

cdef inline void conn_place(Conn* c, uv_buf_t* buf) noexcept nogil:
    # Chooses the place of the next bytes: the body of the request being read, or the worker's buffer.
    if c.mode == READ_FIXED and c.state != CONN_LINGER:
        buf.base = <char*>c.reading.body.p + c.body_got
        buf.len = min(c.reading.body.n - c.body_got, <size_t>INPUT_SIZE)
    else:
        buf.base = c.worker.input
        buf.len = INPUT_HEAD if c.large and c.mode == READ_HEAD else INPUT_SIZE

cdef inline size_t conn_read_most(Conn* c, size_t most) noexcept nogil:
    # Returns how many of at most so many bytes are read now, by what the connection and the worker have read.
    if held_over(c) and (c.mode == READ_HEAD or c.mode == READ_FRAMES):
        most = min(most, <size_t>INPUT_HEAD)
    if c.worker.counters.bytes_in >= c.worker.turn_full:
        if c.mode != READ_HEAD or c.head.len:
            most = 0
        elif worker_crowded(c.worker):
            most = min(most, <size_t>INPUT_LITTLE)
    if worker_in_pieces(c.worker) and (c.reading != NULL or conn_begun(c)):
        most = 0
    return most

cdef void conn_on_read(uv_stream_t* stream, ssize_t got, const uv_buf_t* buf) noexcept nogil:
    cdef Conn* c = <Conn*>stream.data
    cdef const char* data = buf.base
    cdef size_t n
    cdef Buf held
    if got == 0:
        return                # no bytes came (EAGAIN)
    if got == UV_ENOBUFS:
        c.in_pieces = not worker_turn_full(c.worker)
        conn_yield(c)
        return
    if got < 0:
        if got == UV_EOF:
            conn_on_eof(c)
        else:
            conn_close(c)
        return
    n = <size_t>got
    c.worker.counters.bytes_in += n
    if c.state == CONN_LINGER:
        c.out_mark += n
        if c.out_mark > CONN_LINGER_BYTES:
            conn_close(c)
        elif worker_yields(c.worker):
            conn_yield(c)
        return
    if c.reading != NULL:
        c.owes_continue = False      # its body comes without
    if c.mode == READ_FIXED:
        c.body_got += n
        if c.state == CONN_BODY:
            conn_move(c, CONN_BODY)
        if c.body_got == c.reading.body.n:
            request_complete(c)
            conn_consume(c, data, 0)
        else:
            conn_settle(c)
            conn_read_piece(c)
        return
    if c.head.len:
        # the rest of a head whose beginning is kept: parsed again only when a line has ended or the limit is passed
        held = c.head
        buf_put(&held, data, n)
        if held.failed:
            c.head = held
            conn_close(c)
            return
        if held.len < c.feed.want if c.mode == READ_FRAMES and c.feed != NULL else (
                memchr(data, b'\n', n) == NULL and held.len <= c.worker.limits.max_head):
            c.head = held
            if held.cap > ARRIVING_FREE:
                budget_account(c)
            conn_read_piece(c)
            return
        buf_init(&c.head)
        conn_consume(c, held.data, held.len)
        buf_free(&held)
    else:
        conn_consume(c, data, n)
    if c.reading != NULL or c.head.len:
        conn_read_piece(c)

cdef inline void conn_read_piece(Conn* c) noexcept nogil:
    # Counts a read that left the request incomplete.
    c.worker.turn_pieces += 1
    if worker_yields(c.worker):
        conn_yield(c)

cdef inline bint conn_is_held_up(const Conn* c) noexcept nogil:
    # Returns True if the rest of an incomplete request waits for this daemon. The connection is paused, or
    # `100 Continue` is still to be written.
    return c.paused and not c.in_pieces or c.owes_continue

cdef inline bint conn_output_full(Conn* c) noexcept nogil:
    # Returns True if the connection has as many untaken answers as it may have before its next request is taken. While
    # there is no room for more answers, these are HELD_LITTLE.
    return (c.out_pending > OUT_MAX or c.untaken > OUT_MAX
            or c.untaken > HELD_LITTLE and budget_unsent_full(c, 0))

cdef inline bint conn_holds_back(Conn* c) noexcept nogil:
    # Returns True if the next request has to wait. It waits for a token, the body before it, room or answers. Frames
    # wait until their stream begins.
    return (c.mode == READ_LATER or c.last_is_away or c.waits_room or c.owed >= c.worker.settings.max_pipeline
            or conn_output_full(c) or held_full(c)
            or c.feed != NULL and (c.mode == READ_FRAMES and not c.feed.begun
                                   or c.feed.n_commands >= c.worker.settings.max_pipeline
                                   or req_grant_stale(c.feed.r.grant)))

cdef void conn_yield(Conn* c) noexcept nogil:
    # Pauses a connection in the middle of a request until the other connections had their turn.
    worker_waits_add(c, &c.worker.waits_pieces if c.in_pieces else &c.worker.waits_more)
    conn_pause(c)

cdef void conn_consume(Conn* c, const char* data, size_t n) noexcept nogil:
    # Takes complete requests from the bytes and keeps the rest, an incomplete one.
    cdef size_t used
    while n and c.mode != READ_NOTHING:
        if conn_holds_back(c):
            break
        if c.mode == READ_HEAD:
            used = request_take_head(c, data, n)
            if used == 0:
                break
        elif c.mode == READ_FRAMES:
            used = service.heard(c, data, n)
            if used == 0:
                break
        elif c.mode == READ_CHUNKED:
            used = request_take_chunks(c, data, n)
        else:
            used = request_take_body(c, data, n)
        if c.state == CONN_CLOSING:
            return
        data += used
        n -= used
        if n and (c.mode == READ_HEAD or c.mode == READ_FRAMES) and worker_turn_over(c.worker):
            worker_waits_add(c, &c.worker.waits)
            break
    if c.state == CONN_CLOSING:
        return
    if n and c.mode != READ_NOTHING:
        buf_put(&c.head, data, n)
        if c.head.failed:
            conn_close(c)
            return
    if c.wait_next != NULL or conn_holds_back(c):
        conn_pause(c)
    if c.reading != NULL or c.arriving or c.head.cap > ARRIVING_FREE:
        budget_account(c)
    conn_settle(c)

# ---- clients that leave ----------------------------------------------------------------------------------------------
# A connection that is read learns of the end by reading. A paused one (too many requests or answers in hand, or ended
# input) is polled at every tick, within TICK_MS. If the client reset the connection, it is closed, and messages claimed
# for it that the kernel does not have are given back. A client that ended its input (FIN) has left, or reads on
# (`nc -N`, HTTP/1.0 clients); both look alike.

cdef enum:
    LOOK_AT_ONCE = 64
    HALF_MS = 15000

cdef inline void conn_unread_del(Conn* c) noexcept nogil:
    if c.paused:
        link_take(<void**>&c.worker.unread, c, <void**>&c.unread_prev)
    c.paused = False

cdef void conn_poll_unread(Worker* w) noexcept nogil:
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
                conn_half_closed(conns[i])

cdef void conn_half_closed(Conn* c) noexcept nogil:
    # Notes the end of the connection's input, perhaps behind requests that are still unread. These are read, and their
    # polls do not wait. Ends its long polls with an empty answer; messages claimed for them meanwhile are given back.
    cdef Request* r = c.first
    c.half = True
    c.half_since = uv_now(&c.worker.loop)
    while r != NULL:
        if r.on_end != NULL:
            r.on_end(r)       # may answer the request, which stays in its place
        r = r.next

cdef void conn_on_eof(Conn* c) noexcept nogil:
    # Handles the end of the connection's input, once all of it was read. Drops an incomplete request. Requests are done
    # and answered. The connection is closed after its last answer, or after HALF_MS. A slow database or control plane
    # must not hold the descriptor of a client that left.
    if c.state >= CONN_LINGER or c.first == NULL and not c.out_pending:
        conn_close(c)
        return
    conn_drop(c)
    c.owes_continue = False
    c.mode = READ_NOTHING
    c.ended = True
    c.read_out = True
    conn_pause(c)
    if not c.half:
        conn_half_closed(c)
    conn_dirty(c)
    conn_settle(c)

# ---- requests that are owed an answer --------------------------------------------------------------------------------

cdef inline void conn_owe(Conn* c, Request* r) noexcept nogil:
    link_put(<void**>&c.first, r, <void**>&r.before)
    c.owed += 1

cdef void conn_refuse(Conn* c, int status, const char* reason) noexcept nogil:
    # Refuses bytes that are no request and drops them. Sends one answer in its turn, then ends the connection. Sends no
    # answer before the end of a handshake.
    cdef Request* r = NULL
    if c.tls != NULL and c.tls.phase == TLS_SHAKING:
        tls_failed(c, reason)
    else:
        r = request_open(c.worker, c)
    if r != NULL:
        conn_refuse_request(c, r, status, reason)
        return
    conn_drop(c)
    conn_close(c)

cdef void conn_refuse_request(Conn* c, Request* r, int status, const char* reason) noexcept nogil:
    # Refuses a request whose body is not read: sends one answer in its turn, then ends the connection.
    conn_drop(c)
    c.mode = READ_NOTHING
    c.ended = True
    c.owes_continue = False
    r.keep_alive = False
    r.started_us = clock_mono_us()
    conn_owe(c, r)
    if status == 415:
        # for a head, a 415 is about the coding (RFC 9110 12.5.3)
        reply_error_more(r, status, ACCEPTS, reason)
    else:
        reply_error(r, status, reason)
