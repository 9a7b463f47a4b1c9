# Reads POST /api/v1/push: the form of its body and of its answer (Content-Type, query), items as JSON and as lines, and
# when they may be delivered. In: a request. Out: items, sliced out of the body, of which none is used before all are
# validated. Stateless, takes no lock.

# Bits of ItemRaw.wrong, one for each member that must be text.
cdef enum:
    WRONG_PARTITION = 1
    WRONG_QUEUE = 2
    WRONG_TXID = 4
    WRONG_TRACE = 8
    WRONG_TRACEPARENT = 16
    WRONG_TRACESTATE = 32

cdef enum:
    ITEM_SHARED = 5

cdef struct ItemRaw:
    # The members of an item as literals; p NULL: absent. Items of a cycle have the first ITEM_SHARED of them.
    Slice queue, part, payload, txid, trace, parent, state, headers, due, delay
    Slice unknown             # key of the first member that no item has
    int wrong                 # WRONG_*: members that are not text

# ---- a push in any form ----------------------------------------------------------------------------------------------

cdef bint pushitems_read(Slice headers, Slice query, Slice body, Tools* t, PushReq* out) noexcept nogil:
    # Reads a push in any form. A bad item refuses the whole request before any is used.
    cdef PushOptions options
    cdef int form = pushitems_form(headers, body)
    memset(out, 0, sizeof(PushReq))
    if not pushitems_options(form, query, t, &options):
        return False
    if form == MEDIA_LINES:
        if not pushitems_lines(body, &options, t, out):
            return False
    elif form == MEDIA_ARROW:
        if not pusharrow_parse(body, &options, t, out):
            return False
    elif form == MEDIA_FRAMES:
        if not frames_parse(body, t, out):
            return False
    elif not pushitems_parse(body, t, out):
        return False
    if out.n >= JOIN_LEAST and form != MEDIA_ARROW and form != MEDIA_FRAMES and not options.bare:
        pushrun_join(out, t.arena)
    if options.due and not pushitems_defer(out, t, options.due):
        return False
    out.counts = out.counts or options.counts
    return True

cdef int pushitems_form(Slice headers, Slice body) noexcept nogil:
    # Returns the form of a push or a transaction, MEDIA_*. Frames are also known by their first bytes. All other forms
    # but lines and Arrow are read as JSON: clients send JSON under many names.
    cdef int form = header_media(headers)
    if form != MEDIA_LINES and form != MEDIA_ARROW and (frames_magic(body, b"QPB1") or frames_magic(body, b"QTB1")):
        return MEDIA_FRAMES
    return form

# ---- the query -------------------------------------------------------------------------------------------------------

cdef bint pushitems_options(int form, Slice query, Tools* t, PushOptions* out) noexcept nogil:
    # Reads the query. Names in it are defaults for forms that can leave them out; JSON items name their own.
    cdef Slice value, due
    cdef int found
    memset(out, 0, sizeof(PushOptions))
    t.what = b"query"
    t.index = -1
    if query.n == 0:
        return True
    if not pushitems_query_format(query, t, &out.counts):
        return False
    found = uri_find(query, b"deliverAt", t.arena, &due)
    if found == QUERY_UNREADABLE or uri_find(query, b"delayMs", t.arena, &value) == QUERY_UNREADABLE:
        return refuse(&t.error, DUE_TEXT)
    if (due.p != NULL or value.p != NULL) and not time_deliver_at(due, value, False, t, &out.due):
        return False
    if form != MEDIA_LINES and form != MEDIA_ARROW:
        return True
    found = uri_find(query, b"queue", t.arena, &out.queue)
    if found == QUERY_UNREADABLE or found == QUERY_FOUND and (out.queue.n == 0 or not ident_name_fits(out.queue)):
        return refuse_item(t, QUEUE_TEXT, b"queue")
    if not pushitems_query_part(query, t, &out.part):
        return False
    found = uri_find(query, b"payload", t.arena, &value)
    if found != QUERY_ABSENT and form == MEDIA_LINES and slice_is(value, b"line"):
        out.bare = True
    elif found != QUERY_ABSENT and (form != MEDIA_LINES or not slice_is(value, b"item")):
        return refuse(&t.error, b"payload must be item or line, and is for application/x-ndjson")
    if out.bare and out.queue.p == NULL:
        return refuse(&t.error, b"payload=line needs a queue in the query")
    return True

cdef bint pushitems_query_format(Slice query, Tools* t, bint* counts) noexcept nogil:
    # Reads `format`. counts: the answer is to consist of numbers.
    cdef Slice value
    cdef int found = uri_find(query, b"format", t.arena, &value)
    counts[0] = found != QUERY_ABSENT and slice_is(value, b"counts")
    return (found == QUERY_ABSENT or counts[0] or slice_is(value, b"array")
            or refuse(&t.error, b"format must be array or counts"))

cdef bint pushitems_query_part(Slice query, Tools* t, Slice* part) noexcept nogil:
    # Reads `partition`; p NULL if the query names none.
    cdef int found = uri_find(query, b"partition", t.arena, part)
    return (found == QUERY_ABSENT or found == QUERY_FOUND and ident_name_fits(part[0])
            or refuse_item(t, PARTITION_TEXT, b"partition"))

# ---- items as JSON ---------------------------------------------------------------------------------------------------

cdef bint pushitems_parse(Slice body, Tools* t, PushReq* out) noexcept nogil:
    # Parses a body. A bad item refuses the whole request before any is used. A bad item is reported before bad JSON
    # behind it.
    cdef Json j
    cdef bint first = True
    cdef bint seen = False
    cdef Slice key
    if not json_body_object(&j, body, b"items array is required", &t.error):
        return False
    json_enter(&j, b'{')
    while member_next(&j, &first, t.arena, &key):
        if member_is(key, b"items") and not seen:
            if json_peek(&j) == b'[':
                if not pushitems_array(&j, t, out):
                    return False
                seen = True
                continue
        elif member_is(key, b"items"):
            return refuse(&t.error, b"items is given twice")
        elif typo_key(key, PUSH_BODY_NAMES, b"body", -1, t.arena, &t.error):
            return False
        if not json_skip(&j, NULL):
            break
    if j.error != NULL or not json_end(&j):
        return json_refuse(&t.error, &j)
    return seen or refuse(&t.error, b"items array is required")

cdef bint pushitems_array(Json* j, Tools* t, PushReq* out) noexcept nogil:
    # Reads the array at the cursor.
    cdef bint first = True
    t.what = b"item"
    json_enter(j, b'[')
    while json_element(j, &first):
        t.index = out.n
        if out.n >= t.settings.max_items:
            return refuse_as(&t.error, b"items has more than %d elements", t.settings.max_items)
        if not pushitem_read(j, t, NULL, slice_of(j.begin, j.end - j.begin), out):
            return False
    return j.error == NULL or json_refuse(&t.error, j)

cdef bint pushitems_grow(PushReq* q, Tools* t, Json* j, Slice body, int max_items) noexcept nogil:
    # Makes room for one more item. From the second growth on it makes room for as many as the body will hold if it goes
    # on as it began.
    cdef PushItem* more
    cdef size_t done
    if q.n < q.room:
        return True
    if q.n < 16:
        q.room = 16 if q.n else 1
    else:
        done = <size_t>(j.p - body.p)
        q.room = <int>min(<uint64_t>max_items, <uint64_t>q.n * body.n // (done if done else 1) * 9 // 8 + 16)
        if q.room < 2 * q.n:
            q.room = 2 * q.n
    more = <PushItem*>arena_alloc(t.arena, q.room * sizeof(PushItem))
    if more == NULL:
        return refuse_memory(&t.error)
    if q.n:
        memcpy(more, q.items, q.n * sizeof(PushItem))
    q.items = more
    return True

cdef bint pushitem_read(Json* j, Tools* t, const PushOptions* options, Slice body, PushReq* out) noexcept nogil:
    # Reads an item at the cursor, and adds it to the request. options: names for an item that has none, NULL if it must
    # have them.
    cdef ItemRaw raw
    cdef bint first = True
    cdef Slice key, value
    cdef int c
    if not pushitems_grow(out, t, j, body, t.settings.max_items):
        return False
    if json_peek(j) != b'{':
        if j.error != NULL or not json_skip(j, NULL):
            return json_refuse(&t.error, j)
        return refuse_as(&t.error, b"Each item must be an object (%s %d)", t.what, t.index)
    memset(&raw, 0, sizeof(ItemRaw))
    json_enter(j, b'{')
    while member_next(j, &first, t.arena, &key):
        c = json_peek(j)
        if member_is(key, b"payload"):
            if not json_skip(j, &raw.payload):
                break
            continue
        if not (json_string(j, &value) if c == b'"' else json_skip(j, &value)):
            break
        if not pushitem_raw_member(&raw, key, c, value) and pushitem_raw_typo(&raw, key, c, t):
            return False
    if j.error != NULL:
        return json_refuse(&t.error, j)
    if not pushitem_from_raw(&raw, t, &out.items[out.n], b"null", options, &out.items[out.n - 1] if out.n else NULL):
        return False
    out.n += 1
    return True

cdef inline bint pushitem_raw_member(ItemRaw* raw, Slice key, int c, Slice value) noexcept nogil:
    # Takes a member other than the payload; c: first byte of its value. Returns False if no item has such a member.
    if member_is(key, b"queue"):
        pushitem_raw_text(raw, &raw.queue, WRONG_QUEUE, c, value)
    elif member_is(key, b"partition"):
        pushitem_raw_text(raw, &raw.part, WRONG_PARTITION, c, value)
    elif member_is(key, b"transactionId"):
        pushitem_raw_text(raw, &raw.txid, WRONG_TXID, c, value)
    elif member_is(key, b"traceId"):
        pushitem_raw_text(raw, &raw.trace, WRONG_TRACE, c, value)
    elif member_is(key, b"traceparent"):
        pushitem_raw_text(raw, &raw.parent, WRONG_TRACEPARENT, c, value)
    elif member_is(key, b"tracestate"):
        pushitem_raw_text(raw, &raw.state, WRONG_TRACESTATE, c, value)
    elif member_is(key, b"headers"):
        raw.headers = value if c != b'n' else slice_of(NULL, 0)
    elif member_is(key, b"deliverAt"):
        raw.due = value if c != b'n' else slice_of(NULL, 0)
    elif member_is(key, b"delayMs"):
        raw.delay = value if c != b'n' else slice_of(NULL, 0)
    else:
        return member_is(key, b"producerSub")     # the daemon says who the producer is, whatever an item says
    return True

cdef inline void pushitem_raw_text(ItemRaw* raw, Slice* at, int bit, int c, Slice value) noexcept nogil:
    # Keeps a member's value. If it is given twice the last value counts, as JSON readers have it.
    at[0] = value
    raw.wrong = raw.wrong & ~bit if c == b'"' else raw.wrong | bit

cdef bint pushitem_raw_typo(ItemRaw* raw, Slice key, int c, Tools* t) noexcept nogil:
    # Judges a member that no item has; null is as good as absent. Returns True if it was refused at once.
    if c != b'n' and raw.unknown.p == NULL:
        raw.unknown = key
    return typo_key(key, PUSH_NAMES, t.what, t.index, t.arena, &t.error)

cdef bint pushitem_json(Json* j, Slice text, Slice* value) noexcept nogil:
    # Returns True if the text is exactly one JSON value; else j has the error. Requires readable bytes behind the text,
    # as behind a body. value: may be NULL.
    json_open(j, text, JSON_DEPTH)
    json_padded(j)
    return json_skip(j, value) and json_end(j)

# ---- items as lines --------------------------------------------------------------------------------------------------
# application/x-ndjson: one item per line, or (payload=line) one payload per line. CR before a line's end, a missing
# last line end and blank lines are accepted.

cdef inline bint pushitems_line(Slice* left, Tools* t, Json* j) noexcept nogil:
    # Opens the next line that is not blank, with the cursor at its first byte. Returns False at the end. left: the
    # lines not read yet. t.index: number of the line read last, from 1.
    while left.n:
        t.index += 1
        json_open(j, slice_cut(left, b'\n'), JSON_DEPTH)
        json_padded(j)
        if json_peek(j) != 0 or j.p < j.end:
            return True
    return False

cdef bint pushitems_line_refuse(Tools* t, Json* j) noexcept nogil:
    return refuse_as(&t.error, b"Invalid JSON: %s at byte %lld (line %d)", j.error, <long long>(j.p - j.begin), t.index)

cdef bint pushitems_line_too_many(Tools* t) noexcept nogil:
    return refuse_as(&t.error, b"The body has more than %d items (line %d)", t.settings.max_items, t.index)

cdef bint pushitems_lines(Slice body, PushOptions* options, Tools* t, PushReq* out) noexcept nogil:
    # Parses a body. A bad line refuses the whole request and is named by its number, blank lines counted.
    cdef Slice left = body
    cdef Json j
    if body.n == 0:
        return refuse(&t.error, b"Empty request body")
    t.what = b"line"
    t.index = 0
    if options.bare:
        return pushitems_payloads(body, options, t, out)
    while pushitems_line(&left, t, &j):
        if out.n >= t.settings.max_items:
            return pushitems_line_too_many(t)
        if not pushitem_read(&j, t, options, body, out) or not json_end(&j):
            return pushitems_line_refuse(t, &j) if j.error != NULL else False
    return True

cdef bint pushitems_payloads(Slice body, PushOptions* options, Tools* t, PushReq* out) noexcept nogil:
    # Parses payloads. All belong to one partition, so they become runs: rows of the log of about equal size.
    cdef Frames f
    cdef Slice left = body
    cdef Json j
    cdef PushRun* run = NULL
    cdef PushItem like
    cdef Slice payload
    cdef size_t rows = body.n // (RUN_BYTES - 4096) + 1
    cdef size_t most = min(<size_t>RUN_BYTES, body.n // rows + 4096)
    cdef int room = <int>min(<size_t>RUN_MOST, body.n // 2 + 1)
    cdef int64_t ms = clock_wall_us() // 1000
    frames_begin(&f, body, t, out)
    memset(&like, 0, sizeof(like))
    like.queue = options.queue
    like.part = pushitem_default_part(options)
    while pushitems_line(&left, t, &j):
        if not json_skip(&j, &payload) or not json_end(&j):
            return pushitems_line_refuse(t, &j)
        if f.n >= f.max_items:
            return pushitems_line_too_many(t)
        if run != NULL and (run.n == room or run.bytes + payload.n > most):
            if not pushitems_payloads_keep(&f, run, &like):
                return False
            run = NULL
        if run == NULL:
            run = pushrun_new(t.arena, room, BODY_V1)
            if run == NULL:
                return refuse_memory(&t.error)
            run.made = True
        uuid_next(t.uuids, ms, run.ids + 16 * run.n)
        run.payloads[run.n] = payload
        run.bytes += payload.n
        run.n += 1
        f.n += 1
    return run == NULL or pushitems_payloads_keep(&f, run, &like)

cdef bint pushitems_payloads_keep(Frames* f, PushRun* run, PushItem* like) noexcept nogil:
    # Keeps a run whose ids were made here and therefore ascend.
    memcpy(run.lo, run.ids, 16)
    memcpy(run.hi, run.ids + 16 * (run.n - 1), 16)
    run.has_v7 = True
    return frames_keep(f, run, like, run.n >= RUN_LEAST)

# ---- an item from its literals ---------------------------------------------------------------------------------------

cdef bint pushitem_from_raw(const ItemRaw* raw, Tools* t, PushItem* it, const char* empty_payload,
                            const PushOptions* options, const PushItem* before) noexcept nogil:
    # Makes an item of a push from literals and checks all its members. options: NULL if the item must have a queue.
    if raw.unknown.p != NULL and strict:
        return pushitem_refuse_unknown(raw.unknown, t)
    if raw.wrong or (raw.queue.p == NULL and (options == NULL or options.queue.p == NULL)):
        return pushitem_refuse_type(raw.wrong if raw.wrong else WRONG_QUEUE, t)
    if not pushitem_new(raw, t, it, empty_payload, options, before):
        return False
    if raw.payload.p == NULL and strict:
        return refuse_item(t, b"payload is required", b"payload")
    if ((raw.headers.p != NULL or raw.parent.p != NULL or raw.state.p != NULL)
            and not itemheaders_item(t, it, raw.headers, raw.parent, raw.state)):
        return False
    return (raw.due.p == NULL and raw.delay.p == NULL) or pushitem_due(it, t, raw.due, raw.delay)

cdef bint pushitem_refuse_unknown(Slice key, Tools* t) noexcept nogil:
    # Refuses a member that no item has: its sender means something by it, and the message would lack that. key: with
    # its quotes. Returns False.
    cdef const Unsupported* found = typo_unsupported(key)
    cdef char[TYPO_SHOWN + 1] name
    if found != NULL:
        return refuse_as(&t.error, b"%s is not supported in an item: %s (%s %d, field %s)", found.name, found.instead,
                         t.what, t.index, found.name)
    typo_shown(slice_of(key.p + 1, key.n - 2), name)
    return refuse_as(&t.error, b"%s is no key of an item: queue, partition, payload, transactionId, traceId, "
                     b"traceparent, tracestate, headers, deliverAt, delayMs (%s %d)", name, t.what, t.index)

cdef const char* WRONG_TEXTS[6]       # by the bits of ItemRaw.wrong
cdef const char* WRONG_FIELDS[6]
WRONG_TEXTS = [b"Partition", b"Queue", b"TransactionId", b"TraceId", b"traceparent", b"tracestate"]
WRONG_FIELDS = [b"partition", b"queue", b"transactionId", b"traceId", b"traceparent", b"tracestate"]

cdef bint pushitem_refuse_type(int wrong, Tools* t) noexcept nogil:
    # Refuses an item because a member that must be a string has another type: the lowest bit of wrong. Returns False.
    cdef int i = 0
    while not wrong >> i & 1:
        i += 1
    return refuse_as(&t.error, b"%s must be a string (%s %d, field %s)", WRONG_TEXTS[i], t.what, t.index,
                     WRONG_FIELDS[i])

cdef bint pushitem_new(const ItemRaw* raw, Tools* t, PushItem* it, const char* empty_payload,
                       const PushOptions* options, const PushItem* before) noexcept nogil:
    # Makes an item from literals.
    # options: names for an item without; may be NULL if it has a queue.
    # before: an item whose queue it may share, or NULL.
    cdef Slice text
    memset(it, 0, sizeof(PushItem))
    if raw.part.p == NULL:
        it.part = pushitem_default_part(options)
    elif not ident_name(raw.part, t.arena, &it.part):
        return refuse_item(t, PARTITION_TEXT, b"partition")
    if raw.queue.p == NULL:
        it.queue = options.queue
    elif before != NULL and slice_eq(raw.queue, before.queue_json):
        it.queue = before.queue
    elif not ident_name(raw.queue, t.arena, &it.queue) or it.queue.n == 0:
        return refuse_item(t, QUEUE_TEXT, b"queue")
    it.queue_json = raw.queue
    if raw.txid.p != NULL and raw.txid.n > 2:
        if not ident_txid(raw.txid, t.arena, &it.txid, it.id, &it.id_kind, &it.keep_text):
            return refuse_item(t, TXID_TEXT, b"transactionId")
        it.txid_json = raw.txid
    else:
        uuid_make(t.uuids, it.id)
    if raw.trace.p != NULL and raw.trace.n > 2:
        if not text_unescape(raw.trace, t.arena, &text, NULL) or not uuid_parse(text, it.trace):
            return refuse_item(t, b"TraceId must be a UUID", b"traceId")
        it.has_trace = 1
    it.payload = raw.payload if raw.payload.p != NULL else slice_lit(empty_payload)
    return True

cdef inline Slice pushitem_default_part(const PushOptions* options) noexcept nogil:
    # Returns the partition of items that name none. options: may be NULL.
    return options.part if options != NULL and options.part.p != NULL else slice_lit(PARTITION_DEFAULT)

# ---- delivery times --------------------------------------------------------------------------------------------------
# deliverAt or delayMs of an item, or of the query for all items without one, as Extras.due. A time that has passed and
# a delay of 0 count as absent.

cdef bint pushitem_due(PushItem* it, Tools* t, Slice at, Slice delay) noexcept nogil:
    # Reads the literals of an item; p NULL: absent.
    cdef int64_t due
    if not time_deliver_at(at, delay, True, t, &due):
        return False
    if due and not pushitem_defer(it, t.arena, due):
        return refuse_memory(&t.error)
    it.timed = True
    return True

cdef bint pushitems_defer(PushReq* q, Tools* t, int64_t due) noexcept nogil:
    # Sets the delivery time of all items that have none, runs included. Items without other extras share one Extras.
    cdef PushItem like
    cdef int i
    memset(&like, 0, sizeof(like))
    if not pushitem_defer(&like, t.arena, due):
        return refuse_memory(&t.error)
    for i in range(q.n):
        if q.items[i].timed:
            continue
        if q.items[i].more == NULL:
            q.items[i].more = like.more
        elif not pushitem_defer(&q.items[i], t.arena, due):
            return refuse_memory(&t.error)
    return True

cdef bint pushitem_defer(PushItem* it, Arena* a, int64_t due) noexcept nogil:
    cdef unsigned char* value = <unsigned char*>arena_alloc(a, 8)
    cdef Extras* x = <Extras*>arena_zero(a, sizeof(Extras))
    if value == NULL or x == NULL:
        return False
    if it.more != NULL:
        x[0] = it.more[0]     # other items may share the extras
    be64_put(value, <uint64_t>due)
    x.due = slice_of(<const char*>value, 8)
    it.more = x
    return True

# ---- what an item carries besides its payload ------------------------------------------------------------------------

cdef inline void pushitem_extras(PushItem* it, Extras* x) noexcept nogil:
    # Collects what an item carries besides its payload, as views into the item.
    if it.more != NULL:
        x[0] = it.more[0]
    else:
        batchrow_extras_none(x)
    x.trace = slice_of(<const char*>it.trace, 16 if it.has_trace else 0)
    x.sub = it.sub
    x.text = slice_of(it.txid.p, it.txid.n if it.keep_text else 0)

cdef bint pushitem_keep_headers(Arena* a, Buf* b, PushItem* it) noexcept nogil:
    # Stores the object in b as the item's headers and frees b. Other extras stay. Returns False if memory ran out.
    cdef Extras* more = <Extras*>arena_zero(a, sizeof(Extras))
    cdef Slice text
    buf_byte(b, b'}')
    text = arena_copy(a, slice_of(b.data, 0 if b.failed else b.len))
    buf_free(b)
    if more == NULL or text.n == 0:
        return False
    if it.more != NULL:
        more[0] = it.more[0]
    more.headers = text
    it.more = more
    return True
