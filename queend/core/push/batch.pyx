# A batch: the items of one push call, grouped by partition, cut into rows of the log, written as binary arrays.
# In: items whose partitions are known. Out: the parameters of queend.push. No I/O and no clock in here.

cdef PushBatch* batch_new(PushStream* s) noexcept nogil:
    cdef PushBatch* b = <PushBatch*>calloc(1, sizeof(PushBatch))
    if b != NULL:
        arena_open(&b.arena, &s.worker.chunks)
    return b

cdef void batch_free(PushBatch* b) noexcept nogil:
    if b != NULL:
        arena_close(&b.arena)
        free(b)

# ---- gathering -----------------------------------------------------------------------------------------------------

cdef inline const unsigned char* slot_id(PushSlot* slot) noexcept nogil:
    if slot.it.run != NULL:
        return slot.it.run.ids + 16 * slot.at
    return slot.it.id

cdef PushSlot group_seen(PushBatch* b, PushGroup* g, const unsigned char* id) noexcept nogil:
    # The earlier record of this group with this id: its item and its place in the item's run; item NULL: there is none.
    # Called only for ids not proved new by order.
    cdef PushSlot none
    cdef uint32_t i
    cdef uint32_t size
    none.it = NULL
    none.at = 0
    if g.slots == NULL:
        if g.n < HASH_FROM and g.runs == 0:
            none.it = g.first
            while none.it != NULL and memcmp(none.it.id, id, 16) != 0:
                none.it = none.it.next
            return none
        size = 64
        while size < <uint32_t>g.n * 4:
            size *= 2
        group_hash(b, g, size)
    if g.slots == NULL:
        return none           # no memory for the hash: the database still decides
    i = <uint32_t>id_hash(id) & g.slots_mask
    while g.slots[i].it != NULL:
        if memcmp(slot_id(&g.slots[i]), id, 16) == 0:
            return g.slots[i]
        i = (i + 1) & g.slots_mask
    return none

cdef void group_hash(PushBatch* b, PushGroup* g, uint32_t size) noexcept nogil:
    cdef PushItem* at
    g.slots = <PushSlot*>arena_zero(&b.arena, size * sizeof(PushSlot))
    g.slots_mask = size - 1
    if g.slots == NULL:
        return
    at = g.first
    while at != NULL:
        group_slot(g, at)
        at = at.next

cdef inline void group_slot(PushGroup* g, PushItem* it) noexcept nogil:
    # All records of an item. There is room.
    cdef PushSlot slot
    cdef uint32_t i
    cdef int k
    slot.it = it
    for k in range(pushitem_count(it)):
        slot.at = k
        i = <uint32_t>id_hash(slot_id(&slot)) & g.slots_mask
        while g.slots[i].it != NULL:
            i = (i + 1) & g.slots_mask
        g.slots[i] = slot

cdef void group_slots_add(PushBatch* b, PushGroup* g, PushItem* it) noexcept nogil:
    # An item that stands in the chain already.
    cdef uint32_t size = g.slots_mask + 1
    if <uint32_t>g.n * 2 <= g.slots_mask:
        group_slot(g, it)
        return
    while size < <uint32_t>g.n * 4:
        size *= 2
    group_hash(b, g, size)

cdef PushGroup* batch_group(PushBatch* b, Partition* p) noexcept nogil:
    # A new group for a partition that has none in this batch yet; NULL when memory ran out.
    cdef PushGroup* g = <PushGroup*>arena_zero(&b.arena, sizeof(PushGroup))
    if g == NULL:
        return NULL
    g.partition = p
    if b.last != NULL:
        b.last.next = g
    else:
        b.first = g
    b.last = g
    b.n_groups += 1
    return g

cdef inline void group_range(PushGroup* g, const unsigned char* id) noexcept nogil:
    # A version-7 id widens the range of the group.
    if not g.has_v7:
        memcpy(g.lo, id, 16)
        memcpy(g.hi, id, 16)
        g.has_v7 = True
    elif memcmp(id, g.hi, 16) > 0:
        memcpy(g.hi, id, 16)
    elif memcmp(id, g.lo, 16) < 0:
        memcpy(g.lo, id, 16)

cdef inline void group_chain(PushGroup* g, PushItem* it) noexcept nogil:
    it.next = NULL
    if g.last != NULL:
        g.last.next = it
    else:
        g.first = it
    g.last = it

cdef void batch_place(PushBatch* b, PushGroup* g, PushItem* it) noexcept nogil:
    # Puts one item into its partition's group, or among the group's duplicates.
    cdef PushSlot same
    if it.run != NULL:
        run_place(b, g, it)
        return
    if it.id_kind != 0 and g.n and not (it.id_kind == 1 and g.has_v7 and memcmp(it.id, g.hi, 16) > 0):
        same = group_seen(b, g, it.id)
        if same.it != NULL:
            it.status = 1
            it.original = same.it
            it.original_at = same.at
            it.next = g.dups
            g.dups = it
            return
    if it.id_kind != 2:
        group_range(g, it.id)
    else:
        g.has_other = True
    if it.id_kind != 0:
        g.has_client = True
    group_chain(g, it)
    g.n += 1
    g.bytes += it.payload.n
    b.n_items += 1
    b.bytes += it.payload.n + 64
    if g.slots != NULL:
        group_slots_add(b, g, it)

cdef inline bint batch_full(PushBatch* b, PushJob* j, int most_jobs) noexcept nogil:
    # For an item of j.
    return (b.n_jobs >= most_jobs and b.job is not j or b.n_items >= BATCH_ITEMS or b.bytes >= BATCH_BYTES
            or b.n_groups >= BATCH_GROUPS)

cdef inline bint batch_holds(PushBatch* b, PushPart* part) noexcept nogil:
    # All of it? What is drained stands in one batch: its partitions are stored in their order, or not now.
    return (b.n_items + part.left <= BATCH_ITEMS and b.n_groups + part.left <= BATCH_GROUPS
            and b.bytes + part.job.job.bytes <= BATCH_BYTES)

cdef bint batch_chunks(PushBatch* b) noexcept nogil:
    # Cuts groups into rows of at most ROW_RECORDS and about ROW_BYTES.
    cdef PushGroup* g = b.first
    cdef PushItem* it
    cdef PushChunk* c = NULL
    cdef int room = 0
    cdef size_t bytes
    while g != NULL:
        room += 1 + g.n // ROW_RECORDS + <int>(2 * g.bytes // ROW_BYTES) + 2 * g.runs
        g = g.next
    b.chunks = <PushChunk*>arena_alloc(&b.arena, room * sizeof(PushChunk))
    if b.chunks == NULL:
        return False
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
                    or (c.n and bytes + it.payload.n > ROW_BYTES)):
                b.chunks[b.n_chunks].group = g
                b.chunks[b.n_chunks].first = it
                b.chunks[b.n_chunks].n = 0
                b.chunks[b.n_chunks].whole = False
                b.chunks[b.n_chunks].scheduled = False
                b.chunks[b.n_chunks].skip = c.skip + c.n if c != NULL else 0
                c = &b.chunks[b.n_chunks]
                b.n_chunks += 1
                bytes = 0
            c.n += pushitem_count(it)
            bytes += it.payload.n
            c.bytes = bytes
            if it.more != NULL and it.more.due.n:
                c.scheduled = True
                g.scheduled = True
                b.scheduled = True
            it = it.next
        g = g.next
    return True

cdef void batch_encode(PushBatch* b, RowArgs* a, PgArray* hint, BodyPack* pack) noexcept nogil:
    # hint: where the newest row of each partition begins; NULL: nobody asks.
    cdef uint64_t lanes = 0
    cdef int i, kind
    cdef PushChunk* c
    cdef PushGroup* g
    for i in range(b.n_chunks):
        c = &b.chunks[i]
        g = c.group
        lanes |= <uint64_t>1 << (g.partition.id & (LANES - 1))
        pgarray_int4(&a.part, g.partition.id)
        pgarray_int4(&a.skip, c.skip)
        pgarray_int4(&a.n, c.n)
        if hint != NULL:
            pgarray_int8(hint, atomic_get64(&g.partition.row_base))
        if not g.has_client and not b.unsure:
            kind = 0
        elif not g.has_other:
            kind = 1
        elif not g.has_v7:
            kind = 2
        else:
            kind = 3
        pgarray_int2(&a.kind, kind)
        if g.has_v7:
            pgarray_uuid(&a.lo, g.lo)
            pgarray_uuid(&a.hi, g.hi)
        else:
            pgarray_null(&a.lo)
            pgarray_null(&a.hi)
        chunk_encode(a, pack, c, b.plain)
    lanes_encode(&a.lanes, lanes)

cdef void lanes_encode(PgArray* out, uint64_t lanes) noexcept nogil:
    cdef int i
    for i in range(LANES):
        if lanes >> i & 1:
            pgarray_int4(out, i)

cdef void batch_ask(PushBatch* b, PushedArgs* a) noexcept nogil:
    # Is it stored?
    cdef uint64_t lanes = 0
    cdef PushChunk* c
    cdef int i
    for i in range(b.n_chunks):
        c = &b.chunks[i]
        lanes |= <uint64_t>1 << (c.group.partition.id & (LANES - 1))
        pgarray_int4(&a.part, c.group.partition.id)
        pgarray_int4(&a.n, c.n)
        ids_encode(&a.ids, c)
    lanes_encode(&a.lanes, lanes)

cdef bint body_begin(PgArray* body, BodyPack* p, size_t bytes, bint plain, size_t* mark, Buf** out) noexcept nogil:
    # Where sizes and payloads of a row go: into its body, or (True) beside it, to be compressed from there by body_end.
    cdef bint pack = not plain and p.least > 0 and bytes >= p.least
    mark[0] = pgarray_open(body)
    if pack:
        out[0] = &p.plain
        buf_clear(out[0])
    else:
        out[0] = &body.buf
        buf_byte(out[0], BODY_V1)
    return pack

cdef void body_end(PgArray* body, BodyPack* p, bint pack, size_t mark) noexcept nogil:
    if pack:
        bodypack_write(p, &body.buf)
    pgarray_close(body, mark)

cdef void chunk_encode(RowArgs* a, BodyPack* pack, PushChunk* c, bint plain) noexcept nogil:
    # Ids, body and meta of one row. A chunk is one run or a chain of items without any. pack: NULL if plain.
    ids_encode(&a.ids, c)
    if c.first.run != NULL:
        run_encode(a, pack, c.first, plain)
    else:
        items_encode(a, pack, c, plain)

cdef void ids_encode(PgArray* out, PushChunk* c) noexcept nogil:
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

cdef inline bint item_sealed(PushItem* it) noexcept nogil:
    return it.more != NULL and it.more.seal.n != 0

cdef void items_encode(RowArgs* a, BodyPack* p, PushChunk* c, bint plain) noexcept nogil:
    cdef bint extras = False
    cdef size_t mark
    cdef Buf* out
    # what is sealed hardly shrinks, and SQL can read it so
    cdef bint pack = body_begin(&a.body, p, c.bytes, plain or item_sealed(c.first), &mark, &out)
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
    body_end(&a.body, p, pack, mark)
    if extras:
        items_encode_meta(&a.meta, c)
    else:
        pgarray_null(&a.meta)

cdef void run_encode(RowArgs* a, BodyPack* p, PushItem* it, bint plain) noexcept nogil:
    cdef PushRun* run = it.run
    cdef size_t mark
    cdef Buf* out
    cdef bint pack
    cdef int k
    if it.sub.n or it.more != NULL:
        run_encode_meta(&a.meta, it)
    else:
        pgarray_null(&a.meta)
    if run.codec == BODY_FRAMES:
        mark = pgarray_open(&a.body)
        buf_byte(&a.body.buf, BODY_FRAMES)
        buf_slice(&a.body.buf, run.stored)
        pgarray_close(&a.body, mark)
        return
    pack = body_begin(&a.body, p, run.bytes, plain, &mark, &out)
    for k in range(run.n):
        buf_varint(out, run.payloads[k].n)
    for k in range(run.n):
        buf_slice(out, run.payloads[k])
    body_end(&a.body, p, pack, mark)

cdef void run_encode_meta(PgArray* meta, PushItem* it) noexcept nogil:
    # All records of a run have its producer.
    cdef size_t mark = pgarray_open(meta)
    cdef Extras x
    cdef int k
    item_extras(it, &x)
    buf_byte(&meta.buf, META_V1)
    for k in range(it.run.n):
        extras_put(&meta.buf, k, &x)
    pgarray_close(meta, mark)

cdef void items_encode_meta(PgArray* meta, PushChunk* c) noexcept nogil:
    cdef size_t mark = pgarray_open(meta)
    cdef PushItem* it = c.first
    cdef Extras x
    cdef int k
    buf_byte(&meta.buf, META_V1)
    for k in range(c.n):
        item_extras(it, &x)
        extras_put(&meta.buf, k, &x)
        it = it.next
    pgarray_close(meta, mark)

cdef bint batch_cut(PushStream* s, PushBatch* b, int end) noexcept nogil:
    # The rows from `end` on, where a partition begins, are the next batch. False: no memory, b stays whole.
    cdef PushBatch* rest = batch_new(s)
    cdef PushGroup* last = b.chunks[end - 1].group
    if rest == NULL:
        return False
    batch_part(b, rest, last)
    rest.plain = b.plain
    b.n_chunks = end
    rest.next = s.again
    s.again = rest
    return True

cdef void batch_part(PushBatch* b, PushBatch* rest, PushGroup* last) noexcept nogil:
    # What stands behind `last` moves to an empty batch, which is sent after b and so keeps the memory of both.
    cdef PushGroup* g = last.next
    cdef Arena arena = rest.arena
    rest.first = g
    rest.last = b.last
    last.next = NULL
    b.last = last
    while g != NULL:
        rest.n_groups += 1
        rest.n_items += g.n
        g = g.next
    b.n_groups -= rest.n_groups
    b.n_items -= rest.n_items
    rest.arena = b.arena
    b.arena = arena

cdef void batch_split(PushStream* s, PushBatch* b) noexcept nogil:
    # An error that belongs to some item: each half on its own, until that item stands alone.
    cdef PushBatch* half = batch_new(s)
    cdef PushGroup* g
    cdef PushGroup* other
    cdef PushItem* it
    cdef PushItem* following
    cdef int i, n
    if half == NULL:
        batch_fail(s, b, 503)
        return
    half.since_us = b.since_us
    half.unsure = b.unsure
    half.plain = b.plain
    g = b.first
    if b.n_groups > 1:
        for i in range(b.n_groups // 2 - 1):
            g = g.next
        batch_part(b, half, g)
    else:
        group_open_runs(g)
        other = <PushGroup*>arena_zero(&half.arena, sizeof(PushGroup))
        if other == NULL:
            batch_free(half)
            batch_fail(s, b, 503)
            return
        other[0] = g[0]
        other.slots = NULL
        n = g.n // 2
        it = g.first
        for i in range(n - 1):
            it = it.next
        following = it.next
        it.next = NULL
        g.last = it
        other.first = following
        other.n = g.n - n
        g.n = n
        g.slots = NULL
        group_split_dups(g, other)
        half.first = other
        half.last = other
        half.n_groups = 1
        half.n_items = other.n
        b.n_items = n
        # lo and hi stay those of both halves: a wider range only costs a look-up
    half.next = s.again
    b.next = half
    s.again = b

cdef void group_split_dups(PushGroup* g, PushGroup* other) noexcept nogil:
    # A duplicate goes with its first occurrence.
    cdef PushItem* it = g.dups
    cdef PushItem* following
    cdef PushItem* at
    g.dups = NULL
    other.dups = NULL
    while it != NULL:
        following = it.next
        at = g.first
        while at != NULL and at is not <PushItem*>it.original:
            at = at.next
        if at != NULL:
            it.next = g.dups
            g.dups = it
        else:
            it.next = other.dups
            other.dups = it
        it = following
