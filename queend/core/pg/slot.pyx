# One PostgreSQL connection on a worker's loop, and the statement on it. In: a prepared statement with binary
# parameters. Out: one callback, with the rows or with what is known about the failure.
# A slot connects and prepares (pg/slotpool), runs statements, breaks (slot_break) and connects again after a jittered
# pause; slotpool_close closes it.
# Owner: the loop's thread. A pool's memory lives until `closed`. No locks.

cdef enum SlotState:
    SLOT_CLOSED
    SLOT_CONNECTING
    SLOT_PREPARING
    SLOT_IDLE
    SLOT_BUSY
    SLOT_BROKEN               # no connection; the timer runs until the next attempt

cdef enum:
    SLOT_OK = 0               # rows; the transaction has committed
    SLOT_ERROR = 1            # the server refused; the transaction was rolled back; the connection stays
    SLOT_LOST = 2             # the connection is gone. res NULL: whether it committed is unknown; res not NULL: the
                              # server gave the reason, and nothing was committed (shutdown, terminated)
    SLOT_DEADLINE = 3         # no answer in time; whether it committed, or will commit, is unknown
    SLOT_UNSENT = 4           # nothing was or will be sent: no connection was free
    SLOT_NO_MEMORY = 5
    SLOT_TOO_LARGE = 6        # the message is too large for PostgreSQL

cdef enum:
    SLOT_BACKOFF_MIN_MS = 50
    SLOT_BACKOFF_MAX_MS = 5000
    SLOT_CONNECT_MS = 10000   # if the connection string has no connect_timeout; libpq does not enforce it
    SLOT_REASON = 400
    # libpq's buffers grow and never shrink: a connection that has carried more than this is replaced once it rests
    SLOT_KEEP = 4 << 20
    SLOT_REST_MS = 10000
    SLOT_TURN_BYTES = 1 << 20 # of messages that a turn of the loop delivers before other results with messages wait

cdef struct Slot
cdef struct SlotPool
ctypedef void (*slot_done)(Slot*, void*, PGresult*, int) noexcept nogil

cdef enum:
    SLOT_TEXT = -1            # Slot.statement: a text that is not prepared

cdef struct Slot:
    SlotPool* pool
    Slot* next_idle
    int64_t incarnation       # the incarnation that it is connected to
    int64_t served_us         # monotonic, when this connection was established
    int first                 # host with which the attempt began
    int64_t suspicions        # doubt.suspicions when it was connected
    int state
    int statement             # in flight, or SLOT_TEXT
    PGconn* conn
    uv_poll_t* poll           # belongs to the socket: a new socket gets a new poll
    int fd
    int events                # events that the poll waits for
    uv_timer_t timer
    uint64_t timer_at         # loop ms when the timer fires, 0: not running
    uint64_t due_at           # loop ms at which the present state has lasted too long
    int backoff_ms
    PGresult* result          # of the statement in flight, until its sync is answered
    int nulls                 # consecutive NULL results
    bint rows                 # its rows arrived: if the connection is lost now, the outcome is unknown
    slot_done done
    void* ctx
    int64_t sent_us           # monotonic, when the last statement was sent
    bint large                # has carried more than SLOT_KEEP
    const char* refresh       # why to reconnect after the statement, NULL: no need
    int why                   # DOUBT_* of that reason
    char[SLOT_REASON] reason  # why the connection is about to end, if known early
    int64_t refusals          # edition.refusals when the statements were prepared
    bint unserved             # the database's functions do not serve this program; `reason` says why

cdef struct SlotPool:
    uv_loop_t* loop
    const char* session       # statement that configures the session, "": none
    Address address
    const StatementDef* statements
    int n_statements
    void* owner
    void (*on_idle)(void*) noexcept nogil
    # called before the first slot of another incarnation becomes idle; may be NULL
    void (*on_server)(void*) noexcept nogil
    int64_t incarnation       # the incarnation that the owner knows
    Counters* counters
    Slot* slots
    int n
    uint64_t turn_full        # counters.delivered_bytes at which no further result with messages is read in this turn
    int connect_ms            # from the first packet to the last PREPARE
    Slot* idle                # last in, first out: a few warm connections carry a light load
    int ready                 # slots idle or busy
    int free_streams          # push streams of the worker that have no batch in flight
    int busy
    int handles               # open libuv handles, and the running look-up
    bint closing
    void (*closed)(void*) noexcept nogil
    void* closed_ctx
    UuidGen random
    bint trouble              # a failure was logged, and not all slots have recovered
    uint64_t trouble_hash     # of the last logged reason
    uint64_t trouble_at

# ---- state and timer -------------------------------------------------------------------------------------------------

cdef void slot_move(Slot* s, int to) noexcept nogil:
    # Sets the state, and the lists and counts that follow from it. The only writer of `state`.
    cdef SlotPool* p = s.pool
    cdef Slot** at
    if s.state == SLOT_IDLE:
        at = &p.idle
        while at[0] != NULL and at[0] != s:
            at = &at[0].next_idle
        if at[0] == s:
            at[0] = s.next_idle
    if s.state == SLOT_IDLE or s.state == SLOT_BUSY:
        p.ready -= 1
    p.busy += (to == SLOT_BUSY) - (s.state == SLOT_BUSY)
    s.state = to
    if to == SLOT_IDLE:
        s.next_idle = p.idle
        p.idle = s
    if to == SLOT_IDLE or to == SLOT_BUSY:
        p.ready += 1
    atomic_set64(&p.counters.connected, p.ready)

cdef void slot_due(Slot* s, uint64_t in_ms) noexcept nogil:
    # Ends the present state after at most in_ms. A running timer that fires earlier is kept: it re-arms itself, so
    # ordinary statements do not touch the timer.
    s.due_at = uv_now(s.pool.loop) + in_ms
    if s.timer_at == 0 or s.due_at < s.timer_at:
        s.timer_at = s.due_at
        uv_timer_start(&s.timer, slot_on_timer, in_ms, 0)

cdef void slot_on_timer(uv_timer_t* handle) noexcept nogil:
    cdef Slot* s = <Slot*>handle.data
    cdef uint64_t now = uv_now(s.pool.loop)
    s.timer_at = 0
    if s.state == SLOT_CLOSED or s.state == SLOT_IDLE and not s.large:
        return
    if now < s.due_at:
        slot_due(s, s.due_at - now)
    elif s.state == SLOT_IDLE:
        slot_replace(s)
    elif s.state == SLOT_BROKEN:
        slotpool_connect_one(s)
    elif s.state == SLOT_BUSY:
        slot_break(s, b"no answer before the deadline", SLOT_DEADLINE)
    else:
        address_silent(&s.pool.address, s.first)
        slot_break(s, b"connecting takes too long", SLOT_LOST)

# ---- socket ----------------------------------------------------------------------------------------------------------

cdef void slot_on_poll_closed(uv_handle_t* handle) noexcept nogil:
    cdef SlotPool* p = <SlotPool*>handle.data
    free(handle)
    slotpool_handle_closed(p)

cdef void slot_unwatch(Slot* s) noexcept nogil:
    if s.poll != NULL:
        uv_poll_stop(s.poll)
        s.poll.data = s.pool
        uv_close(<uv_handle_t*>s.poll, slot_on_poll_closed)
        s.poll = NULL
    s.events = 0

cdef void slot_watch(Slot* s, int events) noexcept nogil:
    # Waits for events on the connection's socket, which libpq may have replaced since the last call.
    cdef int fd = PQsocket(s.conn)
    cdef uv_poll_t* poll
    if s.poll != NULL and fd != s.fd:
        slot_unwatch(s)
    if s.poll == NULL:
        poll = <uv_poll_t*>malloc(sizeof(uv_poll_t))
        if poll == NULL or uv_poll_init(s.pool.loop, poll, fd) != 0:
            free(poll)
            slot_break(s, b"the socket cannot be watched", SLOT_LOST)
            return
        poll.data = s
        s.poll = poll
        s.fd = fd
        s.events = 0
        slotpool_handle_opened(s.pool)
    if events != s.events:
        s.events = events
        uv_poll_start(s.poll, events, slot_on_poll)

cdef void slot_on_poll(uv_poll_t* handle, int status, int events) noexcept nogil:
    cdef Slot* s = <Slot*>handle.data
    if status < 0:
        s.events = 0          # libuv stopped the poll; the next call of libpq finds out why
    if s.state == SLOT_CONNECTING:
        slotpool_handshake(s)
    elif not slot_waits(s, events):
        slot_serve(s, status < 0 or events & UV_READABLE != 0)

cdef inline bint slot_waits(const Slot* s, int events) noexcept nogil:
    # Returns True if a result with messages is left for the next turn of the loop, in which the socket is ready again.
    # A turn that made many large answers would delay the requests and results of other clients.
    return (s.state == SLOT_BUSY and events == UV_READABLE and statement_delivers(s.statement)
            and s.pool.counters.delivered_bytes >= s.pool.turn_full)

cdef void slot_flush(Slot* s) noexcept nogil:
    # Sends buffered data, and keeps waiting for input: so a connection that dies while idle is replaced before it is
    # needed.
    cdef int left = PQflush(s.conn)
    if left < 0:
        slot_break(s, PQerrorMessage(s.conn), SLOT_LOST)
    else:
        slot_watch(s, UV_READABLE | UV_WRITABLE if left else UV_READABLE)

# ---- end of a connection ---------------------------------------------------------------------------------------------

cdef void slot_break(Slot* s, const char* reason, int outcome) noexcept nogil:
    # Drops the connection, ends the statement in flight with the outcome, and connects again after a pause. The pause
    # is between half of backoff_ms and backoff_ms, so that slots spread out.
    cdef PGresult* res = NULL
    cdef slot_done done = NULL
    if s.state == SLOT_BUSY:
        done = s.done
        s.done = NULL
        if outcome == SLOT_LOST and not s.rows and slot_explained(s.result):
            res = s.result
            s.result = NULL
            reason = pg_error(res)
            s.reason[0] = 0
    if s.reason[0]:
        reason = s.reason
    if not s.pool.closing:
        slotpool_trouble(s.pool, reason, s.why)
    slot_drop(s)
    slot_move(s, SLOT_BROKEN)
    if not s.pool.closing:
        slot_due(s, s.backoff_ms // 2 + uuid_random(&s.pool.random) % (s.backoff_ms // 2 + 1))
        s.backoff_ms = s.backoff_ms * 2 if s.backoff_ms * 2 < SLOT_BACKOFF_MAX_MS else SLOT_BACKOFF_MAX_MS
    if done != NULL:
        s.pool.counters.db_errors += 1
        done(s, s.ctx, res, outcome)
    PQclear(res)

cdef void slot_drop(Slot* s) noexcept nogil:
    # Frees the connection and its results.
    slot_unwatch(s)
    PQclear(s.result)
    s.result = NULL
    if s.conn != NULL:
        PQfinish(s.conn)
        s.conn = NULL
        s.pool.counters.live_slots -= 1

cdef void slot_replace(Slot* s) noexcept nogil:
    # Replaces an idle connection by a new one, which has small buffers. One after the other, so that others serve.
    if s.pool.ready < s.pool.n:
        slot_due(s, SLOT_REST_MS // 10)
        return
    slot_drop(s)
    slot_move(s, SLOT_BROKEN)
    slotpool_connect_one(s)

# ---- statements ------------------------------------------------------------------------------------------------------
# In pipeline mode, one at a time. Statement and sync leave together. The answer counts only once the sync is answered:
# then the transaction has committed. Answers of a server that was replaced (pg/incarnation) are dropped.

cdef bint slot_outdated(Slot* s) noexcept nogil:
    # Breaks an idle connection that is out of date, and returns True: the server was replaced, may be read-only, or has
    # other functions.
    if s.incarnation != incarnation_now():
        slot_break(s, b"the server was replaced", SLOT_LOST)
    elif s.suspicions != atomic_get64(&doubt.suspicions):
        slot_break(s, b"the server may have become read-only", SLOT_LOST)
    elif s.refusals != atomic_get64(&edition.refusals):
        slot_break(s, b"the functions of the database are others now", SLOT_LOST)
    else:
        return False
    return True

cdef bint slot_send(Slot* s, int statement, Params* params, slot_done done, void* ctx, int deadline_ms) noexcept nogil:
    # Starts a statement on an idle slot. Returns True if `done` will be called exactly once, later or (connection
    # already dead) before the return. Returns False if the slot broke or memory ran out (params.failed). Then the
    # statement was not sent, and `done` is not called. The parameters are copied: their memory may be reused at once.
    cdef size_t bytes = 0
    cdef int i
    if params.failed or s.state != SLOT_IDLE or slot_outdated(s):
        return False
    if s.pool.statements[statement].fenced:
        # uses the loop's clock, like the deadline, so that both pass at the same moment; INT64_MAX is infinity
        args_param_int8(params, INT64_MAX if not clock_db_known() else clock_db_at(<int64_t>uv_now(s.pool.loop) * 1000)
                        + <int64_t>deadline_ms * 1000 - POSTGRES_EPOCH_US)
    for i in range(params.n):
        bytes += <size_t>params.lengths[i]
    s.large |= bytes > SLOT_KEEP
    if PQsendQueryPrepared(s.conn, s.pool.statements[statement].name, params.n, params.values, params.lengths,
                           PARAMS_BINARY, 1) != 1:
        slot_break(s, PQerrorMessage(s.conn), SLOT_LOST)
        return False
    return slot_begin(s, statement, done, ctx, deadline_ms)

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
            s.unserved = not health_edition_serves(pg_int4(res, 0, EDITION_NUMBER), pg_int4(res, 0, EDITION_SERVES),
                                                   s.reason, SLOT_REASON)
    if s.result != NULL and slot_failed(res) and not slot_explained(res):
        PQclear(res)          # follows an error that is already kept, or is libpq's own error for a lost connection
        return True
    PQclear(s.result)         # an error after the rows is the commit's: it replaces the rows
    s.result = res
    s.large |= PQresultMemorySize(res) > SLOT_KEEP
    return True

cdef inline bint slot_failed(PGresult* res) noexcept nogil:
    # Returns True also for NULL, whose status is that of an error.
    cdef ExecStatusType status = PQresultStatus(res)
    return status != PGRES_TUPLES_OK and status != PGRES_COMMAND_OK

cdef inline bint slot_explained(PGresult* res) noexcept nogil:
    # Returns True for an error that the server sent. Errors made by libpq have no SQLSTATE.
    return slot_failed(res) and PQresultErrorField(res, PG_DIAG_SQLSTATE) != NULL

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
        slotpool_prepared(s)
        return
    uv_rwlock_rdlock(&incarnation.lock)
    if s.incarnation != incarnation.number:
        # Drops the answer: its server was replaced, and the new server may lack what the answer reports.
        uv_rwlock_rdunlock(&incarnation.lock)
        slot_break(s, b"the server was replaced", SLOT_LOST)
        return
    s.result = NULL
    s.done = NULL
    slot_move(s, SLOT_IDLE)   # before the callback, so that `done` can send the next statement at once
    if failed:
        p.counters.db_errors += 1
        slot_note_error(s, res)
    elif (p.statements == &STATEMENTS[0]      # test seams have statements of their own
          and statement_stores(s.statement) and statement_stored(s.statement, res)):
        health_stored()
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
    if s.large and s.state == SLOT_IDLE:
        slot_due(s, SLOT_REST_MS)

cdef void slot_note_error(Slot* s, PGresult* res) noexcept nogil:
    # Notes errors that a new connection may avoid. A statement that ran too late carries the server's clock, which has
    # jumped, because this process still waits for it.
    cdef const char* now
    if pg_sqlstate(res, b"QD408"):
        now = PQresultErrorField(res, PG_DIAG_MESSAGE_DETAIL)
        if now != NULL:
            clock_db_sample(atoll(now), s.sent_us, clock_mono_us())
    if sqlstate_of(res).anew:
        s.refresh = sqlstate_of(res).meaning
    elif health_edition_unfit(res):
        s.refresh = b"the functions of the database are others now"
    if pg_sqlstate(res, b"25006"):
        s.why = DOUBT_READ_ONLY
        if s.suspicions == atomic_get64(&doubt.suspicions):
            atomic_set64(&doubt.suspicions, s.suspicions + 1)
    elif pg_sqlstate(res, b"53100"):
        atomic_set64(&doubt.disk_us, s.sent_us)
