# Checks which characters and forms CloudEvents 1.0 allows in attributes (text, URI, media type, time). Checks and
# writes base64 of binary data. In: a value. Out: whether it is valid, or its bytes.

cdef bint event_clean(Slice text) noexcept nogil:
    # Returns True if a CloudEvents String may hold the text: no control characters.
    cdef size_t i
    cdef unsigned char c
    for i in range(text.n):
        c = <unsigned char>text.p[i]
        if c < b' ' or c == b'\x7f' or (c == 0xc2 and i + 1 < text.n and <unsigned char>text.p[i + 1] < 0xa0):
            return False
    return True

cdef bint event_uri(Slice text, bint absolute) noexcept nogil:
    # Returns True for a URI reference, or (absolute) a URI: allowed characters, complete escapes, a scheme.
    cdef size_t i
    cdef unsigned char c
    for i in range(text.n):
        c = <unsigned char>text.p[i]
        if c <= b' ' or memchr(b"\"<>\\^`{|}", c, 9) != NULL:
            return False
        if c == b'%' and (i + 2 >= text.n or hex_value(<unsigned char>text.p[i + 1]) < 0
                          or hex_value(<unsigned char>text.p[i + 2]) < 0):
            return False
    if not absolute:
        return text.n > 0
    for i in range(text.n):
        c = <unsigned char>text.p[i]
        if c == b':':
            return i > 0
        if not (b'a' <= (c | LETTER_SMALL) <= b'z'
                or (i and (b'0' <= c <= b'9' or c == b'+' or c == b'-' or c == b'.'))):
            return False
    return False

cdef bint event_media_type(Slice text) noexcept nogil:
    # Returns True for type/subtype, with or without parameters.
    cdef size_t i = 0
    cdef int parts
    for parts in range(2):
        if i >= text.n or not http_class[<unsigned char>text.p[i]] & HTTP_TOKEN:
            return False
        while i < text.n and http_class[<unsigned char>text.p[i]] & HTTP_TOKEN:
            i += 1
        if parts == 0:
            if i >= text.n or text.p[i] != b'/':
                return False
            i += 1
    return i == text.n or text.p[i] == b';' or text.p[i] == b' '

cdef bint event_time(Slice text) noexcept nogil:
    # Returns True for RFC 3339: date, time and zone.
    cdef const char* form = b"0000-00-00T00:00:00"
    cdef size_t i
    cdef int64_t us
    if text.n < 20:
        return False
    for i in range(19):
        if form[i] == b'0' and not b'0' <= text.p[i] <= b'9':
            return False
        if form[i] != b'0' and text.p[i] != form[i] and not (i == 10 and text.p[i] == b't'):
            return False
    i = 19
    if text.p[i] == b'.':
        i += 1
        if i >= text.n or not b'0' <= text.p[i] <= b'9':
            return False
        while i < text.n and b'0' <= text.p[i] <= b'9':
            i += 1
    if i + 1 == text.n and (text.p[i] | LETTER_SMALL) == b'z':
        return time_parse(slice_of(text.p, 19), &us)
    return (i + 6 == text.n and (text.p[i] == b'+' or text.p[i] == b'-') and b'0' <= text.p[i + 1] <= b'2'
            and b'0' <= text.p[i + 2] <= b'9' and text.p[i + 3] == b':'
            and b'0' <= text.p[i + 4] <= b'5' and b'0' <= text.p[i + 5] <= b'9'
            and time_parse(slice_of(text.p, 19), &us))

cdef bint event_base64(Slice text) noexcept nogil:
    cdef size_t i
    cdef size_t n = text.n
    cdef unsigned char c
    if n % 4:
        return False
    if n and text.p[n - 1] == b'=':
        n -= 1
        if text.p[n - 1] == b'=':
            n -= 1
    for i in range(n):
        c = <unsigned char>text.p[i]
        if not (b'a' <= (c | LETTER_SMALL) <= b'z' or b'0' <= c <= b'9' or c == b'+' or c == b'/'):
            return False
    return True

cdef void base64_put(Buf* b, Slice bytes) noexcept nogil:
    # Appends bytes as a JSON text of base64.
    cdef const char* digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    cdef char* at = buf_reserve(b, 2 + (bytes.n + 2) // 3 * 4)
    cdef size_t i = 0
    cdef uint32_t w
    cdef size_t left
    if at == NULL:
        return
    at[0] = b'"'
    at += 1
    while i < bytes.n:
        left = bytes.n - i
        w = <uint32_t><unsigned char>bytes.p[i] << 16
        if left > 1:
            w |= <uint32_t><unsigned char>bytes.p[i + 1] << 8
        if left > 2:
            w |= <unsigned char>bytes.p[i + 2]
        at[0] = digits[w >> 18]
        at[1] = digits[w >> 12 & 63]
        at[2] = digits[w >> 6 & 63] if left > 1 else b'='
        at[3] = digits[w & 63] if left > 2 else b'='
        at += 4
        i += 3
    at[0] = b'"'
