# Reads POST /api/v1/push with application/x-queen-push: the binary bodies of the 2.x client, as in
# docs/binary-formats.md. In: a body, of which nothing is used before all is checked. Out: runs, if groups can be rows
# of the log as they are; else items. Stateless, takes no lock. Form A has payloads one by one, form B a zstd frame of
# message frames per group.

cdef enum:
    FRAMES_ZSTD = 1           # form A: what follows the length is one zstd frame
    FRAMES_COUNTS = 2         # answer in numbers
    FRAMES_TXN = 4            # form A: each item has a transactionId
    FRAMES_FRAMES = 8         # form B
    FRAMES_HEADERS = 16       # form A: each item has headers

cdef struct Frames:
    # The state of reading one body.
    const unsigned char* p
    const unsigned char* end
    Tools* t
    size_t unpacked           # bytes unpacked so far, all groups together
    int max_items
    int n                     # records so far
    int room                  # of items
    int group                 # number of the group being read
    bint single               # no runs
    PushReq* out

cdef enum:
    FRAMES_ANY_SIZE = -1      # no size is announced

# ---- a body ----------------------------------------------------------------------------------------------------------

cdef bint frames_parse(Slice body, Tools* t, PushReq* out) noexcept nogil:
    cdef Frames f
    cdef uint8_t flags
    cdef Slice raw
    cdef uint32_t raw_len
    frames_begin(&f, body, t, out)
    if not frames_magic(body, b"QPB1"):
        return refuse(&t.error, b"Invalid binary push: it does not begin with QPB1")
    if body.n < 5:
        return refuse(&t.error, b"Invalid binary push: cut off")
    flags = f.p[4]
    f.p += 5
    if (flags & ~(FRAMES_ZSTD | FRAMES_COUNTS | FRAMES_TXN | FRAMES_FRAMES | FRAMES_HEADERS)
            or (flags & FRAMES_FRAMES and flags & (FRAMES_ZSTD | FRAMES_TXN | FRAMES_HEADERS))):
        return refuse(&t.error, b"Invalid binary push: unknown flags")
    out.counts = flags & FRAMES_COUNTS != 0
    if flags & FRAMES_ZSTD:
        if not frames_u32(&f, &raw_len):
            return refuse(&t.error, b"Invalid binary push: cut off")
        if not frames_unzip(&f, slice_of(<const char*>f.p, f.end - f.p), raw_len, &raw):
            return False
        f.p = <const unsigned char*>raw.p
        f.end = f.p + raw.n
    if not frames_groups(&f, flags):
        return False
    out.unpacked = f.unpacked
    return True

cdef inline bint frames_magic(Slice body, const char* magic) noexcept nogil:
    return body.n >= 4 and memcmp(body.p, magic, 4) == 0

cdef void frames_begin(Frames* f, Slice body, Tools* t, PushReq* out) noexcept nogil:
    memset(f, 0, sizeof(Frames))
    f.p = <const unsigned char*>body.p
    f.end = f.p + body.n
    f.t = t
    f.max_items = t.settings.max_items
    f.out = out
    out.n = 0
    out.items = NULL

cdef bint frames_unzip(Frames* f, Slice frame, int64_t expected, Slice* out) noexcept nogil:
    # Unpacks a zstd frame. The bound UNZIP_MOST is for the whole request, so many small frames add up. expected: the
    # announced size, or FRAMES_ANY_SIZE.
    cdef size_t most = unzip_room(f.t.unzip, UNZIP_MOST)
    cdef int result = unzip_frame(f.t.unzip, frame, most - f.unpacked, f.t.arena, out)
    if result == UNZIP_MEMORY:
        return refuse_memory(&f.t.error)
    if result == UNZIP_LARGE and most < UNZIP_MOST:
        f.t.error.status = REFUSED_HERE
        return False
    if result == UNZIP_LARGE:
        refuse_as(&f.t.error, b"The request unpacks to more than %d bytes (group %d)", <int>UNZIP_MOST, f.group)
        f.t.error.status = 413
        return False
    if result == UNZIP_BAD:
        return frames_refuse(f, b"not exactly one zstd frame that tells its size")
    f.unpacked += out.n
    if expected != FRAMES_ANY_SIZE and <size_t>expected != out.n:
        return frames_refuse(f, b"the zstd frame has another size than announced")
    return True

cdef bint frames_groups(Frames* f, uint8_t flags) noexcept nogil:
    # Reads u32 groups and the groups, to the end of the body.
    cdef uint32_t groups, n
    cdef uint32_t i
    cdef PushItem like
    memset(&like, 0, sizeof(like))
    if not frames_u32(f, &groups):
        return frames_refuse(f, b"cut off")
    for i in range(groups):
        f.group = <int>i
        if not frames_text(f, &like.queue) or not frames_text(f, &like.part) or not frames_u32(f, &n):
            return frames_refuse(f, b"cut off")
        if like.queue.n == 0 or not ident_name_valid(like.queue):
            return frames_refuse(f, QUEUE_TEXT)
        if not ident_name_valid(like.part):
            return frames_refuse(f, PARTITION_TEXT)
        if n > <uint32_t>(f.max_items - f.n):
            return refuse_as(&f.t.error, b"The push has more than %d messages", f.max_items)
        if not (frames_packed(f, &like, <int>n) if flags & FRAMES_FRAMES
                else frames_plain(f, &like, <int>n, flags)):
            return False
        f.n += <int>n
    if f.p != f.end:
        return frames_refuse(f, b"bytes after the last group")
    return True

# ---- form B ----------------------------------------------------------------------------------------------------------

cdef bint frames_packed(Frames* f, PushItem* like, int n) noexcept nogil:
    # Reads u32 length and one zstd frame of n message frames.
    cdef uint32_t size
    cdef Slice z, inner, text
    cdef PushRun* run
    cdef const unsigned char* p
    cdef const unsigned char* end
    cdef const unsigned char* stop
    cdef uint8_t kind, keep
    cdef int i
    if not frames_u32(f, &size) or not frames_slice(f, size, &z):
        return frames_refuse(f, b"cut off")
    if not frames_unzip(f, z, FRAMES_ANY_SIZE, &inner):
        return False
    if <size_t>n > inner.n // FRAME_HEAD:
        return frames_refuse(f, b"fewer messages than announced")
    run = pushrun_new(f.t.arena, n, BODY_FRAMES)
    if run == NULL:
        return refuse_memory(&f.t.error)
    run.n = n
    run.stored = z
    run.inner = inner
    run.bytes = z.n
    p = <const unsigned char*>inner.p
    end = p + inner.n
    for i in range(n):
        stop = batchrow_frame(p, end)
        if stop == NULL:
            return frames_refuse_item(f, b"no message frame", i)
        text = slice_of(<const char*>p + FRAME_HEAD, le16(p + 21))
        if text.n == 0:
            memcpy(run.ids + 16 * i, p + 5, 16)
        elif not ident_uuid(text, run.ids + 16 * i):
            if not ident_txid_valid(text):
                return frames_refuse_item(f, TXID_TEXT, i)
            ident_record(text, run.ids + 16 * i, &kind, &keep)
        if not frames_payload(f, slice_of(text.p + text.n, <const char*>stop - text.p - text.n), i):
            return False
        p = stop
    if p != end:
        return frames_refuse(f, b"bytes after the last message")
    pushrun_ids(run)
    return frames_keep(f, run, like, not f.single and n >= RUN_LEAST and n <= RUN_MOST and z.n <= RUN_BYTES
                       and inner.n <= RUN_RATIO * z.n and pushrun_distinct(run))

# ---- form A ----------------------------------------------------------------------------------------------------------

cdef bint frames_plain(Frames* f, PushItem* like, int n, uint8_t flags) noexcept nogil:
    # Reads n messages: [u16 length, transactionId,] [u16 length, headers,] u32 length, payload. Cuts them into runs as
    # rows are cut. Messages that cannot be a run are read once more as items.
    cdef bint with_ids = flags & FRAMES_TXN != 0
    cdef bint with_headers = flags & FRAMES_HEADERS != 0
    cdef const unsigned char* at
    cdef int left = n
    cdef int taken
    if <size_t>n > <size_t>(f.end - f.p) // (4 + (2 if with_ids else 0) + (2 if with_headers else 0)):
        return frames_refuse(f, b"cut off")
    while left:
        taken = 0
        if left >= RUN_LEAST and not with_headers:
            at = f.p
            if not frames_plain_run(f, like, n - left, left, with_ids, &taken):
                return False
            if taken == 0:
                f.p = at
        if taken == 0:
            taken = min(left, <int>RUN_MOST)
            if not frames_plain_items(f, like, n - left, taken, with_ids, with_headers):
                return False
        left -= taken
    return True

cdef inline bint frames_plain_one(Frames* f, bint with_ids, Slice* text, Slice* payload) noexcept nogil:
    cdef uint32_t size
    text[0] = slice_of(NULL, 0)
    return (not with_ids or frames_text(f, text)) and frames_u32(f, &size) and frames_slice(f, size, payload)

cdef bint frames_plain_run(Frames* f, PushItem* like, int first, int left, bint with_ids, int* taken) noexcept nogil:
    # Reads a run. taken 0: they cannot be one (ids of another form, some missing and some given, one twice, too few).
    cdef int room = min(left, <int>RUN_MOST)
    cdef PushRun* run = pushrun_new(f.t.arena, room, BODY_V1)
    cdef Slice text, payload
    cdef const unsigned char* before
    if run == NULL:
        return refuse_memory(&f.t.error)
    while run.n < room:
        before = f.p
        if not frames_plain_one(f, with_ids, &text, &payload):
            return frames_refuse_item(f, b"cut off", first + run.n)
        if run.n and run.bytes + payload.n > RUN_BYTES:
            f.p = before
            break
        if run.n == 0:
            run.made = text.n == 0
        if text.n == 0:
            if not run.made:
                return True
            uuid_make(f.t.uuids, run.ids + 16 * run.n)
        elif run.made or not ident_uuid(text, run.ids + 16 * run.n):
            return True
        if not frames_payload(f, payload, first + run.n):
            return False
        run.payloads[run.n] = payload
        run.bytes += payload.n
        run.n += 1
    pushrun_ids(run)
    if run.n < RUN_LEAST or not (run.made or pushrun_distinct(run)):
        return True
    taken[0] = run.n
    return frames_keep(f, run, like, True)

cdef bint frames_plain_items(Frames* f, PushItem* like, int first, int n, bint with_ids,
                             bint with_headers) noexcept nogil:
    cdef PushItem* it = frames_items(f, n)
    cdef Slice text, headers
    cdef ItemHeaders read
    cdef uint32_t size
    cdef int i
    if it == NULL:
        return refuse_memory(&f.t.error)
    for i in range(n):
        it[0] = like[0]
        headers = text = slice_of(NULL, 0)
        if (with_ids and not frames_text(f, &text) or with_headers and not frames_text(f, &headers)
                or not frames_u32(f, &size) or not frames_slice(f, size, &it.payload)):
            return frames_refuse_item(f, b"cut off", first + i)
        if headers.n and not itemheaders_text(f.t, it, headers, slice_of(NULL, 0), &read):
            return frames_refuse_item(f, read.why, first + i) if read.why[0] else refuse_memory(&f.t.error)
        if text.n == 0:
            uuid_make(f.t.uuids, it.id)
        elif not ident_txid_valid(text):
            return frames_refuse_item(f, TXID_TEXT, first + i)
        else:
            it.txid = text
            ident_record(text, it.id, &it.id_kind, &it.keep_text)
        if not frames_payload(f, it.payload, first + i):
            return False
        it += 1
    return True

# ---- items -----------------------------------------------------------------------------------------------------------

cdef inline bint frames_payload(Frames* f, Slice payload, int i) noexcept nogil:
    cdef Json j
    return pushitem_json(&j, payload, NULL) or refuse_as(
        &f.t.error, b"Invalid JSON: %s at byte %lld (group %d, message %d)", j.error, <long long>(j.p - j.begin),
        f.group, i)

cdef PushItem* frames_items(Frames* f, int n) noexcept nogil:
    # Returns room for n more items, not initialized; NULL if memory ran out.
    cdef PushItem* more
    if f.out.n + n > f.room:
        f.room = (f.out.n + n) * 2
        more = <PushItem*>arena_alloc(f.t.arena, f.room * sizeof(PushItem))
        if more == NULL:
            return NULL
        if f.out.n:
            memcpy(more, f.out.items, f.out.n * sizeof(PushItem))
        f.out.items = more
    f.out.n += n
    return &f.out.items[f.out.n - n]

cdef bint frames_keep(Frames* f, PushRun* run, PushItem* like, bint whole) noexcept nogil:
    # Adds a run as one item if it may be a row by itself (whole), else its records as items.
    cdef PushItem* at
    cdef PushItem head = like[0]
    if run.n == 0:
        return True
    if whole:
        run.items = <PushItem*>arena_alloc(f.t.arena, run.n * sizeof(PushItem))
        at = frames_items(f, 1)
        if at == NULL or run.items == NULL:
            return refuse_memory(&f.t.error)
        head.run = run
        head.payload.n = run.bytes
        at[0] = head
        return True
    at = frames_items(f, run.n)
    if at == NULL:
        return refuse_memory(&f.t.error)
    pushrun_expand(run, &head, at)
    return True

# ---- bytes and refusals ----------------------------------------------------------------------------------------------

cdef inline bint frames_u32(Frames* f, uint32_t* v) noexcept nogil:
    if f.end - f.p < 4:
        return False
    v[0] = le32(f.p)
    f.p += 4
    return True

cdef inline bint frames_slice(Frames* f, size_t n, Slice* out) noexcept nogil:
    if <size_t>(f.end - f.p) < n:
        return False
    out[0] = slice_of(<const char*>f.p, n)
    f.p += n
    return True

cdef inline bint frames_text(Frames* f, Slice* out) noexcept nogil:
    # Reads a text: u16 length, bytes.
    cdef uint16_t n
    if f.end - f.p < 2:
        return False
    n = le16(f.p)
    f.p += 2
    return frames_slice(f, n, out)

cdef bint frames_refuse(Frames* f, const char* text) noexcept nogil:
    return refuse_as(&f.t.error, b"Invalid binary push: %s (group %d)", text, f.group)

cdef bint frames_refuse_item(Frames* f, const char* text, int i) noexcept nogil:
    return refuse_as(&f.t.error, b"Invalid binary push: %s (group %d, message %d)", text, f.group, i)
