# Pushes of a transaction or a cycle. In: items whose partitions are known; rows of an answer. Out: a batch; items with
# their offsets, which the book takes over.
# After a lost answer the items show whether it was done: either all of them are stored or none (queend.pushed).

cdef bint pushed_add(PushBatch* b, Table* groups, PushItem* it) noexcept nogil:
    # Adds an item to the batch. groups: of the batch, by partition. Returns False if memory ran out.
    cdef PushGroup* g = <PushGroup*>table_get(groups, <uint32_t>it.partition.id)
    if g == NULL:
        g = batch_group(b, it.partition)
        if g == NULL or not table_put(groups, <uint32_t>it.partition.id, g):
            return False
    it.status = ITEM_QUEUED
    batch_place(b, g, it)
    return True

cdef void pushed_stored(PushChunk* c, int64_t base, int64_t created_us, PopJob** wake) noexcept nogil:
    # Notes a stored row. The items have consecutive offsets, except those that were stored before. Requires
    # catalog.lock and book.lock.
    cdef PushItem* it = c.first
    cdef int64_t following = base
    cdef int k
    for k in range(c.n):
        if it.status == ITEM_QUEUED:
            it.offset = following
            it.created_us = created_us
            following += 1
        it = it.next
    if following > base:
        book_stored(c.group.partition, following, wake)

cdef void pushed_take(Worker* w, PushBatch* b, PGresult* res) noexcept nogil:
    # Takes the rows of queend.pushed: all items are stored.
    cdef PopJob* wake = NULL
    cdef int row, i
    catalog_book_lock()
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, PUSHED_ORD)
        if 0 <= i < b.n_chunks:
            pushed_stored(&b.chunks[i], pg_int8(res, row, PUSHED_BASE), pg_int8(res, row, PUSHED_CREATED_AT), &wake)
    catalog_book_unlock(w, wake)

cdef inline void pushed_named(PushItem* it) noexcept nogil:
    # Fills in the names for the answer.
    it.partition_uuid = it.partition.uuid
    message_id_make(it.created_us, it.partition.id, it.offset, it.message_id)
