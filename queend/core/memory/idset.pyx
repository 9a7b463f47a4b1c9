# What this process remembers of a partition's ids that are not version 7 (those prove themselves new by their order),
# so that the database need not look for them: the rules are in sql/function/push.sql. In: ids that are stored, with
# their offsets; ids to be pushed. Out: "none of these is stored", or where some may be. Owner: the process; all of it
# under idsets.lock, which is held for no I/O and taken before no other lock.
#
# A cell is 48 bits of a keyed hash and 16 bits of place: offsets counted from `origin` in steps of 1 << shift. Among
# 10^7 ids a new one meets the hash of another by one chance in 28 million, and a place is then 256 records to look
# through. Linear probing, at most 4/5 of the cells used: 10 to 15 bytes per id.

cdef enum:
    IDSET_FROM = 64          # ids a partition must have got before remembering them pays
    IDSET_FIRST = 128        # cells
    IDSET_IDLE_US = 60000000     # without a push for so long: may be forgotten for another
    IDSET_FULL_S = 600           # no room for this partition: not tried again before
    IDSET_AHEAD = 16             # cells that are on their way from memory while others are looked at

cdef struct IdSets:
    uv_mutex_t lock
    IdSet* newest
    IdSet* oldest
    uint64_t bytes
    uint64_t room             # bytes
    uint64_t[2] seed

cdef IdSets idsets

cdef void idsets_open(uint64_t room) noexcept nogil:
    memset(&idsets, 0, sizeof(idsets))
    uv_mutex_init(&idsets.lock)
    getrandom(idsets.seed, sizeof(idsets.seed), 0)
    idsets.room = room

cdef void idsets_close() noexcept nogil:
    while idsets.oldest != NULL:
        idset_drop(idsets.oldest)
    uv_mutex_destroy(&idsets.lock)

# ---- one partition's memory: the caller holds the lock ---------------------------------------------------------------

cdef inline void idset_unlink(IdSet* r) noexcept nogil:
    if r.newer != NULL:
        r.newer.older = r.older
    else:
        idsets.newest = r.older
    if r.older != NULL:
        r.older.newer = r.newer
    else:
        idsets.oldest = r.newer

cdef inline void idset_link(IdSet* r) noexcept nogil:
    r.newer = NULL
    r.older = idsets.newest
    if r.older != NULL:
        r.older.newer = r
    else:
        idsets.oldest = r
    idsets.newest = r

cdef void idset_used(IdSet* r) noexcept nogil:
    r.used_us = clock_mono_us()
    if idsets.newest is not r:
        idset_unlink(r)
        idset_link(r)

cdef void idset_drop(IdSet* r) noexcept nogil:
    idset_unlink(r)
    idsets.bytes -= sizeof(IdSet) + 8 * r.size
    r.partition.idset = NULL
    free(r.cells)
    free(r)

cdef uint64_t* idset_cells(IdSet* mine, uint64_t size) noexcept nogil:
    # Room for so many cells, made where the oldest have not been used for a while; NULL if there is none.
    cdef int64_t now = clock_mono_us()
    while idsets.bytes + 8 * size > idsets.room:
        if idsets.oldest == NULL or idsets.oldest is mine or now - idsets.oldest.used_us < IDSET_IDLE_US:
            return NULL
        idset_drop(idsets.oldest)
    return <uint64_t*>calloc(size, 8)

cdef IdSet* idset_new(Partition* p, int64_t origin) noexcept nogil:
    cdef uint64_t* cells = idset_cells(NULL, IDSET_FIRST)
    cdef IdSet* r = <IdSet*>calloc(1, sizeof(IdSet)) if cells != NULL else NULL
    if r == NULL:
        free(cells)
        return NULL
    r.partition = p
    r.cells = cells
    r.size = IDSET_FIRST
    r.origin = origin
    r.known = origin
    r.used_us = clock_mono_us()
    idsets.bytes += sizeof(IdSet) + 8 * r.size
    idset_link(r)
    p.idset = r
    return r

cdef inline uint64_t idset_hash(const unsigned char* id) noexcept nogil:
    # 48 bits, never 0. Keyed: nobody can choose ids that meet.
    cdef uint64_t a, b
    memcpy(&a, id, 8)
    memcpy(&b, id + 8, 8)
    a = hash_mix(hash_mix(a ^ idsets.seed[0]) + b ^ idsets.seed[1]) >> 16
    return a if a else 1

cdef inline uint64_t idset_at(IdSet* r, uint64_t hash) noexcept nogil:
    return ((hash >> 16) * r.size) >> 32

cdef bint idset_grow(IdSet* r) noexcept nogil:
    # Half as large again. False: there is no room.
    cdef uint64_t size = r.size + r.size // 2
    cdef uint64_t* old = r.cells
    cdef uint64_t old_size = r.size
    cdef uint64_t i, k
    cdef uint64_t* cells
    cells = idset_cells(r, size)
    if cells == NULL:
        return False
    r.cells = cells
    r.size = size
    idsets.bytes += 8 * (size - old_size)
    for i in range(old_size):
        if old[i]:
            k = idset_at(r, old[i] >> 16)
            while cells[k]:
                k = k + 1 if k + 1 < size else 0
            cells[k] = old[i]
    free(old)
    return True

cdef bint idset_add(IdSet* r, const unsigned char* id, int64_t offset) noexcept nogil:
    # False: there is no room, and the memory is of no use any more.
    cdef uint64_t hash = idset_hash(id)
    cdef uint64_t i, cell
    cdef int64_t place = offset - r.origin
    if place < 0:
        return False
    while place >> r.shift > 0xffff:
        r.shift += 1
        for i in range(r.size):
            r.cells[i] = (r.cells[i] & ~<uint64_t>0xffff) | ((r.cells[i] & 0xffff) >> 1)
    if (r.used + 1) * 5 > r.size * 4 and not idset_grow(r):
        return False
    cell = hash << 16 | <uint64_t>(place >> r.shift)
    i = idset_at(r, hash)
    while r.cells[i]:
        if r.cells[i] == cell:
            return True
        i = i + 1 if i + 1 < r.size else 0
    r.cells[i] = cell
    r.used += 1
    return True

cdef bint idset_look(IdSet* r, const unsigned char* id, uint64_t* i) noexcept nogil:
    # The next cell of an id, from cell i[0] on; begin with idset_at of its hash. False: there is none.
    cdef uint64_t hash = idset_hash(id)
    while r.cells[i[0]]:
        if r.cells[i[0]] >> 16 == hash:
            return True
        i[0] = i[0] + 1 if i[0] + 1 < r.size else 0
    return False

cdef void idset_ahead(IdSet* r, PushItem* it, int k) noexcept nogil:
    # Asks for the cell of a record that comes later in a run, 0 to begin with: a cell is seldom in the processor's
    # cache.
    cdef int i
    if it.run == NULL:
        return
    if k == 0:
        for i in range(IDSET_AHEAD if IDSET_AHEAD < it.run.n else it.run.n):
            wide_fetch(&r.cells[idset_at(r, idset_hash(it.run.ids + 16 * i))])
    if k + IDSET_AHEAD < it.run.n:
        wide_fetch(&r.cells[idset_at(r, idset_hash(it.run.ids + 16 * (k + IDSET_AHEAD)))])

cdef int64_t idset_from(Partition* p, const unsigned char* id) noexcept nogil:
    # The offset an id may be stored at, or behind, unless late_ids has it. Where nothing is remembered, the log is not
    # searched: the offset is beyond all others.
    cdef IdSet* r = p.idset
    cdef int64_t least, at
    cdef uint64_t i
    if r == NULL:
        return 0x7fffffffffffffff
    least = r.known
    i = idset_at(r, idset_hash(id))
    while idset_look(r, id, &i):
        at = r.origin + (<int64_t>(r.cells[i] & 0xffff) << r.shift)
        least = at if at < least else least
        i = i + 1 if i + 1 < r.size else 0
    return least

cdef void idset_crowded(Partition* p) noexcept nogil:
    # No room. The first time what is gone from the log meanwhile is left behind, by learning anew; then it is given up
    # for a while.
    cdef uint64_t used = 0
    if p.idset != NULL:
        used = p.idset.used
        idset_drop(p.idset)
    if p.crowded and used >= p.crowded // 2:
        p.crowded = 0
        p.no_idset_until = <uint32_t>(clock_mono_us() // 1000000) + IDSET_FULL_S
    else:
        p.crowded = <uint32_t>(used + 1)          # 2^32 cells would be 32 GiB of one partition

cdef inline const unsigned char* chunk_id(PushItem** it, int k) noexcept nogil:
    # The id of a row's record k; asked for in order, beginning with the row's first item.
    cdef const unsigned char* id = it[0].id
    if it[0].run != NULL:
        return it[0].run.ids + 16 * k
    it[0] = it[0].next
    return id

# ---- a batch before it is sent ---------------------------------------------------------------------------------------

cdef void batch_known(PushBatch* b, KnownArgs* a) noexcept nogil:
    # How far the partition of each row is known, and where its ids may stand.
    cdef int i
    cdef PushGroup* g = NULL
    pgarray_begin(&a.look_row, OID_INT4)
    pgarray_begin(&a.look_from, OID_INT8)
    pgarray_begin(&a.look_to, OID_INT8)
    uv_mutex_lock(&idsets.lock)
    for i in range(b.n_chunks):
        if b.chunks[i].group is not g:
            g = b.chunks[i].group
            if g.has_other:
                group_known(b, i, a)
    uv_mutex_unlock(&idsets.lock)

cdef void group_known(PushBatch* b, int first, KnownArgs* a) noexcept nogil:
    cdef PushGroup* g = b.chunks[first].group
    cdef IdSet* r = g.partition.idset
    cdef PushItem* it
    cdef const unsigned char* id
    cdef int i = first
    cdef int k
    cdef uint64_t at
    cdef int64_t place, last
    cdef bint look = False
    g.known_at = 0
    if r == NULL:
        if g.partition.no_idset_until and g.partition.no_idset_until > clock_mono_us() // 1000000:
            g.known = -1
        else:
            g.known = -2 if g.partition.strange >= IDSET_FROM else 0
        return
    idset_used(r)
    while i < b.n_chunks and b.chunks[i].group is g:
        it = b.chunks[i].first
        last = -1
        for k in range(b.chunks[i].n):
            idset_ahead(r, it, k)
            id = chunk_id(&it, k)
            if id[6] >> 4 == 7:
                continue
            at = idset_at(r, idset_hash(id))
            while idset_look(r, id, &at):
                look = True
                place = r.cells[at] & 0xffff
                if place != last:
                    pgarray_int4(&a.look_row, i + 1)
                    pgarray_int8(&a.look_from, r.origin + (place << r.shift))
                    pgarray_int8(&a.look_to, r.origin + (place + 1 << r.shift))
                last = place
                at = at + 1 if at + 1 < r.size else 0
        i += 1
    g.known = r.known if r.sure and not look else -2 - r.known
    g.known_at = r.known_at

# ---- and after its commit --------------------------------------------------------------------------------------------

cdef void batch_learn(PushBatch* b, PGresult* res) noexcept nogil:
    # Remembers what was stored. Before the next batch is sent, which is to know it.
    cdef int row, i, status
    cdef int64_t base
    cdef Slice seen
    cdef PgIter dups
    uv_mutex_lock(&idsets.lock)
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, PUSH_ORD)
        status = pg_int2(res, row, PUSH_STATUS)
        if status == 2 or i < 0 or i >= b.n_chunks:
            continue
        # of a row that was stored at once it is something else: push/heads
        seen = pg_bytes(res, row, PUSH_SEEN) if status else slice_of(NULL, 0)
        base = pg_int8(res, row, PUSH_BASE) if status != 3 else -1
        if status == 1:
            pg_array(res, row, PUSH_DUP_OFFSET, OID_INT8, &dups)
        chunk_learn(&b.chunks[i], seen, base, pg_int8(res, row, PUSH_CREATED_AT), &dups if status == 1 else NULL)
    for i in range(b.n_chunks if b.named else 0):
        chunk_learn(&b.chunks[i], slice_of(NULL, 0), b.chunks[i].group.began + b.chunks[i].skip,
                    pg_int8(res, 0, PUSH_CREATED_AT), NULL)
    uv_mutex_unlock(&idsets.lock)

cdef void chunk_learn(PushChunk* c, Slice seen, int64_t base, int64_t created_at, PgIter* dups) noexcept nogil:
    # The answer to one row. base -1: nothing of it was stored; dups: the offset of the older record or -1 for each of
    # its records, NULL: all were stored. The caller holds the lock.
    cdef Partition* p = c.group.partition
    if p.idset == NULL and not c.group.has_other:
        return
    if group_current(c.group):
        partition_learn(p, seen)
    if base >= 0:
        chunk_keep(c, p, seen.p != NULL, base, created_at, dups)

cdef bint group_current(PushGroup* g) noexcept nogil:
    # Is what its call was told still what is remembered? What was learned or forgotten meanwhile (a transaction may run
    # beside a push) makes the ids it was answered follow nothing.
    cdef int64_t told = g.known if g.known >= 0 else (-2 - g.known if g.known < -1 else 0)
    cdef IdSet* r = g.partition.idset
    if r == NULL or told == 0:
        return told == 0 and (r == NULL or r.known == 0)
    return r.known == told and r.known_at == g.known_at

cdef void partition_learn(Partition* p, Slice seen) noexcept nogil:
    # seen: 8 bytes offset, 8 bytes moment, ids (sql/function/ids.sql).
    cdef uint64_t word
    cdef int64_t at, moment
    cdef const unsigned char* ids = <const unsigned char*>seen.p + 16
    cdef size_t k, n
    cdef IdSet* r
    if seen.p == NULL or seen.n < 16:
        return
    memcpy(&word, seen.p, 8)
    at = <int64_t>be64toh(word)
    memcpy(&word, seen.p + 8, 8)
    moment = <int64_t>be64toh(word)
    n = seen.n // 16 - 1
    if p.idset != NULL and p.idset.known != at:
        idset_drop(p.idset)         # not what follows: it begins anew
    r = p.idset if p.idset != NULL else idset_new(p, at)
    if r == NULL:
        idset_crowded(p)
        return
    for k in range(n):
        if ids[16 * k + 6] >> 4 != 7 and not idset_add(r, ids + 16 * k, at + <int64_t>k):
            idset_crowded(p)
            return
    r.known = at + <int64_t>n
    r.known_at = moment

cdef void chunk_keep(PushChunk* c, Partition* p, bint taught, int64_t base, int64_t created_at,
                     PgIter* dups) noexcept nogil:
    # One row's records. What does not follow what is known is left to the next push, which is told what lies between.
    cdef IdSet* r = p.idset
    cdef int64_t at = base
    cdef int64_t off
    cdef const unsigned char* id
    cdef PushItem* it = c.first
    cdef int k
    if r == NULL:
        p.strange = <uint8_t>(p.strange + c.n if p.strange + c.n < IDSET_FROM else IDSET_FROM)
        return
    if base != r.known:
        return
    for k in range(c.n):
        off = -1
        if dups != NULL:
            pg_next8(dups, &off)
        idset_ahead(r, it, k)
        id = chunk_id(&it, k)
        if off < 0:
            if id[6] >> 4 != 7 and not idset_add(r, id, at):
                idset_crowded(p)
                return
            at += 1
    r.known = at
    r.known_at = created_at
    if c.group.has_other and dups == NULL or taught:
        r.sure = True
        if r.used < p.crowded // 2:
            p.crowded = 0
