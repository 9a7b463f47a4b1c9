# Reads POST /api/v1/transaction into one flat list of operations (a push of k items is k of them). In: a body. Out:
# operations, or a refusal. The members kv, timers and positions are refused unless empty; unknown ones as in
# route/stray.

cdef struct TxRaw:
    # One operation's members, as found.
    Slice kind                # literal of "type", p NULL when absent; other types keep their text
    bint kind_string
    const char* items         # where the array of a push begins, NULL: absent
    bint items_bad            # `items` is not an array
    Slice data                # the payload by another name
    ItemRaw item              # the operation as an item to be pushed,
    AckRaw ack                # and as an acknowledgment

cdef TxOp* tx_add(TxReq* q, Arena* a, int* room, ApiError* e) noexcept nogil:
    # Adds an operation, zeroed. Returns NULL if it was refused.
    q.ops = <TxOp*>arena_grow(a, q.ops, q.n, sizeof(TxOp), 8, room)
    if q.ops == NULL:
        refuse_memory(e)
        return NULL
    memset(&q.ops[q.n], 0, sizeof(TxOp))
    q.n += 1
    return &q.ops[q.n - 1]

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
    # Reads a body. empty: the operations array is empty. NULL: it may be empty, and even be missing.
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
            return refuse_as(e, b"%.*s is not supported in a transaction", <int>(key.n - 2), key.p + 1)
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
            return refuse_memory(e)
        if not json_unescape(raw, a, &text, NULL) or not uuid_parse(text, q.required + 16 * q.n_required, NULL):
            # such a lease was never given, so it counts as expired
            memset(q.required + 16 * q.n_required, 0, 16)
        q.n_required += 1
    return j.error == NULL or refuse_json(e, j)

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
            return refuse_as(e, b"Each operation must be an object (operation %d)", index)
        if not tx_operation(j, a, g, max_items, room, q, index, e):
            return False
        index += 1
    return j.error == NULL or refuse_json(e, j)

cdef bint tx_operation(Json* j, Arena* a, UuidGen* g, int max_items, int* room, TxReq* q, int index,
                       ApiError* e) noexcept nogil:
    cdef TxRaw raw
    cdef TxOp* op
    if not tx_members(j, a, &raw, e):
        return False
    if ackraw_refused(&raw.ack, b"operation", index, a, e):
        return False
    if q.n >= max_items:
        return refuse(e, b"The transaction has too many operations")
    if raw.kind_string and key_is(raw.kind, b"push"):
        if raw.items_bad:
            return refuse_item(e, b"items must be an array", b"operation", index, b"items")
        if raw.items != NULL:
            return tx_push_items(slice_of(raw.items, j.p - raw.items), a, g, max_items, room, q, index, e)
        if raw.item.payload.p == NULL:
            raw.item.payload = raw.data
        return tx_push(a, g, room, q, &raw.item, index, e)
    op = tx_add(q, a, room, e)
    if op == NULL:
        return False
    op.type_json = raw.kind if raw.kind.p != NULL else slice_lit(b"null")
    if raw.kind_string and key_is(raw.kind, b"ack"):
        op.kind = TX_ACK
        op.ack = <AckItem*>arena_alloc(a, sizeof(AckItem))
        if op.ack == NULL:
            return refuse_memory(e)
        if raw.ack.txid.p == NULL:
            return refuse_item(e, b"transactionId is required", b"operation", index, b"transactionId")
        if raw.ack.partition.p == NULL:
            return refuse_item(e, b"partitionId is required to ensure message uniqueness", b"operation", index,
                               b"partitionId")
        return ackitem_take(op.ack, &raw.ack, NULL, a, b"operation", index, e)
    return True

cdef bint tx_members(Json* j, Arena* a, TxRaw* raw, ApiError* e) noexcept nogil:
    cdef bint first = True
    cdef Slice key, value
    cdef int c
    memset(raw, 0, sizeof(TxRaw))
    raw.ack.names = TX_NAMES
    json_enter(j, b'{')
    while member_next(j, &first, a, &key):
        c = json_peek(j)
        if key_is(key, b"items"):
            raw.items_bad = raw.items_bad or c != b'['
            raw.items = j.p
        if not json_skip(j, &value):
            break
        ackraw_member(&raw.ack, key, c, value)
        if key_is(key, b"type"):
            raw.kind = value
            raw.kind_string = c == b'"'
        elif key_is(key, b"data"):
            raw.data = value
        elif not tx_member(&raw.item, key, c, value) and raw.item.unsupported == NULL:
            raw.item.unsupported = name_unsupported(key)
    return j.error == NULL or refuse_json(e, j)

cdef bint tx_member(ItemRaw* raw, Slice key, int c, Slice value) noexcept nogil:
    # Takes a member of an item; null is as good as absent, except for a payload. Returns False if no item has it.
    if key_is(key, b"payload"):
        raw.payload = value
        return True
    return c == b'n' or itemraw_member(raw, key, c, value)

cdef bint tx_push(Arena* a, UuidGen* g, int* room, TxReq* q, const ItemRaw* raw, int index, ApiError* e) noexcept nogil:
    # Adds a push of one item, flat or of a list.
    cdef PushItem* it = <PushItem*>arena_alloc(a, sizeof(PushItem))
    cdef TxOp* op
    if it == NULL:
        return refuse_memory(e)
    if not itemraw_item(raw, a, g, it, b"{}", NULL, NULL, b"operation", index, e):
        return False
    op = tx_add(q, a, room, e)
    if op == NULL:
        return False
    op.kind = TX_PUSH
    op.push = it
    return True

cdef bint tx_push_items(Slice items, Arena* a, UuidGen* g, int max_items, int* room, TxReq* q, int index,
                        ApiError* e) noexcept nogil:
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
            return refuse_item(e, b"Each item must be an object", b"operation", index, b"items")
        if q.n >= max_items:
            return refuse(e, b"The transaction has too many operations")
        memset(&raw, 0, sizeof(ItemRaw))
        inner = True
        json_enter(&j, b'{')
        while member_next(&j, &inner, a, &key):
            c = json_peek(&j)
            json_skip(&j, &value)
            if not tx_member(&raw, key, c, value) and itemraw_stray(&raw, key, c, b"operation", index, a, e):
                return False
        if not tx_push(a, g, room, q, &raw, index, e):
            return False
    return True
