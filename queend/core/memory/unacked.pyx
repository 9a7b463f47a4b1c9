# Unacknowledged deliveries of this daemon: lease, offsets and record ids of each, and which of the leases a feed holds.
# In: claims that were made; acknowledgments and lease expiries. Out: deliveries by (partition, group), so that an
# acknowledgment in order need not read the log (settle/leasedack); credit of feeds. Owner: the process; guarded by
# book.lock. All of it is a hint: if nothing is found here, queend.ack reads the log. PostgreSQL checks lease and cursor
# in any case.

cdef enum:
    UNACKED_BYTES = 16777216     # of memory in all: some 18 000 leases of 50 records

cdef struct UnackedAll:
    Table table
    Unacked* oldest
    Unacked* newest
    size_t bytes

cdef UnackedAll unacked

cdef void unacked_close() noexcept nogil:
    while unacked.oldest != NULL:
        unacked_forget(unacked.oldest)
    table_free(&unacked.table)
    table_free(&feed_leases)

# ---- deliveries ------------------------------------------------------------------------------------------------------
# There is one entry per (partition, group), the newest. An entry is forgotten when its lease expires. If all entries
# together pass UNACKED_BYTES, the oldest ones are forgotten.

cdef inline uint64_t unacked_key(Cursor* c) noexcept nogil:
    return table_pair(c.partition.id, c.group.id)

cdef void unacked_claim(Claim* claim, PGresult* res) noexcept nogil:
    # Remembers a claim. res: the answer that holds its rows, if its records come from the log.
    cdef Unacked* h = unacked_begin(claim)
    if h == NULL:
        pass
    elif claim.cached != NULL:
        unacked_cached(h, claim)
    elif claim.pushed != NULL:
        unacked_pushed(h, claim)
    else:
        unacked_rows(h, claim, res)

cdef Unacked* unacked_begin(Claim* claim) noexcept nogil:
    # Notes that the records of a claim are leased; the caller fills in their ids and the base. Returns NULL if the
    # claim is not remembered.
    cdef size_t bytes = sizeof(Unacked) + 16 * <size_t>claim.take
    cdef Cursor* c = claim.cursor
    cdef Unacked* h
    unacked_end(unacked_key(c))
    autopilot_claimed(&c.group.handling, claim.take)
    if c.fed != NULL:
        unacked_feed_end(c)   # an earlier lease of the cursor
    if c.dead:
        return NULL
    h = <Unacked*>malloc(bytes)
    if h == NULL:
        return NULL
    memset(h, 0, sizeof(Unacked))
    h.key = unacked_key(c)
    if not table_put(&unacked.table, h.key, h):
        free(h)
        return NULL
    memcpy(h.lease, claim.job.lease, 16)
    h.leased_us = clock_mono_us()
    h.first = claim.first - claim.passed
    h.passed = claim.passed
    h.n = claim.take
    h.place = claim.place
    h.ids = <unsigned char*>h + sizeof(Unacked)
    link_add(<Links*>&unacked.oldest, &h.link)
    unacked.bytes += bytes
    while unacked.bytes > UNACKED_BYTES and unacked.oldest is not h:
        unacked_forget(unacked.oldest)
    return h

cdef void unacked_rows(Unacked* h, Claim* c, PGresult* res) noexcept nogil:
    # Fills in a claim of records in the log.
    cdef int row = c.row
    cdef int ord = pg_int4(res, row, POP_ORD)
    cdef int n = 0
    cdef int at, take
    cdef Slice ids
    h.afar = True
    while row < PQntuples(res) and pg_int4(res, row, POP_ORD) == ord:
        ids = pg_bytes(res, row, POP_IDS)
        at = <int>(pg_int8(res, row, POP_FIRST) - pg_int8(res, row, POP_BASE))
        take = pg_int4(res, row, POP_TAKE)
        if ids.n < 16 * <size_t>(at + take) or n + take > c.take:
            unacked_forget(h)
            return
        memcpy(h.ids + 16 * n, ids.p + 16 * at, 16 * <size_t>take)
        n += take
        h.base = pg_int8(res, row, POP_BASE)
        if at + take == pg_int4(res, row, POP_N):
            h.base += at + take
        row += 1

cdef void unacked_cached(Unacked* h, Claim* c) noexcept nogil:
    # Fills in a claim of records in memory.
    cdef int64_t stop = c.first + c.take
    cdef int64_t at = c.first
    cdef int64_t upto
    cdef CachedRow* r = c.cached
    h.base = popjob_base(c, stop)
    while r != NULL:
        upto = r.base + r.n if r.base + r.n < stop else stop
        memcpy(h.ids + 16 * (at - c.first), r.ids.p + 16 * (at - r.base), <size_t>(16 * (upto - at)))
        at = upto
        r = popjob_next(c, r)

cdef void unacked_pushed(Unacked* h, Claim* c) noexcept nogil:
    # Fills in a claim of records that a push has just stored.
    cdef PushItem* it = c.pushed.first
    cdef int take
    cdef int n = 0
    h.base = c.first + c.take if c.take == c.pushed.n else c.first
    while n < c.take and it != NULL:
        if it.run == NULL:
            memcpy(h.ids + 16 * n, it.id, 16)
            n += 1
        else:
            take = it.run.n if it.run.n < c.take - n else c.take - n
            memcpy(h.ids + 16 * n, it.run.ids, 16 * <size_t>take)
            n += take
        it = it.next

# ---- the end of a delivery -------------------------------------------------------------------------------------------

cdef void unacked_acked(Unacked* h, int n, bint released, int64_t now, Handling* seen, int together) noexcept nogil:
    # Notes that the first n records were acknowledged; released: the lease has ended with them. When all are back, they
    # count in `seen`, the handling of the group, as part of `together`. NULL: another delivery counted.
    if released or n >= h.n:
        if seen != NULL:
            autopilot_done(seen, now - h.leased_us, max(together, h.done + h.n))
        unacked_forget(h)
        return
    h.first += n
    h.done += n
    h.n -= n
    h.place = 0               # the acknowledgment wrote the cursor
    h.flying = False

cdef void unacked_expired(Cursor* c, int64_t now) noexcept nogil:
    # Forgets the delivery of a cursor whose lease expired, and counts how long it took.
    cdef Unacked* h = <Unacked*>table_get(&unacked.table, unacked_key(c))
    if h != NULL:
        autopilot_done(&c.group.handling, now - h.leased_us, h.done + h.n)
        unacked_forget(h)

cdef void unacked_end(uint64_t key) noexcept nogil:
    # Forgets the delivery of a cursor whose lease is over.
    cdef Unacked* h = <Unacked*>table_get(&unacked.table, key)
    if h != NULL:
        unacked_forget(h)

cdef void unacked_forget(Unacked* h) noexcept nogil:
    table_del(&unacked.table, h.key)
    link_del(<Links*>&unacked.oldest, &h.link)
    unacked.bytes -= sizeof(Unacked) + 16 * <size_t>(h.done + h.n)
    free(h)

# ---- leases that feeds hold ------------------------------------------------------------------------------------------
# In: claims that feeds were given (feed/feed). Out: a message to the feed's worker when a lease is over: acknowledged
# by any client, given back or expired. The feed then has that much credit again.

cdef Table feed_leases        # by lease: the first FeedLease of each

cdef inline uint64_t unacked_feed_key(const unsigned char* lease) noexcept nogil:
    cdef uint64_t key
    memcpy(&key, lease, 8)    # lease ids are random
    return key | 1

cdef bint unacked_feed_begin(Feed* f, Cursor* c, const unsigned char* lease, int n) noexcept nogil:
    # Notes that n messages under a lease are out to a feed. Returns False if memory ran out: they do not count.
    cdef FeedLease* x
    if c.fed != NULL:
        unacked_feed_end(c)
    x = <FeedLease*>malloc(sizeof(FeedLease))
    if x == NULL:
        return False
    x.feed = f
    x.cursor = c
    x.n = n
    memcpy(x.lease, lease, 16)
    link_add(<Links*>&f.out, &x.link)
    c.fed = x
    if not c.dead:            # the group of a dead cursor may be freed first
        c.group.n_fed += 1
    x.alike = unacked_feed_find(lease)
    if not table_put(&feed_leases, unacked_feed_key(lease), x):
        x.alike = NULL        # an extension does not find it
    return True

cdef FeedLease* unacked_feed_find(const unsigned char* lease) noexcept nogil:
    # Returns the first entry of a lease, NULL if none is known. The others follow by `alike`.
    cdef FeedLease* x = <FeedLease*>table_get(&feed_leases, unacked_feed_key(lease))
    return x if x != NULL and memcmp(x.lease, lease, 16) == 0 else NULL

cdef void unacked_feed_end(Cursor* c) noexcept nogil:
    # Ends the lease of a cursor's feed and gives the feed its credit back.
    cdef Feed* f = c.fed.feed
    f.returned += c.fed.n
    unacked_feed_drop(c.fed)
    if not f.posted:
        f.posted = thread_post(&f.worker.inbox, &f.msg)

cdef void unacked_feed_drop(FeedLease* x) noexcept nogil:
    catalog_unchain(&feed_leases, unacked_feed_key(x.lease), x, &x.alike)
    x.cursor.fed = NULL
    if not x.cursor.dead:
        x.cursor.group.n_fed -= 1
    link_del(<Links*>&x.feed.out, &x.link)
    free(x)
