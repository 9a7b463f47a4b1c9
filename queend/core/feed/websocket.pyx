# A stream over a WebSocket (RFC 6455). In: frames of the client. Out: answers and messages. Owns the requests made for
# it. A text message of the client is a request of an ordinary route, without HTTP. It is {"ack": <body of POST
# /api/v1/ack or /api/v1/ack/batch>}, {"extend": {"leaseId", "seconds"}}, {"credit": n}. Each may have a "ref" of the
# client, which the answer repeats. Owner: the stream's worker.

cdef enum:
    SOCKET_MOST = 256 << 10   # bytes of a message
    SOCKET_REF = 256          # bytes of a ref
    SOCKET_TIMED = 64         # frames after which the turn's clock is read
    SOCKET_PARTS_US = 30000000          # longest duration of a counted message in parts
    SOCKET_NORMAL = 1000      # close codes
    SOCKET_AWAY = 1001
    SOCKET_WRONG = 1002
    SOCKET_BINARY = 1003
    SOCKET_TEXT_BAD = 1007
    SOCKET_POLICY = 1008
    SOCKET_LARGE = 1009
    SOCKET_LATER = 1013
    SOCKET_FINAL = 0x80       # bits of a frame's first byte: last frame of a message
    SOCKET_RESERVED = 0x70
    SOCKET_OP = 0x0f
    SOCKET_MASKED = 0x80      # bits of a frame's second byte
    SOCKET_LENGTH = 0x7f
    SOCKET_OP_MORE = 0        # SOCKET_OP: a further part of a message
    SOCKET_OP_TEXT = 1
    SOCKET_OP_BINARY = 2
    SOCKET_OP_CLOSE = 8       # from here on frames of control
    SOCKET_OP_PING = 9
    SOCKET_OP_PONG = 10
    SOCKET_CLOSE = 0x88       # first bytes of frames that are sent
    SOCKET_PING = 0x89
    SOCKET_PONG = 0x8a

# ---- begin ---------------------------------------------------------------------------------------------------------

cdef bint websocket_wanted(Request* r) noexcept nogil:
    # Returns True if the request asks for a WebSocket.
    return slice_folds(header_value(r.headers_raw, b"upgrade"), b"websocket")

cdef void websocket_check(Request* r, char* accept, ApiError* e) noexcept nogil:
    # Writes the answer to the client's key to accept (28 characters and a NUL); sets e if the request is refused.
    cdef Slice key = header_value(r.headers_raw, b"sec-websocket-key")
    cdef unsigned char[64] text
    cdef unsigned char[24] digest
    if r.http10 or not header_lists(r.headers_raw, b"connection", b"upgrade"):
        refuse_set(e, 400, b"A WebSocket is asked for by HTTP/1.1 with Connection: Upgrade")
    elif not slice_is(header_value(r.headers_raw, b"sec-websocket-version"), b"13"):
        refuse_set(e, 426, b"Version 13 of the WebSocket protocol is known (RFC 6455)")
    elif key.n != 24 or EVP_DecodeBlock(text, <const unsigned char*>key.p, 24) < 0 or key.p[23] != b'=':
        refuse_set(e, 400, b"Sec-WebSocket-Key must be 16 bytes in base64")
    else:
        memcpy(text, key.p, 24)
        memcpy(text + 24, b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11", 36)
        SHA1(text, 60, digest)
        EVP_EncodeBlock(<unsigned char*>accept, digest, 20)

cdef void websocket_begin(Feed* f) noexcept nogil:
    cdef Buf* b = reply_head(f.r, 101)
    buf_text(b, b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ")
    buf_text(b, f.accept)
    if header_lists(f.r.headers_raw, b"sec-websocket-protocol", b"queend"):
        buf_text(b, b"\r\nSec-WebSocket-Protocol: queend")       # never the subprotocol that carries a token
    buf_text(b, b"\r\n\r\n")

# ---- frames that come in ---------------------------------------------------------------------------------------------

cdef size_t websocket_receive(Conn* c, const char* data, size_t n) noexcept nogil:
    # Reads the frame at the begin of the bytes. Returns its size, 0 if it is incomplete. After the last frame all input
    # is discarded.
    cdef Feed* f = c.feed
    cdef const unsigned char* p = <const unsigned char*>data
    cdef size_t at = 2
    cdef size_t i
    cdef uint64_t length
    cdef int code
    if f == NULL or f.last:
        return n
    f.want = n + 1
    if n < 2:
        return 0
    length = p[1] & SOCKET_LENGTH
    if length > SOCKET_SHORT:
        at = 4 if length == SOCKET_LENGTH_2 else 10
        if n < at:
            return 0
        length = 0
        for i in range(2, at):
            length = length << 8 | p[i]
    code = websocket_check_frame(f, p[0], p[1], length)
    if code:
        websocket_close(f, code, b"")
        return n
    at += 4
    if n < at + length:
        f.want = at + <size_t>length
        return 0
    if held_waits(c, <int64_t>(length + f.parts.len)):
        held_wait(c, NULL)
        return 0
    c.has_room = False
    for i in range(<size_t>length):
        (<char*>data)[at + i] ^= data[at - 4 + (i & 3)]
    f.silences = 0
    f.half = False
    f.frames += 1
    if f.frames % SOCKET_TIMED == 0:
        worker_taken(f.worker, clock_mono_us())
    websocket_frame_in(f, p[0], slice_of(data + at, <size_t>length))
    return at + <size_t>length

cdef int websocket_check_frame(Feed* f, int first, int second, uint64_t length) noexcept nogil:
    # Returns the close code for a refused frame, 0 if the frame is accepted.
    cdef int op = first & SOCKET_OP
    cdef int form = second & SOCKET_LENGTH
    if (first & SOCKET_RESERVED or not second & SOCKET_MASKED or form == SOCKET_LENGTH_2 and length <= SOCKET_SHORT
            or form == SOCKET_LENGTH_8 and length <= SOCKET_MIDDLE):
        return SOCKET_WRONG
    if op >= SOCKET_OP_CLOSE:
        return SOCKET_WRONG if op > SOCKET_OP_PONG or length > SOCKET_SHORT or not first & SOCKET_FINAL else 0
    if op == SOCKET_OP_BINARY and not f.parted:
        return SOCKET_BINARY
    if op > SOCKET_OP_TEXT or (op == SOCKET_OP_MORE) != f.parted:
        return SOCKET_WRONG
    return SOCKET_LARGE if length > SOCKET_MOST - f.parts.len else 0

cdef void websocket_frame_in(Feed* f, int first, Slice payload) noexcept nogil:
    # Handles a well-formed frame.
    cdef int op = first & SOCKET_OP
    if op == SOCKET_OP_CLOSE:
        websocket_closed(f, payload)
    elif op == SOCKET_OP_PING:
        websocket_put(&f.r.out, SOCKET_PONG, payload.p, payload.n)
        conn_dirty(f.r.conn)
    elif op == SOCKET_OP_PONG:
        pass                  # resetting `silences` was enough
    elif first & SOCKET_FINAL and not f.parted:
        websocket_command(f, payload)
    else:
        buf_slice(&f.parts, payload)
        f.parted = not first & SOCKET_FINAL
        if f.parts.failed:
            websocket_close(f, SOCKET_LARGE, b"Out of memory")
        elif f.parted and not websocket_parts_count(f):
            websocket_close(f, SOCKET_LATER, b"Too many messages in parts are incomplete; try again")
        elif not f.parted:
            websocket_command(f, slice_of(f.parts.data, f.parts.len))
        if not f.parted:
            websocket_parts_drop(f)

cdef bint websocket_parts_count(Feed* f) noexcept nogil:
    # Counts the memory of a message in parts in the budget of all. Returns False if there is no room. Messages of at
    # most ARRIVING_FREE bytes do not count.
    cdef Conn* c = f.r.conn
    cdef int64_t more = <int64_t>f.parts.cap - f.parts_held
    if f.parts.cap <= ARRIVING_FREE or more == 0:
        return True
    if budget_over_share(atomic_add64(&budget.parts, more),
                         budget_part(budget.most_arriving // 4, atomic_get64(&budget.arriving) + budget_leaves()),
                         atomic_get64(&c.address.client.parts) + more):
        atomic_add64(&budget.parts, -more)
        return False
    atomic_add64(&c.address.client.parts, more)
    if f.parts_held == 0:
        f.parts_until = clock_mono_us() + SOCKET_PARTS_US
        if f.beat.at > f.parts_until:
            heap_add(&engine_of(f.worker).beats, &f.beat, f.parts_until)
    f.parts_held += more
    return True

cdef void websocket_parts_drop(Feed* f) noexcept nogil:
    # Frees the message in parts, and gives back its place in the budget.
    if f.parts_held:
        atomic_add64(&budget.parts, -f.parts_held)
        if f.r.conn != NULL:  # else conn_close has
            atomic_add64(&f.r.conn.address.client.parts, -f.parts_held)
        f.parts_held = 0
    buf_free(&f.parts)

cdef void websocket_closed(Feed* f, Slice payload) noexcept nogil:
    # Handles the client's close frame: answers with its code, or with a code for its error.
    cdef int code = SOCKET_NORMAL
    if payload.n >= 2:
        code = <unsigned char>payload.p[0] << 8 | <unsigned char>payload.p[1]
        # the ranges of RFC 6455, 7.4
        if not (1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999):
            code = SOCKET_WRONG
        elif not text_is_utf8(slice_of(payload.p + 2, payload.n - 2)):
            code = SOCKET_TEXT_BAD
    elif payload.n == 1:
        code = SOCKET_WRONG
    websocket_close(f, code, b"")

# ---- commands of the client ----------------------------------------------------------------------------------------

cdef void websocket_command(Feed* f, Slice text) noexcept nogil:
    cdef Request* q
    cdef char* copy
    cdef ApiError e
    if feed_grant_ended(f):
        return
    if not text_is_utf8(text):
        websocket_close(f, SOCKET_TEXT_BAD, b"")
        return
    q = request_open(f.worker, f.r.conn)
    copy = <char*>arena_alloc(&q.arena, text.n + BODY_PADDING) if q != NULL else NULL
    if copy != NULL and f.r.grant != NULL:
        q.grant = grant_copy(f.r.grant, &q.arena)
    if copy == NULL or f.r.grant != NULL and q.grant == NULL:
        if q != NULL:
            request_close(q)
        websocket_close(f, SOCKET_POLICY, b"Out of memory")
        return
    memcpy(copy, text.p, text.n)
    memset(copy + text.n, 0, BODY_PADDING)
    q.feed = f
    q.method = METHOD_POST
    q.body = slice_of(copy, text.n)
    q.started_us = clock_mono_us()
    q.next = f.commands
    f.commands = q
    f.n_commands += 1
    worker_taken(f.worker, q.started_us)
    if not websocket_read(f, q, slice_of(copy, text.n), &e):
        reply_error(q, e.status, e.text)

cdef bint websocket_read(Feed* f, Request* q, Slice text, ApiError* e) noexcept nogil:
    # Executes or begins a command. Returns False if it is refused.
    cdef Json j
    cdef Slice key, value
    cdef Slice what = slice_of(NULL, 0)
    cdef bint first = True
    json_open(&j, text, JSON_DEPTH)
    json_padded(&j)
    if json_peek(&j) != b'{':
        return refuse(e, b"A message must be an object with ack, extend or credit")
    json_enter(&j, b'{')
    while json_member(&j, &first, &key) and json_skip(&j, &value):
        if member_is(key, b"ref"):
            if value.n > SOCKET_REF:
                return refuse(e, b"ref must have at most 256 bytes")
            q.query = value
        elif what.p != NULL or not (member_is(key, b"ack") or member_is(key, b"extend") or member_is(key, b"credit")):
            return refuse(e, b"A message must have one of ack, extend and credit, and may have a ref")
        else:
            what = value
            q.path = slice_of(key.p + 1, key.n - 2)
    if j.error != NULL or not json_end(&j):
        return json_refuse(e, &j)
    if what.p == NULL:
        return refuse(e, b"A message must be an object with ack, extend or credit")
    q.target = q.path         # names the answer
    return websocket_execute(f, q, what, e)

cdef bint websocket_execute(Feed* f, Request* q, Slice what, ApiError* e) noexcept nogil:
    cdef Engine* engine = engine_of(f.worker)
    cdef bint many
    cdef int n = 0
    if engine.stopping or job_full(engine, f.r.conn):
        return refuse_set(e, 503, b"Too many requests are waiting; try again")
    if q.path.p[0] == b'c':
        if not leasebody_seconds(what, &n) or n > BATCH_MAX:
            return refuse(e, b"credit must be a whole number from 1 to 10000")
        f.granted = min(f.granted + n, f.used + BATCH_MAX)
        buf_int(reply_begin(q, 200, JSON_TYPE), f.granted - f.used)
        reply_end(q)
        return True
    if what.p[0] != b'{' and what.p[0] != b'[':
        return refuse(e, b"ack and extend must be what their routes take")
    q.body = what
    if q.path.p[0] == b'a':
        many = memmem(what.p, what.n, b'"acknowledgments"', 17) != NULL
        ack_submit(f.worker, q, ROUTE_ACK_BATCH if many else ROUTE_ACK)
        return True
    if not websocket_lease(q, what, e):
        return False
    lease_submit(f.worker, q, ROUTE_ONLY)
    return True

cdef bint websocket_lease(Request* q, Slice what, ApiError* e) noexcept nogil:
    # Sets the path for the extension of the named lease. Returns False if the id is malformed.
    cdef Json j
    cdef Slice key, value
    cdef Slice lease = slice_of(NULL, 0)
    cdef bint first = True
    cdef char* path = <char*>arena_alloc(&q.arena, 64)
    if json_object(&j, what):
        while json_member(&j, &first, &key) and json_skip(&j, &value):
            if member_is(key, b"leaseId"):
                lease = value
    if lease.n != 38 or lease.p[0] != b'"' or path == NULL or memchr(lease.p, b'\\', 38) != NULL:
        return refuse(e, b"leaseId must be the id of a lease")
    memcpy(path, b"/api/v1/lease/", 14)
    memcpy(path + 14, lease.p + 1, 36)
    memcpy(path + 50, b"/extend", 7)
    q.path = slice_of(path, 57)
    return True

cdef void websocket_answered(Feed* f, Request* q) noexcept nogil:
    # Writes the answer {"ack": …, "status": 200, "ref": …}.
    cdef Buf* b = &f.r.out
    cdef size_t at = b.len
    cdef Request** before = &f.commands
    cdef OpCounter* counter = &f.worker.counters.op[q.op]
    while before[0] is not q:
        before = &before[0].next
    before[0] = q.next
    f.n_commands -= 1
    counter.requests += 1
    counter.errors += q.status >= 400
    counter_latency(counter, clock_mono_us() - q.started_us)
    if f.worker.requestlog.every:
        requestlog_command(f, q)
    buf_put(b, b"\0\0\0\0{\"", 6)
    if q.target.n:
        buf_slice(b, q.target)
    else:
        buf_text(b, b"refused")
    buf_text(b, b'":')
    buf_put(b, q.out.data, q.out.len)
    member_int(b, b',"status":', q.status)
    if q.query.n:
        member_raw(b, b',"ref":', q.query)
    buf_byte(b, b'}')
    if q.out.failed:
        b.failed = True       # the connection ends instead of sending a cut answer
    popreply_feed_socket(b, at, NULL)
    request_close(q)

# ---- frames that are sent --------------------------------------------------------------------------------------------

cdef void websocket_put(Buf* b, int first, const char* p, size_t n) noexcept nogil:
    # Writes a frame of at most SOCKET_SHORT bytes.
    buf_byte(b, <char>first)
    buf_byte(b, <char>n)
    buf_put(b, p, n)

cdef void websocket_close(Feed* f, int code, const char* why) noexcept nogil:
    # Writes the last frame.
    cdef char[126] text
    cdef size_t n = min(strlen(why), <size_t>123)
    if f.last:
        return
    f.last = True
    text[0] = <char>(code >> 8)
    text[1] = <char>(code & 255)
    memcpy(text + 2, why, n)
    websocket_put(&f.r.out, SOCKET_CLOSE, text, n + 2)
    conn_dirty(f.r.conn)

cdef void websocket_end(Feed* f, const char* why, Slice error) noexcept nogil:
    # Ends the stream. error: {"error": "…"}; empty: no details.
    cdef char[124] text
    cdef int code = SOCKET_NORMAL
    if strcmp(why, b"shutdown") == 0:
        code = SOCKET_AWAY
    elif why[0] == b't' or why[0] == b'r':
        code = SOCKET_POLICY
    if error.n > 13:
        snprintf(text, sizeof(text), b"%.*s", <int>min(error.n - 12, <size_t>120), error.p + 10)
        if text_is_utf8(slice_of(text, strlen(text))):
            websocket_close(f, code, text)
            return
    websocket_close(f, code, why)
