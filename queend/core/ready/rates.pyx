# Rates over all partitions: the tokens that this process holds. A token lets one message be delivered. A bucket belongs
# to a group, or to all groups of a queue together. In: pops, and slices of the database's buckets (find/buckets). Out:
# pops with tokens, and waiters. Owner: the process; guarded by book.lock. A queue without such rates costs one
# comparison.

# ---- the state of a bucket -------------------------------------------------------------------------------------------

cdef int64_t rate_next(Group* g) noexcept nogil:
    # Returns when the group may have tokens again; 0: now.
    cdef int64_t at = 0
    if g.queue.shared & SHARED_GROUP and g.rate.tokens <= 0:
        at = g.rate.next_us
    if g.queue.shared & SHARED_QUEUE and g.queue.rate.tokens <= 0:
        at = max(at, g.queue.rate.next_us)
    return at

cdef inline bint rate_empty(Group* g) noexcept nogil:
    # Returns True if the group is known to have no tokens before a later moment.
    return rate_next(g) > clock_mono_us()

cdef void rates_look(int64_t at, bint soon) noexcept nogil:
    # Schedules a look at the rates by the first worker. soon: also wakes it, as it may sleep until later.
    if book.rates_at == 0 or at < book.rates_at:
        book.rates_at = at
        if soon:
            waiters_post_leader(waiters_leader_woken)

cdef void rates_changed(Queue* q) noexcept nogil:
    # Forgets what was said of the former rates of a queue.
    cdef Group* g
    uv_mutex_lock(&book.lock)
    q.rate.next_us = 0
    g = q.group_list
    while g != NULL:
        g.rate.next_us = 0
        g = g.next
    uv_mutex_unlock(&book.lock)

# ---- tokens for a pop ------------------------------------------------------------------------------------------------
# Before a pop asks the database for messages, it takes a token for each that it may bring. Unused tokens go back.

cdef int rate_has(Rate* r, int wanted, bint waited, int64_t now) noexcept nogil:
    # Returns how many of the wanted tokens are here. If there are fewer, asks for more, and a pop that has not waited
    # yet waits.
    if r.tokens >= wanted:
        return wanted
    if r.next_us > now:
        if r.tokens <= 0:
            rates_look(r.next_us, True)       # no pop may have waited at the last look
        return <int>max(r.tokens, 0)
    if r.tokens > 0 and waited:
        return <int>r.tokens
    r.want = min(r.want + wanted, RATE_WANT)
    rates_look(1, True)
    return 0

cdef int rate_reserve(PopJob* j) noexcept nogil:
    # Reserves tokens for a pop. Returns how many messages it may take; 0: it waits for tokens.
    cdef int64_t now = clock_mono_us()
    cdef int64_t shared = j.queue.shared
    cdef int own = j.req.batch
    cdef int all = j.req.batch
    if j.reserved:
        return j.reserved     # the pop was woken with tokens
    if shared & SHARED_GROUP:
        own = rate_has(&j.group.rate, own, j.waited, now)
    if shared & SHARED_QUEUE:
        all = rate_has(&j.queue.rate, all, j.waited, now)
    rate_hold(j, min(own, all))
    j.waited = j.reserved == 0
    return j.reserved

cdef inline void rate_hold(PopJob* j, int n) noexcept nogil:
    # Gives n tokens that are here to a pop.
    j.reserved = n
    j.shared = <int>(j.queue.shared & SHARED_BITS)
    if j.shared & SHARED_GROUP:
        j.group.rate.tokens -= n
    if j.shared & SHARED_QUEUE:
        j.queue.rate.tokens -= n

cdef void rate_settle(PopJob* j, int64_t took, PopJob** wake) noexcept nogil:
    # Settles the tokens of a pop that brought `took` messages: unused tokens are for others.
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

# ---- tokens for waiters ----------------------------------------------------------------------------------------------
# A pop without tokens waits in a list of its group. It is woken with tokens that it holds: no later pop can take them
# away.

cdef inline bint rate_serve(PopJob* j) noexcept nogil:
    # Gives a waiting pop as many tokens as are here and it takes. Returns False if there are none.
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

cdef void rates_turn(Queue* q, PopJob** wake) noexcept nogil:
    # Gives tokens to waiters: to one of each group in turn. The group that was served last comes last.
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
            if g.paced_first != NULL and rate_serve(g.paced_first):
                waiters_wake(g.paced_first, wake)
                q.turn = g.id
                woken = True
            g = g.next if g.next != NULL else q.group_list
            if g is begin:
                break

cdef void rates_answered(Queue* q, PopJob** wake) noexcept nogil:
    # Gives out tokens after an answer of the database. If a group has none, its pops that cannot wait, or may find
    # messages in another queue, try again.
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
                    waiters_wake(j, wake)
                j = following
        elif g.n_ready:
            some = True
        g = g.next
    if some and book.n_name_waiters:
        namewaiters_wake_queue(q, slice_of(NULL, 0), wake)
