# A feed: one request that is answered with messages until its client leaves. In: a request; answers of pops; ends of
# leases. Out: messages, heartbeats. It makes one pop after another; each waits for messages like a client's pop. The
# next pop waits while the credit is used up, or while the client has not taken its messages. Owns the feed, and the
# internal requests made for it. Owner: the request's worker. Locks: book.lock.

cdef enum:
    # a pop waits this long, and up to half as long again: memory of deleted entries is not held for ever
    FEED_POP_MS = 20000
    FEED_PAUSE_US = 1000000   # after a failure
    FEED_RETRY_MS = 2000      # reconnection delay for the client
    FEED_ENDLESS = <int64_t>1 << 40     # credit if it is not counted
    FEED_UNSENT = 131072      # bytes of a stream that may wait in the kernel to be sent
    FEED_SILENCES = 3         # a connection counts as dead after this many unanswered heartbeats

# ---- begin -----------------------------------------------------------------------------------------------------------

cdef void feed_submit(Worker* w, Request* r, int route) noexcept nogil:
    cdef Engine* e = engine_of(w)
    cdef Conn* c = r.conn
    cdef Feed* f
    cdef ApiError err
    if c == NULL:
        reply_empty(r)   # the client left meanwhile
        return
    f = <Feed*>calloc(1, sizeof(Feed))
    if f == NULL:
        reply_error(r, 503, b"Out of memory")
        return
    err.status = 0
    if popquery_feed(route, r.path, r.query, &r.arena, e.settings, &f.req, &f.ask, &err):
        if not gate_pops(r, f.req.queue, f.req.group):
            gate_refuse(r, b"pop", f.req.queue, f.req.group)
            free(f)
            return
        if r.next != NULL or c.reading != NULL:
            refuse_set(&err, 400, b"Nothing may follow the request for a stream on its connection")
        elif atomic_get64(&jobs_long_polls) >= w.settings.max_parked:
            w.counters.not_parked += 1
            refuse_set(&err, 503, b"Too many pops are waiting; try again")
    if err.status == 0 and websocket_wanted(r):
        f.req.feed = FEED_SOCKET
        websocket_check(r, f.accept, &err)
    if err.status == 0 and not heap_add(&e.beats, &f.beat, feed_grant_until(r, clock_mono_us(), f.ask.beat_s)):
        refuse_memory(&err)
    if err.status:
        free(f)
        reply_error(r, err.status, err.text)
        return
    f.beat.owner = f
    f.msg.run = feed_credited
    f.worker = w
    f.r = r
    if f.req.feed == FEED_NONE:
        f.req.feed = FEED_PLAIN if r.http10 else FEED_CHUNKS
    elif not f.ask.release_given:
        f.ask.release = True  # the stream is the only place to acknowledge its messages, so their leases end with it
    if f.req.auto_ack and (f.req.feed != FEED_SOCKET or f.ask.credit == 0):
        f.granted = FEED_ENDLESS
    else:
        f.granted = f.ask.credit if f.ask.credit else max(FEED_CREDIT, f.req.batch)
    r.job = f
    r.on_gone = feed_client_gone
    r.on_end = feed_eof
    w.counters.streams_begun += 1
    w.counters.live_streams += 1
    feed_attach(f, c)

cdef void feed_attach(Feed* f, Conn* c) noexcept nogil:
    # Takes over the connection: no further request may follow on it.
    cdef int silent_ms = FEED_SILENCES * f.ask.beat_s * 1000
    cdef int unsent = FEED_UNSENT
    f.r.keep_alive = False
    c.feed = f
    c.ended = True
    c.mode = READ_FRAMES if f.req.feed == FEED_SOCKET else READ_NOTHING
    conn_drop(c)
    held_drop(f.r)            # streams have their own bound
    # a client that was cut off does not answer; the kernel would retry for 15 minutes
    setsockopt(conn_fd(c), IPPROTO_TCP, TCP_USER_TIMEOUT, &silent_ms, sizeof(silent_ms))
    # what a client does not read stays with its group for other consumers, instead of filling the kernel's memory
    setsockopt(conn_fd(c), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent))
    conn_dirty(c)

cdef void feed_begin(Feed* f) noexcept nogil:
    # Writes the head, once all earlier answers are written.
    cdef Buf* b
    cdef char[40] text
    f.begun = True
    if f.req.feed == FEED_SOCKET:
        websocket_begin(f)
        return
    b = reply_head(f.r, 200)
    buf_text(b, b"Content-Type: text/event-stream\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\n"
                b"Connection: close\r\n")
    if origin_rules.origins[0]:
        origin_headers(f.r)
    if f.req.feed == FEED_CHUNKS:
        buf_text(b, b"Transfer-Encoding: chunked\r\n")
    buf_put(b, b"\r\n", 2)
    snprintf(text, sizeof(text), b"retry: %d\n\n", FEED_RETRY_MS)
    popreply_feed_text(b, f.req.feed, text)

# ---- messages ------------------------------------------------------------------------------------------------------

cdef bint feed_flow(Conn* c) noexcept nogil:
    # Writes gathered messages and asks for more. Returns False if the connection is broken.
    cdef Feed* f = c.feed
    cdef Request* q = f.answer
    cdef bint held
    if not f.begun:
        feed_begin(f)
    if f.frame_refused:
        websocket_close(f, SOCKET_LATER, ARRIVING_TEXT)
    held = feed_grant_holds(f)
    if f.r.out.len or f.r.out.failed:
        if not output_write_part(c, &f.r.out):
            return False
        buf_free(&f.r.out)
        f.wrote_us = clock_mono_us()
    if q != NULL and not held and not f.last:
        if not output_write_part(c, &q.out):
            return False      # the answer is given back with the rest
        f.answer = NULL
        f.wrote_us = clock_mono_us()
        request_close(q)
    if f.last:
        feed_end(f, b"")
    elif engine_of(f.worker).stopping:
        feed_end(f, b"shutdown")
    elif c.half:
        feed_end(f, b"closed")
    elif not held:
        feed_next(f, c)
    return True

cdef void feed_next(Feed* f, Conn* c) noexcept nogil:
    cdef Engine* e = engine_of(f.worker)
    cdef Request* q
    cdef PopJob* j
    cdef int64_t left = f.granted - f.used
    cdef int64_t now
    if f.pop != NULL or c.out_pending or left < feed_min_credit(f):
        return
    now = clock_mono_us()
    if now < f.pause_until:
        return
    if budget_unsent_full(c, 1) or job_full(e, c):
        feed_pause(f, now)
        return
    q = request_open(f.worker, c)
    j = <PopJob*>arena_zero(&q.arena, sizeof(PopJob)) if q != NULL else NULL
    if j == NULL or not feed_ask(f, q, j):
        if q != NULL:
            request_close(q)
        feed_pause(f, now)
        return
    if left < j.req.batch:
        j.req.batch = <int>left
    q.feed = f
    q.grant = f.r.grant
    q.method = METHOD_GET
    q.started_us = now
    f.pop = q
    pop_begin(f.worker, q, j)

cdef bint feed_ask(Feed* f, Request* q, PopJob* j) noexcept nogil:
    # Fills in the next pop, with its names copied, as it may outlive the feed. Returns False if memory ran out.
    j.req = f.req
    j.req.queue = arena_copy(&q.arena, f.req.queue)
    j.req.group = arena_copy(&q.arena, f.req.group)
    j.req.partition = arena_copy(&q.arena, f.req.partition)
    j.req.timeout_ms = FEED_POP_MS + <int>(slice_mix(<uint64_t><uintptr_t>q) % (FEED_POP_MS // 2))
    return j.req.queue.p != NULL and j.req.group.p != NULL and j.req.partition.p != NULL

cdef void feed_answered(Request* q) noexcept nogil:
    # Takes the answer to an internal request of a feed.
    cdef Feed* f = q.feed
    if q is f.check:
        feed_grant_answered(f, q)
        return
    if q is not f.pop:
        websocket_answered(f, q)
        conn_dirty(f.r.conn)
        return
    f.pop = NULL
    if q.on_unsent != NULL:
        f.answer = q
        feed_charge(f, <PopJob*>q.job)
    else:
        if q.status == 503:
            feed_pause(f, clock_mono_us())
        elif q.status >= 400:
            feed_last(f, b"refused", slice_of(q.out.data, q.out.len))
        request_close(q)
    conn_dirty(f.r.conn)

# ---- credit ----------------------------------------------------------------------------------------------------------
# Credit is the number of messages that the client may have unacknowledged, less those under valid leases. Messages of a
# lease that this process does not remember count with another lease of the same answer.

cdef inline int feed_min_credit(Feed* f) noexcept nogil:
    # Returns the least credit for a pop: windows are not cut to fit the credit.
    return f.ask.window if f.ask.window else 1

cdef inline bint feed_full(Feed* f) noexcept nogil:
    return f.granted - f.used < feed_min_credit(f)

cdef void feed_charge(Feed* f, PopJob* j) noexcept nogil:
    # Counts the messages of an answer against the credit, under their leases.
    cdef int left = j.n_messages
    cdef int i
    cdef Unacked* h
    cdef Cursor* c
    f.worker.counters.streamed += left
    if j.req.auto_ack:
        f.used += left if f.req.feed == FEED_SOCKET else 0
        return
    f.used += left
    uv_mutex_lock(&book.lock)
    for i in range(j.n_claims):
        c = j.claims[i].cursor
        h = <Unacked*>table_get(&unacked.table, unacked_key(c)) if c.state == CURSOR_LEASED else NULL
        if h != NULL and memcmp(h.lease, j.lease, 16) == 0 and unacked_feed_begin(f, c, j.lease, min(left, h.n)):
            left -= c.fed.n
    if left:
        feed_charge_rest(f, j, left)
    f.full = feed_full(f)
    uv_mutex_unlock(&book.lock)

cdef void feed_charge_rest(Feed* f, PopJob* j, int left) noexcept nogil:
    # Adds messages of unremembered leases to the first lease of the answer that is remembered. Requires book.lock.
    cdef Cursor* c
    cdef int i
    for i in range(j.n_claims):
        c = j.claims[i].cursor
        if c.state == CURSOR_LEASED and c.fed != NULL and c.fed.feed is f:
            c.fed.n += left
            return
    for i in range(j.n_claims):
        c = j.claims[i].cursor
        if c.state == CURSOR_LEASED and c.fed == NULL and unacked_feed_begin(f, c, j.lease, left):
            return
    f.used -= left            # its lease has ended already

cdef void feed_credited(Worker* w, InboxMsg* m) noexcept nogil:
    # Handles ended leases; frees a feed that was closed meanwhile.
    cdef Feed* f = <Feed*>m
    cdef bint closed
    uv_mutex_lock(&book.lock)
    f.used -= f.returned
    f.returned = 0
    f.full = feed_full(f)
    f.posted = False
    closed = f.closed
    uv_mutex_unlock(&book.lock)
    if closed:
        free(f)
    else:
        conn_dirty(f.r.conn)

# ---- the token -------------------------------------------------------------------------------------------------------
# A stream ends with its token. When the table of grants is cleared (a key or a setting changed), the token is verified
# again, and messages and frames wait until then.

cdef enum:
    FEED_GRANT_PATIENCE_US = 5000000     # a stream ends if its token could not be verified for this long

cdef const char* FEED_GRANT_TICKET = (b'{"error":"Keys or settings of tokens changed, and a ticket is good for one '
                                     b'request: ask for another ticket"}')

cdef HotRoute FEED_GRANT_ROUTE
FEED_GRANT_ROUTE.name = b"stream"
FEED_GRANT_ROUTE.level = GRANT_WRITE
FEED_GRANT_ROUTE.submit = feed_grant_take

cdef int64_t feed_grant_until(Request* r, int64_t wrote_us, int beat_s) noexcept nogil:
    # Returns the moment of the next check of the stream (monotonic): its next heartbeat, or the end of its token.
    cdef int64_t due = wrote_us + beat_s * <int64_t>1000000
    return gate_until(r, due) if r.grant != NULL else due

cdef bint feed_grant_ended(Feed* f) noexcept nogil:
    # Ends the stream if its token has expired. Returns True if it has.
    if f.r.grant == NULL or f.r.grant.expires_us > clock_wall_us():
        return False
    feed_last(f, b"token expired", slice_of(NULL, 0))
    conn_dirty(f.r.conn)
    return True

cdef bint feed_grant_holds(Feed* f) noexcept nogil:
    # Returns True while the token of the stream is verified again: nothing may be delivered. Begins the verification,
    # or ends a stream whose token has expired.
    if f.last or feed_grant_ended(f) or not req_grant_stale(f.r.grant):
        return False
    if f.check == NULL and clock_mono_us() >= f.pause_until:
        feed_grant_ask(f)
    return req_grant_stale(f.r.grant)

cdef void feed_grant_ask(Feed* f) noexcept nogil:
    # Sends a request with the headers of the stream through the gate.
    cdef Request* r = f.r
    cdef Request* q
    cdef int64_t now = clock_mono_us()
    if gate_token(r).p == NULL:
        feed_last(f, b"refused", slice_lit(FEED_GRANT_TICKET))
        return
    q = request_open(f.worker, r.conn)
    if q == NULL:
        feed_pause(f, now)
        return
    q.feed = f
    q.route = &FEED_GRANT_ROUTE
    q.method = METHOD_GET
    q.started_us = now
    q.headers_raw = arena_copy(&q.arena, r.headers_raw)
    q.path = arena_copy(&q.arena, r.path)
    f.check = q
    if f.check_since == 0:
        f.check_since = now
    if q.headers_raw.p == NULL or q.path.p == NULL:
        reply_error(q, 503, b"Out of memory")
    else:
        service.request(f.worker, q)

cdef void feed_grant_take(Worker* w, Request* q, int route) noexcept nogil:
    # Gives the stream the grant that the gate found.
    cdef Feed* f = q.feed
    cdef Grant* copy
    if not gate_pops(q, f.req.queue, f.req.group):
        gate_refuse(q, b"pop", f.req.queue, f.req.group)
        return
    if q.grant.size <= f.r.grant.size:
        memcpy(f.r.grant, q.grant, q.grant.size)      # the stream's pop points to it as well
    else:
        copy = grant_copy(q.grant, &f.r.arena)
        if copy == NULL:
            reply_error(q, 503, b"Out of memory")
            return
        f.r.grant = copy
        if f.pop != NULL:
            f.pop.grant = copy
    reply_empty(q)

cdef void feed_grant_answered(Feed* f, Request* q) noexcept nogil:
    # Ends the verification of the token: the stream goes on, is refused, or asks again after FEED_PAUSE_US.
    cdef int64_t now = clock_mono_us()
    f.check = NULL
    if q.status < 400:
        f.check_since = 0
    elif q.status == 503 and now - f.check_since < FEED_GRANT_PATIENCE_US:
        feed_pause(f, now)
    else:
        feed_last(f, b"refused", slice_of(q.out.data, q.out.len))
    request_close(q)
    conn_dirty(f.r.conn)

# ---- heartbeats ----------------------------------------------------------------------------------------------------

cdef void feed_tick(Engine* e) noexcept nogil:
    # Sends due heartbeats. Called twice a second.
    cdef int64_t now = clock_mono_us()
    cdef HeapNode* top = heap_top(&e.beats)
    while top != NULL and top.at <= now:
        feed_beat(e, <Feed*>top.owner, now)
        top = heap_top(&e.beats)

cdef void feed_beat(Engine* e, Feed* f, int64_t now) noexcept nogil:
    cdef int64_t beat = f.ask.beat_s * <int64_t>1000000
    cdef int64_t due
    if f.begun and feed_dead(f, now, beat):
        conn_close(f.r.conn)
        return
    if f.parts_held and now >= f.parts_until:
        websocket_close(f, SOCKET_POLICY, b"A message in parts took longer than 30 s")
    if f.begun and not f.r.conn.out_pending and now - f.wrote_us >= beat:
        if f.req.feed == FEED_SOCKET:
            f.silences += 1
            websocket_put(&f.r.out, SOCKET_PING, b"", 0)
        else:
            popreply_feed_text(&f.r.out, f.req.feed, b":\n\n")
        f.wrote_us = now
    due = feed_grant_until(f.r, f.wrote_us, f.ask.beat_s)
    due = due if due > now else now + beat
    heap_add(&e.beats, &f.beat, min(due, f.parts_until) if f.parts_held and not f.last else due)
    conn_dirty(f.r.conn)

cdef bint feed_dead(Feed* f, int64_t now, int64_t beat) noexcept nogil:
    # Returns True if the client of a WebSocket is silent. Also if a frame or a record of TLS was incomplete at two
    # looks, one interval of heartbeats apart. A pause calls this earlier; such a call changes nothing.
    cdef bint half = f.half
    if now < f.half_due:
        return False
    f.half_due = now + beat
    f.half = conn_begun(f.r.conn) and not f.r.conn.paused
    return f.silences >= FEED_SILENCES or half and f.half

cdef inline void feed_pause(Feed* f, int64_t now) noexcept nogil:
    f.pause_until = now + FEED_PAUSE_US
    heap_add(&engine_of(f.worker).beats, &f.beat, f.pause_until)

# ---- end -----------------------------------------------------------------------------------------------------------

cdef void feed_last(Feed* f, const char* why, Slice error) noexcept nogil:
    # Writes the last event. error: an object with details; empty: no details.
    cdef Buf* b = &f.r.out
    cdef size_t at = b.len
    if f.last:
        return
    if f.req.feed == FEED_SOCKET:
        websocket_end(f, why, error)
        return
    f.last = True
    popreply_feed_chunk_open(b, f.req.feed)
    buf_text(b, b'event: end\ndata: {"reason":"')
    buf_text(b, why)
    buf_byte(b, b'"')
    if error.n > 2:
        buf_byte(b, b',')
        buf_put(b, error.p + 1, error.n - 2)
    buf_text(b, b"}\n\n")
    popreply_feed_chunk_close(b, f.req.feed, at)

cdef void feed_end(Feed* f, const char* why) noexcept nogil:
    # Ends the response and the feed.
    cdef Request* r = f.r
    if why[0]:
        feed_last(f, why, slice_of(NULL, 0))
    if f.req.feed == FEED_CHUNKS:
        buf_put(&r.out, b"0\r\n\r\n", 5)
    r.conn.feed = NULL
    r.on_gone = NULL
    r.on_end = NULL
    r.job = NULL
    r.replied = True
    feed_close(f)

cdef void feed_client_gone(Request* r) noexcept nogil:
    # Closes the feed of a client that left.
    feed_close(<Feed*>r.job)
    request_close(r)

cdef void feed_eof(Request* r) noexcept nogil:
    # Ends the feed of a client that ended its side: whether it still reads is unknown.
    conn_dirty(r.conn)

cdef void feed_close(Feed* f) noexcept nogil:
    # Closes the feed. Gives back undelivered messages, and also the delivered ones if the client asked for it
    # (release).
    cdef Engine* e = engine_of(f.worker)
    cdef Request* q
    cdef bint posted
    heap_del(&e.beats, &f.beat)
    f.worker.counters.live_streams -= 1
    if f.worker.requestlog.every:
        requestlog_note(f.r)
    feed_detach(f.pop)
    feed_detach(f.answer)
    feed_detach(f.check)
    while f.commands != NULL:
        q = f.commands
        f.commands = q.next
        q.feed = NULL         # the command is executed all the same
        request_leave(q)
    websocket_parts_drop(f)
    uv_mutex_lock(&book.lock)
    while f.out_last != NULL:     # claim_release_fed turns the order round: the oldest lease is given back first
        if f.ask.release and not e.closing and f.out_last.cursor.state == CURSOR_LEASED:
            claim_release_fed(e, f.out_last)
        unacked_feed_drop(f.out_last)
    posted = f.posted
    f.closed = True
    uv_mutex_unlock(&book.lock)
    if not posted:
        free(f)

cdef void feed_detach(Request* q) noexcept nogil:
    # Detaches an internal request from the feed, if q is not NULL; the request goes on alone.
    if q != NULL:
        q.feed = NULL
        q.grant = NULL
        request_forsake(q)

cdef void feed_check_all(Engine* e) noexcept nogil:
    # Lets each stream be checked when this turn of the loop ends: the drain began, or grants ended.
    cdef int i
    for i in range(e.beats.n):
        conn_dirty((<Feed*>e.beats.nodes[i + 1].owner).r.conn)
