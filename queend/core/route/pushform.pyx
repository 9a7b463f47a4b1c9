# How the body of a push is written, and how its answer is wanted: told by Content-Type and the query.

cdef enum PushForm:
    PUSH_JSON = 0             # and every type nobody claims: clients send JSON under many names
    PUSH_LINES                # application/x-ndjson
    PUSH_ARROW                # application/vnd.apache.arrow.stream
    PUSH_FRAMES               # application/x-queen-push

cdef struct PushOptions:
    Slice queue               # of items that name none; p NULL: not given
    Slice part
    bint bare                 # a line is a payload, not an item
    bint counts               # the answer is wanted in numbers
    int64_t due               # of items that do not say themselves when they may be delivered, 0 = at once

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
    if form == PUSH_JSON or form == PUSH_LINES and not options.bare:
        pushitems_join(out, a)
    if options.due and not pushreq_defer(out, a, options.due, e):
        return False
    out.counts = out.counts or options.counts
    return True
