# Parses the head of an HTTP/1.1 request, request line and header lines, in one pass. In: bytes. Out: a Head that points
# into them, or a refusal. Owns http_class, constant after head_open. Does no I/O and takes no lock. Fields are read by
# http/header. Refuses what two readers could understand differently (RFC 9112): bare LF, folded headers, blanks before
# a colon, repeated or contradicting lengths.

cdef enum:
    METHOD_NONE = 0
    METHOD_GET = 1
    METHOD_POST = 2
    METHOD_PUT = 3
    METHOD_DELETE = 4
    METHOD_OPTIONS = 5
    METHOD_HEAD = 6
    METHOD_PATCH = 7
    METHOD_COUNT = 8

# Results of reading incoming bytes.
cdef enum Parsed:
    PARSED_REFUSED = -1
    PARSED_SHORT = 0          # more bytes are needed
    PARSED_WHOLE = 1

cdef enum:
    HEADERS_MAX = 100

cdef enum HeadOnce:           # fields that a request may have once; bits of Head.once
    ONCE_AUTHORIZATION = 1
    ONCE_TYPE = 2             # Content-Type
    ONCE_CODING = 4           # Content-Encoding
    ONCE_ORIGIN = 8
    ONCE_SITE = 16            # Sec-Fetch-Site
    ONCE_MODE = 32            # Sec-Fetch-Mode
    ONCE_SOCKET_KEY = 64      # Sec-WebSocket-Key
    ONCE_SOCKET_VERSION = 128

cdef enum:
    # the lengths of the names that http/header knows, as bits
    HEAD_SIZES = (1 << 4 | 1 << 6 | 1 << 10 | 1 << 11 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 15 | 1 << 16 | 1 << 17
                  | 1 << 21)

cdef enum HeadAsk:
    ASK_KEY = 1               # Idempotency-Key is present
    ASK_TRACE = 2             # traceparent is present
    ASK_EVENTS = 4            # Accept is long enough to name CloudEvents
    ASK_PAGE = 8              # Origin or Sec-Fetch-Site: a browser asks for a page
    ASK_STRICT = 16           # Prefer: handling=strict

cdef struct HeadLimits:
    size_t max_head           # bytes of request line and headers
    size_t max_target
    int64_t max_body

cdef struct Head:
    int method
    Slice target
    Slice path                # of the target, raw
    Slice query               # raw, without the question mark
    Slice headers             # lines with their CRLF, without the blank one
    size_t size               # of request line, headers and blank line
    int64_t length            # Content-Length, 0 if absent
    uint8_t has_length
    uint8_t chunked
    uint8_t http10
    uint8_t keep_alive
    uint8_t expects           # 100-continue
    uint8_t host              # Host fields seen
    Slice authority           # the value of Host
    uint8_t once              # bits of ONCE_*: the fields that were read
    uint8_t asks              # bits of ASK_*
    uint8_t coding            # CODING_* of the body
    # of the refusal. In a complete head: the request is refused though its end is known; 0: it is accepted
    int status
    const char* reason        # static text

cdef uint8_t[256] http_class                  # bits of HTTP_*, filled by head_open

cdef enum:
    HTTP_TOKEN = 1            # may stand in a method or a field name
    HTTP_TARGET = 2           # may stand in a request target
    HTTP_VALUE = 4            # may stand in a field value

cdef void head_open() noexcept nogil:
    # Fills http_class. Must be called once, before anything is parsed.
    cdef int c
    cdef const char* marks = b"!#$%&'*+-.^_`|~"
    for c in range(256):
        http_class[c] = 0
        if (b'0' <= c <= b'9' or b'A' <= c <= b'Z' or b'a' <= c <= b'z'
                or (0 < c < 128 and memchr(marks, c, 15) != NULL)):
            http_class[c] |= HTTP_TOKEN
        # raw bytes of other scripts are common in paths typed by people (curl sends them as they are)
        if c > b' ' and c != b'\x7f' and c != b'#':
            http_class[c] |= HTTP_TARGET
        if c == b'\t' or (c >= b' ' and c != b'\x7f'):
            http_class[c] |= HTTP_VALUE

cdef int head_refuse(Head* h, int status, const char* reason) noexcept nogil:
    h.status = status
    h.reason = reason
    return PARSED_REFUSED

cdef void head_refuse_later(Head* h, int status, const char* reason) noexcept nogil:
    # Refuses the request once its head is complete. The first reason counts.
    if h.status == 0:
        h.status = status
        h.reason = reason

cdef inline int head_method(const char* p, size_t n) noexcept nogil:
    if n == 3 and memcmp(p, b"GET", 3) == 0: return METHOD_GET
    if n == 4 and memcmp(p, b"POST", 4) == 0: return METHOD_POST
    if n == 3 and memcmp(p, b"PUT", 3) == 0: return METHOD_PUT
    if n == 4 and memcmp(p, b"HEAD", 4) == 0: return METHOD_HEAD
    if n == 5 and memcmp(p, b"PATCH", 5) == 0: return METHOD_PATCH
    if n == 6 and memcmp(p, b"DELETE", 6) == 0: return METHOD_DELETE
    return METHOD_OPTIONS if n == 7 and memcmp(p, b"OPTIONS", 7) == 0 else METHOD_NONE

cdef int head_parse(const char* data, size_t n, const HeadLimits* limits, Head* h) noexcept nogil:
    # Parses a head. Returns PARSED_WHOLE: complete, of h.size bytes; the request is refused if h.status is set. Returns
    # PARSED_SHORT: more bytes are needed. Returns PARSED_REFUSED: refused with h.status and h.reason.
    cdef const char* p = data
    cdef const char* end = data + n
    cdef int outcome
    memset(h, 0, sizeof(Head))
    # Skips an empty line before the request, which some old clients send after a body.
    while end - p >= 2 and p[0] == b'\r' and p[1] == b'\n':
        p += 2
    if end - p == 1 and p[0] == b"\r":
        return PARSED_SHORT
    outcome = head_line(&p, end, limits, h)
    if outcome == PARSED_WHOLE:
        outcome = head_fields(&p, end, h)
    if outcome == PARSED_WHOLE:
        h.size = p - data
        if h.size > limits.max_head:
            return head_refuse(h, 431, b"The request's headers are too large")
        return head_settle(limits, h)
    if outcome == PARSED_SHORT and n > limits.max_head:
        return head_refuse(h, 431, b"The request's headers are too large")
    return outcome

cdef int head_line(const char** at, const char* end, const HeadLimits* limits, Head* h) noexcept nogil:
    # Reads `METHOD target HTTP/1.x CRLF`, with single blanks. Returns PARSED_*.
    cdef const char* p = at[0]
    cdef const char* start = p
    while p < end and http_class[<unsigned char>p[0]] & HTTP_TOKEN:
        p += 1
        if p - start > 32:
            return head_refuse(h, 501, b"Unknown method")
    if p == end:
        return PARSED_SHORT
    if p[0] != b' ' or p == start:
        return head_refuse(h, 400, b"Malformed request line")
    h.method = head_method(start, p - start)
    p += 1
    h.target.p = p
    while p < end and http_class[<unsigned char>p[0]] & HTTP_TARGET:
        p += 1
    h.target.n = p - h.target.p
    if h.target.n > limits.max_target:
        return head_refuse(h, 414, b"The request target is too long")
    if p == end:
        return PARSED_SHORT
    if p[0] != b' ' or h.target.n == 0:
        return head_refuse(h, 400, b"Malformed request line")
    p += 1
    if end - p < 10:
        # refuses early what can no longer become a version
        if memcmp(p, b"HTTP/", <size_t>(end - p) if end - p < 5 else 5) != 0:
            return head_refuse(h, 400, b"Malformed request line")
        return PARSED_SHORT
    if (memcmp(p, b"HTTP/", 5) != 0 or not b'0' <= p[5] <= b'9' or p[6] != b'.' or not b'0' <= p[7] <= b'9'
            or p[8] != b'\r' or p[9] != b'\n'):
        return head_refuse(h, 400, b"Malformed request line")
    if p[5] != b'1' or p[7] > b'1':
        return head_refuse(h, 505, b"HTTP version not supported")
    h.http10 = p[7] == b'0'
    h.keep_alive = not h.http10
    if h.method == METHOD_NONE:
        if memcmp(start, b"TRACE ", 6) == 0 or memcmp(start, b"QUERY ", 6) == 0 or memcmp(start, b"CONNECT ", 8) == 0:
            return head_refuse(h, 405, b"Method not allowed")
        return head_refuse(h, 501, b"Unknown method")
    at[0] = p + 10
    return PARSED_WHOLE

cdef int head_fields(const char** at, const char* end, Head* h) noexcept nogil:
    # Reads `name: value CRLF` lines up to the blank one. Returns PARSED_*.
    cdef const char* p = at[0]
    cdef const char* name
    cdef const char* value
    cdef const char* last
    cdef size_t size
    cdef int count = 0
    h.headers.p = p
    while True:
        if p == end:
            return PARSED_SHORT
        if p[0] == b'\r':
            if end - p < 2:
                return PARSED_SHORT
            if p[1] != b'\n':
                return head_refuse(h, 400, b"Malformed header line")
            h.headers.n = p - h.headers.p
            at[0] = p + 2
            return PARSED_WHOLE
        name = p
        while p < end and http_class[<unsigned char>p[0]] & HTTP_TOKEN:
            p += 1
        if p == end:
            return PARSED_SHORT
        if p[0] != b':' or p == name:
            return head_refuse(h, 400, b"Malformed header line")
        size = p - name
        p += 1
        while p < end and (p[0] == b' ' or p[0] == b'\t'):
            p += 1
        value = p
        p = head_value_end(p, end)
        if p == end or end - p < 2 and p[0] == b'\r':
            return PARSED_SHORT
        if p[0] != b'\r' or p[1] != b'\n':
            return head_refuse(h, 400, b"Malformed header line")
        last = p
        while last > value and ((last - 1)[0] == b' ' or (last - 1)[0] == b'\t'):
            last -= 1
        p += 2
        count += 1
        if count > HEADERS_MAX:
            return head_refuse(h, 431, b"Too many headers")
        if size < 32 and HEAD_SIZES >> size & 1:
            if header_read(h, name, size, value, last - value) == PARSED_REFUSED:
                return PARSED_REFUSED

cdef inline const char* head_value_end(const char* p, const char* end) noexcept nogil:
    # Returns the first byte that a field value may not hold, such as CR.
    cdef uint64_t w
    while end - p >= 8:
        w = le64(p)
        # high bit: below 0x20 (tab too: looked at below) or 0x7f; bytes above 0x7f are masked out
        w = ((w - <uint64_t>0x2020202020202020) | ((w ^ <uint64_t>0x7f7f7f7f7f7f7f7f) - <uint64_t>0x0101010101010101)) \
            & ~w & <uint64_t>0x8080808080808080
        if w:
            p += wide_first64(w) >> 3
            if p[0] != b'\t':
                return p
            p += 1
        else:
            p += 8
    while p < end and http_class[<unsigned char>p[0]] & HTTP_VALUE:
        p += 1
    return p

cdef int head_settle(const HeadLimits* limits, Head* h) noexcept nogil:
    # Checks what only the whole head can tell, and splits the target.
    cdef const char* mark
    cdef Slice t = h.target
    if h.host == 0 and not h.http10:
        return head_refuse(h, 400, b"Missing Host header")
    if h.chunked and h.http10:
        return head_refuse(h, 400, b"Transfer-Encoding is unknown to HTTP/1.0")
    if h.chunked and h.has_length:
        return head_refuse(h, 400, b"Content-Length beside Transfer-Encoding")
    if h.length > limits.max_body:
        return head_refuse(h, 413, b"The request body is too large")
    if t.p[0] != b'/':
        if t.n == 1 and t.p[0] == b'*' and h.method == METHOD_OPTIONS:
            h.path = t
            h.query = slice_of(t.p + 1, 0)
            return PARSED_WHOLE
        # the absolute form, as sent to proxies: from the first slash after the authority
        if t.n > 7 and slice_nfolds(t.p, b"http://", 7):
            t = slice_of(t.p + 7, t.n - 7)
        elif t.n > 8 and slice_nfolds(t.p, b"https://", 8):
            t = slice_of(t.p + 8, t.n - 8)
        else:
            return head_refuse(h, 400, b"Malformed request target")
        mark = <const char*>memchr(t.p, b'/', t.n)
        if mark == NULL or mark == t.p:
            return head_refuse(h, 400, b"Malformed request target")
        t = slice_of(mark, t.p + t.n - mark)
    h.path = slice_cut(&t, b'?')
    h.query = t
    return PARSED_WHOLE
