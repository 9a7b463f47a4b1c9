# Runs: many records of one partition that go through the engine as one item and become one row of the log. In: runs
# (route/pushrun makes them). Out: a run, or its records as items of their own. A run is opened if one of its records
# has to be handled alone. The reasons: its id was seen before in the batch, the database has it already, it has to be
# sealed, or has no room. Owner: the thread that has the item. No lock.

# ---- opened ----------------------------------------------------------------------------------------------------------

cdef void runitem_expand(PushItem* it) noexcept nogil:
    # Opens a run: its records become items of their own.
    pushrun_expand(it.run, it, it.run.items)
    it.run.open = True

# ---- items of a request ----------------------------------------------------------------------------------------------
# A run that was not opened counts as one.

cdef inline PushItem* runitem_first(EachItem* at, PushReq* q) noexcept nogil:
    at.q = q
    at.i = 0
    at.k = 0
    return runitem_next(at)

cdef inline PushItem* runitem_next(EachItem* at) noexcept nogil:
    # Returns the next record, NULL after the last one.
    cdef PushItem* it = &at.q.items[at.i]
    if at.i == at.q.n:
        return NULL
    if it.run == NULL or not it.run.open:
        at.i += 1
        return it
    it = &it.run.items[at.k]
    at.k += 1
    if at.k == at.q.items[at.i].run.n:
        at.k = 0
        at.i += 1
    return it

# ---- in a batch ------------------------------------------------------------------------------------------------------

cdef void runitem_place(PushBatch* b, PushPartition* g, PushItem* it) noexcept nogil:
    # Puts a run into its push partition: whole, or record by record if an id of it is there already.
    cdef PushRun* run = it.run
    cdef int k
    if g.n and not run.made and not (run.has_v7 and not run.has_other and g.has_v7 and memcmp(run.lo, g.hi, 16) > 0):
        for k in range(run.n):
            if batch_seen(b, g, run.ids + 16 * k).it != NULL:
                runitem_spread(b, g, it)
                return
    if run.has_v7:
        batch_range(g, run.lo)
        batch_range(g, run.hi)
    if run.has_other:
        g.has_other = True
    if not run.made:
        g.has_client = True
    g.runs += 1
    b.bytes += 16 * <size_t>run.n
    batch_append(b, g, it, run.n, run.bytes)

cdef void runitem_spread(PushBatch* b, PushPartition* g, PushItem* it) noexcept nogil:
    # Places the records of a run that stands in no chain, one by one.
    cdef PushItem* at
    cdef PushItem* following
    runitem_expand_part(it)
    at = it.run.items
    while at != NULL:
        following = at.next
        batch_place(b, g, at)
        at = following

cdef void runitem_expand_part(PushItem* it) noexcept nogil:
    # Opens a run. The part then waits for the records instead of the run.
    runitem_expand(it)
    it.of_part.left += it.run.n - 1

cdef void runitem_expand_all(PushPartition* g) noexcept nogil:
    # Opens all runs of a chain. Duplicates of their records become duplicates of items.
    cdef PushItem* it = g.first
    cdef PushItem* before = NULL
    cdef PushItem* following
    if g.runs == 0:
        return
    while it != NULL:
        following = it.next
        if it.run != NULL:
            runitem_expand_part(it)
            if before != NULL:
                before.next = it.run.items
            else:
                g.first = it.run.items
            before = &it.run.items[it.run.n - 1]
            before.next = following
        else:
            before = it
        it = following
    g.last = before
    g.runs = 0
    it = g.dups
    while it != NULL:
        if it.original.run != NULL:
            it.original = &it.original.run.items[it.original_at]
        it = it.next

# ---- records in memory, whether they came alone or in runs -----------------------------------------------------------

cdef inline void runitem_read_begin(Records* r, PushItem* first) noexcept nogil:
    r.it = first
    r.at = 0

cdef bint runitem_read_next(Records* r, PopMessage* m) noexcept nogil:
    # Writes the next stored record of a chain as a message: everything but names and lease. Returns False at the end.
    cdef PushItem* it = r.it
    cdef PushRun* run
    cdef const unsigned char* id
    cdef Extras x
    if it == NULL:
        return False
    run = it.run
    m.created_us = it.created_us
    m.offset = it.offset + r.at
    pushitem_extras(it, &m.extras)
    uuid_message(it.created_us, it.partition.id, m.offset, m.id)
    if run == NULL:
        memcpy(m.record_id, it.id, 16)
        m.payload = it.payload
    else:
        memcpy(m.record_id, run.ids + 16 * r.at, 16)
        m.extras.text.n = 0
        if run.codec == BODY_V1:
            m.payload = run.payloads[r.at]
        else:
            if r.at == 0:
                batchrow_inner(&r.row, slice_of(<const char*>run.ids, 16 * <size_t>run.n), run.inner, True,
                               slice_of(NULL, 0), run.n)
            batchrow_record(&r.row, &id, &m.payload, &x)
            m.extras.text = x.text      # a client's frames have no other extras
            memcpy(m.id, r.row.message, 16)
        r.at += 1
    if run == NULL or r.at == run.n:
        r.it = it.next
        r.at = 0
    return True
