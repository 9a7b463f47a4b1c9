# Results of a batch, given to its items, its requests and waiters after the commit, never before. In: rows of
# queend.push. Out: items with offset, time and status. Rows that will be read soon are kept in memory
# (memory/rowcache). Locks: catalog.lock, then book.lock.

cdef void batch_scatter(PushStream* s, PushBatch* b, PGresult* res) noexcept nogil:
    cdef bint keeps = False
    cdef PopJob* wake = NULL
    cdef PushChunk* c
    cdef PushGroup* g
    cdef PushGroup* following
    cdef int i
    batch_results(b, res)
    # The batch is committed: waiters may hear of it now.
    uv_rwlock_rdlock(&catalog.lock)
    uv_mutex_lock(&book.lock)
    if b.n_claims:
        handover_book(b, clock_mono_us(), &wake)
    g = b.first
    while g != NULL:
        if g.head:
            book_stored(g.partition, g.head, &wake)
        g = g.next
    for i in range(b.n_chunks):
        c = &b.chunks[i]
        c.keep = (c.group.answered and c.whole and not c.scheduled
                  and rowcache_wanted(c.group.partition, c.first.offset, c.group.head))
        keeps = keeps or c.keep
    uv_mutex_unlock(&book.lock)
    uv_rwlock_rdunlock(&catalog.lock)
    if wake != NULL:
        popjobs_wake(s.worker, wake)
    if b.n_claims:
        handover_answer(s, b)
    if keeps:
        stream_keep(s, b)
    g = b.first
    while g != NULL:
        following = g.next
        if not g.answered:
            group_fail(s, g, FAILED_UNCLEAR, NULL)
        else:
            group_done(s, g)
        g = following
    batch_free(b)

cdef void batch_results(PushBatch* b, PGresult* res) noexcept nogil:
    # Sets where and when each item was stored.
    cdef int i, row
    cdef int claim = 0
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, PUSH_ORD)
        if pg_int2(res, row, PUSH_STATUS) == PUSH_CLAIMED:
            handover_made(b, &claim, i, pg_int8(res, row, PUSH_BASE), pg_place(res, row, PUSH_SEEN))
        elif 0 <= i < b.n_chunks and pg_int2(res, row, PUSH_STATUS) == PUSH_WHOLE:
            chunk_whole(&b.chunks[i], pg_int8(res, row, PUSH_BASE), pg_int8(res, row, PUSH_CREATED_AT))
        elif 0 <= i < b.n_chunks and pg_int2(res, row, PUSH_STATUS) == PUSH_CHECKED:
            chunk_results(&b.chunks[i], res, row)
    for i in range(b.n_chunks if b.named else 0):
        chunk_whole(&b.chunks[i], b.chunks[i].group.began + b.chunks[i].skip, pg_int8(res, 0, PUSH_CREATED_AT))

cdef void chunk_whole(PushChunk* c, int64_t base, int64_t created) noexcept nogil:
    # Sets the results of a chunk that was stored as it was sent.
    cdef PushItem* it = c.first
    cdef int k
    if it.run != NULL:
        it.offset = base
        it.created_us = created
    else:
        for k in range(c.n):
            it.offset = base + k
            it.created_us = created
            it = it.next
    c.whole = True
    chunk_told(c, base, base + c.n)

cdef inline void chunk_told(PushChunk* c, int64_t base, int64_t head) noexcept nogil:
    # Notes the head for the groups' waiters. base: offset of the first new record, -1 if there is none. Every group
    # hears of the head, even if a pop has seen it: a pop tells only its own group.
    if head > c.group.head:
        c.group.head = head
    if base >= 0:
        atomic_set64(&c.group.partition.row_base, base)
    c.group.answered = True

cdef void chunk_results(PushChunk* c, PGresult* res, int row) noexcept nogil:
    # Sets the results of a chunk of which some records may have been stored before.
    cdef PushItem* it = c.first
    cdef int64_t base = pg_int8(res, row, PUSH_BASE)
    cdef int64_t created = pg_int8(res, row, PUSH_CREATED_AT)
    cdef int64_t head = -1
    cdef int64_t fresh = base
    cdef StoredBefore before
    cdef int k
    if it.run != NULL:
        fresh = run_results(it, res, row, base, created)
        head = run_head(it)
    else:
        stored_before(&before, res, row)
        for k in range(c.n):
            item_result(it, &before, created, &fresh)
            head = max(head, it.offset + 1)       # the daemon that stored it may not have notified waiters
            it = it.next
    c.whole = fresh - base == c.n
    chunk_told(c, base if fresh > base else -1, head)

cdef struct StoredBefore:     # offsets and times of a row's records that were stored before, one of each per record
    PgIter offsets
    PgIter moments

cdef void stored_before(StoredBefore* b, PGresult* res, int row) noexcept nogil:
    pg_array(res, row, PUSH_DUP_OFFSET, OID_INT8, &b.offsets)
    pg_array(res, row, PUSH_DUP_AT, OID_INT8, &b.moments)

cdef void item_result(PushItem* it, StoredBefore* b, int64_t created, int64_t* fresh) noexcept nogil:
    # Sets the result of the next record. fresh: offset of the next record stored now; advances past this record if it
    # is one.
    it.offset = -1
    it.created_us = created
    pg_next8(&b.offsets, &it.offset)
    pg_next8(&b.moments, &it.created_us)
    it.of_deleted = it.created_us < 0
    if it.of_deleted:
        it.created_us = -it.created_us
    if it.offset >= 0:
        # an id made here that is stored already: this batch was sent twice
        it.status = ITEM_DUPLICATE if it.id_kind != ID_MADE else ITEM_QUEUED
    else:
        it.offset = fresh[0]
        it.created_us = created
        fresh[0] += 1

cdef void stream_keep(PushStream* s, PushBatch* b) noexcept nogil:
    # Adds rows of the batch to the cache. Copies them without a lock, then links them together under book.lock.
    cdef CachedRow* rows = NULL
    cdef CachedRow* r
    cdef int i
    for i in range(b.n_chunks - 1, -1, -1):
        if b.chunks[i].keep:
            r = cachedrow_make(engine_of(s.worker), &b.chunks[i])
            if r != NULL:
                r.next = rows
                rows = r
    uv_mutex_lock(&book.lock)
    while rows != NULL:
        r = rows
        rows = r.next
        r.next = NULL
        rowcache_add(r, s.call.sent_us)
    uv_mutex_unlock(&book.lock)

cdef void group_dups(PushStream* s, PushGroup* g) noexcept nogil:
    # Ends the duplicates of a group before their first occurrences are answered: an answered request frees its items.
    cdef PushItem* it = g.dups
    cdef PushItem* following
    cdef PushItem* first
    while it != NULL:
        following = it.next
        first = <PushItem*>it.original
        if first.run != NULL and first.run.open:
            first = &first.run.items[it.original_at]
        it.offset = first.offset + (it.original_at if first.run != NULL else 0)
        it.created_us = first.created_us
        it.status = ITEM_DUPLICATE if first.status <= ITEM_DUPLICATE else first.status
        it.of_deleted = first.of_deleted
        if it.status == ITEM_UNREACHED and first.of_part.failed > it.of_part.failed:
            it.of_part.failed = first.of_part.failed      # its request gets the error of the first one
            it.of_part.said = first.of_part.said
        item_done(s, it)
        it = following

cdef void group_done(PushStream* s, PushGroup* g) noexcept nogil:
    cdef PushItem* it
    cdef PushItem* following
    group_dups(s, g)
    it = g.first
    while it != NULL:
        following = it.next
        item_done(s, it)
        it = following

cdef void group_fail(PushStream* s, PushGroup* g, int failed, const Verdict* said) noexcept nogil:
    cdef PushItem* it = g.first
    while it != NULL:
        it.status = ITEM_FAILED if failed == FAILED_REFUSED else ITEM_UNREACHED
        if failed > it.of_part.failed:
            it.of_part.failed = failed
            it.of_part.said = said
        it = it.next
    group_done(s, g)

cdef void batch_fail(PushStream* s, PushBatch* b, int failed) noexcept nogil:
    cdef PushGroup* g = b.first
    cdef PushGroup* following
    while g != NULL:
        following = g.next
        group_fail(s, g, failed, b.said)
        g = following
    stream_drop(s, b)

cdef void item_refuse(PushStream* s, PushItem* it) noexcept nogil:
    # Ends an item for which memory ran out before it was gathered: it is not stored.
    it.status = ITEM_UNREACHED
    it.of_part.failed = FAILED_UNREACHED
    item_done(s, it)

cdef void items_refuse(PushStream* s, PushItem* it) noexcept nogil:
    # Refuses a chain of items. The last item may end its request, which frees the part.
    cdef PushItem* following
    while it != NULL:
        following = it.next
        item_refuse(s, it)
        it = following

cdef inline void item_done(PushStream* s, PushItem* it) noexcept nogil:
    cdef PushPart* part = it.of_part
    part.left -= 1
    if part.left == 0:
        if part.job.job.r.worker is s.worker and not part.parted:
            push_part_done(part)
        else:
            part.msg.run = push_part_home
            worker_post(part.job.job.r.worker, &part.msg)

# ---- kept in memory ------------------------------------------------------------------------------------------------

cdef CachedRow* cachedrow_make(Engine* e, PushChunk* c) noexcept nogil:
    # Returns a copy of a committed chunk; NULL if memory ran out, the chunk is not kept then. Requires that book.lock
    # is free and that no statement is being written.
    cdef RowArgs* scratch = &(<PushArgs*>e.args.at).rows
    cdef CachedRow* r
    cdef char* at
    cdef Slice ids, body, meta
    pgarray_begin(&scratch.ids, OID_BYTEA)
    pgarray_begin(&scratch.body, OID_BYTEA)
    pgarray_begin(&scratch.meta, OID_BYTEA)
    chunk_encode(scratch, NULL, c, True)
    ids = pgarray_only(&scratch.ids)
    body = pgarray_only(&scratch.body)
    meta = pgarray_only(&scratch.meta)
    if ids.n == 0 or body.n == 0 or scratch.meta.buf.failed:
        return NULL
    r = <CachedRow*>malloc(sizeof(CachedRow) + ids.n + body.n + meta.n)
    if r == NULL:
        return NULL
    memset(r, 0, sizeof(CachedRow))
    at = <char*>r + sizeof(CachedRow)
    r.partition = c.group.partition
    r.base = c.first.offset
    r.created_us = c.first.created_us
    r.n = c.n
    r.bytes = sizeof(CachedRow) + ids.n + body.n + meta.n
    r.ids = slice_of(at, ids.n)
    r.body = slice_of(at + ids.n, body.n)
    r.meta = slice_of(at + ids.n + body.n, meta.n)
    memcpy(at, ids.p, ids.n)
    memcpy(at + ids.n, body.p, body.n)
    if meta.n:
        memcpy(at + ids.n + body.n, meta.p, meta.n)
    return r

cdef inline Slice pgarray_only(PgArray* a) noexcept nogil:
    # Returns the only element of an array; empty if it is NULL or memory ran out.
    if a.buf.failed or a.has_null or a.n != 1:
        return slice_of(NULL, 0)
    return slice_of(a.buf.data + PGARRAY_HEADER + 4, a.buf.len - PGARRAY_HEADER - 4)
