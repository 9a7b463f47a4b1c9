# Writes FlatBuffers forwards: a table precedes its targets, and a reference is filled in when its target begins. In:
# sizes and values. Out: bytes in a buffer `b`. Owns nothing. No locks.
# Positions are within `b`. `base` is the begin of this flatbuffer, a multiple of 8; alignment counts from it. All
# numbers are little-endian, like the supported machines.

cdef enum:
    FBS_FIELDS = 7           # most fields of a table

cdef struct FbsTable:
    size_t at                 # position of the table
    size_t[FBS_FIELDS] field # positions of its fields, 0: absent

cdef inline void fbs_pad(Buf* b, size_t base, size_t n) noexcept nogil:
    # Appends zeros up to a multiple of n.
    while (b.len - base) % n and not b.failed:
        buf_byte(b, 0)

cdef inline void fbs_int(Buf* b, size_t at, int64_t v, size_t n) noexcept nogil:
    # Sets a number of n bytes.
    if not b.failed:
        memcpy(b.data + at, &v, n)

cdef inline void fbs_refer(Buf* b, size_t slot) noexcept nogil:
    # Sets the reference at `slot` to the present end of the buffer.
    fbs_int(b, slot, <int64_t>(b.len - slot), 4)

cdef void fbs_table(Buf* b, size_t base, size_t slot, const char* sizes, FbsTable* t) noexcept nogil:
    # Writes a zeroed table and sets the reference at `slot` to it. sizes: a digit per field: 0 absent, otherwise its
    # bytes (a reference: 4).
    cdef int n = <int>strlen(sizes)
    cdef uint16_t[FBS_FIELDS + 2] vtable
    cdef size_t end = 4
    cdef size_t size
    cdef size_t vtable_at
    cdef int i
    memset(t, 0, sizeof(FbsTable))
    for i in range(n):
        size = sizes[i] - c'0'
        vtable[2 + i] = 0
        if size:
            end = (end + size - 1) // size * size
            vtable[2 + i] = <uint16_t>end
            end += size
    vtable[0] = <uint16_t>(4 + 2 * n)
    vtable[1] = <uint16_t>end
    fbs_pad(b, base, 2)
    vtable_at = b.len
    buf_put(b, vtable, 4 + 2 * n)
    fbs_pad(b, base, 8)
    fbs_refer(b, slot)
    t.at = b.len
    for i in range(<int>end):
        buf_byte(b, 0)
    fbs_int(b, t.at, <int64_t>(t.at - vtable_at), 4)
    for i in range(n):
        if vtable[2 + i]:
            t.field[i] = t.at + vtable[2 + i]

cdef void fbs_string(Buf* b, size_t base, size_t slot, Slice text) noexcept nogil:
    fbs_pad(b, base, 4)
    fbs_refer(b, slot)
    buf_le32(b, <uint32_t>text.n)
    buf_slice(b, text)
    buf_byte(b, 0)

cdef size_t fbs_vector(Buf* b, size_t base, size_t slot, uint32_t n, size_t size) noexcept nogil:
    # Writes a vector of n zeroed elements of 4 bytes or a multiple of 8. Returns the position of the first.
    cdef size_t at
    cdef size_t i
    while (b.len + 4 - base) % (4 if size == 4 else 8) and not b.failed:
        buf_byte(b, 0)
    fbs_refer(b, slot)
    buf_le32(b, n)
    at = b.len
    for i in range(n * size):
        buf_byte(b, 0)
    return at
