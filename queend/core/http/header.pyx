# Header fields of a request. In: each field of a head, as head_fields finds it; later the header lines. Out: what the
# fields say about reading and answering the request, in the Head, or a refusal; values of other fields, where they are
# needed. Owns nothing. No locks.

# ---- fields read with the head ---------------------------------------------------------------------------------------
# A field that is no list may occur once: a proxy in front may have looked at the other line.

cdef const char* CODING_TEXT = b"Content-Encoding must be gzip or zstd, one of them; or leave it out"

cdef inline bint header_named(const char* p, const char* lower, size_t n) noexcept nogil:
    # Returns True if a name of n characters, 8 to 16, is `lower`, of letters and hyphens, but for the case of its
    # letters. No other character of a name becomes a letter or a hyphen by the bit that is set.
    cdef uint64_t fold = <uint64_t>0x2020202020202020
    return (le64(p) | fold) == le64(lower) and (le64(p + n - 8) | fold) == le64(lower + n - 8)

cdef inline void header_once(Head* h, int field, const char* reason) noexcept nogil:
    # Notes a field of the request, and refuses the request for `reason` if it has the field already.
    if h.once & field:
        head_refuse_later(h, 400, reason)
    h.once |= <uint8_t>field

cdef bint header_tab(const char* p) noexcept nogil:
    # Returns True if a tab stands between the end of a value and the end of its line.
    while p[0] == b' ':
        p += 1
    return p[0] == b'\t'

cdef int header_read(Head* h, const char* name, size_t size, const char* v, size_t n) noexcept nogil:
    # Reads a field. Returns PARSED_WHOLE, or PARSED_REFUSED if the head is refused.
    cdef size_t i
    cdef int64_t length = 0
    if size == 4 and slice_nfolds(name, b"host", 4):
        h.host += 1
        if h.host > 1:
            return head_refuse(h, 400, b"Repeated Host header")
        h.authority = slice_of(v, n)
        for i in range(n):
            if v[i] == b' ' or v[i] == b'\t' or v[i] == b',' or v[i] == b'/' or v[i] == b'@':
                return head_refuse(h, 400, b"Malformed Host header")
    elif size == 12 and header_named(name, b"content-type", 12):
        header_once(h, ONCE_TYPE, b"Repeated Content-Type header")
    elif size == 13 and header_named(name, b"authorization", 13):
        header_once(h, ONCE_AUTHORIZATION, b"Repeated Authorization header")
    elif size == 11 and header_named(name, b"traceparent", 11):
        h.asks |= ASK_TRACE
    elif size == 15 and header_named(name, b"idempotency-key", 15):
        h.asks |= ASK_KEY         # routes that take a key refuse a request with two
    elif size == 6 and slice_nfolds(name, b"origin", 6):
        header_once(h, ONCE_ORIGIN, b"Repeated Origin header")
        h.asks |= ASK_PAGE
    elif size == 14 and header_named(name, b"sec-fetch-site", 14):
        header_once(h, ONCE_SITE, b"Repeated Sec-Fetch-Site header")
        h.asks |= ASK_PAGE
    elif size == 14 and header_named(name, b"sec-fetch-mode", 14):
        header_once(h, ONCE_MODE, b"Repeated Sec-Fetch-Mode header")
    elif size == 17 and slice_nfolds(name, b"sec-websocket-key", 17):
        header_once(h, ONCE_SOCKET_KEY, b"Repeated Sec-WebSocket-Key header")
    elif size == 21 and slice_nfolds(name, b"sec-websocket-version", 21):
        header_once(h, ONCE_SOCKET_VERSION, b"Repeated Sec-WebSocket-Version header")
    elif size == 16 and header_named(name, b"content-encoding", 16):
        if n == 4 and slice_nfolds(v, b"gzip", 4) or n == 6 and slice_nfolds(v, b"x-gzip", 6):
            h.coding = CODING_GZIP
        elif n == 4 and slice_nfolds(v, b"zstd", 4):
            h.coding = CODING_ZSTD
        elif n and not (n == 8 and slice_nfolds(v, b"identity", 8)):
            head_refuse_later(h, 415, CODING_TEXT)
        if h.once & ONCE_CODING:
            head_refuse_later(h, 415, CODING_TEXT)  # two lines are a list: two codings
        h.once |= ONCE_CODING
    elif size == 6 and slice_nfolds(name, b"expect", 6):
        if n != 12 or not slice_nfolds(v, b"100-continue", 12):
            return head_refuse(h, 417, b"Only the expectation 100-continue is known")
        h.expects = True
    elif size == 6 and n >= 34 and slice_nfolds(name, b"accept", 6):
        # only noted here: routes that can stream events read it, the others pay nothing
        h.asks |= ASK_EVENTS
    elif size == 6 and slice_nfolds(name, b"prefer", 6):
        if header_strict(v, n):
            h.asks |= ASK_STRICT
    elif size == 10 and slice_nfolds(name, b"connection", 10):
        header_connection(h, slice_of(v, n))
    elif size == 14 and header_named(name, b"content-length", 14):
        if h.has_length:
            return head_refuse(h, 400, b"Repeated Content-Length header")
        if n == 0 or header_tab(v + n):           # readers differ there
            return head_refuse(h, 400, b"Malformed Content-Length header")
        for i in range(n):
            if not b'0' <= v[i] <= b'9':
                return head_refuse(h, 400, b"Malformed Content-Length header")
            if length < <int64_t>1 << 58:         # beyond: larger than any limit, and no overflow
                length = length * 10 + v[i] - c'0'
        h.has_length = True
        h.length = length
    elif size == 17 and slice_nfolds(name, b"transfer-encoding", 17):
        if h.chunked:
            return head_refuse(h, 400, b"Repeated Transfer-Encoding header")
        if (n < 7 or header_tab(v + n) or not slice_nfolds(v + n - 7, b"chunked", 7)
                or (n > 7 and v[n - 8] != b',' and v[n - 8] != b' ' and v[n - 8] != b'\t')):
            return head_refuse(h, 400, b"The last transfer coding must be chunked")
        if n > 7:
            return head_refuse(h, 501, b"Only the transfer coding chunked is known")
        h.chunked = True
    return PARSED_WHOLE

cdef bint header_strict(const char* v, size_t n) noexcept nogil:
    # Returns True if handling=strict is preferred (RFC 7240), its value perhaps in quotes.
    cdef const char* end = v + n
    cdef const char* at = v
    cdef size_t quote
    while end - at >= 15:
        if slice_nfolds(at, b"handling=", 9) and (at == v or (at - 1)[0] == b' ' or (at - 1)[0] == b','
                                                  or (at - 1)[0] == b'\t'):
            quote = 1 if at[9] == b'"' else 0
            if end - at >= <ptrdiff_t>(15 + 2 * quote) and slice_nfolds(at + 9 + quote, b"strict", 6):
                at += 15 + 2 * quote
                return at == end or at[0] == b',' or at[0] == b';' or at[0] == b' ' or at[0] == b'\t'
        at += 1
    return False

cdef void header_connection(Head* h, Slice words) noexcept nogil:
    # Reads a list of words; close wins.
    cdef Slice word
    while words.n:
        word = slice_trim(slice_cut(&words, b','))
        if slice_folds(word, b"close"):
            h.keep_alive = False
            return
        if h.http10 and slice_folds(word, b"keep-alive"):
            h.keep_alive = True

# ---- fields searched for ---------------------------------------------------------------------------------------------
# Few of them are ever needed, so the lines are kept as they came.

cdef enum MediaType:
    MEDIA_OTHER = 0           # or absent
    MEDIA_JSON = 1
    MEDIA_LINES = 2           # application/x-ndjson
    MEDIA_ARROW = 3           # application/vnd.apache.arrow.stream
    MEDIA_FRAMES = 4          # application/x-queen-push
    MEDIA_EVENT = 5           # a CloudEvent
    MEDIA_EVENTS = 6          # a batch of CloudEvents
    MEDIA_CLOUD = 7           # another form of CloudEvents

cdef bint header_next(const char** at, const char* end, const char* name, Slice* value) noexcept nogil:
    # Finds the next header of this name (lower case) from `at` on, its value without blanks around it. Returns False if
    # there is no further one.
    cdef const char* p = at[0]
    cdef const char* stop
    cdef size_t n = strlen(name)
    while p < end:
        stop = <const char*>memchr(p, b'\n', end - p)
        if stop == NULL:
            stop = end
        if <size_t>(stop - p) > n and p[n] == b':' and slice_nfolds(p, name, n):
            at[0] = stop + 1
            value[0] = slice_trim(slice_until(slice_of(p + n + 1, stop - p - n - 1), b'\r'))
            return True
        p = stop + 1
    return False

cdef Slice header_value(Slice raw, const char* name) noexcept nogil:
    # Returns the value of the first header of this name (lower case); p NULL: absent.
    cdef const char* at = raw.p
    cdef Slice value = slice_of(NULL, 0)
    header_next(&at, raw.p + raw.n, name, &value)
    return value

cdef Slice header_single(Slice raw, const char* name) noexcept nogil:
    # Returns the value of the header of this name (lower case); p NULL: absent, or given more than once.
    cdef const char* at = raw.p
    cdef Slice value = slice_of(NULL, 0)
    cdef Slice other
    if header_next(&at, raw.p + raw.n, name, &value) and header_next(&at, raw.p + raw.n, name, &other):
        return slice_of(NULL, 0)
    return value

cdef Slice header_listed(Slice raw, const char* name, const char* begins) noexcept nogil:
    # Returns the rest of the first word with this beginning that headers of this name list; p NULL if there is no such
    # word.
    cdef const char* at = raw.p
    cdef Slice value
    cdef size_t n = strlen(begins)
    cdef size_t i, stop
    while header_next(&at, raw.p + raw.n, name, &value):
        i = 0
        while i < value.n:
            while i < value.n and (value.p[i] == b' ' or value.p[i] == b',' or value.p[i] == b'\t'):
                i += 1
            stop = i
            while stop < value.n and value.p[stop] != b' ' and value.p[stop] != b',' and value.p[stop] != b'\t':
                stop += 1
            if stop - i >= n and memcmp(value.p + i, begins, n) == 0:
                return slice_of(value.p + i + n, stop - i - n)
            i = stop
    return slice_of(NULL, 0)

cdef bint header_lists(Slice raw, const char* name, const char* word) noexcept nogil:
    # Returns True if a header of this name lists the word (both in lower case).
    cdef const char* at = raw.p
    cdef Slice value
    cdef size_t n = strlen(word)
    cdef size_t i
    while header_next(&at, raw.p + raw.n, name, &value):
        for i in range(value.n - n + 1 if value.n >= n else 0):
            if (slice_nfolds(value.p + i, word, n) and (i == 0 or value.p[i - 1] == b' ' or value.p[i - 1] == b',')
                    and (i + n == value.n or value.p[i + n] == b' ' or value.p[i + n] == b',')):
                return True
    return False

cdef inline bint header_type_is(Slice value, const char* name) noexcept nogil:
    # Returns True if the value is this media type, with or without parameters.
    cdef size_t n = strlen(name)
    return slice_begins(value, name) and (value.n == n or value.p[n] == b';' or value.p[n] == b' '
                                          or value.p[n] == b'\t')

cdef int header_media(Slice headers) noexcept nogil:
    # Returns what Content-Type says that the body is, one of MEDIA_*. header_read refuses a request with two such
    # lines.
    cdef Slice value = header_value(headers, b"content-type")
    if not slice_begins(value, b"application/"):
        return MEDIA_OTHER
    if header_type_is(value, b"application/json"):
        return MEDIA_JSON
    if header_type_is(value, b"application/x-ndjson"):
        return MEDIA_LINES
    if header_type_is(value, b"application/vnd.apache.arrow.stream"):
        return MEDIA_ARROW
    if header_type_is(value, b"application/x-queen-push"):
        return MEDIA_FRAMES
    if header_type_is(value, b"application/cloudevents+json"):
        return MEDIA_EVENT
    if header_type_is(value, b"application/cloudevents-batch+json"):
        return MEDIA_EVENTS
    return MEDIA_CLOUD if slice_begins(value, b"application/cloudevents") else MEDIA_OTHER

cdef int header_accept(Slice headers, const char* name) noexcept nogil:
    # Returns the weight that Accept gives a media type, in thousandths; 0 if the client does not take it. Ranges such
    # as */* do not count.
    cdef const char* at = headers.p
    cdef Slice value, element
    cdef int most = 0
    while header_next(&at, headers.p + headers.n, b"accept", &value):
        while value.n:
            element = slice_trim(slice_cut(&value, b','))
            if header_type_is(element, name):
                most = max(most, header_weight(element))
    return most

cdef int header_weight(Slice element) noexcept nogil:
    # Returns 500 for `type/subtype; q=0.5`, 1000 without a readable q.
    cdef Slice q
    cdef size_t i = 4
    cdef int weight = 0
    cdef int digit = 1000
    slice_cut(&element, b';')
    while element.n:
        q = slice_trim(slice_cut(&element, b';'))
        if q.n >= 3 and (q.p[0] | LETTER_SMALL) == b'q' and q.p[1] == b'=':
            if q.p[2] != b'0':
                return 1000
            while i < q.n and b'0' <= q.p[i] <= b'9' and digit > 1 and (q.p[i - 1] == b'.' or digit < 1000):
                digit //= 10
                weight += (q.p[i] - c'0') * digit
                i += 1
            return weight
    return 1000
