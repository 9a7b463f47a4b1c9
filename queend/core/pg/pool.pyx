# A worker's connections to PostgreSQL (slots). Opens and closes them together, hands out idle ones, and logs trouble
# once for all slots. Owner: the loop's thread.

cdef SlotPool* slotpool_open(uv_loop_t* loop, const char* conninfo, const char* session, int n,
                             const StatementDef* statements, int n_statements, void* owner,
                             void (*on_idle)(void*) noexcept nogil, Counters* counters) noexcept nogil:
    # Returns a pool of n slots, not yet connected (slotpool_connect); NULL if memory ran out. on_idle(owner) is called
    # on the loop each time a slot can take a statement. Texts and statements must outlive the pool.
    cdef SlotPool* p = <SlotPool*>calloc(1, sizeof(SlotPool))
    cdef Slot* s
    cdef int i
    if p == NULL:
        return NULL
    p.slots = <Slot*>calloc(<size_t>n, sizeof(Slot))
    if p.slots == NULL:
        free(p)
        return NULL
    address_open(&p.address, conninfo)
    p.loop = loop
    p.session = session
    p.n = n
    p.connect_ms = SLOT_CONNECT_MS if p.address.timeout_s <= 0 else p.address.timeout_s * 1000
    p.statements = statements
    p.n_statements = n_statements
    p.owner = owner
    p.on_idle = on_idle
    p.counters = counters
    uuidgen_open(&p.random)
    for i in range(n):
        s = &p.slots[i]
        s.pool = p
        s.state = SLOT_CLOSED
        s.backoff_ms = SLOT_BACKOFF_MIN_MS
        uv_timer_init(loop, &s.timer)
        s.timer.data = s
        slotpool_handle_opened(p)
    return p

cdef void slotpool_connect(SlotPool* p) noexcept nogil:
    # Connects all closed slots at once.
    cdef int i
    for i in range(p.n):
        if p.slots[i].state == SLOT_CLOSED:
            slot_connect(&p.slots[i])

cdef inline Slot* slotpool_take(SlotPool* p) noexcept nogil:
    # Returns an idle slot or NULL. The slot stays in the pool until slot_send: send on it before taking another.
    while p.idle != NULL and slot_outlived(p.idle):
        pass
    return p.idle

cdef void slotpool_spare(SlotPool* p) noexcept nogil:
    # Gives up one of two or more connections for up to SLOT_BACKOFF_MAX_MS, so that another worker or program gets it.
    cdef Slot* s = p.idle if p.ready > 1 else NULL
    if s != NULL:
        s.backoff_ms = SLOT_BACKOFF_MAX_MS
        slot_break(s, b"lent to somebody who has none", SLOT_LOST)

cdef void slotpool_sweep(SlotPool* p) noexcept nogil:
    # Replaces outdated idle connections, and busy connections to a replaced server. Judges statements that wait for
    # their answers.
    cdef int64_t now = clock_mono_us()
    cdef Slot* s
    cdef int i
    for i in range(p.n):
        s = &p.slots[i]
        if s.state == SLOT_IDLE:
            slot_outlived(s)
        elif s.state == SLOT_BUSY and incarnation_gone(s.server):
            slot_break(s, b"the server was replaced", SLOT_LOST)      # its answer would be dropped
        elif s.state == SLOT_BUSY and s.statement != SLOT_TEXT and p.statements[s.statement].fenced:
            doubt_waits(s.sent_us, now)
            if now - s.sent_us >= DOUBT_COMMITS_US:
                doubt_writes(s.sent_us, now)

cdef inline bint slotpool_ready(SlotPool* p) noexcept nogil:
    # Returns True if at least one slot is idle or busy: the database answers.
    return p.ready > 0

cdef void slotpool_complain(SlotPool* p, const char* reason, int why) noexcept nogil:
    # Logs when trouble begins and when its reason changes, at most once a second, never per slot. While the database is
    # unreachable it logs every minute, as an error if an operator must change something.
    cdef uint64_t h = slice_hash(slice_lit(reason), 1)
    cdef uint64_t now = uv_now(p.loop)
    atomic_set64(&doubt.why, why)
    if p.trouble and (h == p.trouble_hash or now - p.trouble_at < 1000):
        if p.ready or not doubt_repeats(clock_mono_us()):
            return
    else:
        atomic_set64(&doubt.told_us, clock_mono_us())
    p.trouble = True
    p.trouble_hash = h
    p.trouble_at = now
    log_line(b"error" if why == DOUBT_REFUSED and p.ready == 0 else b"warn", b"postgres_lost", reason)

cdef void slotpool_relieve(SlotPool* p) noexcept nogil:
    if p.trouble and p.ready == p.n:
        p.trouble = False
        log_line(b"info", b"postgres_back", NULL)

cdef inline void slotpool_handle_opened(SlotPool* p) noexcept nogil:
    p.handles += 1
    p.counters.live_handles += 1

cdef void slotpool_handle_closed(SlotPool* p) noexcept nogil:
    p.counters.live_handles -= 1
    p.handles -= 1
    if p.handles or not p.closing:
        return
    if p.closed != NULL:
        p.closed(p.closed_ctx)
    address_close(&p.address)
    free(p.slots)
    free(p)

cdef void slot_on_timer_closed(uv_handle_t* handle) noexcept nogil:
    slotpool_handle_closed((<Slot*>(<uv_timer_t*>handle).data).pool)

cdef void slotpool_close(SlotPool* p, void (*closed)(void*) noexcept nogil, void* ctx) noexcept nogil:
    # Closes every connection; a statement in flight ends with SLOT_LOST. closed(ctx) is called from the loop when the
    # last handle is gone. The pool must not be used after this call.
    cdef int i
    cdef Slot* s
    p.closing = True
    p.closed = closed
    p.closed_ctx = ctx
    address_cancel(&p.address)
    for i in range(p.n):
        s = &p.slots[i]
        slot_break(s, b"closing", SLOT_LOST)
        slot_move(s, SLOT_CLOSED)
        uv_close(<uv_handle_t*>&s.timer, slot_on_timer_closed)
