# Tokens of rates over all partitions (ready/rates), taken from the database. In: the tokens that pops lack. Out: slices
# of the buckets, at most 250 ms old; older tokens are given back. Owner: the first worker, with one statement at a time
# for all rates that need one. If a process dies, its tokens are lost: fewer messages are delivered, never more. Locks:
# catalog.lock, then book.lock.

cdef void buckets_drain(Engine* e) noexcept nogil:
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
    call_begin(&s.call, e, STMT_RATES_TAKE, buckets_done)
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
                bucket_ask(s, a, &g.rate, q, g, g.paced_first.req.batch if g.n_paced else 0, now, &due)
            if g.n_paced:
                waiting += g.paced_first.req.batch
            g = g.next
        if q.shared & SHARED_QUEUE:
            bucket_ask(s, a, &q.rate, q, NULL, min(waiting, RATE_WANT), now, &due)
        buckets_resume(q, now, &due, &wake)
        q = q.shared_next
    if due:
        rates_look(due, False)
    index_unlock_all(e.worker, wake)
    if s.n:
        s.busy = True
        call_send(&s.call)
    else:
        arena_close(&s.call.arena)

cdef void bucket_ask(Slices* s, RateArgs* a, Rate* r, Queue* q, Group* g, int64_t waiting, int64_t now,
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

cdef void buckets_resume(Queue* q, int64_t now, int64_t* due, PopJob** wake) noexcept nogil:
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
                namewaiters_wake_queue(q, slice_of(NULL, 0), wake)
        g = g.next

# Columns of rates_take.
cdef enum:
    RATES_TAKE_ORD = 0
    RATES_TAKE_GRANTED
    RATES_TAKE_NEXT_AT

cdef void buckets_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    cdef Engine* e = c.engine
    cdef Slices* s = &e.rates
    cdef int row, i
    cdef Queue* q
    cdef Queue* before = NULL
    cdef Group* g
    cdef Rate* r
    cdef PopJob* wake = NULL
    cdef int64_t now = clock_mono_us()
    cdef int64_t wall = dbclock_at(now)
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
