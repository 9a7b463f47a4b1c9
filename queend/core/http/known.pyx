# Reads the header fields that say how a request is read and answered. In: each field of a head, as http/parse finds it.
# Out: its meaning, in the Head; or a refusal. Other fields are searched for where they are needed (http/field).
#
# A request may not repeat a field that is not a list: a proxy in front may have looked at the other line.

cdef const char* CODING_TEXT = b"Content-Encoding must be gzip or zstd, one of them; or leave it out"

cdef inline bint name_is(const char* p, const char* lower, size_t n) noexcept nogil:
    # Returns True if a name of n characters, 8 to 16, is `lower`, of letters and hyphens, but for the case of its
    # letters. No other character of a name becomes a letter or a hyphen by the bit that is set.
    cdef uint64_t fold = <uint64_t>0x2020202020202020
    return (le64(p) | fold) == le64(lower) and (le64(p + n - 8) | fold) == le64(lower + n - 8)

cdef inline void head_once(Head* h, int field, const char* reason) noexcept nogil:
    # Notes a field of the request, and refuses the request for `reason` if it has the field already.
    if h.once & field:
        head_object(h, 400, reason)
    h.once |= <uint8_t>field

cdef bint tab_follows(const char* p) noexcept nogil:
    # Returns True if a tab stands between the end of a value and the end of its line.
    while p[0] == b' ':
        p += 1
    return p[0] == b'\t'

cdef int head_field(Head* h, const char* name, size_t size, const char* v, size_t n) noexcept nogil:
    # Reads a field. Returns PARSED_WHOLE, or PARSED_REFUSED if the head is refused.
    cdef size_t i
    cdef int64_t length = 0
    if size == 4 and text_folds(name, b"host", 4):
        h.host += 1
        if h.host > 1:
            return head_refuse(h, 400, b"Repeated Host header")
        h.authority = slice_of(v, n)
        for i in range(n):
            if v[i] == b' ' or v[i] == b'\t' or v[i] == b',' or v[i] == b'/' or v[i] == b'@':
                return head_refuse(h, 400, b"Malformed Host header")
    elif size == 12 and name_is(name, b"content-type", 12):
        head_once(h, ONCE_TYPE, b"Repeated Content-Type header")
    elif size == 13 and name_is(name, b"authorization", 13):
        head_once(h, ONCE_AUTHORIZATION, b"Repeated Authorization header")
    elif size == 11 and name_is(name, b"traceparent", 11):
        h.asks |= ASK_TRACE
    elif size == 15 and name_is(name, b"idempotency-key", 15):
        h.asks |= ASK_KEY         # routes that take a key refuse a request with two
    elif size == 6 and text_folds(name, b"origin", 6):
        head_once(h, ONCE_ORIGIN, b"Repeated Origin header")
        h.asks |= ASK_PAGE
    elif size == 14 and name_is(name, b"sec-fetch-site", 14):
        head_once(h, ONCE_SITE, b"Repeated Sec-Fetch-Site header")
        h.asks |= ASK_PAGE
    elif size == 14 and name_is(name, b"sec-fetch-mode", 14):
        head_once(h, ONCE_MODE, b"Repeated Sec-Fetch-Mode header")
    elif size == 17 and text_folds(name, b"sec-websocket-key", 17):
        head_once(h, ONCE_SOCKET_KEY, b"Repeated Sec-WebSocket-Key header")
    elif size == 21 and text_folds(name, b"sec-websocket-version", 21):
        head_once(h, ONCE_SOCKET_VERSION, b"Repeated Sec-WebSocket-Version header")
    elif size == 16 and name_is(name, b"content-encoding", 16):
        if n == 4 and text_folds(v, b"gzip", 4) or n == 6 and text_folds(v, b"x-gzip", 6):
            h.coding = CODING_GZIP
        elif n == 4 and text_folds(v, b"zstd", 4):
            h.coding = CODING_ZSTD
        elif n and not (n == 8 and text_folds(v, b"identity", 8)):
            head_object(h, 415, CODING_TEXT)
        if h.once & ONCE_CODING:
            head_object(h, 415, CODING_TEXT)      # two lines are a list: two codings
        h.once |= ONCE_CODING
    elif size == 6 and text_folds(name, b"expect", 6):
        if n != 12 or not text_folds(v, b"100-continue", 12):
            return head_refuse(h, 417, b"Only the expectation 100-continue is known")
        h.expects = True
    elif size == 6 and n >= 34 and text_folds(name, b"accept", 6):
        # only noted here: routes that can stream events read it, the others pay nothing
        h.asks |= ASK_EVENTS
    elif size == 6 and text_folds(name, b"prefer", 6):
        if prefers_strict(v, n):
            h.asks |= ASK_STRICT
    elif size == 10 and text_folds(name, b"connection", 10):
        head_connection(h, v, n)
    elif size == 14 and name_is(name, b"content-length", 14):
        if h.has_length:
            return head_refuse(h, 400, b"Repeated Content-Length header")
        if n == 0 or tab_follows(v + n):          # readers differ there
            return head_refuse(h, 400, b"Malformed Content-Length header")
        for i in range(n):
            if not b'0' <= v[i] <= b'9':
                return head_refuse(h, 400, b"Malformed Content-Length header")
            if length < <int64_t>1 << 58:         # beyond: larger than any limit, and no overflow
                length = length * 10 + v[i] - c'0'
        h.has_length = True
        h.length = length
    elif size == 17 and text_folds(name, b"transfer-encoding", 17):
        if h.chunked:
            return head_refuse(h, 400, b"Repeated Transfer-Encoding header")
        if (n < 7 or tab_follows(v + n) or not text_folds(v + n - 7, b"chunked", 7)
                or (n > 7 and v[n - 8] != b',' and v[n - 8] != b' ' and v[n - 8] != b'\t')):
            return head_refuse(h, 400, b"The last transfer coding must be chunked")
        if n > 7:
            return head_refuse(h, 501, b"Only the transfer coding chunked is known")
        h.chunked = True
    return PARSED_WHOLE

cdef bint prefers_strict(const char* v, size_t n) noexcept nogil:
    # Returns True if handling=strict is preferred (RFC 7240), its value perhaps in quotes.
    cdef const char* end = v + n
    cdef const char* at = v
    cdef size_t quote
    while end - at >= 15:
        if text_folds(at, b"handling=", 9) and (at == v or (at - 1)[0] == b' ' or (at - 1)[0] == b','
                                                or (at - 1)[0] == b'\t'):
            quote = 1 if at[9] == b'"' else 0
            if end - at >= <ptrdiff_t>(15 + 2 * quote) and text_folds(at + 9 + quote, b"strict", 6):
                at += 15 + 2 * quote
                return at == end or at[0] == b',' or at[0] == b';' or at[0] == b' ' or at[0] == b'\t'
        at += 1
    return False

cdef void head_connection(Head* h, const char* v, size_t n) noexcept nogil:
    # Reads a list of words; close wins.
    cdef size_t i = 0
    cdef size_t start, stop
    while i < n:
        start = i
        while i < n and v[i] != b',':
            i += 1
        stop = i
        i += 1
        while start < stop and (v[start] == b' ' or v[start] == b'\t'):
            start += 1
        while stop > start and (v[stop - 1] == b' ' or v[stop - 1] == b'\t'):
            stop -= 1
        if stop - start == 5 and text_folds(v + start, b"close", 5):
            h.keep_alive = False
            return
        if h.http10 and stop - start == 10 and text_folds(v + start, b"keep-alive", 10):
            h.keep_alive = True
