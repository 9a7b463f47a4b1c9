# Where a string, number, true, false or null ends, or what is wrong with it. In: a cursor, and the place p at which the
# value begins. Out: the byte after the value; the bytes stay as they were written. Owns nothing. No locks.

cdef const char* scalar_fail(Json* j, const char* p, const char* error) noexcept nogil:
    # Keeps the first error. Returns NULL, so that callers can return it.
    json_fail(j, p, error)
    return NULL

# ---- strings ---------------------------------------------------------------------------------------------------------

cdef inline size_t scalar_plain(const char* p, size_t n) noexcept nogil:
    # Returns how many bytes from p on are printable ASCII other than quote and backslash: they need no check inside
    # strings.
    cdef size_t i = 0
    cdef unsigned int m
    cdef unsigned char c
    while i + 16 <= n:
        m = wide_special(p + i)
        if m:
            return i + <size_t>wide_first(m)
        i += 16
    while i < n:
        c = <unsigned char>p[i]
        if c < b' ' or c >= 0x80 or c == b'"' or c == b'\\':
            return i
        i += 1
    return n

cdef inline const char* scalar_string_end(Json* j, const char* p) noexcept nogil:
    # Returns the byte after the closing quote, or NULL with j.error set. Requires p at the opening quote.
    cdef unsigned int m
    if j.end - p > 16:
        # most strings are short and plain: one look finds the closing quote
        m = wide_special(p + 1)
        if m and p[1 + wide_first(m)] == b'"':
            return p + 2 + wide_first(m)
    elif j.end - j.begin >= 16:
        # near the end of the text the look begins before p
        m = wide_special(j.end - 16) >> (17 - (j.end - p))
        if m and p[1 + wide_first(m)] == b'"':
            return p + 2 + wide_first(m)
    return scalar_string_rest(j, p)

cdef const char* scalar_string_rest(Json* j, const char* p) noexcept nogil:
    # Returns what scalar_string_end returns, for every string.
    cdef const char* end = j.end
    cdef unsigned char c
    cdef int k
    p += 1
    while True:
        p += scalar_plain(p, end - p)
        if p >= end:
            return scalar_fail(j, p, b"unterminated string")
        c = <unsigned char>p[0]
        if c == b'"':
            return p + 1
        if c == b'\\':
            j.escaped = True
            if end - p < 2:
                return scalar_fail(j, p, b"unterminated string")
            c = <unsigned char>p[1]
            if c == b'u':
                if end - p < 6 or not scalar_hex4(p + 2, NULL):
                    return scalar_fail(j, p, b"invalid \\u escape")
                p += 6
            elif (c == b'"' or c == b'\\' or c == b'/' or c == b'n' or c == b't' or c == b'r' or c == b'b'
                  or c == b'f'):
                p += 2
            else:
                return scalar_fail(j, p, b"invalid escape")
        elif c < b' ':
            return scalar_fail(j, p, b"control character in string")
        else:
            # text in other scripts comes in runs
            while True:
                k = text_utf8_length(p, end - p)
                if k == 0:
                    return scalar_fail(j, p, b"invalid UTF-8")
                p += k
                if p >= end or <unsigned char>p[0] < 0x80:
                    break

cdef inline bint scalar_hex4(const char* p, uint32_t* value) noexcept nogil:
    cdef int a = slice_hex(<unsigned char>p[0])
    cdef int b = slice_hex(<unsigned char>p[1])
    cdef int c = slice_hex(<unsigned char>p[2])
    cdef int d = slice_hex(<unsigned char>p[3])
    if (a | b | c | d) < 0:
        return False
    if value != NULL:
        value[0] = <uint32_t>(a << 12 | b << 8 | c << 4 | d)
    return True

# ---- numbers, and every scalar ---------------------------------------------------------------------------------------

cdef inline bint scalar_digit(const char* p, const char* end) noexcept nogil:
    return p < end and b'0' <= p[0] <= b'9'

cdef inline const char* scalar_digits(const char* p, const char* end) noexcept nogil:
    # Returns the first byte that is not a digit, or end.
    cdef unsigned int m
    while end - p >= 16:
        m = wide_no_digit(p)
        if m:
            return p + wide_first(m)
        p += 16
    while p < end and b'0' <= p[0] <= b'9':
        p += 1
    return p

cdef const char* scalar_number_end(Json* j, const char* p) noexcept nogil:
    # Returns the byte after the number, or NULL with j.error set. Requires p at a minus sign or a digit.
    cdef const char* end = j.end
    if p[0] == b'-':
        p += 1
    if not scalar_digit(p, end):
        return scalar_fail(j, p, b"invalid number")
    if p[0] == b'0':
        p += 1
    else:
        p = scalar_digits(p, end)
    if p < end and p[0] == b'.':
        p += 1
        if not scalar_digit(p, end):
            return scalar_fail(j, p, b"invalid number")
        p = scalar_digits(p, end)
    if p < end and (p[0] == b'e' or p[0] == b'E'):
        p += 1
        if p < end and (p[0] == b'+' or p[0] == b'-'):
            p += 1
        if not scalar_digit(p, end):
            return scalar_fail(j, p, b"invalid number")
        p = scalar_digits(p, end)
    return p

cdef inline const char* scalar_end(Json* j, const char* p) noexcept nogil:
    # Returns the byte after the string, number or literal at p < end, or NULL with j.error set.
    cdef char c = p[0]
    cdef size_t n = <size_t>(j.end - p)
    if c == b'"':
        return scalar_string_end(j, p)
    if c == b'-' or b'0' <= c <= b'9':
        return scalar_number_end(j, p)
    if c == b't' and n >= 4 and memcmp(p, b"true", 4) == 0:
        return p + 4
    if c == b'f' and n >= 5 and memcmp(p, b"false", 5) == 0:
        return p + 5
    if c == b'n' and n >= 4 and memcmp(p, b"null", 4) == 0:
        return p + 4
    return scalar_fail(j, p, b"unexpected byte")
