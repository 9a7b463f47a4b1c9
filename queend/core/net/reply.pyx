# Builds the answer to a request, in the request's own buffer. In: a status and a body. Out: an answer, sent in the
# order of the requests when the loop's turn ends (net/output). Owner: the request's worker; no lock. A request of a
# feed has no head: its body is passed to the feed.

cdef enum:
    REPLY_ROOM = 4096         # for the head of a large answer

cdef inline void reply_out(Request* r) noexcept nogil:
    # Begins an empty answer, in memory of an earlier answer if the worker keeps some.
    cdef RequestPool* pool = &r.worker.requests
    if r.out.data == NULL and pool.outs_kept:
        pool.outs_kept -= 1
        r.out = pool.outs[pool.outs_kept]
    buf_clear(&r.out)

cdef inline void reply_out_whole(Request* r) noexcept nogil:
    # Adds the unused bytes before the answer to its buffer, which is freed or handed on next.
    r.out.data -= r.out_room
    r.out.cap += r.out_room
    r.out_room = 0

cdef inline Buf* reply_head(Request* r, int status) noexcept nogil:
    reply_out(r)
    r.status = status
    response_begin(&r.out, status, r.worker.date.text)
    return &r.out

cdef inline Buf* reply_begin(Request* r, int status, const char* content_type) noexcept nogil:
    # Writes status line and headers. Then the caller appends the body and calls reply_end. content_type NULL: no body
    # follows.
    return reply_begin_more(r, status, content_type, b"")

cdef Buf* reply_bare(Request* r, int status) noexcept nogil:
    # Begins the answer to a request of a feed, which has a body only.
    reply_out(r)
    r.status = status
    r.head_size = 0
    return &r.out

cdef Buf* reply_begin_more(Request* r, int status, const char* content_type, const char* lines) noexcept nogil:
    # Writes status line, headers and further header lines. Then the caller appends the body and calls reply_end.
    cdef Buf* b
    if r.feed != NULL:
        return reply_bare(r, status)
    b = reply_head(r, status)
    buf_text(b, lines)
    if content_type != NULL:
        buf_text(b, b"Content-Type: ")
        buf_text(b, content_type)
        buf_put(b, b"\r\n", 2)
    reply_headers_end(r)
    return b

cdef void reply_headers_end(Request* r) noexcept nogil:
    # Writes what pages may read the answer, the connection and length lines, and the blank line. The body follows.
    if origin_rules.origins[0]:
        origin_headers(r)
    if r.worker.stopping:
        r.keep_alive = False
    response_end(&r.out, r.status, r.keep_alive, r.http10)
    r.head_size = r.out.len

cdef void reply_end(Request* r) noexcept nogil:
    # Completes an answer, which goes out with the others of this turn of the loop. r may be freed afterwards.
    cdef Worker* w = r.worker
    cdef OpCounter* counter = &w.counters.op[r.op]
    if r.feed != NULL:
        r.replied = True
        r.on_gone = NULL
        service.fed(r)
        return
    if r.out.failed and not r.unanswerable:
        r.unanswerable = True
        reply_error(r, 503, b"Out of memory: whether the request was done is not known")
        return
    if r.out.failed:
        r.keep_alive = False          # no memory for the short answer either: the connection ends, and a false answer
                                      # is not sent
    elif r.status != 204 and r.status != 304:
        response_length(&r.out, r.head_size, r.out.len - r.head_size)
    if r.method == METHOD_HEAD or r.status == 204:
        r.out.len = r.head_size
    r.replied = True
    r.on_gone = NULL
    if r.on_unsent == NULL:
        r.job = NULL
        r.on_end = NULL
    counter.requests += 1
    if r.status >= 400:
        counter.errors += 1
    counter_latency(counter, clock_mono_us() - r.started_us)
    if w.requestlog.every:
        requestlog_note(r)
    if r.conn == NULL:
        request_close(r)
    else:
        if r.out.cap > OUT_KEEP or r.conn.first != r:
            budget_charge(r)
        if r.conn.first != r and r.on_unsent == NULL:
            request_shed(r)
        conn_dirty(r.conn)

cdef void reply_simple(Request* r, const char* json_text) noexcept nogil:
    # Answers 200 with a small constant body.
    buf_text(reply_begin(r, 200, JSON_TYPE), json_text)
    reply_end(r)

cdef void reply_unhealthy(Request* r, const char* status, const char* why) noexcept nogil:
    # Answers 503 with a status of the daemon. why: ASCII without quotes.
    cdef char[160] text
    snprintf(text, sizeof(text), b'{"status":"%s","error":"%s"}', status, why)
    reply_raw(r, 503, slice_lit(JSON_LINES), slice_lit(text))

cdef const char* ACCEPTS = b"Accept-Encoding: gzip, zstd\r\n"       # codings of a request's body

cdef void reply_error(Request* r, int status, const char* text) noexcept nogil:
    reply_error_more(r, status, b"", text)

cdef void reply_error_more(Request* r, int status, const char* lines, const char* text) noexcept nogil:
    # Answers {"error": text}, or a problem (RFC 9457) if the client asks for one. Adds Retry-After to 503,
    # WWW-Authenticate to 401, Allow to 405, Upgrade to 426. lines: further header lines.
    cdef Buf* b
    cdef bint problem
    if r.feed != NULL:
        member_text(reply_bare(r, status), b'{"error":', slice_lit(text))
        buf_byte(&r.out, b'}')
        reply_end(r)
        return
    b = reply_head(r, status)
    problem = r.headers_raw.n and response_problem_wanted(r.headers_raw)
    buf_text(b, b"Content-Type: application/problem+json\r\n" if problem else b"Content-Type: application/json\r\n")
    if status == 503 or status == 401:
        buf_text(b, b"Retry-After: 1\r\n" if status == 503 else b"WWW-Authenticate: Bearer\r\n")
    if status == 426:
        buf_text(b, b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n")
    buf_text(b, lines)
    if status == 405:
        buf_text(b, b"Allow: GET, HEAD, POST, PUT, DELETE, OPTIONS\r\n")
    if status == 503:
        r.worker.counters.refused += 1
    reply_headers_end(r)
    if problem:
        response_problem_put(b, status, r.path, slice_lit(text))
    else:
        member_text(b, b'{"error":', slice_lit(text))
        buf_byte(b, b'}')
    reply_end(r)

cdef void reply_empty(Request* r) noexcept nogil:
    reply_begin(r, 204, NULL)
    reply_end(r)

cdef void reply_options(Request* r) noexcept nogil:
    # Answers a preflight request of a browser, alike for every path.
    cdef Buf* b = reply_head(r, 204)
    buf_text(b, ACCEPTS)
    if origin_rules.origins[0] and origin_listed(r):
        buf_text(b, b"Access-Control-Max-Age: 86400\r\n")
    reply_headers_end(r)
    reply_end(r)

cdef void reply_raw(Request* r, int status, Slice headers, Slice body) noexcept nogil:
    # Answers with complete header lines, which lack Date, Connection and Content-Length, and a body. A JSON error
    # becomes a problem for clients that ask for one. 503 and 429 get Retry-After.
    cdef Buf* b
    cdef Slice error
    cdef bint problem
    if r.feed != NULL:
        buf_slice(reply_bare(r, status), body)
        reply_end(r)
        return
    b = reply_head(r, status)
    problem = status >= 400 and response_problem_wanted(r.headers_raw) and response_problem_error(body, &error)
    if problem:
        buf_text(b, b"Content-Type: application/problem+json\r\n")
        reply_headers_except(b, headers, b"content-type")
    else:
        buf_slice(b, headers)
    if (status == 503 or status == 429) and header_value(headers, b"retry-after").p == NULL:
        buf_text(b, b"Retry-After: 1\r\n")
    reply_headers_end(r)
    if problem:
        response_problem_copy(b, status, r.path, error, body)
    else:
        buf_slice(b, body)
    reply_end(r)

cdef void reply_large(Request* r, int status, Slice headers, char* block, size_t n) noexcept nogil:
    # Answers like reply_raw, but does not copy the body. block: room for the head (REPLY_ROOM bytes), then the n bytes
    # of the body. The request takes over this memory.
    cdef Buf* b
    if r.feed != NULL or status >= 400:
        reply_raw(r, status, headers, slice_of(block + REPLY_ROOM, n))
        free(block)
        return
    b = reply_head(r, status)
    buf_slice(b, headers)
    reply_headers_end(r)
    if b.failed or b.len > REPLY_ROOM:
        buf_put(b, block + REPLY_ROOM, n)
        free(block)
    else:
        r.out_room = REPLY_ROOM - b.len
        block += r.out_room
        memcpy(block, b.data, b.len)
        n += b.len
        buf_free(b)
        b.data = block
        b.len = n
        b.cap = n
    reply_end(r)

cdef void reply_headers_except(Buf* b, Slice headers, const char* name) noexcept nogil:
    # Appends all lines except those of this name (lower case).
    cdef Slice line
    cdef size_t n = strlen(name)
    while headers.n:
        line = slice_of(headers.p, min(slice_until(headers, b'\n').n + 1, headers.n))
        if line.n <= n or line.p[n] != b':' or not slice_nfolds(line.p, name, n):
            buf_slice(b, line)
        headers = slice_from(headers, line.n)
