# What is out on lease: of each delivery that this daemon made, the lease, the offsets and the record ids, until it is
# acknowledged. So an acknowledgment that names what a lease begins with is known to do so without reading the log
# (settle/ackleased). In: claims that were made. Out: leases by (partition, group).
#
# A hint like everything in the book, whose lock guards it: who finds nothing here goes the whole way, and PostgreSQL
# looks at lease and cursor itself. One entry per (partition, group), the newest; beyond a bound of bytes for the
# process the oldest is forgotten, and one whose lease ran out.

cdef enum:
    HELD_BYTES = 16777216     # of memory in all: some 18 000 leases of 50 records

cdef struct HeldAll:
    Table table
    Held* oldest
    Held* newest
    size_t bytes

cdef HeldAll held

cdef void held_open() noexcept nogil:
    memset(&held, 0, sizeof(held))

cdef void held_close() noexcept nogil:
    while held.oldest != NULL:
        held_forget(held.oldest)
    table_free(&held.table)

cdef inline uint64_t held_key(Cursor* c) noexcept nogil:
    return (<uint64_t><uint32_t>c.partition.id << 32) | <uint32_t>c.group.id

cdef void held_forget(Held* h) noexcept nogil:
    table_del(&held.table, h.key)
    if h.older != NULL:
        h.older.newer = h.newer
    else:
        held.oldest = h.newer
    if h.newer != NULL:
        h.newer.older = h.older
    else:
        held.newest = h.older
    held.bytes -= h.bytes
    free(h)

cdef void held_over(uint64_t key) noexcept nogil:
    cdef Held* h = <Held*>table_get(&held.table, key)
    if h != NULL:
        held_forget(h)

cdef void held_end(Cursor* c) noexcept nogil:
    # Its lease is over.
    held_over(held_key(c))

cdef Held* held_begin(Cursor* c, const unsigned char* lease, int64_t first, int n, int64_t base,
                      bint afar) noexcept nogil:
    # Records first … first + n - 1 are leased; the caller fills in their ids. NULL: it is not remembered.
    cdef size_t bytes = sizeof(Held) + 16 * <size_t>n
    cdef Held* h
    held_end(c)
    if c.dead:
        return NULL
    h = <Held*>malloc(bytes)
    if h == NULL:
        return NULL
    memset(h, 0, sizeof(Held))
    h.key = held_key(c)
    if not table_put(&held.table, h.key, h):
        free(h)
        return NULL
    memcpy(h.lease, lease, 16)
    h.first = first
    h.base = base
    h.n = n
    h.afar = afar
    h.bytes = bytes
    h.ids = <unsigned char*>h + sizeof(Held)
    h.older = held.newest
    if held.newest != NULL:
        held.newest.newer = h
    else:
        held.oldest = h
    held.newest = h
    held.bytes += bytes
    while held.bytes > HELD_BYTES and held.oldest is not h:
        held_forget(held.oldest)
    return h

cdef void held_rows(Cursor* c, PopJob* j, PGresult* res, int row) noexcept nogil:
    # A claim of records in the log was made: its rows begin at `row`.
    cdef int ord = pg_int4(res, row, POP_ORD)
    cdef int stop = row
    cdef int n = 0
    cdef int at, take
    cdef int64_t first, base, after
    cdef Slice ids
    cdef Held* h
    while stop < PQntuples(res) and pg_int4(res, stop, POP_ORD) == ord:
        n += pg_int4(res, stop, POP_TAKE)
        stop += 1
    first = pg_int8(res, row, POP_FIRST)
    base = pg_int8(res, stop - 1, POP_BASE)
    after = base + pg_int4(res, stop - 1, POP_N)
    h = held_begin(c, j.lease, first, n, after if after == first + n else base, True)
    if h == NULL:
        return
    n = 0
    while row < stop:
        ids = pg_bytes(res, row, POP_IDS)
        at = <int>(pg_int8(res, row, POP_FIRST) - pg_int8(res, row, POP_BASE))
        take = pg_int4(res, row, POP_TAKE)
        if ids.n < 16 * <size_t>(at + take):
            held_forget(h)
            return
        memcpy(h.ids + 16 * n, ids.p + 16 * at, 16 * <size_t>take)
        n += take
        row += 1

cdef void held_pushed(Claim* c) noexcept nogil:
    # A claim of what a push has just stored was made.
    cdef int64_t first = c.group.first.offset
    cdef PushItem* it = c.group.first
    cdef int take
    cdef int n = 0
    cdef Held* h = held_begin(c.cursor, c.job.lease, first, c.take, first + c.take if c.take == c.group.n else first,
                              False)
    while h != NULL and n < c.take and it != NULL:
        if it.run == NULL:
            memcpy(h.ids + 16 * n, it.id, 16)
            n += 1
        else:
            take = it.run.n if it.run.n < c.take - n else c.take - n
            memcpy(h.ids + 16 * n, it.run.ids, 16 * <size_t>take)
            n += take
        it = it.next
