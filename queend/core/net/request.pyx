# Takes requests out of a connection's bytes: a head, then its body as announced or in chunks. In: bytes
# (net/connection). Out: complete requests, to `service`, in the order of their answers; or a refusal, after which no
# more is taken. Owns Request until it is answered, even after its client has left (conn is NULL then). All runs on the
# worker's thread, without locks.

cdef Request* request_open(Worker* w, Conn* c) noexcept nogil:
    # Returns a new request, NULL if memory ran out.
    cdef RequestPool* pool = &w.requests
    cdef Request* r = pool.free_list
    if r != NULL:
        pool.free_list = r.next
        pool.kept -= 1
    else:
        r = <Request*>malloc(sizeof(Request))
        if r == NULL:
            return NULL
    memset(r, 0, sizeof(Request))
    r.conn = c
    r.worker = w
    r.op = OP_OTHER
    arena_open(&r.arena, &w.chunks)
    w.counters.live_requests += 1
    return r

cdef void request_detach(Request* r) noexcept nogil:
    # Separates the request from its connection, if it has one, with what it counts for there.
    if r.conn == NULL:
        return
    r.conn.held -= r.held
    r.conn.address.held -= r.held
    r.worker.held_gone += r.held
    budget_set_share(&r.arriving_share, &r.conn.address.client.arriving, 0)
    if r.queued:
        r.conn.address.jobs -= 1
        r.worker.jobs_gone += 1
    r.conn = NULL

cdef void request_leave(Request* r) noexcept nogil:
    # Takes the request from its connection, if it has one, into the list of those without a client. It goes on.
    cdef Worker* w = r.worker
    request_detach(r)
    r.clientless = True
    link_put(<void**>&w.clientless, r, <void**>&r.before)

cdef void request_forsake(Request* r) noexcept nogil:
    # Parts the request from its client, which has left. An answer that was not sent is given back; a request without an
    # answer goes on.
    if not r.replied:
        request_leave(r)
        if r.on_gone != NULL:
            r.on_gone(r)      # may answer and thereby free the request
        return
    request_detach(r)
    if r.on_unsent != NULL:
        r.on_unsent(r)
    request_close(r)

cdef void request_settle(Request* r) noexcept nogil:
    # Gives back the place of the request's body in the budget of what arrives.
    budget_give(r.arriving)
    r.arriving = 0
    if r.conn != NULL:        # else request_detach has
        budget_set_share(&r.arriving_share, &r.conn.address.client.arriving, 0)

cdef void request_shed(Request* r) noexcept nogil:
    # Gives back all memory of an answered request but its answer, which waits behind answers still owed. Drops its pin
    # (base/epoch), which would keep deleted entries for as long.
    epoch_unpin(r.worker.pins, r.pin)
    r.pin = 0
    if r.arriving:
        request_settle(r)
    if r.held:
        held_drop(r)
    arena_close(&r.arena)

cdef void request_close(Request* r) noexcept nogil:
    cdef Worker* w = r.worker
    if r.clientless:
        link_take(<void**>&w.clientless, r, <void**>&r.before)
    if r.charged:
        budget_add_unsent(w, r.conn, -r.charged)
    request_shed(r)
    w.counters.live_requests -= 1
    reply_out_whole(r)
    if r.out.cap > OUT_KEEP or w.requests.outs_kept == OUTS_KEEP:
        arena_free_block(&w.chunks, r.out.data, r.out.cap)
        buf_init(&r.out)
    elif r.out.data != NULL:
        buf_clear(&r.out)
        w.requests.outs[w.requests.outs_kept] = r.out
        w.requests.outs_kept += 1
    if w.requests.kept < REQUESTS_KEEP:
        r.next = w.requests.free_list
        w.requests.free_list = r
        w.requests.kept += 1
    else:
        free(r)

cdef void request_pool_close(RequestPool* pool) noexcept nogil:
    cdef Request* r
    while pool.free_list != NULL:
        r = pool.free_list
        pool.free_list = r.next
        free(r)
    pool.kept = 0
    while pool.outs_kept:
        pool.outs_kept -= 1
        buf_free(&pool.outs[pool.outs_kept])

# ---- from bytes to a request -----------------------------------------------------------------------------------------

cdef size_t request_take_head(Conn* c, const char* data, size_t n) noexcept nogil:
    # Takes a request's head and what has come of its body. Returns the bytes used, 0 if the head is incomplete.
    cdef Worker* w = c.worker
    cdef Head h
    cdef Request* r
    cdef int outcome = head_parse(data, n, &w.limits, &h)
    cdef char* body
    if outcome == PARSED_SHORT:
        return 0
    if outcome == PARSED_REFUSED:
        conn_refuse(c, h.status, h.reason)
        return n
    if held_waits(c, h.length):
        held_wait(c, NULL)
        return 0
    r = request_open(w, c)
    if r == NULL or not request_fill(r, &h):
        if r != NULL:
            request_close(r)
        conn_refuse(c, 503, b"Out of memory")
        return n
    if h.status:
        conn_refuse_request(c, r, h.status, h.reason)
        return n
    c.large = h.length >= INPUT_LARGE
    c.most = w.limits.max_body
    if h.chunked or h.coding or h.length > w.settings.max_control or h.length > w.settings.max_open:
        c.most = budget_body_most(w, r)
        if h.length > c.most:
            conn_refuse_request(c, r, 413, b"The request body is too large")
            return n
    if service.guarded and (c.large or h.chunked or h.coding and h.length):
        outcome = service.early(r)
        if c.admitted and outcome == EARLY_VERIFY:
            outcome = EARLY_PASSED        # its grant was removed meanwhile to make room for others
        c.admitted = False
        if outcome != EARLY_PASSED:
            conn_owe(c, r)
            r.started_us = clock_mono_us()
            r.keep_alive = False
            c.ended = True
        if outcome == EARLY_REFUSED:
            c.mode = READ_NOTHING
            service.refuse(r)
            return n
        if outcome == EARLY_VERIFY:
            c.mode = READ_LATER
            r.early = True
            service.verify(r, True)
            return 0
    c.reading = r
    if not h.chunked and h.length == 0:
        request_complete(c)
        return h.size
    if not h.chunked:
        body = <char*>arena_alloc(&r.arena, <size_t>h.length + BODY_PADDING)
        if body == NULL:
            conn_refuse(c, 503, b"Out of memory")
            return n
        memset(body + h.length, 0, BODY_PADDING)
        r.body = slice_of(body, <size_t>h.length)
        c.body_got = 0
        c.mode = READ_FIXED
    else:
        c.chunked = <Chunked*>malloc(sizeof(Chunked))
        if c.chunked == NULL:
            conn_refuse(c, 503, b"Out of memory")
            return n
        chunked_open(c.chunked)
        c.mode = READ_CHUNKED
    if n > h.size and not h.chunked:
        return h.size + request_take_body(c, data + h.size, n - h.size)
    if h.expects and not h.http10 and n == h.size:
        c.owes_continue = True
        conn_dirty(c)
    return h.size

cdef size_t request_take_body(Conn* c, const char* data, size_t n) noexcept nogil:
    cdef Request* r = c.reading
    cdef size_t k = r.body.n - c.body_got
    if k > n:
        k = n
    memcpy(<char*>r.body.p + c.body_got, data, k)
    c.body_got += k
    if c.body_got == r.body.n:
        request_complete(c)
    return k

cdef size_t request_take_chunks(Conn* c, const char* data, size_t n) noexcept nogil:
    # Decodes chunks into the answer's buffer, which is free until then. A complete body moves to the arena.
    cdef Request* r = c.reading
    cdef size_t used = 0
    cdef char* body
    cdef int outcome = chunked_feed(c.chunked, data, n, &used, c.most, &r.out)
    if c.state == CONN_BODY:
        conn_move(c, CONN_BODY)
    if outcome == PARSED_REFUSED:
        conn_refuse(c, c.chunked.status, c.chunked.reason)
        return n
    if r.out.failed:
        conn_refuse(c, 503, b"Out of memory")
        return n
    if outcome == PARSED_SHORT:
        return n
    if r.out.cap > OUT_KEEP:
        # adopted: neither held twice nor copied
        body = r.out.data if buf_room(&r.out, BODY_PADDING) and arena_adopt(&r.arena, r.out.data, r.out.cap) else NULL
    else:
        body = <char*>arena_alloc(&r.arena, r.out.len + BODY_PADDING)
        if body != NULL:
            memcpy(body, r.out.data, r.out.len)
    if body == NULL:
        conn_refuse(c, 503, b"Out of memory")
        return n
    memset(body + r.out.len, 0, BODY_PADDING)
    r.body = slice_of(body, r.out.len)
    if body == r.out.data:
        buf_init(&r.out)
    else:
        buf_clear(&r.out)
    request_complete(c)
    return used

cdef void request_complete(Conn* c) noexcept nogil:
    # Completes the request that was being read: it joins those that are owed an answer and goes to the engine.
    cdef Request* r = c.reading
    cdef Worker* w = c.worker
    c.reading = NULL
    if c.asked < ASKED_MANY:
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
    worker_taken(w, r.started_us)
    if r.method == METHOD_OPTIONS:
        reply_options(r)
    elif r.coding:
        unpack_begin(w, r, c.most)
    else:
        held_take(c, r)

cdef void request_reread(Conn* c, Request* r) noexcept nogil:
    # Reads the last request owed once more, from its head on: its token is verified now, its body was not read.
    cdef Request** at = &c.first
    c.last = NULL
    while at[0] != r:
        c.last = at[0]
        at = &at[0].next
    at[0] = NULL
    c.owed -= 1
    c.ended = False
    c.admitted = True
    c.mode = READ_HEAD
    request_close(r)
    conn_dirty(c)

cdef const HotRoute* request_route(int method, Slice path) noexcept nogil:
    # Returns the hot route of a path, NULL if the control plane answers it.
    cdef int i
    for i in range(n_hot_routes):
        if hot_routes[i].methods >> method & 1 and request_route_fits(&hot_routes[i], path):
            return &hot_routes[i]
    return NULL

cdef inline bint request_route_fits(const HotRoute* t, Slice path) noexcept nogil:
    cdef const char* at = t.path + t.fixed
    cdef const char* p = path.p + t.fixed
    cdef const char* end = path.p + path.n
    cdef const char* begin
    if path.n < t.fixed or memcmp(path.p, t.path, t.fixed) != 0:
        return False
    while at[0]:
        if at[0] != b':':
            if p == end or p[0] != at[0]:
                return False
            p += 1
            at += 1
            continue
        begin = p
        while p < end and p[0] != b'/':
            p += 1
        while at[0] and at[0] != b'/' and at[0] != b'?' and at[0] != b'*':
            at += 1
        if at[0] == b'*':
            return begin < end
        if at[0] == b'?':
            at += 1
        elif p == begin:
            return False
    return p == end

cdef bint request_fill(Request* r, const Head* h) noexcept nogil:
    # Copies target and header lines, which lie side by side, because they outlive the read buffer.
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
    r.route = request_route(r.method, r.path)
    r.http10 = h.http10
    r.asks = h.asks
    r.coding = h.coding
    r.arena.strict = h.asks & ASK_STRICT != 0
    r.keep_alive = h.keep_alive
    r.body = slice_of(whole.p + whole.n, 0)
    return r.conn.tls == NULL or tls_name_request(r)
