# Reads and writes W3C trace context. In: traceparent and tracestate of a push, or of one of its items. Out: headers of
# its records, which come back with them, so that a trace goes on where they are delivered. Stateless, takes no lock.

cdef const char* TRACEPARENT_TEXT = b"traceparent must be one of W3C trace context"
cdef const char* TRACESTATE_TEXT = b"tracestate must be one of W3C trace context"

cdef enum:
    TRACESTATE_MOST = 512     # characters
    TRACESTATE_MEMBERS = 32

cdef inline bint trace_hex(const char* p, size_t n, bint* zero) noexcept nogil:
    # Returns True if all n characters are digits 0-9 and a-f. zero: all of them are 0.
    cdef size_t i
    zero[0] = True
    for i in range(n):
        if not (b'0' <= p[i] <= b'9' or b'a' <= p[i] <= b'f'):
            return False
        if p[i] != b'0':
            zero[0] = False
    return True

cdef bint trace_parent_valid(Slice s) noexcept nogil:
    # Returns True for version-trace-parent-flags. Later versions may append more.
    cdef bint zero = False
    cdef size_t i
    if s.n < 55 or s.n > 255 or s.p[2] != b'-' or s.p[35] != b'-' or s.p[52] != b'-':
        return False
    if (not trace_hex(s.p, 2, &zero) or memcmp(s.p, b"ff", 2) == 0 or (zero and s.n != 55)
            or (s.n > 55 and s.p[55] != b'-')):
        return False
    if (not trace_hex(s.p + 3, 32, &zero) or zero or not trace_hex(s.p + 36, 16, &zero) or zero
            or not trace_hex(s.p + 53, 2, &zero)):
        return False
    for i in range(55, s.n):
        if s.p[i] <= b' ' or s.p[i] > b'~':
            return False
    return True

cdef bint trace_state_valid(Slice s) noexcept nogil:
    # Returns True for a list of key=value members with commas between; empty members are allowed.
    cdef Slice key, value
    cdef size_t i
    cdef char c
    cdef int n = 0
    if s.n > TRACESTATE_MOST:
        return False
    while s.n:
        value = slice_trim(slice_cut(&s, b','))
        if value.n == 0:
            continue
        n += 1
        key = slice_cut(&value, b'=')
        if n > TRACESTATE_MEMBERS or not 1 <= key.n <= 256 or not 1 <= value.n <= 256:
            return False
        for i in range(key.n):
            c = key.p[i]
            if not (b'a' <= c <= b'z' or b'0' <= c <= b'9' or c == b'_' or c == b'-' or c == b'*' or c == b'/'
                    or c == b'@'):
                return False
        for i in range(value.n):
            if value.p[i] < b' ' or value.p[i] > b'~' or value.p[i] == b'=':
                return False
    return n > 0

cdef void trace_put(Buf* b, Slice parent, Slice state) noexcept nogil:
    # Appends both as members of an object; b begins with its brace.
    if parent.n == 0:
        return
    member_text(b, b'"traceparent":' if b.len == 1 else b',"traceparent":', parent)
    if state.n:
        member_text(b, b',"tracestate":', state)

cdef bint trace_headers(Arena* a, PushItem* it, Slice parent, Slice state, Slice rest) noexcept nogil:
    # Stores what a record has as headers: trace context first, then the sender's headers, an object (rest). n 0:
    # absent. Returns False if memory ran out.
    cdef Extras* more = <Extras*>arena_alloc(a, sizeof(Extras))
    cdef Buf b
    buf_init(&b)
    b.cap = 64 + 6 * (parent.n + state.n) + rest.n       # an escape has 6 bytes at most, so the buffer never grows
    b.data = <char*>arena_alloc(a, b.cap)
    if more == NULL or b.data == NULL:
        return False
    buf_byte(&b, b'{')
    trace_put(&b, parent, state)
    if rest.n:
        member_raw(&b, b'"headers":' if b.len == 1 else b',"headers":', rest)
    buf_byte(&b, b'}')
    if it.more != NULL:
        more[0] = it.more[0]      # other items may share the old extras
    else:
        batchrow_extras_none(more)
    more.headers = slice_of(b.data, b.len)
    it.more = more
    return True

cdef bint trace_item(Tools* t, PushItem* it, Slice parent_raw, Slice state_raw, Slice rest) noexcept nogil:
    # Reads traceparent and tracestate of an item, as literals; p NULL: absent. Stores them with its headers, an object;
    # n 0: absent.
    cdef Slice parent = slice_of(NULL, 0)
    cdef Slice state = slice_of(NULL, 0)
    if parent_raw.p == NULL or not text_unescape(parent_raw, t.arena, &parent, NULL) or not trace_parent_valid(parent):
        return refuse_item(t, TRACEPARENT_TEXT, b"traceparent")
    if state_raw.p != NULL and (not text_unescape(state_raw, t.arena, &state, NULL) or not trace_state_valid(state)):
        return refuse_item(t, TRACESTATE_TEXT, b"tracestate")
    return trace_headers(t.arena, it, parent, state, rest) or refuse_memory(&t.error)

cdef Slice trace_state_list(Slice headers, Arena* a) noexcept nogil:
    # Returns all tracestate lines as one list; empty if it is absent or invalid.
    cdef const char* at = headers.p
    cdef Slice value, all
    cdef char* text = <char*>arena_alloc(a, headers.n + 1)
    all = slice_of(text, 0)
    while text != NULL and header_next(&at, headers.p + headers.n, b"tracestate", &value):
        if all.n:
            text[all.n] = b','
            all.n += 1
        memcpy(text + all.n, value.p, value.n)
        all.n += value.n
    return all if all.n and trace_state_valid(all) else slice_of(NULL, 0)

cdef bint trace_request(Slice headers, Arena* a, Slice* parent, Slice* state) noexcept nogil:
    # Reads the trace context of a request's headers. Returns False, and empties both, if it is malformed: the standard
    # has it ignored.
    parent[0] = header_single(headers, b"traceparent")
    if parent.p == NULL or not trace_parent_valid(parent[0]):
        parent[0] = slice_of(NULL, 0)
        state[0] = slice_of(NULL, 0)
        return False
    state[0] = trace_state_list(headers, a)
    return True

cdef void trace_items(Slice headers, Arena* a, PushItem* items, int n) noexcept nogil:
    # Gives the request's own trace context to all its records that have none.
    cdef Slice parent, state
    cdef PushItem first
    cdef Slice none = slice_of(NULL, 0)
    cdef Extras* more
    cdef int i
    if not trace_request(headers, a, &parent, &state):
        return
    memset(&first, 0, sizeof(first))
    if not trace_headers(a, &first, parent, state, none):
        return
    for i in range(n):
        if items[i].more == NULL:
            items[i].more = first.more
        elif items[i].more.headers.n == 0:
            more = <Extras*>arena_alloc(a, sizeof(Extras))
            if more != NULL:
                more[0] = items[i].more[0]
                more.headers = first.more.headers
                items[i].more = more
        elif not trace_has(items[i].more.headers):
            trace_headers(a, &items[i], parent, state, trace_rest(items[i].more.headers))

cdef inline bint trace_has(Slice headers) noexcept nogil:
    # Returns True if stored headers have a trace context. It comes first.
    return headers.n > 14 and memcmp(headers.p, b'{"traceparent"', 14) == 0

cdef inline Slice trace_rest(Slice headers) noexcept nogil:
    # Returns the sender's headers, an object, of stored headers that have nothing else. Requires headers of a push.
    return slice_of(headers.p + 11, headers.n - 12)      # within {"headers":…}
