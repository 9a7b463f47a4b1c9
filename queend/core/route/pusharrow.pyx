# POST /api/v1/push with application/vnd.apache.arrow.stream: one item per row. Names, ids and payloads are slices of the
# body, or of a buffer that was unpacked.

cdef bint pusharrow_parse(Slice body, size_t room, PushOptions* options, Arena* a, UuidGen* g, int max_items, PushReq* out,
                          ApiError* e) noexcept nogil:
    # A bad row refuses the whole request and is named by its number, from 0 on through all batches. room: bytes that
    # compressed buffers may unpack to.
    cdef ArrowReader r
    cdef int more
    out.n = 0
    out.items = NULL
    if body.n == 0:
        return refuse(e, b"Empty request body")
    arrow_open(&r, body, a, room)
    while True:
        more = arrow_next(&r, e)
        if more <= 0 or not pusharrow_rows(&r, options, a, g, max_items, out, e):
            break
    arrow_close(&r)
    return more == 0

cdef bint pusharrow_rows(ArrowReader* r, PushOptions* options, Arena* a, UuidGen* g, int max_items, PushReq* out,
                         ApiError* e) noexcept nogil:
    cdef PushItem* it
    cdef PushItem* items
    cdef PushItem* before = NULL
    cdef int64_t i
    if r.rows > max_items - out.n:
        e.status = 400
        snprintf(e.text, 239, b"The body has more than %d items", max_items)
        return False
    items = <PushItem*>arena_alloc(a, <size_t>(out.n + r.rows) * sizeof(PushItem))
    if items == NULL:
        error_set(e, 503, b"Out of memory")
        return False
    if out.n:
        memcpy(items, out.items, out.n * sizeof(PushItem))
    out.items = items
    for i in range(r.rows):
        it = &out.items[out.n]
        memset(it, 0, sizeof(PushItem))
        if not pusharrow_names(r, i, options, before, it, out.n, e) or not pusharrow_id(r, i, g, it, out.n, e) \
                or not pusharrow_payload(r, i, it, out.n, e):
            return False
        before = it
        out.n += 1
    return True

cdef inline bint pusharrow_names(ArrowReader* r, int64_t i, PushOptions* options, PushItem* before, PushItem* it, int row,
                                 ApiError* e) noexcept nogil:
    # Rows of one queue or partition come in runs: what the row before had is not checked again.
    it.queue = arrow_value(&r.columns[ARROW_QUEUE], i) if r.present[ARROW_QUEUE] else slice_of(NULL, 0)
    if it.queue.p == NULL:
        it.queue = options.queue
        if it.queue.p == NULL:
            return refuse_item(e, b"Queue must be a string", b"row", row, b"queue")
    elif before != NULL and slice_eq(it.queue, before.queue):
        it.queue = before.queue
    elif it.queue.n == 0 or not name_fits(it.queue) or not utf8_valid(it.queue):
        return refuse_item(e, b"Queue must be a non-empty text of at most 255 bytes", b"row", row, b"queue")
    it.part = arrow_value(&r.columns[ARROW_PARTITION], i) if r.present[ARROW_PARTITION] else slice_of(NULL, 0)
    if it.part.p == NULL:
        it.part = options.part if options.part.p != NULL else slice_lit(b"Default")
    elif before != NULL and slice_eq(it.part, before.part):
        it.part = before.part
    elif not name_fits(it.part) or not utf8_valid(it.part):
        return refuse_item(e, b"Partition must be valid text of at most 255 bytes", b"row", row, b"partition")
    return True

cdef inline bint pusharrow_id(ArrowReader* r, int64_t i, UuidGen* g, PushItem* it, int row, ApiError* e) noexcept nogil:
    cdef Slice text = slice_of(NULL, 0)
    if r.present[ARROW_TXID]:
        text = arrow_value(&r.columns[ARROW_TXID], i)
    if text.n == 0:
        uuid7_make(g, it.id)
        return True
    it.txid = text
    if not record_id(text, it.id, &it.id_kind, &it.keep_text):
        return False
    if it.keep_text and (not txid_fits(text) or not utf8_valid(text)):
        return refuse_item(e, b"TransactionId must be valid text of at most 255 characters", b"row", row, b"transactionId")
    return True

cdef inline bint pusharrow_payload(ArrowReader* r, int64_t i, PushItem* it, int row, ApiError* e) noexcept nogil:
    cdef Slice text = arrow_value(&r.columns[ARROW_PAYLOAD], i)
    cdef Json j
    if text.p == NULL:
        it.payload = slice_lit(b"null")
        return True
    json_open(&j, text, JSON_DEPTH)
    if json_skip(&j, &it.payload) and json_end(&j):
        return True
    e.status = 400
    snprintf(e.text, 239, b"Invalid JSON: %s at byte %lld (row %d, field payload)", j.error, <long long>(j.p - j.begin), row)
    return False
