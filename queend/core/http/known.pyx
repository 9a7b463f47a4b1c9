# The header fields that say how a request is read and answered. In: each field of a head, as http/parse finds it. Out:
# what it says, in the Head; or a refusal. All other fields are searched for by whoever wants them (http/field).

cdef int head_field(Head* h, const char* name, size_t size, const char* v, size_t n) noexcept nogil:
    # One field: 1, or -1 when it is refused.
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
    elif size == 13 and text_folds(name, b"authorization", 13):
        if h.authorized:
            return head_refuse(h, 400, b"Repeated Authorization header")
        h.authorized = True
    elif size == 11 and text_folds(name, b"traceparent", 11):
        h.asks |= ASK_TRACE
    elif size == 15 and text_folds(name, b"idempotency-key", 15):
        h.asks |= ASK_KEY
    elif size == 6 and text_folds(name, b"origin", 6) or size == 14 and text_folds(name, b"sec-fetch-site", 14):
        h.asks |= ASK_PAGE
    elif size == 6 and text_folds(name, b"expect", 6):
        if n != 12 or not text_folds(v, b"100-continue", 12):
            return head_refuse(h, 417, b"Only the expectation 100-continue is known")
        h.expects = True
    elif size == 6 and n >= 34 and text_folds(name, b"accept", 6):
        # noted here, looked at by whoever it is for: the others pay nothing
        h.asks |= ASK_EVENTS
    elif size == 6 and text_folds(name, b"prefer", 6):
        if prefers_strict(v, n):
            h.asks |= ASK_STRICT
    elif size == 10 and text_folds(name, b"connection", 10):
        head_connection(h, v, n)
    elif size == 14 and text_folds(name, b"content-length", 14):
        if h.has_length:
            return head_refuse(h, 400, b"Repeated Content-Length header")
        if n == 0:
            return head_refuse(h, 400, b"Malformed Content-Length header")
        for i in range(n):
            if not b'0' <= v[i] <= b'9':
                return head_refuse(h, 400, b"Malformed Content-Length header")
            if length < <int64_t>1 << 58:         # beyond: larger than any limit, and no overflow
                length = length * 10 + v[i] - 48
        h.has_length = True
        h.length = length
    elif size == 17 and text_folds(name, b"transfer-encoding", 17):
        if h.chunked:
            return head_refuse(h, 400, b"Repeated Transfer-Encoding header")
        if (n < 7 or not text_folds(v + n - 7, b"chunked", 7)
                or (n > 7 and v[n - 8] != b',' and v[n - 8] != b' ' and v[n - 8] != b'\t')):
            return head_refuse(h, 400, b"The last transfer coding must be chunked")
        if n > 7:
            return head_refuse(h, 501, b"Only the transfer coding chunked is known")
        h.chunked = True
    return 1

cdef bint prefers_strict(const char* v, size_t n) noexcept nogil:
    # handling=strict among what is preferred (RFC 7240), its value perhaps in quotes.
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
    # A list of words; close wins.
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
