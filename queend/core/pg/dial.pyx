# Connects a slot. In: a slot without a connection. Out: an idle slot, or a broken one with the reason.
# Steps: look-up of the server (slot_connect), connection (slot_dial, slot_handshake), preparation (slot_prepare). The
# preparation covers the session's settings, the statements, the edition of the functions (pg/edition) and the
# incarnation (pg/incarnation). If the server changed, the owner is notified before the slot is idle.

cdef void slot_on_notice(void* arg, const char* message) noexcept nogil:
    # Keeps notices off standard error. A FATAL notice gives the reason why the connection is about to end.
    cdef Slot* s = <Slot*>arg
    if strlen(message) > 5 and memcmp(message, b"FATAL", 5) == 0:
        strncpy(s.reason, message, SLOT_REASON - 1)

cdef void slot_connect(Slot* s) noexcept nogil:
    s.reason[0] = 0
    s.why = DOUBT_NONE
    s.refresh = NULL
    s.unserved = False
    s.fd = -1
    slot_move(s, SLOT_CONNECTING)
    slot_due(s, <uint64_t>s.pool.connect_ms)
    if s.pool.address.n == 0:
        slot_dial(s)
    elif not s.pool.address.busy:         # otherwise the running look-up of another slot serves this one too
        slotpool_handle_opened(s.pool)
        address_look(&s.pool.address, s.pool.loop, slotpool_on_address, s.pool)

cdef void slotpool_on_address(void* ctx, const char* error) noexcept nogil:
    cdef SlotPool* p = <SlotPool*>ctx
    cdef int i
    for i in range(p.n):
        if p.slots[i].state == SLOT_CONNECTING and p.slots[i].conn == NULL:
            if error != NULL:
                p.slots[i].why = DOUBT_REFUSED if p.address.unknown else DOUBT_NONE
                slot_break(&p.slots[i], error, SLOT_LOST)
            else:
                slot_dial(&p.slots[i])
    slotpool_handle_closed(p)

cdef void slot_dial(Slot* s) noexcept nogil:
    s.conn = address_connect(&s.pool.address)
    s.first = s.pool.address.first
    if s.conn == NULL:
        slot_break(s, b"out of memory", SLOT_LOST)
        return
    s.pool.counters.live_slots += 1
    PQsetNoticeProcessor(s.conn, slot_on_notice, s)
    PQsetErrorVerbosity(s.conn, PQERRORS_VERBOSE)     # libpq reports the SQLSTATE of a refusal only in this way
    if PQstatus(s.conn) == CONNECTION_BAD:
        slot_break(s, PQerrorMessage(s.conn), SLOT_LOST)
    else:
        slot_watch(s, UV_WRITABLE)        # as after PGRES_POLLING_WRITING

cdef void slot_handshake(Slot* s) noexcept nogil:
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
        slot_prepare(s)
    else:
        s.why = doubt_of_connect(s.conn, s.reason, SLOT_REASON)
        slot_break(s, s.reason, SLOT_LOST)

cdef void slot_prepare(Slot* s) noexcept nogil:
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

cdef void slot_prepared(Slot* s) noexcept nogil:
    # Handles the answer to slot_prepare.
    cdef SlotPool* p = s.pool
    cdef PGresult* res = s.result
    if s.unserved:
        edition_refuse(s.reason)
        slot_break(s, s.reason, SLOT_LOST)
        return
    if slot_failed(res) or PQntuples(res) != 1:
        if edition_unfit(res):
            edition_refuse(pg_error(res))
        elif slot_explained(res):
            s.why = doubt_of_state(PQresultErrorField(res, PG_DIAG_SQLSTATE))
        slot_break(s, pg_error(res), SLOT_LOST)
        return
    if pg_bool(res, 0, SERVER_READ_ONLY):
        s.why = DOUBT_READ_ONLY
        slot_break(s, b"the server is read-only", SLOT_LOST)
        return
    s.result = NULL
    s.server = incarnation_of(res)
    s.served_us = clock_mono_us()
    dbclock_heard(pg_int8(res, 0, SERVER_NOW), s.sent_us, clock_mono_us())
    PQclear(res)
    s.backoff_ms = SLOT_BACKOFF_MIN_MS
    edition_accept()
    s.refusals = atomic_get64(&edition.refusals)
    if p.server != s.server:
        p.server = s.server
        if p.on_server != NULL:
            p.on_server(p.owner)
    slot_move(s, SLOT_IDLE)
    slotpool_relieve(p)
    p.on_idle(p.owner)
