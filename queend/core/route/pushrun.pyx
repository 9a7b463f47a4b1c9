# A run: records of one partition that came together and go through the engine as one item, because they are to be one
# row of the log. Nothing is done per record between the route and the database but a look at its id. In: ids and
# payloads, or a client's message frames. Out: a body ready to be stored; or, when one of its records turns out to be a
# duplicate, items of their own (run_open).

cdef void run_ids(PushRun* run) noexcept nogil:
    # What the ids are as a whole: kinds, smallest, largest, in order.
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

cdef bint run_distinct(PushRun* run) noexcept nogil:
    # No id twice? (n <= RUN_MOST.)
    cdef uint16_t[4096] slots
    cdef uint32_t at
    cdef int i
    if run.rising:
        return True
    memset(slots, 0, sizeof(slots))
    for i in range(run.n):
        at = <uint32_t>id_hash(run.ids + 16 * i) & 4095
        while slots[at]:
            if memcmp(run.ids + 16 * (slots[at] - 1), run.ids + 16 * i, 16) == 0:
                return False
            at = (at + 1) & 4095
        slots[at] = <uint16_t>(i + 1)
    return True

cdef inline uint64_t id_hash(const unsigned char* id) noexcept nogil:
    cdef uint64_t a, b
    memcpy(&a, id, 8)
    memcpy(&b, id + 8, 8)
    return hash_mix(a ^ hash_mix(b))

cdef void run_open(PushRun* run, PushItem* head, PushItem* items) noexcept nogil:
    # Every record becomes an item like `head`, in `items`, chained by next; ids and texts as if it had come alone.
    cdef BatchRow b
    cdef const unsigned char* id
    cdef Extras x
    cdef PushItem* it
    cdef unsigned char[16] spelled
    cdef bint canonical
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
        it.id_kind = 0 if run.made else (1 if it.id[6] >> 4 == 7 else 2)
        if run.codec == BODY_FRAMES:
            batchrow_record(&b, &id, &it.payload, &x)
            canonical = False
            if x.text.n and not (uuid_parse(x.text, spelled, &canonical) and canonical):
                it.txid = x.text
                it.keep_text = 1
        else:
            it.payload = run.payloads[i]
    items[run.n - 1].next = NULL

cdef inline int pushitem_count(PushItem* it) noexcept nogil:
    # Records in an item.
    return it.run.n if it.run != NULL else 1

cdef int pushreq_count(PushReq* q) noexcept nogil:
    cdef int i
    cdef int n = 0
    for i in range(q.n):
        n += pushitem_count(&q.items[i])
    return n

cdef inline void item_extras(PushItem* it, Extras* x) noexcept nogil:
    # What it carries besides its payload. Views into the item.
    if it.more != NULL:
        x[0] = it.more[0]
    else:
        extras_none(x)
    x.trace = slice_of(<const char*>it.trace, 16 if it.has_trace else 0)
    x.sub = it.sub
    x.text = slice_of(it.txid.p, it.txid.n if it.keep_text else 0)
