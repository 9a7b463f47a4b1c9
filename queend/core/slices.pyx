# JSON taken apart one level at a time, its values left as they were written: for the routes of the control plane that hand them on.

def json_slices(bytes text):
    """The members of an object, {name: bytes of the value}, or the elements of an array, [bytes]; None for another value.

    Of members named twice the last counts. ValueError, saying where, for what is not strict JSON in strict UTF-8, nested
    deeper than 512 or has more than 250 000 of them. The text is read without the interpreter's lock.
    """
    cdef Json j
    cdef Slice whole = slice_of(text, len(text))
    cdef Buf found
    cdef Slice* at
    cdef char[240] why
    cdef dict members = {}
    cdef list elements = []
    cdef size_t i, n
    cdef int c
    buf_init(&found)
    with nogil:
        json_open(&j, whole, JSON_DEPTH)
        c = json_peek(&j)
        n = json_taken(&j, c, &found)
    try:
        if n > VALUES_MOST:
            raise ValueError(f"more than {VALUES_MOST} {'members' if c == b'{' else 'elements'}")
        if j.error != NULL or not json_end(&j):
            json_explain(&j, why, sizeof(why))
            raise ValueError((<bytes>why).decode())
        if found.failed:
            raise MemoryError()
        at = <Slice*>found.data
        if c == b'{':
            for i in range(n):
                members[key_text(at[2 * i])] = at[2 * i + 1].p[:at[2 * i + 1].n]
        else:
            for i in range(n):
                elements.append(at[2 * i + 1].p[:at[2 * i + 1].n])
    finally:
        buf_free(&found)
    return members if c == b'{' else elements if c == b'[' else None

def json_is_crowded(bytes text):
    """Has it more values than the control plane parses?"""
    return json_crowded(slice_of(text, len(text)))

cdef size_t json_taken(Json* j, int c, Buf* found) noexcept nogil:
    # Name and value of each member or element, in pairs; how many, VALUES_MOST + 1 where there are more.
    cdef Slice[2] pair
    cdef bint first = True
    cdef size_t n = 0
    pair[0] = slice_of(NULL, 0)
    if c != b'{' and c != b'[':
        json_skip(j, NULL)
        return 0
    json_enter(j, <char>c)
    while n <= VALUES_MOST and (json_member(j, &first, &pair[0]) if c == b'{' else json_element(j, &first)):
        if not json_skip(j, &pair[1]):
            break
        buf_put(found, pair, sizeof(pair))
        n += 1
    return n

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
