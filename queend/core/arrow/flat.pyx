# Reads FlatBuffers in place: tables, strings and vectors of unchecked metadata. In: bytes. Out: fields. Every position
# is checked before it is read; no alignment is needed. Owns nothing. No locks.

cdef struct FlatTable:
    const char* p             # the buffer that it lies in
    size_t n                  # bytes of the buffer
    size_t at                 # of the table; 0 means no table, because the buffer begins with an offset
    size_t vtable
    size_t slots              # bytes of the vtable
    size_t size               # bytes of the table

cdef bint flat_table(const char* p, size_t n, size_t at, FlatTable* t) noexcept nogil:
    # Opens the table at this position. Returns False unless table and vtable lie inside the buffer.
    cdef int64_t vtable
    t.p = p
    t.n = n
    t.at = 0
    if n < 4 or at > n - 4:
        return False
    vtable = <int64_t>at - <int32_t>le32(p + at)
    if vtable < 0 or <uint64_t>vtable > n - 4:
        return False
    t.vtable = <size_t>vtable
    t.slots = le16(p + vtable)
    t.size = le16(p + vtable + 2)
    if t.slots < 4 or t.slots > n - t.vtable or t.size < 4 or t.size > n - at:
        return False
    t.at = at
    return True

cdef const char* flat_field(FlatTable* t, int slot, size_t size) noexcept nogil:
    # Returns where `size` bytes of a field stand inside the table; NULL if it is absent or does not fit.
    cdef size_t entry = 4 + 2 * <size_t>slot
    cdef size_t at
    if t.at == 0 or entry + 2 > t.slots:
        return NULL
    at = le16(t.p + t.vtable + entry)
    if at < 4 or at + size > t.size:
        return NULL
    return t.p + t.at + at

cdef int64_t flat_int(FlatTable* t, int slot, int size) noexcept nogil:
    # Returns a signed number of 1, 2, 4 or 8 bytes; absent: 0.
    cdef const char* p = flat_field(t, slot, size)
    if p == NULL:
        return 0
    if size == 1:
        return <int8_t>p[0]
    if size == 2:
        return <int16_t>le16(p)
    if size == 4:
        return <int32_t>le32(p)
    return <int64_t>le64(p)

cdef size_t flat_follow(FlatTable* t, int slot) noexcept nogil:
    # Returns where an offset leads; 0 if it is absent or leads outside.
    cdef const char* p = flat_field(t, slot, 4)
    cdef size_t at
    if p == NULL:
        return 0
    at = <size_t>(p - t.p)
    if le32(p) > t.n - at - 4:
        return 0
    return at + le32(p)

cdef bint flat_child(FlatTable* t, int slot, FlatTable* out) noexcept nogil:
    cdef size_t at = flat_follow(t, slot)
    out.at = 0
    return at != 0 and flat_table(t.p, t.n, at, out)

cdef bint flat_vector(FlatTable* t, int slot, size_t element, const char** first, size_t* n) noexcept nogil:
    # Opens a vector of structs, numbers or offsets. Absent: empty. Returns False if it leads outside.
    cdef size_t at
    first[0] = NULL
    n[0] = 0
    if flat_field(t, slot, 4) == NULL:
        return True
    at = flat_follow(t, slot)
    if at == 0 or le32(t.p + at) > (t.n - at - 4) // element:
        return False
    n[0] = le32(t.p + at)
    first[0] = t.p + at + 4
    return True

cdef bint flat_element(FlatTable* t, const char* element, FlatTable* out) noexcept nogil:
    # Opens the table that an element of a vector of offsets leads to.
    cdef size_t at = <size_t>(element - t.p)
    out.at = 0
    return le32(element) <= t.n - at - 4 and flat_table(t.p, t.n, at + le32(element), out)
