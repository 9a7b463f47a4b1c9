# UTF-8 and JSON string literals. In: a literal with its quotes. Out: its text in UTF-8; and back, also for UUIDs
# and times. Owns nothing. No locks.

# ---- UTF-8 -----------------------------------------------------------------------------------------------------------

cdef inline int text_utf8_length(const char* text, size_t n) noexcept nogil:
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

cdef bint text_is_utf8(Slice s) noexcept nogil:
    # Returns True if the text is well-formed. NUL and other controls are allowed.
    cdef size_t i = 0
    cdef int k
    while i < s.n:
        if i + 16 <= s.n and wide_high(s.p + i) == 0:
            i += 16
            continue
        k = text_utf8_length(s.p + i, s.n - i)
        if k == 0:
            return False
        i += k
    return True

cdef inline char* text_utf8_put(char* out, uint32_t c) noexcept nogil:
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

# ---- string literals -------------------------------------------------------------------------------------------------

# Letters of the escapes of the control characters from \b to \r; \v has none.
cdef const char* TEXT_ESCAPES = b"btn\0fr"

cdef bint text_unescape(Slice raw, Arena* a, Slice* out, bint* had_surrogate) noexcept nogil:
    # Reads a literal that json_string or json_member returned, quotes included. out: its UTF-8 text, inside raw if it
    # has no escape, else in the arena. A lone surrogate becomes U+FFFD and sets had_surrogate (may be NULL). Returns
    # False only if memory ran out.
    cdef const char* p = raw.p + 1
    cdef const char* end = raw.p + raw.n - 1
    cdef const char* slash = <const char*>memchr(p, b'\\', end - p)
    cdef const char* mark
    cdef char* at
    cdef char* text
    cdef size_t n
    cdef uint32_t c = 0
    cdef uint32_t low = 0
    cdef char e
    if had_surrogate != NULL:
        had_surrogate[0] = False
    if slash == NULL:
        out[0] = slice_of(p, end - p)
        return True
    text = <char*>arena_alloc(a, end - p)
    if text == NULL:
        return False
    at = text
    while slash != NULL:
        n = slash - p
        memcpy(at, p, n)
        at += n
        e = slash[1]
        p = slash + 2
        if e == b'u':
            scalar_hex4(p, &c)
            p += 4
            if 0xd800 <= c < 0xe000:
                if (c < 0xdc00 and end - p >= 6 and p[0] == b'\\' and p[1] == b'u' and scalar_hex4(p + 2, &low)
                        and 0xdc00 <= low < 0xe000):
                    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00)
                    p += 6
                else:
                    c = 0xfffd
                    if had_surrogate != NULL:
                        had_surrogate[0] = True
            at = text_utf8_put(at, c)
        else:
            mark = <const char*>memchr(TEXT_ESCAPES, e, 6)
            at[0] = e if mark == NULL else <char>(c'\b' + (mark - TEXT_ESCAPES))
            at += 1
        slash = <const char*>memchr(p, b'\\', end - p)
    n = end - p
    memcpy(at, p, n)
    out[0] = slice_of(text, at + n - text)
    return True

cdef void text_escape(Buf* b, Slice text) noexcept nogil:
    # Appends the literal of valid UTF-8 text, quotes included; other scripts stay as they are.
    cdef const char* hexes = b"0123456789abcdef"
    cdef size_t i = 0
    cdef size_t k
    cdef unsigned char c
    cdef char[6] e
    if not buf_room(b, text.n + 2):
        return
    buf_byte(b, b'"')
    while i < text.n:
        k = scalar_plain(text.p + i, text.n - i)
        while i + k < text.n and <unsigned char>text.p[i + k] >= 0x80:
            k += 1
        buf_put(b, text.p + i, k)
        i += k
        if i >= text.n:
            break
        c = <unsigned char>text.p[i]
        if c == b'"' or c == b'\\' or c < b' ':
            e[0] = b'\\'
            if c >= b' ':
                e[1] = <char>c
            elif b'\b' <= c <= b'\r' and c != b'\v':
                e[1] = TEXT_ESCAPES[c - c'\b']
            else:
                e[1] = b'u'
                e[2] = b'0'
                e[3] = b'0'
                e[4] = hexes[c >> 4]
                e[5] = hexes[c & 15]
                buf_put(b, e, 6)
                i += 1
                continue
            buf_put(b, e, 2)
            i += 1
    buf_byte(b, b'"')

# ---- values as literals ----------------------------------------------------------------------------------------------

cdef inline void text_uuid(Buf* b, const unsigned char* id) noexcept nogil:
    # Appends a literal with its quotes.
    cdef char* at = buf_reserve(b, 38)
    if at != NULL:
        at[0] = b'"'
        uuid_format(id, at + 1)
        at[37] = b'"'

cdef inline void text_time(Buf* b, int64_t us, int digits) noexcept nogil:
    cdef char* at = buf_reserve(b, 23 + digits)
    if at != NULL:
        at[0] = b'"'
        clock_format(us, digits, at + 1)
        at[22 + digits] = b'"'
