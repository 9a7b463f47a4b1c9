# Queues without order (option `ordered`: false): chooses the partition of a message that names none. In: items that
# name `Default`, which is what a missing partition is read as. Out: the same items, in partitions ~00, ~01, … of their
# queue. The choice is made once for an item, before its names are looked up or it is written to the failover buffer.
# Owner: the request's worker. Locks: catalog.lock, held by the caller.

cdef enum:
    SPREAD_MOST = 1024        # largest value of the option spreadPartitions
    SPREAD_NAME = 6           # bytes of a name, with its end

cdef char[1024][6] spread_names       # SPREAD_MOST of SPREAD_NAME bytes

cdef void spread_open() noexcept nogil:
    cdef int i
    for i in range(SPREAD_MOST):
        snprintf(spread_names[i], SPREAD_NAME, b"~%02d", i)

spread_open()

cdef uint32_t spread_number(const unsigned char* id) noexcept nogil:
    # Returns the number from which a client's id gets its partition. Every daemon computes the same, and so does
    # queend.spread_number: a message that is pushed again must meet the first one. Adds the three parts behind the time
    # if the id has version 7. So ids that are counted up (made_id of the Python client) get one partition after the
    # other.
    cdef unsigned char[32] digest
    if id[6] >> 4 == 7:
        return (be32(<const char*>id + 4) & 0xfff) + be32(<const char*>id + 8) + be32(<const char*>id + 12)
    slice_sha256(id, 16, digest)
    return be32(<const char*>digest)

cdef inline bint spread_wanted(Queue* q, PushItem* it) noexcept nogil:
    # Returns True if the partition of an item is to be chosen, or chosen anew as the option has changed since.
    if q == NULL:
        return False
    if it.spread:
        return it.spread != q.spread
    return q.spread != 0 and slice_is(it.part, PARTITION_DEFAULT)

cdef void spread_item(Queue* q, PushItem* it) noexcept nogil:
    # Chooses the partition of an item: by its id if the client gave one, else the queue's next one.
    cdef int32_t n = q.spread         # read once: a reload may change it meanwhile
    cdef uint32_t at
    it.spread = <uint16_t>n
    if n == 0:
        it.part = slice_lit(PARTITION_DEFAULT)
        return
    at = <uint32_t>atomic_add64(&q.spread_turn, 1) if it.id_kind == ID_MADE else spread_number(it.id)
    it.part = slice_lit(spread_names[at % <uint32_t>n])

# ---- pushes, transactions and cycles ---------------------------------------------------------------------------------

cdef void spread_push(PushJob* j) noexcept nogil:
    # Chooses the partitions of a push's unresolved items. Opens runs of such queues: their records part. A choice of
    # items that may be stored already stays. Requires catalog.lock.
    cdef PushItem** at = &j.unresolved
    cdef PushItem* it
    cdef Queue* q = NULL
    while at[0] != NULL:
        it = at[0]
        if q == NULL or not slice_eq(q.name, it.queue):
            q = catalog_queue(it.queue)
        if spread_wanted(q, it) and not (it.spread and j.check_ids):
            if it.run != NULL:
                runitem_expand(it)
                it.run.items[it.run.n - 1].next = it.next
                it = at[0] = it.run.items
            spread_item(q, it)
        at = &it.next

cdef inline Queue* spread_single(PushItem* it, Queue* q) noexcept nogil:
    # Chooses the partition of one push of a transaction or a cycle. Argument q: the queue of the push before, or NULL.
    # Returns the item's queue, NULL if it is unknown. Requires catalog.lock.
    if q == NULL or not slice_eq(q.name, it.queue):
        q = catalog_queue(it.queue)
    if spread_wanted(q, it):
        spread_item(q, it)
    return q

# ---- changes of the option -------------------------------------------------------------------------------------------

cdef inline bint spread_stale(PushItem* it) noexcept nogil:
    # Returns True if the option has changed since the item was looked up. Requires its partition.
    return catalog.spreads and spread_wanted(it.partition.queue, it)

cdef bint spread_stale_any(PushBatch* b, PushPartition* g) noexcept nogil:
    # Returns True if the option has changed since the items were looked up. Items that may be stored already stay where
    # they are.
    cdef PushItem* it = g.first
    if not catalog.spreads or b.check_ids:
        return False
    if slice_is(g.partition.name, PARTITION_DEFAULT):
        return g.partition.queue.spread != 0
    if g.partition.name.n == 0 or g.partition.name.p[0] != c'~':
        return False          # nothing was spread to it
    while it != NULL:
        if spread_wanted(g.partition.queue, it):
            return True
        it = it.next
    return False
