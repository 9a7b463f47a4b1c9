# Binary results. In: a result of libpq, a row and a column. Out: the value. Owns nothing. No locks.
# The getters trust the column type: the statement table and the functions in sql/ are one contract, checked by tests.
# The caller checks for NULL (pg_null), unless a contract says otherwise.

cdef inline bint pg_null(PGresult* r, int row, int col) noexcept nogil:
    return PQgetisnull(r, row, col) != 0

cdef inline int pg_int2(PGresult* r, int row, int col) noexcept nogil:
    return <int16_t>be16(PQgetvalue(r, row, col))

cdef inline int32_t pg_int4(PGresult* r, int row, int col) noexcept nogil:
    return <int32_t>be32(PQgetvalue(r, row, col))

cdef inline int64_t pg_int8(PGresult* r, int row, int col) noexcept nogil:
    return <int64_t>be64(PQgetvalue(r, row, col))

cdef inline int32_t pg_int4_or(PGresult* r, int row, int col, int32_t missing) noexcept nogil:
    return missing if pg_null(r, row, col) else pg_int4(r, row, col)

cdef inline int64_t pg_int8_or(PGresult* r, int row, int col, int64_t missing) noexcept nogil:
    return missing if pg_null(r, row, col) else pg_int8(r, row, col)

cdef inline bint pg_bool(PGresult* r, int row, int col) noexcept nogil:
    # Returns False for NULL.
    return not pg_null(r, row, col) and PQgetvalue(r, row, col)[0] != 0

cdef inline Slice pg_bytes(PGresult* r, int row, int col) noexcept nogil:
    # Returns bytea, text or uuid, valid until the result is cleared; for NULL an empty slice with p NULL.
    if pg_null(r, row, col):
        return slice_of(NULL, 0)
    return slice_of(PQgetvalue(r, row, col), <size_t>PQgetlength(r, row, col))

cdef inline uint64_t pg_place(PGresult* r, int row, int col) noexcept nogil:
    # Returns a tid, or the bytes that tidsend makes of it, for pgarray_place only; 0 for NULL.
    cdef uint64_t place = 0
    if not pg_null(r, row, col) and PQgetlength(r, row, col) == 6:
        memcpy(&place, PQgetvalue(r, row, col), 6)
    return place

# ---- arrays ----------------------------------------------------------------------------------------------------------

cdef struct PgIter:
    const char* p
    const char* end
    int left                  # elements not taken yet

cdef bint pg_array_of(Slice s, uint32_t elem_oid, PgIter* out) noexcept nogil:
    # Opens a one-dimensional array; NULL and '{}' have no elements. Returns False if the value has another form.
    out.p = s.p
    out.end = s.p + s.n
    out.left = 0
    if s.p == NULL:
        return True
    if s.n < 12:
        return False
    if be32(s.p) == 0:
        return True
    if be32(s.p) != 1 or be32(s.p + 8) != elem_oid or s.n < PGARRAY_HEADER:
        return False
    out.left = <int32_t>be32(s.p + 12)
    out.p = s.p + PGARRAY_HEADER
    return True

cdef inline bint pg_array(PGresult* r, int row, int col, uint32_t elem_oid, PgIter* out) noexcept nogil:
    return pg_array_of(pg_bytes(r, row, col), elem_oid, out)

cdef bint pg_next(PgIter* i, Slice* out) noexcept nogil:
    # Takes the next element's bytes (p NULL: SQL NULL). Returns False at the end.
    cdef int32_t n
    if i.left <= 0 or i.end - i.p < 4:
        return False
    n = <int32_t>be32(i.p)
    i.p += 4
    i.left -= 1
    if n < 0:
        out[0] = slice_of(NULL, 0)
        return True
    if i.end - i.p < n:
        i.left = 0
        return False
    out[0] = slice_of(i.p, n)
    i.p += n
    return True

cdef inline bint pg_next8(PgIter* i, int64_t* out) noexcept nogil:
    # Takes the next bigint; NULL becomes 0. Returns False at the end.
    cdef Slice s
    if not pg_next(i, &s):
        return False
    out[0] = <int64_t>be64(s.p) if s.n == 8 else 0
    return True

cdef inline bint pg_next4(PgIter* i, int32_t* out) noexcept nogil:
    # Takes the next integer; NULL becomes 0. Returns False at the end.
    cdef Slice s
    if not pg_next(i, &s):
        return False
    out[0] = <int32_t>be32(s.p) if s.n == 4 else 0
    return True

# ---- errors ----------------------------------------------------------------------------------------------------------

cdef inline bint pg_sqlstate(PGresult* r, const char* code) noexcept nogil:
    # Returns True if the error of r has this SQLSTATE.
    cdef const char* state = PQresultErrorField(r, PG_DIAG_SQLSTATE)
    return state != NULL and memcmp(state, code, 5) == 0

cdef inline const char* pg_error(PGresult* r) noexcept nogil:
    # Returns the server's message without its severity; never NULL.
    cdef const char* text = b"the database did not answer"
    if r != NULL and PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY) != NULL:
        text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY)
    return text
