# What a transaction or a cycle pushes: its items in a batch of their own, and where they are once all of it is done.
# Where the answer was lost they tell whether it was: all of them are stored then, else none is (queend.pushed). In:
# items whose partitions are known; rows of an answer. Out: a batch; items with their offsets, which the book hears of.

cdef bint pushed_add(PushBatch* b, Table* groups, PushItem* it) noexcept nogil:
    # groups: of the batch, by partition. False: memory ran out.
    cdef PushGroup* g = <PushGroup*>table_get(groups, <uint32_t>it.partition.id)
    if g == NULL:
        g = batch_group(b, it.partition)
        if g == NULL or not table_put(groups, <uint32_t>it.partition.id, g):
            return False
    it.status = 0
    batch_place(b, g, it)
    return True

cdef void pushed_stored(PushChunk* c, int64_t base, int64_t created_us, PopJob** wake) noexcept nogil:
    # A row is: its items stand one behind the other, but for those that were stored before. Catalog and book locked.
    cdef PushItem* it = c.first
    cdef int64_t following = base
    cdef int k
    for k in range(c.n):
        if it.status == 0:
            it.offset = following
            it.created_us = created_us
            following += 1
        it = it.next
    if following > base:
        book_stored(c.group.partition, following, wake)

cdef void pushed_take(Worker* w, PushBatch* b, PGresult* res) noexcept nogil:
    # Rows of queend.pushed: all of it is stored.
    cdef PopJob* wake = NULL
    cdef int row, i
    catalog_book_lock()
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, PUSHED_ORD)
        if 0 <= i < b.n_chunks:
            pushed_stored(&b.chunks[i], pg_int8(res, row, PUSHED_BASE), pg_int8(res, row, PUSHED_CREATED_AT), &wake)
    catalog_book_unlock(w, wake)

cdef inline void pushed_named(PushItem* it) noexcept nogil:
    # For the answer.
    it.partition_uuid = it.partition.uuid
    message_id_make(it.created_us, it.partition.id, it.offset, it.message_id)
