# Reads when a record may be delivered: deliverAt or delayMs of an item, or of the query for all items without one. In:
# literals or a query. Out: Extras.due of items. A time that has passed and a delay of 0 count as absent.

cdef bint pushitem_due(PushItem* it, Arena* a, Slice at, Slice delay, const char* what, int index,
                       ApiError* e) noexcept nogil:
    # Reads the literals of an item; p NULL or null means absent.
    cdef int64_t due
    cdef const char* why
    cdef const char* field
    if at.p != NULL and slice_is(at, b"null"):
        at.p = NULL
    if delay.p != NULL and slice_is(delay, b"null"):
        delay.p = NULL
    if at.p == NULL and delay.p == NULL:
        return True
    if not due_known(at, delay, True, a, &due, &why, &field):
        return refuse_item(e, why, what, index, field)
    if due and not pushitem_defer(it, a, due):
        return refuse_memory(e)
    it.timed = True
    return True

cdef bint pushitem_defer(PushItem* it, Arena* a, int64_t due) noexcept nogil:
    cdef unsigned char* value = <unsigned char*>arena_alloc(a, 8)
    cdef Extras* x = <Extras*>arena_zero(a, sizeof(Extras))
    if value == NULL or x == NULL:
        return False
    if it.more != NULL:
        x[0] = it.more[0]     # other items may share the extras
    be64_put(value, <uint64_t>due)
    x.due = slice_of(<const char*>value, 8)
    it.more = x
    return True

cdef bint push_due_option(Slice query, Arena* a, int64_t* due, ApiError* e) noexcept nogil:
    cdef Slice at, delay
    cdef const char* why
    cdef const char* field
    cdef int found = query_find(query, b"deliverAt", a, &at)
    due[0] = 0
    if found == QUERY_UNREADABLE or query_find(query, b"delayMs", a, &delay) == QUERY_UNREADABLE:
        return refuse(e, DUE_TEXT)
    if at.p == NULL and delay.p == NULL:
        return True
    if due_known(at, delay, False, a, due, &why, &field):
        return True
    return refuse_query(e, why, field)

cdef bint pushreq_defer(PushReq* q, Arena* a, int64_t due, ApiError* e) noexcept nogil:
    # Sets the delivery time of all items that have none, runs included. Items without other extras share one Extras.
    cdef PushItem like
    cdef int i
    memset(&like, 0, sizeof(like))
    if not pushitem_defer(&like, a, due):
        return refuse_memory(e)
    for i in range(q.n):
        if q.items[i].timed:
            continue
        if q.items[i].more == NULL:
            q.items[i].more = like.more
        elif not pushitem_defer(&q.items[i], a, due):
            return refuse_memory(e)
    return True
