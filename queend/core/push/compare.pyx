# Compares the ids of a group with those of rows of the log, for records that are sent again in any order. In: an answer
# of queend.push with the rows of the log that may hold the records of a partition (PUSH_COMPARE). Out: a group is
# answered if every record of it is a duplicate. Otherwise it is refused and sent again, and PostgreSQL looks up each of
# its ids. No I/O in here.

cdef void batch_compare(PushBatch* b, PGresult* res) noexcept nogil:
    # Compares all groups for which the answer has rows of the log. Sets `answered` or `refused` of each; batch_refused
    # takes the refused ones.
    cdef PushGroup* g = b.first
    cdef int row, i
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, PUSH_ORD)
        if pg_int2(res, row, PUSH_STATUS) == PUSH_COMPARE and 0 <= i < b.n_chunks:
            group_compare(b, b.chunks[i].group, res, row)
    while g != NULL:
        if g.compared:
            g.answered = g.missing == 0
            g.refused = not g.answered
        g = g.next

cdef void group_compare(PushBatch* b, PushGroup* g, PGresult* res, int row) noexcept nogil:
    # Compares a group with one row of the log. Sets place, moment and status of each record that the row holds.
    cdef const unsigned char* ids = <const unsigned char*>PQgetvalue(res, row, PUSH_SEEN)
    cdef int64_t base = pg_int8(res, row, PUSH_BASE)
    cdef int64_t at = pg_int8(res, row, PUSH_CREATED_AT)
    cdef bint timed = not pg_null(res, row, PUSH_DUP_AT)
    cdef PgIter moments
    cdef PushSlot slot
    cdef PushItem* it
    cdef int k
    if not g.compared:
        group_compare_begin(g)
    pg_array(res, row, PUSH_DUP_AT, OID_INT8, &moments)
    for k in range(PQgetlength(res, row, PUSH_SEEN) // 16):
        if timed:
            pg_next8(&moments, &at)
        slot = group_seen(b, g, ids + 16 * k)
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

cdef void group_compare_begin(PushGroup* g) noexcept nogil:
    # Makes an item of every record and marks each as not found.
    cdef PushItem* it
    group_open_runs(g)
    g.compared = True
    g.missing = g.n
    it = g.first
    while it != NULL:
        it.offset = -1
        it = it.next
