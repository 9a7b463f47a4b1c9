# Reads POST /api/v1/push with application/x-ndjson: one item per line, or (payload=line) one payload per line. In: a
# body. Out: items; payloads are slices of the body. Stateless, takes no lock. CR before a line's end, a missing last
# line end and blank lines are accepted.

cdef struct Lines:
    Slice left                # lines not read yet
    int line                  # number of the line read last, from 1

cdef inline bint pushlines_next(Lines* l, Json* j) noexcept nogil:
    # Opens the next line that is not blank, with the cursor at its first byte. Returns False at the end.
    while l.left.n:
        l.line += 1
        json_open(j, slice_cut(&l.left, b'\n'), JSON_DEPTH)
        json_padded(j)
        if json_peek(j) != 0 or j.p < j.end:
            return True
    return False

cdef bint pushlines_refuse(Tools* t, Json* j, int line) noexcept nogil:
    return refuse_as(&t.error, b"Invalid JSON: %s at byte %lld (line %d)", j.error, <long long>(j.p - j.begin), line)

cdef bint pushlines_too_many(Tools* t, int line) noexcept nogil:
    return refuse_as(&t.error, b"The body has more than %d items (line %d)", t.settings.max_items, line)

cdef bint pushlines_parse(Slice body, PushOptions* options, Tools* t, PushReq* out) noexcept nogil:
    # Parses a body. A bad line refuses the whole request and is named by its number, blank lines counted.
    cdef Lines l
    cdef Json j
    if body.n == 0:
        return refuse(&t.error, b"Empty request body")
    if options.bare:
        return pushlines_bare(body, options, t, out)
    t.what = b"line"
    l.left = body
    l.line = 0
    while pushlines_next(&l, &j):
        t.index = l.line
        if out.n >= t.settings.max_items:
            return pushlines_too_many(t, l.line)
        if not pushitem_read(&j, t, options, body, out) or not json_end(&j):
            return pushlines_refuse(t, &j, l.line) if j.error != NULL else False
    return True

cdef bint pushlines_bare(Slice body, PushOptions* options, Tools* t, PushReq* out) noexcept nogil:
    # Parses payloads. All belong to one partition, so they become runs: rows of the log of about equal size.
    cdef Frames f
    cdef Lines l
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
    l.left = body
    l.line = 0
    while pushlines_next(&l, &j):
        if not json_skip(&j, &payload) or not json_end(&j):
            return pushlines_refuse(t, &j, l.line)
        if f.n >= f.max_items:
            return pushlines_too_many(t, l.line)
        if run != NULL and (run.n == room or run.bytes + payload.n > most):
            if not pushlines_keep(&f, run, &like):
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
    return run == NULL or pushlines_keep(&f, run, &like)

cdef bint pushlines_keep(Frames* f, PushRun* run, PushItem* like) noexcept nogil:
    # Keeps a run whose ids were made here and therefore ascend.
    memcpy(run.lo, run.ids, 16)
    memcpy(run.hi, run.ids + 16 * (run.n - 1), 16)
    run.has_v7 = True
    return frames_keep(f, run, like, run.n >= RUN_LEAST)
