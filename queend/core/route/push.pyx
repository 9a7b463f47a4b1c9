# POST /api/v1/push: how its body is written and its answer wanted (Content-Type, query); items as JSON, sliced out of
# the body, every one validated before any is used.

cdef bint pushitem_new(Arena* a, UuidGen* g, PushItem* it, Slice txid_raw, Slice queue_raw, Slice part_raw,
                       Slice trace_raw,
                       Slice payload, const char* empty_payload, PushOptions* options,
                     const PushItem* before, const char* what,
                       int index, ApiError* e) noexcept nogil:
    # From literals (p NULL: absent) to an item. options: names where it has none, may be NULL when it has a queue.
    # before: an item whose queue it may share, or NULL. `what` and `index` name it where it is refused.
    cdef Slice text
    memset(it, 0, sizeof(PushItem))
    if part_raw.p == NULL:
        it.part = options.part if options != NULL and options.part.p != NULL else slice_lit(b"Default")
    elif not name_take(part_raw, a, &it.part):
        return refuse_item(e, b"Partition must be valid text of at most 255 bytes", what, index, b"partition")
    if queue_raw.p == NULL:
        it.queue = options.queue
    elif before != NULL and slice_eq(queue_raw, before.queue_json):
        it.queue = before.queue
    elif not name_take(queue_raw, a, &it.queue) or it.queue.n == 0:
        return refuse_item(e, b"Queue must be a non-empty text of at most 255 bytes", what, index, b"queue")
    it.queue_json = queue_raw
    if txid_raw.p != NULL and txid_raw.n > 2:
        if not record_take(txid_raw, a, &it.txid, it.id, &it.id_kind, &it.keep_text):
            return refuse_item(e, b"TransactionId must be valid text of at most 255 characters", what, index,
                               b"transactionId")
        it.txid_json = txid_raw
    else:
        uuid7_make(g, it.id)
    if trace_raw.p != NULL and trace_raw.n > 2:
        if not json_unescape(trace_raw, a, &text, NULL) or not uuid_parse(text, it.trace, NULL):
            return refuse_item(e, b"TraceId must be a UUID", what, index, b"traceId")
        it.has_trace = 1
    it.payload = payload if payload.p != NULL else slice_lit(empty_payload)
    return True

cdef bint push_item(Json* j, Arena* a, UuidGen* g, PushOptions* options, PushItem* it, const PushItem* before,
                    const char* what,
                    int index, ApiError* e) noexcept nogil:
    # The cursor stands at the item. options: names for an item that has none, NULL where it must have them. before: the
    # item before it, or NULL.
    cdef bint first = True
    cdef Slice key
    cdef Slice queue = slice_of(NULL, 0)
    cdef Slice part = slice_of(NULL, 0)
    cdef Slice txid = slice_of(NULL, 0)
    cdef Slice trace = slice_of(NULL, 0)
    cdef Slice parent = slice_of(NULL, 0)
    cdef Slice state = slice_of(NULL, 0)
    cdef Slice payload = slice_of(NULL, 0)
    cdef Slice due = slice_of(NULL, 0)
    cdef Slice delay = slice_of(NULL, 0)
    cdef Slice value
    cdef int wrong = 0
    cdef int c
    if json_peek(j) != b'{':
        if j.error != NULL or not json_skip(j, NULL):
            return refuse_json(e, j)
        e.status = 400
        snprintf(e.text, 239, b"Each item must be an object (%s %d)", what, index)
        return False
    json_enter(j, b'{')
    while member_next(j, &first, a, &key):
        c = json_peek(j)
        if key_is(key, b"payload"):
            if not json_skip(j, &payload):
                break
            continue
        if not (json_string(j, &value) if c == b'"' else json_skip(j, &value)):
            break
        # of members named twice the last one counts, as JSON readers have it
        if key_is(key, b"queue"):
            queue = value
            wrong = (wrong | 2) if c != b'"' else (wrong & ~2)
        elif key_is(key, b"partition"):
            part = value
            wrong = (wrong | 1) if c != b'"' else (wrong & ~1)
        elif key_is(key, b"transactionId"):
            txid = value
            wrong = (wrong | 4) if c != b'"' else (wrong & ~4)
        elif key_is(key, b"traceId"):
            trace = value
            wrong = (wrong | 8) if c != b'"' else (wrong & ~8)
        elif key_is(key, b"traceparent"):
            parent = value
            wrong = (wrong | 16) if c != b'"' else (wrong & ~16)
        elif key_is(key, b"tracestate"):
            state = value
            wrong = (wrong | 32) if c != b'"' else (wrong & ~32)
        elif key_is(key, b"deliverAt"):
            due = value
        elif key_is(key, b"delayMs"):
            delay = value
        elif key_stray(key, PUSH_NAMES, what, index, a, e):
            return False
    if j.error != NULL:
        return refuse_json(e, j)
    if wrong & 1:
        return refuse_item(e, b"Partition must be a string", what, index, b"partition")
    if wrong & 2 or (queue.p == NULL and (options == NULL or options.queue.p == NULL)):
        return refuse_item(e, b"Queue must be a string", what, index, b"queue")
    if wrong & 4:
        return refuse_item(e, b"TransactionId must be a string", what, index, b"transactionId")
    if wrong & 8:
        return refuse_item(e, b"TraceId must be a string", what, index, b"traceId")
    if wrong & 16:
        return refuse_item(e, b"traceparent must be a string", what, index, b"traceparent")
    if wrong & 32:
        return refuse_item(e, b"tracestate must be a string", what, index, b"tracestate")
    if not pushitem_new(a, g, it, txid, queue, part, trace, payload, b"null", options, before, what, index, e):
        return False
    if payload.p == NULL and strict:
        return refuse_item(e, b"payload is required", what, index, b"payload")
    if (parent.p != NULL or state.p != NULL) and not pushitem_trace(a, it, parent, state, what, index, e):
        return False
    return (due.p == NULL and delay.p == NULL) or pushitem_due(it, a, due, delay, what, index, e)

cdef PushItem* pushitems_grow(Arena* a, PushItem* items, int n, int* room, Json* j, Slice body,
                              int max_items) noexcept nogil:
    # Room for one more: from the second growth on for as many as the body will hold if it goes on as it began.
    cdef PushItem* more
    cdef size_t done
    if n < room[0]:
        return items
    if n < 16:
        room[0] = 16 if n else 1
    else:
        done = <size_t>(j.p - body.p)
        room[0] = <int>min(<uint64_t>max_items, <uint64_t>n * body.n // (done if done else 1) * 9 // 8 + 16)
        if room[0] < 2 * n:
            room[0] = 2 * n
    more = <PushItem*>arena_alloc(a, room[0] * sizeof(PushItem))
    if more != NULL and n:
        memcpy(more, items, n * sizeof(PushItem))
    return more

cdef bint push_items(Json* j, Arena* a, UuidGen* g, int max_items, PushReq* out, ApiError* e) noexcept nogil:
    # The cursor stands at the array.
    cdef bint first = True
    cdef int room = 0
    out.n = 0
    out.items = NULL
    json_enter(j, b'[')
    while json_element(j, &first):
        if out.n >= max_items:
            e.status = 400
            snprintf(e.text, 239, b"items has more than %d elements", max_items)
            return False
        out.items = pushitems_grow(a, out.items, out.n, &room, j, slice_of(j.begin, j.end - j.begin), max_items)
        if out.items == NULL:
            error_set(e, 503, b"Out of memory")
            return False
        if not push_item(j, a, g, NULL, &out.items[out.n], &out.items[out.n - 1] if out.n else NULL, b"item", out.n, e):
            return False
        out.n += 1
    if j.error != NULL:
        return refuse_json(e, j)
    return True

cdef bint push_parse(Slice body, Arena* a, UuidGen* g, int max_items, PushReq* out, ApiError* e) noexcept nogil:
    # A bad item refuses the whole request; nothing was used yet. A bad item is told before bad JSON behind it.
    cdef Json j
    cdef bint first = True
    cdef bint seen = False
    cdef Slice key
    out.n = 0
    out.items = NULL
    if not body_object(&j, body, b"items array is required", e):
        return False
    json_enter(&j, b'{')
    while member_next(&j, &first, a, &key):
        if key_is(key, b"items") and not seen:
            if json_peek(&j) == b'[':
                if not push_items(&j, a, g, max_items, out, e):
                    return False
                seen = True
                continue
        elif key_is(key, b"items"):
            return refuse(e, b"items is given twice")
        elif key_stray(key, PUSH_BODY_NAMES, b"body", -1, a, e):
            return False
        if not json_skip(&j, NULL):
            break
    if j.error != NULL or not json_end(&j):
        return refuse_json(e, &j)
    if not seen:
        return refuse(e, b"items array is required")
    return True

# ---- whatever the form ---------------------------------------------------------------------------------------------

cdef inline bint frames_magic(Slice body, const char* magic) noexcept nogil:
    return body.n >= 4 and memcmp(body.p, magic, 4) == 0

cdef int push_form(Slice headers, Slice body) noexcept nogil:
    cdef Slice value = header_value(headers, b"content-type")
    if type_is(value, b"application/x-ndjson"):
        return PUSH_LINES
    if type_is(value, b"application/vnd.apache.arrow.stream"):
        return PUSH_ARROW
    if type_is(value, b"application/x-queen-push") or frames_magic(body, b"QPB1") or frames_magic(body, b"QTB1"):
        return PUSH_FRAMES
    return PUSH_JSON

cdef bint push_options(int form, Slice query, Arena* a, PushOptions* out, ApiError* e) noexcept nogil:
    # Defaults are for forms that can leave names out; JSON items name their own.
    cdef Slice value
    cdef int found
    memset(out, 0, sizeof(PushOptions))
    if query.n == 0:
        return True
    found = query_find(query, b"format", a, &value)
    if found and slice_is(value, b"counts"):
        out.counts = True
    elif found and not slice_is(value, b"array"):
        return refuse(e, b"format must be array or counts")
    if not push_due_option(query, a, &out.due, e):
        return False
    if form == PUSH_JSON or form == PUSH_FRAMES:
        return True
    found = query_find(query, b"queue", a, &out.queue)
    if found and (found < 0 or out.queue.n == 0 or not name_fits(out.queue)):
        return refuse(e, b"Queue must be a non-empty text of at most 255 bytes (query, field queue)")
    found = query_find(query, b"partition", a, &out.part)
    if found and (found < 0 or not name_fits(out.part)):
        return refuse(e, b"Partition must be valid text of at most 255 bytes (query, field partition)")
    found = query_find(query, b"payload", a, &value)
    if found and form == PUSH_LINES and slice_is(value, b"line"):
        out.bare = True
    elif found and (form != PUSH_LINES or not slice_is(value, b"item")):
        return refuse(e, b"payload must be item or line, and is for application/x-ndjson")
    if out.bare and out.queue.p == NULL:
        return refuse(e, b"payload=line needs a queue in the query")
    return True

cdef bint push_read(Slice headers, Slice query, Slice body, Unzip* z, Arena* a, UuidGen* g, const Settings* settings,
                    PushReq* out, ApiError* e) noexcept nogil:
    # A push in whatever form it came. A bad item refuses the whole request; nothing was used yet.
    cdef PushOptions options
    cdef int form = push_form(headers, body)
    out.unpacked = 0
    out.replayed = False
    out.counts = False
    if not push_options(form, query, a, &options, e):
        return False
    if form == PUSH_LINES:
        if not pushlines_parse(body, &options, a, g, settings.max_items, out, e):
            return False
    elif form == PUSH_ARROW:
        if not pusharrow_parse(body, <size_t>settings.max_body, &options, a, g, settings.max_items, out, e):
            return False
    elif form == PUSH_FRAMES:
        if not pushframes_parse(body, z, a, g, settings.max_items, out, e):
            return False
    elif not push_parse(body, a, g, settings.max_items, out, e):
        return False
    if out.n >= JOIN_LEAST and (form == PUSH_JSON or form == PUSH_LINES and not options.bare):
        pushitems_join(out, a)
    if options.due and not pushreq_defer(out, a, options.due, e):
        return False
    out.counts = out.counts or options.counts
    return True
