# Fields of a record besides its payload. In: `meta` of a row of the log, or the fields. Out: the fields, or their
# bytes. Owns nothing. No locks. Format: docs/inside/storage.md.
# For each record with such fields, `meta` holds its place in the row as a varint, a byte of flags, and the values. The
# lowest flag's value comes first. From the second flag on a value is a varint length and its bytes, so that a reader
# can skip unknown flags.

cdef inline const unsigned char* extras_varint(const unsigned char* p, const unsigned char* end,
                                               uint64_t* v) noexcept nogil:
    # Returns the position after the varint; NULL if it is cut off or longer than 10 bytes.
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
    EXTRAS_KNOWN = 6

cdef struct Extras:           # in the order of the flags; absent fields are empty
    Slice trace               # 16 bytes
    Slice sub                 # producer subject
    Slice text                # original transactionId
    Slice due                 # delivery time: 8 bytes, big-endian, µs
    Slice seal                # id of the key that encrypts the payload
    Slice headers             # a JSON object

cdef inline void extras_none(Extras* x) noexcept nogil:
    cdef Slice* values = <Slice*>x
    cdef int k
    for k in range(EXTRAS_KNOWN):
        values[k].n = 0

cdef inline int64_t extras_due(Extras* x) noexcept nogil:
    # Returns the delivery time. Requires a record that has one: 8 bytes.
    return <int64_t>be64(x.due.p)

cdef const unsigned char* extras_read(const unsigned char* p, const unsigned char* end, Extras* x) noexcept nogil:
    # Reads one record's extras, from the flags on; absent fields stay unchanged. Returns the position after them, NULL
    # if they are cut off.
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
            p = extras_varint(p, end, &n)
            if p == NULL:
                return NULL
        if <uint64_t>(end - p) < n:
            return NULL
        if k < EXTRAS_KNOWN:
            values[k] = slice_of(<const char*>p, n)
        p += n
    return p

cdef void extras_put(Buf* out, int place, Extras* x) noexcept nogil:
    # Appends the extras of the record at `place`; appends nothing if all are absent.
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
