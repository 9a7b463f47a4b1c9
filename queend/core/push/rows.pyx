# Encodes a batch as rows of the log, in binary arrays. The items of each partition are cut into rows of at most 1000
# records and about 64 KiB. In: the push partitions of a batch. Out: the parameters of queend.push. No I/O and no clock
# in here.

# ---- the batch -------------------------------------------------------------------------------------------------------

cdef bint rows_cut(PushBatch* b) noexcept nogil:
    # Cuts push partitions into rows of at most ROW_RECORDS and about ROW_BYTES. Returns False if memory ran out.
    cdef PushPartition* g = b.first
    cdef PushItem* it
    cdef PushChunk* c = NULL
    cdef int room = 0
    cdef int expected = 0
    cdef size_t bytes
    while g != NULL:
        expected += 1 + g.n // ROW_RECORDS + <int>(2 * g.bytes // ROW_BYTES) + 2 * g.runs
        g = g.next
    b.n_chunks = 0
    b.scheduled = False
    b.has_other = False
    g = b.first
    while g != NULL:
        it = g.first
        b.has_other = b.has_other or g.has_other
        g.scheduled = False
        bytes = 0
        c = NULL
        while it != NULL:
            if (c == NULL or it.run != NULL or c.first.run != NULL or c.n >= ROW_RECORDS
                    or (c.n and bytes + req_item_bytes(it) > ROW_BYTES)):
                # there are more than expected if framed runs were opened: their payloads are larger than g.bytes tells
                b.chunks = <PushChunk*>arena_grow(&b.arena, b.chunks, b.n_chunks, sizeof(PushChunk), expected, &room)
                if b.chunks == NULL:
                    return False
                b.chunks[b.n_chunks].group = g
                b.chunks[b.n_chunks].first = it
                b.chunks[b.n_chunks].n = 0
                b.chunks[b.n_chunks].whole = False
                b.chunks[b.n_chunks].scheduled = False
                b.chunks[b.n_chunks].skip = c.skip + c.n if c != NULL else 0
                c = &b.chunks[b.n_chunks]
                b.n_chunks += 1
                bytes = 0
            c.n += req_item_count(it)
            bytes += req_item_bytes(it)
            c.bytes = bytes
            if it.more != NULL and it.more.due.n:
                c.scheduled = True
                g.scheduled = True
                b.scheduled = True
            it = it.next
        g = g.next
    return True

# Kinds of the ids of a partition's records (p_kind of queend.push).
cdef enum RowKind:
    ROW_MADE = 0              # made by the daemon
    ROW_V7 = 1
    ROW_OTHER = 2             # no id is of version 7
    ROW_MIXED = 3

cdef void rows_encode(PushBatch* b, RowArgs* a, KnownArgs* known, PgArray* hint, BodyPack* pack) noexcept nogil:
    # Encodes the rows of a batch. Array `known` takes what is known of the batch's ids, or the named heads. It stays
    # empty if push needs nothing of this. It is NULL if the statement does not ask. Array `hint` takes what is known of
    # each partition's newest row; NULL if the statement does not ask.
    cdef bint sends_known = known != NULL and (b.has_other or b.expects)
    cdef uint64_t lanes = 0
    cdef int i, kind
    cdef PushChunk* c
    cdef PushPartition* g
    for i in range(b.n_chunks):
        c = &b.chunks[i]
        g = c.group
        lanes |= <uint64_t>1 << (g.partition.id & (LANES - 1))
        pgarray_int4(&a.part, g.partition.id)
        pgarray_int4(&a.skip, c.skip)
        pgarray_int4(&a.n, c.n)
        if sends_known:
            row_put_known(g, known, b.expects)
        if hint != NULL:
            pgarray_int8(hint, g.hint_offset)
        if not g.has_client and not b.check_ids:
            kind = ROW_MADE
        elif not g.has_other:
            kind = ROW_V7
        elif not g.has_v7:
            kind = ROW_OTHER
        else:
            kind = ROW_MIXED
        pgarray_int2(&a.kind, kind)
        pgarray_uuid(&a.lo, &g.lo[0] if g.has_v7 else NULL)
        pgarray_uuid(&a.hi, logend_high(g) if b.expects else &g.hi[0] if g.has_v7 else NULL)
        row_put(a, pack, c, b.uncompressed)
    rows_lanes(&a.lanes, lanes)

cdef void rows_lanes(PgArray* out, uint64_t lanes) noexcept nogil:
    cdef int i
    for i in range(LANES):
        if lanes >> i & 1:
            pgarray_int4(out, i)

cdef void row_put_known(PushPartition* g, KnownArgs* a, bint named) noexcept nogil:
    if named:
        pgarray_int8(&a.known, g.partition.end.next)
        pgarray_int8(&a.known_at, g.partition.end.at)
    elif g.has_other:
        pgarray_int8(&a.known, g.known)
        pgarray_int8(&a.known_at, g.known_at)
    else:
        pgarray_null(&a.known)
        pgarray_null(&a.known_at)

cdef void rows_ask(PushBatch* b, PushedArgs* a) noexcept nogil:
    # Encodes the question whether the batch is stored.
    cdef uint64_t lanes = 0
    cdef PushChunk* c
    cdef int i
    for i in range(b.n_chunks):
        c = &b.chunks[i]
        lanes |= <uint64_t>1 << (c.group.partition.id & (LANES - 1))
        pgarray_int4(&a.part, c.group.partition.id)
        pgarray_int4(&a.n, c.n)
        row_put_ids(&a.ids, c)
    rows_lanes(&a.lanes, lanes)

# ---- one row ---------------------------------------------------------------------------------------------------------

cdef void row_put(RowArgs* a, BodyPack* pack, PushChunk* c, bint plain) noexcept nogil:
    # Encodes ids, body and meta of one row. A chunk is one run or a chain of items without runs. pack: NULL if plain.
    row_put_ids(&a.ids, c)
    if c.first.run != NULL:
        row_put_run(a, pack, c.first, plain)
    else:
        row_put_items(a, pack, c, plain)

cdef void row_put_ids(PgArray* out, PushChunk* c) noexcept nogil:
    cdef PushItem* it = c.first
    cdef char* ids = pgarray_reserve(out, 16 * <size_t>c.n)
    cdef int k
    if ids == NULL:
        return
    if it.run != NULL:
        memcpy(ids, it.run.ids, 16 * <size_t>c.n)
        return
    for k in range(c.n):
        memcpy(ids + 16 * k, it.id, 16)
        it = it.next

cdef void row_put_items(RowArgs* a, BodyPack* p, PushChunk* c, bint plain) noexcept nogil:
    cdef bint extras = False
    cdef size_t mark
    cdef Buf* out
    # a sealed payload hardly shrinks, and SQL can read it uncompressed
    cdef bint pack = row_body_begin(&a.body, p, c.bytes, plain or sealing_has(c.first), &mark, &out)
    cdef PushItem* it = c.first
    cdef int k
    for k in range(c.n):
        if it.keep_text or it.has_trace or it.sub.n or it.more != NULL:
            extras = True
        buf_varint(out, it.payload.n)
        it = it.next
    it = c.first
    for k in range(c.n):
        buf_slice(out, it.payload)
        it = it.next
    row_body_end(&a.body, p, pack, mark)
    if extras:
        row_put_meta(&a.meta, c.first, c.n)
    else:
        pgarray_null(&a.meta)

cdef void row_put_run(RowArgs* a, BodyPack* p, PushItem* it, bint plain) noexcept nogil:
    cdef PushRun* run = it.run
    cdef size_t mark
    cdef Buf* out
    cdef bint pack
    cdef int k
    if it.sub.n or it.more != NULL:
        row_put_meta(&a.meta, it, run.n)
    else:
        pgarray_null(&a.meta)
    if run.codec == BODY_FRAMES:
        mark = pgarray_open(&a.body)
        buf_byte(&a.body.buf, BODY_FRAMES)
        buf_slice(&a.body.buf, run.stored)
        pgarray_close(&a.body, mark)
        return
    pack = row_body_begin(&a.body, p, run.bytes, plain, &mark, &out)
    for k in range(run.n):
        buf_varint(out, run.payloads[k].n)
    for k in range(run.n):
        buf_slice(out, run.payloads[k])
    row_body_end(&a.body, p, pack, mark)

cdef bint row_body_begin(PgArray* body, BodyPack* p, size_t bytes, bint plain, size_t* mark, Buf** out) noexcept nogil:
    # Chooses where sizes and payloads of a row go: into its body, or (returns True) beside it, where row_body_end
    # compresses them.
    cdef bint pack = not plain and p.least > 0 and bytes >= p.least
    mark[0] = pgarray_open(body)
    if pack:
        out[0] = &p.plain
        buf_clear(out[0])
    else:
        out[0] = &body.buf
        buf_byte(out[0], BODY_V1)
    return pack

cdef void row_body_end(PgArray* body, BodyPack* p, bint pack, size_t mark) noexcept nogil:
    if pack:
        batchrow_compress(p, &body.buf)
    pgarray_close(body, mark)

cdef void row_put_meta(PgArray* meta, PushItem* it, int n) noexcept nogil:
    # Encodes the extras of n records: of consecutive items, or of a run, whose records all have its producer.
    cdef size_t mark = pgarray_open(meta)
    cdef Extras x
    cdef int k
    buf_byte(&meta.buf, META_V1)
    for k in range(n):
        if k == 0 or it.run == NULL:
            pushitem_extras(it, &x)
        batchrow_extras_put(&meta.buf, k, &x)
        if it.run == NULL:
            it = it.next
    pgarray_close(meta, mark)
