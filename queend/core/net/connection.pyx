# A client's connection: its bytes become requests, handed to the engine as they complete; their answers leave in order.
# An idle connection holds no buffer: reads go through the worker's, only the head of an incomplete request is kept
# here, and a body is read straight into its request's memory.

cdef void conn_move(Conn* c, int state) noexcept nogil:
    # The one place where a connection changes state. Moving to the same state restarts its clock.
    conn_leave(c)
    conn_enter(c, state)

cdef void conn_leave(Conn* c) noexcept nogil:
    # Out of the list of its state.
    cdef ConnList* l = &c.worker.conns[c.state]
    if c.prev != NULL:
        c.prev.next = c.next
    else:
        l.first = c.next
    if c.next != NULL:
        c.next.prev = c.prev
    else:
        l.last = c.prev
    l.n -= 1

cdef void conn_enter(Conn* c, int state) noexcept nogil:
    cdef ConnList* l = &c.worker.conns[state]
    c.state = <uint8_t>state
    c.since = uv_now(&c.worker.loop)
    c.prev = l.last
    c.next = NULL
    if l.last != NULL:
        l.last.next = c
    else:
        l.first = c
    l.last = c
    l.n += 1

cdef void conn_settle(Conn* c) noexcept nogil:
    # The state that follows from what the connection waits for.
    cdef int state = CONN_IDLE
    if c.state >= CONN_LINGER:
        return
    if c.out_pending:
        state = CONN_STALLED
    elif c.reading != NULL:
        state = CONN_BODY
    elif c.owed:
        state = CONN_BUSY
    elif c.head.len:
        state = CONN_HEAD
    if state != c.state:
        if state == CONN_STALLED:
            c.out_mark = <size_t>-1
        c.pace.running = False
        conn_move(c, state)

# -- open and close ---------------------------------------------------------------------------------------------------

cdef void conn_open(Worker* w, int fd, uint64_t from_) noexcept nogil:
    # Takes the accepted socket over, which was admitted.
    cdef Conn* c = NULL
    if not w.stopping:
        c = <Conn*>calloc(1, sizeof(Conn))
    if c == NULL or uv_tcp_init(&w.loop, &c.tcp) != 0:
        free(c)
        close(fd)
        budget_leave(from_)
        return
    c.from_ = from_
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
    # From any state, once. Requests without an answer live on without a client; the engine is told.
    cdef Request* r = c.first
    cdef Request* following
    if c.state == CONN_CLOSING:
        return
    conn_move(c, CONN_CLOSING)
    c.feed = NULL
    c.first = NULL
    c.last = NULL
    c.owed = 0
    if c.reading != NULL:
        request_close(c.reading)
        c.reading = NULL
    buf_free(&c.head)
    free(c.chunked)
    c.chunked = NULL
    conn_let_go(c)
    unread_del(c)
    uv_close(<uv_handle_t*>&c.tcp, conn_closed)
    while r != NULL:
        following = r.next
        r.conn = NULL
        if r.replied:
            if r.on_unsent != NULL:
                r.on_unsent(r)
            request_close(r)
        elif r.on_gone != NULL:
            r.on_gone(r)      # may answer, and thereby free, it
        r = following

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
    budget_leave(c.from_)
    if c.wait_next != NULL:
        c.mode = READ_GONE
    else:
        free(c)

cdef void conn_linger(Conn* c) noexcept nogil:
    # Everything is said. Closing at once would let unread bytes of the client reset the connection and destroy the
    # answer on its way: our side is shut down and the client's bytes are swallowed until it closes too, within bounds.
    conn_move(c, CONN_LINGER)
    buf_free(&c.head)
    conn_let_go(c)
    c.out_mark = 0
    if shutdown(conn_fd(c), SHUT_WR) != 0:
        conn_close(c)
    elif c.paused:
        conn_read_start(c)

cdef inline bint conn_young(Conn* c) noexcept nogil:
    # Just accepted: its first request is on the way, and is still answered while the worker drains.
    return not c.asked and c.state == CONN_IDLE and uv_now(&c.worker.loop) - c.since < STOP_PATIENCE_MS

cdef inline int conn_fd(Conn* c) noexcept nogil:
    cdef int fd = -1
    uv_fileno(<uv_handle_t*>&c.tcp, &fd)
    return fd

# -- reading ----------------------------------------------------------------------------------------------------------

cdef void conn_read_start(Conn* c) noexcept nogil:
    unread_del(c)
    if uv_read_start(<uv_stream_t*>&c.tcp, conn_on_alloc, conn_on_read) != 0:
        conn_close(c)

cdef void conn_pause(Conn* c) noexcept nogil:
    if not c.paused:
        unread_add(c)
        uv_read_stop(<uv_stream_t*>&c.tcp)

cdef void conn_on_alloc(uv_handle_t* handle, size_t suggested, uv_buf_t* buf) noexcept nogil:
    # No room: this turn has read enough of what is large (conn_on_read has UV_ENOBUFS).
    cdef Conn* c = <Conn*>handle.data
    if c.mode == READ_FIXED and c.state != CONN_LINGER:
        buf.base = <char*>c.reading.body.p + c.body_got
        buf.len = min(c.reading.body.n - c.body_got, <size_t>INPUT_SIZE)
    else:
        buf.base = c.worker.input
        buf.len = INPUT_HEAD if c.large and c.mode == READ_HEAD else INPUT_SIZE
    if c.worker.counters.bytes_in >= c.worker.turn_full:
        if c.mode != READ_HEAD or c.head.len:
            buf.len = 0
        elif turn_crowded(c.worker):
            buf.len = min(buf.len, <size_t>INPUT_LITTLE)

cdef void conn_on_read(uv_stream_t* stream, ssize_t got, const uv_buf_t* buf) noexcept nogil:
    cdef Conn* c = <Conn*>stream.data
    cdef const char* data = buf.base
    cdef size_t n
    cdef Buf held
    if got == 0:
        return                # nothing came after all (EAGAIN)
    if got == UV_ENOBUFS:
        conn_yield(c)
        return
    if got < 0:
        if got == UV_EOF and c.state < CONN_LINGER and (c.first != NULL or c.out_pending):
            conn_read_out(c)
        else:
            conn_close(c)
        return
    n = <size_t>got
    c.worker.counters.bytes_in += n
    if c.state == CONN_LINGER:
        c.out_mark += n
        if c.out_mark > LINGER_BYTES:
            conn_close(c)
        elif turn_yields(c.worker):
            conn_yield(c)
        return
    if c.mode == READ_FIXED:
        c.body_got += n
        if c.state == CONN_BODY:
            conn_move(c, CONN_BODY)
        if c.body_got == c.reading.body.n:
            conn_complete(c)
            conn_consume(c, data, 0)
        else:
            conn_settle(c)
            if turn_yields(c.worker):
                conn_yield(c)
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
                conn_account(c)
            if turn_yields(c.worker):
                conn_yield(c)
            return
        buf_init(&c.head)
        conn_consume(c, held.data, held.len)
        buf_free(&held)
    else:
        conn_consume(c, data, n)
    if (c.reading != NULL or c.head.len) and turn_yields(c.worker):
        conn_yield(c)

cdef inline bint conn_sated(Conn* c) noexcept nogil:
    # It has as many answers as it may before it asks for more.
    return c.out_pending > OUT_MAX or c.untaken > OUT_MAX

cdef inline bint conn_holds_back(Conn* c) noexcept nogil:
    # Its next request has to wait: for the token or the reading of the one before, or for answers.
    return (c.mode == READ_LATER or c.beside or c.owed >= c.worker.settings.max_pipeline or conn_sated(c)
            or c.feed != NULL and c.feed.n_commands >= c.worker.settings.max_pipeline)

cdef void conn_yield(Conn* c) noexcept nogil:
    # It has more that is large; others come first.
    turn_wait_more(c)
    conn_pause(c)

cdef void conn_consume(Conn* c, const char* data, size_t n) noexcept nogil:
    # Takes requests from the bytes as far as they go and keeps what is left of an incomplete one.
    cdef size_t used
    while n and c.mode != READ_NOTHING:
        if conn_holds_back(c):
            break
        if c.mode == READ_HEAD:
            used = conn_take_head(c, data, n)
            if used == 0:
                break
        elif c.mode == READ_FRAMES:
            used = service.heard(c, data, n)
            if used == 0:
                break
        elif c.mode == READ_CHUNKED:
            used = conn_take_chunks(c, data, n)
        else:
            used = conn_take_body(c, data, n)
        if c.state == CONN_CLOSING:
            return
        data += used
        n -= used
        if n and (c.mode == READ_HEAD or c.mode == READ_FRAMES) and turn_over(c.worker):
            turn_wait(c)
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
        conn_account(c)
    conn_settle(c)

cdef size_t conn_take_head(Conn* c, const char* data, size_t n) noexcept nogil:
    # Bytes used; 0 when the head is not complete.
    cdef Worker* w = c.worker
    cdef Head h
    cdef Request* r
    cdef int outcome = head_parse(data, n, &w.limits, &h)
    cdef char* body
    if outcome == 0:
        return 0
    if outcome < 0:
        conn_refuse(c, h.status, h.reason)
        return n
    r = request_open(w, c)
    if r == NULL or not request_take(r, &h):
        if r != NULL:
            request_close(r)
        conn_refuse(c, 503, b"Out of memory")
        return n
    c.large = h.length >= INPUT_LARGE
    c.most = w.limits.max_body
    if h.chunked or h.length > w.settings.max_control or h.length > w.settings.max_open:
        c.most = body_most(w, r)
        if h.length > c.most:
            request_close(r)
            conn_refuse(c, 413, b"The request body is too large")
            return n
    if service.guarded and (c.large or h.chunked):
        outcome = 1 if c.admitted else service.early(r)
        c.admitted = False
        if outcome <= 0:
            conn_owe(c, r)
            r.started_us = clock_mono_us()
            r.keep_alive = False
            c.ended = True
        if outcome < 0:
            c.mode = READ_NOTHING
            service.refuse(r)
            return n
        if outcome == 0:
            c.mode = READ_LATER
            r.early = True
            service.verify(r, True)
            return 0
    if not h.chunked and h.length == 0:
        c.reading = r
        conn_complete(c)
        return h.size
    if not h.chunked:
        body = <char*>arena_alloc(&r.arena, <size_t>h.length + BODY_PADDING)
        if body == NULL:
            request_close(r)
            conn_refuse(c, 503, b"Out of memory")
            return n
        memset(body + h.length, 0, BODY_PADDING)
        r.body = slice_of(body, <size_t>h.length)
        c.body_got = 0
        c.mode = READ_FIXED
    else:
        c.chunked = <Chunked*>malloc(sizeof(Chunked))
        if c.chunked == NULL:
            request_close(r)
            conn_refuse(c, 503, b"Out of memory")
            return n
        chunked_open(c.chunked)
        c.mode = READ_CHUNKED
    c.reading = r
    if h.expects and not h.http10 and n == h.size:
        c.owes_continue = True
        conn_dirty(c)
    return h.size

cdef size_t conn_take_body(Conn* c, const char* data, size_t n) noexcept nogil:
    cdef Request* r = c.reading
    cdef size_t k = r.body.n - c.body_got
    if k > n:
        k = n
    memcpy(<char*>r.body.p + c.body_got, data, k)
    c.body_got += k
    if c.body_got == r.body.n:
        conn_complete(c)
    return k

cdef size_t conn_take_chunks(Conn* c, const char* data, size_t n) noexcept nogil:
    # The decoded bytes gather in the answer's buffer, which is not needed yet, and move to the arena when complete.
    cdef Request* r = c.reading
    cdef size_t used = 0
    cdef char* body
    cdef int outcome = chunked_feed(c.chunked, data, n, &used, c.most, &r.out)
    if c.state == CONN_BODY:
        conn_move(c, CONN_BODY)
    if outcome < 0 or r.out.failed:
        c.reading = NULL
        request_close(r)
        if outcome < 0:
            conn_refuse(c, c.chunked.status, c.chunked.reason)
        else:
            conn_refuse(c, 503, b"Out of memory")
        return n
    if outcome == 0:
        return n
    if r.out.cap > OUT_KEEP:
        # not held twice, nor copied
        body = r.out.data if buf_room(&r.out, BODY_PADDING) and arena_adopt(&r.arena, r.out.data, r.out.cap) else NULL
    else:
        body = <char*>arena_alloc(&r.arena, r.out.len + BODY_PADDING)
        if body != NULL:
            memcpy(body, r.out.data, r.out.len)
    if body == NULL:
        c.reading = NULL
        request_close(r)
        conn_refuse(c, 503, b"Out of memory")
        return n
    memset(body + r.out.len, 0, BODY_PADDING)
    r.body = slice_of(body, r.out.len)
    if body == r.out.data:
        buf_init(&r.out)
    else:
        buf_clear(&r.out)
    conn_complete(c)
    return used

cdef void conn_complete(Conn* c) noexcept nogil:
    # The request that was being read is whole: it joins those that are owed an answer and goes to the engine.
    cdef Request* r = c.reading
    cdef Worker* w = c.worker
    c.reading = NULL
    if c.asked < 2:
        c.asked += 1
    c.owes_continue = False
    free(c.chunked)
    c.chunked = NULL
    c.mode = READ_HEAD
    c.pace.running = False
    conn_owe(c, r)
    if not r.keep_alive:
        c.mode = READ_NOTHING
        c.ended = True
    r.started_us = clock_mono_us()
    w.taken_us = r.started_us
    if w.turn_us == 0:
        w.turn_us = w.taken_us
    if r.method == METHOD_OPTIONS:
        reply_options(r)
    else:
        service.request(w, r)

cdef void conn_again(Conn* c, Request* r) noexcept nogil:
    # The token of the last request owed, whose body was not read, is verified: its bytes are read once more, from the
    # head on.
    cdef Request** at = &c.first
    c.last = NULL
    while at[0] != r:
        c.last = at[0]
        at = &at[0].next
    at[0] = NULL
    c.owed -= 1
    c.ended = False
    c.admitted = True
    c.mode = READ_NOTHING if c.read_out else READ_HEAD
    request_close(r)
    conn_dirty(c)

cdef inline void conn_owe(Conn* c, Request* r) noexcept nogil:
    r.next = NULL
    if c.last != NULL:
        c.last.next = r
    else:
        c.first = r
    c.last = r
    c.owed += 1

cdef void conn_refuse(Conn* c, int status, const char* reason) noexcept nogil:
    # What came is no request: one answer in its turn, then the end.
    cdef Request* r = request_open(c.worker, c)
    conn_let_go(c)
    free(c.chunked)
    c.chunked = NULL
    c.mode = READ_NOTHING
    c.ended = True
    c.owes_continue = False
    if r == NULL:
        conn_close(c)
        return
    r.started_us = clock_mono_us()
    conn_owe(c, r)
    reply_error(r, status, reason)

cdef bint request_take(Request* r, const Head* h) noexcept nogil:
    # Copies what outlives the read buffer: target and header lines, which lie side by side.
    cdef Slice whole
    cdef ptrdiff_t move
    whole = slice_of(h.target.p, h.headers.p + h.headers.n - h.target.p)
    whole = arena_copy(&r.arena, whole)
    if whole.p == NULL:
        return False
    move = whole.p - h.target.p
    r.method = h.method
    r.target = h.target
    r.path = h.path
    r.query = h.query
    r.headers_raw = h.headers
    r.authority = h.authority
    r.target.p += move
    r.path.p += move
    r.query.p += move
    r.headers_raw.p += move
    if r.authority.p != NULL:
        r.authority.p += move
    r.http10 = h.http10
    r.asks = h.asks
    r.arena.picky = h.asks & ASK_STRICT != 0
    r.keep_alive = h.keep_alive
    r.body = slice_of(whole.p + whole.n, 0)
    return True

cdef void conn_name(Conn* c, char* out, size_t size) noexcept nogil:
    # `address:port` of the client, NUL-terminated; empty when it has left.
    cdef sockaddr_storage address
    cdef char[48] text
    cdef int n = sizeof(address)
    out[0] = 0
    if (c == NULL or uv_tcp_getpeername(&c.tcp, <sockaddr*>&address, &n) != 0
            or uv_ip_name(<sockaddr*>&address, text, sizeof(text)) != 0):
        return
    if address.ss_family == AF_INET6:
        snprintf(out, size, b"[%s]:%d", text, <int>ntohs((<sockaddr_in6*>&address).sin6_port))
    else:
        snprintf(out, size, b"%s:%d", text, <int>ntohs((<sockaddr_in*>&address).sin_port))
