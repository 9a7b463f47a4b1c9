# Reads POST /api/v1/lease/:leaseId/extend, and writes the answer. In: path and body. Out: which lease is extended and
# for how long, or a refusal; the answer. Stateless, takes no lock.

cdef bint leasebody_parse(Slice path, Slice body, Arena* a, LeaseReq* q, ApiError* e) noexcept nogil:
    # Parses a request. An empty body, {}, [] and null all mean 60 seconds.
    cdef Json j
    cdef bint first = True
    cdef Slice key
    cdef Slice value = slice_of(NULL, 0)
    memset(q, 0, sizeof(LeaseReq))
    q.seconds = 60
    q.lease_text = slice_of(path.p + 14, path.n - 21)
    if not uri_decode(q.lease_text, a, False, &q.lease_text):
        return refuse(e, b"The lease id in the path must be valid text")
    if not uuid_parse(q.lease_text, q.lease):
        memset(q.lease, 0, 16)
    if body.n == 0:
        return True
    json_open(&j, body, JSON_DEPTH)
    if json_peek(&j) == b'{':
        json_enter(&j, b'{')
        while member_next(&j, &first, a, &key):
            if not json_skip(&j, &value):
                break
            if typo_key(key, LEASE_NAMES, b"body", -1, a, e):
                return False
            if member_is(key, b"seconds") and not slice_is(value, b"null") and not leasebody_seconds(value, &q.seconds):
                return refuse(e, b"seconds must be a whole number between 1 and 31536000 (field seconds)")
    elif j.p < j.end and json_skip(&j, &value) and not txbody_blank(value):
        return refuse(e, b"The body must be an object")
    if j.error != NULL or not json_end(&j):
        return json_refuse(e, &j)
    return True

cdef bint leasebody_seconds(Slice value, int* out) noexcept nogil:
    cdef int64_t seconds
    if not ident_whole(value, &seconds) or not 1 <= seconds <= 31536000:
        return False
    out[0] = <int>seconds
    return True

cdef void leasebody_expires(Buf* b, const char* name, LeaseReq* q) noexcept nogil:
    buf_text(b, name)
    if q.status == LEASE_EXTENDED:
        text_time(b, q.expires_us, 3)
    else:
        buf_text(b, b"null")

cdef void leasebody_reply(Buf* b, LeaseReq* q) noexcept nogil:
    # Writes the answer. The expiry stands there three times: under the reference's name, and under those that its
    # clients read.
    member_text(b, b"{\"leaseId\":", q.lease_text)
    member_bool(b, b",\"success\":", q.status == LEASE_EXTENDED)
    buf_text(b, b",\"error\":")
    if q.status == LEASE_EXTENDED:
        buf_text(b, b"null")
    elif q.status == LEASE_EXPIRED:
        buf_text(b, b"\"Lease already expired\"")
    else:
        buf_text(b, b"\"Lease not found\"")
    leasebody_expires(b, b",\"expiresAt\":", q)
    leasebody_expires(b, b",\"newExpiresAt\":", q)
    leasebody_expires(b, b",\"lease_expires_at\":", q)
    member_int(b, b",\"renewed\":", q.renewed)
    buf_byte(b, b'}')
