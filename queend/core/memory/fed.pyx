# Leases that are out to feeds, which are streams of messages (feed/feed). In: claims that feeds were given. Out: a
# message to the feed's worker when a lease is over (acknowledged here or elsewhere, given back, expired). The feed then
# has that much credit again. Owner: the process; guarded by book.lock.

cdef Table fed_leases         # by lease: the first Fed of each

cdef bint fed_begin(Feed* f, Cursor* c, const unsigned char* lease, int n) noexcept nogil:
    # Notes that n messages under a lease are out to a feed. Returns False if memory ran out: they do not count.
    cdef Fed* x
    if c.fed != NULL:
        fed_over(c)
    x = <Fed*>malloc(sizeof(Fed))
    if x == NULL:
        return False
    x.feed = f
    x.cursor = c
    x.n = n
    memcpy(x.lease, lease, 16)
    x.prev = NULL
    x.next = f.out
    if f.out != NULL:
        f.out.prev = x
    f.out = x
    c.fed = x
    if not c.dead:            # the group of a dead cursor may be freed first
        c.group.n_fed += 1
    x.alike = fed_of(lease)
    if not table_put(&fed_leases, fed_key(lease), x):
        x.alike = NULL        # an extension does not find it
    return True

cdef inline uint64_t fed_key(const unsigned char* lease) noexcept nogil:
    cdef uint64_t key
    memcpy(&key, lease, 8)    # lease ids are random
    return key | 1

cdef Fed* fed_of(const unsigned char* lease) noexcept nogil:
    # Returns the first entry of a lease, NULL if none is known. The others follow by `alike`.
    cdef Fed* x = <Fed*>table_get(&fed_leases, fed_key(lease))
    return x if x != NULL and memcmp(x.lease, lease, 16) == 0 else NULL

cdef void fed_drop(Fed* x) noexcept nogil:
    cdef Fed* y = fed_of(x.lease)
    if y is x and x.alike != NULL:
        table_put(&fed_leases, fed_key(x.lease), x.alike)
    elif y is x:
        table_del(&fed_leases, fed_key(x.lease))
    else:
        while y != NULL and y.alike is not x:
            y = y.alike
        if y != NULL:
            y.alike = x.alike
    x.cursor.fed = NULL
    if not x.cursor.dead:
        x.cursor.group.n_fed -= 1
    if x.prev != NULL:
        x.prev.next = x.next
    else:
        x.feed.out = x.next
    if x.next != NULL:
        x.next.prev = x.prev
    free(x)

cdef void fed_over(Cursor* c) noexcept nogil:
    # Ends the lease of a cursor's feed and gives the feed its credit back.
    cdef Feed* f = c.fed.feed
    f.returned += c.fed.n
    fed_drop(c.fed)
    if not f.posted:
        f.posted = inbox_put(&f.worker.inbox, &f.msg)
