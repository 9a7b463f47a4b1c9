# Rates over all partitions: the tokens this process holds. One token lets one message be delivered. The bucket of a
# group, or of all groups of a queue together, stands in the database; a slice of it is here (find/rates gets it).
# Before a pop asks the database for messages it takes a token for each that it may bring; those it did not use go
# back. A pop that finds no token waits in a list of its group. A queue without such rates pays one look at a number.
# Guarded by the book's lock.

cdef inline bint rate_none(const Rate* r, int64_t now) noexcept nogil:
    # The bucket is known to be empty, and nothing of it is here.
    return r.tokens <= 0 and r.next_us > now

cdef bint rate_empty(Group* g) noexcept nogil:
    # Is it known that nothing may be delivered to the group for a while?
    cdef int64_t now = clock_mono_us()
    cdef int64_t shared = g.queue.shared
    return (shared & SHARED_GROUP and rate_none(&g.rate, now)
            or shared & SHARED_QUEUE and rate_none(&g.queue.rate, now))

cdef void rates_look(int64_t at) noexcept nogil:
    # The first worker looks at the rates then.
    if book.rates_at == 0 or at < book.rates_at:
        book.rates_at = at
        if at == 1:
            boss_wake()

cdef int rate_has(Rate* r, int wanted, bint waited, int64_t now) noexcept nogil:
    # How many of so many tokens. Fewer are here: more are asked for, and who has not waited for them yet does.
    if r.tokens >= wanted:
        return wanted
    if r.next_us > now:
        return <int>r.tokens if r.tokens > 0 else 0
    if r.tokens > 0 and waited:
        return <int>r.tokens
    r.want = min(r.want + wanted, RATE_WANT)
    rates_look(1)
    return 0

cdef int rate_reserve(PopJob* j) noexcept nogil:
    # How many messages it may take; 0: it waits for tokens.
    cdef int64_t now = clock_mono_us()
    cdef int64_t shared = j.queue.shared
    cdef int own = j.req.batch
    cdef int all = j.req.batch
    if shared & SHARED_GROUP:
        own = rate_has(&j.group.rate, own, j.waited, now)
    if shared & SHARED_QUEUE:
        all = rate_has(&j.queue.rate, all, j.waited, now)
    j.reserved = own if own < all else all
    if j.reserved == 0:
        j.waited = True
        return 0
    j.waited = False
    j.shared = <int>(shared & SHARED_BITS)
    if shared & SHARED_GROUP:
        j.group.rate.tokens -= j.reserved
    if shared & SHARED_QUEUE:
        j.queue.rate.tokens -= j.reserved
    return j.reserved

cdef void rate_settle(PopJob* j, int64_t took, PopJob** wake) noexcept nogil:
    # So many messages it brought: the other tokens are for others.
    cdef int64_t left = j.reserved - took
    if j.reserved == 0:
        return
    j.reserved = 0
    if left <= 0:
        return
    if j.shared & SHARED_GROUP:
        j.group.rate.tokens += left
    if j.shared & SHARED_QUEUE:
        j.queue.rate.tokens += left
    rates_look(clock_mono_us() + RATE_HELD_US)
    rates_turn(j.queue, wake)

cdef void rates_turn(Queue* q, PopJob** wake) noexcept nogil:
    # Those who wait for tokens try again, as many as there are tokens for: one of each group in turn, and the group
    # that was served last comes last.
    cdef int64_t all = q.rate.tokens if q.shared & SHARED_QUEUE else RATE_WANT
    cdef Group* g = q.group_list
    cdef Group* begin
    cdef bint woken = True
    while g != NULL and g.id != q.turn:
        g = g.next
    begin = g.next if g != NULL and g.next != NULL else q.group_list
    g = q.group_list
    while g != NULL:
        g.given = 0
        g = g.next
    while woken and all > 0:
        woken = False
        g = begin
        while g != NULL and all > 0:
            if g.paced_first != NULL and (not q.shared & SHARED_GROUP or g.given < g.rate.tokens):
                g.given += g.paced_first.req.batch
                all -= g.paced_first.req.batch
                wake_push(g.paced_first, wake)
                q.turn = g.id
                woken = True
            g = g.next if g.next != NULL else q.group_list
            if g is begin:
                break

cdef void rates_answered(Queue* q, PopJob** wake) noexcept nogil:
    # The database has said what there is. Those who cannot wait, or may find something in another queue, try again
    # where there is nothing.
    cdef Group* g = q.group_list
    cdef PopJob* j
    cdef PopJob* following
    cdef bint some = False
    rates_turn(q, wake)
    while g != NULL:
        if rate_empty(g):
            j = g.paced_first
            while j != NULL:
                following = j.wait_next
                if j.until_us == 0 or j.any_queue:
                    wake_push(j, wake)
                j = following
        elif g.n_ready:
            some = True
        g = g.next
    if some and book.n_name_waiters:
        book_wake_name_waiters(q, slice_of(NULL, 0), wake)

cdef void rates_changed(Queue* q) noexcept nogil:
    # Other rates: what was said of the former ones counts no more.
    cdef Group* g
    uv_mutex_lock(&book.lock)
    q.rate.next_us = 0
    g = q.group_list
    while g != NULL:
        g.rate.next_us = 0
        g = g.next
    uv_mutex_unlock(&book.lock)
