# Owned, growable bytes. In: bytes and numbers. Out: the same, appended to a buffer with one owner. No locks.
# `failed` is sticky: writers append without checking. The owner checks once at the end and answers 503 if memory ran
# out.

cdef struct Buf:
    char* data
    size_t len
    size_t cap
    bint failed

cdef inline void buf_init(Buf* b) noexcept nogil:
    b.data = NULL
    b.len = 0
    b.cap = 0
    b.failed = False

cdef inline void buf_free(Buf* b) noexcept nogil:
    free(b.data)
    buf_init(b)

cdef inline void buf_clear(Buf* b) noexcept nogil:
    b.len = 0
    b.failed = False

cdef bint buf_grow(Buf* b, size_t more) noexcept nogil:
    cdef size_t want = b.len + more
    cdef size_t cap = b.cap if b.cap else 256
    while cap < want:
        cap *= 2
    cdef char* data = <char*>realloc(b.data, cap)
    if data == NULL:
        b.failed = True
        return False
    b.data = data
    b.cap = cap
    return True

cdef inline bint buf_room(Buf* b, size_t more) noexcept nogil:
    if b.len + more <= b.cap:
        return True
    return buf_grow(b, more)

cdef inline void buf_put(Buf* b, const void* p, size_t n) noexcept nogil:
    if n and buf_room(b, n):          # memcpy must not get NULL, not even for 0 bytes
        memcpy(b.data + b.len, p, n)
        b.len += n

cdef inline void buf_slice(Buf* b, Slice s) noexcept nogil:
    buf_put(b, s.p, s.n)

cdef inline void buf_text(Buf* b, const char* text) noexcept nogil:
    buf_put(b, text, strlen(text))

cdef inline void buf_byte(Buf* b, char c) noexcept nogil:
    if buf_room(b, 1):
        b.data[b.len] = c
        b.len += 1

cdef inline char* buf_reserve(Buf* b, size_t n) noexcept nogil:
    # Returns room for n bytes that the caller fills; NULL if memory ran out.
    cdef char* at
    if not buf_room(b, n):
        return NULL
    at = b.data + b.len
    b.len += n
    return at

cdef inline void buf_be32(Buf* b, uint32_t v) noexcept nogil:
    cdef uint32_t w = htobe32(v)
    buf_put(b, &w, 4)

cdef inline void buf_le16(Buf* b, uint16_t v) noexcept nogil:
    cdef uint16_t w = htole16(v)
    buf_put(b, &w, 2)

cdef inline void buf_le32(Buf* b, uint32_t v) noexcept nogil:
    cdef uint32_t w = htole32(v)
    buf_put(b, &w, 4)

cdef inline void buf_le64(Buf* b, uint64_t v) noexcept nogil:
    cdef uint64_t w = htole64(v)
    buf_put(b, &w, 8)

cdef void buf_int(Buf* b, int64_t v) noexcept nogil:
    cdef char[24] text
    cdef int i = 24
    cdef uint64_t u = <uint64_t>v if v >= 0 else <uint64_t>(-(v + 1)) + 1
    while True:
        i -= 1
        text[i] = <char>(c'0' + u % 10)
        u //= 10
        if u == 0:
            break
    if v < 0:
        i -= 1
        text[i] = b'-'
    buf_put(b, &text[i], 24 - i)

cdef inline void buf_varint(Buf* b, uint64_t v) noexcept nogil:
    while v >= 0x80:
        buf_byte(b, <char>((v & 0x7f) | 0x80))
        v >>= 7
    buf_byte(b, <char>v)
