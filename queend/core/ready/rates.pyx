# Rates over all partitions: the tokens that this process holds. A token lets one message be delivered. A bucket belongs
# to a group, or to all groups of a queue together. In: pops; slices of the database's buckets. Out: pops with tokens,
# and waiters; the statement that takes tokens. Owner: the process; guarded by book.lock, below catalog.lock. A queue
# without such rates costs one comparison.

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
        waiters_name_wake_queue(q, slice_of(NULL, 0), wake)

# ---- tokens from the database ----------------------------------------------------------------------------------------
# A slice of a bucket is at most 250 ms old; older tokens are given back. The first worker asks, with one statement at a
# time for all rates that need tokens. If a process dies, its tokens are lost: fewer messages are delivered, never more.

cdef void rates_drain(Engine* e) noexcept nogil:
    cdef Slices* s = &e.rates
    cdef RateArgs* a
    cdef Queue* q
    cdef Group* g
    cdef int64_t now = clock_mono_us()
    cdef int64_t due = 0
    cdef int64_t waiting
    cdef PopJob* wake = NULL
    if s.busy or book.rates_at > now:
        return
    if slotpool_take(e.slots) == NULL:
        book.rates_at = now + 10 * RATE_LEAST_US
        return
    call_begin(&s.call, e, STMT_RATES_TAKE, rates_done)
    a = <RateArgs*>e.args.at
    s.n = 0
    index_lock_all()
    book.rates_at = 0
    q = catalog.shared
    while q != NULL:
        rates_turn(q, &wake)
        waiting = 0
        g = q.group_list
        while g != NULL:
            if q.shared & SHARED_GROUP and not g.dead:
                rate_ask(s, a, &g.rate, q, g, g.paced_first.req.batch if g.n_paced else 0, now, &due)
            if g.n_paced:
                waiting += g.paced_first.req.batch
            g = g.next
        if q.shared & SHARED_QUEUE:
            rate_ask(s, a, &q.rate, q, NULL, min(waiting, RATE_WANT), now, &due)
        rates_resume(q, now, &due, &wake)
        q = q.shared_next
    if due:
        rates_look(due, False)
    index_unlock_all(e.worker, wake)
    if s.n:
        s.busy = True
        call_send(&s.call)
    else:
        arena_close(&s.call.arena)

cdef void rate_ask(Slices* s, RateArgs* a, Rate* r, Queue* q, Group* g, int64_t waiting, int64_t now,
                   int64_t* due) noexcept nogil:
    # Adds a rate to the statement if it needs tokens or gives some back; else notes when it is due. Argument `waiting`
    # counts the tokens that some of its waiters would take. Requires book.lock.
    cdef int64_t back = 0
    cdef int64_t next_us
    cdef RateAsk* asks
    if r.tokens <= 0 and r.want < waiting:
        r.want = <int>waiting
    if r.tokens > 0 and r.until_us <= now and r.want == 0:
        back = r.tokens
    if back == 0 and (r.want == 0 or r.next_us > now):
        next_us = r.next_us if r.next_us > now and r.want else r.until_us if r.tokens > 0 else 0
        if next_us and (due[0] == 0 or next_us < due[0]):
            due[0] = next_us
        return
    if s.n == s.room:
        asks = <RateAsk*>realloc(s.asks, (s.room * 2 + 16) * sizeof(RateAsk))
        if asks == NULL:
            due[0] = now + RATE_PAUSE_US
            return
        s.asks = asks
        s.room = s.room * 2 + 16
    s.asks[s.n].queue = q.id
    s.asks[s.n].group = g.id if g != NULL else GROUP_EVERY
    s.n += 1
    pgarray_int4(&a.queue, q.id)
    pgarray_int4(&a.group, g.id if g != NULL else GROUP_EVERY)
    pgarray_int4(&a.want, r.want)
    pgarray_int4(&a.back, <int>back)
    r.tokens -= back
    r.want = 0

cdef void rates_resume(Queue* q, int64_t now, int64_t* due, PopJob** wake) noexcept nogil:
    # Wakes pops by namespace or task if a group has tokens again, or notes when it may. Requires book.lock.
    cdef Group* g = q.group_list
    cdef int64_t at
    while g != NULL:
        if book.n_name_waiters and g.n_ready:
            at = rate_next(g)
            if at > now:
                if due[0] == 0 or at < due[0]:
                    due[0] = at
            elif at:
                waiters_name_wake_queue(q, slice_of(NULL, 0), wake)
        g = g.next

# Columns of rates_take.
cdef enum:
    RATES_TAKE_ORD = 0
    RATES_TAKE_GRANTED
    RATES_TAKE_NEXT_AT

cdef void rates_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = c.engine
    cdef Slices* s = &e.rates
    cdef int row, i
    cdef Queue* q
    cdef Queue* before = NULL
    cdef Group* g
    cdef Rate* r
    cdef PopJob* wake = NULL
    cdef int64_t now = clock_mono_us()
    cdef int64_t wall = clock_db_at(now)
    cdef int64_t at
    s.busy = False
    if outcome == SLOT_ERROR:
        log_line(b"error", b"rates_refused", pg_error(res))
    index_lock_all()
    for row in range(s.n):
        i = pg_int4(res, row, RATES_TAKE_ORD) if outcome == SLOT_OK and row < PQntuples(res) else row
        q = catalog_queue_id(s.asks[i].queue) if 0 <= i < s.n else NULL
        g = catalog_group_id(q, s.asks[i].group) if q != NULL and s.asks[i].group != GROUP_EVERY else NULL
        r = &g.rate if g != NULL else &q.rate if q != NULL and s.asks[i].group == GROUP_EVERY else NULL
        if before is not q and before != NULL:
            rates_answered(before, &wake)
        before = q
        if r == NULL:
            continue
        if outcome == SLOT_OK and row < PQntuples(res):
            r.tokens += pg_int4(res, row, RATES_TAKE_GRANTED)
            at = pg_int8(res, row, RATES_TAKE_NEXT_AT)
            # at most RATE_AGAIN_US later: another daemon may give back what it does not use
            r.next_us = now + min(max(at - wall, RATE_LEAST_US), RATE_AGAIN_US) if at else 0
            if r.tokens > 0:
                r.until_us = now + RATE_HELD_US
        else:
            r.next_us = now + RATE_PAUSE_US
    if before != NULL:
        rates_answered(before, &wake)
    rates_look(1, False)      # looks at once if something is due
    index_unlock_all(e.worker, wake)
