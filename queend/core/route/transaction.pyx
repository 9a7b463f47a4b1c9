# POST /api/v1/transaction: operations flattened (a push of k items is k operations), riders refused, the answer.

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
    cdef TxOp* more
    if q.n < room[0]:
        return True
    room[0] = room[0] * 4 if room[0] else 8
    more = <TxOp*>arena_alloc(a, room[0] * sizeof(TxOp))
    if more == NULL:
        error_set(e, 503, b"Out of memory")
        return False
    if q.n:
        memcpy(more, q.ops, q.n * sizeof(TxOp))
    q.ops = more
    return True

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
    if not body_open(&j, body, e):
        return False
    if json_peek(&j) != b'{':
        if not json_skip(&j, NULL) or not json_end(&j):
            return refuse_json(e, &j)
        return refuse(e, b"operations array required")
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
    cdef unsigned char* more
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
        if q.n_required == room:
            room = room * 4 if room else 8
            more = <unsigned char*>arena_alloc(a, room * 16)
            if more == NULL:
                error_set(e, 503, b"Out of memory")
                return False
            if q.n_required:
                memcpy(more, q.required, q.n_required * 16)
            q.required = more
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

# ---- the answer ----------------------------------------------------------------------------------------------------

cdef void tx_fault_text(Buf* b, TxOp* op) noexcept nogil:
    if op.fault == TX_FAULT_TYPE:
        buf_text(b, b"\"Unknown operation type: ")
        if op.type_json.n > 2 and op.type_json.p[0] == b'"':
            buf_put(b, op.type_json.p + 1, op.type_json.n - 2)
        else:
            buf_text(b, b"null")
        buf_byte(b, b'"')
    elif op.fault == TX_FAULT_STATUS:
        buf_text(b, b"\"ACK operation failed: Unknown error\"")
    elif op.fault == TX_FAULT_LEASE:
        buf_text(b, b"\"ACK operation failed: Invalid or expired lease\"")
    elif op.fault == TX_FAULT_NOT_FOUND:
        buf_text(b, b"\"ACK operation failed: Message not found\"")
    elif op.fault == TX_FAULT_FULL:
        push_full_text(b, op.push)
    else:
        buf_text(b, b"\"duplicate key: a message with this transactionId is already stored in the partition\"")

cdef void tx_fault_word(Buf* b, int fault) noexcept nogil:
    # For programs: the words of the second SDK generation.
    if fault == TX_FAULT_DUPLICATE:
        buf_text(b, b"\"duplicate\"")
    elif fault == TX_FAULT_LEASE or fault == TX_FAULT_NOT_FOUND:
        buf_text(b, b"\"rejected_ack\"")
    elif fault == TX_FAULT_FULL:
        buf_text(b, b"\"queue_full\"")
    else:
        buf_text(b, b"\"bad_request\"")

cdef void tx_result(Buf* b, TxOp* op, int index) noexcept nogil:
    buf_text(b, b"{\"index\":")
    buf_int(b, index)
    if op.kind == TX_PUSH:
        buf_text(b, b",\"type\":\"push\",\"success\":true,\"transactionId\":")
        put_txid(b, op.push)
        buf_text(b, b",\"messageId\":")
        put_uuid(b, op.push.message_id)
        buf_text(b, b",\"partitionId\":\"")
        buf_put(b, op.push.partition_uuid, 36)
        buf_text(b, b"\",\"queueName\":")
        put_queue(b, op.push)
    elif op.kind == TX_ACK:
        buf_text(b, b",\"type\":\"ack\",\"success\":")
        put_bool(b, op.fault == TX_FAULT_NONE)
        buf_text(b, b",\"transactionId\":")
        buf_slice(b, op.ack.txid_json)
        buf_text(b, b",\"error\":")
        if op.fault == TX_FAULT_LEASE:
            buf_text(b, b"\"Invalid or expired lease\"")
        elif op.fault == TX_FAULT_NOT_FOUND:
            buf_text(b, b"\"Message not found\"")
        elif op.fault:
            buf_text(b, b"\"Unknown error\"")
        else:
            buf_text(b, b"null")
        buf_text(b, b",\"dlq\":")
        put_bool(b, op.ack.code & 2)
    else:
        buf_text(b, b",\"type\":")
        buf_slice(b, op.type_json)
        buf_text(b, b",\"success\":false,\"error\":")
        tx_fault_text(b, op)
    buf_byte(b, b'}')

cdef void tx_reply(Buf* b, TxReq* q, int fault) noexcept nogil:
    # fault: the operation that failed, -1 none, -2 a required lease is not live. Of a transaction that was not done
    # only the failing operation is listed: nothing else happened.
    cdef int i
    cdef int pushed = 0
    buf_text(b, b"{\"transactionId\":")
    put_uuid(b, q.id)
    if fault == -1:
        buf_text(b, b",\"success\":true,\"results\":[")
        for i in range(0 if q.counts else q.n):
            if i:
                buf_byte(b, b',')
            tx_result(b, &q.ops[i], i)
        buf_byte(b, b']')
        if q.counts:
            for i in range(q.n):
                pushed += 1 if q.ops[i].kind == TX_PUSH else 0
            buf_text(b, b",\"pushed\":")
            buf_int(b, pushed)
            buf_text(b, b",\"duplicate\":0,\"acked\":")
            buf_int(b, q.n - pushed)
        buf_byte(b, b'}')
        return
    buf_text(b, b",\"success\":false,\"reason\":")
    if fault < 0:
        buf_text(b, b"\"rejected_ack\",\"error\":\"Invalid or expired lease\",\"results\":[]}")
        return
    tx_fault_word(b, q.ops[fault].fault)
    buf_text(b, b",\"failedIndex\":")
    buf_int(b, fault)
    buf_text(b, b",\"error\":")
    tx_fault_text(b, &q.ops[fault])
    buf_text(b, b",\"results\":[")
    if q.ops[fault].kind != TX_PUSH:
        tx_result(b, &q.ops[fault], fault)
    buf_text(b, b"]}")
