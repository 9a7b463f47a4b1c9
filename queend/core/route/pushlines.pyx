# POST /api/v1/push with application/x-ndjson: one item per line, or (payload=line) one payload per line. CR before the
# line's end, a missing last one and blank lines do not matter. Payloads are slices of the body.

cdef bint pushlines_parse(Slice body, PushOptions* options, Arena* a, UuidGen* g, int max_items, PushReq* out, ApiError* e) noexcept nogil:
    # A bad line refuses the whole request and is named by its number, from 1 on, blank lines counted.
    cdef const char* p = body.p
    cdef const char* end = body.p + body.n
    cdef const char* stop
    cdef Json j
    cdef int room = 0
    cdef int line = 0
    out.n = 0
    out.items = NULL

    while p < end:
        stop = <const char*>memchr(p, b'\n', end - p)
        if stop == NULL:
            stop = end
        line += 1
        json_open(&j, slice_of(p, stop - p), JSON_DEPTH)
        p = stop + 1
        if json_peek(&j) == 0 and j.p >= j.end:
            continue
        if out.n >= max_items:
            e.status = 400
            snprintf(e.text, 239, b"The body has more than %d items (line %d)", max_items, line)
            return False
        out.items = pushitems_grow(a, out.items, out.n, &room, &j, body, max_items)
        if out.items == NULL:
            error_set(e, 503, b"Out of memory")
            return False
        if options.bare:
            if not pushline_bare(&j, options, g, &out.items[out.n]):
                return refuse_line(e, &j, line)
        elif not push_item(&j, a, g, options, &out.items[out.n], &out.items[out.n - 1] if out.n else NULL, b"line", line, e):
            return refuse_line(e, &j, line) if j.error != NULL else False
        elif not json_end(&j):
            return refuse_line(e, &j, line)
        out.n += 1
    if line == 0:
        return refuse(e, b"Empty request body")
    return True

cdef inline bint pushline_bare(Json* j, PushOptions* options, UuidGen* g, PushItem* it) noexcept nogil:
    memset(it, 0, sizeof(PushItem))
    if not json_skip(j, &it.payload) or not json_end(j):
        return False
    it.queue = options.queue
    it.part = options.part if options.part.p != NULL else slice_lit(b"Default")
    uuid7_make(g, it.id)
    return True

cdef bint refuse_line(ApiError* e, Json* j, int line) noexcept nogil:
    e.status = 400
    snprintf(e.text, 239, b"Invalid JSON: %s at byte %lld (line %d)", j.error, <long long>(j.p - j.begin), line)
    return False
