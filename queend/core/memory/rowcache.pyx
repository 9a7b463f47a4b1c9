# The row cache: the newest rows of the log, kept for groups that keep up. In: committed rows (push/results). Out: rows
# by offset; PostgreSQL is asked for the claim alone (settle/claimcall). Owner: the process; guarded by book.lock. A
# partition's rows are a gapless chain that ends at its head. They are kept while a group's cursor stands among them,
# for at most ROWCACHE_AGE_US (10 s). The process has a bound of bytes; beyond it the oldest rows go.

cdef struct RowCache:
    CachedRow* first
    CachedRow* last
    size_t bytes
    size_t most               # bound of `bytes`, set by run/engine; 0: nothing is kept

cdef RowCache rowcache

cdef void rowcache_close() noexcept nogil:
    while rowcache.first != NULL:
        rowcache_drop(rowcache.first.partition)

# ---- rows come in ----------------------------------------------------------------------------------------------------

cdef bint rowcache_wanted(Partition* p, int64_t base, int64_t head) noexcept nogil:
    # Returns True if a group's cursor stands among the kept rows and records base … head - 1: it will read them soon.
    cdef int64_t start = base
    if rowcache.most == 0 or queue_holds_back(p.queue) or p.queue.ttl_us:
        return False
    if p.cache_last != NULL and p.cache_last.base + p.cache_last.n == base:
        start = p.cache_first.base
    return rowcache_awaited(p, start, head)

cdef bint rowcache_awaited(Partition* p, int64_t start, int64_t stop) noexcept nogil:
    # Returns True if a group's cursor stands at one of the offsets from `start` to before `stop`.
    cdef Group* g = p.queue.group_list
    cdef Cursor* c
    while g != NULL:
        c = <Cursor*>table_get(&g.cursors, <uint32_t>p.id) if not g.dead else NULL
        if c != NULL and start <= c.next_offset < stop:
            return True
        g = g.next
    return False

cdef void rowcache_add(CachedRow* r, int64_t now) noexcept nogil:
    # Adds a row. A partition's rows come in the order of their offsets; a gap (another program wrote) begins a new
    # chain.
    cdef Partition* p = r.partition
    if p.cache_last != NULL and p.cache_last.base + p.cache_last.n != r.base:
        if r.base < p.cache_last.base + p.cache_last.n:
            free(r)
            return
        while p.cache_first != NULL:
            rowcache_drop(p)
    if p.dead:
        free(r)
        return
    r.kept_us = now
    if p.cache_last != NULL:
        p.cache_last.newer = r
    else:
        p.cache_first = r
    p.cache_last = r
    link_add(<Links*>&rowcache.first, &r.link)
    rowcache.bytes += r.bytes
    rowcache_evict(now)

# ---- rows are read ---------------------------------------------------------------------------------------------------

cdef CachedRow* rowcache_find(Partition* p, int64_t offset, int64_t now) noexcept nogil:
    # Returns the row that holds `offset`, if the chain leads from there to the head; else NULL.
    cdef CachedRow* r = p.cache_first
    if r == NULL or offset < r.base or offset >= p.head or p.cache_last.base + p.cache_last.n < p.head:
        return NULL
    while r.base + r.n <= offset:
        r = r.newer
    return r if now - r.kept_us < ROWCACHE_AGE_US else NULL

cdef void rowcache_release(Claim* c) noexcept nogil:
    # Releases the rows of a claim, if its records are in memory. Requires book.lock.
    cdef CachedRow* r = c.cached
    cdef CachedRow* newer
    c.cached = NULL
    while r != NULL:
        newer = popjob_next(c, r)
        r.refs -= 1
        if r.refs == 0 and r.dropped:
            free(r)
        r = newer

cdef void rowcache_release_all(PopJob* j) noexcept nogil:
    # Releases the rows of all claims of a pop, if their records are in memory. Takes book.lock.
    cdef int i
    if j.n_claims == 0 or j.claims.cached == NULL:
        return
    uv_mutex_lock(&book.lock)
    for i in range(j.n_claims):
        rowcache_release(&j.claims[i])
    uv_mutex_unlock(&book.lock)

# ---- rows leave ------------------------------------------------------------------------------------------------------
# A row that a claim is reading (refs) leaves the chain at once. Its memory is freed when the claim is answered.

cdef void rowcache_evict(int64_t now) noexcept nogil:
    # Drops rows beyond the bound of bytes or age. The oldest row of all is also its partition's oldest.
    while rowcache.first != NULL and (rowcache.bytes > rowcache.most or now - rowcache.first.kept_us > ROWCACHE_AGE_US):
        rowcache_drop(rowcache.first.partition)

cdef void rowcache_passed(Partition* p) noexcept nogil:
    # Drops the oldest rows of a partition up to one in which a group's cursor stands. Called after a cursor moved on.
    while (p.cache_first != NULL
            and not rowcache_awaited(p, p.cache_first.base, p.cache_first.base + p.cache_first.n)):
        rowcache_drop(p)

cdef void rowcache_drop(Partition* p) noexcept nogil:
    # Drops the oldest row of a partition. Requires book.lock.
    cdef CachedRow* r = p.cache_first
    p.cache_first = r.newer
    if p.cache_first == NULL:
        p.cache_last = NULL
    link_del(<Links*>&rowcache.first, &r.link)
    rowcache.bytes -= r.bytes
    r.dropped = True
    if r.refs == 0:
        free(r)
