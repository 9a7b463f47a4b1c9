# A batch: the items that one push statement stores. An appender gathers it while the batch before is in flight. In:
# parts of requests whose partitions are known. Out: push partitions. A push partition (PushPartition) has the items of
# one partition in the batch, without the duplicates among them. It knows the range of their ids: version 7 or others,
# smallest, largest. Owner: the appender's thread. No I/O in here.

# ---- the batch and its push partitions -------------------------------------------------------------------------------

cdef PushBatch* batch_new(Appender* s, const PushBatch* of) noexcept nogil:
    # Returns an empty batch. of: the batch of which it takes over a part, NULL: none.
    cdef PushBatch* b = <PushBatch*>calloc(1, sizeof(PushBatch))
    if b != NULL:
        arena_open(&b.arena, &s.worker.chunks)
    if b != NULL and of != NULL:
        b.since_us = of.since_us
        b.check_ids = of.check_ids
        b.hurried = of.hurried
        b.uncompressed = of.uncompressed
    return b

cdef void batch_free(PushBatch* b) noexcept nogil:
    if b != NULL:
        arena_close(&b.arena)
        free(b)

cdef PushPartition* batch_partition(PushBatch* b, Partition* p) noexcept nogil:
    # Appends a push partition for a partition that has none in this batch yet. Returns NULL if memory ran out.
    cdef PushPartition* g = <PushPartition*>arena_zero(&b.arena, sizeof(PushPartition))
    if g == NULL:
        return NULL
    g.partition = p
    link_add(<Links*>&b.first, <Link*>g)
    g.breadth = 1 + p.queue.n_groups // PARTITION_GROUPS
    b.breadth += g.breadth
    b.n_partitions += 1
    return g

cdef void batch_unlink(PushBatch* b, PushPartition* g) noexcept nogil:
    # Removes g from the batch and from its counts n_partitions and n_items; `bytes` stays.
    link_del(<Links*>&b.first, <Link*>g)
    b.breadth -= g.breadth
    b.n_partitions -= 1
    b.n_items -= g.n

cdef void batch_pour(PushPartition* g, PushBatch* into, PushPartition* to) noexcept nogil:
    # Moves the items of g, which was removed from its batch, to push partition `to` of the same partition. Duplicates
    # follow the records that they repeat.
    cdef PushItem* it = g.first
    cdef PushItem* following
    if g.last != NULL:
        g.last.next = g.dups
    while it != NULL:
        following = it.next
        it.status = ITEM_QUEUED
        it.original = NULL
        batch_place(into, to, it)
        it = following

# ---- parts come in ---------------------------------------------------------------------------------------------------

cdef bint batch_take(Appender* s, PushPart* part, Pusher* of) noexcept nogil:
    # Places a part sent to s into the batch that gathers, on the thread of s. of: the part's pusher, or NULL. Returns
    # False if items of the part wait: the part then has only these items. Requires that waiting items of earlier parts
    # of the client are for partitions without a push partition, and that pushers cannot add one any more. After True
    # the part may be freed.
    cdef Appender* to
    cdef PushItem* it = part.items
    cdef PushItem* following
    cdef PushItem* gone = NULL
    cdef PushItem** gone_end = &gone
    cdef PushItem* kept = NULL
    cdef PushItem** kept_end = &kept
    cdef Partition* p
    cdef bint short = False
    if part.job.drain and s.gather != NULL and not batch_fits(s.gather, part):
        return False
    while it != NULL:
        p = it.partition
        following = it.next
        if p.dead:
            # The name was looked up before the catalog was reloaded, and the item arrived after s was cleaned.
            it.next = NULL
            gone_end[0] = it
            gone_end = &it.next
            it = following
            continue
        to = s.side if p.in_loader else s
        if to.gather == NULL:
            to.gather = batch_new(to, NULL)
            if to.gather != NULL:
                to.gather.incarnation = catalog.incarnation
                to.gather.begun_us = clock_mono_us() if s.linger.patient else 0
        short = to.gather == NULL
        if short:
            break
        if batch_full(to.gather, part.job, s.linger.max_jobs) or pushers_full(s, of, to.gather):
            s.full = True
            break
        if (p.gathering == NULL and of != NULL and of.client != CLIENT_NONE
                and to.gather.breadth >= PUSHERS_PARTITIONS):
            # The item waits. Items of partitions that have a push partition go on: they need no further row of the log.
            it.next = NULL
            kept_end[0] = it
            kept_end = &it.next
            s.passed_by += 1
            it = following
            continue
        if p.gathering == NULL:
            p.gathering = batch_partition(to.gather, p)
            short = p.gathering == NULL
            if short:
                break
            if of != NULL:
                of.partitions += p.gathering.breadth
        if of != NULL:
            of.bytes += req_item_bytes(it) + 64
        batch_place(to.gather, p.gathering, it)
        if to.gather.job is not part.job:
            to.gather.job = part.job
            to.gather.n_jobs += 1
        to.gather.check_ids = to.gather.check_ids or part.check_ids
        to.gather.hurried = to.gather.hurried or not part.job.unhurried
        it = following
    if gone != NULL:
        requeue_items(s, gone, False)    # all in one call: they keep their order
    kept_end[0] = it
    if short:
        results_refuse_all(s, kept)
    elif kept != NULL:
        part.items = kept
    return short or kept == NULL

cdef inline bint batch_full(PushBatch* b, PushJob* j, int most_jobs) noexcept nogil:
    # Returns True if the batch has no room for another item of j.
    return (b.n_jobs >= most_jobs and b.job is not j or b.n_items >= BATCH_ITEMS or b.bytes >= BATCH_BYTES
            or b.n_partitions >= BATCH_PARTITIONS)

cdef inline bint batch_fits(PushBatch* b, PushPart* part) noexcept nogil:
    # Returns True if the batch has room for the whole part. A part from the failover buffer must fit into one batch:
    # its partitions are stored in their order, or later.
    return (b.n_items + part.left <= BATCH_ITEMS and b.n_partitions + part.left <= BATCH_PARTITIONS
            and b.bytes + part.job.job.bytes <= BATCH_BYTES)

# ---- an item is placed -----------------------------------------------------------------------------------------------

cdef void batch_place(PushBatch* b, PushPartition* g, PushItem* it) noexcept nogil:
    # Puts one item into its push partition, or among the duplicates there.
    cdef PushSlot same
    if it.run != NULL:
        runitem_place(b, g, it)
        return
    if it.id_kind != ID_MADE and g.n and not (it.id_kind == ID_V7 and g.has_v7 and memcmp(it.id, g.hi, 16) > 0):
        same = batch_seen(b, g, it.id)
        if same.it != NULL:
            it.status = ITEM_DUPLICATE
            it.original = same.it
            it.original_at = same.at
            it.next = g.dups
            g.dups = it
            b.bytes += req_item_bytes(it) + 64
            return
    if it.id_kind != ID_OTHER:
        batch_range(g, it.id)
    else:
        g.has_other = True
    if it.id_kind != ID_MADE:
        g.has_client = True
    batch_append(b, g, it, 1, req_item_bytes(it))

cdef inline void batch_append(PushBatch* b, PushPartition* g, PushItem* it, int n, size_t bytes) noexcept nogil:
    # Adds an item of n records, whose payloads and headers have so many bytes, to the chain of its push partition.
    link_append(<void**>&g.first, it)
    g.n += n
    g.bytes += bytes
    b.n_items += n
    b.bytes += bytes + 64
    if g.slots != NULL:
        batch_hash_add(b, g, it)

cdef inline void batch_range(PushPartition* g, const unsigned char* id) noexcept nogil:
    # Widens the range of the push partition by a version-7 id.
    if not g.has_v7:
        memcpy(g.lo, id, 16)
        memcpy(g.hi, id, 16)
        g.has_v7 = True
    elif memcmp(id, g.hi, 16) > 0:
        memcpy(g.hi, id, 16)
    elif memcmp(id, g.lo, 16) < 0:
        memcpy(g.lo, id, 16)

# ---- duplicates in a batch -------------------------------------------------------------------------------------------

cdef inline const unsigned char* batch_slot_id(PushSlot* slot) noexcept nogil:
    if slot.it.run != NULL:
        return slot.it.run.ids + 16 * slot.at
    return slot.it.id

cdef PushSlot batch_seen(PushBatch* b, PushPartition* g, const unsigned char* id) noexcept nogil:
    # Returns the earlier record of the push partition with this id: its item and its place in the item's run; item NULL
    # if there is none. Called only for ids that their order does not prove new.
    cdef uint32_t i
    if g.slots == NULL and g.n >= HASH_FROM:
        batch_hash(b, g)
    if g.slots == NULL:
        return batch_search(g, id)      # few records, or no memory for the hash
    i = <uint32_t>pushrun_hash(id) & g.slots_mask
    while g.slots[i].it != NULL and memcmp(batch_slot_id(&g.slots[i]), id, 16) != 0:
        i = (i + 1) & g.slots_mask
    return g.slots[i]

cdef PushSlot batch_search(PushPartition* g, const unsigned char* id) noexcept nogil:
    # Returns the record of the push partition with this id, as batch_seen does without a hash: reads each record.
    cdef PushSlot slot
    slot.it = g.first
    while slot.it != NULL:
        for slot.at in range(req_item_count(slot.it)):
            if memcmp(batch_slot_id(&slot), id, 16) == 0:
                return slot
        slot.it = slot.it.next
    slot.at = 0
    return slot

cdef void batch_hash(PushBatch* b, PushPartition* g) noexcept nogil:
    # Makes the hash of all records, with at least four slots for each. Leaves `slots` NULL if memory ran out.
    cdef PushItem* at
    cdef uint32_t size = 64
    while size < <uint32_t>g.n * 4:
        size *= 2
    g.slots = <PushSlot*>arena_zero(&b.arena, size * sizeof(PushSlot))
    g.slots_mask = size - 1
    if g.slots == NULL:
        return
    at = g.first
    while at != NULL:
        batch_hash_put(g, at)
        at = at.next

cdef inline void batch_hash_put(PushPartition* g, PushItem* it) noexcept nogil:
    # Adds all records of an item to the hash. Requires that the hash has room for them.
    cdef PushSlot slot
    cdef uint32_t i
    cdef int k
    slot.it = it
    for k in range(req_item_count(it)):
        slot.at = k
        i = <uint32_t>pushrun_hash(batch_slot_id(&slot)) & g.slots_mask
        while g.slots[i].it != NULL:
            i = (i + 1) & g.slots_mask
        g.slots[i] = slot

cdef void batch_hash_add(PushBatch* b, PushPartition* g, PushItem* it) noexcept nogil:
    # Adds an item of the chain to the hash. A hash that is half full is made anew.
    if <uint32_t>g.n * 2 <= g.slots_mask:
        batch_hash_put(g, it)
    else:
        batch_hash(b, g)
