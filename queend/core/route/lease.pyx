# POST /api/v1/lease/:leaseId/extend.

cdef bint lease_parse(Slice path, Slice body, Arena* a, LeaseReq* q, ApiError* e) noexcept nogil:
    # An empty body, {}, [] and null all mean 60 seconds.
    cdef Json j
    cdef bint first = True
    cdef Slice key, value
    memset(q, 0, sizeof(LeaseReq))
    q.seconds = 60
    q.lease_text = slice_of(path.p + 14, path.n - 21)
    if not percent_decode(q.lease_text, a, False, &q.lease_text) or not uuid_parse(q.lease_text, q.lease, NULL):
        return refuse(e, b"leaseId must be a UUID")
    if body.n == 0:
        return True
    json_open(&j, body, JSON_DEPTH)
    if json_peek(&j) == b'{':
        json_enter(&j, b'{')
        while json_member(&j, &first, &key):
            if not json_skip(&j, &value):
                break
            if key_is(key, b"seconds") and not slice_is(value, b"null") and not lease_seconds(value, &q.seconds):
                return refuse(e, b"seconds must be a whole number between 1 and 31536000")
    elif j.p < j.end:
        json_skip(&j, &value)
    if j.error != NULL or not json_end(&j):
        return refuse_json(e, &j)
    return True

cdef bint lease_seconds(Slice value, int* out) noexcept nogil:
    # Digits, as a number or as text.
    cdef size_t i = 0
    cdef size_t n = value.n
    cdef int64_t v = 0
    if n >= 2 and value.p[0] == b'"':
        i = 1
        n -= 1
    if i == n:
        return False
    while i < n:
        if not 48 <= value.p[i] <= 57:
            return False
        v = v * 10 + value.p[i] - 48
        if v > 31536000:
            return False
        i += 1
    out[0] = <int>v
    return v >= 1

cdef void lease_reply(Buf* b, LeaseReq* q) noexcept nogil:
    cdef int i
    buf_text(b, b"{\"leaseId\":")
    put_uuid(b, q.lease)
    buf_text(b, b",\"success\":")
    put_bool(b, q.status == 0)
    buf_text(b, b",\"error\":")
    if q.status == 0:
        buf_text(b, b"null")
    elif q.status == 2:
        buf_text(b, b"\"Lease already expired\"")
    else:
        buf_text(b, b"\"Lease not found\"")
    for i in range(3):
        if i == 0:
            buf_text(b, b",\"expiresAt\":")
        elif i == 1:
            buf_text(b, b",\"newExpiresAt\":")
        else:
            buf_text(b, b",\"lease_expires_at\":")
        if q.status == 0:
            put_time(b, q.expires_us, 3)
        else:
            buf_text(b, b"null")
    buf_text(b, b",\"renewed\":")
    buf_int(b, q.renewed)
    buf_byte(b, b'}')
