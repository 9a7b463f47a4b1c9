# Items that came one by one (JSON, NDJSON), joined to runs where many follow each other in one partition: nothing is
# done for each of them between here and the row of the log.

cdef enum:
    # fewer are better merged with what others push to the partition: a row of its own costs PostgreSQL about 6 us
    JOIN_LEAST = 128

cdef void pushitems_join(PushReq* q, Arena* a) noexcept nogil:
    # In place; the order stays. Where memory runs out items stay items.
    cdef int i = 0
    cdef int at = 0
    cdef int n
    while i < q.n:
        # looked at from behind: where neighbours differ, no run of so many begins before
        n = JOIN_LEAST - 1
        if i + n >= q.n:
            n = q.n - i
        else:
            while n and pushitems_alike(&q.items[i + n - 1], &q.items[i + n]):
                n -= 1
        if n == 0:
            n = pushitems_stretch(&q.items[i], q.n - i)
            if n >= JOIN_LEAST and pushitems_run(a, &q.items[i], n):
                q.items[at] = q.items[i]
                at += 1
                i += n
                continue
        if at != i:
            memmove(&q.items[at], &q.items[i], n * sizeof(PushItem))
        at += n
        i += n
    q.n = at

cdef inline bint pushitems_alike(PushItem* one, PushItem* other) noexcept nogil:
    # May they be in one row of the log, as far as it is not for their size? One partition, the queue written alike, ids
    # made here or UUIDs, nothing extra.
    return (not (one.keep_text or one.has_trace or other.keep_text or other.has_trace) and one.more == NULL
            and other.more == NULL and one.queue.p == other.queue.p and one.sub.p == other.sub.p
            and (one.id_kind == 0) == (other.id_kind == 0) and slice_eq(one.part, other.part))

cdef int pushitems_stretch(PushItem* first, int left) noexcept nogil:
    # How many from `first` on may be one row of the log; at least 1.
    cdef size_t bytes = first.payload.n
    cdef int n = 1
    while n < left and n < RUN_MOST and pushitems_alike(&first[n - 1], &first[n]):
        bytes += first[n].payload.n
        if bytes > RUN_BYTES:
            break
        n += 1
    return n

cdef bint pushitems_run(Arena* a, PushItem* first, int n) noexcept nogil:
    # The first of n items becomes their run. False: they stay (an id is there twice).
    cdef PushRun* run = <PushRun*>arena_zero(a, sizeof(PushRun))
    cdef int i
    if run == NULL:
        return False
    run.ids = <unsigned char*>arena_alloc(a, 16 * <size_t>n)
    run.payloads = <Slice*>arena_alloc(a, n * sizeof(Slice))
    run.items = <PushItem*>arena_alloc(a, n * sizeof(PushItem))
    if run.ids == NULL or run.payloads == NULL or run.items == NULL:
        return False
    run.codec = BODY_V1
    run.made = first.id_kind == 0
    for i in range(n):
        memcpy(run.ids + 16 * i, first[i].id, 16)
        run.payloads[i] = first[i].payload
        run.bytes += first[i].payload.n
    run.n = n
    run_ids(run)
    if not run.made and not run_distinct(run):
        return False
    first.run = run
    first.payload = slice_of(NULL, run.bytes)
    first.txid = slice_of(NULL, 0)
    first.txid_json = slice_of(NULL, 0)
    return True
