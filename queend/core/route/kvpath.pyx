# Reads an operation on the key of a path (GET, PUT and DELETE /api/v1/kv/:ns/:key). In: path, query and body. Out: a
# request of one operation, as kvbody reads it. Stateless, takes no lock.

cdef const char* KV_PATH = b"/api/v1/kv/"
cdef const char* KV_PATH_NAMES = b"\x05" b"value" b"\x0a" b"ttlSeconds" b"\x07" b"forever" b"\x06" b"expect"
cdef int[4] KV_PATH_PLACES
KV_PATH_PLACES = [KV_AT_VALUE, KV_AT_TTL, KV_AT_FOREVER, KV_AT_EXPECT]

cdef bint kvpath_read(const Request* r, Tools* t, KvReq* q) noexcept nogil:
    cdef Slice[KV_MEMBERS] m
    cdef KvOp op
    cdef Slice key = slice_from(r.path, strlen(KV_PATH))
    cdef Slice ns = slice_cut(&key, b'/')
    memset(m, 0, sizeof(m))
    memset(&op, 0, sizeof(KvOp))
    memset(q, 0, sizeof(KvReq))
    t.index = -1
    op.kind = KV_PUT if r.method == METHOD_PUT else KV_DELETE if r.method == METHOD_DELETE else KV_GET
    op.expect = KV_ANY
    op.ttl_us = KV_FOREVER
    op.row = -1
    q.code = KV_BAD
    q.path = True
    q.given = 1
    q.writes = op.kind != KV_GET
    if r.query.n:
        return kvbody_refuse(q, t, b"kv_no_query_string", b"Keys take no query: escape ? in a key as %3F")
    if not uri_decode(ns, t.arena, False, &op.ns) or not kvbody_namespace_fits(op.ns):
        return kvbody_refuse(q, t, b"kv_bad_namespace", KV_NAMESPACE_TEXT)
    if not uri_decode(key, t.arena, False, &op.key):
        return kvbody_refuse(q, t, b"kv_bad_key", KV_KEY_TEXT)
    if not kvbody_key_fits(op.key, t, q) or (op.kind != KV_GET and not kvpath_members(r.body, t, m)):
        return False
    return kvbody_rest(m, t, q, &op) and kvbody_add(q, t, &op)

cdef bint kvpath_members(Slice body, Tools* t, Slice* m) noexcept nogil:
    # Reads the members of a body. An empty one has none.
    cdef Slice[4] values
    cdef Json j
    cdef bint first = True
    cdef Slice key, value
    cdef int i
    if body.n == 0:
        return True
    memset(values, 0, sizeof(values))
    if not json_body_object(&j, body, b"The body must be an object", &t.error):
        return False
    json_enter(&j, b'{')
    while member_next(&j, &first, t.arena, &key):
        if not json_skip(&j, &value):
            break
        if (not typo_take(key, KV_PATH_NAMES, value, values)
                and typo_key(key, KV_PATH_NAMES, b"body", -1, t.arena, &t.error)):
            return False
    if j.error != NULL or not json_end(&j):
        return json_refuse(&t.error, &j)
    for i in range(4):
        m[KV_PATH_PLACES[i]] = values[i]
    return True
