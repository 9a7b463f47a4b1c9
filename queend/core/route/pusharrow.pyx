# Reads POST /api/v1/push with application/vnd.apache.arrow.stream: one item per row. In: a body. Out: items and runs.
# Stateless, takes no lock. Names, ids and payloads are slices of the body, or of a buffer that was unpacked.

cdef struct ArrowPush:        # the state of reading one body
    ArrowReader r
    Frames f
    PushOptions* options
    int32_t* order            # in which a batch's rows are taken; NULL: as they stand
    int64_t ms                # of ids made here
    size_t bytes              # of those payloads and headers that are values of a dictionary
    PushItem like             # names of the item before, which are not checked again

cdef bint pusharrow_parse(Slice body, PushOptions* options, Tools* t, PushReq* out) noexcept nogil:
    # Parses a body. A bad row refuses the whole request. It is named by its number, from 0 on through all batches.
    # Compressed buffers may unpack to the bytes of a body, and so may all payloads together.
    cdef ArrowPush p
    cdef size_t room = unzip_room(t.unzip, <size_t>t.settings.max_body)
    cdef int more
    frames_begin(&p.f, body, t, out)
    if body.n == 0:
        return refuse(&t.error, b"Empty request body")
    t.what = b"row"
    p.options = options
    p.bytes = 0
    arrow_open(&p.r, body, t.unzip, t.arena, room)
    while True:
        more = arrow_next(&p.r, &t.error)
        if more != ARROW_BATCH or not pusharrow_rows(&p):
            break
    out.unpacked = room - p.r.room
    return more == ARROW_END

cdef bint pusharrow_rows(ArrowPush* p) noexcept nogil:
    # Turns stretches of rows of one partition into runs. If the answer consists of numbers, the order across partitions
    # does not matter: rows are then taken partition by partition.
    cdef int64_t i = 0
    cdef int64_t n, more
    if p.r.rows > p.f.max_items - p.f.n:
        return refuse_as(&p.f.t.error, b"The body has more than %d items", p.f.max_items)
    if not pusharrow_fits(p):
        return False
    p.order = NULL
    p.ms = clock_wall_us() // 1000
    memset(&p.like, 0, sizeof(PushItem))
    if p.options.counts and p.r.rows >= 2 * RUN_LEAST and not pusharrow_order(p):
        return refuse_memory(&p.f.t.error)
    while i < p.r.rows:
        n = pusharrow_stretch(p, i)
        p.f.t.error.status = 0
        if n >= RUN_LEAST and not pusharrow_apart(p, i, n) and pusharrow_run(p, i, <int>n):
            i += n
            continue
        if p.f.t.error.status:
            return False
        while i + n < p.r.rows:       # short stretches go together
            more = pusharrow_stretch(p, i + n)
            if more >= RUN_LEAST:
                break
            n += more
        if not pusharrow_items(p, i, <int>n):
            return False
        i += n
    p.f.n += <int>p.r.rows
    return True

cdef bint pusharrow_fits(ArrowPush* p) noexcept nogil:
    # Refuses a body whose payloads and headers have more bytes together than a body may have. It holds a value of a
    # dictionary once, and any number of rows may name it. On the loop they may have as many bytes as what is unpacked
    # there.
    cdef ArrowColumn* c = &p.r.columns[ARROW_PAYLOAD]
    cdef ArrowColumn* headers = &p.r.columns[ARROW_HEADERS]
    cdef int64_t i
    if c.kind != ARROW_INDEX and headers.kind != ARROW_INDEX:
        return True
    for i in range(p.r.rows):
        if c.kind == ARROW_INDEX:
            p.bytes += column_value(c, i).n
        if headers.kind == ARROW_INDEX:
            p.bytes += column_value(headers, i).n
    if p.r.unzip.on_loop and p.bytes > UNZIP_ON_LOOP:
        p.f.t.error.status = REFUSED_HERE
        return False
    if p.bytes > <size_t>p.f.t.settings.max_body:
        refuse_as(&p.f.t.error, b"Payloads and headers have more than %lld bytes together",
                  <long long>p.f.t.settings.max_body)
        p.f.t.error.status = 413
        return False
    return True

cdef inline int64_t pusharrow_row(ArrowPush* p, int64_t i) noexcept nogil:
    return p.order[i] if p.order != NULL else i

cdef bint pusharrow_order(ArrowPush* p) noexcept nogil:
    # Orders rows by their place in the partition column's dictionary, and as they stand within one place. Returns False
    # if memory ran out. Rows stay as they are unless the dictionary has at most 64 values, all different, every value
    # is present, and no row names a queue. The order within a partition must stay.
    cdef ArrowReader* r = &p.r
    cdef ArrowColumn* c = &r.columns[ARROW_PARTITION]
    cdef Slice[64] names
    cdef int32_t[64] counts
    cdef int32_t at, before
    cdef int64_t i
    if (r.columns[ARROW_QUEUE].kind != ARROW_NULL or c.kind != ARROW_INDEX or c.valid != NULL
            or c.dictionary.n > 64):
        return True
    for at in range(<int32_t>c.dictionary.n):
        names[at] = column_entry(c.dictionary, at)
        for before in range(at):
            if names[at].p == NULL or slice_eq(names[at], names[before]):
                return True
    p.order = <int32_t*>arena_alloc(p.f.t.arena, <size_t>r.rows * sizeof(int32_t))
    if p.order == NULL:
        return False
    memset(counts, 0, sizeof(counts))
    for i in range(r.rows):
        counts[column_place(c, i)] += 1
    before = 0
    for at in range(64):
        before += counts[at]
        counts[at] = before - counts[at]
    for i in range(r.rows):
        at = <int32_t>column_place(c, i)
        p.order[counts[at]] = <int32_t>i
        counts[at] += 1
    return True

cdef inline bint pusharrow_same(ArrowReader* r, int role, int64_t a, int64_t b) noexcept nogil:
    cdef ArrowColumn* c = &r.columns[role]
    if column_missing(c, a) or column_missing(c, b):
        return column_missing(c, a) == column_missing(c, b)
    if c.kind == ARROW_INDEX:
        return column_place(c, a) == column_place(c, b)
    return slice_eq(column_value(c, a), column_value(c, b))

cdef int64_t pusharrow_stretch(ArrowPush* p, int64_t i) noexcept nogil:
    # Returns how many rows from i on have the same queue and partition, at most what one row of the log may have.
    cdef int64_t first = pusharrow_row(p, i)
    cdef int64_t row
    cdef int64_t n = 1
    cdef size_t bytes = column_value(&p.r.columns[ARROW_PAYLOAD], first).n
    while n < RUN_MOST and i + n < p.r.rows:
        row = pusharrow_row(p, i + n)
        if not pusharrow_same(&p.r, ARROW_PARTITION, first, row) or not pusharrow_same(&p.r, ARROW_QUEUE, first, row):
            break
        bytes += column_value(&p.r.columns[ARROW_PAYLOAD], row).n
        if bytes > RUN_BYTES:
            break
        n += 1
    return n

cdef bint pusharrow_run(ArrowPush* p, int64_t i, int n) noexcept nogil:
    # Makes n rows a run. Returns False with status 0 if they cannot be one: ids of another form, some missing and some
    # given, or one twice.
    cdef PushRun* run
    cdef PushItem one
    cdef int64_t row
    cdef int k
    memset(&one, 0, sizeof(one))
    if not pusharrow_names(p, pusharrow_row(p, i), &one):
        return False
    p.like = one
    run = pushrun_new(p.f.t.arena, n, BODY_V1)
    if run == NULL:
        return refuse_memory(&p.f.t.error)
    for k in range(n):
        row = pusharrow_row(p, i + k)
        one.txid = slice_of(NULL, 0)
        one.keep_text = 0
        if not pusharrow_id(p, row, &one) or not pusharrow_payload(p, row, &one):
            return False
        if k == 0:
            run.made = one.txid.p == NULL
        if one.keep_text or run.made != (one.txid.p == NULL):
            return False
        memcpy(run.ids + 16 * k, one.id, 16)
        run.payloads[k] = one.payload
        run.bytes += one.payload.n
    run.n = n
    pushrun_ids(run)
    return (run.made or pushrun_distinct(run)) and frames_keep(&p.f, run, &p.like, True)

cdef bint pusharrow_items(ArrowPush* p, int64_t i, int n) noexcept nogil:
    cdef PushItem* it = frames_items(&p.f, n)
    cdef int64_t row
    cdef int k
    if it == NULL:
        return refuse_memory(&p.f.t.error)
    for k in range(n):
        row = pusharrow_row(p, i + k)
        memset(it, 0, sizeof(PushItem))
        if not (pusharrow_names(p, row, it) and pusharrow_id(p, row, it) and pusharrow_payload(p, row, it)
                and pusharrow_extras(p, row, it)):
            return False
        p.like.queue = it.queue
        p.like.part = it.part
        it += 1
    return True

cdef bint pusharrow_apart(ArrowPush* p, int64_t i, int64_t n) noexcept nogil:
    # Returns True if one of n rows has a delivery time, a trace or headers, which rows of a run cannot have.
    cdef ArrowColumn* c
    cdef int64_t k
    cdef int role
    for role in range(ARROW_DUE, ARROW_ROLES):
        c = &p.r.columns[role]
        if c.kind == ARROW_NULL:
            continue
        if c.valid == NULL:
            return True
        for k in range(n):
            if not column_missing(c, pusharrow_row(p, i + k)):
                return True
    return False

# ---- a row -----------------------------------------------------------------------------------------------------------

cdef bint pusharrow_refuse(ArrowPush* p, int64_t i, const char* text, const char* field) noexcept nogil:
    p.f.t.index = p.f.n + <int>i
    return refuse_item(p.f.t, text, field)

cdef bint pusharrow_extras(ArrowPush* p, int64_t i, PushItem* it) noexcept nogil:
    cdef int64_t us
    cdef Slice trace = column_value(&p.r.columns[ARROW_TRACE], i)
    cdef Slice text = column_value(&p.r.columns[ARROW_HEADERS], i)
    cdef ItemHeaders headers
    if not column_missing(&p.r.columns[ARROW_DUE], i):
        if not pusharrow_moment(&p.r, <int64_t>le64(p.r.columns[ARROW_DUE].offsets + 8 * i), &us):
            return pusharrow_refuse(p, i, DUE_TEXT, b"deliverAt")
        if us and not pushitem_defer(it, p.f.t.arena, us):
            return refuse_memory(&p.f.t.error)
        it.timed = True
    if trace.n and not trace_parent_valid(trace):
        return pusharrow_refuse(p, i, TRACEPARENT_TEXT, b"traceparent")
    if text.n == 0:
        return (trace.n == 0 or trace_headers(p.f.t.arena, it, trace, slice_of(NULL, 0), slice_of(NULL, 0))
                or refuse_memory(&p.f.t.error))
    if not itemheaders_text(p.f.t, it, text, trace, &headers):
        return pusharrow_refuse(p, i, headers.why, b"headers") if headers.why[0] else refuse_memory(&p.f.t.error)
    return True

cdef bint pusharrow_moment(ArrowReader* r, int64_t value, int64_t* us) noexcept nogil:
    # Reads a delivery time; 0 if it has passed. Returns False if a delivery cannot have it.
    cdef int64_t now = clock_db_now()
    cdef int64_t scale = 1000000 if r.due_unit == ARROW_SECONDS else 1000 if r.due_unit == ARROW_MILLISECONDS else 1
    if r.due_unit == ARROW_NANOSECONDS:
        value = value // 1000
    us[0] = 0
    if value <= now // scale:
        return True
    if value > (now + DELAY_DAYS * 86400 * <int64_t>1000000) // scale:
        return False
    us[0] = value * scale
    return True

cdef inline bint pusharrow_names(ArrowPush* p, int64_t i, PushItem* it) noexcept nogil:
    # Reads queue and partition of a row. Names equal to those of the row before are not checked again.
    it.queue = column_value(&p.r.columns[ARROW_QUEUE], i)
    if it.queue.p == NULL:
        it.queue = p.options.queue
        if it.queue.p == NULL:
            return pusharrow_refuse(p, i, b"Queue must be a string", b"queue")
    elif p.like.queue.p != NULL and slice_eq(it.queue, p.like.queue):
        it.queue = p.like.queue
    elif it.queue.n == 0 or not ident_name_valid(it.queue):
        return pusharrow_refuse(p, i, QUEUE_TEXT, b"queue")
    it.part = column_value(&p.r.columns[ARROW_PARTITION], i)
    if it.part.p == NULL:
        it.part = pushitem_default_part(p.options)
    elif p.like.queue.p != NULL and slice_eq(it.part, p.like.part):
        it.part = p.like.part
    elif not ident_name_valid(it.part):
        return pusharrow_refuse(p, i, PARTITION_TEXT, b"partition")
    return True

cdef inline bint pusharrow_id(ArrowPush* p, int64_t i, PushItem* it) noexcept nogil:
    cdef Slice text = column_value(&p.r.columns[ARROW_TXID], i)
    if text.n == 0:
        uuid_next(p.f.t.uuids, p.ms, it.id)
        return True
    it.txid = text
    ident_record(text, it.id, &it.id_kind, &it.keep_text)
    return not it.keep_text or ident_txid_valid(text) or pusharrow_refuse(p, i, TXID_TEXT, b"transactionId")

cdef inline bint pusharrow_payload(ArrowPush* p, int64_t i, PushItem* it) noexcept nogil:
    cdef Slice text = column_value(&p.r.columns[ARROW_PAYLOAD], i)
    cdef Json j
    if text.p == NULL:
        it.payload = slice_lit(b"null")
        return True
    return pushitem_json(&j, text, &it.payload) or refuse_as(
        &p.f.t.error, b"Invalid JSON: %s at byte %lld (row %d, field payload)", j.error, <long long>(j.p - j.begin),
        p.f.n + <int>i)
