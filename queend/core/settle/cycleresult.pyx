# The answer to a cycle that was done: offsets of its items, and the changes in the book. In: a row of
# queend.stream_cycle, or the rows for its items (settle/pushed). Out: the request's answer.

cdef void cycle_take(CycleCall* call, PGresult* res) noexcept nogil:
    # Takes the results: offsets for the items, changes for the book.
    cdef CycleJob* j = call.job
    cdef CycleReq* q = &j.req
    cdef Worker* w = call.base.engine.worker
    cdef PgIter bases, moments
    cdef int64_t base = 0
    cdef int64_t at = 0
    cdef int i
    cdef Partition* p
    cdef Group* g = NULL
    cdef PopJob* wake = NULL
    if not pg_null(res, 0, CYCLE_STALE):
        cycle_stale(call.base.engine, j)
        return
    if pg_bool(res, 0, CYCLE_WAITS) and flush_wait(call.base.engine, j):
        return
    if pg_bool(res, 0, CYCLE_GONE):
        q.gone = True
        cycle_answer(j, pg_bytes(res, 0, CYCLE_QUEUE), slice_of(NULL, 0))
        return
    if not pg_null(res, 0, CYCLE_ERROR):
        cycle_answer(j, pg_bytes(res, 0, CYCLE_QUEUE), pg_bytes(res, 0, CYCLE_ERROR))
        return
    if (not pg_array(res, 0, CYCLE_BASE, OID_INT8, &bases) or not pg_array(res, 0, CYCLE_CREATED_AT, OID_INT8, &moments)
            or bases.left != call.batch.n_chunks or moments.left != call.batch.n_chunks):
        job_refuse(&j.job, 503, CYCLE_IN_DOUBT)
        return
    cycle_olds(call, pg_bytes(res, 0, CYCLE_DUPS))
    catalog_book_lock()
    for i in range(call.batch.n_chunks):
        pg_next8(&bases, &base)
        pg_next8(&moments, &at)
        pushed_stored(&call.batch.chunks[i], base, at, &wake)
    p = catalog_partition_id(cycle_partition(q)) if q.has_ack else NULL
    if p != NULL:
        p.queue.tally[w.index].ack_requests += 1
        if q.dead:
            p.queue.tally[w.index].ack_failed += 1
            w.counters.dead_lettered += 1
        else:
            p.queue.tally[w.index].ack_done += <uint64_t>q.count
        g = catalog_group_id(p.queue, pg_int4_or(res, 0, CYCLE_GROUP, 0))
    if g != NULL:
        book_acked(g, p, call.base.forgets, pg_bool(res, 0, CYCLE_RELEASED), pg_int8_or(res, 0, CYCLE_COMMITTED, -1),
                   pg_int8_or(res, 0, CYCLE_HEAD, 0), 0, clock_mono_us(), &wake)
    catalog_book_unlock(w, wake)
    cycle_done(call, pg_bytes(res, 0, CYCLE_QUEUE))

cdef void cycle_olds(CycleCall* call, Slice told) noexcept nogil:
    # Marks items that were stored before. told: {row: [[offset, or -1 of a new item, ...], [moment, ...]]}.
    cdef Json j, moments
    cdef Slice key, raw, at
    cdef bint first = True
    cdef bint outer
    cdef int64_t row
    if told.p == NULL:
        return
    json_open(&j, told, JSON_DEPTH)
    json_enter(&j, b'{')
    while json_member(&j, &first, &key):
        if not whole_take(slice_of(key.p + 1, key.n - 2), &row):
            return
        outer = True
        json_enter(&j, b'[')
        if (not json_element(&j, &outer) or not json_skip(&j, &raw)
                or not json_element(&j, &outer) or not json_skip(&j, &at)):
            return
        json_element(&j, &outer)
        if not 0 <= row < call.batch.n_chunks:
            continue
        json_open(&moments, at, JSON_DEPTH)
        json_enter(&moments, b'[')
        cycle_old(call.batch.chunks[row].first, call.batch.chunks[row].n, raw, &moments)

cdef void cycle_old(PushItem* it, int n, Slice offsets, Json* moments) noexcept nogil:
    cdef Json j
    cdef Slice raw, at
    cdef bint first = True
    cdef bint beside = True
    cdef int k
    json_open(&j, offsets, JSON_DEPTH)
    json_enter(&j, b'[')
    for k in range(n):
        if (not json_element(&j, &first) or not json_skip(&j, &raw)
                or not json_element(moments, &beside) or not json_skip(moments, &at)):
            return
        if raw.p[0] != b'-':
            it.status = ITEM_DUPLICATE
            it.of_deleted = at.p[0] == b'-'
            if it.of_deleted:
                at = slice_of(at.p + 1, at.n - 1)
            whole_take(raw, &it.offset)
            whole_take(at, &it.created_us)
        it = it.next

cdef void cycle_done(CycleCall* call, Slice queue) noexcept nogil:
    # Answers a cycle that was done; its items have their offsets. queue: of its partition, p NULL: unknown.
    cdef PushReq* q = &call.job.req.push
    cdef PushGroup* g = call.batch.first
    cdef PushItem* it
    cdef Tally* t = NULL
    cdef Queue* before = NULL
    cdef int i
    while g != NULL:
        it = g.dups           # items with the id of an earlier item of the cycle
        while it != NULL:
            it.offset = it.original.offset
            it.created_us = it.original.created_us
            it.of_deleted = it.original.of_deleted
            it = it.next
        g = g.next
    for i in range(q.n):
        it = &q.items[i]
        pushed_named(it)
        if it.partition.queue is not before:
            before = it.partition.queue
            t = &before.tally[call.base.engine.worker.index]
            t.push_requests += 1
        t.push_messages += 1
    cycle_answer(call.job, queue, slice_of(NULL, 0))
