# Reading one row of the log: `n` records whose ids, payloads and extras are sliced without copying. Formats in
# docs/storage.md: body = codec byte, n sizes as varints, payloads; meta = version byte, then per record with extras its
# index, flags and values.

cdef enum:
    BODY_V1 = 0x10
    META_V1 = 0x10

cdef struct BatchRow:
    int n
    int i                     # record that comes next
    const unsigned char* ids
    const unsigned char* sizes
    const unsigned char* body
    const unsigned char* body_end
    const unsigned char* meta
    const unsigned char* meta_end
    int64_t meta_index        # record the meta cursor stands before, -1 none left

cdef inline const unsigned char* varint_read(const unsigned char* p, const unsigned char* end, uint64_t* v) noexcept nogil:
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

cdef bint batchrow_open(BatchRow* b, Slice ids, Slice body, Slice meta, int n) noexcept nogil:
    # False when the row is not in a format of this version or contradicts itself.
    cdef const unsigned char* p
    cdef uint64_t size
    cdef uint64_t total = 0
    cdef int i
    if n <= 0 or ids.n != <size_t>n * 16 or body.n < 1 or <unsigned char>body.p[0] != BODY_V1:
        return False
    b.n = n
    b.i = 0
    b.ids = <const unsigned char*>ids.p
    p = <const unsigned char*>body.p + 1
    b.body_end = <const unsigned char*>body.p + body.n
    b.sizes = p
    for i in range(n):
        p = varint_read(p, b.body_end, &size)
        if p == NULL or size > body.n:
            return False
        total += size
    b.body = p
    if total != <uint64_t>(b.body_end - p):
        return False
    b.meta_index = -1
    if meta.n:
        if <unsigned char>meta.p[0] != META_V1:
            return False
        b.meta = <const unsigned char*>meta.p + 1
        b.meta_end = <const unsigned char*>meta.p + meta.n
        batchrow_meta_index(b)
    return True

cdef inline void batchrow_meta_index(BatchRow* b) noexcept nogil:
    cdef uint64_t v
    b.meta_index = -1
    if b.meta < b.meta_end:
        b.meta = varint_read(b.meta, b.meta_end, &v)
        if b.meta != NULL and b.meta < b.meta_end:
            b.meta_index = <int64_t>v

cdef bint batchrow_meta(BatchRow* b, Slice* trace, Slice* sub, Slice* text) noexcept nogil:
    # The extras at the meta cursor; moves it on.
    cdef uint8_t flags = b.meta[0]
    cdef uint64_t n
    b.meta += 1
    if flags & 1:
        if b.meta_end - b.meta < 16:
            return False
        trace[0] = slice_of(<const char*>b.meta, 16)
        b.meta += 16
    if flags & 2:
        b.meta = varint_read(b.meta, b.meta_end, &n)
        if b.meta == NULL or <uint64_t>(b.meta_end - b.meta) < n:
            return False
        sub[0] = slice_of(<const char*>b.meta, n)
        b.meta += n
    if flags & 4:
        b.meta = varint_read(b.meta, b.meta_end, &n)
        if b.meta == NULL or <uint64_t>(b.meta_end - b.meta) < n:
            return False
        text[0] = slice_of(<const char*>b.meta, n)
        b.meta += n
    batchrow_meta_index(b)
    return True

cdef bint batchrow_record(BatchRow* b, const unsigned char** id, Slice* payload, Slice* trace, Slice* sub, Slice* text) noexcept nogil:
    # The next record. trace: 16 bytes or empty; text: the original transactionId when the id is not its UUID.
    cdef uint64_t size
    trace.n = 0
    sub.n = 0
    text.n = 0
    if b.i >= b.n:
        return False
    id[0] = b.ids + 16 * <size_t>b.i
    b.sizes = varint_read(b.sizes, b.body_end, &size)
    payload[0] = slice_of(<const char*>b.body, size)
    b.body += size
    if b.meta_index == b.i:
        if not batchrow_meta(b, trace, sub, text):
            return False
    b.i += 1
    return True

cdef void batchrow_seek(BatchRow* b, int i) noexcept nogil:
    # Skips records before i.
    cdef const unsigned char* id
    cdef Slice payload, trace, sub, text
    while b.i < i and batchrow_record(b, &id, &payload, &trace, &sub, &text):
        pass
