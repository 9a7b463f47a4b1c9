# JSON taken apart one level at a time, its values left as they were written: for the routes of the control plane that hand them on.

def json_slices(bytes text):
    """The members of an object, {name: bytes of the value}, or the elements of an array, [bytes]; None for another value.

    Of members named twice the last counts. ValueError, saying where, for what is not strict JSON in strict UTF-8 or nested
    deeper than 512.
    """
    cdef Json j
    cdef Slice key
    cdef Slice value
    cdef bint first = True
    cdef char[240] why
    cdef dict members = {}
    cdef list elements = []
    cdef int c
    json_open(&j, slice_of(text, len(text)), JSON_DEPTH)
    c = json_peek(&j)
    if c == b'{':
        json_enter(&j, b'{')
        while json_member(&j, &first, &key):
            if not json_skip(&j, &value):
                break
            members[key_text(key)] = value.p[:value.n]
    elif c == b'[':
        json_enter(&j, b'[')
        while json_element(&j, &first):
            if not json_skip(&j, &value):
                break
            elements.append(value.p[:value.n])
    else:
        json_skip(&j, NULL)
    if j.error != NULL or not json_end(&j):
        json_explain(&j, why, sizeof(why))
        raise ValueError((<bytes>why).decode())
    return members if c == b'{' else elements if c == b'[' else None

cdef str key_text(Slice raw):
    # raw: the literal with its quotes.
    cdef Arena a
    cdef Slice text
    if memchr(raw.p, b'\\', raw.n) == NULL:
        return raw.p[1:raw.n - 1].decode()
    arena_open(&a, NULL)
    try:
        if not json_unescape(raw, &a, &text, NULL):
            raise MemoryError()
        return text.p[:text.n].decode()
    finally:
        arena_close(&a)
