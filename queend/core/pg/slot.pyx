# A slot is one PostgreSQL connection on the worker's loop. In: prepared statements with binary parameters. Out: one
# callback per statement, with the rows or with what is known about the failure. A slot carries one statement at a time,
# in pipeline mode: statement and sync leave together, and the answer counts only when the sync's answer has come too,
# because that is when the transaction has committed.
#
# A slot connects and prepares (pg/dial), serves, breaks (slot_break) and connects again after a jittered pause;
# slotpool_close closes. Connections to a server that another has replaced (pg/incarnation) answer nobody any more.
# Everything happens on the loop's thread. Memory of a pool lives until `closed`.

cdef enum SlotState:
    SLOT_CLOSED
    SLOT_CONNECTING
    SLOT_PREPARING
    SLOT_IDLE
    SLOT_BUSY
    SLOT_BROKEN               # no connection; the timer runs until the next attempt

cdef enum:
    SLOT_OK = 0               # rows; the transaction has committed
    SLOT_ERROR = 1            # the server refused; the transaction was rolled back; the connection goes on
    SLOT_LOST = 2             # the connection is gone. res NULL: whether it committed is unknown; res not NULL: the
                              # server said why, and that nothing was committed (shutdown, terminated)
    SLOT_DEADLINE = 3         # no answer in time; whether it committed, or will, is unknown
    SLOT_UNSENT = 4           # nothing was sent, nor is it below: no connection was free
    SLOT_NO_MEMORY = 5
    SLOT_TOO_LARGE = 6        # PostgreSQL takes no such message

cdef enum:
    SLOT_BACKOFF_MIN_MS = 50
    SLOT_BACKOFF_MAX_MS = 5000
    SLOT_CONNECT_MS = 10000   # without connect_timeout in the connection string, which libpq leaves to us
    SLOT_REASON = 400

cdef struct Slot
cdef struct SlotPool
ctypedef void (*slot_done)(Slot*, void*, PGresult*, int) noexcept nogil

cdef struct Slot:
    SlotPool* pool
    Slot* next_idle
    int64_t server            # the incarnation it is connected to
    int64_t served_us         # monotonic, since when it is
    int first                 # host that it began to connect with
    int64_t suspicions        # of the process when it was connected
    int state
    int statement             # what is in flight, -1 for a one-off text
    PGconn* conn
    uv_poll_t* poll           # belongs to the socket: a new socket gets a new one
    int fd
    int events                # what the poll waits for now
    uv_timer_t timer
    uint64_t timer_at         # loop ms when the timer fires, 0: it does not run
    uint64_t due_at           # loop ms when the present state has lasted too long
    int backoff_ms
    PGresult* result          # of the statement in flight, until its sync
    int nulls                 # NULL results in a row
    bint rows                 # its rows came: from here on a lost connection leaves the outcome unknown
    slot_done done
    void* ctx
    int64_t sent_us           # monotonic, when the last statement was sent
    const char* refresh       # why to connect anew when the call is over, NULL: not
    int why                   # DOUBT_*, of that reason
    char[SLOT_REASON] reason  # why the connection is about to go, when known early
    int64_t refusals          # of editions, when it was prepared
    bint unserved             # the functions of the database do not serve us; `reason` says why

cdef struct SlotPool:
    uv_loop_t* loop
    char* conninfo
    const char* session       # a statement that makes the session's settings, "": none
    Address address
    const StatementDef* statements
    int n_statements
    void* owner
    void (*on_idle)(void*) noexcept nogil
    void (*on_server)(void*) noexcept nogil    # before the first slot of another incarnation becomes idle; may be NULL
    int64_t server            # the incarnation the owner knows of
    Counters* counters
    Slot* slots
    int n
    int connect_ms            # from the first packet to the last PREPARE
    Slot* idle                # last in, first out: few warm connections carry a light load
    int ready                 # slots idle or busy
    int handles               # libuv handles not yet closed, and the look-up under way
    bint closing
    void (*closed)(void*) noexcept nogil
    void* closed_ctx
    UuidGen random
    bint trouble              # a failure was logged and not all slots are back
    uint64_t trouble_hash     # of the reason logged last
    uint64_t trouble_at

# -- state ------------------------------------------------------------------------------------------------------------

cdef void slot_move(Slot* s, int to) noexcept nogil:
    # The only place where a state changes, with the lists and counts that follow from it.
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
    s.state = to
    if to == SLOT_IDLE:
        s.next_idle = p.idle
        p.idle = s
    if to == SLOT_IDLE or to == SLOT_BUSY:
        p.ready += 1
    atomic_set64(&p.counters.connected, p.ready)

cdef void slot_due(Slot* s, uint64_t in_ms) noexcept nogil:
    # The present state must end within in_ms. A running timer that fires earlier is left alone: it re-arms itself, so
    # that ordinary statements do not touch the timer at all.
    s.due_at = uv_now(s.pool.loop) + in_ms
    if s.timer_at == 0 or s.due_at < s.timer_at:
        s.timer_at = s.due_at
        uv_timer_start(&s.timer, slot_on_timer, in_ms, 0)

cdef void slot_on_timer(uv_timer_t* handle) noexcept nogil:
    cdef Slot* s = <Slot*>handle.data
    cdef uint64_t now = uv_now(s.pool.loop)
    s.timer_at = 0
    if s.state == SLOT_IDLE or s.state == SLOT_CLOSED:
        return
    if now < s.due_at:
        slot_due(s, s.due_at - now)
    elif s.state == SLOT_BROKEN:
        slot_connect(s)
    elif s.state == SLOT_BUSY:
        slot_break(s, b"no answer before the deadline", SLOT_DEADLINE)
    else:
        address_silent(&s.pool.address, s.first)
        slot_break(s, b"connecting takes too long", SLOT_LOST)

# -- socket -----------------------------------------------------------------------------------------------------------

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
    # Waits for events on the connection's socket, which libpq may have replaced since the last time.
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
        s.events = 0          # libuv stopped the poll; libpq finds out why by trying
    if s.state == SLOT_CONNECTING:
        slot_handshake(s)
    else:
        slot_serve(s, status < 0 or events & UV_READABLE != 0)

cdef void slot_flush(Slot* s) noexcept nogil:
    # Always readable: a connection that dies while idle is replaced before somebody needs it.
    cdef int left = PQflush(s.conn)
    if left < 0:
        slot_break(s, PQerrorMessage(s.conn), SLOT_LOST)
    else:
        slot_watch(s, UV_READABLE | UV_WRITABLE if left else UV_READABLE)

cdef void slot_break(Slot* s, const char* reason, int outcome) noexcept nogil:
    # Drops the connection, tells the statement in flight, and tries again after a pause (at most backoff_ms, at least
    # half of it, so that slots spread out).
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
        slotpool_complain(s.pool, reason, s.why)
    slot_drop(s)
    slot_move(s, SLOT_BROKEN)
    if not s.pool.closing:
        slot_due(s, s.backoff_ms // 2 + uuidgen_random(&s.pool.random) % (s.backoff_ms // 2 + 1))
        s.backoff_ms = s.backoff_ms * 2 if s.backoff_ms * 2 < SLOT_BACKOFF_MAX_MS else SLOT_BACKOFF_MAX_MS
    if done != NULL:
        s.pool.counters.db_errors += 1
        done(s, s.ctx, res, outcome)
    PQclear(res)

cdef inline bint slot_explained(PGresult* res) noexcept nogil:
    # An error that the server sent; libpq makes up others, which have no SQLSTATE.
    return slot_failed(res) and res != NULL and PQresultErrorField(res, PG_DIAG_SQLSTATE) != NULL

cdef void slot_drop(Slot* s) noexcept nogil:
    # Gives back the connection and what belongs to it.
    slot_unwatch(s)
    PQclear(s.result)
    s.result = NULL
    if s.conn != NULL:
        PQfinish(s.conn)
        s.conn = NULL
        s.pool.counters.live_slots -= 1

# -- statements -------------------------------------------------------------------------------------------------------

cdef bint slot_outlived(Slot* s) noexcept nogil:
    # Is this idle connection one to a server that another has replaced, to one that takes no writes any more, or to
    # functions that turned out not to be ours? Then it goes.
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
    # The statement was handed to libpq: send it.
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
    # Starts a statement on an idle slot. True: `done` will be called exactly once, later or (connection already dead)
    # before this returns. False: nothing was sent and `done` is never called; the slot has broken, or memory ran out
    # (params.failed). The parameters are copied: their memory is free again at once.
    if params.failed or s.state != SLOT_IDLE or slot_outlived(s):
        return False
    if s.pool.statements[statement].fenced:
        # by the loop's clock, as the deadline: when that has passed, so has this moment
        params_moment(params, INFINITE_US if not dbclock_known() else
                      dbclock_at(<int64_t>uv_now(s.pool.loop) * 1000) + <int64_t>deadline_ms * 1000)
    if PQsendQueryPrepared(s.conn, s.pool.statements[statement].name, params.n, params.values, params.lengths,
                           PARAMS_BINARY, 1) != 1:
        slot_break(s, PQerrorMessage(s.conn), SLOT_LOST)
        return False
    return slot_begin(s, statement, done, ctx, deadline_ms)

cdef void slot_serve(Slot* s, bint readable) noexcept nogil:
    # The socket of an established connection is ready.
    cdef bint alive = True
    cdef bint more = True
    cdef PGconn* conn = s.conn
    s.nulls = 0
    if readable:
        alive = PQconsumeInput(conn) == 1 and PQstatus(conn) != CONNECTION_BAD
        if not alive and s.reason[0] == 0:
            strncpy(s.reason, PQerrorMessage(conn), SLOT_REASON - 1)    # reading on adds to it
    while more and s.conn == conn and PQisBusy(conn) == 0:
        more = slot_take_result(s, PQgetResult(conn))
    if s.conn != conn:
        return                # a callback, or a failed PREPARE, has dropped it
    if not alive or PQstatus(conn) == CONNECTION_BAD:
        slot_break(s, PQerrorMessage(conn), SLOT_LOST)
    else:
        slot_flush(s)

cdef bint slot_take_result(Slot* s, PGresult* res) noexcept nogil:
    # One step of reading answers; False when there is nothing more to read. In pipeline mode a NULL ends each
    # statement and only a second NULL in a row means that nothing is left; but nothing is left as well once the sync
    # was answered, because a slot never has two in flight.
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
        if s.state == SLOT_PREPARING and PQntuples(res) == 1 and strcmp(PQfname(res, 0), b"edition") == 0:
            s.unserved = not edition_serves(pg_int4(res, 0, 0), pg_int4(res, 0, 1), s.reason, SLOT_REASON)
    if s.result != NULL and slot_failed(res) and not slot_explained(res):
        PQclear(res)          # follows an error that is already kept, or libpq's own word for a lost connection
        return True
    PQclear(s.result)         # an error after the rows is the commit's: it replaces them
    s.result = res
    return True

cdef inline bint slot_failed(PGresult* res) noexcept nogil:
    cdef ExecStatusType status
    if res == NULL:
        return True
    status = PQresultStatus(res)
    return status != PGRES_TUPLES_OK and status != PGRES_COMMAND_OK

cdef void slot_synced(Slot* s) noexcept nogil:
    # The transaction is over: hand out what came of it.
    cdef PGresult* res = s.result
    cdef slot_done done = s.done
    cdef SlotPool* p = s.pool
    cdef bint failed = slot_failed(res)
    atomic_set64(&p.counters.silent_since, 0)
    if s.state == SLOT_PREPARING:
        slot_prepared(s)
        return
    uv_rwlock_rdlock(&incarnation.lock)
    if s.server != incarnation.number:
        # What it says was true of a server that is gone: whether it is of the one that replaced it nobody knows.
        uv_rwlock_rdunlock(&incarnation.lock)
        slot_break(s, b"the server was replaced", SLOT_LOST)
        return
    s.result = NULL
    s.done = NULL
    slot_move(s, SLOT_IDLE)   # so that `done` can send the next statement before it does anything else
    if failed:
        p.counters.db_errors += 1
        slot_doubted(s, res)
    elif atomic_get64(&doubt.disk_us) and statement_stores(s.statement):
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
    # Errors that are the connection's: a new one may do better. A statement that came too late tells what the clock
    # shows: it has jumped, for this process still waits.
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
