# POST /api/v1/transaction: the body read into one flat list of operations (a push of k items is k of them); what
# belongs to none of them is refused.

cdef struct TxRaw:
    # One operation's members, as found.
    Slice kind                # literal of "type", p NULL when absent; other types keep their text
    bint kind_string
    const char* items         # where the array of a push begins, NULL when there is none
    Slice payload, data, queue, trace, due
    Slice parent, state       # trace context
    int wrong                 # 1 partition 2 queue 8 trace: present, not a string
    AckRaw ack                # transactionId, partitionId, status, group, lease, error, delayMs share their names
    Slice part

cdef bint tx_grow(TxReq* q, Arena* a, int* room, ApiError* e) noexcept nogil:
    q.ops = <TxOp*>arena_grow(a, q.ops, q.n, sizeof(TxOp), 8, room)
    if q.ops == NULL:
        error_set(e, 503, b"Out of memory")
    return q.ops != NULL

cdef bint tx_parse(Slice body, Arena* a, UuidGen* g, int max_items, TxReq* q, ApiError* e) noexcept nogil:
    cdef bint empty = False
    memset(q, 0, sizeof(TxReq))
    uuid7_make(g, q.id)
    if not tx_body(body, a, g, max_items, q, &empty, e):
        return False
    if empty:
        return refuse(e, b"operations array cannot be empty")
    return True

cdef bint tx_body(Slice body, Arena* a, UuidGen* g, int max_items, TxReq* q, bint* empty, ApiError* e) noexcept nogil:
    # empty: is the operations array? NULL: it may be, and even be missing.
    cdef Json j
    cdef bint first = True
    cdef bint seen = False
    cdef bint none = False
    cdef Slice key, value
    cdef int c
    cdef int room = 0
    if not body_object(&j, body, b"operations array required", e):
        return False
    json_enter(&j, b'{')
    while member_next(&j, &first, a, &key):
        c = json_peek(&j)
        if key_is(key, b"operations") and c == b'[':
            if seen:
                return refuse(e, b"operations is given twice")
            seen = True
            if not tx_operations(&j, a, g, max_items, &room, q, &none, e):
                return False
            continue
        if key_is(key, b"requiredLeases") and c == b'[':
            if q.required != NULL:
                return refuse(e, b"requiredLeases is given twice")
            if not tx_required(&j, a, max_items, q, e):
                return False
            continue
        if not json_skip(&j, &value):
            break
        if (key_is(key, b"kv") or key_is(key, b"timers") or key_is(key, b"positions")) and not tx_blank(value):
            # half a bundle would be worse than none
            e.status = 400
            snprintf(e.text, 239, b"%.*s is not supported in a transaction", <int>(key.n - 2), key.p + 1)
            return False
        if key_is(key, b"requiredLeases") and c != b'n':
            # a fence is never dropped silently
            return refuse(e, b"requiredLeases must be an array (field requiredLeases)")
        if key_stray(key, TX_BODY_NAMES, b"body", -1, a, e):
            return False
    if j.error != NULL or not json_end(&j):
        return refuse_json(e, &j)
    if empty != NULL:
        if not seen:
            return refuse(e, b"operations array required")
        empty[0] = none
    return True

cdef bint tx_blank(Slice value) noexcept nogil:
    # null, or an array or object with nothing in it
    cdef size_t i
    if slice_is(value, b"null"):
        return True
    if value.p[0] != b'[' and value.p[0] != b'{':
        return False
    for i in range(1, value.n - 1):
        if value.p[i] != b' ' and value.p[i] != b'\n' and value.p[i] != b'\r' and value.p[i] != b'\t':
            return False
    return True

cdef bint tx_required(Json* j, Arena* a, int max_items, TxReq* q, ApiError* e) noexcept nogil:
    cdef bint first = True
    cdef Slice raw, text
    cdef int c
    cdef int index = 0
    cdef int room = 0
    json_enter(j, b'[')
    while json_element(j, &first):
        c = json_peek(j)
        if not json_skip(j, &raw):
            break
        index += 1
        if c == b'n' or (c == b'"' and raw.n == 2):
            continue          # of messages that were popped without a lease
        if c != b'"':
            return refuse_item(e, b"A required lease must be a string", b"element", index - 1, b"requiredLeases")
        if q.n_required >= max_items:
            return refuse(e, b"The transaction has too many required leases")
        q.required = <unsigned char*>arena_grow(a, q.required, q.n_required, 16, 8, &room)
        if q.required == NULL:
            error_set(e, 503, b"Out of memory")
            return False
        if not json_unescape(raw, a, &text, NULL) or not uuid_parse(text, q.required + 16 * q.n_required, NULL):
            # a lease of that name was never given: it is not live
            memset(q.required + 16 * q.n_required, 0, 16)
        q.n_required += 1
    if j.error != NULL:
        return refuse_json(e, j)
    return True

cdef bint tx_operations(Json* j, Arena* a, UuidGen* g, int max_items, int* room, TxReq* q, bint* empty,
                        ApiError* e) noexcept nogil:
    cdef bint first = True
    cdef int index = 0
    empty[0] = True
    json_enter(j, b'[')
    while json_element(j, &first):
        empty[0] = False
        if json_peek(j) != b'{':
            if not json_skip(j, NULL):
                break
            e.status = 400
            snprintf(e.text, 239, b"Each operation must be an object (operation %d)", index)
            return False
        if not tx_operation(j, a, g, max_items, room, q, index, e):
            return False
        index += 1
    if j.error != NULL:
        return refuse_json(e, j)
    return True

cdef bint tx_operation(Json* j, Arena* a, UuidGen* g, int max_items, int* room, TxReq* q, int index,
                       ApiError* e) noexcept nogil:
    cdef TxRaw raw
    cdef bint first = True
    cdef Slice key, value
    cdef int c
    cdef bint items_bad = False
    cdef TxOp* op
    memset(&raw, 0, sizeof(TxRaw))
    raw.ack.names = TX_NAMES
    json_enter(j, b'{')
    while member_next(j, &first, a, &key):
        c = json_peek(j)
        if key_is(key, b"items"):
            if c != b'[':
                items_bad = True
            raw.items = j.p
        if not json_skip(j, &value):
            break
        ackraw_member(&raw.ack, key, c, value)
        if key_is(key, b"type"):
            raw.kind = value
            raw.kind_string = c == b'"'
        elif key_is(key, b"payload"):
            raw.payload = value
        elif key_is(key, b"data"):
            raw.data = value
        elif c == b'n':
            pass              # null: as if absent
        elif key_is(key, b"queue"):
            raw.queue = value
            if c != b'"':
                raw.wrong |= 2
        elif key_is(key, b"partition"):
            raw.part = value
            if c != b'"':
                raw.wrong |= 1
        elif key_is(key, b"traceId"):
            raw.trace = value
            if c != b'"':
                raw.wrong |= 8
        elif key_is(key, b"deliverAt"):
            raw.due = value
        elif key_is(key, b"traceparent"):
            raw.parent = value
        elif key_is(key, b"tracestate"):
            raw.state = value
    if j.error != NULL:
        return refuse_json(e, j)
    if ackraw_refused(&raw.ack, b"operation", index, a, e):
        return False
    if q.n >= max_items:
        return refuse(e, b"The transaction has too many operations")
    if raw.kind_string and key_is(raw.kind, b"push"):
        if items_bad:
            return refuse_item(e, b"items must be an array", b"operation", index, b"items")
        return tx_push(j, a, g, max_items, room, q, &raw, index, e)
    if not tx_grow(q, a, room, e):
        return False
    op = &q.ops[q.n]
    memset(op, 0, sizeof(TxOp))
    op.type_json = raw.kind if raw.kind.p != NULL else slice_lit(b"null")
    if raw.kind_string and key_is(raw.kind, b"ack"):
        op.kind = TX_ACK
        op.ack = <AckItem*>arena_alloc(a, sizeof(AckItem))
        if op.ack == NULL:
            error_set(e, 503, b"Out of memory")
            return False
        if raw.ack.txid.p == NULL:
            return refuse_item(e, b"transactionId is required", b"operation", index, b"transactionId")
        if raw.ack.partition.p == NULL:
            return refuse_item(e, b"partitionId is required to ensure message uniqueness", b"operation", index,
                               b"partitionId")
        if not ackitem_take(op.ack, &raw.ack, NULL, a, b"operation", index, e):
            return False
    q.n += 1
    return True

cdef bint tx_push_one(Arena* a, UuidGen* g, int* room, TxReq* q, TxRaw* raw, int index, ApiError* e) noexcept nogil:
    # One item, flat or of a list.
    cdef PushItem* it
    cdef Slice payload = raw.payload if raw.payload.p != NULL else raw.data
    cdef TxOp* op
    if raw.wrong & 1:
        return refuse_item(e, b"Partition must be a string", b"operation", index, b"partition")
    if raw.wrong & 2 or raw.queue.p == NULL:
        return refuse_item(e, b"Queue must be a string", b"operation", index, b"queue")
    if raw.ack.txid_bad:
        return refuse_item(e, b"TransactionId must be a string", b"operation", index, b"transactionId")
    if raw.wrong & 8:
        return refuse_item(e, b"TraceId must be a string", b"operation", index, b"traceId")
    if payload.p == NULL and strict:
        return refuse_item(e, b"payload is required", b"operation", index, b"payload")
    it = <PushItem*>arena_alloc(a, sizeof(PushItem))
    if it == NULL:
        error_set(e, 503, b"Out of memory")
        return False
    if not pushitem_new(a, g, it, raw.ack.txid, raw.queue, raw.part, raw.trace, payload, b"{}", NULL, NULL,
                        b"operation", index, e):
        return False
    if not pushitem_due(it, a, raw.due, raw.ack.delay, b"operation", index, e):
        return False
    if (raw.parent.p != NULL or raw.state.p != NULL) and not pushitem_trace(a, it, raw.parent, raw.state, b"operation",
                                                                            index, e):
        return False
    if not tx_grow(q, a, room, e):
        return False
    op = &q.ops[q.n]
    memset(op, 0, sizeof(TxOp))
    op.kind = TX_PUSH
    op.push = it
    q.n += 1
    return True

cdef bint tx_push(Json* outer, Arena* a, UuidGen* g, int max_items, int* room, TxReq* q, TxRaw* raw, int index,
                  ApiError* e) noexcept nogil:
    cdef Json j
    cdef TxRaw item
    cdef bint first = True
    cdef bint inner
    cdef Slice key, value
    cdef int c
    if raw.items == NULL:
        return tx_push_one(a, g, room, q, raw, index, e)
    # the array was validated already: this walk only picks
    json_open(&j, slice_of(raw.items, outer.p - raw.items), JSON_DEPTH_MAX)
    json_enter(&j, b'[')
    while json_element(&j, &first):
        if json_peek(&j) != b'{':
            return refuse_item(e, b"Each item must be an object", b"operation", index, b"items")
        if q.n >= max_items:
            return refuse(e, b"The transaction has too many operations")
        memset(&item, 0, sizeof(TxRaw))
        inner = True
        json_enter(&j, b'{')
        while member_next(&j, &inner, a, &key):
            c = json_peek(&j)
            json_skip(&j, &value)
            if key_is(key, b"payload"):
                item.payload = value
            elif c == b'n':
                pass
            elif key_is(key, b"queue"):
                item.queue = value
                if c != b'"':
                    item.wrong |= 2
            elif key_is(key, b"partition"):
                item.part = value
                if c != b'"':
                    item.wrong |= 1
            elif key_is(key, b"traceId"):
                item.trace = value
                if c != b'"':
                    item.wrong |= 8
            elif key_is(key, b"deliverAt"):
                item.due = value
            elif key_is(key, b"traceparent"):
                item.parent = value
            elif key_is(key, b"tracestate"):
                item.state = value
            elif key_is(key, b"delayMs"):
                item.ack.delay = value
            elif key_is(key, b"transactionId"):
                item.ack.txid = value
                if c != b'"':
                    item.ack.txid_bad = True
            elif key_stray(key, PUSH_NAMES, b"operation", index, a, e):
                return False
        if not tx_push_one(a, g, room, q, &item, index, e):
            return False
    return True
