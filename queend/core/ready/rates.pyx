# Rates over all partitions: the tokens this process holds. One token lets one message be delivered. The bucket of a
# group, or of all groups of a queue together, stands in the database; a slice of it is here (find/rates gets it).
# Before a pop asks the database for messages it takes a token for each that it may bring; those it did not use go
# back. A pop that finds no token waits in a list of its group, and is woken with tokens in hand: whoever comes between
# cannot take them away. A queue without such rates pays one look at a number.
# Guarded by the book's lock.

cdef int64_t rate_next(Group* g) noexcept nogil:
    # When there may be something for the group again; 0: now.
    cdef int64_t at = 0
    if g.queue.shared & SHARED_GROUP and g.rate.tokens <= 0:
        at = g.rate.next_us
    if g.queue.shared & SHARED_QUEUE and g.queue.rate.tokens <= 0:
        at = max(at, g.queue.rate.next_us)
    return at

cdef inline bint rate_empty(Group* g) noexcept nogil:
    # Is it known that nothing may be delivered to the group for a while?
    return rate_next(g) > clock_mono_us()

cdef void rates_look(int64_t at, bint soon) noexcept nogil:
    # The first worker looks at the rates then. soon: it may sleep until later, and is told.
    if book.rates_at == 0 or at < book.rates_at:
        book.rates_at = at
        if soon:
            boss_wake()

cdef int rate_has(Rate* r, int wanted, bint waited, int64_t now) noexcept nogil:
    # How many of so many tokens. Fewer are here: more are asked for, and who has not waited for them yet does.
    if r.tokens >= wanted:
        return wanted
    if r.next_us > now:
        if r.tokens <= 0:
            rates_look(r.next_us, True)       # nobody may have waited when it was looked last
        return <int>max(r.tokens, 0)
    if r.tokens > 0 and waited:
        return <int>r.tokens
    r.want = min(r.want + wanted, RATE_WANT)
    rates_look(1, True)
    return 0

cdef int rate_reserve(PopJob* j) noexcept nogil:
    # How many messages it may take; 0: it waits for tokens.
    cdef int64_t now = clock_mono_us()
    cdef int64_t shared = j.queue.shared
    cdef int own = j.req.batch
    cdef int all = j.req.batch
    if j.reserved:
        return j.reserved     # it was woken with them
    if shared & SHARED_GROUP:
        own = rate_has(&j.group.rate, own, j.waited, now)
    if shared & SHARED_QUEUE:
        all = rate_has(&j.queue.rate, all, j.waited, now)
    rate_hold(j, min(own, all))
    j.waited = j.reserved == 0
    return j.reserved

cdef inline void rate_hold(PopJob* j, int n) noexcept nogil:
    # So many tokens, which are there, are its own.
    j.reserved = n
    j.shared = <int>(j.queue.shared & SHARED_BITS)
    if j.shared & SHARED_GROUP:
        j.group.rate.tokens -= n
    if j.shared & SHARED_QUEUE:
        j.queue.rate.tokens -= n

cdef inline bint rate_hands(PopJob* j) noexcept nogil:
    # It has waited: what there is now, as far as it takes it, is its own. False: there is nothing.
    cdef int64_t n = j.req.batch
    if j.queue.shared & SHARED_GROUP:
        n = min(n, j.group.rate.tokens)
    if j.queue.shared & SHARED_QUEUE:
        n = min(n, j.queue.rate.tokens)
    if n <= 0:
        return False
    rate_hold(j, <int>n)
    j.waited = False
    return True

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
    rates_look(clock_mono_us() + RATE_HELD_US, False)
    rates_turn(j.queue, wake)

cdef void rates_turn(Queue* q, PopJob** wake) noexcept nogil:
    # What there is goes to those who wait for it: to one of each group in turn, and the group that was served last
    # comes last.
    cdef Group* g = q.group_list
    cdef Group* begin
    cdef bint woken = True
    while g != NULL and g.id != q.turn:
        g = g.next
    begin = g.next if g != NULL and g.next != NULL else q.group_list
    while woken:
        woken = False
        g = begin
        while g != NULL:
            if g.paced_first != NULL and rate_hands(g.paced_first):
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
