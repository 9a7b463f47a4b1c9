# The query and the percent-encoding of a URI. In: a query or a path as it came. Out: the first value of a name,
# percent-decoded, as text or number; texts encoded for a URI. Owns nothing. No locks.

cdef bint uri_decode(Slice raw, Arena* a, bint plus, Slice* out) noexcept nogil:
    # Decodes %XX once, and '+' to a blank if asked. Returns False for a bad escape, a NUL, text that is not UTF-8, or
    # if memory ran out.
    cdef char* text
    cdef size_t i = 0
    cdef size_t n = 0
    cdef int high, low
    cdef bint plain = memchr(raw.p, b'%', raw.n) == NULL and not (plus and memchr(raw.p, b'+', raw.n) != NULL)
    if plain:
        out[0] = raw
        return text_is_utf8(raw) and memchr(raw.p, 0, raw.n) == NULL
    text = <char*>arena_alloc(a, raw.n)
    if text == NULL:
        return False
    while i < raw.n:
        if raw.p[i] == b'%':
            if i + 2 >= raw.n:
                return False
            high = slice_hex(<unsigned char>raw.p[i + 1])
            low = slice_hex(<unsigned char>raw.p[i + 2])
            if high < 0 or low < 0 or (high == 0 and low == 0):
                return False
            text[n] = <char>(high * 16 + low)
            i += 3
        else:
            text[n] = b' ' if plus and raw.p[i] == b'+' else raw.p[i]
            i += 1
        n += 1
    out[0] = slice_of(text, n)
    return text_is_utf8(out[0])

cdef inline bint uri_next(Slice* query, Slice* name, Slice* value) noexcept nogil:
    # Takes the first name of a query, and its value, as they came. Returns False at the end.
    if query.n == 0:
        return False
    value[0] = slice_cut(query, b'&')
    name[0] = slice_cut(value, b'=')
    return True

# Results of uri_find.
cdef enum QueryFound:
    QUERY_UNREADABLE = -1     # its value cannot be decoded
    QUERY_ABSENT = 0
    QUERY_FOUND = 1

cdef int uri_find(Slice query, const char* key, Arena* a, Slice* out) noexcept nogil:
    # Finds the first value of a key. Returns QUERY_*.
    cdef Slice name, value
    out[0] = slice_of(NULL, 0)
    while uri_next(&query, &name, &value):
        if slice_is(name, key):
            return QUERY_FOUND if uri_decode(value, a, True, out) else QUERY_UNREADABLE
    return QUERY_ABSENT

cdef bint uri_int(Slice s, int* out) noexcept nogil:
    # Reads a value as C stoi does: blanks and a sign before, other characters behind are allowed. Returns False if it
    # has no digits or is too large.
    cdef size_t i = 0
    cdef int64_t v = 0
    cdef bint negative = False
    cdef size_t digits = 0
    while i < s.n and (s.p[i] == b' ' or (b'\t' <= s.p[i] <= b'\r')):
        i += 1
    if i < s.n and (s.p[i] == b'-' or s.p[i] == b'+'):
        negative = s.p[i] == b'-'
        i += 1
    while i < s.n and b'0' <= s.p[i] <= b'9':
        v = v * 10 + (s.p[i] - c'0')
        if v > 0x7fffffff:
            return False
        i += 1
        digits += 1
    if digits == 0:
        return False
    out[0] = <int>(-v if negative else v)
    return True

cdef void uri_encode(Buf* b, Slice text, bint segment) noexcept nogil:
    # Writes a text, escaping what may not stand in a URI (segment: in one name of its path). The result is safe in a
    # JSON text, too.
    cdef const char* digits = b"0123456789ABCDEF"
    cdef const char* marks = b"-._~:/?@!$&'()*+,;=%"
    cdef size_t i
    cdef unsigned char c
    for i in range(text.n):
        c = <unsigned char>text.p[i]
        if (b'0' <= c <= b'9' or b'A' <= c <= b'Z' or b'a' <= c <= b'z'
                or (0 < c < 128 and memchr(marks, c, 4 if segment else 20) != NULL)):
            buf_byte(b, <char>c)
        else:
            buf_byte(b, b'%')
            buf_byte(b, digits[c >> 4])
            buf_byte(b, digits[c & 15])
