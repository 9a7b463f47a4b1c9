# Remembered ids of a batch (memory/idset): what push is told of them, and what its answer teaches. In: a batch of
# items; rows of queend.push. Out: how far each of its partitions is known, and where its ids may stand; ids that are
# remembered. Locks: idsets.lock.

cdef inline const unsigned char* chunk_id(PushItem** it, int k) noexcept nogil:
    # Returns the id of a row's record k. Requires calls in order, beginning with the row's first item.
    cdef const unsigned char* id = it[0].id
    if it[0].run != NULL:
        return it[0].run.ids + 16 * k
    it[0] = it[0].next
    return id

cdef void batch_known(PushBatch* b, KnownArgs* a) noexcept nogil:
    # Sets how far the partition of each row is known, and encodes where its ids may stand.
    cdef int i
    cdef PushGroup* g = NULL
    pgarray_begin(&a.look_row, OID_INT4)
    pgarray_begin(&a.look_from, OID_INT8)
    pgarray_begin(&a.look_to, OID_INT8)
    uv_mutex_lock(&idsets.lock)
    for i in range(b.n_chunks):
        if b.chunks[i].group is not g:
            g = b.chunks[i].group
            if g.has_other:
                group_known(b, i, a)
    uv_mutex_unlock(&idsets.lock)

cdef void group_known(PushBatch* b, int first, KnownArgs* a) noexcept nogil:
    cdef PushGroup* g = b.chunks[first].group
    cdef IdSet* r = g.partition.idset
    cdef PushItem* it
    cdef const unsigned char* id
    cdef int i = first
    cdef int k
    cdef uint64_t at
    cdef int64_t place, start, end
    cdef bint look = False
    g.known_at = 0
    if r == NULL:
        if g.partition.no_idset_until and g.partition.no_idset_until > clock_mono_us() // 1000000:
            g.known = KNOWN_CROWDED
        else:
            g.known = KNOWN_LOOK if g.partition.strange >= IDSET_FROM else KNOWN_NOTHING
        return
    idset_used(r)
    while i < b.n_chunks and b.chunks[i].group is g:
        it = b.chunks[i].first
        start = 0
        end = 0
        for k in range(b.chunks[i].n):
            idset_ahead(r, it, k)
            id = chunk_id(&it, k)
            if id[6] >> 4 == 7:
                continue
            at = idset_at(r, idset_hash(id))
            while idset_look(r, id, &at):
                look = True
                place = r.cells[at] & IDSET_PLACE
                # Rows that are sent again as they were stored name places that follow each other: one range.
                if place < start or place > end or start == end:
                    look_encode(a, r, i, start, end)
                    start = place
                    end = place
                end = place + 1 if place >= end else end
                at = idset_next(r, at)
        look_encode(a, r, i, start, end)
        i += 1
    g.known = r.known if r.sure and not look else KNOWN_LOOK - r.known
    g.known_at = r.known_at

cdef inline void look_encode(KnownArgs* a, const IdSet* r, int row, int64_t start, int64_t end) noexcept nogil:
    # Encodes a range of places where ids of a row may stand; leaves out an empty one.
    if start < end:
        pgarray_int4(&a.look_row, row + 1)
        pgarray_int8(&a.look_from, r.origin + (start << r.shift))
        pgarray_int8(&a.look_to, r.origin + (end << r.shift))

# ---- after the commit ----------------------------------------------------------------------------------------------

cdef void batch_learn(PushBatch* b, PGresult* res) noexcept nogil:
    # Remembers what was stored. Requires that the next batch, which has to know it, is not sent yet.
    cdef int row, i, status
    cdef int64_t base
    cdef Slice seen
    cdef PgIter dups
    uv_mutex_lock(&idsets.lock)
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, PUSH_ORD)
        status = pg_int2(res, row, PUSH_STATUS)
        if status == PUSH_CLAIMED or status == PUSH_COMPARE or i < 0 or i >= b.n_chunks:
            continue
        # for a row that was stored at once the column means something else: push/heads
        seen = pg_bytes(res, row, PUSH_SEEN) if status != PUSH_WHOLE else slice_of(NULL, 0)
        base = pg_int8(res, row, PUSH_BASE) if status != PUSH_REFUSED else -1
        if status == PUSH_CHECKED:
            pg_array(res, row, PUSH_DUP_OFFSET, OID_INT8, &dups)
        chunk_learn(&b.chunks[i], seen, base, pg_int8(res, row, PUSH_CREATED_AT),
                    &dups if status == PUSH_CHECKED else NULL)
    for i in range(b.n_chunks if b.named else 0):
        chunk_learn(&b.chunks[i], slice_of(NULL, 0), b.chunks[i].group.began + b.chunks[i].skip,
                    pg_int8(res, 0, PUSH_CREATED_AT), NULL)
    uv_mutex_unlock(&idsets.lock)

cdef void chunk_learn(PushChunk* c, Slice seen, int64_t base, int64_t created_at, PgIter* dups) noexcept nogil:
    # Takes the answer to one row. A `base` of -1 means that no record was stored. Iterator `dups` has the offset of the
    # older record or -1 for each record, NULL: all were stored. Requires idsets.lock.
    cdef Partition* p = c.group.partition
    if p.idset == NULL and not c.group.has_other:
        return
    if group_current(c.group):
        partition_learn(p, seen)
    if base >= 0:
        chunk_keep(c, p, seen.p != NULL, base, created_at, dups)

cdef bint group_current(PushGroup* g) noexcept nogil:
    # Returns True if what the call was told is still what is remembered. A transaction may run beside a push: what it
    # learned or forgot leaves the ids of this answer without a predecessor.
    cdef int64_t told = g.known if g.known >= 0 else (KNOWN_LOOK - g.known if g.known <= KNOWN_LOOK else 0)
    cdef IdSet* r = g.partition.idset
    if r == NULL or told == 0:
        return told == 0 and (r == NULL or r.known == 0)
    return r.known == told and r.known_at == g.known_at

cdef void partition_learn(Partition* p, Slice seen) noexcept nogil:
    # Adds the ids of an answer. seen: 8 bytes offset, 8 bytes time, ids (sql/function/ids.sql).
    cdef int64_t at
    cdef const unsigned char* ids = <const unsigned char*>seen.p + 16
    cdef size_t k, n
    cdef IdSet* r
    if seen.p == NULL or seen.n < 16:
        return
    at = <int64_t>be64(seen.p)
    n = seen.n // 16 - 1
    if p.idset != NULL and p.idset.known != at:
        idset_drop(p.idset)         # not what follows: the set begins anew
    r = p.idset if p.idset != NULL else idset_new(p, at)
    if r == NULL:
        idset_crowded(p)
        return
    for k in range(n):
        if ids[16 * k + 6] >> 4 != 7 and not idset_add(r, ids + 16 * k, at + <int64_t>k):
            idset_crowded(p)
            return
    r.known = at + <int64_t>n
    r.known_at = <int64_t>be64(seen.p + 8)

cdef void chunk_keep(PushChunk* c, Partition* p, bint taught, int64_t base, int64_t created_at,
                     PgIter* dups) noexcept nogil:
    # Adds one row's records. Records that do not follow what is known are left to the next push, which is told of the
    # gap.
    cdef IdSet* r = p.idset
    cdef int64_t at = base
    cdef int64_t off
    cdef const unsigned char* id
    cdef PushItem* it = c.first
    cdef int k
    if r == NULL:
        p.strange = <uint8_t>(p.strange + c.n if p.strange + c.n < IDSET_FROM else IDSET_FROM)
        return
    if base != r.known:
        return
    for k in range(c.n):
        off = -1
        if dups != NULL:
            pg_next8(dups, &off)
        idset_ahead(r, it, k)
        id = chunk_id(&it, k)
        if off < 0:
            if id[6] >> 4 != 7 and not idset_add(r, id, at):
                idset_crowded(p)
                return
            at += 1
    r.known = at
    r.known_at = created_at
    if c.group.has_other and dups == NULL or taught:
        r.sure = True
        if r.used < p.crowded // 2:
            p.crowded = 0
