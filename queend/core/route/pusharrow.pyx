# POST /api/v1/push with application/vnd.apache.arrow.stream: one item per row. Names, ids and payloads are slices of
# the body, or of a buffer that was unpacked.

cdef bint pusharrow_parse(Slice body, size_t room, PushOptions* options, Arena* a, UuidGen* g, int max_items,
                          PushReq* out,
                          ApiError* e) noexcept nogil:
    # A bad row refuses the whole request and is named by its number, from 0 on through all batches. room: bytes that
    # compressed buffers may unpack to.
    cdef ArrowReader r
    cdef Frames f
    cdef int more
    frames_begin(&f, body, NULL, a, g, max_items, out, e)
    if body.n == 0:
        return refuse(e, b"Empty request body")
    arrow_open(&r, body, a, room)
    while True:
        more = arrow_next(&r, e)
        if more <= 0 or not pusharrow_rows(&r, options, &f, e):
            break
    arrow_close(&r)
    return more == 0

cdef bint pusharrow_rows(ArrowReader* r, PushOptions* options, Frames* f, ApiError* e) noexcept nogil:
    # Stretches of rows of one partition become runs. Where the answer is a number, nobody asks for the order across
    # partitions, and rows are taken partition by partition.
    cdef int32_t* order = NULL
    cdef PushItem like
    cdef int64_t i = 0
    cdef int64_t n, more
    cdef int64_t ms = clock_wall_us() // 1000
    if r.rows > f.max_items - f.n:
        e.status = 400
        snprintf(e.text, 239, b"The body has more than %d items", f.max_items)
        return False
    if options.counts and r.rows >= 2 * RUN_LEAST and not pusharrow_order(r, f.arena, &order):
        return frames_memory(f)
    memset(&like, 0, sizeof(like))
    while i < r.rows:
        n = pusharrow_stretch(r, order, i)
        e.status = 0
        if (n >= RUN_LEAST and not pusharrow_apart(r, order, i, n)
                and pusharrow_run(r, order, i, n, ms, options, &like, f, e)):
            i += n
            continue
        if e.status:
            return False
        while i + n < r.rows:         # short stretches go together
            more = pusharrow_stretch(r, order, i + n)
            if more >= RUN_LEAST:
                break
            n += more
        if not pusharrow_items(r, order, i, n, ms, options, &like, f, e):
            return False
        i += n
    f.n += <int>r.rows
    return True

cdef inline int64_t arrow_row(const int32_t* order, int64_t i) noexcept nogil:
    return order[i] if order != NULL else i

cdef bint pusharrow_order(ArrowReader* r, Arena* a, int32_t** order) noexcept nogil:
    # Rows by their place in the partition column's dictionary, in their order within one place. Left as they are where
    # there is no dictionary of few values, all different, or where values are missing or the queue differs too: within
    # a partition nothing may change its place.
    cdef ArrowColumn* c = &r.columns[ARROW_PARTITION]
    cdef Slice[64] names
    cdef int32_t[64] counts
    cdef int32_t* out
    cdef int32_t at, before
    cdef int64_t i
    if (not r.present[ARROW_PARTITION] or r.present[ARROW_QUEUE] or c.kind != ARROW_INDEX or c.valid != NULL
            or c.dictionary.n > 64):
        return True
    for at in range(<int32_t>c.dictionary.n):
        names[at] = arrow_entry(c.dictionary, at)
        for before in range(at):
            if names[at].p == NULL or slice_eq(names[at], names[before]):
                return True
    out = <int32_t*>arena_alloc(a, <size_t>r.rows * sizeof(int32_t))
    if out == NULL:
        return False
    memset(counts, 0, sizeof(counts))
    for i in range(r.rows):
        counts[arrow_place(c, i)] += 1
    before = 0
    for at in range(64):
        before += counts[at]
        counts[at] = before - counts[at]
    for i in range(r.rows):
        at = <int32_t>arrow_place(c, i)
        out[counts[at]] = <int32_t>i
        counts[at] += 1
    order[0] = out
    return True

cdef inline bint arrow_same(ArrowReader* r, int role, int64_t a, int64_t b) noexcept nogil:
    cdef ArrowColumn* c = &r.columns[role]
    if not r.present[role] or c.kind == ARROW_NULL:
        return True
    if arrow_missing(c, a) or arrow_missing(c, b):
        return arrow_missing(c, a) == arrow_missing(c, b)
    if c.kind == ARROW_INDEX:
        return arrow_place(c, a) == arrow_place(c, b)
    return slice_eq(arrow_value(c, a), arrow_value(c, b))

cdef int64_t pusharrow_stretch(ArrowReader* r, const int32_t* order, int64_t i) noexcept nogil:
    # How many rows from i on have the same queue and partition, as many as one row of the log may have.
    cdef int64_t first = arrow_row(order, i)
    cdef int64_t row
    cdef int64_t n = 1
    cdef size_t bytes = arrow_value(&r.columns[ARROW_PAYLOAD], first).n
    while n < RUN_MOST and i + n < r.rows:
        row = arrow_row(order, i + n)
        if not arrow_same(r, ARROW_PARTITION, first, row) or not arrow_same(r, ARROW_QUEUE, first, row):
            break
        bytes += arrow_value(&r.columns[ARROW_PAYLOAD], row).n
        if bytes > RUN_BYTES:
            break
        n += 1
    return n

cdef bint pusharrow_run(ArrowReader* r, const int32_t* order, int64_t i, int64_t n, int64_t ms, PushOptions* options,
                        PushItem* like, Frames* f,
                        ApiError* e) noexcept nogil:
    # n rows as one run. False with e.status 0: they are none (ids that are no UUIDs, some missing and some not, one
    # twice).
    cdef PushRun* run
    cdef PushItem one
    cdef int64_t k, row
    memset(&one, 0, sizeof(one))
    row = arrow_row(order, i)
    if not pusharrow_names(r, row, options, like if like.queue.p != NULL else NULL, &one, f.n + <int>row, e):
        return False
    like[0] = one
    run = frames_run(f, <int>n)
    if run != NULL:
        run.payloads = <Slice*>arena_alloc(f.arena, n * sizeof(Slice))
    if run == NULL or run.payloads == NULL:
        return frames_memory(f)
    run.codec = BODY_V1
    for k in range(n):
        row = arrow_row(order, i + k)
        one.txid = slice_of(NULL, 0)
        one.keep_text = 0
        if not pusharrow_id(r, row, f.uuids, ms, &one, f.n + <int>row,
                            e) or not pusharrow_payload(r, row, &one, f.n + <int>row, e):
            return False
        if k == 0:
            run.made = one.txid.p == NULL
        if one.keep_text or run.made != (one.txid.p == NULL):
            return False
        memcpy(run.ids + 16 * k, one.id, 16)
        run.payloads[k] = one.payload
        run.bytes += one.payload.n
    run.n = <int>n
    run_ids(run)
    return (run.made or run_distinct(run)) and frames_keep(f, run, like, True)

cdef bint pusharrow_items(ArrowReader* r, const int32_t* order, int64_t i, int64_t n, int64_t ms, PushOptions* options,
                          PushItem* before, Frames* f,
                          ApiError* e) noexcept nogil:
    # before: an item whose names it may share; becomes the last of these.
    cdef PushItem* it = frames_items(f, <int>n)
    cdef int64_t k, row
    if it == NULL:
        return frames_memory(f)
    for k in range(n):
        row = arrow_row(order, i + k)
        memset(it, 0, sizeof(PushItem))
        if not pusharrow_names(r, row, options, before if before.queue.p != NULL else NULL, it, f.n + <int>row, e) \
                or not pusharrow_id(r, row, f.uuids, ms, it, f.n + <int>row,
                                    e) or not pusharrow_payload(r, row, it, f.n + <int>row, e) \
                or not pusharrow_extras(r, row, f.arena, it, f.n + <int>row, e):
            return False
        before.queue = it.queue
        before.part = it.part
        it += 1
    return True

cdef bint pusharrow_apart(ArrowReader* r, const int32_t* order, int64_t i, int64_t n) noexcept nogil:
    # Does one of n rows have what the rows of a run have in common: a moment of delivery, a trace?
    cdef int64_t k
    cdef int role
    for role in range(ARROW_DUE, ARROW_TRACE + 1):
        if not r.present[role] or r.columns[role].kind == ARROW_NULL:
            continue
        if r.columns[role].valid == NULL:
            return True
        for k in range(n):
            if not arrow_missing(&r.columns[role], arrow_row(order, i + k)):
                return True
    return False

cdef bint pusharrow_extras(ArrowReader* r, int64_t i, Arena* a, PushItem* it, int row, ApiError* e) noexcept nogil:
    cdef int64_t us
    cdef Slice trace
    cdef Buf b
    if r.present[ARROW_DUE] and not arrow_missing(&r.columns[ARROW_DUE], i):
        if not pusharrow_moment(r, <int64_t>le64(r.columns[ARROW_DUE].offsets + 8 * i), &us):
            return refuse_item(e, DUE_TEXT, b"row", row, b"deliverAt")
        if us and not pushitem_defer(it, a, us):
            error_set(e, 503, b"Out of memory")
            return False
        it.timed = True
    if not r.present[ARROW_TRACE]:
        return True
    trace = arrow_value(&r.columns[ARROW_TRACE], i)
    if trace.n == 0:
        return True
    if not traceparent_valid(trace):
        return refuse_item(e, b"traceparent must be one of W3C trace context", b"row", row, b"traceparent")
    buf_init(&b)
    buf_byte(&b, b'{')
    trace_put(&b, trace, slice_of(NULL, 0))
    if not headers_keep(a, &b, it):
        error_set(e, 503, b"Out of memory")
        return False
    return True

cdef bint pusharrow_moment(ArrowReader* r, int64_t value, int64_t* us) noexcept nogil:
    # 0: it has passed. False: no moment that a delivery may have.
    cdef int64_t now = clock_wall_us()
    cdef int64_t scale = 1000000 if r.due_unit == 0 else 1000 if r.due_unit == 1 else 1
    if r.due_unit == 3:
        value = value // 1000
    us[0] = 0
    if value <= now // scale:
        return True
    if value > (now + DELAY_DAYS * 86400 * <int64_t>1000000) // scale:
        return False
    us[0] = value * scale
    return True

cdef inline bint pusharrow_names(ArrowReader* r, int64_t i, PushOptions* options, PushItem* before, PushItem* it,
                                 int row,
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

cdef inline bint pusharrow_id(ArrowReader* r, int64_t i, UuidGen* g, int64_t ms, PushItem* it, int row,
                              ApiError* e) noexcept nogil:
    cdef Slice text = slice_of(NULL, 0)
    if r.present[ARROW_TXID]:
        text = arrow_value(&r.columns[ARROW_TXID], i)
    if text.n == 0:
        uuid7_next(g, ms, it.id)
        return True
    it.txid = text
    if not record_id(text, it.id, &it.id_kind, &it.keep_text):
        return False
    if it.keep_text and (not txid_fits(text) or not utf8_valid(text)):
        return refuse_item(e, b"TransactionId must be valid text of at most 255 characters", b"row", row,
                           b"transactionId")
    return True

cdef inline bint pusharrow_payload(ArrowReader* r, int64_t i, PushItem* it, int row, ApiError* e) noexcept nogil:
    cdef Slice text = arrow_value(&r.columns[ARROW_PAYLOAD], i)
    cdef Json j
    if text.p == NULL:
        it.payload = slice_lit(b"null")
        return True
    json_open(&j, text, JSON_DEPTH)
    json_padded(&j)
    if json_skip(&j, &it.payload) and json_end(&j):
        return True
    e.status = 400
    snprintf(e.text, 239, b"Invalid JSON: %s at byte %lld (row %d, field payload)", j.error, <long long>(j.p - j.begin),
             row)
    return False
