# Whether jobs wait for company when no statement is in flight. Clients that were answered together come back together: sent
# at once, the first of them would leave alone and the others behind it, two statements and two commits where one does. So
# after a statement of several jobs those it answered are awaited for a moment, most of them, not the last. Where they do not
# come (their clients are busy) nobody waits for a while, twice as long each time. Pure: time comes in.

cdef void company_ended(Company* c, int answered, int gathered, int64_t now) noexcept nogil:
    # A statement answered so many jobs while others gathered; none is in flight now.
    c.expected = 0
    if answered + gathered < COMPANY_LEAST:
        return
    if c.skip > 0:
        c.skip -= 1
        return
    c.expected = (answered + gathered) * 3 // 4
    c.until_us = now + COMPANY_US

cdef int64_t company_wait(Company* c, int jobs, int64_t now) noexcept nogil:
    # How many microseconds `jobs` jobs still wait; 0: they go.
    if c.expected == 0:
        return 0
    if jobs < c.expected and now < c.until_us:
        return c.until_us - now
    if jobs >= c.expected:
        c.misses = 0
    else:
        c.misses = c.misses + 1 if c.misses < COMPANY_SKIPS else COMPANY_SKIPS
        c.skip = 1 << c.misses
    c.expected = 0
    return 0
