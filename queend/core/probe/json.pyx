# Test seams for the json room.

cdef void json_explain(Json* j, char* out, size_t size) noexcept nogil:
    # Writes `unexpected byte at byte 17` to out: NUL-terminated, at most size bytes with the NUL.
    snprintf(out, size, b"%s at byte %lld", j.error, <long long>(j.p - j.begin))

def probe_json_walks(int most):
    """From now on at most so many bytes at a time in walks (32, 16, 0: none); how many it is. For as long as nothing
    else runs."""
    global json_walks
    json_walks = jsonwalk_best(most)
    return (0 if json_walks == NULL else 32 if json_walks == jsonwalk_best(32)
            and json_walks != jsonwalk_best(16) else 16)

def probe_json_skip(bytes text, int max_depth=JSON_DEPTH, bytes behind=b""):
    """One document: (None, its exact bytes) or (error text, None). Copied to memory that ends where the text ends, or
    with `behind`, which must be JSONWALK_ROOM bytes."""
    cdef Json j
    cdef Slice raw
    cdef char[128] why
    cdef size_t n = len(text)
    cdef char* copy = <char*>malloc(n + len(behind) + 1 - (n > 0))
    memcpy(copy, <const char*>text, n)
    memcpy(copy + n, <const char*>behind, len(behind))
    try:
        json_open(&j, slice_of(copy, n), max_depth)
        if len(behind) == JSONWALK_ROOM:
            json_padded(&j)
        if json_skip(&j, &raw) and json_end(&j):
            return None, raw.p[:raw.n]
        json_explain(&j, why, sizeof(why))
        return (<bytes>why).decode(), None
    finally:
        free(copy)

def probe_json_walk(bytes text, int max_depth=JSON_DEPTH):
    """The document read member by member: objects as lists of (key, value) pairs, arrays as lists, strings as str,
    numbers and literals as bytes. ValueError with the error text."""
    cdef Json j
    cdef Arena a
    cdef char[128] why
    json_open(&j, slice_of(text, len(text)), max_depth)
    arena_open(&a, NULL)
    try:
        value = probe_json_value(&j, &a)
        if j.error == NULL:
            json_end(&j)
        if j.error != NULL:
            json_explain(&j, why, sizeof(why))
            raise ValueError((<bytes>why).decode())
        return value
    finally:
        arena_close(&a)

cdef object probe_json_value(Json* j, Arena* a):
    cdef Slice raw
    cdef bint first = True
    cdef int c = json_peek(j)
    if c == b'{':
        pairs = []
        json_enter(j, b'{')
        while j.error == NULL and json_member(j, &first, &raw):
            pairs.append((probe_json_str(raw, a), probe_json_value(j, a)))
        return ("object", pairs)
    if c == b'[':
        items = []
        json_enter(j, b'[')
        while j.error == NULL and json_element(j, &first):
            items.append(probe_json_value(j, a))
        return items
    if c == b'"':
        return probe_json_str(raw, a) if json_string(j, &raw) else None
    return raw.p[:raw.n] if json_skip(j, &raw) else None

cdef object probe_json_str(Slice raw, Arena* a):
    cdef Slice out
    cdef bint surrogate
    text_unescape(raw, a, &out, &surrogate)
    return out.p[:out.n].decode()

def probe_json_unescape(bytes raw):
    """(text, had a lone surrogate) of a valid literal."""
    cdef Arena a
    cdef Slice out
    cdef bint surrogate
    arena_open(&a, NULL)
    text_unescape(slice_of(raw, len(raw)), &a, &out, &surrogate)
    text = out.p[:out.n].decode()
    arena_close(&a)
    return text, bool(surrogate)

def probe_json_escape(str text):
    cdef Buf b
    cdef bytes data = text.encode()
    buf_init(&b)
    text_escape(&b, slice_of(data, len(data)))
    out = b.data[:b.len]
    buf_free(&b)
    return out
