# Runs a statement on a slot. In: a prepared statement with binary parameters. Out: one callback, with the rows or with
# what is known about the failure.
# A slot carries one statement at a time, in pipeline mode. Statement and sync leave together. The answer counts only
# once the sync is answered: then the transaction has committed. Answers of a server that was replaced (pg/incarnation)
# are dropped.

cdef bint slot_outlived(Slot* s) noexcept nogil:
    # Breaks an idle connection that is out of date, and returns True: the server was replaced, may be read-only, or has
    # other functions.
    if s.server != incarnation_now():
        slot_break(s, b"the server was replaced", SLOT_LOST)
    elif s.suspicions != atomic_get64(&doubt.suspicions):
        slot_break(s, b"the server may have become read-only", SLOT_LOST)
    elif s.refusals != atomic_get64(&edition.refusals):
        slot_break(s, b"the functions of the database are others now", SLOT_LOST)
    else:
        return False
    return True

cdef bint slot_begin(Slot* s, int statement, slot_done done, void* ctx, int deadline_ms) noexcept nogil:
    # Sends the statement that was handed to libpq. Returns False if the slot broke.
    if PQpipelineSync(s.conn) != 1:
        slot_break(s, PQerrorMessage(s.conn), SLOT_LOST)
        return False
    s.statement = statement
    s.done = done
    s.ctx = ctx
    s.rows = False
    s.sent_us = clock_mono_us()
    if atomic_get64(&s.pool.counters.silent_since) == 0:
        atomic_set64(&s.pool.counters.silent_since, s.sent_us // 1000)
    slot_move(s, SLOT_BUSY)
    slot_due(s, <uint64_t>deadline_ms)
    slot_flush(s)
    return True

cdef bint slot_send(Slot* s, int statement, Params* params, slot_done done, void* ctx, int deadline_ms) noexcept nogil:
    # Starts a statement on an idle slot. Returns True if `done` will be called exactly once, later or (connection
    # already dead) before the return. Returns False if the slot broke or memory ran out (params.failed): nothing was
    # sent, and `done` will not be called. The parameters are copied: their memory may be reused at once.
    if params.failed or s.state != SLOT_IDLE or slot_outlived(s):
        return False
    if s.pool.statements[statement].fenced:
        # uses the loop's clock, like the deadline, so that both pass at the same moment
        params_moment(params, INFINITE_US if not dbclock_known() else
                      dbclock_at(<int64_t>uv_now(s.pool.loop) * 1000) + <int64_t>deadline_ms * 1000)
    if PQsendQueryPrepared(s.conn, s.pool.statements[statement].name, params.n, params.values, params.lengths,
                           PARAMS_BINARY, 1) != 1:
        slot_break(s, PQerrorMessage(s.conn), SLOT_LOST)
        return False
    return slot_begin(s, statement, done, ctx, deadline_ms)

cdef void slot_serve(Slot* s, bint readable) noexcept nogil:
    # Handles a ready socket of an established connection.
    cdef bint alive = True
    cdef bint more = True
    cdef PGconn* conn = s.conn
    s.nulls = 0
    if readable:
        alive = PQconsumeInput(conn) == 1 and PQstatus(conn) != CONNECTION_BAD
        if not alive and s.reason[0] == 0:
            strncpy(s.reason, PQerrorMessage(conn), SLOT_REASON - 1)    # further reading appends to the message
    while more and s.conn == conn and PQisBusy(conn) == 0:
        more = slot_take_result(s, PQgetResult(conn))
    if s.conn != conn:
        return                # a callback or a failed PREPARE has dropped the connection
    if not alive or PQstatus(conn) == CONNECTION_BAD:
        slot_break(s, PQerrorMessage(conn), SLOT_LOST)
    else:
        slot_flush(s)

cdef bint slot_take_result(Slot* s, PGresult* res) noexcept nogil:
    # Handles one result; returns False if no further result is to be read. In pipeline mode a NULL ends each statement,
    # and two consecutive NULLs end the input. The input also ends when the sync is answered, because a slot has one
    # statement in flight.
    cdef ExecStatusType status
    if res == NULL:
        if s.state == SLOT_IDLE:
            return False
        s.nulls += 1
        return s.nulls < 2
    s.nulls = 0
    status = PQresultStatus(res)
    if status == PGRES_PIPELINE_SYNC:
        PQclear(res)
        slot_synced(s)
        return True
    if status == PGRES_TUPLES_OK or status == PGRES_COMMAND_OK:
        s.rows = True
        if (s.state == SLOT_PREPARING and PQntuples(res) == 1
                and strcmp(PQfname(res, EDITION_NUMBER), b"edition") == 0):
            s.unserved = not edition_serves(pg_int4(res, 0, EDITION_NUMBER), pg_int4(res, 0, EDITION_SERVES), s.reason,
                                            SLOT_REASON)
    if s.result != NULL and slot_failed(res) and not slot_explained(res):
        PQclear(res)          # follows an error that is already kept, or is libpq's own error for a lost connection
        return True
    PQclear(s.result)         # an error after the rows is the commit's: it replaces the rows
    s.result = res
    return True

cdef inline bint slot_failed(PGresult* res) noexcept nogil:
    cdef ExecStatusType status
    if res == NULL:
        return True
    status = PQresultStatus(res)
    return status != PGRES_TUPLES_OK and status != PGRES_COMMAND_OK

cdef inline bint slot_explained(PGresult* res) noexcept nogil:
    # Returns True for an error that the server sent. Errors made by libpq have no SQLSTATE.
    return slot_failed(res) and res != NULL and PQresultErrorField(res, PG_DIAG_SQLSTATE) != NULL

cdef void slot_synced(Slot* s) noexcept nogil:
    # Ends the transaction: passes its result to `done`.
    cdef PGresult* res = s.result
    cdef slot_done done = s.done
    cdef SlotPool* p = s.pool
    cdef bint failed = slot_failed(res)
    atomic_set64(&doubt.answered_us, clock_mono_us())
    # the silence of the remaining statements in flight counts from now
    atomic_set64(&p.counters.silent_since, clock_mono_us() // 1000 if p.busy > (s.state == SLOT_BUSY) else 0)
    if s.state == SLOT_PREPARING:
        slot_prepared(s)
        return
    uv_rwlock_rdlock(&incarnation.lock)
    if s.server != incarnation.number:
        # Drops the answer: its server was replaced, and the new server may lack what the answer reports.
        uv_rwlock_rdunlock(&incarnation.lock)
        slot_break(s, b"the server was replaced", SLOT_LOST)
        return
    s.result = NULL
    s.done = NULL
    slot_move(s, SLOT_IDLE)   # before the callback, so that `done` can send the next statement at once
    if failed:
        p.counters.db_errors += 1
        slot_doubted(s, res)
    elif (p.statements == &STATEMENTS[0]      # test seams have statements of their own
          and statement_stores(s.statement) and statement_stored(s.statement, res)):
        doubt_stored()
        if atomic_get64(&doubt.disk_us):
            atomic_set64(&doubt.disk_us, 0)
    done(s, s.ctx, res, SLOT_ERROR if failed else SLOT_OK)
    uv_rwlock_rdunlock(&incarnation.lock)
    PQclear(res)
    if s.state == SLOT_IDLE:
        if s.refresh != NULL:
            slot_break(s, s.refresh, SLOT_LOST)
        else:
            p.on_idle(p.owner)

cdef void slot_doubted(Slot* s, PGresult* res) noexcept nogil:
    # Notes errors that a new connection may avoid. A statement that ran too late carries the server's clock, which has
    # jumped, because this process still waits for it.
    cdef const char* now
    if pg_sqlstate(res, b"QD408"):
        now = PQresultErrorField(res, PG_DIAG_MESSAGE_DETAIL)
        if now != NULL:
            dbclock_heard(atoll(now), s.sent_us, clock_mono_us())
    if verdict_of(res).anew:
        s.refresh = verdict_of(res).meaning
    elif edition_unfit(res):
        s.refresh = b"the functions of the database are others now"
    if pg_sqlstate(res, b"25006"):
        s.why = DOUBT_READ_ONLY
        if s.suspicions == atomic_get64(&doubt.suspicions):
            atomic_set64(&doubt.suspicions, s.suspicions + 1)
    elif pg_sqlstate(res, b"53100"):
        atomic_set64(&doubt.disk_us, s.sent_us)
