# Results of a batch, given to its items, its requests and waiters after the commit, never before. In: rows of
# queend.push. Out: items with offset, time and status; parts that are done, sent to their requests; rows that will be
# read soon, kept in memory (memory/rowcache). Owner: the appender's thread. Locks: catalog.lock, then book.lock.

# ---- after the commit ------------------------------------------------------------------------------------------------

cdef void results_scatter(Appender* s, PushBatch* b, PGresult* res) noexcept nogil:
    cdef bint keeps = False
    cdef PopJob* wake = NULL
    cdef PushChunk* c
    cdef PushPartition* g
    cdef PushPartition* following
    cdef int i
    results_take(b, res)
    # The batch is committed: waiters may hear of it now.
    index_lock_all()
    if b.n_claims:
        handover_book(b, clock_mono_us(), &wake)
    g = b.first
    while g != NULL:
        if g.head:
            index_stored(g.partition, g.head, &wake)
        g = g.next
    for i in range(b.n_chunks):
        c = &b.chunks[i]
        c.keep = (c.group.answered and c.whole and not c.scheduled
                  and rowcache_wanted(c.group.partition, c.first.offset, c.group.head))
        keeps = keeps or c.keep
    index_unlock_all(s.worker, wake)
    if b.n_claims:
        handover_answer(s, b)
    if keeps:
        results_cache(s, b)
    g = b.first
    while g != NULL:
        following = g.next
        if not g.answered:
            result_fail(s, g, FAILED_UNCLEAR, NULL)
        else:
            result_done(s, g)
        g = following
    batch_free(b)

# ---- offsets, times and status ---------------------------------------------------------------------------------------

cdef void results_take(PushBatch* b, PGresult* res) noexcept nogil:
    # Sets where and when each item was stored.
    cdef int i, row
    cdef int claim = 0
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, PUSH_ORD)
        if pg_int2(res, row, PUSH_STATUS) == PUSH_CLAIMED:
            claim_found(b.claims, b.n_claims, &claim, i, pg_int8(res, row, PUSH_BASE), pg_place(res, row, PUSH_SEEN))
        elif 0 <= i < b.n_chunks and pg_int2(res, row, PUSH_STATUS) == PUSH_WHOLE:
            result_whole(&b.chunks[i], pg_int8(res, row, PUSH_BASE), pg_int8(res, row, PUSH_CREATED_AT))
        elif 0 <= i < b.n_chunks and pg_int2(res, row, PUSH_STATUS) == PUSH_CHECKED:
            result_row(&b.chunks[i], res, row)
    for i in range(b.n_chunks if b.expects else 0):
        result_whole(&b.chunks[i], b.chunks[i].group.began + b.chunks[i].skip, pg_int8(res, 0, PUSH_CREATED_AT))

cdef void result_whole(PushChunk* c, int64_t base, int64_t created) noexcept nogil:
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
    result_note_head(c, base, base + c.n)

cdef void result_row(PushChunk* c, PGresult* res, int row) noexcept nogil:
    # Sets the results of a chunk of which some records may have been stored before.
    cdef PushItem* it = c.first
    cdef int64_t base = pg_int8(res, row, PUSH_BASE)
    cdef int64_t created = pg_int8(res, row, PUSH_CREATED_AT)
    cdef int64_t head = -1
    cdef int64_t fresh = base
    cdef StoredBefore before
    cdef int k
    if it.run != NULL and result_is_new(res, row, c.n):
        result_whole(c, base, created)
        return
    if it.run != NULL:
        it.offset = base
        it.created_us = created
        runitem_expand(it)    # its part still waits for the run itself
        it = it.run.items
    result_before(&before, res, row)
    for k in range(c.n):
        result_item(it, &before, created, &fresh)
        head = max(head, it.offset + 1)       # the daemon that stored it may not have notified waiters
        it = it.next
    c.whole = fresh - base == c.n
    result_note_head(c, base if fresh > base else -1, head)

cdef struct StoredBefore:     # offsets and times of a row's records that were stored before, one of each per record
    PgIter offsets
    PgIter moments

cdef void result_before(StoredBefore* b, PGresult* res, int row) noexcept nogil:
    pg_array(res, row, PUSH_DUP_OFFSET, OID_INT8, &b.offsets)
    pg_array(res, row, PUSH_DUP_AT, OID_INT8, &b.moments)

cdef bint result_is_new(PGresult* res, int row, int n) noexcept nogil:
    # Returns True if none of a row's n records was stored before.
    cdef StoredBefore before
    cdef int64_t offset = -1
    result_before(&before, res, row)
    while n and offset < 0:
        n -= 1
        offset = -1
        pg_next8(&before.offsets, &offset)
    return offset < 0

cdef void result_item(PushItem* it, StoredBefore* b, int64_t created, int64_t* fresh) noexcept nogil:
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

cdef inline void result_note_head(PushChunk* c, int64_t base, int64_t head) noexcept nogil:
    # Notes the head for the waiters of consumer groups. base: offset of the first new record, -1 if there is none.
    # Every group hears of the head, even if a pop has seen it: a pop tells only its own group.
    c.group.head = max(c.group.head, head)
    if base >= 0:
        atomic_set64(&c.group.partition.row_base, base)
    c.group.answered = True

# ---- ids compared with rows of the log -------------------------------------------------------------------------------
# For records that are sent again in any order. In: rows of the log that may have the records of a partition
# (PUSH_COMPARE). If all its records are duplicates, it is answered. Otherwise it is refused and sent again, and
# PostgreSQL looks up each of its ids.

cdef void results_compare(PushBatch* b, PGresult* res) noexcept nogil:
    # Compares all push partitions for which the answer has rows of the log. Sets `answered` or `refused` of each;
    # requeue_refused takes the refused ones.
    cdef PushPartition* g = b.first
    cdef int row, i
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, PUSH_ORD)
        if pg_int2(res, row, PUSH_STATUS) == PUSH_COMPARE and 0 <= i < b.n_chunks:
            result_compare_row(b, b.chunks[i].group, res, row)
    while g != NULL:
        if g.compared:
            g.answered = g.missing == 0
            g.refused = g.refused or not g.answered
        g = g.next

cdef void result_compare_row(PushBatch* b, PushPartition* g, PGresult* res, int row) noexcept nogil:
    # Compares a push partition with one row of the log. Sets place, moment and status of each record that the row
    # holds.
    cdef const unsigned char* ids = <const unsigned char*>PQgetvalue(res, row, PUSH_SEEN)
    cdef int64_t base = pg_int8(res, row, PUSH_BASE)
    cdef int64_t at = pg_int8(res, row, PUSH_CREATED_AT)
    cdef bint timed = not pg_null(res, row, PUSH_DUP_AT)
    cdef PgIter moments
    cdef PushSlot slot
    cdef PushItem* it
    cdef int k
    if not g.compared:
        result_compare_begin(g)
    pg_array(res, row, PUSH_DUP_AT, OID_INT8, &moments)
    for k in range(PQgetlength(res, row, PUSH_SEEN) // 16):
        if timed:
            pg_next8(&moments, &at)
        slot = batch_seen(b, g, ids + 16 * k)
        if slot.it == NULL:
            continue
        it = slot.it if slot.it.run == NULL else &slot.it.run.items[slot.at]
        if it.offset >= 0:
            continue
        it.offset = base + k
        it.created_us = at
        # an id made here that is stored already: this batch was sent twice
        it.status = ITEM_DUPLICATE if it.id_kind != ID_MADE else ITEM_QUEUED
        it.of_deleted = False
        g.missing -= 1
        g.head = max(g.head, base + k + 1)       # the daemon that stored it may not have notified waiters

cdef void result_compare_begin(PushPartition* g) noexcept nogil:
    # Makes an item of every record and marks each as not found.
    cdef PushItem* it
    runitem_expand_all(g)
    g.compared = True
    g.missing = g.n
    it = g.first
    while it != NULL:
        it.offset = -1
        it = it.next

# ---- rows kept in memory ---------------------------------------------------------------------------------------------

cdef void results_cache(Appender* s, PushBatch* b) noexcept nogil:
    # Adds rows of the batch to the cache. Copies them without a lock, then links them together under book.lock.
    cdef CachedRow* rows = NULL
    cdef CachedRow* r
    cdef int i
    for i in range(b.n_chunks - 1, -1, -1):
        if b.chunks[i].keep:
            r = result_cachedrow(engine_of(s.worker), &b.chunks[i])
            if r != NULL:
                r.newer = rows
                rows = r
    uv_mutex_lock(&book.lock)
    while rows != NULL:
        r = rows
        rows = r.newer
        r.newer = NULL
        rowcache_add(r, s.call.sent_us)
    uv_mutex_unlock(&book.lock)

cdef CachedRow* result_cachedrow(Engine* e, PushChunk* c) noexcept nogil:
    # Returns a copy of a committed chunk; NULL if memory ran out, the chunk is not kept then. Requires that book.lock
    # is free and that no statement is being written.
    cdef RowArgs* scratch = &(<PushArgs*>e.args.at).rows
    cdef CachedRow* r
    cdef char* at
    cdef Slice ids, body, meta
    pgarray_begin(&scratch.ids, OID_BYTEA)
    pgarray_begin(&scratch.body, OID_BYTEA)
    pgarray_begin(&scratch.meta, OID_BYTEA)
    row_put(scratch, NULL, c, True)
    ids = result_element(&scratch.ids)
    body = result_element(&scratch.body)
    meta = result_element(&scratch.meta)
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

cdef inline Slice result_element(PgArray* a) noexcept nogil:
    # Returns the only element of an array; empty if it is NULL or memory ran out.
    if a.buf.failed or a.has_null or a.n != 1:
        return slice_of(NULL, 0)
    return slice_of(a.buf.data + PGARRAY_HEADER + 4, a.buf.len - PGARRAY_HEADER - 4)

# ---- items are finished ----------------------------------------------------------------------------------------------

cdef void result_done(Appender* s, PushPartition* g) noexcept nogil:
    # Ends the items of a push partition. Duplicates end before their first occurrences are answered: an answered
    # request frees its items.
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
            it.of_part.server_error = first.of_part.server_error
        result_item_done(s, it)
        it = following
    it = g.first
    while it != NULL:
        following = it.next
        result_item_done(s, it)
        it = following

cdef void result_fail(Appender* s, PushPartition* g, int failed, const Verdict* verdict) noexcept nogil:
    cdef PushItem* it = g.first
    while it != NULL:
        it.status = ITEM_FAILED if failed == FAILED_REFUSED else ITEM_UNREACHED
        if failed > it.of_part.failed:
            it.of_part.failed = failed
            it.of_part.server_error = verdict
        it = it.next
    result_done(s, g)

cdef void results_fail_all(Appender* s, PushBatch* b, int failed) noexcept nogil:
    cdef PushPartition* g = b.first
    cdef PushPartition* following
    while g != NULL:
        following = g.next
        result_fail(s, g, failed, b.server_error)
        g = following
    appender_drop(s, b)

cdef void result_refuse(Appender* s, PushItem* it) noexcept nogil:
    # Ends an item for which memory ran out before it was gathered: it is not stored.
    it.status = ITEM_UNREACHED
    it.of_part.failed = FAILED_UNREACHED
    result_item_done(s, it)

cdef void results_refuse_all(Appender* s, PushItem* it) noexcept nogil:
    # Refuses a chain of items. The last item may end its request, which frees the part.
    cdef PushItem* following
    while it != NULL:
        following = it.next
        result_refuse(s, it)
        it = following

cdef inline void result_item_done(Appender* s, PushItem* it) noexcept nogil:
    cdef PushPart* part = it.of_part
    part.left -= 1
    if part.left == 0:
        if part.job.job.r.worker is s.worker and not part.parted:
            push_part_done(part)
        else:
            part.msg.run = push_part_return
            worker_post(part.job.job.r.worker, &part.msg)

cdef inline bint result_answer(PushItem* it, PushReq* q, Counters* counters) noexcept nogil:
    # Turns the result of a record, or of a run that was not opened, into the fields of its answer. Returns True if it
    # is stored.
    if it.partition != NULL:
        it.partition_uuid = it.partition.uuid
        if it.run != NULL:
            it.run.partition_id = it.partition.id
    if it.status == ITEM_DUPLICATE:
        counters.duplicates += 1
        if it.keyed:
            # a repeated push with a key: answered as the first push was, or would have been
            it.status = ITEM_QUEUED
            q.replayed = True
    if it.status <= ITEM_DUPLICATE and it.run == NULL:
        uuid_message(it.created_us, it.partition.id, it.offset, it.message_id)
    return it.status <= ITEM_DUPLICATE
