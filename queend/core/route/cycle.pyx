# POST /streams/v1/cycle as the clients send it: sliced, and answered when it took effect. Whatever is not just that goes to the
# control plane, which has the rules in full and says what is wrong.

cdef enum:
    CYCLE_OPS = 100000
    CYCLE_ITEMS = 10000
    CYCLE_KEY = 2048
    CYCLE_VALUE = 1048576

cdef bint cycle_parse(Slice body, Arena* a, UuidGen* g, CycleReq* q) noexcept nogil:
    # False: it is not an ordinary one.
    cdef Json j
    cdef ApiError e
    cdef bint first = True
    cdef Slice key, value
    cdef int c
    cdef int seen = 0
    memset(q, 0, sizeof(CycleReq))
    q.group = slice_lit(b"__QUEUE_MODE__")
    if not body_open(&j, body, &e) or json_peek(&j) != b'{':
        return False
    json_enter(&j, b'{')
    while member_next(&j, &first, a, &key):
        c = json_peek(&j)
        if key_is(key, b"state_ops") and c == b'[':
            if seen & 1 or not cycle_ops(&j, a, q):
                return False
            seen |= 1
            continue
        if key_is(key, b"push_items") and c == b'[':
            if seen & 2 or not push_items(&j, a, g, CYCLE_ITEMS, &q.push, &e) or not cycle_items(&q.push):
                return False
            seen |= 2
            continue
        if key_is(key, b"ack") and c == b'{':
            if seen & 4 or not cycle_ack(&j, a, q):
                return False
            seen |= 4
            continue
        if not json_skip(&j, &value):
            return False
        if key_is(key, b"query_id"):
            if seen & 8 or not cycle_uuid(value, q.query):
                return False
            seen |= 8
            q.query_json = value
        elif key_is(key, b"partition_id"):
            if seen & 16 or not cycle_uuid(value, q.partition_uuid):
                return False
            seen |= 16
            q.partition_json = value
        elif key_is(key, b"consumer_group"):
            if seen & 32 or c != b'"' or not name_take(value, a, &q.group) or q.group.n == 0:
                return False
            seen |= 32
        elif key_is(key, b"release_lease"):
            if seen & 64 or not (slice_is(value, b"true") or slice_is(value, b"false")):
                return False
            seen |= 64
            q.keeps = slice_is(value, b"false")
        elif (key_is(key, b"state_ops") or key_is(key, b"push_items") or key_is(key, b"ack")) and c != b'n':
            return False
        elif cycle_stray(key, CYCLE_NAMES, a):
            return False
    return j.error == NULL and json_end(&j) and seen & 24 == 24

cdef bint cycle_stray(Slice key, const char* names, Arena* a) noexcept nogil:
    cdef Slice meant
    return name_stray(slice_of(key.p + 1, key.n - 2), names, a.picky, &meant)

cdef bint cycle_uuid(Slice raw, unsigned char* out) noexcept nogil:
    # A literal that spells a UUID.
    return raw.n == 38 and raw.p[0] == b'"' and uuid_parse(slice_of(raw.p + 1, 36), out, NULL)

cdef bint cycle_ops(Json* j, Arena* a, CycleReq* q) noexcept nogil:
    # The cursor stands at the array. Operations on one key twice are not ordinary.
    cdef bint first = True
    cdef int room = 0
    cdef int i
    cdef bint alone = True
    cdef CycleOp* more
    cdef Table keys
    cdef uint64_t hash_
    json_enter(j, b'[')
    while json_element(j, &first):
        if q.n == room:
            room = room * 4 if room else 16
            more = <CycleOp*>arena_alloc(a, room * sizeof(CycleOp))
            if more == NULL or q.n >= CYCLE_OPS:
                return False
            if q.n:
                memcpy(more, q.ops, q.n * sizeof(CycleOp))
            q.ops = more
        if not cycle_op(j, a, &q.ops[q.n]):
            return False
        q.n += 1
    if j.error != NULL or q.n < 2:
        return j.error == NULL
    table_init(&keys)
    for i in range(q.n):
        hash_ = slice_hash(q.ops[i].key, 1) | 1
        if table_get(&keys, hash_) != NULL or not table_put(&keys, hash_, &q.ops[i]):
            alone = False     # or so it seems
            break
    table_free(&keys)
    return alone

cdef bint cycle_op(Json* j, Arena* a, CycleOp* op) noexcept nogil:
    cdef bint first = True
    cdef bint half = False
    cdef bint keyed = False
    cdef Slice key, value
    cdef int kind = 0
    memset(op, 0, sizeof(CycleOp))
    op.value = slice_lit(b"{}")
    if json_peek(j) != b'{':
        return False
    json_enter(j, b'{')
    while member_next(j, &first, a, &key):
        if not json_skip(j, &value):
            return False
        if key_is(key, b"type"):
            kind = 1 if slice_is(value, b"\"upsert\"") else 2 if slice_is(value, b"\"delete\"") else 3
        elif key_is(key, b"key"):
            keyed = value.p[0] == b'"' and json_unescape(value, a, &op.key, &half)
        elif key_is(key, b"value"):
            op.value = value
        elif cycle_stray(key, CYCLE_OP_NAMES, a):
            return False
    if j.error != NULL or not keyed or half or op.key.n > CYCLE_KEY or op.value.n > CYCLE_VALUE or memchr(op.key.p, 0, op.key.n) != NULL:
        return False
    if kind == 2:
        op.value.p = NULL
        return True
    return kind == 1 and cycle_end(op, a)

cdef bint cycle_end(CycleOp* op, Arena* a) noexcept nogil:
    # The number windowEnd of its value, if there is one.
    cdef Json j
    cdef bint first = True
    cdef Slice key, value
    cdef char[64] text
    if op.value.p[0] != b'{' or memmem(op.value.p, op.value.n, b"indowEnd", 8) == NULL:
        # an escaped spelling of the name is the control plane's business
        return op.value.p[0] != b'{' or memmem(op.value.p, op.value.n, b"\\u00", 4) == NULL
    json_open(&j, op.value, JSON_DEPTH)
    json_enter(&j, b'{')
    while member_next(&j, &first, a, &key):
        if not json_skip(&j, &value):
            return False
        if key_is(key, b"windowEnd"):
            op.has_end = value.p[0] == b'-' or b'0' <= value.p[0] <= b'9'
            if op.has_end:
                if value.n >= sizeof(text):
                    return False
                memcpy(text, value.p, value.n)
                text[value.n] = 0
                op.end = strtod(text, NULL)
    return j.error == NULL

cdef bint cycle_items(PushReq* q) noexcept nogil:
    # Ordinary ones have no id of their own and nothing besides.
    cdef int i
    for i in range(q.n):
        if q.items[i].id_kind != 0 or q.items[i].txid.p != NULL or q.items[i].more != NULL:
            return False
    return True

cdef bint cycle_ack(Json* j, Arena* a, CycleReq* q) noexcept nogil:
    # Of a cycle that succeeded.
    cdef bint first = True
    cdef Slice key, value, text
    cdef uint8_t kind, keep
    cdef size_t i
    q.count = 1
    json_enter(j, b'{')
    while member_next(j, &first, a, &key):
        if not json_skip(j, &value):
            return False
        if key_is(key, b"transactionId"):
            if value.p[0] != b'"' or not txid_take(value, a, &text) or text.n == 0:
                return False
            q.has_ack = record_id(text, q.ack, &kind, &keep)
        elif key_is(key, b"leaseId"):
            q.has_lease = not slice_is(value, b"null")
            if q.has_lease and not cycle_uuid(value, q.lease):
                return False
        elif key_is(key, b"status"):
            if not slice_is(value, b"\"completed\""):
                return False
        elif key_is(key, b"count"):
            if value.n > 9:
                return False
            q.count = 0
            for i in range(value.n):
                if not b'0' <= value.p[i] <= b'9':
                    return False
                q.count = q.count * 10 + value.p[i] - 48
        elif key_is(key, b"error") and not slice_is(value, b"null"):
            return False
        elif cycle_stray(key, CYCLE_ACK_NAMES, a):
            return False
    return j.error == NULL and q.has_ack

cdef void cycle_reply(Buf* b, CycleReq* q, Slice queue) noexcept nogil:
    # queue: of the source partition.
    buf_text(b, b"{\"success\":true,\"query_id\":")
    buf_put(b, q.query_json.p, q.query_json.n)
    buf_text(b, b",\"partition_id\":")
    buf_put(b, q.partition_json.p, q.partition_json.n)
    buf_text(b, b",\"queueName\":")
    json_escape(b, queue)
    buf_text(b, b",\"state_ops_applied\":")
    buf_int(b, q.n)
    buf_text(b, b",\"push_results\":")
    push_reply_items(b, &q.push)
    buf_text(b, b",\"ack_result\":")
    if q.has_ack:
        buf_text(b, b"{\"success\":true,\"count\":")
        buf_int(b, q.count)
        buf_text(b, b",\"lease_released\":false,\"dlq\":false}}" if q.keeps else b",\"lease_released\":true,\"dlq\":false}}")
    else:
        buf_text(b, b"null}")
