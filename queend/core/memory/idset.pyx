# Id sets: what this process remembers of a partition's ids of other versions than 7, so that the database need not look
# for them. Version-7 ids prove themselves new by their order. In: ids that are stored, with their offsets; ids to be
# pushed. Out: "none of these is stored", or where some may be. Owner: the process; guarded by idsets.lock, the last
# lock to be taken, which is never held across I/O. The rules are in sql/function/push.sql.

cdef enum:
    IDSET_FROM = 64          # ids a partition must have got before remembering them pays
    IDSET_FIRST = 128        # cells
    IDSET_IDLE_US = 60000000     # after so long without a push, a set may give way to another
    IDSET_FULL_S = 600           # after so long without room, a partition is tried again
    IDSET_PLACE_BITS = 20
    IDSET_PLACE = 0xfffff        # the bits of a cell that are its place
    IDSET_AHEAD = 16             # cells fetched ahead from memory while others are looked at
    IDSET_HUGE = 2097152         # bytes of a huge page
    IDSET_MOVED = 4              # cells moved into the larger table with each id that is added

cdef struct IdSets:
    uv_mutex_t lock
    IdSet* oldest
    IdSet* newest
    uint64_t bytes
    uint64_t room             # bytes
    uint64_t[2] seed

cdef IdSets idsets

cdef void idset_open(uint64_t room) noexcept nogil:
    memset(&idsets, 0, sizeof(idsets))
    uv_mutex_init(&idsets.lock)
    getrandom(idsets.seed, sizeof(idsets.seed), 0)
    idsets.room = room

cdef void idset_close() noexcept nogil:
    while idsets.oldest != NULL:
        idset_drop(idsets.oldest)
    uv_mutex_destroy(&idsets.lock)

# ---- the set of one partition: requires idsets.lock ------------------------------------------------------------------
# A cell is 44 bits of a keyed hash and 20 bits of place: offsets from `origin` on, in steps of 1 << shift. Among 10^7
# ids, a new one meets another's hash by one chance in 1.7 million; then 16 records are looked through. Linear probing,
# at most 4/5 full: 10 to 15 bytes per id. A full table is moved into a larger one four cells at a time. Moved at once,
# 10^7 ids kept others from the lock for 108 ms. Until the move ends, both tables are searched. Cells of the old one
# before `moved` are skipped. They stay in place, because a search ends at the first empty cell.

cdef void idset_used(IdSet* r) noexcept nogil:
    r.used_us = clock_mono_us()
    if idsets.newest is not r:
        link_del(<Links*>&idsets.oldest, &r.link)
        link_add(<Links*>&idsets.oldest, &r.link)

cdef void idset_drop(IdSet* r) noexcept nogil:
    link_del(<Links*>&idsets.oldest, &r.link)
    idsets.bytes -= sizeof(IdSet) + 8 * (r.size + r.old_size)
    r.partition.idset = NULL
    free(r.cells)
    free(r.old)
    free(r)

cdef uint64_t* idset_cells(IdSet* mine, uint64_t size) noexcept nogil:
    # Returns room for so many cells, if need be by dropping sets unused for IDSET_IDLE_US (60 s). NULL if there is
    # none. Large tables get huge pages: nearly every search is in another page, and the processor would have to look up
    # each of the small ones.
    cdef int64_t now = clock_mono_us()
    cdef size_t bytes = 8 * size
    cdef size_t begin
    cdef uint64_t* cells
    while idsets.bytes + bytes > idsets.room:
        if idsets.oldest == NULL or idsets.oldest is mine or now - idsets.oldest.used_us < IDSET_IDLE_US:
            return NULL
        idset_drop(idsets.oldest)
    cells = <uint64_t*>calloc(size, 8)
    if cells != NULL and bytes >= 2 * IDSET_HUGE:
        begin = (<size_t>cells + IDSET_HUGE - 1) & ~<size_t>(IDSET_HUGE - 1)
        madvise(<void*>begin, (<size_t>cells + bytes - begin) & ~<size_t>(IDSET_HUGE - 1), MADV_HUGEPAGE)
    return cells

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
    link_add(<Links*>&idsets.oldest, &r.link)
    p.idset = r
    return r

cdef inline uint64_t idset_hash(const unsigned char* id) noexcept nogil:
    # Returns 44 bits, never 0. The hash is keyed: no client can choose ids that collide.
    cdef uint64_t a, b
    memcpy(&a, id, 8)
    memcpy(&b, id + 8, 8)
    a = slice_mix(slice_mix(a ^ idsets.seed[0]) + b ^ idsets.seed[1]) >> IDSET_PLACE_BITS
    return a if a else 1

cdef inline uint64_t idset_at(uint64_t hash, uint64_t size) noexcept nogil:
    # Returns where the search for a hash begins in a table of so many cells. Larger hashes begin behind smaller ones.
    return ((hash >> 12) * size) >> 32

cdef void idset_put(IdSet* r, uint64_t cell) noexcept nogil:
    # Puts a cell into the table, unless it is there.
    cdef uint64_t i = idset_at(cell >> IDSET_PLACE_BITS, r.size)
    while r.cells[i] and r.cells[i] != cell:
        i = i + 1 if i + 1 < r.size else 0
    r.used += r.cells[i] == 0
    r.cells[i] = cell

cdef bint idset_grow(IdSet* r) noexcept nogil:
    # Begins a table larger by half. Returns False if there is no room. It is 4/5 full after 2/5 as many ids as the old
    # one has cells: the old one is empty by then.
    cdef uint64_t size = r.size + r.size // 2
    cdef uint64_t* cells = idset_cells(r, size)
    if cells == NULL:
        return False
    r.old = r.cells
    r.old_size = r.size
    r.moved = 0
    r.cells = cells
    r.size = size
    r.used = 0
    idsets.bytes += 8 * size
    return True

cdef void idset_move(IdSet* r) noexcept nogil:
    # Moves the next IDSET_MOVED cells of the old table, and frees it behind its last.
    cdef uint64_t end = min(r.moved + IDSET_MOVED, r.old_size)
    while r.moved < end:
        if r.old[r.moved]:
            idset_put(r, r.old[r.moved])
        r.moved += 1
    if r.moved == r.old_size:
        idsets.bytes -= 8 * r.old_size
        free(r.old)
        r.old = NULL
        r.old_size = 0

cdef bint idset_add(IdSet* r, const unsigned char* id, int64_t offset) noexcept nogil:
    # Adds an id at an offset. Returns False if there is no room: the set has become useless.
    cdef int64_t place = offset - r.origin
    if place < 0:
        return False
    while place >> r.shift > IDSET_PLACE:
        r.shift += 1
        idset_halve(r.cells, r.size)
        idset_halve(r.old, r.old_size)
    if r.old != NULL:
        idset_move(r)
    elif (r.used + 1) * 5 > r.size * 4 and not idset_grow(r):
        return False
    idset_put(r, idset_hash(id) << IDSET_PLACE_BITS | <uint64_t>(place >> r.shift))
    return True

cdef void idset_halve(uint64_t* cells, uint64_t size) noexcept nogil:
    # Halves the places of a table: a step is twice as long now.
    cdef uint64_t i
    for i in range(size):
        cells[i] = (cells[i] & ~<uint64_t>IDSET_PLACE) | ((cells[i] & IDSET_PLACE) >> 1)

cdef uint64_t idset_ids(const IdSet* r) noexcept nogil:
    # Returns about how many ids the set has.
    return r.used + (r.old_size - r.moved) * 4 // 5

cdef struct IdLook:           # iterates over the places where an id may stand
    const uint64_t* cells     # NULL: behind the last table
    uint64_t size
    uint64_t i
    uint64_t hash
    int64_t place

cdef inline IdLook idset_look(const IdSet* r, const unsigned char* id) noexcept nogil:
    cdef IdLook l
    l.cells = r.cells
    l.size = r.size
    l.hash = idset_hash(id)
    l.i = idset_at(l.hash, l.size)
    l.place = 0
    return l

cdef bint idset_next(const IdSet* r, IdLook* l) noexcept nogil:
    # Sets the next place where the id may stand. Returns False if there is none.
    cdef uint64_t cell, i
    while l.cells != NULL:
        i = l.i
        cell = l.cells[i]
        if cell == 0:
            l.cells = r.old if l.cells == r.cells else NULL
            l.size = r.old_size
            l.i = idset_at(l.hash, l.size)
            continue
        l.i = i + 1 if i + 1 < l.size else 0
        if cell >> IDSET_PLACE_BITS == l.hash and (l.cells == r.cells or i >= r.moved):
            l.place = <int64_t>(cell & IDSET_PLACE)
            return True
    return False

cdef inline void idset_fetch(const IdSet* r, const unsigned char* id) noexcept nogil:
    # Asks for the cells at which the search for an id begins: most are outside the processor's cache.
    cdef uint64_t hash = idset_hash(id)
    wide_fetch(&r.cells[idset_at(hash, r.size)])
    if r.old != NULL:
        wide_fetch(&r.old[idset_at(hash, r.old_size)])

cdef void idset_ahead(const IdSet* r, const PushItem* it, int k) noexcept nogil:
    # Fetches the cells of the record that comes IDSET_AHEAD later in a run, for k = 0 also of those between.
    cdef int i
    if it.run == NULL:
        return
    if k == 0:
        for i in range(IDSET_AHEAD if IDSET_AHEAD < it.run.n else it.run.n):
            idset_fetch(r, it.run.ids + 16 * i)
    if k + IDSET_AHEAD < it.run.n:
        idset_fetch(r, it.run.ids + 16 * (k + IDSET_AHEAD))

cdef int64_t idset_from(Partition* p, const unsigned char* id) noexcept nogil:
    # Returns the offset at which, or behind which, an id may be stored, unless late_ids has it. For a partition without
    # a set, the offset is beyond all others: the log is not searched.
    cdef IdSet* r = p.idset
    cdef int64_t least
    cdef IdLook look
    if r == NULL:
        return INT64_MAX
    least = r.known
    look = idset_look(r, id)
    while idset_next(r, &look):
        least = min(least, r.origin + (look.place << r.shift))
    return least

cdef void idset_full(Partition* p) noexcept nogil:
    # Handles a full set. The first time it is dropped, and learned anew without ids that are gone from the log. If at
    # least half as many ids are there when it is full again, it is given up for IDSET_FULL_S (600 s).
    cdef uint64_t used = 0
    if p.idset != NULL:
        used = idset_ids(p.idset)
        idset_drop(p.idset)
    if p.crowded and used >= p.crowded // 2:
        p.crowded = 0
        p.no_idset_until = <uint32_t>(clock_mono_us() // 1000000) + IDSET_FULL_S
    else:
        p.crowded = <uint32_t>(used + 1)          # 2^32 cells would be 32 GiB of one partition

# ---- what a push is told ---------------------------------------------------------------------------------------------
# In: a batch of items. Out: how far each of its partitions is known, and where its ids may stand.

cdef inline const unsigned char* idset_record_id(PushItem** it, int k) noexcept nogil:
    # Returns the id of a row's record k. Requires calls in order, beginning with the row's first item.
    cdef const unsigned char* id = it[0].id
    if it[0].run != NULL:
        return it[0].run.ids + 16 * k
    it[0] = it[0].next
    return id

cdef void idset_batch_known(PushBatch* b, KnownArgs* a) noexcept nogil:
    # Sets how far the partition of each row is known, and encodes where its ids may stand.
    cdef int i
    cdef PushPartition* g = NULL
    pgarray_begin(&a.look_row, OID_INT4)
    pgarray_begin(&a.look_from, OID_INT8)
    pgarray_begin(&a.look_to, OID_INT8)
    uv_mutex_lock(&idsets.lock)
    for i in range(b.n_chunks):
        if b.chunks[i].group is not g:
            g = b.chunks[i].group
            if g.has_other:
                idset_known(b, i, a)
    uv_mutex_unlock(&idsets.lock)

cdef void idset_known(PushBatch* b, int first, KnownArgs* a) noexcept nogil:
    cdef PushPartition* g = b.chunks[first].group
    cdef IdSet* r = g.partition.idset
    cdef PushItem* it
    cdef const unsigned char* id
    cdef int i = first
    cdef int k
    cdef IdLook look
    cdef int64_t start, end
    cdef bint found = False
    g.known_at = 0
    if r == NULL:
        if g.partition.no_idset_until and g.partition.no_idset_until > clock_mono_us() // 1000000:
            g.known = KNOWN_CROWDED
        else:
            g.known = KNOWN_LOOK if g.partition.non_v7_count >= IDSET_FROM else KNOWN_NOTHING
        return
    idset_used(r)
    while i < b.n_chunks and b.chunks[i].group is g:
        it = b.chunks[i].first
        start = 0
        end = 0
        for k in range(b.chunks[i].n):
            idset_ahead(r, it, k)
            id = idset_record_id(&it, k)
            if id[6] >> 4 == 7:
                continue
            look = idset_look(r, id)
            while idset_next(r, &look):
                found = True
                # Rows that are sent again as they were stored name places that follow each other: one range.
                if look.place < start or look.place > end or start == end:
                    idset_encode(a, r, i, start, end)
                    start = look.place
                    end = look.place
                end = look.place + 1 if look.place >= end else end
        idset_encode(a, r, i, start, end)
        i += 1
    g.known = r.known if r.sure and not found else KNOWN_LOOK - r.known
    g.known_at = r.known_at

cdef inline void idset_encode(KnownArgs* a, const IdSet* r, int row, int64_t start, int64_t end) noexcept nogil:
    # Encodes a range of places where ids of a row may stand; leaves out an empty one.
    if start < end:
        pgarray_int4(&a.look_row, row + 1)
        pgarray_int8(&a.look_from, r.origin + (start << r.shift))
        pgarray_int8(&a.look_to, r.origin + (end << r.shift))

# ---- what an answer teaches ------------------------------------------------------------------------------------------
# In: rows of queend.push, after the commit. Out: ids that are remembered.

cdef void idset_batch_learn(PushBatch* b, PGresult* res) noexcept nogil:
    # Remembers what was stored. Requires that the next batch, which has to know it, is not sent yet.
    cdef int row, i, status
    cdef int64_t base
    cdef Slice seen
    cdef PgIter dups
    uv_mutex_lock(&idsets.lock)
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, PUSH_ORD)
        status = pg_int2(res, row, PUSH_STATUS)
        if status == PUSH_CLAIMED or status == PUSH_COMPARE or i < 0 or i >= b.n_chunks:
            continue
        # for a row that was stored at once the column means something else: push/logend
        seen = pg_bytes(res, row, PUSH_SEEN) if status != PUSH_WHOLE else slice_of(NULL, 0)
        base = pg_int8(res, row, PUSH_BASE) if status != PUSH_REFUSED else -1
        if status == PUSH_CHECKED:
            pg_array(res, row, PUSH_DUP_OFFSET, OID_INT8, &dups)
        idset_row_learn(&b.chunks[i], seen, base, pg_int8(res, row, PUSH_CREATED_AT),
                        &dups if status == PUSH_CHECKED else NULL)
    for i in range(b.n_chunks if b.expects else 0):
        idset_row_learn(&b.chunks[i], slice_of(NULL, 0), b.chunks[i].group.began + b.chunks[i].skip,
                        pg_int8(res, 0, PUSH_CREATED_AT), NULL)
    uv_mutex_unlock(&idsets.lock)

cdef void idset_row_learn(PushChunk* c, Slice seen, int64_t base, int64_t created_at, PgIter* dups) noexcept nogil:
    # Takes the answer to one row. A `base` of -1 means that no record was stored. Iterator `dups` has the offset of the
    # older record or -1 for each record, NULL: all were stored. Requires idsets.lock.
    cdef Partition* p = c.group.partition
    if p.idset == NULL and not c.group.has_other:
        return
    if idset_is_current(c.group):
        idset_learn(p, seen)
    if base >= 0:
        idset_row_keep(c, p, seen.p != NULL, base, created_at, dups)

cdef bint idset_is_current(PushPartition* g) noexcept nogil:
    # Returns True if what the call was told is still what is remembered. A transaction may run beside a push: what it
    # learned or forgot leaves the ids of this answer without a predecessor.
    cdef int64_t told = g.known if g.known >= 0 else (KNOWN_LOOK - g.known if g.known <= KNOWN_LOOK else 0)
    cdef IdSet* r = g.partition.idset
    if r == NULL or told == 0:
        return told == 0 and (r == NULL or r.known == 0)
    return r.known == told and r.known_at == g.known_at

cdef void idset_row_keep(PushChunk* c, Partition* p, bint taught, int64_t base, int64_t created_at,
                         PgIter* dups) noexcept nogil:
    # Adds one row's records. Records that do not follow what is known are left to the next push, which is told of the
    # gap.
    cdef IdSet* r = p.idset
    cdef int64_t at = base
    cdef int64_t off
    cdef const unsigned char* id
    cdef PushItem* it = c.first
    cdef int k
    if r == NULL:
        p.non_v7_count = <uint8_t>(p.non_v7_count + c.n if p.non_v7_count + c.n < IDSET_FROM else IDSET_FROM)
        return
    if base != r.known:
        return
    for k in range(c.n):
        off = -1
        if dups != NULL:
            pg_next8(dups, &off)
        idset_ahead(r, it, k)
        id = idset_record_id(&it, k)
        if off < 0:
            if id[6] >> 4 != 7 and not idset_add(r, id, at):
                idset_full(p)
                return
            at += 1
    r.known = at
    r.known_at = created_at
    if c.group.has_other and dups == NULL or taught:
        r.sure = True
        if idset_ids(r) < p.crowded // 2:
            p.crowded = 0

cdef void idset_learn(Partition* p, Slice seen) noexcept nogil:
    # Adds the ids of an answer. seen: 8 bytes offset, 8 bytes time, ids (sql/function/ids.sql).
    cdef int64_t at
    cdef const unsigned char* ids = <const unsigned char*>seen.p + 16
    cdef size_t k, n
    cdef IdSet* r
    if seen.p == NULL or seen.n < 16:
        return
    at = <int64_t>be64(seen.p)
    n = seen.n // 16 - 1
    if p.idset != NULL and p.idset.known != at:
        idset_drop(p.idset)         # not what follows: the set begins anew
    r = p.idset if p.idset != NULL else idset_new(p, at)
    if r == NULL:
        idset_full(p)
        return
    for k in range(n):
        if ids[16 * k + 6] >> 4 != 7 and not idset_add(r, ids + 16 * k, at + <int64_t>k):
            idset_full(p)
            return
    r.known = at + <int64_t>n
    r.known_at = <int64_t>be64(seen.p + 8)
