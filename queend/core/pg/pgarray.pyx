# Binary parameters: an array, built element by element. In: values. Out: the bytes of the parameter. Owner: the
# statement that is written. The buffer is reused, so a call in steady state allocates nothing. No locks.
# Layout: dimensions, has-null flag, element type, length, lower bound; then each element's length (-1: NULL) and its
# bytes.

cdef enum:
    PGARRAY_HEADER = 20
    PARAMS_MAX = 52

cdef int64_t POSTGRES_EPOCH_US = 946684800000000        # origin of PostgreSQL's timestamps: 2000-01-01

cdef int[PARAMS_MAX] PARAMS_BINARY          # the format of each parameter
for _column in range(PARAMS_MAX):
    PARAMS_BINARY[_column] = 1

cdef struct PgArray:
    Buf buf
    int n                     # elements so far
    uint32_t elem_oid
    bint has_null

cdef struct Params:
    int n
    bint failed               # an array ran out of memory or is too large: must not be sent
    bint too_large
    const char* values[PARAMS_MAX]       # borrowed: arrays and slices must live until slot_send returned
    int[PARAMS_MAX] lengths
    uint64_t[PARAMS_MAX] scalar         # storage of fixed-size values: a Params is never copied

cdef inline void pgarray_free(PgArray* a) noexcept nogil:
    buf_free(&a.buf)

cdef inline void pgarray_begin(PgArray* a, uint32_t oid) noexcept nogil:
    # Starts an array of elements of type `oid`; keeps the previous array's memory.
    buf_clear(&a.buf)
    buf_reserve(&a.buf, PGARRAY_HEADER)
    a.n = 0
    a.elem_oid = oid
    a.has_null = False

cdef inline char* pgarray_reserve(PgArray* a, size_t n) noexcept nogil:
    # Returns room for an element of n bytes, which the caller fills; NULL if memory ran out.
    cdef char* at = buf_reserve(&a.buf, 4 + n)
    if at == NULL:
        return NULL
    be32_put(at, <uint32_t>n)
    a.n += 1
    return at + 4

cdef inline void pgarray_int2(PgArray* a, int16_t v) noexcept nogil:
    cdef char* at = pgarray_reserve(a, 2)
    if at != NULL:
        be16_put(at, <uint16_t>v)

cdef inline void pgarray_int4(PgArray* a, int32_t v) noexcept nogil:
    cdef char* at = pgarray_reserve(a, 4)
    if at != NULL:
        be32_put(at, <uint32_t>v)

cdef inline void pgarray_int8(PgArray* a, int64_t v) noexcept nogil:
    cdef char* at = pgarray_reserve(a, 8)
    if at != NULL:
        be64_put(at, <uint64_t>v)

cdef inline void pgarray_bool(PgArray* a, bint v) noexcept nogil:
    cdef char* at = pgarray_reserve(a, 1)
    if at != NULL:
        at[0] = 1 if v else 0

cdef inline void pgarray_bytes(PgArray* a, const void* p, size_t n) noexcept nogil:
    # Appends bytea, or text if the bytes are UTF-8 without NUL.
    cdef char* at = pgarray_reserve(a, n)
    if at != NULL and n:
        memcpy(at, p, n)

cdef inline void pgarray_null(PgArray* a) noexcept nogil:
    buf_be32(&a.buf, 0xffffffff)
    a.n += 1
    a.has_null = True

cdef inline void pgarray_uuid(PgArray* a, const unsigned char* id) noexcept nogil:
    # id: 16 bytes; NULL appends an SQL NULL.
    if id != NULL:
        pgarray_bytes(a, id, 16)
    else:
        pgarray_null(a)

cdef inline void pgarray_place(PgArray* a, uint64_t place) noexcept nogil:
    # Appends a tid, as pg_place returned it.
    pgarray_bytes(a, &place, 6)

cdef inline size_t pgarray_open(PgArray* a) noexcept nogil:
    # Begins an element of unknown length. Append its bytes to a.buf, then call pgarray_close with the returned mark.
    cdef size_t mark = a.buf.len
    buf_be32(&a.buf, 0)
    a.n += 1
    return mark

cdef inline void pgarray_close(PgArray* a, size_t mark) noexcept nogil:
    if not a.buf.failed:      # otherwise the mark may lie beyond the written bytes
        be32_put(a.buf.data + mark, <uint32_t>(a.buf.len - mark - 4))

cdef void pgarray_end(PgArray* a) noexcept nogil:
    # Fills in the header: the buffer then holds the whole parameter.
    cdef char* head = a.buf.data
    if a.buf.failed:
        return
    be32_put(head, 1 if a.n else 0)
    be32_put(head + 4, 1 if a.has_null else 0)
    be32_put(head + 8, a.elem_oid)
    be32_put(head + 12, <uint32_t>a.n)
    be32_put(head + 16, 1)
    if a.n == 0:
        a.buf.len = 12        # an array without dimensions ends after the element type
