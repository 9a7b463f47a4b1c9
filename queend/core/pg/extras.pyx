# What a record may carry besides its payload: `meta` of a row of the log has, for each record that carries any, its
# place in the row as a varint, a byte of flags and the values, lowest flag first (docs/inside/storage.md). From
# EXTRA_SUB on a value is a varint length and that many bytes, so that a reader passes over flags it does not know.

cdef inline const unsigned char* varint_read(const unsigned char* p, const unsigned char* end,
                                             uint64_t* v) noexcept nogil:
    # The position after it, NULL when cut off or longer than 10 bytes.
    cdef int shift = 0
    v[0] = 0
    while p < end and shift < 64:
        v[0] |= <uint64_t>(p[0] & 0x7f) << shift
        if not p[0] & 0x80:
            return p + 1
        p += 1
        shift += 7
    return NULL

cdef enum:
    EXTRA_TRACE = 1           # 16 bytes
    EXTRA_SUB = 2             # producer subject
    EXTRA_TEXT = 4            # original transactionId
    EXTRA_DUE = 8             # when it may be delivered: 8 bytes, big-endian, µs
    EXTRA_SEAL = 16           # id of the key the payload is sealed with
    EXTRA_HEADERS = 32        # a JSON object

    EXTRAS_KNOWN = 6

cdef struct Extras:           # in the order of the flags; empty where the record has none
    Slice trace
    Slice sub
    Slice text
    Slice due
    Slice seal
    Slice headers

cdef inline void extras_none(Extras* x) noexcept nogil:
    cdef Slice* values = <Slice*>x
    cdef int k
    for k in range(EXTRAS_KNOWN):
        values[k].n = 0

cdef inline int64_t extras_due(Extras* x) noexcept nogil:
    # Of a record that has one: 8 bytes.
    return <int64_t>be64(x.due.p)

cdef const unsigned char* extras_read(const unsigned char* p, const unsigned char* end, Extras* x) noexcept nogil:
    # One record's, from its flags on; what it has not is left as it is. The position after them, NULL when they are cut
    # off.
    cdef Slice* values = <Slice*>x
    cdef uint8_t flags
    cdef uint64_t n
    cdef int k
    if p >= end:
        return NULL
    flags = p[0]
    p += 1
    for k in range(8):
        if not flags >> k & 1:
            continue
        n = 16
        if k:
            p = varint_read(p, end, &n)
            if p == NULL:
                return NULL
        if <uint64_t>(end - p) < n:
            return NULL
        if k < EXTRAS_KNOWN:
            values[k] = slice_of(<const char*>p, n)
        p += n
    return p

cdef void extras_put(Buf* out, int place, Extras* x) noexcept nogil:
    # Nothing where the record has nothing.
    cdef Slice* values = <Slice*>x
    cdef uint8_t flags = 0
    cdef int k
    for k in range(EXTRAS_KNOWN):
        if values[k].n:
            flags |= <uint8_t>(1 << k)
    if flags == 0:
        return
    buf_varint(out, place)
    buf_byte(out, flags)
    for k in range(EXTRAS_KNOWN):
        if values[k].n:
            if k:
                buf_varint(out, values[k].n)
            buf_slice(out, values[k])
