# The grant of a stream. A stream ends with its token. When the table of grants is cleared (a key or a setting changed),
# the token is verified again, and messages and frames wait until then. In: the grant of the stream.
# Out: a new grant, or the last event. Owns the request that verifies the token. Owner: the stream's worker.

cdef enum:
    FEEDGRANT_PATIENCE_US = 5000000     # a stream ends if its token could not be verified for this long

cdef const char* FEEDGRANT_TICKET = (b'{"error":"Keys or settings of tokens changed, and a ticket is good for one '
                                     b'request: ask for another ticket"}')

cdef HotRoute FEEDGRANT_ROUTE
FEEDGRANT_ROUTE.name = b"stream"
FEEDGRANT_ROUTE.level = GRANT_WRITE
FEEDGRANT_ROUTE.submit = feedgrant_take

cdef int64_t feedgrant_until(Request* r, int64_t wrote_us, int beat_s) noexcept nogil:
    # Returns the moment of the next check of the stream (monotonic): its next heartbeat, or the end of its token.
    cdef int64_t due = wrote_us + beat_s * <int64_t>1000000
    return gate_until(r, due) if r.grant != NULL else due

cdef bint feedgrant_ended(Feed* f) noexcept nogil:
    # Ends the stream if its token has expired. Returns True if it has.
    if f.r.grant == NULL or f.r.grant.expires_us > clock_wall_us():
        return False
    feed_last(f, b"token expired", slice_of(NULL, 0))
    conn_dirty(f.r.conn)
    return True

cdef bint feedgrant_holds(Feed* f) noexcept nogil:
    # Returns True while the token of the stream is verified again: nothing may be delivered. Begins the verification,
    # or ends a stream whose token has expired.
    if f.last or feedgrant_ended(f) or not req_grant_stale(f.r.grant):
        return False
    if f.check == NULL and clock_mono_us() >= f.pause_until:
        feedgrant_ask(f)
    return req_grant_stale(f.r.grant)

cdef void feedgrant_ask(Feed* f) noexcept nogil:
    # Sends a request with the headers of the stream through the gate.
    cdef Request* r = f.r
    cdef Request* q
    cdef int64_t now = clock_mono_us()
    if gate_token(r).p == NULL:
        feed_last(f, b"refused", slice_lit(FEEDGRANT_TICKET))
        return
    q = request_open(f.worker, r.conn)
    if q == NULL:
        feed_pause(f, now)
        return
    q.feed = f
    q.route = &FEEDGRANT_ROUTE
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

cdef void feedgrant_take(Worker* w, Request* q, int route) noexcept nogil:
    # Gives the stream the grant that the gate found.
    cdef Feed* f = q.feed
    cdef Grant* copy
    if not gate_pops(q, f.req.queue, f.req.group):
        gate_refuse_pop(q, f.req.queue, f.req.group)
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

cdef void feedgrant_answered(Feed* f, Request* q) noexcept nogil:
    # Ends the verification of the token: the stream goes on, is refused, or asks again after FEED_PAUSE_US.
    cdef int64_t now = clock_mono_us()
    f.check = NULL
    if q.status < 400:
        f.check_since = 0
    elif q.status == 503 and now - f.check_since < FEEDGRANT_PATIENCE_US:
        feed_pause(f, now)
    else:
        feed_last(f, b"refused", slice_of(q.out.data, q.out.len))
    request_close(q)
    conn_dirty(f.r.conn)
