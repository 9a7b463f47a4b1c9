# The query of a request: the values of its names. Percent-encoding, in paths too.

cdef bint percent_decode(Slice raw, Arena* a, bint plus, Slice* out) noexcept nogil:
    # %XX once, and '+' to a blank where asked. False: a bad escape, a NUL, text that is not UTF-8, or no memory.
    cdef char* text
    cdef size_t i = 0
    cdef size_t n = 0
    cdef int high, low
    cdef bint plain = memchr(raw.p, b'%', raw.n) == NULL and not (plus and memchr(raw.p, b'+', raw.n) != NULL)
    if plain:
        out[0] = raw
        return utf8_valid(raw) and memchr(raw.p, 0, raw.n) == NULL
    text = <char*>arena_alloc(a, raw.n)
    if text == NULL:
        return False
    while i < raw.n:
        if raw.p[i] == b'%':
            if i + 2 >= raw.n:
                return False
            high = hex_value(<unsigned char>raw.p[i + 1])
            low = hex_value(<unsigned char>raw.p[i + 2])
            if high < 0 or low < 0 or (high == 0 and low == 0):
                return False
            text[n] = <char>(high * 16 + low)
            i += 3
        else:
            text[n] = b' ' if plus and raw.p[i] == b'+' else raw.p[i]
            i += 1
        n += 1
    out[0] = slice_of(text, n)
    return utf8_valid(out[0])

cdef int query_find(Slice query, const char* key, Arena* a, Slice* out) noexcept nogil:
    # The first value of a key: 1 found, 0 absent, -1 found but not decodable.
    cdef const char* p = query.p
    cdef const char* end = query.p + query.n
    cdef const char* stop
    cdef const char* equal
    cdef size_t n = strlen(key)
    out[0] = slice_of(NULL, 0)
    while p < end:
        stop = <const char*>memchr(p, b'&', end - p)
        if stop == NULL:
            stop = end
        equal = <const char*>memchr(p, b'=', stop - p)
        if <size_t>((equal if equal != NULL else stop) - p) == n and memcmp(p, key, n) == 0:
            if equal == NULL:
                out[0] = slice_of(stop, 0)
                return 1
            return 1 if percent_decode(slice_of(equal + 1, stop - equal - 1), a, True, out) else -1
        p = stop + 1
    return 0

cdef bint query_int(Slice query, const char* key, Arena* a, int missing, int* out) noexcept nogil:
    # C stoi: blanks and a sign before, rubbish behind; what is no number, or none that fits, is the default. False:
    # absent.
    cdef Slice s
    cdef size_t i = 0
    cdef int64_t v = 0
    cdef bint negative = False
    cdef size_t digits = 0
    out[0] = missing
    if query_find(query, key, a, &s) != 1 or s.n == 0:
        return False
    while i < s.n and (s.p[i] == b' ' or (9 <= s.p[i] <= 13)):
        i += 1
    if i < s.n and (s.p[i] == b'-' or s.p[i] == b'+'):
        negative = s.p[i] == b'-'
        i += 1
    while i < s.n and 48 <= s.p[i] <= 57:
        v = v * 10 + (s.p[i] - 48)
        if v > 0x7fffffff:
            return False
        i += 1
        digits += 1
    if digits == 0:
        return False
    out[0] = <int>(-v if negative else v)
    return True
