# Reads POST /api/v1/push: the form of its body and of its answer (Content-Type, query), and items as JSON, sliced out
# of the body. In: a request. Out: items, of which none is used before all are validated.

# Bits of ItemRaw.wrong, one for each member that must be text.
cdef enum:
    WRONG_PARTITION = 1
    WRONG_QUEUE = 2
    WRONG_TXID = 4
    WRONG_TRACE = 8
    WRONG_TRACEPARENT = 16
    WRONG_TRACESTATE = 32

cdef struct ItemRaw:
    # The members of an item as literals; p NULL: absent.
    Slice queue, part, txid, trace, parent, state, due, delay, payload
    const Unsupported* unsupported  # NULL: the item has no unsupported member
    int wrong                 # WRONG_*: members that are not text

cdef inline Slice options_part(const PushOptions* options) noexcept nogil:
    # Returns the partition of items that name none. options: may be NULL.
    return options.part if options != NULL and options.part.p != NULL else slice_lit(b"Default")

cdef bint pushitem_new(Arena* a, UuidGen* g, PushItem* it, const ItemRaw* raw, const char* empty_payload,
                       const PushOptions* options, const PushItem* before, const char* what, int index,
                       ApiError* e) noexcept nogil:
    # Makes an item from literals.
    # options: names for an item without; may be NULL if it has a queue.
    # before: an item whose queue it may share, or NULL. `what` and `index` name the item in a refusal.
    cdef Slice text
    memset(it, 0, sizeof(PushItem))
    if raw.part.p == NULL:
        it.part = options_part(options)
    elif not name_take(raw.part, a, &it.part):
        return refuse_item(e, PARTITION_TEXT, what, index, b"partition")
    if raw.queue.p == NULL:
        it.queue = options.queue
    elif before != NULL and slice_eq(raw.queue, before.queue_json):
        it.queue = before.queue
    elif not name_take(raw.queue, a, &it.queue) or it.queue.n == 0:
        return refuse_item(e, QUEUE_TEXT, what, index, b"queue")
    it.queue_json = raw.queue
    if raw.txid.p != NULL and raw.txid.n > 2:
        if not record_take(raw.txid, a, &it.txid, it.id, &it.id_kind, &it.keep_text):
            return refuse_item(e, TXID_TEXT, what, index, b"transactionId")
        it.txid_json = raw.txid
    else:
        uuid7_make(g, it.id)
    if raw.trace.p != NULL and raw.trace.n > 2:
        if not json_unescape(raw.trace, a, &text, NULL) or not uuid_parse(text, it.trace, NULL):
            return refuse_item(e, b"TraceId must be a UUID", what, index, b"traceId")
        it.has_trace = 1
    it.payload = raw.payload if raw.payload.p != NULL else slice_lit(empty_payload)
    return True

cdef bint itemraw_refused(const ItemRaw* raw, const char* what, int index, ApiError* e) noexcept nogil:
    # Refuses an item because a member that must be a string has another type. Returns False.
    if raw.wrong & WRONG_PARTITION:
        return refuse_item(e, b"Partition must be a string", what, index, b"partition")
    if raw.wrong & WRONG_QUEUE or raw.wrong == 0:
        return refuse_item(e, b"Queue must be a string", what, index, b"queue")
    if raw.wrong & WRONG_TXID:
        return refuse_item(e, b"TransactionId must be a string", what, index, b"transactionId")
    if raw.wrong & WRONG_TRACE:
        return refuse_item(e, b"TraceId must be a string", what, index, b"traceId")
    if raw.wrong & WRONG_TRACEPARENT:
        return refuse_item(e, b"traceparent must be a string", what, index, b"traceparent")
    return refuse_item(e, b"tracestate must be a string", what, index, b"tracestate")

cdef bint itemraw_item(const ItemRaw* raw, Arena* a, UuidGen* g, PushItem* it, const char* empty_payload,
                       const PushOptions* options, const PushItem* before, const char* what, int index,
                       ApiError* e) noexcept nogil:
    # Makes an item of a push from literals and checks all its members. options: NULL if the item must have a queue.
    if raw.unsupported != NULL:
        return refuse_unsupported(e, raw.unsupported, what, index)
    if raw.wrong or (raw.queue.p == NULL and (options == NULL or options.queue.p == NULL)):
        return itemraw_refused(raw, what, index, e)
    if not pushitem_new(a, g, it, raw, empty_payload, options, before, what, index, e):
        return False
    if raw.payload.p == NULL and strict:
        return refuse_item(e, b"payload is required", what, index, b"payload")
    if (raw.parent.p != NULL or raw.state.p != NULL) and not pushitem_trace(a, it, raw.parent, raw.state, what, index,
                                                                            e):
        return False
    return (raw.due.p == NULL and raw.delay.p == NULL) or pushitem_due(it, a, raw.due, raw.delay, what, index, e)

cdef inline void itemraw_text(ItemRaw* raw, Slice* at, int bit, int c, Slice value) noexcept nogil:
    # Keeps a member's value. If it is given twice the last value counts, as JSON readers have it.
    at[0] = value
    raw.wrong = raw.wrong & ~bit if c == b'"' else raw.wrong | bit

cdef inline bint itemraw_member(ItemRaw* raw, Slice key, int c, Slice value) noexcept nogil:
    # Takes a member other than the payload; c: first byte of its value. Returns False if no item has such a member.
    if key_is(key, b"queue"):
        itemraw_text(raw, &raw.queue, WRONG_QUEUE, c, value)
    elif key_is(key, b"partition"):
        itemraw_text(raw, &raw.part, WRONG_PARTITION, c, value)
    elif key_is(key, b"transactionId"):
        itemraw_text(raw, &raw.txid, WRONG_TXID, c, value)
    elif key_is(key, b"traceId"):
        itemraw_text(raw, &raw.trace, WRONG_TRACE, c, value)
    elif key_is(key, b"traceparent"):
        itemraw_text(raw, &raw.parent, WRONG_TRACEPARENT, c, value)
    elif key_is(key, b"tracestate"):
        itemraw_text(raw, &raw.state, WRONG_TRACESTATE, c, value)
    elif key_is(key, b"deliverAt"):
        raw.due = value
    elif key_is(key, b"delayMs"):
        raw.delay = value
    else:
        return False
    return True

cdef bint itemraw_stray(ItemRaw* raw, Slice key, int c, const char* what, int index, Arena* a,
                        ApiError* e) noexcept nogil:
    # Judges a member that no item has; null is as good as absent. Returns True if it was refused at once.
    if c != b'n' and raw.unsupported == NULL:
        raw.unsupported = name_unsupported(key)
    return key_stray(key, PUSH_NAMES, what, index, a, e)

cdef bint push_item(Json* j, Arena* a, UuidGen* g, const PushOptions* options, PushItem* it, const PushItem* before,
                    const char* what, int index, ApiError* e) noexcept nogil:
    # Reads an item at the cursor.
    # options: names for an item that has none, NULL if it must have them.
    # before: the item before it, or NULL.
    cdef ItemRaw raw
    cdef bint first = True
    cdef Slice key, value
    cdef int c
    if json_peek(j) != b'{':
        if j.error != NULL or not json_skip(j, NULL):
            return refuse_json(e, j)
        return refuse_as(e, b"Each item must be an object (%s %d)", what, index)
    memset(&raw, 0, sizeof(ItemRaw))
    json_enter(j, b'{')
    while member_next(j, &first, a, &key):
        c = json_peek(j)
        if key_is(key, b"payload"):
            if not json_skip(j, &raw.payload):
                break
            continue
        if not (json_string(j, &value) if c == b'"' else json_skip(j, &value)):
            break
        if not itemraw_member(&raw, key, c, value) and itemraw_stray(&raw, key, c, what, index, a, e):
            return False
    if j.error != NULL:
        return refuse_json(e, j)
    return itemraw_item(&raw, a, g, it, b"null", options, before, what, index, e)

cdef PushItem* pushitems_grow(Arena* a, PushItem* items, int n, int* room, Json* j, Slice body,
                              int max_items) noexcept nogil:
    # Makes room for one more item. From the second growth on it makes room for as many as the body will hold if it goes
    # on as it began.
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
    # Reads the array at the cursor.
    cdef bint first = True
    cdef int room = 0
    out.n = 0
    out.items = NULL
    json_enter(j, b'[')
    while json_element(j, &first):
        if out.n >= max_items:
            return refuse_as(e, b"items has more than %d elements", max_items)
        out.items = pushitems_grow(a, out.items, out.n, &room, j, slice_of(j.begin, j.end - j.begin), max_items)
        if out.items == NULL:
            return refuse_memory(e)
        if not push_item(j, a, g, NULL, &out.items[out.n], &out.items[out.n - 1] if out.n else NULL, b"item", out.n, e):
            return False
        out.n += 1
    return j.error == NULL or refuse_json(e, j)

cdef bint push_parse(Slice body, Arena* a, UuidGen* g, int max_items, PushReq* out, ApiError* e) noexcept nogil:
    # Parses a body. A bad item refuses the whole request before any is used. A bad item is reported before bad JSON
    # behind it.
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
    # Returns the form of a push or a transaction, PUSH_*. Frames are also known by their first bytes.
    cdef int type_ = media_type(headers)
    if type_ == MEDIA_LINES:
        return PUSH_LINES
    if type_ == MEDIA_ARROW:
        return PUSH_ARROW
    if type_ == MEDIA_FRAMES or frames_magic(body, b"QPB1") or frames_magic(body, b"QTB1"):
        return PUSH_FRAMES
    return PUSH_JSON

cdef bint query_format(Slice query, Arena* a, bint* counts, ApiError* e) noexcept nogil:
    # Reads `format`. counts: the answer is to consist of numbers.
    cdef Slice value
    cdef int found = query_find(query, b"format", a, &value)
    counts[0] = found != QUERY_ABSENT and slice_is(value, b"counts")
    return (found == QUERY_ABSENT or counts[0] or slice_is(value, b"array")
            or refuse(e, b"format must be array or counts"))

cdef bint query_partition(Slice query, Arena* a, Slice* part, ApiError* e) noexcept nogil:
    # Reads `partition`; p NULL if the query names none.
    cdef int found = query_find(query, b"partition", a, part)
    return (found == QUERY_ABSENT or found == QUERY_FOUND and name_fits(part[0])
            or refuse_query(e, PARTITION_TEXT, b"partition"))

cdef bint push_options(int form, Slice query, Arena* a, PushOptions* out, ApiError* e) noexcept nogil:
    # Reads the query. Names in it are defaults for forms that can leave them out; JSON items name their own.
    cdef Slice value
    cdef int found
    memset(out, 0, sizeof(PushOptions))
    if query.n == 0:
        return True
    if not query_format(query, a, &out.counts, e):
        return False
    if not push_due_option(query, a, &out.due, e):
        return False
    if form == PUSH_JSON or form == PUSH_FRAMES:
        return True
    found = query_find(query, b"queue", a, &out.queue)
    if found == QUERY_UNREADABLE or found == QUERY_FOUND and (out.queue.n == 0 or not name_fits(out.queue)):
        return refuse_query(e, QUEUE_TEXT, b"queue")
    if not query_partition(query, a, &out.part, e):
        return False
    found = query_find(query, b"payload", a, &value)
    if found != QUERY_ABSENT and form == PUSH_LINES and slice_is(value, b"line"):
        out.bare = True
    elif found != QUERY_ABSENT and (form != PUSH_LINES or not slice_is(value, b"item")):
        return refuse(e, b"payload must be item or line, and is for application/x-ndjson")
    if out.bare and out.queue.p == NULL:
        return refuse(e, b"payload=line needs a queue in the query")
    return True

cdef bint push_read(Slice headers, Slice query, Slice body, Unzip* z, Arena* a, UuidGen* g, const Settings* settings,
                    PushReq* out, ApiError* e) noexcept nogil:
    # Reads a push in any form. A bad item refuses the whole request before any is used.
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
