# Checks whether a text is well-formed UTF-8, and writes characters.

cdef inline int utf8_length(const char* text, size_t n) noexcept nogil:
    # Returns the bytes of the well-formed UTF-8 character at text, 0 if there is none. Overlong forms, surrogates and
    # numbers past U+10FFFF are not well-formed.
    cdef const unsigned char* p = <const unsigned char*>text
    cdef unsigned char c
    if n == 0:
        return 0
    c = p[0]
    if c < 0x80:
        return 1
    if c < 0xc2 or n < 2 or (p[1] & 0xc0) != 0x80:
        return 0
    if c < 0xe0:
        return 2
    if n < 3 or (p[2] & 0xc0) != 0x80:
        return 0
    if c < 0xf0:
        if (c == 0xe0 and p[1] < 0xa0) or (c == 0xed and p[1] > 0x9f):
            return 0
        return 3
    if n < 4 or (p[3] & 0xc0) != 0x80 or c > 0xf4 or (c == 0xf0 and p[1] < 0x90) or (c == 0xf4 and p[1] > 0x8f):
        return 0
    return 4

cdef bint utf8_valid(Slice s) noexcept nogil:
    # Returns True if the text is well-formed. NUL and other controls are allowed.
    cdef size_t i = 0
    cdef int k
    while i < s.n:
        if i + 16 <= s.n and wide_high(s.p + i) == 0:
            i += 16
            continue
        k = utf8_length(s.p + i, s.n - i)
        if k == 0:
            return False
        i += k
    return True

cdef inline char* utf8_put(char* out, uint32_t c) noexcept nogil:
    if c < 0x80:
        out[0] = <char>c
        return out + 1
    if c < 0x800:
        out[0] = <char>(0xc0 | c >> 6)
        out[1] = <char>(0x80 | (c & 0x3f))
        return out + 2
    if c < 0x10000:
        out[0] = <char>(0xe0 | c >> 12)
        out[1] = <char>(0x80 | (c >> 6 & 0x3f))
        out[2] = <char>(0x80 | (c & 0x3f))
        return out + 3
    out[0] = <char>(0xf0 | c >> 18)
    out[1] = <char>(0x80 | (c >> 12 & 0x3f))
    out[2] = <char>(0x80 | (c >> 6 & 0x3f))
    out[3] = <char>(0x80 | (c & 0x3f))
    return out + 4
