# A statement from its first parameter to its end. In: an engine that has something to ask. Out: `done`, called exactly
# once for each call that was to be sent, with its outcome (SLOT_*). Owner: the worker; no lock. One statement at a time
# is written: nothing is sent between call_open and call_send.

cdef Call* call_open(Engine* e, size_t size, int statement, Limit* limit, call_done done) noexcept nogil:
    # Opens a call. size: of a struct whose first member is a Call, which is freed after `done`. Returns NULL if no
    # connection or permit is free, or memory ran out.
    #
    #     call = <PopCall*>call_open(e, sizeof(PopCall), STMT_POP, &e.pops.limit, popcall_done)
    #     args = <PopArgs*>e.args.at            fill it; leave with call_drop if there is nothing to ask
    #     call_send(&call.base)                 False: the call was not sent, and `done` has put everything back
    cdef Call* c
    if slotpool_take_shared(e.slots) == NULL or not limit_take(limit):
        return NULL
    c = <Call*>calloc(1, size)
    if c == NULL:
        limit_give(limit)
        return NULL           # `done` is not called
    call_begin(c, e, statement, done)
    c.limit = limit
    return c

cdef void call_begin(Call* c, Engine* e, int statement, call_done done) noexcept nogil:
    # Begins a call in a struct that outlives it. Such a call needs no permit.
    memset(c, 0, sizeof(Call))
    c.engine = e
    c.done = done
    c.jobs.at = JOB_FETCHING
    c.deadline_ms = e.settings.deadline_ms
    arena_open(&c.arena, &e.worker.chunks)
    call_asks(c, statement)

cdef inline void call_asks(Call* c, int statement) noexcept nogil:
    # Begins to write a statement, which may differ from the one that the call was begun for.
    c.statement = statement
    args_begin(&c.engine.args, &STATEMENTS[statement])

cdef void call_drop(Call* c) noexcept nogil:
    # Drops a call that has nothing to send.
    limit_give(c.limit)
    call_free(c)

cdef bint call_send(Call* c) noexcept nogil:
    cdef Engine* e = c.engine
    cdef Slot* slot = slotpool_take(e.slots)
    cdef Params params
    args_end(&e.args, &params, e.version)
    c.sent_us = clock_mono_us()
    c.forgets = atomic_get64(&book.forgets)
    if slot != NULL and slot_send(slot, c.statement, &params, call_answered, c, c.deadline_ms):
        return True
    call_end(c, NULL, SLOT_TOO_LARGE if params.too_large else SLOT_NO_MEMORY if params.failed else SLOT_UNSENT)
    return False

cdef void call_answered(Slot* slot, void* ctx, PGresult* res, int outcome) noexcept nogil:
    call_end(<Call*>ctx, res, outcome)

cdef void call_end(Call* c, PGresult* res, int outcome) noexcept nogil:
    # Ends a call, sent or not.
    cdef bint kept = c.limit == NULL      # if so, `done` may begin the next call in its place
    c.ended_us = clock_mono_us()
    if outcome < SLOT_UNSENT:
        counter_add(&c.engine.worker.counters.statement, c.ended_us - c.sent_us)
    if not kept:
        limit_give(c.limit)
        if outcome < SLOT_UNSENT:
            limit_done(c.limit, c.ended_us, c.ended_us - c.sent_us, outcome == SLOT_OK)
    c.done(c, res, outcome)
    if not kept:
        call_free(c)

cdef inline void call_free(Call* c) noexcept nogil:
    arena_close(&c.arena)
    free(c)
