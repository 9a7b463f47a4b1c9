# Reads what a cycle does to the state of its stream: values that are set and dropped, by key. In: the body's
# operations, one by one. Out: the last operation of each key. Stateless, takes no lock.

cdef bint cycleops_read(Json* j, Arena* a, CycleReq* q, ApiError* e) noexcept nogil:
    # Reads the array at the cursor.
    cdef bint first = True
    cdef int room = 0
    q.n = 0
    q.ops = NULL
    if json_peek(j) != b'[':
        return refuse(e, b"state_ops must be an array")
    json_enter(j, b'[')
    while json_element(j, &first):
        if q.n >= CYCLE_OPS:
            return cyclebody_too_many(q, b"state_ops", CYCLE_OPS, e)
        q.ops = <CycleOp*>arena_grow(a, q.ops, q.n, sizeof(CycleOp), 16, &room)
        if q.ops == NULL:
            return refuse_memory(e)
        if not cycleop_read(j, a, q, &q.ops[q.n], q.n, e):
            return False
        q.n += 1
    if j.error != NULL:
        return cyclebody_no_json(q, j, e)
    return q.n < 2 or cycleops_keep_last(q, e)

cdef bint cycleops_keep_last(CycleReq* q, ApiError* e) noexcept nogil:
    # Marks as dropped all but the last operation of each key.
    cdef Table keys
    cdef CycleOp* other
    cdef uint64_t hash_
    cdef bint good = True
    cdef int i
    table_init(&keys)
    for i in range(q.n - 1, -1, -1):
        hash_ = slice_hash(q.ops[i].key, hash_seed) | 1
        other = <CycleOp*>table_get(&keys, hash_)
        while other != NULL and not slice_eq(other.key, q.ops[i].key):
            hash_ += 2
            other = <CycleOp*>table_get(&keys, hash_)
        if other != NULL:
            q.ops[i].dropped = True
        elif not table_put(&keys, hash_, &q.ops[i]):
            good = refuse_memory(e)
            break
    table_free(&keys)
    return good

cdef bint cycleop_read(Json* j, Arena* a, CycleReq* q, CycleOp* op, int place, ApiError* e) noexcept nogil:
    cdef bint first = True
    cdef Slice key, value
    cdef Slice kind = slice_lit(b"null")
    cdef Slice name = slice_of(NULL, 0)
    memset(op, 0, sizeof(CycleOp))
    op.value = slice_lit(b"{}")
    if json_peek(j) != b'{':
        return refuse_as(e, b"state_ops[%d] must be an object", place)
    json_enter(j, b'{')
    while member_next(j, &first, a, &key):
        if not json_skip(j, &value):
            break
        if member_is(key, b"type"):
            kind = value
        elif member_is(key, b"key"):
            name = value
        elif member_is(key, b"value"):
            op.value = value
        elif cyclebody_typo(q, key, CYCLE_OP_NAMES, b"state_ops", place, a, e):
            return False
    if j.error != NULL:
        return cyclebody_no_json(q, j, e)
    if not slice_is(kind, b"\"upsert\"") and not slice_is(kind, b"\"delete\""):
        if kind.p[0] == b'"':
            text_unescape(kind, a, &kind, NULL)
        cyclebody_fail(q, a, b"Unknown state_op type: ", kind)
        return True
    if not cyclebody_text(name, a, 0, CYCLE_KEY, b"state_ops", place, b"key", &op.key, e):
        return False
    if op.key.p == NULL:
        return cyclebody_refuse(e, b"state_ops", place, b"key", b"is required")
    if slice_is(kind, b"\"delete\""):
        op.value.p = NULL
        return True
    if op.value.n > CYCLE_VALUE:
        q.code = b"value_too_large"
        cyclebody_refuse(e, b"state_ops", place, b"value", b"has more than 1048576 bytes")
        e.status = 413
        return False
    cycleop_window_end(op, a)
    return True

cdef void cycleop_window_end(CycleOp* op, Arena* a) noexcept nogil:
    # Reads the number windowEnd of the value, if there is one.
    cdef Json j
    cdef bint first = True
    cdef Slice key, value
    cdef char* text
    if op.value.p[0] != b'{' or (memmem(op.value.p, op.value.n, b"indowEnd", 8) == NULL
                                 and memmem(op.value.p, op.value.n, b"\\u00", 4) == NULL):
        return
    json_object(&j, op.value)
    while member_next(&j, &first, a, &key):
        if not json_skip(&j, &value):
            return
        if member_is(key, b"windowEnd"):
            op.has_end = False
            text = NULL
            if value.p[0] == b'-' or b'0' <= value.p[0] <= b'9':
                text = <char*>arena_alloc(a, value.n + 1)
            if text != NULL:
                memcpy(text, value.p, value.n)
                text[value.n] = 0
                op.end = strtod(text, NULL)
                op.has_end = -1.8e308 < op.end < 1.8e308 and op.end - op.end == 0
