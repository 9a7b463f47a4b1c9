# Reads the values of a column of an Arrow record batch. In: its buffers. Out: values. A column is checked completely
# when it is opened, so that reading cannot fail.

cdef enum ArrowKind:
    ARROW_NULL = 0            # every value is missing
    ARROW_SMALL               # utf8, binary: offsets of 32 bits
    ARROW_LARGE               # large_utf8, large_binary: offsets of 64 bits
    ARROW_INDEX               # places in a dictionary
    ARROW_WHOLE               # whole numbers of 64 bits

cdef struct ArrowColumn:
    int kind
    int64_t n
    const unsigned char* valid        # one bit per value, NULL: all are present
    const char* offsets               # n + 1 offsets; of ARROW_INDEX: the places; of ARROW_WHOLE: the values
    const char* data
    int width                         # of a place: 1, 2, 4, 8
    bint is_signed
    ArrowDictionary* dictionary

cdef struct ArrowChunk:
    # The values that one message added to a dictionary.
    ArrowChunk* next
    ArrowColumn values
    int64_t begin

cdef struct ArrowDictionary:
    ArrowDictionary* next
    int64_t id
    int kind                  # of the values
    ArrowChunk* first
    ArrowChunk* last
    int64_t n
    int chunks

cdef inline int64_t arrow_offset(const ArrowColumn* c, int64_t i) noexcept nogil:
    if c.kind == ARROW_SMALL:
        return <int32_t>le32(c.offsets + 4 * i)
    return <int64_t>le64(c.offsets + 8 * i)

cdef inline int64_t arrow_place(const ArrowColumn* c, int64_t i) noexcept nogil:
    # Returns a place in the dictionary; a negative one is invalid.
    cdef const char* p = c.offsets + i * c.width
    if c.width == 1:
        return <int8_t>p[0] if c.is_signed else <uint8_t>p[0]
    if c.width == 2:
        return <int16_t>le16(p) if c.is_signed else le16(p)
    if c.width == 4:
        return <int32_t>le32(p) if c.is_signed else le32(p)
    return <int64_t>le64(p)

cdef inline bint arrow_missing(const ArrowColumn* c, int64_t i) noexcept nogil:
    return c.kind == ARROW_NULL or (c.valid != NULL and (c.valid[i >> 3] >> (i & 7) & 1) == 0)

cdef const char* arrow_check(ArrowColumn* c, Slice offsets, Slice data) noexcept nogil:
    # Takes the buffers of a column whose kind, n, width and validity are known. Returns NULL, or what is wrong with
    # them.
    cdef int64_t i, at, before
    cdef size_t width = c.width if c.kind == ARROW_INDEX else 4 if c.kind == ARROW_SMALL else 8
    c.offsets = offsets.p
    c.data = data.p
    if c.n == 0 or c.kind == ARROW_NULL:
        return NULL
    if offsets.n // width < <uint64_t>c.n + (c.kind != ARROW_INDEX and c.kind != ARROW_WHOLE):
        return b"is shorter than its rows"
    if c.kind == ARROW_WHOLE:
        return NULL
    if c.kind == ARROW_INDEX:
        for i in range(c.n):
            if not arrow_missing(c, i):
                at = arrow_place(c, i)
                if at < 0 or at >= c.dictionary.n:
                    return b"points outside of its dictionary"
        return NULL
    before = arrow_offset(c, 0)
    if before < 0:
        return b"has offsets outside of its data"
    for i in range(1, c.n + 1):
        at = arrow_offset(c, i)
        if at < before:
            return b"has offsets that do not rise"
        before = at
    if <uint64_t>before > data.n:
        return b"has offsets outside of its data"
    return NULL

cdef inline Slice arrow_plain(const ArrowColumn* c, int64_t i) noexcept nogil:
    cdef int64_t at = arrow_offset(c, i)
    return slice_of(c.data + at, <size_t>(arrow_offset(c, i + 1) - at))

cdef Slice arrow_entry(const ArrowDictionary* d, int64_t at) noexcept nogil:
    # Returns a value of a dictionary; p NULL: missing.
    cdef ArrowChunk* chunk = d.first
    while at >= chunk.begin + chunk.values.n:
        chunk = chunk.next
    at -= chunk.begin
    return slice_of(NULL, 0) if arrow_missing(&chunk.values, at) else arrow_plain(&chunk.values, at)

cdef inline Slice arrow_value(const ArrowColumn* c, int64_t i) noexcept nogil:
    # Returns a value of a column; p NULL: missing.
    if arrow_missing(c, i):
        return slice_of(NULL, 0)
    if c.kind != ARROW_INDEX:
        return arrow_plain(c, i)
    return arrow_entry(c.dictionary, arrow_place(c, i))
