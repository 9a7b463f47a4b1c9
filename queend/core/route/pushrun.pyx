# Builds runs: records of one partition that came together and go through the engine as one item, to become one row of
# the log. In: ids and payloads, or a client's message frames. Out: a body ready to be stored. Stateless, takes no lock.
# Between the route and the database only the ids of its records are looked at. If a record turns out to be a duplicate,
# the run becomes items (pushrun_expand).

cdef PushRun* pushrun_new(Arena* a, int n, int codec) noexcept nogil:
    # Returns an empty run with room for n records, NULL if memory ran out.
    cdef PushRun* run = <PushRun*>arena_zero(a, sizeof(PushRun))
    if run == NULL:
        return NULL
    run.codec = <uint8_t>codec
    run.ids = <unsigned char*>arena_alloc(a, 16 * <size_t>n)
    if codec == BODY_V1:
        run.payloads = <Slice*>arena_alloc(a, n * sizeof(Slice))
    return run if run.ids != NULL and (run.payloads != NULL or codec != BODY_V1) else NULL

cdef void pushrun_ids(PushRun* run) noexcept nogil:
    # Computes what the ids are as a whole: kinds, smallest, largest, whether in order.
    cdef int i
    cdef unsigned char* id = run.ids
    cdef unsigned char* before = NULL
    run.rising = True
    for i in range(run.n):
        if before != NULL and not uuid_less(before, id):
            run.rising = False
        if id[6] >> 4 != 7:
            run.has_other = True
        elif not run.has_v7:
            memcpy(run.lo, id, 16)
            memcpy(run.hi, id, 16)
            run.has_v7 = True
        elif uuid_less(run.hi, id):
            memcpy(run.hi, id, 16)
        elif uuid_less(id, run.lo):
            memcpy(run.lo, id, 16)
        before = id
        id += 16

cdef bint pushrun_distinct(PushRun* run) noexcept nogil:
    # Returns True if all ids differ. Requires n <= RUN_MOST.
    cdef uint16_t[4096] slots
    cdef uint32_t at
    cdef int i
    if run.rising:
        return True
    memset(slots, 0, sizeof(slots))
    for i in range(run.n):
        at = <uint32_t>pushrun_hash(run.ids + 16 * i) & 4095
        while slots[at]:
            if memcmp(run.ids + 16 * (slots[at] - 1), run.ids + 16 * i, 16) == 0:
                return False
            at = (at + 1) & 4095
        slots[at] = <uint16_t>(i + 1)
    return True

cdef inline uint64_t pushrun_hash(const unsigned char* id) noexcept nogil:
    cdef uint64_t a, b
    memcpy(&a, id, 8)
    memcpy(&b, id + 8, 8)
    return slice_mix(a ^ slice_mix(b ^ hash_seed))

cdef void pushrun_expand(PushRun* run, PushItem* head, PushItem* items) noexcept nogil:
    # Turns every record into an item like `head`, in `items`, chained by next; ids and texts as if it had come
    # alone.
    cdef BatchRow b
    cdef const unsigned char* id
    cdef Extras x
    cdef PushItem* it
    cdef unsigned char[16] spelled
    cdef int i
    if run.codec == BODY_FRAMES:
        batchrow_inner(&b, slice_of(<const char*>run.ids, 16 * <size_t>run.n), run.inner, True, slice_of(NULL, 0),
                       run.n)
    for i in range(run.n):
        it = &items[i]
        it[0] = head[0]
        it.run = NULL
        it.next = it + 1
        memcpy(it.id, run.ids + 16 * i, 16)
        it.id_kind = ID_MADE if run.made else (ID_V7 if it.id[6] >> 4 == 7 else ID_OTHER)
        if run.codec == BODY_FRAMES:
            batchrow_record(&b, &id, &it.payload, &x)
            if x.text.n and not ident_uuid(x.text, spelled):
                it.txid = x.text
                it.keep_text = 1
        else:
            it.payload = run.payloads[i]
    items[run.n - 1].next = NULL

# ---- joined ----------------------------------------------------------------------------------------------------------
# Items that came one by one (JSON, NDJSON) are joined to runs where many of one partition follow each other. Then
# nothing is done per item between here and the row of the log.

cdef enum:
    # fewer items are better merged with other pushes to the partition: a row of its own costs PostgreSQL about 6 us
    JOIN_LEAST = 128

cdef void pushrun_join(PushReq* q, Arena* a) noexcept nogil:
    # Joins items to runs, in place and in order. Items that find no memory stay items.
    cdef int i = 0
    cdef int at = 0
    cdef int n
    while i < q.n:
        # compared from behind: where neighbours differ, no run of JOIN_LEAST can begin before
        n = JOIN_LEAST - 1
        if i + n >= q.n:
            n = q.n - i
        else:
            while n and pushrun_alike(&q.items[i + n - 1], &q.items[i + n]):
                n -= 1
        if n == 0:
            n = pushrun_stretch(&q.items[i], q.n - i)
            if n >= JOIN_LEAST and pushrun_make(a, &q.items[i], n):
                q.items[at] = q.items[i]
                at += 1
                i += n
                continue
        if at != i:
            memmove(&q.items[at], &q.items[i], n * sizeof(PushItem))
        at += n
        i += n
    q.n = at

cdef inline bint pushrun_alike(PushItem* one, PushItem* other) noexcept nogil:
    # Returns True if two items may share a row of the log, size apart. They need one partition, the queue written
    # alike, ids made here or UUIDs, and no extras.
    return (not (one.keep_text or one.has_trace or other.keep_text or other.has_trace) and one.more == NULL
            and other.more == NULL and one.queue.p == other.queue.p and one.sub.p == other.sub.p
            and (one.id_kind == ID_MADE) == (other.id_kind == ID_MADE) and slice_eq(one.part, other.part))

cdef int pushrun_stretch(PushItem* first, int left) noexcept nogil:
    # Returns how many items from `first` on may be one row of the log, at least 1.
    cdef size_t bytes = first.payload.n
    cdef int n = 1
    while n < left and n < RUN_MOST and pushrun_alike(&first[n - 1], &first[n]):
        bytes += first[n].payload.n
        if bytes > RUN_BYTES:
            break
        n += 1
    return n

cdef bint pushrun_make(Arena* a, PushItem* first, int n) noexcept nogil:
    # Turns the first of n items into their run. Returns False if they stay items: an id occurs twice, or memory ran
    # out.
    cdef PushRun* run = pushrun_new(a, n, BODY_V1)
    cdef int i
    if run == NULL:
        return False
    run.items = <PushItem*>arena_alloc(a, n * sizeof(PushItem))
    if run.items == NULL:
        return False
    run.made = first.id_kind == ID_MADE
    for i in range(n):
        memcpy(run.ids + 16 * i, first[i].id, 16)
        run.payloads[i] = first[i].payload
        run.bytes += first[i].payload.n
    run.n = n
    pushrun_ids(run)
    if not run.made and not pushrun_distinct(run):
        return False
    first.run = run
    first.payload = slice_of(NULL, run.bytes)
    first.txid = slice_of(NULL, 0)
    first.txid_json = slice_of(NULL, 0)
    return True
