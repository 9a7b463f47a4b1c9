# Reads POST /api/v1/transaction, as JSON or in frames, and writes its answer. In: a body. Out: one flat list of
# operations (a push of k items is k of them), or a refusal; the answer. Stateless, takes no lock. The member kv is read
# by route/kvbody, timers by route/timerbody. The member positions is refused unless empty; unknown ones as in
# route/typos.

cdef struct TxRaw:
    # One operation's members, as found.
    Slice kind                # literal of "type", p NULL when absent; other types keep their text
    const char* items         # where the array of a push begins, NULL: absent
    bint items_bad            # `items` is not an array
    Slice data                # the payload by another name
    ItemRaw item              # the operation as an item to be pushed,
    AckRaw ack                # and as an acknowledgment

# ---- a transaction in either form ------------------------------------------------------------------------------------

cdef bint txbody_read(Slice headers, Slice body, Tools* t, TxReq* q) noexcept nogil:
    # Reads a transaction in either form.
    memset(q, 0, sizeof(TxReq))
    uuid_make(t.uuids, q.id)
    t.what = b"operation"
    return txbody_frames(body, t, q) if pushitems_form(headers, body) == MEDIA_FRAMES else txbody_parse(body, t, q)

# ---- in frames -------------------------------------------------------------------------------------------------------
# application/x-queen-push: other operations than pushes as JSON, pushes as groups of message frames
# (docs/binary-formats.md). In the answer the head's operations come first, then the messages in wire order.

cdef bint txbody_frames(Slice body, Tools* t, TxReq* q) noexcept nogil:
    cdef Frames f
    cdef PushReq pushes
    cdef Slice head
    cdef uint32_t size
    cdef uint8_t flags
    cdef TxOp* ops
    cdef int i
    frames_begin(&f, body, t, &pushes)
    if not frames_magic(body, b"QTB1"):
        return refuse(&t.error, b"Invalid binary transaction: it does not begin with QTB1")
    if body.n < 5:
        return refuse(&t.error, b"Invalid binary transaction: cut off")
    flags = f.p[4]
    f.p += 5
    if flags & ~FRAMES_COUNTS:
        return refuse(&t.error, b"Invalid binary transaction: unknown flags")
    if not frames_u32(&f, &size) or not frames_slice(&f, size, &head):
        return refuse(&t.error, b"Invalid binary transaction: cut off")
    if head.n and not txbody_object(head, t, q, False):
        return False
    f.max_items -= q.n
    f.single = True
    if not frames_groups(&f, FRAMES_FRAMES):
        return False
    if q.n + pushes.n + q.kv.n + q.timers.n == 0:
        return refuse(&t.error, b"operations array cannot be empty")
    q.counts = flags & FRAMES_COUNTS != 0
    q.unpacked = f.unpacked
    if pushes.n == 0:
        return True
    ops = <TxOp*>arena_zero(t.arena, (q.n + pushes.n) * sizeof(TxOp))
    if ops == NULL:
        return refuse_memory(&t.error)
    if q.n:
        memcpy(ops, q.ops, q.n * sizeof(TxOp))
    for i in range(pushes.n):
        ops[q.n + i].kind = TX_PUSH
        ops[q.n + i].push = &pushes.items[i]
        pushes.items[i].next = NULL
    q.ops = ops
    q.n += pushes.n
    return True

# ---- as JSON ---------------------------------------------------------------------------------------------------------

cdef bint txbody_parse(Slice body, Tools* t, TxReq* q) noexcept nogil:
    # Reads a body: an object, or the array of the operations alone.
    cdef Json j
    if not json_body(&j, body, &t.error):
        return False
    if json_peek(&j) == b'[':
        if not txbody_operations(&j, t, q):
            return False
        if not json_end(&j):
            return json_refuse(&t.error, &j)
    elif not txbody_object(body, t, q, True):
        return False
    return q.given != 0 or q.kv.n or q.timers.n or refuse(&t.error, b"operations array cannot be empty")

cdef bint txbody_object(Slice body, Tools* t, TxReq* q, bint whole) noexcept nogil:
    # Reads a body. whole: the operations array must be there.
    cdef Json j
    cdef bint first = True
    cdef bint seen = False
    cdef Slice key, value
    cdef int c
    if not json_body_object(&j, body, b"operations array required", &t.error):
        return False
    json_enter(&j, b'{')
    while member_next(&j, &first, t.arena, &key):
        c = json_peek(&j)
        if member_is(key, b"operations") and c == b'[':
            if seen:
                return refuse(&t.error, b"operations is given twice")
            seen = True
            if not txbody_operations(&j, t, q):
                return False
            continue
        if member_is(key, b"requiredLeases") and c == b'[':
            if q.required != NULL:
                return refuse(&t.error, b"requiredLeases is given twice")
            if not txbody_leases(&j, t, q):
                return False
            continue
        if member_is(key, b"kv") and c == b'[':
            if q.kv.n:
                return refuse(&t.error, b"kv is given twice")
            if not kvbody_operations(&j, t, &q.kv, True):
                return False
            continue
        if member_is(key, b"timers") and c == b'[':
            if q.timers.n:
                return refuse(&t.error, b"timers is given twice")
            if not timerbody_operations(&j, t, &q.timers):
                return False
            continue
        if not json_skip(&j, &value):
            break
        if (member_is(key, b"kv") or member_is(key, b"timers")
                or member_is(key, b"positions")) and not txbody_blank(value):
            # half a bundle would be worse than none
            return refuse_as(&t.error, b"%.*s is not supported in a transaction", <int>(key.n - 2), key.p + 1)
        if member_is(key, b"requiredLeases") and c != b'n':
            # a fence is never dropped silently
            return refuse(&t.error, b"requiredLeases must be an array (field requiredLeases)")
        if typo_key(key, TX_BODY_NAMES, b"body", -1, t.arena, &t.error):
            return False
    if j.error != NULL or not json_end(&j):
        return json_refuse(&t.error, &j)
    return seen or not whole or q.kv.n or q.timers.n or refuse(&t.error, b"operations array required")

cdef bint txbody_blank(Slice value) noexcept nogil:
    # Returns True for null, or an array or object with nothing in it.
    cdef size_t i
    if slice_is(value, b"null"):
        return True
    if value.p[0] != b'[' and value.p[0] != b'{':
        return False
    for i in range(1, value.n - 1):
        if value.p[i] != b' ' and value.p[i] != b'\n' and value.p[i] != b'\r' and value.p[i] != b'\t':
            return False
    return True

cdef bint txbody_leases(Json* j, Tools* t, TxReq* q) noexcept nogil:
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
            return refuse_as(&t.error, b"A required lease must be a string (element %d, field requiredLeases)",
                             index - 1)
        if q.n_required >= t.settings.max_items:
            return refuse(&t.error, b"The transaction has too many required leases")
        q.required = <unsigned char*>arena_grow(t.arena, q.required, q.n_required, 16, 8, &room)
        if q.required == NULL:
            return refuse_memory(&t.error)
        if not text_unescape(raw, t.arena, &text, NULL) or not uuid_parse(text, q.required + 16 * q.n_required):
            # such a lease was never given, so it counts as expired
            memset(q.required + 16 * q.n_required, 0, 16)
        q.n_required += 1
    return j.error == NULL or json_refuse(&t.error, j)

cdef bint txbody_operations(Json* j, Tools* t, TxReq* q) noexcept nogil:
    cdef bint first = True
    json_enter(j, b'[')
    while json_element(j, &first):
        t.index = q.given
        if json_peek(j) != b'{':
            if not json_skip(j, NULL):
                break
            return refuse_as(&t.error, b"Each operation must be an object (operation %d)", q.given)
        if not txbody_operation(j, t, q):
            return False
        q.given += 1
    return j.error == NULL or json_refuse(&t.error, j)

cdef bint txbody_operation(Json* j, Tools* t, TxReq* q) noexcept nogil:
    cdef TxRaw raw
    cdef TxOp* op
    if not txbody_members(j, t, &raw) or ackbody_refused(&raw.ack, t):
        return False
    if q.n >= t.settings.max_items:
        return refuse(&t.error, b"The transaction has too many operations")
    if member_is(raw.kind, b"push"):
        if raw.items_bad:
            return refuse_item(t, b"items must be an array", b"items")
        if raw.items != NULL:
            return txbody_push_items(slice_of(raw.items, j.p - raw.items), t, q)
        if raw.item.payload.p == NULL:
            raw.item.payload = raw.data
        return txbody_push(&raw.item, t, q)
    op = txbody_add(q, t)
    if op == NULL:
        return False
    op.type_json = raw.kind if raw.kind.p != NULL else slice_lit(b"null")
    if member_is(raw.kind, b"ack"):
        op.kind = TX_ACK
        op.ack = <AckItem*>arena_alloc(t.arena, sizeof(AckItem))
        if op.ack == NULL:
            return refuse_memory(&t.error)
        if raw.ack.txid.p == NULL:
            return refuse_item(t, b"transactionId is required", b"transactionId")
        if raw.ack.partition.p == NULL:
            return refuse_item(t, b"partitionId is required to ensure message uniqueness", b"partitionId")
        return ackbody_item(op.ack, &raw.ack, NULL, t)
    return True

cdef bint txbody_members(Json* j, Tools* t, TxRaw* raw) noexcept nogil:
    cdef bint first = True
    cdef Slice key, value
    cdef int c
    memset(raw, 0, sizeof(TxRaw))
    raw.ack.names = TX_NAMES
    json_enter(j, b'{')
    while member_next(j, &first, t.arena, &key):
        c = json_peek(j)
        if member_is(key, b"items"):
            raw.items_bad = raw.items_bad or c != b'['
            raw.items = j.p
        if not json_skip(j, &value):
            break
        ackbody_member(&raw.ack, key, c, value)
        if member_is(key, b"type"):
            raw.kind = value
        elif member_is(key, b"data"):
            raw.data = value
        elif not txbody_member(&raw.item, key, c, value) and raw.item.unknown.p == NULL:
            raw.item.unknown = key
    return j.error == NULL or json_refuse(&t.error, j)

cdef bint txbody_member(ItemRaw* raw, Slice key, int c, Slice value) noexcept nogil:
    # Takes a member of an item; null is as good as absent, except for a payload. Returns False if no item has it.
    if member_is(key, b"payload"):
        raw.payload = value
        return True
    return c == b'n' or pushitem_raw_member(raw, key, c, value)

cdef bint txbody_push(const ItemRaw* raw, Tools* t, TxReq* q) noexcept nogil:
    # Adds a push of one item, flat or of a list.
    cdef PushItem* it = <PushItem*>arena_alloc(t.arena, sizeof(PushItem))
    cdef TxOp* op
    if it == NULL:
        return refuse_memory(&t.error)
    if not pushitem_from_raw(raw, t, it, b"{}", NULL, NULL):
        return False
    op = txbody_add(q, t)
    if op == NULL:
        return False
    op.kind = TX_PUSH
    op.push = it
    return True

cdef bint txbody_push_items(Slice items, Tools* t, TxReq* q) noexcept nogil:
    cdef Json j
    cdef ItemRaw raw
    cdef bint first = True
    cdef bint inner
    cdef Slice key, value
    cdef int c
    # the array was validated already: this walk only picks
    json_open(&j, items, JSON_DEPTH_MAX)
    json_enter(&j, b'[')
    while json_element(&j, &first):
        if json_peek(&j) != b'{':
            return refuse_item(t, b"Each item must be an object", b"items")
        if q.n >= t.settings.max_items:
            return refuse(&t.error, b"The transaction has too many operations")
        memset(&raw, 0, sizeof(ItemRaw))
        inner = True
        json_enter(&j, b'{')
        while member_next(&j, &inner, t.arena, &key):
            c = json_peek(&j)
            json_skip(&j, &value)
            if not txbody_member(&raw, key, c, value) and pushitem_raw_typo(&raw, key, c, t):
                return False
        if not txbody_push(&raw, t, q):
            return False
    return True

cdef TxOp* txbody_add(TxReq* q, Tools* t) noexcept nogil:
    # Adds an operation, zeroed. Returns NULL if it was refused.
    q.ops = <TxOp*>arena_grow(t.arena, q.ops, q.n, sizeof(TxOp), 8, &q.room)
    if q.ops == NULL:
        refuse_memory(&t.error)
        return NULL
    memset(&q.ops[q.n], 0, sizeof(TxOp))
    q.n += 1
    return &q.ops[q.n - 1]

# ---- the answer ------------------------------------------------------------------------------------------------------
# A result for each operation in the order of the request, or why all of it was refused.

cdef const char* TX_FAULT_CODES[TX_FAULT_LATE + 1]      # for programs, by TxFault: words of the second SDK generation
TX_FAULT_CODES = [b"bad_request", b"bad_request", b"bad_request", b"rejected_ack", b"rejected_ack", b"duplicate",
                  b"duplicate_of_deleted", b"queue_full", b"rejected_ack"]

cdef void txbody_reply(Buf* b, TxReq* q, int fault) noexcept nogil:
    # Writes the answer. fault: TX_DONE, TX_LEASE or the index of the operation that failed. A failed transaction lists
    # only the failing operation, because nothing else happened.
    cdef int i
    cdef int pushed = 0
    member_uuid(b, b"{\"transactionId\":", q.id)
    if fault == TX_DONE:
        buf_text(b, b",\"success\":true,\"results\":[")
        for i in range(0 if q.counts else q.n):
            if i:
                buf_byte(b, b',')
            txbody_result(b, &q.ops[i], i)
        txbody_keys(b, &q.kv, q.n, q.counts or q.n == 0)
        timerbody_riding(b, &q.timers, q.n + q.kv.given, (q.counts or q.n == 0) and q.kv.n == 0)
        buf_byte(b, b']')
        if q.counts:
            for i in range(q.n):
                pushed += 1 if q.ops[i].kind == TX_PUSH else 0
            member_int(b, b",\"pushed\":", pushed)
            member_int(b, b",\"duplicate\":0,\"acked\":", q.n - pushed)
        buf_byte(b, b'}')
        return
    buf_text(b, b",\"success\":false,\"reason\":\"")
    if fault == TX_LEASE:
        buf_text(b, b"rejected_ack\",\"error\":\"Invalid or expired lease\",\"results\":[]}")
        return
    if fault == TX_KEYS:
        member_int(b, b"kv_precondition\",\"failedIndex\":", q.n + q.kv.lost.at)
        buf_text(b, b",\"error\":\"A required operation on a key was not applied\",")
        kvreply_precondition(b, &q.kv.lost)
        buf_text(b, b",\"results\":[]}")
        return
    if fault == TX_TIMERS:
        member_int(b, b"timers_quota_exceeded\",\"failedIndex\":", q.n + q.kv.given)
        buf_text(b, b",\"error\":\"There are too many timers: cancel some, or wait until some have fired\","
                 b"\"results\":[]}")
        return
    buf_text(b, TX_FAULT_CODES[q.ops[fault].fault])
    member_int(b, b"\",\"failedIndex\":", fault)
    buf_text(b, b",\"error\":")
    txbody_fault_text(b, &q.ops[fault])
    buf_text(b, b",\"results\":[")
    if q.ops[fault].kind != TX_PUSH:
        txbody_result(b, &q.ops[fault], fault)
    buf_text(b, b"]}")

cdef void txbody_keys(Buf* b, KvReq* q, int before, bint first) noexcept nogil:
    # Writes the results of operations on keys, behind those of `before` operations.
    cdef int i = 0
    while i < q.n:
        if not first:
            buf_byte(b, b',')
        first = False
        member_int(b, b"{\"index\":", before + q.ops[i].at)
        member_int(b, b",\"type\":\"kv\",\"opIndex\":", q.ops[i].at)
        i += kvreply_element(b, &q.ops[i], q.n - i, q)
        buf_byte(b, b'}')

cdef void txbody_result(Buf* b, TxOp* op, int index) noexcept nogil:
    member_int(b, b"{\"index\":", index)
    if op.kind == TX_PUSH:
        buf_text(b, b",\"type\":\"push\",\"success\":true,\"transactionId\":")
        pushreply_txid(b, op.push)
        member_uuid(b, b",\"messageId\":", op.push.message_id)
        buf_text(b, b",\"partitionId\":\"")
        buf_put(b, op.push.partition_uuid, 36)
        buf_text(b, b"\",\"queueName\":")
        pushreply_queue(b, op.push)
        pushreply_spread(b, op.push)
    elif op.kind == TX_ACK:
        member_bool(b, b",\"type\":\"ack\",\"success\":", op.fault == TX_FAULT_NONE)
        member_raw(b, b",\"transactionId\":", op.ack.txid_json)
        buf_text(b, b",\"error\":")
        buf_text(b, txbody_ack_error(op))
        member_bool(b, b",\"dlq\":", op.ack.code & ACKED_DLQ)
    else:
        member_raw(b, b",\"type\":", op.type_json)
        buf_text(b, b",\"success\":false,\"error\":")
        txbody_fault_text(b, op)
    buf_byte(b, b'}')

cdef const char* txbody_ack_error(TxOp* op) noexcept nogil:
    # Returns why an acknowledgment failed, as JSON.
    if op.fault == TX_FAULT_LEASE: return ackbody_lease_error(op.ack)
    if op.fault == TX_FAULT_NOT_FOUND: return b'"Message not found"'
    if op.fault == TX_FAULT_LATE: return b'"Message already committed"'
    return b'"Unknown error"' if op.fault else b"null"

cdef void txbody_fault_text(Buf* b, TxOp* op) noexcept nogil:
    if op.fault == TX_FAULT_TYPE:
        buf_text(b, b"\"Unknown operation type: ")
        if op.type_json.n > 2 and op.type_json.p[0] == b'"':
            buf_put(b, op.type_json.p + 1, op.type_json.n - 2)
        else:
            buf_text(b, b"null")
        buf_byte(b, b'"')
    elif op.fault == TX_FAULT_STATUS:
        buf_text(b, b"\"ACK operation failed: Unknown error\"")
    elif op.fault == TX_FAULT_LEASE or op.fault == TX_FAULT_NOT_FOUND or op.fault == TX_FAULT_LATE:
        buf_text(b, b"\"ACK operation failed: ")
        buf_text(b, txbody_ack_error(op) + 1)    # it is quoted
    elif op.fault == TX_FAULT_FULL:
        pushreply_full(b, op.push)
    elif op.fault == TX_FAULT_OF_DELETED:
        buf_text(b, b"\"duplicate key: the message with this transactionId in the partition was deleted\"")
    else:
        buf_text(b, b"\"duplicate key: a message with this transactionId is already stored in the partition\"")
