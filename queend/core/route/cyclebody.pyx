# Reads POST /streams/v1/cycle, a step of a stream (docs/streams.md), and writes its answer. In: the body, for one query
# and one partition. Out: state changes, messages to push, the acknowledgment of what was read; the
# answer. Stateless, takes no lock. A malformed request is refused. A cycle that the clients' protocol answers as failed
# is kept in CycleReq.failed.

cdef enum:
    CYCLE_OPS = 100000
    CYCLE_ITEMS = 10000
    CYCLE_KEY = 2048
    CYCLE_VALUE = 1048576
    CYCLE_TXID = 1020         # bytes of a transactionId
    CYCLE_REASON = 65536      # bytes of why the cycle failed

# Members as literals, in the order of CYCLE_NAMES and so on; p NULL: absent.
cdef struct CycleRaw:
    Slice query, partition, group, release, ops, items, ack

cdef struct CycleOpRaw:
    Slice kind, key, value

cdef struct CycleItemRaw:
    Slice queue, part, payload, txid, trace, ns, task, headers, parent, state

cdef struct CycleAckRaw:
    Slice txid, lease, status, count, error

# ---- the body --------------------------------------------------------------------------------------------------------

cdef bint cyclebody_parse(Slice body, Tools* t, CycleReq* q) noexcept nogil:
    cdef Json j
    cdef bint first = True
    cdef Slice key, value
    cdef CycleRaw raw
    cdef int c
    memset(&raw, 0, sizeof(raw))
    memset(q, 0, sizeof(CycleReq))
    q.code = b"invalid_request"
    if not json_body(&j, body, &t.error):
        q.code = b"empty_body"
        return False
    if json_peek(&j) != b'{':
        if not json_skip(&j, NULL) or not json_end(&j):
            return cyclebody_no_json(q, &j, t)
        return refuse(&t.error, b"request body must be a JSON object")
    json_enter(&j, b'{')
    while member_next(&j, &first, t.arena, &key):
        c = json_peek(&j)
        if member_is(key, b"state_ops") and c != b'n':
            if not cyclebody_ops(&j, t, q):
                return False
            continue
        if member_is(key, b"push_items") and c != b'n':
            if not cyclebody_items(&j, t, q):
                return False
            continue
        if not json_skip(&j, &value):
            break
        cyclebody_at(t, b"body", -1)
        if not typo_take(key, CYCLE_NAMES, value, &raw.query) and cyclebody_typo(q, key, CYCLE_NAMES, t):
            return False
    if j.error != NULL or not json_end(&j):
        return cyclebody_no_json(q, &j, t)
    q.query_json = raw.query
    q.partition_json = raw.partition
    cyclebody_at(t, NULL, 0)
    return cyclebody_ids(q, t) and cyclebody_rest(q, t, &raw)

cdef inline void cyclebody_at(Tools* t, const char* part, int place) noexcept nogil:
    # Notes which part is read, for a refusal. part NULL: the whole. place: -1 if the part is not a list.
    t.what = part
    t.index = place

cdef bint cyclebody_ids(CycleReq* q, Tools* t) noexcept nogil:
    cdef Slice text
    if q.query_json.p == NULL or q.query_json.p[0] != b'"' or q.query_json.n == 2:
        return refuse(&t.error, b"query_id is required")
    if q.partition_json.p == NULL or q.partition_json.p[0] != b'"' or q.partition_json.n == 2:
        return refuse(&t.error, b"partition_id is required")
    if not cyclebody_text(q.query_json, t, 0, NAME_MAX, b"query_id", &text):
        return False
    q.has_query = uuid_parse(text, q.query)
    if not q.has_query:
        cyclebody_fail_query(q, t.arena, text)
    return cyclebody_text(q.partition_json, t, 0, NAME_MAX, b"partition_id", &q.partition)

cdef void cyclebody_fail_query(CycleReq* q, Arena* a, Slice text) noexcept nogil:
    # Marks the cycle as failed: query_id is no UUID. Uses the words of the control plane's state route
    # (control/routes/streams).
    cdef char* out = <char*>arena_alloc(a, text.n + 1)
    if out == NULL:
        q.failed = slice_lit(b"Out of memory")
        return
    memcpy(out, text.p, text.n)
    out[text.n] = b'"'
    q.failed = slice_of(NULL, 0)
    cyclebody_fail(q, a, b"query_id is no UUID: \"", slice_of(out, text.n + 1))

cdef bint cyclebody_rest(CycleReq* q, Tools* t, const CycleRaw* raw) noexcept nogil:
    if not cyclebody_text(raw.group, t, 0, NAME_MAX, b"consumer_group", &q.group):
        return False
    if q.group.n == 0:
        q.group = slice_lit(b"__QUEUE_MODE__")
    if raw.release.p != NULL and memchr(b"tfn", raw.release.p[0], 3) == NULL:
        return refuse(&t.error, b"release_lease must be true or false")
    q.keeps = raw.release.p != NULL and raw.release.p[0] == b'f'
    return raw.ack.p == NULL or slice_is(raw.ack, b"null") or cyclebody_ack(raw.ack, t, q)

cdef bint cyclebody_members(CycleReq* q, Json* j, Tools* t, const char* names, Slice* values) noexcept nogil:
    # Reads the members of the object at the cursor. values: in the order of the names.
    cdef bint first = True
    cdef Slice key, value
    json_enter(j, b'{')
    while member_next(j, &first, t.arena, &key):
        if not json_skip(j, &value):
            break
        if not typo_take(key, names, value, values) and cyclebody_typo(q, key, names, t):
            return False
    return j.error == NULL or cyclebody_no_json(q, j, t)

# ---- state operations ------------------------------------------------------------------------------------------------
# Reads what a cycle does to the state of its stream. A key is set or dropped; its last operation counts.

cdef bint cyclebody_ops(Json* j, Tools* t, CycleReq* q) noexcept nogil:
    # Reads the array at the cursor.
    cdef bint first = True
    cdef int room = 0
    q.n = 0
    q.ops = NULL
    if json_peek(j) != b'[':
        return refuse(&t.error, b"state_ops must be an array")
    json_enter(j, b'[')
    while json_element(j, &first):
        if q.n >= CYCLE_OPS:
            return cyclebody_too_many(q, b"state_ops", CYCLE_OPS, t)
        q.ops = <CycleOp*>arena_grow(t.arena, q.ops, q.n, sizeof(CycleOp), 16, &room)
        if q.ops == NULL:
            return refuse_memory(&t.error)
        cyclebody_at(t, b"state_ops", q.n)
        if not cyclebody_op(j, t, q, &q.ops[q.n]):
            return False
        q.n += 1
    if j.error != NULL:
        return cyclebody_no_json(q, j, t)
    return q.n < 2 or cyclebody_ops_last(q, &t.error)

cdef bint cyclebody_ops_last(CycleReq* q, ApiError* e) noexcept nogil:
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

cdef bint cyclebody_op(Json* j, Tools* t, CycleReq* q, CycleOp* op) noexcept nogil:
    cdef CycleOpRaw raw
    memset(op, 0, sizeof(CycleOp))
    raw.kind = slice_lit(b"null")
    raw.key = slice_of(NULL, 0)
    raw.value = slice_lit(b"{}")
    if json_peek(j) != b'{':
        return refuse_as(&t.error, b"state_ops[%d] must be an object", t.index)
    if not cyclebody_members(q, j, t, CYCLE_OP_NAMES, &raw.kind):
        return False
    op.value = raw.value
    if not slice_is(raw.kind, b"\"upsert\"") and not slice_is(raw.kind, b"\"delete\""):
        if raw.kind.p[0] == b'"':
            text_unescape(raw.kind, t.arena, &raw.kind, NULL)
        cyclebody_fail(q, t.arena, b"Unknown state_op type: ", raw.kind)
        return True
    if not cyclebody_text(raw.key, t, 0, CYCLE_KEY, b"key", &op.key):
        return False
    if op.key.p == NULL:
        return cyclebody_refuse(t, b"key", b"is required")
    if slice_is(raw.kind, b"\"delete\""):
        op.value.p = NULL
        return True
    if op.value.n > CYCLE_VALUE:
        q.code = b"value_too_large"
        cyclebody_refuse(t, b"value", b"has more than 1048576 bytes")
        t.error.status = 413
        return False
    cyclebody_op_end(op, t.arena)
    return True

cdef void cyclebody_op_end(CycleOp* op, Arena* a) noexcept nogil:
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

# ---- messages to push ------------------------------------------------------------------------------------------------
# Reads items of a push for the sinks of the cycle, and namespace and task for queues that it creates.

cdef bint cyclebody_items(Json* j, Tools* t, CycleReq* q) noexcept nogil:
    # Reads the array at the cursor.
    cdef PushReq* push = &q.push
    cdef bint first = True
    memset(push, 0, sizeof(PushReq))
    q.spaces = NULL
    if json_peek(j) != b'[':
        return refuse(&t.error, b"push_items must be an array")
    json_enter(j, b'[')
    while json_element(j, &first):
        if push.n >= CYCLE_ITEMS:
            return cyclebody_too_many(q, b"push_items", CYCLE_ITEMS, t)
        cyclebody_at(t, b"push_items", push.n)
        if (not pushitems_grow(push, t, j, slice_of(j.begin, j.end - j.begin), CYCLE_ITEMS)
                or not cyclebody_item(j, t, q, &push.items[push.n])):
            return False
        push.n += 1
    return j.error == NULL or cyclebody_no_json(q, j, t)

cdef bint cyclebody_item(Json* j, Tools* t, CycleReq* q, PushItem* it) noexcept nogil:
    cdef bint first = True
    cdef Slice key, value, text
    cdef CycleItemRaw given
    cdef ItemRaw raw
    cdef unsigned char[16] id
    cdef char[TYPO_SHOWN + 1] shown
    if json_peek(j) != b'{':
        return refuse_as(&t.error, b"push_items[%d] must be an object", t.index)
    memset(&given, 0, sizeof(given))
    memset(&raw, 0, sizeof(raw))
    json_enter(j, b'{')
    while member_next(j, &first, t.arena, &key):
        if not json_skip(j, &value):
            break
        if slice_is(value, b"null"):
            value = slice_of(NULL, 0)     # as good as absent
        if typo_take(key, CYCLE_ITEM_NAMES, value, &given.queue):
            continue
        if member_is(key, b"deliverAt") or member_is(key, b"delayMs"):
            if value.p != NULL and not slice_is(value, b"0"):
                return cyclebody_refuse(t, b"deliverAt" if member_is(key, b"deliverAt") else b"delayMs",
                                        b"is not supported in a cycle")
        elif member_is(key, b"producerSub") or member_is(key, b"messageId"):
            pass              # the daemon makes both, whatever an item says
        elif value.p != NULL and strict and typo_unsupported(key) != NULL:
            return cyclebody_refuse(t, typo_unsupported(key).name, b"is not supported in an item")
        elif cyclebody_typo(q, key, CYCLE_ITEM_NAMES, t):
            return False
        elif value.p != NULL and strict:
            typo_shown(slice_of(key.p + 1, key.n - 2), shown)
            q.code = b"unknown_name"
            return cyclebody_refuse(t, shown, b"is no key of an item: queue, partition, payload, transactionId, "
                                    b"traceId, traceparent, tracestate, headers, namespace, task")
    if j.error != NULL:
        return cyclebody_no_json(q, j, t)
    memcpy(&raw.queue, &given.queue, ITEM_SHARED * sizeof(Slice))
    if not cyclebody_text(raw.queue, t, 1, NAME_MAX, b"queue", &text):
        return False
    if text.p == NULL:
        return cyclebody_refuse(t, b"queue", b"is required")
    if (not cyclebody_text(raw.part, t, 0, NAME_MAX, b"partition", &text)
            or not cyclebody_text(raw.txid, t, 0, CYCLE_TXID, b"transactionId", &text)):
        return False
    if text.p != NULL and not ident_txid_fits(text):
        return cyclebody_refuse(t, b"transactionId", b"must have at most 255 characters")
    if not cyclebody_text(raw.trace, t, 0, NAME_MAX, b"traceId", &text):
        return False
    if text.n and not uuid_parse(text, id):
        return cyclebody_refuse(t, b"traceId", b"must be a UUID")
    if (not cyclebody_text(given.ns, t, 0, NAME_MAX, b"namespace", &given.ns)
            or not cyclebody_text(given.task, t, 0, NAME_MAX, b"task", &given.task)
            or not pushitem_new(&raw, t, it, b"null", NULL, it - 1 if t.index else NULL)
            or not cyclebody_headers(&given, t, it)):
        return False
    return given.ns.n + given.task.n == 0 or cyclebody_namespace(q, t, it.queue, given.ns, given.task)

cdef bint cyclebody_headers(CycleItemRaw* given, Tools* t, PushItem* it) noexcept nogil:
    # Stores headers and trace context of an item.
    cdef ItemHeaders headers
    cdef Slice parent, state
    cdef const char* why
    if given.headers.p == NULL and given.parent.p == NULL and given.state.p == NULL:
        return True
    if (not cyclebody_text(given.parent, t, 0, NAME_MAX, b"traceparent", &parent)
            or not cyclebody_text(given.state, t, 0, TRACESTATE_MOST, b"tracestate", &state)):
        return False
    why = itemheaders_take(t, given.headers, &given.parent, &given.state, &headers)
    if why != NULL:
        return cyclebody_refuse_text(t, why) if why[0] else refuse_memory(&t.error)
    parent = state = slice_of(NULL, 0)
    if given.parent.p != NULL and not text_unescape(given.parent, t.arena, &parent, NULL):
        return refuse_memory(&t.error)
    if given.state.p != NULL and not text_unescape(given.state, t.arena, &state, NULL):
        return refuse_memory(&t.error)
    if (given.parent.p != NULL or given.state.p != NULL) and not trace_parent_valid(parent):
        return cyclebody_refuse_text(t, TRACEPARENT_TEXT)
    if given.state.p != NULL and not trace_state_valid(state):
        return cyclebody_refuse_text(t, TRACESTATE_TEXT)
    if parent.n == 0 and headers.rest.n == 0:
        return True
    return trace_headers(t.arena, it, parent, state, headers.rest) or refuse_memory(&t.error)

cdef bint cyclebody_refuse_text(Tools* t, const char* text) noexcept nogil:
    # Refuses the item that is read for a reason that names the member. Returns False.
    return refuse_as(&t.error, b"%s[%d]: %s", t.what, t.index, text)

cdef bint cyclebody_namespace(CycleReq* q, Tools* t, Slice queue, Slice ns, Slice task) noexcept nogil:
    # Notes namespace and task of the queue, in case it is created. The newest entry comes first.
    cdef CycleSpace* s = <CycleSpace*>arena_alloc(t.arena, sizeof(CycleSpace))
    if s == NULL:
        return refuse_memory(&t.error)
    s.next = q.spaces
    s.queue = queue
    s.ns = ns if ns.p != NULL else slice_lit(b"")
    s.task = task if task.p != NULL else slice_lit(b"")
    q.spaces = s
    return True

# ---- the acknowledgment ----------------------------------------------------------------------------------------------

cdef bint cyclebody_ack(Slice raw, Tools* t, CycleReq* q) noexcept nogil:
    cdef Json j
    cdef CycleAckRaw ack
    cdef Slice none = slice_of(NULL, 0)
    cdef uint8_t kind, keep
    cdef int64_t n
    if raw.p[0] != b'{':
        return refuse(&t.error, b"ack must be an object or null")
    memset(&ack, 0, sizeof(ack))
    json_open(&j, raw, JSON_DEPTH)
    cyclebody_at(t, b"ack", -1)
    if (not cyclebody_members(q, &j, t, CYCLE_ACK_NAMES, &ack.txid)
            or not cyclebody_text(ack.txid, t, 0, CYCLE_TXID, b"transactionId", &ack.txid)
            or not cyclebody_text(ack.lease, t, 0, NAME_MAX, b"leaseId", &ack.lease)
            or not cyclebody_text(ack.status, t, 0, NAME_MAX, b"status", &ack.status)
            or not cyclebody_reason(ack.error, t, q)):
        return False
    q.has_ack = True
    q.dead = slice_is(ack.status, b"failed") or slice_is(ack.status, b"dlq")
    q.has_lease = ack.lease.n != 0
    q.count = <int>n if ident_whole(ack.count, &n) and n <= 0x7fffffff else 1
    if q.error.n == 0:
        q.error = slice_lit(b"Streaming cycle reported failure")
    if ack.txid.n == 0:
        cyclebody_fail(q, t.arena, b"ack.transactionId is required", none)
        return True
    ident_record(ack.txid, q.ack, &kind, &keep)
    if ack.status.n and not (q.dead or slice_is(ack.status, b"completed") or slice_is(ack.status, b"success")):
        cyclebody_fail(q, t.arena, b"Unknown ack.status: ", ack.status)
    elif q.has_lease and not uuid_parse(ack.lease, q.lease):
        cyclebody_fail(q, t.arena, b"Invalid or expired lease", none)
    return True

cdef bint cyclebody_reason(Slice raw, Tools* t, CycleReq* q) noexcept nogil:
    # Takes why the cycle failed: a text, or any other JSON as it is spelled.
    if raw.p == NULL or raw.p[0] == b'"' or raw.p[0] == b'n':
        return cyclebody_text(raw, t, 0, CYCLE_REASON, b"error", &q.error)
    if raw.n > CYCLE_REASON or not text_is_utf8(raw):
        return cyclebody_refuse(t, b"error", b"must be at most 65536 bytes")
    q.error = raw
    return True

# ---- texts, refusals, failures ---------------------------------------------------------------------------------------

cdef bint cyclebody_text(Slice raw, Tools* t, size_t least, size_t most, const char* name, Slice* out) noexcept nogil:
    # Reads a text, p NULL if it is absent or null. Returns False if it is no text, too short, too long, or has a NUL.
    cdef bint half = False
    cdef char[80] text
    out[0] = slice_of(NULL, 0)
    if raw.p == NULL or slice_is(raw, b"null"):
        return True
    if (raw.p[0] == b'"' and text_unescape(raw, t.arena, out, &half) and not half and least <= out.n <= most
            and memchr(out.p, 0, out.n) == NULL):
        return True
    snprintf(text, sizeof(text), b"must be a text of %s%d bytes without NUL", b"1 to " if least else b"at most ",
             <int>most)
    return cyclebody_refuse(t, name, text)

cdef bint cyclebody_refuse(Tools* t, const char* name, const char* text) noexcept nogil:
    # Refuses a member of the part that is read: `push_items[3].queue is required`. Returns False.
    if t.what == NULL:
        return refuse_as(&t.error, b"%s %s", name, text)
    if t.index < 0:
        return refuse_as(&t.error, b"%s.%s %s", t.what, name, text)
    return refuse_as(&t.error, b"%s[%d].%s %s", t.what, t.index, name, text)

cdef bint cyclebody_no_json(CycleReq* q, Json* j, Tools* t) noexcept nogil:
    q.code = b"invalid_json"
    return json_refuse(&t.error, j)

cdef bint cyclebody_too_many(CycleReq* q, const char* name, int most, Tools* t) noexcept nogil:
    q.code = b"too_many"
    return refuse_as(&t.error, b"%s has more than %d elements", name, most)

cdef bint cyclebody_typo(CycleReq* q, Slice key, const char* names, Tools* t) noexcept nogil:
    # Judges an unknown key. Returns True if it was refused.
    if not typo_key(key, names, t.what, t.index, t.arena, &t.error):
        return False
    q.code = b"unknown_name"
    return True

cdef void cyclebody_fail(CycleReq* q, Arena* a, const char* text, Slice what) noexcept nogil:
    # Marks a well-formed cycle as failed; the first reason counts.
    cdef size_t n = strlen(text)
    cdef char* out
    if q.failed.p != NULL:
        return
    if what.n > 200:
        what.n = 200
        while <unsigned char>what.p[what.n] & 0xc0 == 0x80:      # cut in front of a character
            what.n -= 1
    out = <char*>arena_alloc(a, n + what.n)
    if out == NULL:
        q.failed = slice_lit(b"Out of memory")
        return
    memcpy(out, text, n)
    if what.n:
        memcpy(out + n, what.p, what.n)
    q.failed = slice_of(out, n + what.n)

# ---- the answer ------------------------------------------------------------------------------------------------------

cdef void cyclebody_reply(Buf* b, CycleReq* q, Slice queue, Slice error) noexcept nogil:
    # Writes the answer. queue: of the source partition, p NULL: unknown. error: why nothing was done, p NULL: success.
    cdef bint done = error.p == NULL
    member_bool(b, b"{\"success\":", done)
    member_raw(b, b",\"query_id\":", q.query_json)
    member_raw(b, b",\"partition_id\":", q.partition_json)
    buf_text(b, b",\"queueName\":")
    if queue.p != NULL:
        text_escape(b, queue)
    else:
        buf_text(b, b"null")
    member_int(b, b",\"state_ops_applied\":", q.n if done and not q.windows_closed else 0)
    buf_text(b, b",\"push_results\":")
    if done and not q.windows_closed:
        pushreply_put(b, &q.push, q.push.n)
    else:
        buf_text(b, b"[]")
    buf_text(b, b",\"ack_result\":")
    if q.has_ack and done:
        member_int(b, b"{\"success\":true,\"count\":", 0 if q.dead else q.count)
        member_bool(b, b",\"lease_released\":", not q.keeps and not q.dead)
        member_bool(b, b",\"dlq\":", q.dead)
        buf_byte(b, b'}')
    else:
        buf_text(b, b"null")
    if not done:
        member_text(b, b",\"error\":", error)
    buf_byte(b, b'}')
