# An appender writes messages to the log, one statement after another. In: items whose partitions are known. Out: items
# with offset, time and status, back to their requests after the commit. An appender has at most one batch in flight and
# gathers the next meanwhile. It has no timer: the batch grows with the database's latency. Owner: the thread of the
# appender's worker.

# ---- appenders and their lanes ---------------------------------------------------------------------------------------
# A fixed number of appenders is divided among the workers. The lane of a partition is its id mod 64; PostgreSQL locks a
# lane as one. The appender of a partition is its lane mod number of appenders. So all items of a partition go through
# the same appender.

cdef enum:
    LINGER_ITEMS = 512        # items of a batch that waits for clients to return
    BUFFER_TRIES = 4          # tries of a batch that the database cannot take; then the failover buffer gets it
    STUCK_TRIES = 4           # slow statements for a partition of which none stored anything; then its lane is held
    STUCK_US = 1000000        # a statement without a result is slow from this time on

cdef Appender* appenders      # process-wide: n_appenders with lanes, then the id loader of each (Appender.side)
cdef int n_appenders
cdef int appenders_all

cdef bint appender_open(Process* p) noexcept nogil:
    global appenders, n_appenders, appenders_all
    cdef int i
    cdef int n = min(p.settings.push_streams, p.settings.types[<int>TYPE_PUSH].max_concurrent)
    appenders = <Appender*>calloc(2 * n, sizeof(Appender))
    if appenders == NULL:
        return False
    n_appenders = n
    appenders_all = 2 * n
    for i in range(n):
        appenders[i].side = &appenders[n + i]
        appenders[n + i].main = appenders[i].main = &appenders[i]
        appenders[i].worker = p.workers[i % p.n]
        appenders[n + i].worker = appenders[i].worker
        linger_of_type(&p.settings, &appenders[i].linger, TYPE_PUSH, &LINGER_PUSH)
        linger_of_type(&p.settings, &appenders[n + i].linger, TYPE_PUSH, &LINGER_PUSH)
        appenders[n + i].linger.patient = False     # its items have waited already
    return True

cdef inline int appender_count(Worker* w) noexcept nogil:
    # Returns the number of appenders that work in w.
    cdef int workers = w.settings.workers
    return n_appenders // workers + (w.index < n_appenders % workers)

cdef void appender_close() noexcept nogil:
    global appenders
    cdef int i
    cdef Appender* s
    cdef PushBatch* b
    for i in range(appenders_all):
        s = &appenders[i]
        while s.resend != NULL:
            b = s.resend
            s.resend = b.next
            batch_free(b)
        batch_free(s.gather)
        batch_free(s.flying)
        pushers_close(s)
    free(appenders)
    appenders = NULL

# ---- the next batch is sent ------------------------------------------------------------------------------------------

cdef void appender_drain(Appender* s) noexcept nogil:
    # Sends the next batch, if a slot is free. Requires that nothing is in flight.
    if s.stale:
        appender_expire(s)
        return
    if s.retry_at and clock_mono_us() < s.retry_at:
        return
    if s.resend == NULL and appender_lingers(s):
        return
    if slotpool_take(engine_of(s.worker).slots) == NULL:
        appender_expire(s)
        return
    appender_send(s, appender_next(s))

cdef bint appender_lingers(Appender* s) noexcept nogil:
    # Returns True if the gathering batch waits, for others or for clients that return.
    return linger_waits(engine_of(s.worker), &s.linger, &s.linger, s.gather.n_jobs, s.gather.begun_us, s.gather.n_items,
                        NULL)

cdef PushBatch* appender_next(Appender* s) noexcept nogil:
    cdef PushBatch* b = s.resend
    cdef PushPartition* g
    s.retry_at = 0
    if b != NULL:
        s.resend = b.next
        b.next = NULL
        return b
    b = s.gather
    g = b.first
    s.gather = NULL
    s.linger.expected = 0
    while g != NULL:
        g.partition.gathering = NULL      # it gathers in the next batch from now on
        g = g.next
    if s.main.pushers != NULL:
        pushers_turn(s.main)
    return b

cdef void appender_send(Appender* s, PushBatch* b) noexcept nogil:
    # Encodes and sends a batch. A batch that could not be sent is kept for later.
    cdef Engine* e = engine_of(s.worker)
    cdef PushArgs* a = <PushArgs*>e.args.at
    if catalog.n_sealed or catalog.n_limited or catalog.spreads or b.incarnation != catalog.incarnation:
        # Evicts items that have to be sealed, or spread, or need room (push/capacity). The database takes a batch only
        # under a version of the catalog that this process knows by now. So this process knows all such items too. If
        # the server was replaced, the partitions are looked up on the new one.
        b.incarnation = catalog.incarnation
        requeue_evict(s, b)
        if b.first == NULL:
            appender_drop(s, b)
            return
    if s.main is not s and idloader_load(s, b):
        return
    if b.since_us == 0:
        b.since_us = clock_mono_us()
    if not rows_cut(b):
        results_fail_all(s, b, FAILED_UNREACHED)
        return
    s.flying = b
    if s.main is s:
        e.slots.free_streams -= 1
    call_begin(&s.call, e, STMT_PUSH_DUE if b.scheduled else STMT_PUSH, appender_done)
    if spool.on and b.hurried:
        s.call.deadline_ms = min(s.call.deadline_ms, ANSWER_MS)
    if b.has_other:
        idset_batch_known(b, &a.known)
    if handover_choose(s, b) and b.has_other:
        idset_batch_known(b, &a.known)  # the batch may have fewer rows now
    handover_encode(s, b, &a.claims)
    logend_choose(b, slotpool_take(e.slots))
    rows_encode(b, &a.rows, &a.known, &a.hint, &e.pack)
    arg_bool(&a.compares, not b.uncompressed)
    s.worker.counters.op[OP_PUSH].calls += 1
    if b.n_chunks == 1 and b.n_claims <= 1 and a.known.look_row.n == 0 and not b.scheduled:
        s.call.statement = STMT_PUSH_ONE      # arrays of at most one element were written
        e.args.of = &STATEMENTS[<int>STMT_PUSH_ONE]
    call_send(&s.call)

cdef inline void appender_first(Appender* s, PushBatch* b) noexcept nogil:
    # Puts a batch before everything that was gathered.
    b.next = s.resend
    s.resend = b

cdef void appender_drop(Appender* s, PushBatch* b) noexcept nogil:
    # Frees a batch that is empty or has failed. A batch that was cut off the batch to be scattered next keeps that
    # one's memory (requeue_divide): it is freed after the scatter.
    if s.leaving:
        b.next = s.dropped
        s.dropped = b
    else:
        batch_free(b)

# ---- the answer ------------------------------------------------------------------------------------------------------

cdef void appender_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    # Handles the answer to a push. Sends the next batch first, then scatters the results of this one. So the database
    # never waits for our replies, unless their receivers are worth waiting for (appender_lingers).
    cdef Appender* s = <Appender*>c
    cdef PushBatch* b = s.flying
    cdef PushBatch* again
    cdef int waiting
    s.flying = NULL
    if s.main is s:
        c.engine.slots.free_streams += 1
    if outcome != SLOT_OK:
        appender_error(s, b, res, outcome)
        return
    if PQntuples(res) and pg_int4(res, 0, PUSH_ORD) == ORD_STALE:
        # The catalog changed in another process: reload, find the names again, send again.
        handover_undo(s, b, False)
        s.stale = True
        appender_first(s, b)
        catalog_want_reload(s.worker)
        return
    spool.doubt = False
    # without a row the batch was empty, because memory ran out
    b.expects = b.expects and PQntuples(res) and pg_int4(res, 0, PUSH_ORD) == ORD_NAMED
    idset_batch_learn(b, res)
    if logend_learn(b, res, s.call.sent_us):
        if s.main is s:
            idloader_take(s, b, res)
        results_compare(b, res)
        again = requeue_refused(s, b)
        if again != NULL:
            appender_first(s, again)
    if s.main is not s:
        idloader_return(s, b)
    # Clients that wait for their answers send again when they have them. Without a linger they fall into two halves
    # that take turns: half as many records per commit, and twice the fixed cost. Larger batches have spread that cost.
    waiting = s.gather.n_items if s.gather != NULL else 0
    s.linger.expected = 0
    if s.resend == NULL and b.n_items + waiting <= LINGER_ITEMS:
        linger_answered(&s.linger, b.n_items, waiting, c.ended_us - c.sent_us, c.ended_us)
    s.leaving = True
    if s.resend != NULL or s.gather != NULL and not appender_lingers(s):
        appender_send(s, appender_next(s))
    s.leaving = False
    results_scatter(s, b, res)
    while s.dropped != NULL:
        again = s.dropped
        s.dropped = again.next
        batch_free(again)

# ---- an error, or no answer ------------------------------------------------------------------------------------------

cdef void appender_error(Appender* s, PushBatch* b, PGresult* res, int outcome) noexcept nogil:
    cdef int64_t now = clock_mono_us()
    cdef const Verdict* v = sqlstate_of(res)
    cdef bint conflict = logend_conflict(b, res)
    cdef bint alone
    b.server_error = v if res != NULL else NULL
    handover_undo(s, b, res == NULL and outcome < SLOT_UNSENT)
    if outcome == SLOT_UNSENT:
        appender_first(s, b)
        s.retry_at = now + 20000
        return
    if outcome > SLOT_UNSENT:
        results_fail_all(s, b, FAILED_UNREACHED)
        return
    if conflict:
        appender_first(s, b)      # at once: nothing was stored
        return
    b.tries += 1
    if outcome != SLOT_ERROR:
        # The connection broke with the batch in flight. Unless the server said that nothing was stored, the batch may
        # be stored. Sent again with every id checked, it is stored exactly once.
        if res == NULL:
            b.check_ids = True
        if outcome == SLOT_DEADLINE and s.call.deadline_ms >= ANSWER_MS:
            health_check_commits(s.call.sent_us, now)  # the sweep may not have seen the statement after 5 s
        # One statement is expensive, or one connection hangs: each half is sent by itself, with every id checked. A
        # single item is sent again until the patience is over. While commits hang, both would be in vain.
        alone = outcome == SLOT_DEADLINE and appender_lags_alone(s, b, now)
        b.hurried = b.hurried and not alone
        if alone and appender_splits(s, b, now):
            requeue_bisect(s, b)
        elif outcome == SLOT_DEADLINE and not alone and spool.on:
            # Other connections may hang just as long: no push waits for that. Draining the buffer shows whether the
            # records are stored.
            spool.doubt = True
            appender_give_up(s, b, FAILED_UNREACHED)
            appender_fail_all(s)
        elif now - b.since_us > engine_of(s.worker).patience_us:
            appender_give_up(s, b, FAILED_UNCLEAR if alone else FAILED_UNREACHED)
        else:
            appender_first(s, b)
            s.retry_at = now + 20000
    elif appender_retries(s, b, v.error_class, now):
        appender_first(s, b)
        s.retry_at = now + sqlstate_pause_us(b.tries)
        if v.reload:
            s.stale = True
            catalog_want_reload(s.worker)
    elif (v.error_class == ERROR_DATA and b.n_items > 1
          or v.error_class == ERROR_UNCLEAR and appender_splits(s, b, now)):
        requeue_bisect(s, b)
    elif v.error_class == ERROR_DATA:
        log_line(b"error", b"push_refused", pg_error(res))
        results_fail_all(s, b, FAILED_REFUSED)
    elif v.error_class == ERROR_UNCLEAR:
        log_line(b"error", b"push_unclear", pg_error(res))
        appender_give_up(s, b, FAILED_UNCLEAR)
    else:
        log_line(b"error", b"push_put_off", pg_error(res))
        spool.doubt = spool.on
        appender_give_up(s, b, FAILED_UNREACHED)

cdef bint appender_lags_alone(Appender* s, PushBatch* b, int64_t now) noexcept nogil:
    # Returns True if only b had no answer before its deadline: the database answered other statements meanwhile. If
    # there is a failover buffer and b was hurried, or commits hang, the database must have stored something for them.
    if spool.on and (b.hurried or atomic_get64(&doubt.commits)):
        return health_others_store(s.call.sent_us, now)
    return health_others_answered(s.call.sent_us, now)

cdef bint appender_retries(Appender* s, PushBatch* b, int blame, int64_t now) noexcept nogil:
    # Returns True if a batch is sent again after an error that is no fault of its items. If there is a failover buffer
    # and the database is away or unfit, it is sent BUFFER_TRIES times.
    if spool.on and (blame == ERROR_AWAY or blame == ERROR_UNFIT):
        return b.tries < BUFFER_TRIES
    return sqlstate_retries(blame, b.tries, now - b.since_us, engine_of(s.worker).patience_us)

cdef bint appender_splits(Appender* s, PushBatch* b, int64_t now) noexcept nogil:
    # Returns True if an error or a delay may be the fault of one item, and halves of b are to be sent by themselves.
    return b.n_partitions > 1 or (b.n_items > 1 and not appender_from_buffer(b.first)
                                  and not appender_stuck(s, b, now))

cdef inline bint appender_stuck(Appender* s, PushBatch* b, int64_t now) noexcept nogil:
    # Returns True if STUCK_TRIES slow statements had no result for b, the first part of a batch of one partition. Then
    # another session holds the partition's lane, and each further half would keep the appender waiting for as long.
    return b.n_partitions == 1 and b.tries >= STUCK_TRIES and now - s.call.sent_us > STUCK_US

cdef bint appender_from_buffer(PushPartition* g) noexcept nogil:
    # Returns True if some item of the push partition is from the failover buffer.
    cdef PushItem* it = g.first
    while it != NULL and not it.of_part.job.drain:
        it = it.next
    return it != NULL

cdef void appender_give_up(Appender* s, PushBatch* b, int failed) noexcept nogil:
    # Gives up a batch for now. If it came from the failover buffer, batches split from it are given up too. Nothing is
    # stored in its place: it comes again in its order. They are also given up if the partition's lane is held.
    cdef PushBatch** at = &s.resend
    cdef PushBatch* other
    cdef bint whole = b.n_partitions == 1 and (appender_from_buffer(b.first)
                                               or appender_stuck(s, b, clock_mono_us()))
    while whole and at[0] != NULL:
        other = at[0]
        if other.n_partitions == 1 and other.first.partition is b.first.partition:
            at[0] = other.next
            results_fail_all(s, other, failed)
        else:
            at = &other.next
    results_fail_all(s, b, failed)

cdef void appender_expire(Appender* s) noexcept nogil:
    # Fails batches that lacked a connection, or the catalog, for longer than the patience. Requests do not wait without
    # end.
    cdef PushBatch* b
    cdef int64_t limit = engine_of(s.worker).patience_us
    cdef int64_t now
    if slotpool_ready(engine_of(s.worker).slots) and not s.stale:
        return
    if spool_fails_fast():
        appender_fail_all(s)
        return
    now = clock_mono_us()
    while s.resend != NULL and s.resend.since_us and now - s.resend.since_us > limit:
        b = s.resend
        s.resend = b.next
        results_fail_all(s, b, FAILED_UNREACHED)
    if s.gather != NULL:
        if s.gather.since_us == 0:
            s.gather.since_us = now
        elif now - s.gather.since_us > limit:
            b = appender_next(s)
            results_fail_all(s, b, FAILED_UNREACHED)

cdef void appender_fail_all(Appender* s) noexcept nogil:
    # Fails everything that waits, in its order. The requests send it into the failover buffer.
    while s.resend != NULL or s.gather != NULL:
        results_fail_all(s, appender_next(s), FAILED_UNREACHED)
