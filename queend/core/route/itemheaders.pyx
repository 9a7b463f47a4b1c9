# Reads the headers of an item: an object of strings. In: its JSON text. Out: the same object without white space and
# without trace context, which a record stores beside it; or the reason of a refusal. Stateless, takes no lock. Names
# and values stay as they were escaped.

cdef enum:
    HEADERS_BYTES = 16384     # of the object, as JSON text
    HEADERS_MOST = 64         # names, those of trace context included
    HEADERS_NAME = 256        # bytes of a name
    HEADERS_SHOWN = 64        # bytes of a name in a refusal

cdef const char* HEADERS_TEXT = b"headers must be an object of strings"

cdef struct ItemHeaders:
    Slice parent, state       # literals of traceparent and tracestate; p NULL: absent
    Slice rest                # the other headers as an object; n 0: there are none
    char[160] why             # the reason of a refusal; empty: out of memory

cdef bint itemheaders_read(Slice text, Arena* a, ItemHeaders* out) noexcept nogil:
    # Reads an object. Requires valid JSON, without white space around it.
    cdef Slice[HEADERS_MOST] names
    cdef Slice key, value, name, plain
    cdef Json j
    cdef bint first = True
    cdef bint half = False
    cdef char* at
    cdef int n = 0
    cdef int k, c
    memset(out, 0, sizeof(ItemHeaders))
    if text.p[0] != b'{':
        return itemheaders_refuse(out, HEADERS_TEXT)
    if text.n > HEADERS_BYTES:
        return itemheaders_refuse(out, b"headers must have at most 16384 bytes as JSON")
    # no larger than the text: quotes, colons and commas are there already
    at = <char*>arena_alloc(a, text.n)
    if at == NULL:
        return False
    out.rest = slice_of(at, 1)
    at[0] = b'{'
    json_open(&j, text, JSON_DEPTH_MAX)
    json_enter(&j, b'{')
    while json_member(&j, &first, &key):
        c = json_peek(&j)
        if not json_skip(&j, &value):
            break
        if not text_unescape(key, a, &name, &half):
            return False
        if half or not itemheaders_plain(name):
            return itemheaders_refuse(out, b"the name of a header must be text without U+0000")
        if not 1 <= name.n <= HEADERS_NAME:
            return itemheaders_refuse(out, b"the name of a header must have 1 to 256 bytes")
        for k in range(n):
            if slice_eq(names[k], name):
                return itemheaders_refuse_one(out, name, b"is given twice")
        if n == HEADERS_MOST:
            return itemheaders_refuse(out, b"headers must have at most 64 names")
        names[n] = name
        n += 1
        if c != b'"':
            return itemheaders_refuse_one(out, name, b"must be a string")
        if memchr(value.p, b'\\', value.n) != NULL and (
                not text_unescape(value, a, &plain, &half) or half or not itemheaders_plain(plain)):
            return itemheaders_refuse_one(out, name, b"must be text without U+0000")
        if slice_is(name, b"traceparent"):
            out.parent = value
        elif slice_is(name, b"tracestate"):
            out.state = value
        else:
            at = <char*>out.rest.p + out.rest.n
            if out.rest.n > 1:
                at[0] = b','
                at += 1
            memcpy(at, key.p, key.n)
            at[key.n] = b':'
            memcpy(at + key.n + 1, value.p, value.n)
            out.rest.n = <const char*>at + key.n + 1 + value.n - out.rest.p
    if j.error != NULL:
        return itemheaders_refuse(out, HEADERS_TEXT)
    if out.rest.n == 1:
        out.rest.n = 0
    else:
        (<char*>out.rest.p)[out.rest.n] = b'}'
        out.rest.n += 1
    return True

cdef inline bint itemheaders_plain(Slice text) noexcept nogil:
    return memchr(text.p, 0, text.n) == NULL

cdef bint itemheaders_refuse(ItemHeaders* out, const char* text) noexcept nogil:
    snprintf(out.why, sizeof(out.why), b"%s", text)
    return False

cdef bint itemheaders_refuse_one(ItemHeaders* out, Slice name, const char* text) noexcept nogil:
    # Refuses a header by its name, if a refusal can show it.
    cdef size_t i
    for i in range(name.n):
        if name.n > HEADERS_SHOWN or <unsigned char>name.p[i] <= b' ' or <unsigned char>name.p[i] > b'~':
            name = slice_lit(b"a name")
            break
    snprintf(out.why, sizeof(out.why), b"header %.*s %s", <int>name.n, name.p, text)
    return False

cdef bint itemheaders_same(Slice one, Slice other, Arena* a) noexcept nogil:
    # Returns True if two literals are the same text, or one of them is absent.
    cdef Slice left, right
    return (one.p == NULL or other.p == NULL or text_unescape(one, a, &left, NULL)
            and text_unescape(other, a, &right, NULL) and slice_eq(left, right))

cdef const char* itemheaders_take(Tools* t, Slice text, Slice* parent, Slice* state, ItemHeaders* out) noexcept nogil:
    # Reads the headers of an item that may have literals of trace context beside them, and completes those. text: p
    # NULL: absent. Returns the reason of a refusal; NULL: none; empty: out of memory.
    out.rest = slice_of(NULL, 0)
    if text.p == NULL:
        return NULL
    if not itemheaders_read(text, t.arena, out):
        return out.why
    if not itemheaders_same(parent[0], out.parent, t.arena):
        return b"traceparent and the one in headers differ"
    if not itemheaders_same(state[0], out.state, t.arena):
        return b"tracestate and the one in headers differ"
    if parent[0].p == NULL:
        parent[0] = out.parent
    if state[0].p == NULL:
        state[0] = out.state
    return NULL

cdef bint itemheaders_item(Tools* t, PushItem* it, Slice text, Slice parent, Slice state) noexcept nogil:
    # Stores headers and trace context of an item, given as literals; p NULL: absent.
    cdef ItemHeaders headers
    cdef const char* why = itemheaders_take(t, text, &parent, &state, &headers)
    if why != NULL:
        return refuse_item(t, why, b"headers") if why[0] else refuse_memory(&t.error)
    if parent.p != NULL or state.p != NULL:
        return trace_item(t, it, parent, state, headers.rest)
    return (headers.rest.n == 0 or trace_headers(t.arena, it, parent, state, headers.rest)
            or refuse_memory(&t.error))

cdef bint itemheaders_parse(Slice text, Arena* a, Slice* parent, Slice* state, ItemHeaders* out) noexcept nogil:
    # Reads headers that came as a text of their own (a column, a frame, an attribute). Checks that it is JSON.
    # parent, state: trace context of the record as valid texts, n 0: absent; completed here.
    cdef Json j
    cdef Slice inner
    memset(out, 0, sizeof(ItemHeaders))
    json_open(&j, text, JSON_DEPTH)
    if not json_skip(&j, &text) or not json_end(&j):
        return itemheaders_refuse(out, HEADERS_TEXT)
    if slice_is(text, b"null"):
        return True
    if not itemheaders_read(text, a, out):
        return False
    if out.parent.p != NULL:
        if not text_unescape(out.parent, a, &inner, NULL):
            return False
        if parent.n and not slice_eq(parent[0], inner):
            return itemheaders_refuse(out, b"traceparent and the one in headers differ")
        if not trace_parent_valid(inner):
            return itemheaders_refuse(out, TRACEPARENT_TEXT)
        parent[0] = inner
    if out.state.p != NULL:
        if not text_unescape(out.state, a, &inner, NULL):
            return False
        if state.n and not slice_eq(state[0], inner):
            return itemheaders_refuse(out, b"tracestate and the one in headers differ")
        if parent.n == 0 or not trace_state_valid(inner):
            return itemheaders_refuse(out, TRACESTATE_TEXT if parent.n else TRACEPARENT_TEXT)
        state[0] = inner
    return True

cdef bint itemheaders_text(Tools* t, PushItem* it, Slice text, Slice parent, ItemHeaders* out) noexcept nogil:
    # Stores headers that came as a text. parent: a valid traceparent, n 0: absent. Returns False with out.why.
    cdef Slice state = slice_of(NULL, 0)
    if not itemheaders_parse(text, t.arena, &parent, &state, out):
        return False
    return (parent.n == 0 and out.rest.n == 0) or trace_headers(t.arena, it, parent, state, out.rest)
