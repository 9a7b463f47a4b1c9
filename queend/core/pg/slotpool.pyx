# A worker's connections to PostgreSQL (slots). In: a connection string and the statements to prepare; slots without a
# connection. Out: idle slots; trouble, logged once for all slots. Owner: the loop's thread. No locks.

# ---- the pool begins -------------------------------------------------------------------------------------------------

cdef SlotPool* slotpool_open(uv_loop_t* loop, const char* conninfo, const char* session, int n,
                             const StatementDef* statements, int n_statements, void* owner,
                             void (*on_idle)(void*) noexcept nogil, Counters* counters) noexcept nogil:
    # Returns a pool of n slots that slotpool_connect connects; NULL if memory ran out. Each time a slot can take a
    # statement, on_idle(owner) is called on the loop. Texts and statements must outlive the pool.
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
    p.turn_full = counters.delivered_bytes + SLOT_TURN_BYTES
    uuid_open(&p.random)
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
            slotpool_connect_one(&p.slots[i])

cdef inline void slotpool_turn(SlotPool* p) noexcept nogil:
    # Ends a turn of the loop: results with messages are read again.
    cdef Counters* c = p.counters
    if c.delivered_bytes + SLOT_TURN_BYTES != p.turn_full:
        c.turn_delivered = max(c.turn_delivered, c.delivered_bytes + SLOT_TURN_BYTES - p.turn_full)
        p.turn_full = c.delivered_bytes + SLOT_TURN_BYTES

# ---- a slot connects -------------------------------------------------------------------------------------------------
# Look-up of the server (slotpool_connect_one), connection (dial, handshake), preparation: settings, statements, edition
# (pg/health), incarnation (pg/incarnation). If the server changed, the owner is notified before the slot is idle.

cdef void slotpool_connect_one(Slot* s) noexcept nogil:
    s.reason[0] = 0
    s.why = DOUBT_NONE
    s.refresh = NULL
    s.large = False
    s.unserved = False
    s.fd = -1
    slot_move(s, SLOT_CONNECTING)
    slot_due(s, <uint64_t>s.pool.connect_ms)
    if s.pool.address.n == 0:
        slotpool_dial(s)
    elif not s.pool.address.busy:         # otherwise the running look-up of another slot serves this one too
        slotpool_handle_opened(s.pool)
        address_resolve(&s.pool.address, s.pool.loop, slotpool_on_address, s.pool)

cdef void slotpool_on_address(void* ctx, const char* error) noexcept nogil:
    cdef SlotPool* p = <SlotPool*>ctx
    cdef int i
    for i in range(p.n):
        if p.slots[i].state == SLOT_CONNECTING and p.slots[i].conn == NULL:
            if error != NULL:
                p.slots[i].why = DOUBT_REFUSED if p.address.unknown else DOUBT_NONE
                slot_break(&p.slots[i], error, SLOT_LOST)
            else:
                slotpool_dial(&p.slots[i])
    slotpool_handle_closed(p)

cdef void slotpool_dial(Slot* s) noexcept nogil:
    s.conn = address_connect(&s.pool.address)
    s.first = s.pool.address.first
    if s.conn == NULL:
        slot_break(s, b"out of memory", SLOT_LOST)
        return
    s.pool.counters.live_slots += 1
    PQsetNoticeProcessor(s.conn, slotpool_on_notice, s)
    PQsetErrorVerbosity(s.conn, PQERRORS_VERBOSE)     # libpq reports the SQLSTATE of a refusal only in this way
    if PQstatus(s.conn) == CONNECTION_BAD:
        slot_break(s, PQerrorMessage(s.conn), SLOT_LOST)
    else:
        slot_watch(s, UV_WRITABLE)        # as after PGRES_POLLING_WRITING

cdef void slotpool_handshake(Slot* s) noexcept nogil:
    # Does one step of connecting (TCP, TLS, authentication).
    cdef PostgresPollingStatusType step
    if s.events:
        uv_poll_stop(s.poll)  # before libpq may close this socket and open another with the same number
        s.events = 0
    step = PQconnectPoll(s.conn)
    if step == PGRES_POLLING_READING:
        slot_watch(s, UV_READABLE)
    elif step == PGRES_POLLING_WRITING:
        slot_watch(s, UV_WRITABLE)
    elif step == PGRES_POLLING_OK:
        PQsetErrorVerbosity(s.conn, PQERRORS_DEFAULT)
        slotpool_prepare(s)
    else:
        s.why = health_of_connect(s.conn, s.reason, SLOT_REASON)
        slot_break(s, s.reason, SLOT_LOST)

cdef void slotpool_on_notice(void* arg, const char* message) noexcept nogil:
    # Keeps notices off standard error. A FATAL notice gives the reason why the connection is about to end.
    cdef Slot* s = <Slot*>arg
    if strlen(message) > 5 and memcmp(message, b"FATAL", 5) == 0:
        strncpy(s.reason, message, SLOT_REASON - 1)

cdef void slotpool_prepare(Slot* s) noexcept nogil:
    # Sends, in one flight: settings, the query for the edition, all statements and, last, the query for the
    # incarnation.
    cdef SlotPool* p = s.pool
    cdef int i
    cdef bint ok = PQsetnonblocking(s.conn, 1) == 0 and PQenterPipelineMode(s.conn) == 1
    s.sent_us = clock_mono_us()
    slot_move(s, SLOT_PREPARING)
    s.suspicions = atomic_get64(&doubt.suspicions)
    if p.session[0]:
        ok = ok and PQsendQueryParams(s.conn, p.session, 0, NULL, NULL, NULL, NULL, 1) == 1
    if edition.ours:
        ok = ok and PQsendQueryParams(s.conn, EDITION, 0, NULL, NULL, NULL, NULL, 1) == 1
    for i in range(p.n_statements):
        ok = ok and PQsendPrepare(s.conn, p.statements[i].name, p.statements[i].text, p.statements[i].n_params,
                                  p.statements[i].types) == 1
    ok = ok and PQsendQueryParams(s.conn, INCARNATION, 0, NULL, NULL, NULL, NULL, 1) == 1
    if ok and PQpipelineSync(s.conn) == 1:
        slot_flush(s)
    else:
        slot_break(s, PQerrorMessage(s.conn), SLOT_LOST)

cdef void slotpool_prepared(Slot* s) noexcept nogil:
    # Handles the answer to slotpool_prepare.
    cdef SlotPool* p = s.pool
    cdef PGresult* res = s.result
    if s.unserved:
        health_edition_refuse(s.reason)
        slot_break(s, s.reason, SLOT_LOST)
        return
    if slot_failed(res) or PQntuples(res) != 1:
        if health_edition_unfit(res):
            health_edition_refuse(pg_error(res))
        elif slot_explained(res):
            s.why = health_of_sqlstate(PQresultErrorField(res, PG_DIAG_SQLSTATE))
        slot_break(s, pg_error(res), SLOT_LOST)
        return
    if pg_bool(res, 0, SERVER_READ_ONLY):
        s.why = DOUBT_READ_ONLY
        slot_break(s, b"the server is read-only", SLOT_LOST)
        return
    s.result = NULL
    s.incarnation = incarnation_of(res)
    s.served_us = clock_mono_us()
    clock_db_sample(pg_int8(res, 0, SERVER_NOW), s.sent_us, clock_mono_us())
    PQclear(res)
    s.backoff_ms = SLOT_BACKOFF_MIN_MS
    health_edition_accept()
    s.refusals = atomic_get64(&edition.refusals)
    if p.incarnation != s.incarnation:
        p.incarnation = s.incarnation
        if p.on_server != NULL:
            p.on_server(p.owner)
    slot_move(s, SLOT_IDLE)
    if p.trouble and p.ready == p.n:
        p.trouble = False
        log_line(b"info", b"postgres_back", NULL)
    p.on_idle(p.owner)

# ---- slots handed out and replaced -----------------------------------------------------------------------------------

cdef inline Slot* slotpool_take(SlotPool* p) noexcept nogil:
    # Returns an idle slot or NULL. The slot stays in the pool until slot_send: send on it before taking another.
    while p.idle != NULL and slot_outdated(p.idle):
        pass
    return p.idle

cdef inline Slot* slotpool_take_shared(SlotPool* p) noexcept nogil:
    # As slotpool_take, for statements other than pushes. The last idle slot is left to pushes if more than 3 are
    # connected and a push stream has no batch in flight. So a push is sent at once, however many pops and look-ups are
    # in flight.
    cdef Slot* s = slotpool_take(p)
    return s if s == NULL or s.next_idle != NULL or p.ready <= 3 or p.free_streams == 0 else NULL

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
            slot_outdated(s)
        elif s.state == SLOT_BUSY and incarnation_replaced(s.incarnation):
            slot_break(s, b"the server was replaced", SLOT_LOST)      # its answer would be dropped
        elif s.state == SLOT_BUSY and s.statement != SLOT_TEXT and p.statements[s.statement].fenced:
            health_waits(s.sent_us, now)
            if now - s.sent_us >= DOUBT_COMMITS_US:
                health_check_commits(s.sent_us, now)

cdef inline bint slotpool_ready(SlotPool* p) noexcept nogil:
    # Returns True if at least one slot is idle or busy: the database answers.
    return p.ready > 0

# ---- trouble, logged -------------------------------------------------------------------------------------------------

cdef void slotpool_trouble(SlotPool* p, const char* reason, int why) noexcept nogil:
    # Logs when trouble begins and when its reason changes, at most once a second, never per slot. While the database is
    # unreachable it logs every minute, as an error if an operator must change something.
    cdef uint64_t h = slice_hash(slice_lit(reason), 1)
    cdef uint64_t now = uv_now(p.loop)
    atomic_set64(&doubt.why, why)
    if p.trouble and (h == p.trouble_hash or now - p.trouble_at < 1000):
        if p.ready or not health_log_due(clock_mono_us()):
            return
    else:
        atomic_set64(&doubt.told_us, clock_mono_us())
    p.trouble = True
    p.trouble_hash = h
    p.trouble_at = now
    log_line(b"error" if why == DOUBT_REFUSED and p.ready == 0 else b"warn", b"postgres_lost", reason)

# ---- the pool ends ---------------------------------------------------------------------------------------------------

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
        uv_close(<uv_handle_t*>&s.timer, slotpool_on_timer_closed)

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

cdef void slotpool_on_timer_closed(uv_handle_t* handle) noexcept nogil:
    slotpool_handle_closed((<Slot*>(<uv_timer_t*>handle).data).pool)
