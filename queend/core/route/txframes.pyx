# Reads POST /api/v1/transaction with application/x-queen-push: other operations than pushes as JSON, pushes as groups
# of message frames (docs/binary-formats.md). In: a body. Out: operations. In the answer the head's operations come
# first, then the messages in wire order.

cdef bint tx_read(Slice headers, Slice body, Unzip* z, Arena* a, UuidGen* g, int max_items, TxReq* q,
                  ApiError* e) noexcept nogil:
    # Reads a transaction in either form.
    if push_form(headers, body) == PUSH_FRAMES:
        return txframes_parse(body, z, a, g, max_items, q, e)
    return tx_parse(body, a, g, max_items, q, e)

cdef bint txframes_parse(Slice body, Unzip* z, Arena* a, UuidGen* g, int max_items, TxReq* q,
                         ApiError* e) noexcept nogil:
    cdef Frames f
    cdef PushReq pushes
    cdef Slice head
    cdef uint32_t size
    cdef uint8_t flags
    cdef TxOp* ops
    cdef int i
    memset(q, 0, sizeof(TxReq))
    uuid7_make(g, q.id)
    frames_begin(&f, body, z, a, g, max_items, &pushes, e)
    if not frames_magic(body, b"QTB1"):
        return refuse(e, b"Invalid binary transaction: it does not begin with QTB1")
    if body.n < 5:
        return refuse(e, b"Invalid binary transaction: cut off")
    flags = f.p[4]
    f.p += 5
    if flags & ~FRAMES_COUNTS:
        return refuse(e, b"Invalid binary transaction: unknown flags")
    if not frames_u32(&f, &size) or not frames_slice(&f, size, &head):
        return refuse(e, b"Invalid binary transaction: cut off")
    if head.n and not tx_body(head, a, g, max_items, q, NULL, e):
        return False
    f.max_items = max_items - q.n
    f.single = True
    if not frames_groups(&f, FRAMES_FRAMES):
        return False
    if q.n + pushes.n == 0:
        return refuse(e, b"operations array cannot be empty")
    q.counts = flags & FRAMES_COUNTS != 0
    q.unpacked = f.unpacked
    if pushes.n == 0:
        return True
    ops = <TxOp*>arena_zero(a, (q.n + pushes.n) * sizeof(TxOp))
    if ops == NULL:
        return refuse_memory(e)
    if q.n:
        memcpy(ops, q.ops, q.n * sizeof(TxOp))
    for i in range(pushes.n):
        ops[q.n + i].kind = TX_PUSH
        ops[q.n + i].push = &pushes.items[i]
        pushes.items[i].next = NULL
    q.ops = ops
    q.n += pushes.n
    return True
