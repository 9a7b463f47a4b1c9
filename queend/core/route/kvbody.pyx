# Reads operations on keys and values (POST /api/v1/kv, the member kv of a transaction). In: a body or an array. Out: a
# flat list, in which each key of a getMany is an operation of its own; or a refusal with its code and reason.
# Stateless, takes no lock.

cdef const char* KV_BAD = b"kv_bad_request"
cdef const char* KV_NAMESPACE_TEXT = b"ns must match ^[a-z0-9][a-z0-9._-]{0,63}$"
cdef const char* KV_KEY_TEXT = b"key must be valid text of 1 to 512 bytes"
cdef const char* KV_BODY_NAMES = b"\x0a" b"operations"
cdef const char* KV_NAMES = (b"\x02" b"op" b"\x02" b"ns" b"\x03" b"key" b"\x04" b"keys" b"\x06" b"prefix"
                             b"\x05" b"after" b"\x05" b"limit" b"\x08" b"keysOnly" b"\x05" b"value"
                             b"\x0a" b"ttlSeconds" b"\x07" b"forever" b"\x06" b"expect" b"\x08" b"required"
                             b"\x05" b"delta" b"\x03" b"min" b"\x03" b"max")

cdef enum:                    # places of KV_NAMES
    KV_AT_OP
    KV_AT_NS
    KV_AT_KEY
    KV_AT_KEYS
    KV_AT_PREFIX
    KV_AT_AFTER
    KV_AT_LIMIT
    KV_AT_KEYS_ONLY
    KV_AT_VALUE
    KV_AT_TTL
    KV_AT_FOREVER
    KV_AT_EXPECT
    KV_AT_REQUIRED
    KV_AT_DELTA
    KV_AT_MIN
    KV_AT_MAX
    KV_MEMBERS

# ---- refusals --------------------------------------------------------------------------------------------------------

cdef bint kvbody_refuse(KvReq* q, Tools* t, const char* reason, const char* text) noexcept nogil:
    # Refuses the operation that is read. Returns False.
    q.code = KV_BAD
    q.reason = reason
    return kvbody_told(t, text)

cdef bint kvbody_told(Tools* t, const char* text) noexcept nogil:
    return refuse_as(&t.error, b"%s (operation %d)", text, t.index) if t.index >= 0 else refuse(&t.error, text)

cdef bint kvbody_large(KvReq* q, Tools* t, const char* code, const char* text) noexcept nogil:
    q.code = code
    kvbody_told(t, text)
    t.error.status = 413
    return False

# ---- a body ----------------------------------------------------------------------------------------------------------

cdef bint kvbody_read(Slice body, Tools* t, KvReq* q) noexcept nogil:
    cdef Json j
    cdef bint first = True
    cdef bint seen = False
    cdef Slice key
    memset(q, 0, sizeof(KvReq))
    q.code = KV_BAD
    if not json_body_object(&j, body, b"operations array required", &t.error):
        return False
    json_enter(&j, b'{')
    while member_next(&j, &first, t.arena, &key):
        if member_is(key, b"operations") and json_peek(&j) == b'[':
            if seen:
                return refuse(&t.error, b"operations is given twice")
            seen = True
            if not kvbody_operations(&j, t, q, False):
                return False
        elif not json_skip(&j, NULL):
            break
        elif typo_key(key, KV_BODY_NAMES, b"body", -1, t.arena, &t.error):
            return False
    if j.error != NULL or not json_end(&j):
        return json_refuse(&t.error, &j)
    if not seen:
        return refuse(&t.error, b"operations array required")
    return q.given > 0 or refuse(&t.error, b"operations array cannot be empty")

cdef bint kvbody_operations(Json* j, Tools* t, KvReq* q, bint rides) noexcept nogil:
    # Reads an array of operations. rides: of a transaction, which takes no lists.
    cdef bint first = True
    json_enter(j, b'[')
    while json_element(j, &first):
        t.index = q.given
        if json_peek(j) != b'{':
            if not json_skip(j, NULL):
                break
            return kvbody_refuse(q, t, NULL, b"Each operation must be an object")
        if q.given >= KV_OPS_MOST:
            return kvbody_refuse(q, t, b"kv_too_many_ops", b"A call has at most 256 operations")
        if not kvbody_operation(j, t, q, rides):
            return False
        q.given += 1
    if j.error != NULL:
        return json_refuse(&t.error, j)
    return kvbody_once(t, q)

cdef bint kvbody_operation(Json* j, Tools* t, KvReq* q, bint rides) noexcept nogil:
    cdef Slice[KV_MEMBERS] m
    cdef KvOp op
    cdef bint first = True
    cdef Slice key, value
    memset(m, 0, sizeof(m))
    memset(&op, 0, sizeof(KvOp))
    json_enter(j, b'{')
    while member_next(j, &first, t.arena, &key):
        if not json_skip(j, &value):
            break
        if not typo_take(key, KV_NAMES, value, m) and typo_key(key, KV_NAMES, b"operation", t.index, t.arena, &t.error):
            return False
    if j.error != NULL:
        return json_refuse(&t.error, j)
    op.at = q.given
    op.expect = KV_ANY
    op.ttl_us = KV_FOREVER
    op.row = -1
    if m[KV_AT_OP].p == NULL or not kvbody_kind(m[KV_AT_OP], &op):
        return kvbody_refuse(q, t, b"kv_unknown_op", b"op must be get, getMany, getPrefix, put, putIfAbsent, delete, "
                             b"incr or check")
    if not kvbody_namespace(m[KV_AT_NS], t, &op.ns):
        return kvbody_refuse(q, t, b"kv_bad_namespace", KV_NAMESPACE_TEXT)
    if not kvbody_truth(m[KV_AT_REQUIRED], &op.required):
        return kvbody_refuse(q, t, NULL, b"required must be true or false")
    if op.kind >= KV_LIST and rides:
        return kvbody_refuse(q, t, b"kv_get_prefix_not_allowed_in_transaction",
                             b"A transaction takes no getPrefix")
    q.writes = q.writes or KV_PUT <= op.kind <= KV_CHECK
    q.lists = q.lists or op.kind >= KV_LIST
    q.requires = q.requires or op.required
    if op.many:
        return kvbody_many(m[KV_AT_KEYS], t, q, &op)
    if op.kind >= KV_LIST:
        return kvbody_list(m, t, q, &op) and kvbody_add(q, t, &op)
    return kvbody_key(m[KV_AT_KEY], t, q, &op.key) and kvbody_rest(m, t, q, &op) and kvbody_add(q, t, &op)

cdef bint kvbody_kind(Slice raw, KvOp* op) noexcept nogil:
    if member_is(raw, b"get"):
        op.kind = KV_GET
    elif member_is(raw, b"put"):
        op.kind = KV_PUT
    elif member_is(raw, b"putIfAbsent"):
        op.kind = KV_PUT
        op.absent = True
    elif member_is(raw, b"delete"):
        op.kind = KV_DELETE
    elif member_is(raw, b"incr"):
        op.kind = KV_INCR
    elif member_is(raw, b"check"):
        op.kind = KV_CHECK
    elif member_is(raw, b"getMany"):
        op.many = True
    elif member_is(raw, b"getPrefix"):
        op.kind = KV_LIST
    else:
        return False
    return True

cdef bint kvbody_add(KvReq* q, Tools* t, const KvOp* op) noexcept nogil:
    if q.n >= KV_OPS_MOST + KV_KEYS_MOST:
        return kvbody_refuse(q, t, b"kv_too_many_keys", b"A call names at most 1024 keys")
    q.ops = <KvOp*>arena_grow(t.arena, q.ops, q.n, sizeof(KvOp), 4, &q.room)
    if q.ops == NULL:
        return refuse_memory(&t.error)
    q.ops[q.n] = op[0]
    q.n += 1
    return True

# ---- members ---------------------------------------------------------------------------------------------------------

cdef bint kvbody_truth(Slice raw, bint* out) noexcept nogil:
    # Reads true or false; absent and null are false.
    out[0] = raw.p != NULL and slice_is(raw, b"true")
    return raw.p == NULL or out[0] or slice_is(raw, b"false") or slice_is(raw, b"null")

cdef bint kvbody_namespace(Slice raw, Tools* t, Slice* out) noexcept nogil:
    if raw.p == NULL or raw.p[0] != b'"' or not text_unescape(raw, t.arena, out, NULL):
        return False
    return kvbody_namespace_fits(out[0])

cdef bint kvbody_namespace_fits(Slice ns) noexcept nogil:
    cdef size_t i
    cdef char c
    if ns.n == 0 or ns.n > KV_NS_MOST:
        return False
    for i in range(ns.n):
        c = ns.p[i]
        if not (b'a' <= c <= b'z' or b'0' <= c <= b'9' or i and (c == b'.' or c == b'_' or c == b'-')):
            return False
    return True

cdef bint kvbody_key(Slice raw, Tools* t, KvReq* q, Slice* out) noexcept nogil:
    cdef bint half = False
    if raw.p == NULL or raw.p[0] != b'"':
        return kvbody_refuse(q, t, b"kv_bad_key", b"key must be a string")
    if not text_unescape(raw, t.arena, out, &half):
        return refuse_memory(&t.error)
    if half:
        return kvbody_refuse(q, t, b"kv_bad_key", KV_KEY_TEXT)
    return kvbody_key_fits(out[0], t, q)

cdef bint kvbody_key_fits(Slice key, Tools* t, KvReq* q) noexcept nogil:
    if key.n > KV_KEY_MOST:
        return kvbody_large(q, t, b"kv_key_too_large", b"A key has at most 512 bytes")
    if key.n == 0 or memchr(key.p, 0, key.n) != NULL:
        return kvbody_refuse(q, t, b"kv_bad_key", KV_KEY_TEXT)
    return True

cdef bint kvbody_many(Slice raw, Tools* t, KvReq* q, KvOp* op) noexcept nogil:
    # Reads the keys of a getMany.
    cdef Json j
    cdef bint first = True
    cdef Slice one
    cdef int n = 0
    if raw.p == NULL or raw.p[0] != b'[':
        return kvbody_refuse(q, t, b"kv_bad_key", b"keys must be an array of strings")
    json_open(&j, raw, JSON_DEPTH_MAX)
    json_enter(&j, b'[')
    while json_element(&j, &first):
        json_skip(&j, &one)
        n += 1
        if n > KV_KEYS_MOST:
            return kvbody_refuse(q, t, b"kv_too_many_keys", b"A call names at most 1024 keys")
        if not kvbody_key(one, t, q, &op.key) or not kvbody_add(q, t, op):
            return False
    return n > 0 or kvbody_refuse(q, t, b"kv_bad_key", b"keys must not be empty")

cdef bint kvbody_list(Slice* m, Tools* t, KvReq* q, KvOp* op) noexcept nogil:
    cdef bint keys_only
    cdef int64_t limit = 100
    if m[KV_AT_PREFIX].p == NULL or m[KV_AT_PREFIX].n <= 2:
        return kvbody_refuse(q, t, b"kv_prefix_required", b"prefix must be a text of 1 to 512 bytes")
    if not kvbody_key(m[KV_AT_PREFIX], t, q, &op.key):
        return False
    if (m[KV_AT_AFTER].p != NULL and not slice_is(m[KV_AT_AFTER], b"null")
            and not kvbody_key(m[KV_AT_AFTER], t, q, &op.value)):
        return False
    if m[KV_AT_LIMIT].p != NULL and not slice_is(m[KV_AT_LIMIT], b"null") and not ident_whole(m[KV_AT_LIMIT], &limit):
        return kvbody_refuse(q, t, NULL, b"limit must be a whole number")
    if not kvbody_truth(m[KV_AT_KEYS_ONLY], &keys_only):
        return kvbody_refuse(q, t, NULL, b"keysOnly must be true or false")
    op.ttl_us = max(min(limit, <int64_t>KV_PAGE_MOST), <int64_t>1)
    op.kind = KV_LIST_KEYS if keys_only else KV_LIST
    return True

cdef bint kvbody_rest(Slice* m, Tools* t, KvReq* q, KvOp* op) noexcept nogil:
    # Reads what an operation on one key has besides the key.
    if op.kind == KV_PUT:
        op.value = m[KV_AT_VALUE]
        if op.value.p == NULL:
            return kvbody_refuse(q, t, b"kv_value_missing", b"value is required")
        if op.value.n > KV_VALUE_MOST:
            return kvbody_large(q, t, b"kv_value_too_large", b"A value has at most 65536 bytes")
    if m[KV_AT_EXPECT].p != NULL and op.kind != KV_GET and op.kind != KV_INCR:
        if op.absent or not ident_whole(m[KV_AT_EXPECT], &op.expect):
            return kvbody_refuse(q, t, b"kv_bad_expect", b"expect must be a version, or 0 for a key that must not exist"
                                 if not op.absent else b"putIfAbsent takes no expect")
    elif op.kind == KV_CHECK:
        return kvbody_refuse(q, t, b"kv_bad_expect", b"check needs expect")
    if op.absent:
        op.expect = 0
    if op.kind == KV_INCR and not kvbody_incr(m, t, q, op):
        return False
    return (op.kind != KV_PUT and op.kind != KV_INCR) or kvbody_expiry(m, t, q, op)

cdef bint kvbody_expiry(Slice* m, Tools* t, KvReq* q, KvOp* op) noexcept nogil:
    cdef bint forever
    cdef int64_t seconds
    if not kvbody_truth(m[KV_AT_FOREVER], &forever):
        return kvbody_refuse(q, t, b"kv_bad_ttl", b"forever must be true")
    if forever == (m[KV_AT_TTL].p != NULL and not slice_is(m[KV_AT_TTL], b"null")):
        return kvbody_refuse(q, t, b"kv_expiry_not_specified", b"Give ttlSeconds or forever: true, one of the two")
    if forever:
        return True
    if not ident_whole(m[KV_AT_TTL], &seconds) or not 1 <= seconds <= KV_TTL_MOST:
        return kvbody_refuse(q, t, b"kv_bad_ttl", b"ttlSeconds must be a whole number from 1 to 3153600000")
    op.ttl_us = seconds * 1000000
    return True

cdef bint kvbody_incr(Slice* m, Tools* t, KvReq* q, KvOp* op) noexcept nogil:
    op.delta = m[KV_AT_DELTA] if m[KV_AT_DELTA].p != NULL else slice_lit(b"1")
    op.low = m[KV_AT_MIN]
    op.high = m[KV_AT_MAX]
    if not (kvbody_counts(op.delta) and kvbody_counts(op.low) and kvbody_counts(op.high)):
        return kvbody_refuse(q, t, b"kv_bad_number", b"delta, min and max must be numbers of at most 30 digits")
    if op.low.p != NULL and slice_is(op.low, b"null"):
        op.low.p = NULL
    if op.high.p != NULL and slice_is(op.high, b"null"):
        op.high.p = NULL
    return True

cdef bint kvbody_counts(Slice raw) noexcept nogil:
    # Returns True for a number that queend.kv_number reads, for null, and for an absent one. Requires valid JSON.
    cdef size_t i
    cdef int n = 0            # digits of the part that is read
    cdef bint exponent = False
    if raw.p == NULL or slice_is(raw, b"null"):
        return True
    if raw.p[0] != b'-' and not b'0' <= raw.p[0] <= b'9':
        return False
    for i in range(raw.n):
        if b'0' <= raw.p[i] <= b'9':
            n += 1
            if n > (2 if exponent else 30):
                return False
        elif raw.p[i] == b'.' or raw.p[i] == b'e' or raw.p[i] == b'E':
            exponent = raw.p[i] != b'.'
            n = 0
    return True

# ---- one write of each key -------------------------------------------------------------------------------------------

cdef inline uint64_t kvbody_hash(const KvOp* op) noexcept nogil:
    cdef uint64_t h = slice_hash(op.key, slice_hash(op.ns, hash_seed))
    return h if h else 1

cdef bint kvbody_once(Tools* t, KvReq* q) noexcept nogil:
    # Refuses a request that writes a key twice.
    cdef Table seen
    cdef KvOp* other
    cdef bint good = True
    cdef int i
    if q.n < 2 or not q.writes:
        return True
    table_init(&seen)
    for i in range(q.n):
        if not kvtype_writes(&q.ops[i]):
            continue
        other = <KvOp*>table_get(&seen, kvbody_hash(&q.ops[i]))
        if other != NULL and slice_eq(other.key, q.ops[i].key) and slice_eq(other.ns, q.ops[i].ns):
            t.index = q.ops[i].at
            good = kvbody_refuse(q, t, b"kv_duplicate_key_in_call", b"A call writes each key once")
            break
        if not table_put(&seen, kvbody_hash(&q.ops[i]), &q.ops[i]):
            good = refuse_memory(&t.error)
            break
    table_free(&seen)
    return good
